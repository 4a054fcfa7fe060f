//! The screen at three widths, and what keys do to it.

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tokio::sync::watch;

use super::app::{App, Sort};
use super::keys::press;
use super::poll::Update;
use super::screen::{self, Theme};
use crate::look::{Look, Server, Snowflake, Tag, Upstream};

fn tag(name: &str) -> Tag {
    Tag {
        tag: name.into(),
        position: Some(1_234_567),
        granted_up_to: Some(2_000_000),
        max_value: Some(i64::MAX),
        ids_left: Some(i64::MAX - 1_234_567),
        used_percent: Some(0.0),
        time_left_seconds: Some(4e12),
        current_left: 500_000,
        next_left: 1_000_000,
        step: 1_000_000,
        loads: 7,
        ids_drawn: 1_234_566,
        ids_per_second: 42_000.0,
        ..Tag::default()
    }
}

/// A tag in good health, one whose loads fail, and one that nobody draws from.
fn tags() -> Vec<Tag> {
    let failing = Tag {
        current_left: 40,
        next_left: 0,
        step: 2_000,
        ids_per_second: 800.0,
        waits: 31,
        total_wait_ms: 5_000.0,
        longest_wait_ms: 1_250.0,
        timeouts: 3,
        time_left_seconds: Some(86_400.0 * 3.0),
        last_error: Some("canceling statement due to lock timeout".into()),
        last_error_at: "2026-11-22T09:59:00Z".parse().ok(),
        ..tag("invoices")
    };
    let idle = Tag {
        position: Some(1),
        current_left: 0,
        next_left: 0,
        step: 1_000,
        ids_drawn: 0,
        ids_per_second: 0.0,
        time_left_seconds: None,
        upstream_tag: Some("世界".into()),
        ..tag("an idle tag")
    };
    vec![idle, failing, tag("orders")]
}

fn look(tags: Vec<Tag>) -> Look {
    Look {
        server: Server {
            database: "shop".into(),
            version: "18.1".into(),
            leaf_version: "0.1.0".into(),
            is_plain: false,
            is_in_recovery: false,
            is_monitor: true,
            loader_pid: Some(4711),
        },
        tags,
        snowflake: Some(Snowflake {
            worker_id: Some(3),
            layout: Some("leaf".into()),
            epoch: None,
            ceiling: "2026-11-22T10:00:04.500Z".parse().ok(),
            last_issued_at: None,
            clock_lead_ms: Some(-3.0),
            clock_offset_ms: Some(0.25),
            rollbacks: 2,
            waits: 0,
            longest_wait_ms: 0.0,
            timeouts: 0,
            runs_out_at: None,
            used_percent: None,
            last_error: None,
            last_error_at: None,
        }),
        upstream: Some(Upstream {
            host: Some("centre".into()),
            connected_since: None,
            last_answer_at: None,
            feeds: 12,
            ids_fed: 12_000,
            failures: 1,
            last_error: Some("no answer".into()),
            last_error_at: None,
        }),
    }
}

fn app(server: Option<&str>, sources: &[&str]) -> App {
    let (interval, _) = watch::channel(Duration::from_secs(2));
    let names = sources.iter().map(|name| (*name).to_owned()).collect();
    App::new(server.map(str::to_owned), names, Sort::Rate, "", interval)
}

fn with_tags() -> App {
    let mut app = app(Some("db1:5432"), &["shop"]);
    let update = Update {
        source: 0,
        look: Ok(look(tags())),
    };
    app.update(update, Instant::now());
    app
}

fn drawn(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    let now = "2026-11-22T10:00:00Z".parse().expect("an instant");
    let theme = Theme::without_colors();
    terminal
        .draw(|frame| screen::draw(frame, app, &theme, now))
        .expect("a screen");
    let screen = terminal.backend().to_string();
    let lines = screen.lines().map(|line| line.trim_matches('"').trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

fn names(app: &App) -> Vec<String> {
    app.rows().iter().map(|row| row.tag.tag.clone()).collect()
}

fn type_keys(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            key => KeyCode::Char(key),
        };
        press(app, KeyEvent::new(code, KeyModifiers::NONE));
    }
}

#[test]
fn screen_of_60_columns_has_what_matters_most() {
    insta::assert_snapshot!(drawn(&with_tags(), 60, 10));
}

#[test]
fn screen_of_100_columns_has_errors() {
    insta::assert_snapshot!(drawn(&with_tags(), 100, 10));
}

