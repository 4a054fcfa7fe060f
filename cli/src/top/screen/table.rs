//! A row for each tag. Where there is little room, the less important columns are left out.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row as Widget, Table, TableState};

use super::bars;
use super::theme::Theme;
use crate::human;
use crate::top::app::{App, Row, Sort};

/// Buffers that last less than this, in seconds, are short.
const SHORT: f64 = 60.0;

/// How wide the names of tags may be before other columns are shown.
const NAMES: u16 = 28;

/// A column, and from which width of the screen on it is shown, if the names of tags have room.
struct Column {
    title: &'static str,
    width: Width,
    from: u16,
    sort: Option<Sort>,
    is_number: bool,
    cell: fn(&Row<'_>, &Theme, u16) -> (String, Style),
}

/// How wide a column is.
enum Width {
    /// As wide as the longest name, or what the others leave.
    Name,
    Fixed(u16),
    /// At least so wide, and a share of what the others leave.
    Share(u16),
}

impl Width {
    fn least(&self) -> u16 {
        match self {
            Width::Name => 0,
            Width::Fixed(width) | Width::Share(width) => *width,
        }
    }
}

const fn column(
    title: &'static str,
    width: Width,
    from: u16,
    sort: Option<Sort>,
    is_number: bool,
    cell: fn(&Row<'_>, &Theme, u16) -> (String, Style),
) -> Column {
    Column {
        title,
        width,
        from,
        sort,
        is_number,
        cell,
    }
}

const COLUMNS: [Column; 12] = [
    column(
        "TAG",
        Width::Name,
        0,
        Some(Sort::Name),
        false,
        |row, _, width| {
            let name = human::printable(&row.tag.tag);
            (human::shortened(&name, width.into()), Style::new())
        },
    ),
    column(
        "DATABASE",
        Width::Share(10),
        60,
        None,
        false,
        |row, _, _| (human::printable(&row.source.name), Style::new()),
    ),
    column(
        "POSITION",
        Width::Fixed(20),
        110,
        None,
        true,
        |row, _, _| {
            (
                row.tag.position.map(human::grouped).unwrap_or_default(),
                Style::new(),
            )
        },
    ),
    column(
        "IDS/S",
        Width::Fixed(6),
        0,
        Some(Sort::Rate),
        true,
        |row, _, _| (human::count(row.rate), Style::new()),
    ),
    column("BUFFERS", Width::Fixed(18), 60, None, false, buffers),
    column("LAST", Width::Fixed(7), 0, None, true, buffers_last),
    column("STEP", Width::Fixed(5), 76, None, true, |row, _, _| {
        (human::count(row.tag.step as f64), Style::new())
    }),
    column(
        "WAITS",
        Width::Fixed(6),
        40,
        Some(Sort::Waits),
        true,
        |row, theme, _| counted(row.tag.waits, theme.warning()),
    ),
    column("LONGEST", Width::Fixed(7), 120, None, true, |row, _, _| {
        (
            human::duration(row.tag.longest_wait_ms / 1_000.0),
            Style::new(),
        )
    }),
    column("FAIL", Width::Fixed(5), 70, None, true, |row, theme, _| {
        counted(row.tag.timeouts, theme.bad())
    }),
    column(
        "IDS LAST",
        Width::Fixed(9),
        90,
        Some(Sort::Left),
        true,
        |row, _, _| {
            (
                row.tag
                    .time_left_seconds
                    .map(human::duration)
                    .unwrap_or_default(),
                Style::new(),
            )
        },
    ),
    column(
        "ERROR",
        Width::Share(24),
        100,
        Some(Sort::Errors),
        false,
        |row, theme, _| {
            let error = row.tag.last_error.as_deref().unwrap_or_default();
            (human::printable(error), theme.bad())
        },
    ),
];

fn counted(number: i64, style: Style) -> (String, Style) {
    match number {
        0 => ("0".into(), Style::new()),
        _ => (human::count(number as f64), style),
    }
}

fn buffers(row: &Row<'_>, theme: &Theme, width: u16) -> (String, Style) {
    let style = match row.buffers_last() {
        Some(seconds) if seconds < SHORT => theme.warning(),
        _ => theme.good(),
    };
    (bars::buffers(row.fill, usize::from(width)), style)
}

fn buffers_last(row: &Row<'_>, theme: &Theme, _: u16) -> (String, Style) {
    match row.buffers_last() {
        Some(seconds) if seconds < SHORT => (human::duration(seconds), theme.warning()),
        Some(seconds) => (human::duration(seconds), Style::new()),
        None => (String::new(), Style::new()),
    }
}

/// Draws the table.
pub fn draw(frame: &mut Frame<'_>, app: &App, theme: &Theme, area: Rect) {
    let rows = app.rows();
    if rows.is_empty() {
        let text = match app.filter.is_empty() {
            true => "There are no tags, or none that this role may see.",
            false => "No tag has this in its name.",
        };
        frame.render_widget(Paragraph::new(text).alignment(Alignment::Center), area);
        return;
    }
    let has_several = app.sources.len() > 1;
    let names = rows
        .iter()
        .map(|row| human::printable(&row.tag.tag).chars().count());
    let longest = names.max().and_then(|longest| u16::try_from(longest).ok());
    let longest = longest.unwrap_or(u16::MAX).max(3);
    let (shown, name) = columns(area.width, longest, has_several);
    let titles = shown.iter().map(|column| {
        let is_sorted = column.sort == Some(app.sort);
        let style = match is_sorted {
            true => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            false => Style::new(),
        };
        cell(column, column.title.to_owned(), style)
    });
    let header = Widget::new(titles).style(theme.title());
    let cells = |row: &Row<'_>| {
        Widget::new(shown.iter().map(|column| {
            let width = match column.width {
                Width::Name => name,
                Width::Fixed(width) => width,
                Width::Share(_) => area.width,
            };
            let (text, style) = (column.cell)(row, theme, width);
            cell(column, text, style)
        }))
    };
    let widths = shown.iter().map(|column| match column.width {
        Width::Name => Constraint::Length(name),
        Width::Fixed(width) => Constraint::Length(width),
        Width::Share(share) => Constraint::Fill(share),
    });
    let table = Table::new(rows.iter().map(cells), widths)
        .header(header)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(app.selected);
    frame.render_stateful_widget(table, area, &mut state);
}

/// The columns for which there is room on a screen, and how wide that of the names is: as wide as the
/// longest one, up to [`NAMES`], before any column that is left out on narrower screens.
fn columns(width: u16, longest: u16, has_several: bool) -> (Vec<&'static Column>, u16) {
    let mut left = width.saturating_sub(longest.min(NAMES));
    let mut order: Vec<_> = COLUMNS.iter().enumerate().collect();
    order.sort_by_key(|(_, column)| column.from);
    let mut shown = Vec::new();
    for (at, column) in order {
        let needs = match column.width {
            Width::Name => 0,
            _ => column.width.least() + 1,
        };
        let is_wanted = column.title != "DATABASE" || has_several;
        if is_wanted && (column.from == 0 || column.from <= width && needs <= left) {
            left = left.saturating_sub(needs);
            shown.push(at);
        }
    }
    shown.sort_unstable();
    let shown: Vec<&Column> = shown.into_iter().map(|at| &COLUMNS[at]).collect();
    let others: u16 = shown.iter().skip(1).map(|it| it.width.least() + 1).sum();
    let has_share = shown.iter().any(|it| matches!(it.width, Width::Share(_)));
    let room = width.saturating_sub(others);
    let name = match has_share {
        true => room.min(longest).min(NAMES),
        false => room,
    };
    (shown, name)
}

fn cell<'a>(column: &Column, text: String, style: Style) -> Cell<'a> {
    let line = Line::styled(text, style);
    let line = match column.is_number {
        true => line.right_aligned(),
        false => line,
    };
    Cell::from(Text::from(line))
}
