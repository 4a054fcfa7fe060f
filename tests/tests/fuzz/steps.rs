//! What a session may do next, by chance: every function of leaf, plain SQL on its
//! tables, and all that ends, cuts off or undoes a statement.
//!
//! Each tag that is created gets numbers that no other ever has, so that no id may
//! come twice whatever becomes of the tag: `$BASE` stands for the first of them, and
//! nothing here moves a tag out of its own. The tags `edge` and `brim` are there for
//! the ends of the number line; their ids are not compared.

use crate::values::*;
use leaf_tests::Mode;
use proptest::prelude::*;
use proptest::sample::select;

/// What the rows of a statement are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Nothing of interest.
    Any,
    /// Ids of a tag, in the order in which they were drawn.
    Ids,
    /// Ids of a tag, drawn earlier or in some other order.
    OldIds,
    /// The first and the last id of a block, which may be returned.
    Block,
    /// The first and the last id of a block.
    Kept,
    /// Whether `$FIRST` to `$LAST` was returned.
    Returned,
    /// Snowflake ids.
    Flakes,
    /// Worker id, nonce and token of a lease; where its ids begin and end, in microseconds.
    Lease,
    /// The nonce of a lease that was released, and from when on it has no ids.
    Released,
}

/// What happens next.
#[derive(Clone, Debug)]
pub enum Action {
    /// A statement, with placeholders for what only the world knows.
    Sql(String, Rows),
    /// The server is stopped and started.
    Restart(Mode),
}

/// An action of one of the sessions.
#[derive(Clone, Debug)]
pub struct Step {
    pub session: usize,
    pub action: Action,
}

/// The last session is that of an ordinary role, the others are superusers'.
pub const SESSIONS: usize = 3;

type Sql = BoxedStrategy<(String, Rows)>;

/// Some steps, of sessions that take turns.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let turn = (0..SESSIONS, turn()).prop_map(|(session, statements)| {
        let step = move |(sql, rows)| Step {
            session,
            action: Action::Sql(sql, rows),
        };
        statements.into_iter().map(step).collect::<Vec<_>>()
    });
    let restart = select(vec![Mode::Fast, Mode::Immediate]).prop_map(|mode| {
        vec![Step {
            session: 0,
            action: Action::Restart(mode),
        }]
    });
    let turns = prop_oneof![54 => turn, 6 => change_between_draws(), 1 => restart];
    prop::collection::vec(turns, 1..40).prop_map(|turns| turns.concat())
}

/// A session draws from a tag before and after others change or drop it.
fn change_between_draws() -> impl Strategy<Value = Vec<Step>> {
    let change = prop_oneof![
        2 => one_of(&["SELECT leaf_tag_drop({tag})"], Rows::Any),
        1 => one_of(&["DELETE FROM leaf.alloc WHERE biz_tag = {tag}"], Rows::Any),
        1 => one_of(&["SELECT leaf_tag_revoke({tag}, 'joe')"], Rows::Any),
        1 => one_of(&["UPDATE leaf.alloc SET owner = 'postgres', grantees = '{{}}' WHERE biz_tag = {tag}"], Rows::Any),
        1 => one_of(&["SELECT leaf_tag_create({tag}, 10, $BASE, $BASE + 1000000000)"], Rows::Any),
    ];
    let next = "SELECT leaf_segment_next({tag})";
    (
        0..SESSIONS,
        good_tag(),
        prop::collection::vec(change, 1..3),
        good_tag(),
    )
        .prop_map(move |(session, tag, changes, other)| {
            let step = |session, sql: &str, rows| Step {
                session,
                action: Action::Sql(sql.replace("{tag}", &tag).replace("{{}}", "{}"), rows),
            };
            let mut all = vec![step(session, next, Rows::Ids)];
            let changes = changes.into_iter();
            all.extend(changes.map(|(sql, rows)| step(0, &sql, rows)));
            let of_other = next.replace("{tag}", &other);
            all.push(step(1, &of_other, Rows::Ids));
            all.push(step(session, next, Rows::Ids));
            all
        })
}

