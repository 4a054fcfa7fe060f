//! docs/reference/settings.md has every setting, with its type, default, range and context,
//! and says what the server itself says about it.

use std::collections::BTreeMap;

use super::{flat, written};
use leaf_core::snowflake::{Layout, Scheme};
use leaf_tests::Server;
use leaf_tests::page::Part;

const PAGE: &str = "docs/reference/settings.md";

/// A line of properties as the page has it, and PostgreSQL's description.
fn settings() -> BTreeMap<String, (String, String)> {
    let server = Server::start();
    let rows = server.connect().query(
        "SELECT name, vartype, boot_val, coalesce(unit, ''), min_val, max_val,
                array_to_string(enumvals, ', '), context, concat_ws(' ', short_desc, extra_desc)
           FROM pg_settings WHERE name LIKE 'leaf.%'",
        &[],
    );
    let mut found = BTreeMap::new();
    for row in rows.expect("settings") {
        let text = |column: usize| row.get::<_, Option<&str>>(column).unwrap_or_default();
        let (kind, unit) = (text(1), text(3));
        let default = match text(2) {
            "" => "empty".to_owned(),
            value => format!("`{}`", with_unit(value, unit)),
        };
        let range = match (kind, unit) {
            ("integer", unit) => {
                let (min, max) = (with_unit(text(4), unit), with_unit(text(5), unit));
                format!(", {min} to {max}")
            }
            ("enum", _) => format!(", one of {}", text(6)),
            _ => String::new(),
        };
        let line = format!("{kind}, default {default}{range}, context `{}`", text(7));
        found.insert(text(0).to_owned(), (line, flat(text(8))));
    }
    found
}

#[test]
fn page_of_snowflake_ids_has_every_layout_as_it_is_and_no_other() {
    let server = Server::start();
    let mut client = server.connect();
    let mut row_of = |(name, layout): &(&str, Layout)| {
        let scheme = Scheme::of(*layout);
        let [epoch, end] = [scheme.epoch, scheme.ends_at()].map(|at| at.unix_us() / 1_000);
        let query = "
            SELECT ARRAY(SELECT to_char(n, 'FM999,999,999,999') FROM unnest($1::bigint[]) AS n)
                || ARRAY(SELECT to_char(to_timestamp(ms / 1e3) AT TIME ZONE 'UTC',
                                        'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')
                           FROM unnest($2::bigint[]) AS ms)";
        let counts = [layout.ticks(), layout.worker_ids(), layout.ids_per_tick()];
        let arguments: [Vec<i64>; 2] = [counts.map(|it| it as i64).into(), vec![epoch, end]];
        let row = client.query_one(query, &[&arguments[0], &arguments[1]]);
        let texts: Vec<String> = row.expect("texts").get(0);
        let [ticks, workers, sequences, epoch, end] = &texts[..] else {
            panic!("{texts:?}");
        };
        let unit = match layout.tick_us() {
            1_000 => "ms".to_owned(),
            1_000_000 => "s".to_owned(),
            us => format!("{} ms", us / 1_000),
        };
        let time = match layout.ticks().is_power_of_two() {
            true => format!("{} bits of {unit}", layout.ticks().ilog2()),
            false => format!("{ticks} {unit}"),
        };
        let epoch = epoch.trim_end_matches("T00:00:00.000Z");
        [
            &format!("`{name}`"),
            &time,
            workers,
            sequences,
            epoch,
            &end[..4],
        ]
        .map(str::to_owned)
    };
    let parts = Part::of("docs/operations/snowflake.md", 2);
    let part = parts.iter().find(|part| part.title == "Layouts");
    let mut rows = part.expect("a chapter").rows();
    let custom = rows.pop().expect("a row");
    assert!(custom[0].starts_with("`custom:"), "{custom:?}");
    let expected: Vec<_> = Layout::NAMED.iter().map(&mut row_of).collect();
    assert_eq!(rows, expected);
}

/// A value with the largest unit that divides it, as `SHOW` writes it.
fn with_unit(value: &str, unit: &str) -> String {
    let factor = match unit {
        "s" => 1_000,
        "ms" => 1,
        _ => return value.to_owned(),
    };
    let ms = factor * value.parse::<i64>().expect("a number");
    let units = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("min", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ];
    // A negative value means something else than a duration, such as "off".
    let found = units.iter().find(|(_, length)| ms % length == 0 && ms > 0);
    found.map_or(value.to_owned(), |(name, length)| {
        format!("{}{name}", ms / length)
    })
}

#[test]
fn page_has_every_setting_as_it_is_and_no_other() {
    let settings = settings();
    assert!(settings.len() > 20);
    let parts = Part::of(PAGE, 3);
    let described: Vec<_> = parts.iter().map(|part| &part.title).collect();
    let mut sorted = described.clone();
    sorted.sort();
    assert_eq!(sorted, settings.keys().collect::<Vec<_>>());
    let page = written::with_sections(PAGE, |name, text| {
        let (line, description) = &settings[name];
        // A new setting has neither.
        let own = match text.starts_with('*') {
            true => text.splitn(3, "\n\n").nth(2).unwrap_or_default(),
            false => text,
        };
        let description = written::wrapped(description, 120, "");
        format!("*{line}*\n\n{description}\n\n{own}")
    });
    written::is(PAGE, &page);
}
