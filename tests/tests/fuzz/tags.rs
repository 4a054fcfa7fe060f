//! What a session may do with tags: draw, create, change and drop them, by functions and by
//! plain SQL; and with ids that it has.

use crate::sql::{Rows, Sql, fill, one_of};
use crate::values::*;
use proptest::prelude::*;
use proptest::sample::select;

pub fn draw() -> Sql {
    use Rows::*;
    prop_oneof![
        8 => fill("SELECT leaf_segment_next({})", [tag()], Ids),
        6 => fill("SELECT leaf_segment_next({}) FROM generate_series(1, {})", [tag(), count()], Ids),
        6 => fill("SELECT id FROM leaf_segment_batch({}, {}) AS id", [tag(), count()], Ids),
        2 => fill("SELECT leaf_segment_batch({}, 2147483647) LIMIT {}", [tag(), count()], Ids),
        8 => fill("SELECT lower(b), upper(b) - 1 FROM leaf_segment_reserve({}, {}) AS b", [tag(), count()], Block),
        1 => fill("SELECT lower(b), upper(b) - 1 FROM leaf_segment_reserve({}, {}) AS b", [tag(), bigint()], Block),
        2 => fill("SELECT lower(b), upper(b) - 1 FROM leaf_segment_reserve('a', {}, leaf_tag_incarnation({})) AS b", [count(), tag()], Kept),
        4 => fill("SELECT first, last FROM leaf_segment_feed(ARRAY[{}], ARRAY[{}]::bigint[])", [tag(), count()], Kept),
        1 => fill("SELECT first, last FROM leaf_segment_feed(ARRAY[{}], ARRAY[{}]::bigint[], '{true}')", [tag(), count()], Kept),
        1 => fill("SELECT first, last FROM leaf_segment_feed(ARRAY['missing', {}], ARRAY[1, {}]::bigint[]) OFFSET 1", [tag(), count()], Kept),
        1 => fill("SELECT first FROM leaf_segment_feed(ARRAY[{}, {}], ARRAY[{}, 1]::bigint[])", [edge_tag(), edge_tag(), bigint()], Any),
        8 => fill("SELECT leaf_segment_return($TAG, '[$FIRST,$LAST]')", [], Returned),
        1 => fill("SELECT leaf_segment_return(ARRAY[{}], ARRAY[{}], ARRAY[{}]::bigint[])", [tag(), bigint(), bigint()], Any),
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

pub fn cursor() -> Sql {
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

pub fn tag_function() -> Sql {
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
        2 => fill("SELECT leaf_tag_create({}, {}, $CACHED, $CACHED + 1000000000, cache => {})",
                  [good_tag(), step(), integer()], Any),
        3 => fill("SELECT leaf_tag_create({}, {}, $BASE, $BASE + 1000000000, stripes => {}, stripe => {}, stripe_width => {})",
                  [good_tag(), step(), stripes(), stripe(), stripe_width()], Any),
        1 => fill("SELECT leaf_tag_create({}, {}, {}, stripes => {}, stripe => {}, stripe_width => {})",
                  [edge_tag(), integer(), bigint(), integer(), integer(), bigint()], Any),
        3 => fill("SELECT leaf_tag_attach({}, {})", [good_tag(), good_tag()], Any),
        1 => fill("SELECT leaf_tag_attach({}, {})", [tag(), text()], Any),
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
pub fn column() -> Sql {
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
                     "largest_reserve = 1000000", "largest_reserve = 9223372036854775807",
                     "stripes = 2", "stripes = 4, stripe = 1", "stripe_width = 7", "vouched_in = 'x'",
                     "upstream_tag = 'b', upstream_incarnation = gen_random_uuid()"]),
    ]
    .boxed()
}

pub fn alloc() -> Sql {
    use Rows::Any;
    prop_oneof![
        4 => fill("INSERT INTO leaf.alloc (biz_tag, step, max_id, max_value) VALUES ({}, {}, $BASE, $BASE + 1000000000)",
                  [good_tag(), step()], Any),
        1 => fill("INSERT INTO leaf.alloc (biz_tag, step, max_id, max_value) VALUES ({}, {}, $BASE, $BASE + {})
                       ON CONFLICT (biz_tag) DO UPDATE SET step = excluded.step, max_id = alloc.max_id + 1",
                  [good_tag(), step(), count()], Any),
        2 => fill("INSERT INTO leaf.alloc (biz_tag, step, max_id, max_value, stripes, stripe, stripe_width)
                       VALUES ({}, {}, $BASE, $BASE + 1000000000, {}, {}, {})",
                  [good_tag(), step(), stripes(), stripe(), stripe_width()], Any),
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

pub fn mask() -> Sql {
    use Rows::Any;
    prop_oneof![
        4 => fill("SELECT leaf_mask({}, {})", [bigint(), key()], Any),
        2 => fill("SELECT leaf_mask(n, {}, {}) FROM generate_series(1, {}) AS n", [key(), bits(), count()], Any),
        2 => fill("SELECT leaf_unmask({}, {}, {})", [bigint(), key(), bits()], Any),
    ]
    .boxed()
}

pub fn id_text() -> Sql {
    use Rows::Any;
    prop_oneof![
        1 => fill("SELECT leaf_id_text({})", [bigint()], Any),
        1 => fill("SELECT leaf_id_parse({})", [id_text_value()], Any),
        1 => fill("SELECT leaf_partman_encoder({})", [time()], Any),
        1 => fill("SELECT leaf_partman_decoder({})", [id_text_value()], Any),
    ]
    .boxed()
}