/// Statements of one session in a row: a few single ones, or the larger part of a
/// transaction. One that is left open goes on with the session's next turn.
pub fn turn() -> impl Strategy<Value = Vec<(String, Rows)>> {
    let few = || prop::collection::vec(statement(), 1..6);
    let text = |sql: &'static str| (sql.to_owned(), Rows::Any);
    let begin = select(vec![
        "BEGIN",
        "BEGIN",
        "BEGIN; SAVEPOINT s",
        "BEGIN; SAVEPOINT s",
        "BEGIN ISOLATION LEVEL REPEATABLE READ",
        "BEGIN ISOLATION LEVEL SERIALIZABLE",
        "BEGIN READ ONLY",
    ]);
    let undo = select(vec![
        "ROLLBACK TO s",
        "ROLLBACK TO s",
        "RELEASE s",
        "SELECT 1",
    ]);
    let end = select(vec![
        "COMMIT",
        "COMMIT",
        "COMMIT",
        "COMMIT AND CHAIN",
        "ROLLBACK",
        "PREPARE TRANSACTION 'p'",
        "SELECT 1",
        "SELECT 1",
    ]);
    let transaction = (begin, few(), few(), undo, few(), end).prop_map(
        move |(begin, first, second, undo, third, end)| {
            let mut all = vec![text(begin)];
            all.extend(first);
            all.push(text("SAVEPOINT s"));
            all.extend(second);
            all.push(text(undo));
            all.extend(third);
            all.push(text(end));
            all
        },
    );
    prop_oneof![8 => few(), 8 => transaction, 1 => leases()]
}

/// One statement.
pub fn statement() -> Sql {
    prop_oneof![
        30 => draw(),
        8 => cursor(),
        12 => tag_function(),
        4 => column(),
        12 => alloc(),
        8 => snowflake(),
        4 => mask(),
        2 => id_text(),
        8 => worker_function(),
        5 => worker(),
        7 => transaction(),
        8 => set(),
        4 => other(),
    ]
    .boxed()
}

/// Fills `{}` in a template with values, one after the other.
fn fill<const N: usize>(template: &'static str, values: [Value; N], rows: Rows) -> Sql {
    values
        .prop_map(move |values| {
            let mut parts = template.split("{}");
            let mut sql = parts.next().expect("a template").to_owned();
            for (value, part) in values.iter().zip(parts) {
                sql += value;
                sql += part;
            }
            (sql, rows)
        })
        .boxed()
}

fn one_of(statements: &'static [&'static str], rows: Rows) -> Sql {
    select(statements)
        .prop_map(move |sql| (sql.to_owned(), rows))
        .boxed()
}

fn draw() -> Sql {
    use Rows::*;
    prop_oneof![
        8 => fill("SELECT leaf_segment_next({})", [tag()], Ids),
        6 => fill("SELECT leaf_segment_next({}) FROM generate_series(1, {})", [tag(), count()], Ids),
        6 => fill("SELECT id FROM leaf_segment_batch({}, {}) AS id", [tag(), count()], Ids),
        2 => fill("SELECT leaf_segment_batch({}, 2147483647) LIMIT {}", [tag(), count()], Ids),
        8 => fill("SELECT lower(b), upper(b) - 1 FROM leaf_segment_reserve({}, {}) AS b", [tag(), count()], Block),
        1 => fill("SELECT lower(b), upper(b) - 1 FROM leaf_segment_reserve({}, {}) AS b", [tag(), bigint()], Block),
        2 => fill("SELECT lower(b), upper(b) - 1 FROM leaf_segment_reserve('a', {}, leaf_tag_incarnation({})) AS b", [count(), tag()], Kept),
        8 => fill("SELECT leaf_segment_return($TAG, '[$FIRST,$LAST]')", [], Returned),
        1 => fill("SELECT leaf_segment_return({}, int8range({}, {}))", [tag(), bigint(), bigint()], Any),
        2 => fill("SELECT draw({}, {})", [tag(), count()], Ids),
        2 => fill("INSERT INTO drawn SELECT leaf_segment_next({}) FROM generate_series(1, {}) RETURNING id", [tag(), count()], Ids),
        2 => fill("EXECUTE next ({})", [tag()], Ids),
        1 => fill("EXPLAIN ANALYZE SELECT leaf_segment_next({})", [tag()], Any),
        1 => one_of(&["SELECT leaf_segment_next('a') FROM big"], OldIds),
        2 => fill("SELECT leaf_segment_last({})", [tag()], Any),
    ]
    .boxed()
}

