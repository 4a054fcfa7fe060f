//! What a session may do next, by chance: every function of leaf, plain SQL on its
//! tables, and all that ends, cuts off or undoes a statement.
//!
//! Each tag that is created gets numbers that no other ever has, so that no id may
//! come twice whatever becomes of the tag: `$BASE` stands for the first of them, and
//! nothing here moves a tag out of its own. The tags `edge` and `brim` are there for
//! the ends of the number line; their ids are not compared.

use crate::sql::{Rows, Sql, fill, one_of};
use crate::tags;
use crate::values::*;
use leaf_tests::Mode;
use proptest::prelude::*;
use proptest::sample::select;

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
    prop_oneof![8 => few(), 8 => transaction, 1 => leases(), 3 => line(), 1 => released()]
}

/// A transaction draws from a tag that it has created, moves it, and undoes some of that; then
/// others draw.
fn line() -> impl Strategy<Value = Vec<(String, Rows)>> {
    let create = "SELECT leaf_tag_create({tag}, {step}, $BASE, $BASE + 1000000000)";
    let draws = "SELECT leaf_segment_next({tag}) FROM generate_series(1, {count})";
    let draw = || {
        (1..200_u32)
            .prop_map(move |count| (draws.replace("{count}", &count.to_string()), Rows::Ids))
    };
    let advance = one_of(
        &[
            "UPDATE leaf.alloc SET max_id = max_id + 10000 WHERE biz_tag = {tag}",
            "SELECT leaf_tag_alter(biz_tag, advance_to => max_id + 3) FROM leaf.alloc WHERE biz_tag = {tag}",
        ],
        Rows::Any,
    );
    let some = move || {
        let act = prop_oneof![6 => draw(), 1 => advance.clone()];
        prop::collection::vec(act, 0..4)
    };
    let tags = (good_tag(), select(vec!["1", "10", "100", "1000"]));
    let is_old = any::<bool>();
    let undo = select(vec!["ROLLBACK TO s", "RELEASE s"]);
    let end = select(vec!["COMMIT", "COMMIT", "ROLLBACK"]);
    (tags, is_old, some(), some(), undo, some(), end).prop_map(
        move |((tag, step), is_old, first, second, undo, third, end)| {
            let text = |sql: &str| (sql.to_owned(), Rows::Any);
            let mut all = vec![text("COMMIT")];
            all.push(text("DELETE FROM leaf.alloc WHERE biz_tag = {tag}"));
            match is_old {
                true => all.extend([text(create), text("BEGIN")]),
                false => all.extend([text("BEGIN"), text(create)]),
            }
            all.extend(first);
            all.push(text("SAVEPOINT s"));
            all.extend(second);
            all.push(text(undo));
            all.extend(third);
            all.push(text(end));
            // A transaction that has written nothing sees what was committed.
            let floor = "SELECT floor FROM leaf.alloc WHERE biz_tag = {tag}
                            AND pg_current_xact_id_if_assigned() IS NULL";
            all.push((floor.to_owned(), Rows::Floor));
            all.push((draws.replace("{count}", "300"), Rows::Ids));
            let fill = |sql: String| sql.replace("{tag}", &tag).replace("{step}", step);
            all.into_iter()
                .map(|(sql, rows)| (fill(sql), rows))
                .collect()
        },
    )
}

/// A column is adopted, drawn from and released in a transaction. Nothing of it stays: if only
/// a part of it were undone, a sequence would begin again where it was.
fn released() -> impl Strategy<Value = Vec<(String, Rows)>> {
    let count = || select(vec![0, 1, 30, 1000, 2500]);
    let undo = select(vec!["ROLLBACK TO s", "RELEASE s"]);
    (count(), count(), undo, count()).prop_map(|(first, second, undo, third)| {
        let insert = |count| {
            format!("INSERT INTO lined SELECT FROM generate_series(1, {count}) RETURNING id")
        };
        let all = [
            "ROLLBACK; BEGIN",
            "CREATE TABLE lined (id bigint GENERATED BY DEFAULT AS IDENTITY (START $BASE))",
            "SELECT leaf_column_adopt('lined', 'id', 'lined')",
            &insert(first),
            "SAVEPOINT s",
            &insert(second),
            undo,
            &insert(third),
            "SELECT leaf_column_release('lined', 'id')",
            &insert(30),
            "ROLLBACK",
        ];
        vec![(all.join("; "), Rows::Ids)]
    })
}

/// One statement.
pub fn statement() -> Sql {
    prop_oneof![
        30 => tags::draw(),
        8 => tags::cursor(),
        12 => tags::tag_function(),
        4 => tags::column(),
        12 => tags::alloc(),
        8 => snowflake(),
        4 => tags::mask(),
        2 => tags::id_text(),
        8 => worker_function(),
        5 => worker(),
        7 => transaction(),
        8 => set(),
        4 => other(),
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
    let concerns = |setting: &String| setting.starts_with("leaf.") && !setting.contains("max_tags");
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
            concat!(
                "CREATE EXTENSION leaf VERSION '",
                env!("CARGO_PKG_VERSION"),
                "'"
            ),
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
