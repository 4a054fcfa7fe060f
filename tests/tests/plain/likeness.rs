//! Both editions answer the same: registries and tags that get the same random calls at the same
//! times.

use leaf_tests::postgres::{Client, SimpleQueryMessage};
use leaf_tests::{Draw, Server};

/// Where both servers' clocks begin, in seconds since 1970: some day of 2026.
const BEGINNING: i64 = 1_790_000_000;

/// What hints of the library say, and those of the plain edition instead.
const HINTS: [(&str, &str); 8] = [
    (
        "leaf.stat_segment shows the tags that you own; leaf_tag_create creates one.",
        "Check the spelling. If the tag is missing, create it with leaf_tag_create, with a start above the ids of rows that exist.",
    ),
    (
        "Check the spelling. If the tag is missing, create it with leaf_tag_create, or set leaf.auto_create, by which a draw creates it. If rows with its ids exist, call leaf_tag_align then.",
        "Check the spelling. If the tag is missing, create it with leaf_tag_create, with a start above the ids of rows that exist.",
    ),
    (
        "Set leaf.snowflake_layout and leaf.snowflake_epoch to",
        "Set snowflake_layout and snowflake_epoch in leaf.plain to",
    ),
    (
        "leaf.snowflake_layout accepts",
        "snowflake_layout in leaf.plain accepts",
    ),
    ("leaf.max_reserve sets", "max_reserve in leaf.plain sets"),
    (
        "leaf.max_clock_offset sets",
        "max_clock_offset in leaf.plain sets",
    ),
    (
        "raise leaf.max_leases for the role",
        "raise max_leases in leaf.plain",
    ),
    ("set leaf.worker_id to", "register with"),
];

/// A server of each edition whose clocks stand still.
struct Pair {
    servers: [Server; 2],
    clients: [Client; 2],
    random: fastrand::Rng,
    now: i64,
}

impl Pair {
    fn start(seed: u64) -> Pair {
        let library = Server::options().set("leaf.allow_unreplicated_centre", "on");
        let servers = [library, Server::options().plain()]
            .map(|options| options.clock().set("leaf.max_reserve", "1000000").start());
        let mut clients = servers.each_ref().map(|server| server.connect());
        for client in &mut clients {
            client.run("SET timezone = 'UTC'; CREATE ROLE clerk; CREATE ROLE shop;
                        GRANT EXECUTE ON FUNCTION leaf_tag_create TO shop, clerk;
                        GRANT EXECUTE ON FUNCTION leaf_worker_register, leaf_worker_renew, leaf_worker_release TO shop");
        }
        println!("random calls of seed {seed}");
        let mut pair = Pair {
            servers,
            clients,
            random: fastrand::Rng::with_seed(seed),
            now: 0,
        };
        pair.move_clock(0);
        pair
    }

    fn move_clock(&mut self, seconds: i64) {
        self.now += seconds;
        for server in &self.servers {
            server.clock().stand_at(BEGINNING + self.now);
        }
    }

    fn any<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.random.usize(..of.len())]
    }

    /// An instant near the servers' clocks.
    fn instant(&mut self) -> String {
        let off = self.any(&["0 s", "1 ms", "-4 s", "4 s", "6 s", "-1 h", "1 h"]);
        format!("clock_timestamp() + interval '{off}'")
    }

    /// Both answer a statement in the same way.
    fn answer(&mut self, statement: &str) -> Result<String, String> {
        let [one, other] = self
            .clients
            .each_mut()
            .map(|client| answer(client, statement));
        let as_plain = |text: String| {
            let differences = HINTS.iter();
            differences.fold(text, |text, (library, plain)| text.replace(library, plain))
        };
        let one = one.map(as_plain).map_err(as_plain);
        assert_eq!(one, other, "{statement}");
        one
    }

    /// The same for rows of a table, whose history and secrets are others.
    fn compare(&mut self, columns: &str, table: &str) {
        self.answer(&format!("SELECT {columns} FROM {table} ORDER BY 1"))
            .expect("the table");
    }
}

/// What a statement returns, or its error.
fn answer(client: &mut Client, statement: &str) -> Result<String, String> {
    let messages = client.simple_query(statement).map_err(|error| {
        let error = error.as_db_error().expect("the server answers");
        let [detail, hint] = [error.detail(), error.hint()].map(Option::unwrap_or_default);
        format!(
            "{} {} | {detail} | {hint}",
            error.code().code(),
            error.message()
        )
    })?;
    let mut text = String::new();
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            let columns = (0..row.len()).map(|at| row.get(at).unwrap_or("null"));
            text += &(columns.collect::<Vec<_>>().join(", ") + "\n");
        }
    }
    Ok(text)
}

const REGISTRY: &str = "worker_id, node, token, layout, epoch, ceiling, leased_until, clock_offset_ms, registered_at, renewed_at, start_at, leased_by";