fn cursor() -> Sql {
    use Rows::*;
    prop_oneof![
        fill("DECLARE c CURSOR FOR SELECT leaf_segment_next({}) FROM generate_series(1, 300)", [tag()], Any),
        fill("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT leaf_segment_next({}) FROM generate_series(1, {})", [tag(), count()], Any),
        fill("DECLARE c CURSOR FOR SELECT leaf_segment_batch({}, 1000000)", [tag()], Any),
        fill("DECLARE flakes CURSOR WITH HOLD FOR SELECT leaf_snowflake_batch({})", [count()], Any),
        fill("FETCH {} FROM c", [Just("5".to_owned()).boxed()], OldIds),
        fill("FETCH {} FROM flakes", [Just("5".to_owned()).boxed()], Flakes),
        one_of(&["FETCH 70 FROM c"], OldIds),
        one_of(&["MOVE 3 IN c", "CLOSE c", "CLOSE flakes", "CLOSE ALL"], Any),
    ]
    .boxed()
}

fn tag_function() -> Sql {
    use Rows::Any;
    prop_oneof![
        8 => fill("SELECT leaf_tag_create({}, {}, $BASE, $BASE + 1000000000)", [good_tag(), step()], Any),
        3 => fill("SELECT leaf_tag_create({}, {}, $BASE, $BASE + {})", [good_tag(), step(), count()], Any),
        2 => fill("SELECT leaf_tag_create({}, {}, {}, {}, {})",
                  [edge_tag(), integer(), bigint(), bigint(), text()], Any),
        3 => fill("SELECT leaf_tag_alter(biz_tag, {}, max_id + {}) FROM leaf.alloc WHERE biz_tag = {}",
                  [step(), count(), good_tag()], Any),
        1 => fill("SELECT leaf_tag_alter(biz_tag, max_value => max_id + {}, description => {}) FROM leaf.alloc WHERE biz_tag = {}",
                  [count(), text(), good_tag()], Any),
        1 => fill("SELECT leaf_tag_alter({}, {}, -1, -1, {})", [good_tag(), step(), text()], Any),
        1 => fill("SELECT leaf_tag_alter({}, {}, {}, {}, {})",
                  [edge_tag(), integer(), bigint(), bigint(), text()], Any),
        2 => fill("SELECT leaf_tag_create({}, {}, $BASE, $BASE + 1000000000, if_not_exists => true, max_step => {})",
                  [good_tag(), step(), integer()], Any),
        1 => fill("SELECT leaf_tag_alter({}, max_step => {})", [good_tag(), integer()], Any),
        4 => fill("SELECT leaf_tag_drop({})", [tag()], Any),
        1 => fill("SELECT leaf_tag_drop({}, true)", [tag()], Any),
        1 => one_of(&["SELECT leaf_stat_reset()", "SELECT leaf_stat_reset('a')"], Any),
        3 => fill("SELECT leaf_tag_grant({}, {})", [tag(), role()], Any),
        2 => fill("SELECT leaf_tag_revoke({}, {})", [tag(), role()], Any),
        1 => fill("INSERT INTO kept VALUES ({})", [bigint()], Any),
        1 => fill("SELECT leaf_tag_align({})", [edge_tag()], Any),
    ]
    .boxed()
}

/// A column is adopted and released, and rows come into its table meanwhile.
fn column() -> Sql {
    use Rows::Any;
    prop_oneof![
        2 => one_of(&["SELECT leaf_column_adopt('adopted', 'id', 'adopted')",
                      "SELECT leaf_column_adopt('adopted', 'id', kind => 'snowflake')",
                      "SELECT leaf_column_release('adopted', 'id')"], Any),
        1 => fill("SELECT leaf_column_adopt('adopted', {}, {})", [text(), tag()], Any),
        3 => one_of(&["INSERT INTO adopted DEFAULT VALUES", "SELECT nextval('adopted_id_seq')",
                      "INSERT INTO adopted SELECT FROM generate_series(1, 20)"], Any),
    ]
    .boxed()
}

/// Which rows of `leaf.alloc` are meant.
fn which() -> Value {
    let named = tag().prop_map(|tag| format!("WHERE biz_tag = {tag}"));
    let others = select(vec!["", "WHERE biz_tag < 'b'", "WHERE false"]);
    prop_oneof![4 => named, 1 => others.prop_map(str::to_owned)].boxed()
}

