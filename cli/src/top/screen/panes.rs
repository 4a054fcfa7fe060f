//! Help, and everything about a tag.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Paragraph, Wrap};

use super::theme::Theme;
use crate::human;
use crate::top::app::App;
use crate::top::keys::HELP;

/// The keys.
pub fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines = HELP
        .iter()
        .map(|(key, what)| pair(key, *what, Style::new()));
    let text: Vec<Line<'_>> = std::iter::once(Line::raw("")).chain(lines).collect();
    let text = Text::from(text);
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }), area);
}

/// Everything about the selected tag.
pub fn detail(frame: &mut Frame<'_>, app: &App, theme: &Theme, area: Rect) {
    let rows = app.rows();
    let Some(row) = rows.get(app.selected) else {
        return;
    };
    let tag = row.tag;
    let number = |number: Option<i64>| number.map(human::grouped).unwrap_or_default();
    let seconds = |seconds: Option<f64>| seconds.map(human::duration).unwrap_or_default();
    let percent = tag.used_percent.map(|percent| format!("{percent:.1}"));
    let mut lines = vec![Line::raw("")];
    let mut add = |name: &'static str, value: String, style: Style| {
        if !value.is_empty() {
            lines.push(pair(name, value, style));
        }
    };
    add(
        "tag",
        tag.tag.clone(),
        Style::new().add_modifier(Modifier::BOLD),
    );
    add("database", row.source.name.clone(), Style::new());
    add(
        "fed by",
        tag.upstream_tag.clone().unwrap_or_default(),
        Style::new(),
    );
    add("position", number(tag.position), Style::new());
    add("granted up to", number(tag.granted_up_to), Style::new());
    add("max_value", number(tag.max_value), Style::new());
    add("used %", percent.unwrap_or_default(), Style::new());
    add("ids last", seconds(tag.time_left_seconds), Style::new());
    add("ids/s", human::count(row.rate), Style::new());
    let buffers = format!(
        "{} in use, {} behind it",
        human::grouped(tag.current_left),
        human::grouped(tag.next_left)
    );
    add("buffers", buffers, Style::new());
    add("buffers last", seconds(row.buffers_last()), Style::new());
    add("step", human::grouped(tag.step), Style::new());
    add("loads", human::grouped(tag.loads), Style::new());
    let waits = format!(
        "{}, longest {}, together {}",
        human::grouped(tag.waits),
        human::duration(tag.longest_wait_ms / 1_000.0),
        human::duration(tag.total_wait_ms / 1_000.0)
    );
    add("waits", waits, Style::new());
    add("timeouts", human::grouped(tag.timeouts), Style::new());
    add(
        "last error",
        tag.last_error.clone().unwrap_or_default(),
        theme.bad(),
    );
    let at = tag.last_error_at.map(human::instant).unwrap_or_default();
    add("at", at, Style::new());
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

fn pair<'a>(name: &'a str, value: impl Into<String>, style: Style) -> Line<'a> {
    Line::from(vec![
        Span::styled(
            format!("{name:>14}  "),
            Style::new().add_modifier(Modifier::DIM),
        ),
        Span::styled(human::printable(&value.into()), style),
    ])
}