#[test]
fn registries_lease_alike() {
    let mut pair = Pair::start(fastrand::u64(..));
    let mut leases: Vec<(usize, i64)> = Vec::new();
    for call in 0..400 {
        let step = ["0", "0", "0", "1", "3", "700", "-1", "-30", "2700000"];
        let step = pair.any(&step).parse().expect("seconds");
        pair.move_clock(step);
        let (worker_id, clock) = (pair.random.usize(..4), pair.instant());
        let ahead = pair.any(&["NULL", "NULL", "'1 s'", "'1 h'", "'50 ms'", "'30 h'"]);
        // A nonce tells the worker id and the call.
        let nonce =
            |worker_id: usize, call: i64| format!("'00000000-0000-0000-{worker_id:04}-{call:012}'");
        let used = leases
            .get(pair.random.usize(..leases.len().max(1)))
            .copied();
        let role = pair.any(&["shop", "postgres"]);
        pair.answer(&format!("SET ROLE {role}")).expect("a role");
        match pair.random.usize(..10) {
            0..4 => {
                let of = match (pair.random.usize(..4), used) {
                    (0, Some((_, of))) => of,
                    _ => call,
                };
                let node = pair.any(&["a", "b", "c", ""]);
                let answer = pair.answer(&format!(
                    "SELECT worker_id, nonce, token, start_at, ceiling, layout, epoch
                       FROM leaf_worker_register('{node}', {worker_id}, {clock}, {ahead}, {})",
                    nonce(worker_id, of)
                ));
                if answer.is_ok() {
                    leases.push((worker_id, of));
                }
            }
            4..8 => {
                let (worker_id, of) = used.unwrap_or((worker_id, call));
                let token = format!(
                    "(SELECT coalesce(max(token), 1) FROM leaf.worker WHERE worker_id = {worker_id})"
                );
                let token = match pair.random.usize(..5) {
                    0 => "1".to_owned(),
                    _ => pair
                        .answer(&format!("RESET ROLE; SELECT {token}"))
                        .expect("a token")
                        .trim()
                        .to_owned(),
                };
                let next = match pair.random.usize(..6) {
                    0 => token.clone(),
                    _ => (1000 + call).to_string(),
                };
                let _ = pair.answer(&format!(
                    "SELECT token, ceiling FROM leaf_worker_renew({worker_id}, {}, {token}, {clock}, {ahead}, {next})", nonce(worker_id, of)));
            }
            _ => {
                let (worker_id, of) = used.unwrap_or((worker_id, call));
                let token = pair.answer(&format!("RESET ROLE; SELECT coalesce(max(token), 1) FROM leaf.worker WHERE worker_id = {worker_id}"));
                let token = token.expect("a token").trim().to_owned();
                let used_until =
                    pair.any(&["NULL", "clock_timestamp()", "'2020-01-01'", "'infinity'"]);
                let _ = pair.answer(&format!(
                    "SELECT leaf_worker_release({worker_id}, {}, {token}, {used_until})",
                    nonce(worker_id, of)
                ));
            }
        }
        pair.answer("RESET ROLE").expect("a role");
        pair.compare(REGISTRY, "leaf.worker");
    }
    assert!(leases.len() > 10, "{leases:?}");
}

const TAGS: &str = "biz_tag, max_id, step, description, max_value, owner, grantees, last_grant, largest_reserve, floor, max_step, mask_version";