fn change() -> Value {
    let fixed = |texts: &'static [&'static str]| select(texts).prop_map(str::to_owned).boxed();
    let with = |name: &'static str, value: Value| {
        value
            .prop_map(move |value| format!("{name} = {value}"))
            .boxed()
    };
    prop_oneof![
        4 => fixed(&["max_id = max_id", "max_id = max_id + 1", "max_id = max_id - 1", "max_id = max_id + 100000000",
                     "max_id = -1", "biz_tag = biz_tag",
                     "max_value = 0", "max_value = max_id", "max_value = NULL"]),
        1 => with("max_value", count().prop_map(|count| format!("max_id + {count}")).boxed()),
        1 => with("step", step()),
        1 => with("description", text()),
        1 => with("update_time", time()),
        1 => with("owner", role()),
        1 => with("grantees", roles()),
        1 => with("history", text()),
        1 => fixed(&["last_grant = 1000000", "last_grant = -1", "last_grant = 9223372036854775807",
                     "largest_reserve = 1000000", "largest_reserve = 9223372036854775807"]),
    ]
    .boxed()
}

fn alloc() -> Sql {
    use Rows::Any;
    prop_oneof![
        4 => fill("INSERT INTO leaf.alloc (biz_tag, step, max_id, max_value) VALUES ({}, {}, $BASE, $BASE + 1000000000)",
                  [good_tag(), step()], Any),
        1 => fill("INSERT INTO leaf.alloc (biz_tag, step, max_id, max_value) VALUES ({}, {}, $BASE, $BASE + {})
                       ON CONFLICT (biz_tag) DO UPDATE SET step = excluded.step, max_id = alloc.max_id + 1",
                  [good_tag(), step(), count()], Any),
        2 => fill("INSERT INTO leaf.alloc (biz_tag, step, max_id, max_value, last_grant, largest_reserve, history, grantees)
                       VALUES ({}, {}, {}, {}, {}, {}, {}, {})",
                  [edge_tag(), integer(), bigint(), bigint(), bigint(), bigint(), text(), roles()], Any),
        6 => fill("UPDATE leaf.alloc SET {} {}", [change(), which()], Any),
        // Another tag, whose ids die with this transaction.
        2 => fill("UPDATE leaf.alloc SET max_id = $BASE, max_value = $BASE + 1000000000, biz_tag = {} WHERE biz_tag = {}",
                  [good_tag(), good_tag()], Any),
        1 => fill("UPDATE leaf.alloc SET max_id = $BASE, max_value = $BASE + 1000000000, incarnation = gen_random_uuid() WHERE biz_tag = {}",
                  [good_tag()], Any),
        3 => fill("DELETE FROM leaf.alloc {}", [which()], Any),
        1 => fill("SELECT FROM leaf.alloc {} FOR UPDATE", [which()], Any),
        1 => one_of(&["TRUNCATE leaf.alloc", "LOCK TABLE leaf.alloc IN ACCESS EXCLUSIVE MODE",
                      "LOCK TABLE leaf.alloc IN SHARE MODE",  "CLUSTER leaf.alloc USING alloc_pkey"], Any),
    ]
    .boxed()
}

fn snowflake() -> Sql {
    use Rows::{Any, Flakes};
    prop_oneof![
        6 => one_of(&["SELECT leaf_snowflake_next()"], Flakes),
        3 => fill("SELECT leaf_snowflake_next() FROM generate_series(1, {})", [count()], Flakes),
        3 => fill("SELECT id FROM leaf_snowflake_batch({}) AS id", [count()], Flakes),
        1 => fill("SELECT leaf_snowflake_batch(2147483647) LIMIT {}", [count()], Flakes),
        1 => fill("SELECT leaf_snowflake_decode({})", [bigint()], Any),
        1 => fill("SELECT leaf_snowflake_decode({}, {}, {})", [bigint(), layout(), time()], Any),
        1 => fill("SELECT leaf_snowflake_floor({}::timestamptz)", [time()], Any),
        1 => fill("SELECT leaf_snowflake_time({})", [bigint()], Any),
        1 => fill("SELECT leaf_snowflake_time({}, {}, {})", [bigint(), layout(), time()], Any),
        1 => fill("SELECT leaf_snowflake_floor({}::timestamptz, {}, {})", [time(), layout(), time()], Any),
        1 => one_of(&["SELECT leaf_snowflake_decode(leaf_snowflake_next())", "SELECT * FROM leaf.stat_snowflake",
                      "SELECT * FROM leaf.stat_segment"], Any),
    ]
    .boxed()
}

