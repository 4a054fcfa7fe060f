//! Values as SQL writes them, most of them odd.

use leaf_core::snowflake::Layout;
use leaf_tests::page::Part;
use proptest::prelude::*;
use proptest::sample::select;

/// A value of SQL.
pub type Value = BoxedStrategy<String>;

fn any_of(values: &'static [&'static str]) -> Value {
    select(values).prop_map(str::to_owned).boxed()
}

/// Tags whose rows always get numbers of their own: see `$BASE` in `steps`.
pub fn good_tag() -> Value {
    let odd = any_of(&[
        "'A'",
        "'a '",
        "' '",
        r#"E'odd '' " \\ \t\x01; --'"#,
        "repeat('ж', 128)",
    ]);
    prop_oneof![8 => any_of(&["'a'"]), 4 => any_of(&["'b'", "'c'"]), 1 => odd].boxed()
}

/// Tags whose rows get any numbers.
pub fn edge_tag() -> Value {
    any_of(&["'edge'", "'brim'"])
}

/// No tag at all, or none that is ever created.
fn bad_tag() -> Value {
    any_of(&[
        "NULL",
        "''",
        "'nosuch'",
        "'nosuch' || (random() * 1000)::integer",
        "repeat('x', 129)",
        "repeat('💧', 129)",
        "repeat('y', 1000000)",
    ])
}

pub fn tag() -> Value {
    prop_oneof![10 => good_tag(), 2 => edge_tag(), 1 => bad_tag()].boxed()
}

/// Of type `bigint`, or too large for it.
pub fn bigint() -> Value {
    any_of(&[
        "1",
        "2",
        "1000",
        "0",
        "-1",
        "NULL",
        "2147483647",
        "2147483648",
        "-2147483649",
        "4294967296",
        "9223372036854775806",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775807",
        "'-9223372036854775808'",
    ])
}

/// Of type `integer`.
pub fn integer() -> Value {
    any_of(&[
        "1",
        "2",
        "10",
        "1000",
        "0",
        "-1",
        "NULL",
        "2147483647",
        "'-2147483648'",
    ])
}

/// A step that uses up little of a tag.
pub fn step() -> Value {
    any_of(&["1", "2", "10", "100", "1000", "1000000", "0", "-1", "NULL"])
}

/// Into how many stripes the numbers of a tag are cut.
pub fn stripes() -> Value {
    any_of(&["1", "2", "4", "4", "8", "16", "0", "NULL", "2147483647"])
}

/// One of these stripes, or none.
pub fn stripe() -> Value {
    any_of(&["0", "1", "1", "3", "5", "-1", "NULL"])
}

/// Numbers in a block of a stripe: few, so that a tag has blocks of its own among its numbers.
pub fn stripe_width() -> Value {
    any_of(&[
        "1",
        "7",
        "100",
        "1000",
        "1000000",
        "0",
        "NULL",
        "9223372036854775807",
    ])
}

/// So many ids that all of them can be looked at.
pub fn count() -> Value {
    let few = (1..400_u32).prop_map(|count| count.to_string());
    prop_oneof![12 => few, 1 => any_of(&["0", "-1", "NULL", "'-2147483648'", "3000"])].boxed()
}

/// Of type `text`.
pub fn text() -> Value {
    any_of(&[
        "NULL",
        "''",
        "'x'",
        "E'\\x01\\x7f\\u00a0'",
        "repeat('d', 256)",
        "repeat('d', 257)",
        "repeat('💧', 256)",
        "repeat('e', 1000000)",
    ])
}

/// The text of an id, or none.
pub fn id_text_value() -> Value {
    let good = any_of(&[
        "'00000000000Z92'",
        "'oooo-oooo-ooo-z92'",
        "'7ZZZZZZZZZZZZ5'",
    ]);
    prop_oneof![1 => good, 1 => text()].boxed()
}

/// How many bits masked ids have.
pub fn bits() -> Value {
    any_of(&["64", "63", "53", "52", "NULL", "2147483647"])
}

/// The key of a mask.
pub fn key() -> Value {
    any_of(&["sha256('a')", "sha256('b')", "'short'", "''", "NULL"])
}

pub fn role() -> Value {
    any_of(&[
        "'joe'",
        "'PUBLIC'",
        "'public'",
        "'postgres'",
        "'pg_monitor'",
        "'nobody'",
        "''",
        "repeat('r', 63)",
        "repeat('r', 100)",
        "NULL",
    ])
}

/// Of type `name[]`.
pub fn roles() -> Value {
    any_of(&[
        "'{}'",
        "'{joe}'",
        "'{public,joe,joe}'",
        "'{nobody,NULL}'",
        "'{{joe,postgres},{public,nobody}}'",
        "'[5:6]={joe,postgres}'",
        "array_fill('r'::name, ARRAY[2000])",
        "NULL",
    ])
}

/// Of type `timestamptz`.
pub fn time() -> Value {
    any_of(&[
        "now()",
        "now() + interval '3 s'",
        "now() - interval '1 h'",
        "now() + interval '20 h'",
        "'epoch'",
        "'2000-01-01Z'",
        "'2010-11-04 01:42:54.657Z'",
        "'2100-01-01Z'",
        "'infinity'",
        "'-infinity'",
        "'4713-01-01 00:00:00Z BC'",
        "'294276-12-31 23:59:59.999999Z'",
        "NULL",
    ])
}