#[test]
fn tags_are_alike() {
    let mut pair = Pair::start(fastrand::u64(..));
    pair.clients[1].run("UPDATE leaf.plain SET is_replicated = true");
    let (mut calls, mut blocks) = (0, 0);
    // Until enough of them have led to something.
    while calls < 800 || blocks <= 10 {
        calls += 1;
        assert!(calls < 10_000, "{blocks} blocks");
        let role = pair.any(&["shop", "clerk", "postgres"]);
        pair.answer(&format!("SET ROLE {role}")).expect("a role");
        let tag = pair.any(&["orders", "parcels", "Rechnungen \"26\"; it''s", "", "x"]);
        let number = pair.any(&[
            "1",
            "0",
            "-1",
            "100",
            "1000",
            "1000001",
            "NULL",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775000",
        ]);
        let call = match pair.random.usize(..12) {
            0 => {
                let more = pair.any(&[
                    "",
                    ", if_not_exists => true",
                    ", max_step => 10",
                    ", max_value => 500",
                    ", description => 'd'",
                ]);
                let start = pair.any(&["1", "1", "100", number]);
                let step = pair.any(&["1000", "0", "1", "NULL"]);
                format!("leaf_tag_create('{tag}', {step}, {start}{more})")
            }
            1 => {
                let change = pair.any(&["step", "advance_to", "max_value", "max_step"]);
                format!("leaf_tag_alter('{tag}', {change} => {number})")
            }
            2 => {
                let action = pair.any(&["grant", "revoke"]);
                let to = pair.any(&["clerk", "shop", "public", "nobody"]);
                format!("leaf_tag_{action}('{tag}', '{to}')")
            }
            3 => {
                let more = pair.any(&["", ", if_exists => true"]);
                format!("leaf_tag_drop('{tag}'{more})")
            }
            4 => format!("leaf_mask_rotate('{tag}')"),
            5 => format!("leaf_tag_incarnation('{tag}') IS NOT NULL"),
            6 => {
                // As a restore does.
                pair.answer("RESET ROLE").expect("a role");
                for statement in [
                    format!(
                        "CREATE TEMP TABLE copy AS SELECT * FROM leaf.alloc WHERE biz_tag = '{tag}'"
                    ),
                    format!("DELETE FROM leaf.alloc WHERE biz_tag = '{tag}'"),
                    "INSERT INTO leaf.alloc SELECT * FROM copy".to_owned(),
                    "DROP TABLE copy".to_owned(),
                ] {
                    pair.answer(&statement).expect("a copy");
                }
                continue;
            }
            7 => {
                let exact = pair.any(&["true", "false"]);
                // For none, the library does not look how far a copy has to skip.
                let number = if number == "0" { "1" } else { number };
                format!(
                    "(first, last, error_code, message, detail, hint)
                       FROM leaf_segment_feed(ARRAY['{tag}'], ARRAY[{number}], ARRAY[{exact}])"
                )
            }
            _ => format!("leaf_segment_reserve('{tag}', {number})"),
        };
        if pair.answer(&format!("SELECT {call}")).is_ok() && call.contains("reserve") {
            blocks += 1;
        }
        pair.answer("RESET ROLE").expect("a role");
        pair.compare(TAGS, "leaf.alloc");
    }
}

/// Readers of ids are arithmetic.
#[test]
fn readers_of_ids_are_alike() {
    let mut pair = Pair::start(fastrand::u64(..));
    for _ in 0..300 {
        let id = match pair.random.usize(..4) {
            0 => pair.random.i64(..),
            1 => pair.random.i64(0..1 << 40),
            _ => pair.random.i64(0..i64::MAX),
        };
        let layout = pair.any(&[
            "",
            ", 'leaf'",
            ", 'uid'",
            ", 'sonyflake'",
            ", 'decimal'",
            ", 'custom:41,10,12'",
            ", 'nonsense'",
            ", NULL",
        ]);
        let epoch = match layout {
            "" => "",
            _ => pair.any(&["", ", '2024-01-01T00:00:00Z'", ", NULL"]),
        };
        let at = pair.any(&[
            "now()",
            "'2026-01-01'",
            "'infinity'",
            "'1970-01-01'",
            "'9999-01-01'",
            "NULL",
        ]);
        for call in [
            format!("leaf_snowflake_decode({id}{layout}{epoch})"),
            format!("leaf_snowflake_time({id}{layout}{epoch})"),
            format!("leaf_snowflake_floor({at}{layout}{epoch})"),
            format!("leaf_id_text({id})"),
            format!("leaf_id_parse(leaf_id_text({id}))"),
            format!("leaf_id_parse('{id}')"),
            format!("leaf_partman_encoder({at})"),
            format!("leaf_partman_decoder(leaf_partman_encoder({at}))"),
        ] {
            let _ = pair.answer(&format!("SELECT * FROM {call}"));
        }
    }
}

#[test]
fn settings_have_the_ranges_of_the_librarys() {
    let [library, plain] = [Server::options(), Server::options().plain()].map(|it| it.start());
    let mut client = plain.connect();
    let columns = "SELECT string_agg(attname, ',') FROM pg_attribute
                    WHERE attrelid = 'leaf.plain'::regclass AND attnum > 0 AND atttypid IN ('int4'::regtype, 'int8'::regtype, 'interval'::regtype)";
    let columns = client.text(columns);
    for column in columns.split(',') {
        let end = |end: &str| {
            library.connect().text(&format!(
                "SELECT {end} || coalesce(unit, '') FROM pg_settings WHERE name = 'leaf.{column}'"
            ))
        };
        let mut set = |value: String| {
            client.simple_query(&format!("UPDATE leaf.plain SET {column} = {value}"))
        };
        let value = |end: String, more: i64| match end
            .trim_start_matches('-')
            .bytes()
            .all(|digit| digit.is_ascii_digit())
        {
            true => format!("{end}::bigint + {more}"),
            false => format!("interval '{end}' + {more} * interval '1 us'"),
        };
        for (end, further) in [(end("min_val"), -1), (end("max_val"), 1)] {
            set(value(end.clone(), 0)).unwrap_or_else(|error| panic!("{column} {end}: {error}"));
            let error = set(value(end.clone(), further)).expect_err(column);
            let code = error
                .code()
                .map(|code| code.code().to_owned())
                .unwrap_or_default();
            assert!(
                ["23514", "22003"].contains(&&*code),
                "{column} {end}: {error}"
            );
        }
    }
}