fn mask() -> Sql {
    use Rows::Any;
    prop_oneof![
        4 => fill("SELECT leaf_mask({}, {})", [tag(), bigint()], Any),
        2 => fill("SELECT leaf_mask({}, n, {}) FROM generate_series(1, {}) AS n", [tag(), bits(), count()], Any),
        2 => fill("SELECT leaf_unmask({}, {}, {}, {})", [tag(), bigint(), bits(), integer()], Any),
        2 => fill("SELECT * FROM leaf_mask_key({}, {}, {})", [tag(), bits(), integer()], Any),
        2 => fill("SELECT leaf_mask_rotate({})", [tag()], Any),
        1 => fill("SELECT 1 / (leaf_unmask({}, leaf_mask('a', 7)) - 7)", [tag()], Any),
        1 => fill("UPDATE leaf.alloc SET mask_version = {} WHERE biz_tag = {}", [integer(), tag()], Any),
        1 => fill("UPDATE leaf.alloc SET mask_secret = sha256({}::text::bytea)", [text()], Any),
    ]
    .boxed()
}

fn id_text() -> Sql {
    use Rows::Any;
    prop_oneof![
        1 => fill("SELECT leaf_id_text({})", [bigint()], Any),
        1 => fill("SELECT leaf_id_parse({})", [id_text_value()], Any),
        1 => fill("SELECT leaf_partman_encoder({})", [time()], Any),
        1 => fill("SELECT leaf_partman_decoder({})", [id_text_value()], Any),
    ]
    .boxed()
}

