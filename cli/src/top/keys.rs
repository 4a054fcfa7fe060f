//! Which key does what.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::app::{App, Mode, Sort};

/// How far Page Up and Page Down go.
const PAGE: usize = 10;

/// The keys and what they do, as the help shows them.
pub const HELP: [(&str, &str); 13] = [
    ("n", "sort by name"),
    ("r", "sort by rate"),
    ("w", "sort by waits"),
    ("l", "sort by how long the ids last"),
    ("e", "sort by the time of the last error"),
    ("R", "reverse the order"),
    ("/", "show only tags whose name contains a text"),
    ("Enter", "show everything about the selected tag"),
    ("↑ ↓ j k", "select a tag; Page Up, Page Down, Home, End"),
    ("Space", "pause, continue"),
    ("+ -", "longer, shorter interval"),
    ("? h", "this help"),
    ("q", "end; Ctrl-C, too"),
];

/// Does what a key stands for.
pub fn press(app: &mut App, key: KeyEvent) {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        if key.code == KeyCode::Char('c') {
            app.end();
        }
        return;
    }
    match app.mode {
        Mode::Table => in_table(app, key.code),
        Mode::Filter => in_filter(app, key.code),
        Mode::Detail | Mode::Help => match key.code {
            KeyCode::Char('q') => app.end(),
            KeyCode::Up | KeyCode::Down | KeyCode::Char('j' | 'k') => in_table(app, key.code),
            _ => app.mode = Mode::Table,
        },
    }
}

fn in_table(app: &mut App, key: KeyCode) {
    match key {
        KeyCode::Char('q') => app.end(),
        KeyCode::Char('n') => app.sort_by(Sort::Name),
        KeyCode::Char('r') => app.sort_by(Sort::Rate),
        KeyCode::Char('w') => app.sort_by(Sort::Waits),
        KeyCode::Char('l') => app.sort_by(Sort::Left),
        KeyCode::Char('e') => app.sort_by(Sort::Errors),
        KeyCode::Char('R') => app.is_reversed = !app.is_reversed,
        KeyCode::Char('/') => app.mode = Mode::Filter,
        KeyCode::Char('?' | 'h') => app.mode = Mode::Help,
        KeyCode::Enter if !app.rows().is_empty() => app.mode = Mode::Detail,
        KeyCode::Char(' ') => app.is_paused = !app.is_paused,
        KeyCode::Char('+') => app.multiply_interval(2.0),
        KeyCode::Char('-') => app.multiply_interval(0.5),
        KeyCode::Esc => set_filter(app, String::new()),
        KeyCode::Down | KeyCode::Char('j') => app.select(app.selected + 1),
        KeyCode::Up | KeyCode::Char('k') => app.select(app.selected.saturating_sub(1)),
        KeyCode::PageDown => app.select(app.selected + PAGE),
        KeyCode::PageUp => app.select(app.selected.saturating_sub(PAGE)),
        KeyCode::Home => app.select(0),
        KeyCode::End => app.select(usize::MAX),
        _ => {}
    }
}

fn in_filter(app: &mut App, key: KeyCode) {
    match key {
        KeyCode::Enter => app.mode = Mode::Table,
        KeyCode::Esc => {
            app.mode = Mode::Table;
            set_filter(app, String::new());
        }
        KeyCode::Backspace => {
            let mut filter = app.filter.clone();
            filter.pop();
            set_filter(app, filter);
        }
        KeyCode::Char(c) => set_filter(app, format!("{}{c}", app.filter)),
        _ => {}
    }
}

fn set_filter(app: &mut App, filter: String) {
    app.filter = filter;
    app.select(app.selected);
}
