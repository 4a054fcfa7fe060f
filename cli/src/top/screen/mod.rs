//! Draws what the app knows, for any size of the terminal.
//!
//! - [`header`]: a line for each database.
//! - [`table`]: a row for each tag.
//! - [`bars`]: the two buffers of a tag.
//! - [`theme`], colours.
//! - [`panes`]: help, and everything about a tag.

mod bars;
mod header;
mod panes;
mod table;
mod theme;

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::{Line, Span};

use super::app::{App, Mode};
pub use theme::Theme;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, app: &App, theme: &Theme, now: Timestamp) {
    let area = frame.area();
    let lines = header::lines(app, theme, now, area);
    let parts = [
        Constraint::Length(lines.len() as u16),
        Constraint::Fill(1),
        Constraint::Length(1),
    ];
    let [top, middle, bottom] = Layout::vertical(parts).areas(area);
    frame.render_widget(ratatui::text::Text::from(lines), top);
    match app.mode {
        Mode::Help => panes::help(frame, middle),
        Mode::Detail => panes::detail(frame, app, theme, middle),
        Mode::Table | Mode::Filter => table::draw(frame, app, theme, middle),
    }
    frame.render_widget(footer(app, theme), bottom);
}

fn footer<'a>(app: &App, theme: &Theme) -> Line<'a> {
    match app.mode {
        Mode::Filter => Line::from(format!("/{}▏", app.filter)),
        Mode::Help | Mode::Detail => Line::styled("any key: back   q: end", theme.faint()),
        Mode::Table if !app.filter.is_empty() => Line::from(vec![
            Span::raw(format!("filter: {}", app.filter)),
            Span::styled("   Esc: all tags   q: end", theme.faint()),
        ]),
        Mode::Table => Line::styled(
            "q: end   ?: keys   /: filter   Enter: details   Space: pause",
            theme.faint(),
        ),
    }
}