/// Of type `interval`.
pub fn ahead() -> Value {
    any_of(&[
        "NULL",
        "'100 ms'",
        "'2 s'",
        "'10 min'",
        "'1 day'",
        "'99 ms'",
        "'1 day 1 us'",
        "'0'",
        "'-1 day'",
        "'1 month'",
        "'178000000 years'",
        "'2147483647 days'",
        "'-2147483648 days -9223372036854775807 us'",
    ])
}

/// Of type `double precision`.
pub fn float() -> Value {
    any_of(&["0", "1.5", "-1e9", "1e300", "'NaN'", "'Infinity'", "NULL"])
}

pub fn layout() -> Value {
    let named = select(Layout::NAMED).prop_map(|(name, _)| format!("'{name}'"));
    let others = any_of(&[
        "'custom:41,10,12'",
        "'custom:30,20,13,10ms'",
        "'custom:1,1,1'",
        "'custom:61,1,1'",
        "'custom:63,0,0'",
        "'custom:0,0,0'",
        "'custom:0,0,63,1s'",
        "'custom:99999999999999999999,1,1'",
        "'custom:-1,-1,-1'",
        "'custom:10,10,10,18446744073709551615s'",
        "'custom:41,10,12,0ms'",
        "'custom:,,'",
        "'custom:'",
        "''",
        "' leaf'",
        "'LEAF'",
        "repeat('z', 100000)",
        "NULL",
    ]);
    prop_oneof![named, others].boxed()
}

pub fn node() -> Value {
    any_of(&[
        "'n1'",
        "'n2'",
        "repeat('n', 256)",
        "repeat('n', 257)",
        "'server 1/1/1/1'",
        "''",
        "E'\\x01'",
        "NULL",
    ])
}

/// The nonce of a registration: nobody's, one that comes again, or a lease's.
pub fn nonce() -> Value {
    any_of(&[
        "NULL",
        "gen_random_uuid()",
        "'7c9e6679-7425-40de-944b-e07fc1f90ae7'",
        "'$NONCE'",
    ])
}

/// The bounds and possible values of leaf's settings, as the manual has them, which a test compares
/// with the server.
fn settings_of_leaf() -> Vec<String> {
    let mut settings = Vec::new();
    for Part { title, text } in Part::of("docs/reference/settings.md", 3) {
        let line = text.lines().find(|line| line.starts_with('*'));
        let (said, _) = line
            .and_then(|line| line.split_once(", context"))
            .expect(&title);
        let (kind, values) = said.split_once(", default ").expect(&title);
        let values: Vec<_> = match (kind, values.split_once(", ")) {
            ("*integer", Some((_, bounds))) => bounds.split(" to ").collect(),
            ("*enum", Some((_, values))) => values["one of ".len()..].split(", ").collect(),
            ("*bool", None) => vec!["on", "off"],
            ("*string", None) => vec![],
            _ => panic!("{title}: {said}"),
        };
        settings.extend(values.iter().map(|value| format!("{title} = '{value}'")));
        settings.push(format!("{title} = DEFAULT"));
    }
    // PostgreSQL ends no statement that has run for too long once it commits, and a cursor WITH
    // HOLD draws then.
    settings.retain(|it| it != "leaf.wait_timeout = '2147483647ms'");
    settings
}

/// A setting and a value for it, good or bad, as `SET` takes them.
pub fn setting() -> Value {
    let special = any_of(&[
        "leaf.wait_timeout = 1",
        "leaf.wait_timeout = '50ms'",
        "leaf.wait_timeout = 0",
        "leaf.wait_timeout = -1",
        "leaf.wait_timeout = 'soon'",
        "leaf.upstream = 'host=nowhere'",
        "leaf.upstream = 'password=x'",
        "leaf.max_leases = 1000",
        "leaf.max_tags = 5",
        "leaf.max_step = 0",
        "leaf.prefetch_threshold = 101",
        "leaf.history_skip = -1",
        "leaf.snowflake_layout = 'leaf'",
        "leaf.snowflake_layout = 'uid'",
        "leaf.snowflake_layout = 'nonsense'",
        "leaf.snowflake_layout = ''",
        "leaf.snowflake_epoch = '2024-01-01T00:00:00Z'",
        "leaf.snowflake_epoch = '2200-01-01'",
        "leaf.snowflake_epoch = '-9999-01-01'",
        "leaf.snowflake_epoch = 'never'",
        "leaf.snowflake_epoch = ''",
        "leaf.worker_id = 5",
        "leaf.worker_id = -2",
        "leaf.clock_policy = 'guess'",
        "leaf.nosuch = 1",
        "statement_timeout = 1",
        "statement_timeout = 4",
        "statement_timeout = DEFAULT",
        "lock_timeout = 1",
        "lock_timeout = DEFAULT",
        "session_replication_role = replica",
        "session_replication_role = origin",
        "synchronous_commit = off",
        "row_security = off",
        "search_path = pg_catalog",
        "search_path = DEFAULT",
        "default_transaction_isolation = serializable",
        "default_transaction_isolation = DEFAULT",
        "default_transaction_read_only = on",
        "default_transaction_read_only = off",
        "plan_cache_mode = force_generic_plan",
    ]);
    prop_oneof![select(settings_of_leaf()), special].boxed()
}