fn worker_function() -> Sql {
    use Rows::{Any, Lease};
    prop_oneof![
        4 => register(),
        2 => (node(), integer(), time(), ahead(), nonce()).prop_map(|(node, worker, clock, ahead, nonce)| {
            (format!("{REGISTER}({node}, {worker}, {clock}, {ahead}, {nonce})"), Lease)
        }),
        2 => fill("SELECT $WORKER, '$NONCE', token, NULL, (extract(epoch FROM ceiling) * 1000000)::bigint
                     FROM leaf_worker_renew($WORKER, '$NONCE', $TOKEN, NULL, {})", [ahead()], Lease),
        1 => fill("SELECT $WORKER, '$NONCE', token, NULL, (extract(epoch FROM ceiling) * 1000000)::bigint
                     FROM leaf_worker_renew($WORKER, '$NONCE', $TOKEN, NULL, {}, {})", [ahead(), bigint()], Lease),
        1 => fill("SELECT * FROM leaf_worker_renew({}, '$NONCE', {}, {}, {}, {})",
                  [integer(), bigint(), time(), ahead(), bigint()], Any),
        1 => one_of(&["SELECT (leaf_worker_register('n')).*", "SELECT (leaf_worker_renew($WORKER, '$NONCE', $TOKEN)).*"], Any),
        2 => release(),
        1 => fill("SELECT leaf_worker_release({}, gen_random_uuid(), {}, {})", [integer(), bigint(), time()], Any),
    ]
    .boxed()
}

/// Leases a worker id, with what has to be known of the lease.
const REGISTER: &str =
    "SELECT worker_id, nonce, token, (extract(epoch FROM start_at) * 1000000)::bigint,
                               (extract(epoch FROM ceiling) * 1000000)::bigint
                          FROM leaf_worker_register";

fn register() -> Sql {
    Just((format!("{REGISTER}('n')"), Rows::Lease)).boxed()
}

fn release() -> Sql {
    fill(
        "SELECT '$NONCE', (extract(epoch FROM used_until) * 1000000)::bigint,
                leaf_worker_release($WORKER, '$NONCE', $TOKEN, used_until)
           FROM (SELECT CAST({} AS timestamptz) AS used_until) AS t",
        [time()],
        Rows::Released,
    )
}

/// A worker id that passes from one lease to the next.
fn leases() -> impl Strategy<Value = Vec<(String, Rows)>> {
    let some = prop::collection::vec(prop_oneof![2 => release(), 1 => worker_function()], 1..4);
    (register(), some, register()).prop_map(|(first, some, last)| {
        let mut all = vec![first];
        all.extend(some);
        all.push(last);
        all
    })
}

fn worker() -> Sql {
    use Rows::Any;
    prop_oneof![
        1 => fill("INSERT INTO leaf.worker (worker_id, node, nonce, token, history, layout, epoch, ceiling, leased_until, clock_offset_ms)
                       VALUES ({}, {}, gen_random_uuid(), {}, {}, {}, {}, {}, {}, {})",
                  [integer(), node(), bigint(), text(), layout(), time(), time(), time(), float()], Any),
        1 => fill("INSERT INTO leaf.worker
                       SELECT {}, {}, gen_random_uuid(), {}, history, layout, epoch, {}, {}, {} FROM leaf.worker LIMIT 1",
                  [integer(), node(), bigint(), time(), time(), float()], Any),
        1 => fill("UPDATE leaf.worker SET ceiling = {}", [time()], Any),
        1 => fill("UPDATE leaf.worker SET leased_until = {}", [time()], Any),
        1 => fill("UPDATE leaf.worker SET clock_offset_ms = {}", [float()], Any),
        1 => fill("UPDATE leaf.worker SET layout = {}, epoch = {}", [layout(), time()], Any),
        1 => fill("UPDATE leaf.worker SET node = {}, token = {}", [node(), bigint()], Any),
        3 => one_of(&["UPDATE leaf.worker SET ceiling = ceiling + interval '1 s'", "DELETE FROM leaf.worker",
                      "UPDATE leaf.worker SET nonce = gen_random_uuid()", "TRUNCATE leaf.worker",
                      "UPDATE leaf.worker SET worker_id = worker_id + 1", "UPDATE leaf.worker SET history = 'x'",
                      "DELETE FROM leaf.worker WHERE worker_id > 0", "LOCK TABLE leaf.worker"], Any),
    ]
    .boxed()
}

/// What disturbs the order of a turn.
fn transaction() -> Sql {
    one_of(
        &[
            "BEGIN",
            "COMMIT",
            "ROLLBACK",
            "SAVEPOINT s",
            "SAVEPOINT t",
            "ROLLBACK TO s",
            "ROLLBACK TO t",
            "RELEASE t",
            "PREPARE TRANSACTION 'q'",
            "COMMIT PREPARED 'p'",
            "ROLLBACK PREPARED 'p'",
            "COMMIT PREPARED 'q'",
        ],
        Rows::Any,
    )
}

fn set() -> Sql {
    prop_oneof![
        8 => fill("SET {}", [setting()], Rows::Any),
        4 => fill("SET LOCAL {}", [setting()], Rows::Any),
        2 => fill("ALTER SYSTEM SET {}", [system_setting()], Rows::Any),
        1 => fill("ALTER DATABASE postgres SET {}", [system_setting()], Rows::Any),
        3 => one_of(&["RESET ALL", "SELECT pg_reload_conf()", "ALTER SYSTEM RESET ALL"], Rows::Any),
    ]
    .boxed()
}

/// Those that concern no other than leaf: the world outlives them.
fn system_setting() -> Value {
    let concerns = |setting: &String| {
        setting.starts_with("leaf.")
            && !setting.contains("max_tags")
            && !setting.contains("max_databases")
    };
    setting().prop_filter("settings of leaf", concerns).boxed()
}

fn other() -> Sql {
    one_of(
        &[
            "SET ROLE joe",
            "RESET ROLE",
            "DISCARD ALL",
            "DISCARD PLANS",
            "PREPARE next (text) AS SELECT leaf_segment_next($1)",
            "DEALLOCATE ALL",
            "SET parallel_setup_cost = 0",
            "DROP EXTENSION leaf",
            "CREATE EXTENSION IF NOT EXISTS leaf",
            "CREATE EXTENSION IF NOT EXISTS leaf",
            "CREATE EXTENSION IF NOT EXISTS leaf",
            "CREATE EXTENSION leaf VERSION '0.1.0'",
            "ALTER EXTENSION leaf UPDATE",
            "DROP EXTENSION leaf CASCADE",
            "ALTER TABLE kept ALTER id SET DEFAULT leaf_segment_next('edge')",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'leaf loader'",
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type = 'leaf loader'",
            "CHECKPOINT",
            "SELECT leaf_alloc_check()",
            "SELECT leaf_alloc_changed()",
            "SELECT leaf_worker_check()",
        ],
        Rows::Any,
    )
}
