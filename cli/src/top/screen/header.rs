//! A line for each database: server, loader, worker id, clock, lease and centre.

use jiff::Timestamp;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::theme::Theme;
use crate::human;
use crate::look::{Look, Snowflake, Tag, Upstream};
use crate::top::app::{App, Source};

/// The first line is about everything, then there is one for each database, as far as a
/// third of the screen suffices.
pub fn lines<'a>(app: &'a App, theme: &Theme, now: Timestamp, area: Rect) -> Vec<Line<'a>> {
    let room = usize::from(area.height / 3).max(1);
    let mut lines = vec![summary(app, theme, now)];
    let shown = match app.sources.len() > room {
        true => room - 1,
        false => app.sources.len(),
    };
    let each = app.sources.iter().take(shown);
    let width = usize::from(area.width);
    lines.extend(each.flat_map(|source| {
        let mut lines = wrapped(about(source, theme, now), width);
        // Of several, each has one line: what matters less stands at its end.
        lines.truncate(if app.sources.len() > 1 {
            1
        } else {
            lines.len()
        });
        lines
    }));
    if shown < app.sources.len() {
        let more = app.sources.len() - shown;
        lines.push(Line::styled(
            format!("and {more} databases more"),
            theme.faint(),
        ));
    }
    lines
}

fn summary<'a>(app: &App, theme: &Theme, now: Timestamp) -> Line<'a> {
    let rows = app.rows();
    let rate: f64 = rows.iter().map(|row| row.rate).sum();
    let tags = match rows.len() {
        1 => "1 tag".into(),
        count => format!("{count} tags"),
    };
    let interval = human::duration(app.interval().as_secs_f64());
    let clock = human::time_of_day(now);
    let server = app.server.as_deref().map(human::printable);
    let mut spans = vec![
        Span::styled("leaf", Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(
            server
                .map(|server| format!(" on {server}"))
                .unwrap_or_default(),
        ),
        Span::raw(format!(
            "  {clock}  every {interval}  {tags}  {} ids/s",
            human::count(rate)
        )),
    ];
    if app.is_paused {
        spans.push(Span::styled("  paused", theme.warning()));
    }
    Line::from(spans)
}

/// As many lines as are needed, with whole spans.
fn wrapped(spans: Vec<Span<'_>>, width: usize) -> Vec<Line<'_>> {
    let mut lines = vec![Line::default()];
    for span in spans {
        let is_full = lines
            .last()
            .is_some_and(|line| line.width() > 0 && line.width() + span.width() > width);
        if is_full {
            lines.push(Line::default());
        }
        if let Some(line) = lines.last_mut() {
            line.push_span(span);
        }
    }
    lines
}

fn about<'a>(source: &'a Source, theme: &Theme, now: Timestamp) -> Vec<Span<'a>> {
    let mut spans = vec![Span::styled(
        human::printable(&source.name),
        Style::new().add_modifier(Modifier::BOLD),
    )];
    if let Some(error) = &source.error {
        spans.push(Span::styled(
            format!("  {}", human::printable(error)),
            theme.bad(),
        ));
        return spans;
    }
    let Some(look) = &source.look else {
        spans.push(Span::styled("  …", theme.faint()));
        return spans;
    };
    spans.extend(of_server(look, theme));
    if let Some(evictions) = Tag::about_evictions(&look.tags) {
        spans.push(Span::styled(format!("  {evictions}"), theme.warning()));
    }
    if let Some(snowflake) = &look.snowflake {
        spans.extend(of_snowflake(snowflake, theme, now));
    }
    if let Some(upstream) = &look.upstream {
        spans.extend(of_upstream(upstream, theme));
    }
    spans
}

fn of_server<'a>(look: &Look, theme: &Theme) -> Vec<Span<'a>> {
    let server = &look.server;
    let mut spans = vec![Span::raw(format!("  {}", server.version))];
    if server.is_in_recovery {
        spans.push(Span::styled("  standby", theme.warning()));
    }
    if let Some(pid) = server.loader_pid {
        spans.push(Span::raw(format!("  loader {pid}")));
    }
    spans
}

fn of_snowflake<'a>(snowflake: &Snowflake, theme: &Theme, now: Timestamp) -> Vec<Span<'a>> {
    let mut spans = Vec::new();
    if let Some(worker_id) = snowflake.worker_id {
        spans.push(Span::raw(format!("  worker {worker_id}")));
    }
    if let Some(ms) = snowflake.clock_offset_ms {
        spans.push(Span::raw(format!("  clock {ms:+.1}ms")));
    }
    if let Some(ceiling) = snowflake.ceiling {
        let left = ceiling.duration_since(now).as_secs_f64();
        // Nobody draws: it is raised with the next draw.
        let text = match left < 0.0 {
            true => "  lease idle".into(),
            false => format!("  lease {}", human::duration(left)),
        };
        spans.push(Span::raw(text));
    }
    if snowflake.rollbacks > 0 {
        let text = format!("  {} rollbacks", snowflake.rollbacks);
        spans.push(Span::styled(text, theme.warning()));
    }
    if let Some(error) = &snowflake.last_error {
        spans.push(Span::styled(
            format!("  {}", human::printable(error)),
            theme.bad(),
        ));
    }
    spans
}

fn of_upstream<'a>(upstream: &Upstream, theme: &Theme) -> Vec<Span<'a>> {
    let host = human::printable(upstream.host.as_deref().unwrap_or("?"));
    match upstream.connected_since {
        Some(_) => vec![Span::styled(format!("  centre {host}"), theme.good())],
        None => vec![Span::styled(
            format!("  centre {host} not connected"),
            theme.warning(),
        )],
    }
}