#[test]
fn screen_of_160_columns_has_everything() {
    let mut app = app(None, &["shop on db1:5432", "shop on db2:5432"]);
    for source in 0..2 {
        let look = Ok(look(tags()));
        app.update(Update { source, look }, Instant::now());
    }
    insta::assert_snapshot!(drawn(&app, 160, 12));
}

/// A line for each, as far as they leave room for the tags, which say whose they are.
#[test]
fn screen_of_80_columns_has_many_databases() {
    let names = ["shop", "stock", "parcels", "staff", "billing", "archive"];
    let mut app = app(Some("/var/run/postgresql:5432"), &names);
    for source in 0..names.len() {
        let look = Ok(look(tags()));
        app.update(Update { source, look }, Instant::now());
    }
    insta::assert_snapshot!(drawn(&app, 80, 16));
}

/// Other columns are shown when the names have their room.
#[test]
fn names_of_tags_are_told_apart_at_every_width() {
    let names = ["archive", "number", "reminders"].map(|it| format!("billing.invoices.{it}"));
    let failing = |name: &String| Tag {
        last_error: Some("the tag has reached its max_value".into()),
        ..tag(name)
    };
    let mut app = app(Some("db1:5432"), &["shop"]);
    let look = Ok(look(names.iter().map(failing).collect()));
    app.update(Update { source: 0, look }, Instant::now());
    for width in [60, 80, 100, 110, 120, 160] {
        let screen = drawn(&app, width, 12);
        for name in &names {
            assert!(screen.contains(name.as_str()), "{width}: {screen}");
        }
    }
}

#[test]
fn details_have_the_whole_error() {
    let mut app = with_tags();
    type_keys(&mut app, "e\n");
    insta::assert_snapshot!(drawn(&app, 80, 24));
}

#[test]
fn help_has_every_key() {
    let mut app = with_tags();
    type_keys(&mut app, "?");
    insta::assert_snapshot!(drawn(&app, 80, 20));
}

#[test]
fn no_size_of_the_screen_is_too_small() {
    for (width, height) in [(1, 1), (3, 2), (7, 4), (20, 5), (500, 3)] {
        for keys in ["", "\n", "?", "/x"] {
            let mut app = with_tags();
            type_keys(&mut app, keys);
            drawn(&app, width, height);
        }
    }
}

#[test]
fn keys_sort_reverse_and_filter() {
    let mut app = with_tags();
    assert_eq!(names(&app), ["orders", "invoices", "an idle tag"]);
    type_keys(&mut app, "n");
    assert_eq!(names(&app), ["an idle tag", "invoices", "orders"]);
    type_keys(&mut app, "n");
    assert_eq!(names(&app), ["orders", "invoices", "an idle tag"]);
    type_keys(&mut app, "w");
    assert_eq!(names(&app)[0], "invoices");
    type_keys(&mut app, "l");
    assert_eq!(names(&app), ["invoices", "orders", "an idle tag"]);
    type_keys(&mut app, "/INV\n");
    assert_eq!(names(&app), ["invoices"]);
    type_keys(&mut app, "\x1b");
    assert_eq!(names(&app).len(), 3);
}

#[test]
fn keys_pause_change_the_interval_and_end() {
    let mut app = with_tags();
    type_keys(&mut app, " ");
    let look = Ok(look(vec![]));
    app.update(Update { source: 0, look }, Instant::now());
    assert_eq!(names(&app).len(), 3, "a paused screen stays");
    type_keys(&mut app, "+");
    assert_eq!(app.interval(), Duration::from_secs(4));
    type_keys(&mut app, "--------------");
    assert_eq!(app.interval(), Duration::from_millis(100));
    type_keys(&mut app, "q");
    assert!(app.is_over());
    let mut app = with_tags();
    press(
        &mut app,
        KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
    );
    assert!(app.is_over());
}

#[test]
fn rate_is_that_between_two_looks() {
    let mut app = with_tags();
    let later = Instant::now() + Duration::from_secs(10);
    let moved = tags().into_iter().map(|tag| Tag {
        ids_drawn: tag.ids_drawn + 1_000,
        ..tag
    });
    let look = Ok(look(moved.collect()));
    app.update(Update { source: 0, look }, later);
    let rate = app.rows()[0].rate;
    assert!((99.0..101.0).contains(&rate), "{rate}");
}

#[test]
fn source_that_cannot_be_reached_keeps_its_last_rows_and_says_why() {
    let mut app = with_tags();
    let look = Err("connection refused".to_owned());
    app.update(Update { source: 0, look }, Instant::now());
    let screen = drawn(&app, 100, 10);
    assert!(screen.contains("connection refused"), "{screen}");
    assert!(screen.contains("orders"), "{screen}");
}
