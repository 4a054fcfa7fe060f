//! `leaf.alloc`: the tags.

use std::collections::HashMap;
use std::ffi::CStr;

use leaf_core::grant::{Found, Position, Row, Stripe};
use pgrx::PgSqlErrorCode as Code;
use pgrx::pg_sys::ItemPointerData as Tid;

use super::alloc_row::own_numbers;
use super::intent::{self, Intent, Move};
use super::statement::{
    ResultRow, bigint, bytes, column_of, execute, flag, optional_text, query, uuid,
};
use super::{engine, relation};
use crate::error::Report;
use crate::history;
use crate::pg::datum::{
    Arg, bigint_arg, bigint_array_arg, optional_text_arg, string_arg, text_arg, text_array_arg,
    tid_array_arg, uuid_arg,
};
use crate::pg::{snapshot, trigger};
use crate::settings::segment as settings;

/// A tag to be created.
#[derive(Clone, Copy, Debug)]
pub struct NewTag<'a> {
    pub step: i32,
    /// The largest step that is chosen for it; `None` for that of the settings.
    pub max_step: Option<i32>,
    pub start: i64,
    pub max_value: i64,
    pub description: Option<&'a [u8]>,
    pub owner: &'a CStr,
    /// The stripe whose numbers it grants.
    pub stripe: Stripe,
    /// How many ids a session takes at once.
    pub cache: i32,
}

/// Creates a tag; `false` if it exists already.
pub fn insert(tag: &[u8], new: &NewTag<'_>) -> bool {
    let inserted = execute(
        "INSERT INTO leaf.alloc (biz_tag, step, max_id, max_value, description, owner, max_step, \
                                 stripes, stripe, stripe_width, cache) \
         VALUES ($1, $2::integer, $3, $4, $5, $6::name, $7::integer, $8::integer, $9::integer, $10, \
                 $11::integer) \
         ON CONFLICT (biz_tag) DO NOTHING",
        &[
            text_arg(tag),
            bigint_arg(i64::from(new.step)),
            bigint_arg(new.start),
            bigint_arg(new.max_value),
            optional_text_arg(new.description),
            text_arg(new.owner.to_bytes()),
            bigint_arg(new.max_step.map(i64::from)),
            bigint_arg(i64::from(new.stripe.count())),
            bigint_arg(i64::from(new.stripe.number())),
            bigint_arg(width_of(&new.stripe)),
            bigint_arg(i64::from(new.cache)),
        ],
    );
    inserted == 1
}

/// The width of a stripe's blocks as a row has it.
fn width_of(stripe: &Stripe) -> i64 {
    let width = stripe.width().map(i64::try_from);
    width.and_then(Result::ok).unwrap_or(Stripe::WIDTH)
}

/// The new values of a tag's row; `None` for those that stay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes<'a> {
    pub step: Option<i32>,
    /// 0 for that of the settings.
    pub max_step: Option<i32>,
    pub max_id: Option<i64>,
    pub max_value: Option<i64>,
    pub description: Option<&'a [u8]>,
    pub cache: Option<i32>,
}

/// Changes the given columns of a tag's row. If `vouches`, the caller says by a new position that
/// all that was granted, to shards too, lies below it.
pub fn update(tag: &[u8], changes: &Changes<'_>, vouches: bool) {
    let vouched_in = changes
        .max_id
        .filter(|_| vouches)
        .map(|_| history::of_database());
    let intent = match vouched_in {
        // A position does not say whose stripe it is.
        Some(_) => Intent::Vouch { signs: false },
        None => Intent::Plain,
    };
    intent::with(intent, || {
        execute(
            "UPDATE leaf.alloc SET step = coalesce($2::integer, step), max_id = coalesce($3, max_id), \
             floor = greatest(floor, $3), vouched_in = coalesce($7, vouched_in), max_value = coalesce($4, max_value), \
             description = coalesce($5, description), cache = coalesce($8::integer, cache), \
             max_step = nullif(coalesce($6::integer, max_step), 0) WHERE biz_tag = $1",
            &[
                text_arg(tag),
                bigint_arg(changes.step.map(i64::from)),
                bigint_arg(changes.max_id),
                bigint_arg(changes.max_value),
                optional_text_arg(changes.description),
                bigint_arg(changes.max_step.map(i64::from)),
                optional_text_arg(vouched_in.as_ref().map(|history| history.as_bytes())),
                bigint_arg(changes.cache.map(i64::from)),
            ],
        )
    });
}

/// Records that somebody vouches for a tag, or for all that are granted here; returns how many. Rows
/// that leaf's triggers did not see being written are vouched for by name only, fed ones, too.
pub fn vouch(tag: Option<&[u8]>) -> usize {
    let history = history::of_database();
    let signs = tag.is_some();
    intent::with(Intent::Vouch { signs }, || {
        execute(
            "UPDATE leaf.alloc SET vouched_in = $2, \
                    stripe_group = CASE WHEN stripes > 1 THEN $3::integer END \
              WHERE CASE WHEN $1 IS NULL THEN upstream_tag IS NULL AND written_by = xmin \
                         ELSE biz_tag = $1 AND (upstream_tag IS NULL OR written_by <> xmin) END",
            &[
                optional_text_arg(tag),
                string_arg(&history),
                bigint_arg(engine::group().map(i64::from)),
            ],
        )
    })
}

/// Keeps unused ids below `floor` from being taken back.
pub fn raise_floor(tag: &[u8], floor: i64) {
    execute(
        "UPDATE leaf.alloc SET floor = $2 WHERE biz_tag = $1 AND floor < $2",
        &[text_arg(tag), bigint_arg(floor)],
    );
}

/// Removes a tag.
pub fn delete(tag: &[u8]) {
    execute(
        "DELETE FROM leaf.alloc WHERE biz_tag = $1",
        &[text_arg(tag)],
    );
}

/// Adds a grantee.
pub fn add_grantee(tag: &[u8], grantee: &CStr) {
    execute(
        "UPDATE leaf.alloc SET grantees = array_append(grantees, $2::name) \
         WHERE biz_tag = $1 AND $2::name <> ALL (grantees)",
        &[text_arg(tag), text_arg(grantee.to_bytes())],
    );
}

/// Removes a grantee; `false` if there is none of that name.
pub fn remove_grantee(tag: &[u8], grantee: &CStr) -> bool {
    let changed = execute(
        "UPDATE leaf.alloc SET grantees = array_remove(grantees, $2::name) \
         WHERE biz_tag = $1 AND $2::name = ANY (grantees)",
        &[text_arg(tag), text_arg(grantee.to_bytes())],
    );
    changed > 0
}

/// The step of a tag's row.
pub fn step(tag: &[u8]) -> Option<i32> {
    let statement = "SELECT step FROM leaf.alloc WHERE biz_tag = $1";
    let found = query(statement, &[text_arg(tag)], |row| column_of::<i32>(row, 1));
    found.into_iter().next().flatten()
}

/// How far a tag's ids are granted.
pub fn position(tag: &[u8]) -> Option<Position> {
    let statement = "SELECT max_id, max_value, stripes, stripe, stripe_width \
                       FROM leaf.alloc WHERE biz_tag = $1";
    query(statement, &[text_arg(tag)], position_of).pop()
}

fn position_of(row: &ResultRow<'_>) -> Position {
    let integer = |column| column_of::<i32>(row, column).unwrap_or_default();
    Position {
        max_id: bigint(row, "max_id"),
        max_value: bigint(row, "max_value"),
        numbers: own_numbers(
            integer("stripes"),
            integer("stripe"),
            bigint(row, "stripe_width"),
        ),
    }
}

/// The columns of `leaf.alloc`, named `a`, that [`read_row`] reads; `$2` is the current
/// history.
macro_rules! columns {
    () => {
        "a.max_id, a.max_value, a.stripes, a.stripe, a.stripe_width, \
         a.step::bigint AS step, a.last_grant, a.largest_reserve, \
         a.history IS DISTINCT FROM $2 OR a.is_copy OR a.written_by <> a.xmin AS is_of_other_history, \
         a.incarnation, a.floor, a.max_step::bigint AS max_step, a.upstream_incarnation, \
         a.vouched_in, a.written_by = a.xmin AS is_signed, a.stripe_group"
    };
}

/// A tag's row as it is now. `history` is the current one.
pub fn look(tag: &[u8], history: &str) -> Option<Row> {
    query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM leaf.alloc AS a WHERE a.biz_tag = $1"
        ),
        &[text_arg(tag), string_arg(history)],
        read_row,
    )
    .pop()
}

/// A tag's row, locked until this transaction ends. `history` is the current one.
pub fn lock(tag: &[u8], history: &str) -> Option<Row> {
    query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM leaf.alloc AS a WHERE a.biz_tag = $1 FOR NO KEY UPDATE"
        ),
        &[text_arg(tag), string_arg(history)],
        read_row,
    )
    .pop()
}

fn read_row(row: &ResultRow<'_>) -> Row {
    let vouched_in = optional_text(row, "vouched_in");
    let is_vouched =
        vouched_in.is_some_and(|it| it == history::of_database() || history::is_continued(&it));
    let is_signed = column_of::<bool>(row, "is_signed") == Some(true);
    let position = position_of(row);
    let upstream = column_of::<pgrx::Uuid>(row, "upstream_incarnation");
    let is_striped = position.numbers.stripe().width().is_some();
    let made_for = column_of::<i32>(row, "stripe_group");
    let mut found = Row {
        position,
        stored: position.max_id,
        step: bigint(row, "step").max(1) as u64,
        last_grant: bigint(row, "last_grant").max(0) as u64,
        largest_reserve: bigint(row, "largest_reserve").max(0) as u64,
        incarnation: uuid(row, "incarnation"),
        floor: bigint(row, "floor"),
        max_step: column_of::<i64>(row, "max_step").and_then(|most| u64::try_from(most).ok()),
        upstream: upstream.map(|uuid| *uuid.as_bytes()),
        is_elsewhere: upstream.is_none() && engine::may_be_granted_elsewhere(is_striped, made_for),
        is_signed,
        may_lack_feeds: !(is_vouched && is_signed),
        has_fed: false,
    };
    if column_of::<bool>(row, "is_of_other_history").unwrap_or(true) {
        found.enter_history(settings::history_skip());
    }
    found
}

/// How often a tag can skip before it has no number left; `None` for one that does not skip.
pub fn failovers_left(tag: &[u8]) -> Option<u64> {
    let row = look(tag, &history::current())?;
    row.left_as_stored()
        .checked_div(row.skipped(settings::history_skip()))
}

/// Sets the position of a tag's row, which the current transaction has locked, by a grant or by
/// taking ids back. An error if the row was not changed to it.
pub fn set_position(tag: &[u8], to: Move, history: &str) {
    let intent = Intent::Grant([(tag.to_vec(), to)].into());
    let stored = intent::with(intent, || {
        query(
            "UPDATE leaf.alloc SET max_id = $2, history = $3, is_copy = false \
              WHERE biz_tag = $1 RETURNING max_id = $2",
            &[text_arg(tag), bigint_arg(to.to), string_arg(history)],
            |row| flag(row, 1),
        )
    });
    if stored != [true] {
        not_stored().raise();
    }
}

/// Where the rows of tags lie in the table, as far as grants have seen them. While somebody holds
/// an old snapshot, no version of a row can be removed, and the index leads to all of them: a row
/// that is asked for by its place is found at once.
#[derive(Default)]
pub struct Places(HashMap<Vec<u8>, Tid>);

impl Places {
    /// Forgets all of them if they are more than `most`.
    pub fn keep(&mut self, most: usize) {
        if self.0.len() > most {
            self.0.clear();
        }
    }

    fn record(&mut self, tag: &[u8], place: Tid) {
        match self.0.get_mut(tag) {
            Some(known) => *known = place,
            None => {
                self.0.insert(tag.to_vec(), place);
            }
        }
    }

    fn of<'t>(&self, tags: impl Iterator<Item = &'t [u8]>) -> Vec<Tid> {
        tags.filter_map(|tag| self.0.get(tag).copied()).collect()
    }
}

/// Locks the rows of `tags`, which are in order, for grants, and skips those that another
/// transaction has locked. The results are in the order of `tags`.
pub fn lock_for_grant(tags: &[&[u8]], history: &str, places: &mut Places) -> Vec<Found> {
    let mut found = vec![Found::Missing; tags.len()];
    let known = places.of(tags.iter().copied());
    if !known.is_empty() {
        // Where a row was, another one may be by now, or none.
        let statement = concat!(
            "SELECT a.biz_tag::text AS tag, a.ctid AS place, ",
            columns!(),
            " FROM leaf.alloc AS a WHERE a.ctid = ANY ($1) AND a.biz_tag = ANY ($3) \
               FOR NO KEY UPDATE SKIP LOCKED"
        );
        let args = [
            tid_array_arg(known),
            string_arg(history),
            text_array_arg(tags.iter().copied()),
        ];
        find(statement, &args, tags, &mut found, places);
    }
    let missing = missing(tags, &found);
    if !missing.is_empty() {
        let statement = concat!(
            "SELECT a.biz_tag::text AS tag, a.ctid AS place, ",
            columns!(),
            " FROM unnest($1) AS d(tag) JOIN leaf.alloc AS a ON a.biz_tag = d.tag \
                FOR NO KEY UPDATE OF a SKIP LOCKED"
        );
        let args = [text_array_arg(missing.iter().copied()), string_arg(history)];
        find(statement, &args, tags, &mut found, places);
    }
    mark_busy(tags, &mut found);
    found
}

/// Runs a statement that locks rows, and adds these to what was found of `tags`.
fn find(statement: &str, args: &[Arg], tags: &[&[u8]], found: &mut [Found], places: &mut Places) {
    let read = |row: &ResultRow<'_>| {
        let tag = bytes(row, "tag").unwrap_or_default();
        (tag, column_of::<Tid>(row, "place"), read_row(row))
    };
    for (tag, place, row) in query(statement, args, read) {
        let (Ok(at), Some(place)) = (tags.binary_search(&&*tag), place) else {
            continue;
        };
        places.record(&tag, place);
        found[at] = Found::Row(row);
    }
}

/// Those of `tags` that were not found.
fn missing<'t>(tags: &[&'t [u8]], found: &[Found]) -> Vec<&'t [u8]> {
    let tags = tags.iter().zip(found);
    let missing = tags.filter(|(_, found)| **found == Found::Missing);
    missing.map(|(tag, _)| *tag).collect()
}

/// The tags that are neither fed nor striped.
pub fn local() -> Vec<Vec<u8>> {
    query(
        "SELECT biz_tag::text FROM leaf.alloc WHERE upstream_tag IS NULL AND stripes = 1",
        &[],
        |row| bytes(row, 1).unwrap_or_default(),
    )
}

/// The centre's tags of fed tags, in UTF-8, in the order of `tags`.
pub fn tags_of_centre(tags: &[&[u8]]) -> Vec<Option<String>> {
    if tags.is_empty() {
        return Vec::new();
    }
    let found = query(
        "SELECT d.n, pg_catalog.convert_to(a.upstream_tag::text, 'UTF8') \
           FROM unnest($1) WITH ORDINALITY AS d(tag, n) JOIN leaf.alloc AS a ON a.biz_tag = d.tag",
        &[text_array_arg(tags.iter().copied())],
        |row| (bigint(row, 1) as usize - 1, bytes(row, 2)),
    );
    let mut names = vec![None; tags.len()];
    for (at, name) in found {
        names[at] = name.map(|name| String::from_utf8_lossy(&name).into_owned());
    }
    names
}

/// The fed tags that have got numbers of the centre lately, the last ones first, with their
/// incarnations.
pub fn lately_fed(most: usize) -> Vec<(Vec<u8>, [u8; 16])> {
    query(
        "SELECT biz_tag::text AS tag, incarnation FROM leaf.alloc \
          WHERE upstream_tag IS NOT NULL AND last_grant > 0 AND update_time > now() - interval '1 day' \
          ORDER BY update_time DESC LIMIT $1",
        &[bigint_arg(i64::try_from(most).unwrap_or(i64::MAX))],
        |row| {
            (
                bytes(row, "tag").unwrap_or_default(),
                uuid(row, "incarnation"),
            )
        },
    )
}

/// Makes a tag fed. Its numbers so far are no longer its own, so it is another tag from now
/// on.
pub fn attach(tag: &[u8], upstream_tag: &[u8], upstream_incarnation: [u8; 16]) {
    intent::with(Intent::Attach { tag: tag.to_vec() }, || {
        execute(
            "UPDATE leaf.alloc SET upstream_tag = $2, upstream_incarnation = $3, \
                    incarnation = pg_catalog.gen_random_uuid() WHERE biz_tag = $1",
            &[
                text_arg(tag),
                text_arg(upstream_tag),
                uuid_arg(upstream_incarnation),
            ],
        )
    });
}

/// Distinguishes rows that were skipped because they are locked from rows that do not
/// exist.
fn mark_busy(tags: &[&[u8]], found: &mut [Found]) {
    let missing = missing(tags, found);
    if missing.is_empty() {
        return;
    }
    let existing = query(
        "SELECT a.biz_tag::text FROM unnest($1) AS d(tag) JOIN leaf.alloc AS a ON a.biz_tag = d.tag",
        &[text_array_arg(missing.into_iter())],
        |row| bytes(row, 1).unwrap_or_default(),
    );
    for tag in existing {
        if let Ok(at) = tags.binary_search(&&*tag) {
            found[at] = Found::Busy;
        }
    }
}

/// A row to be written: its tag, how it is now, and whether it moves back.
pub type Changed<'a> = (&'a [u8], &'a Row, bool);

/// Writes the grants of rows that [`lock_for_grant`] has locked. An error if a row was not
/// changed to its grant, for example because of a trigger.
pub fn store_grants(grants: &[Changed<'_>], history: &str, places: &mut Places) {
    if grants.is_empty() {
        return;
    }
    let as_bigint = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let moves = grants.iter().map(|&(tag, row, takes_back)| {
        let to = row.position.max_id;
        (tag.to_vec(), Move { to, takes_back })
    });
    let rows = || grants.iter().map(|(_, row, _)| row);
    let known = places.of(grants.iter().map(|(tag, ..)| *tag));
    let stored = intent::with(Intent::Grant(moves.collect()), || {
        query(
            "UPDATE leaf.alloc AS a \
                SET max_id = g.max_id, last_grant = g.last_grant, largest_reserve = g.largest_reserve, \
                    history = $5, is_copy = false, \
                    vouched_in = CASE WHEN g.has_fed <> 0 THEN $7 ELSE a.vouched_in END \
               FROM unnest($1, $2, $3, $4, $6) AS g(tag, max_id, last_grant, largest_reserve, has_fed) \
              WHERE a.ctid = ANY ($8) AND a.biz_tag = g.tag \
              RETURNING a.max_id = g.max_id, a.biz_tag::text AS tag, a.ctid AS place",
            &[
                text_array_arg(grants.iter().map(|(tag, ..)| *tag)),
                bigint_array_arg(rows().map(|row| row.position.max_id)),
                bigint_array_arg(rows().map(|row| as_bigint(row.last_grant))),
                bigint_array_arg(rows().map(|row| as_bigint(row.largest_reserve))),
                string_arg(history),
                bigint_array_arg(rows().map(|row| i64::from(row.has_fed))),
                string_arg(&history::of_database()),
                tid_array_arg(known),
            ],
            |row| {
                (
                    flag(row, 1),
                    bytes(row, "tag"),
                    column_of::<Tid>(row, "place"),
                )
            },
        )
    });
    for (_, tag, place) in &stored {
        if let (Some(tag), Some(place)) = (tag, place) {
            places.record(tag, *place);
        }
    }
    let stored: Vec<bool> = stored.into_iter().map(|(stored, ..)| stored).collect();
    require_stored(&stored, grants);
    if !has_other_triggers() {
        return;
    }
    // Triggers that have fired since may have changed the rows. (Deferred ones do not fire
    // later: `relation::as_owner` makes them errors.)
    let stored = query(
        "SELECT a.max_id = g.max_id FROM unnest($1, $2) AS g(tag, max_id) JOIN leaf.alloc AS a ON a.biz_tag = g.tag",
        &[
            text_array_arg(grants.iter().map(|(tag, ..)| *tag)),
            bigint_array_arg(rows().map(|row| row.position.max_id)),
        ],
        |row| flag(row, 1),
    );
    require_stored(&stored, grants);
}

fn require_stored(stored: &[bool], grants: &[Changed<'_>]) {
    if stored.len() != grants.len() || stored.contains(&false) {
        not_stored().raise();
    }
}

/// How many triggers `leaf.alloc` has of leaf's.
const OWN_TRIGGERS: usize = 3;

/// Whether `leaf.alloc` has triggers that are not leaf's.
fn has_other_triggers() -> bool {
    trigger::count_of(relation::require_alloc()) > OWN_TRIGGERS
}

/// The columns of `leaf.stat_segment` from a tag's row; `None` for those that are not known.
#[derive(Clone, Debug)]
pub struct ShownRow {
    pub tag: Vec<u8>,
    pub upstream_tag: Option<Vec<u8>>,
    /// `max_id`, `max_value` and `stripe_width`.
    pub bigints: [Option<i64>; 3],
    /// `step`, `stripes` and `stripe`.
    pub integers: [Option<i32>; 3],
}

impl ShownRow {
    /// A row that cannot be read. Memory knows up to where it has granted, if it has.
    pub fn of_memory(tag: Vec<u8>, granted_to: i64) -> Self {
        let max_id = (granted_to != i64::MIN).then_some(granted_to);
        ShownRow {
            tag,
            upstream_tag: None,
            bigints: [max_id, None, None],
            integers: [None; 3],
        }
    }
}

/// The rows that a role sees in `leaf.stat_segment`, in the snapshot of the query.
pub fn shown_to(role: pgrx::pg_sys::Oid) -> Vec<ShownRow> {
    snapshot::select(
        "SELECT biz_tag::text, upstream_tag::text, max_id, max_value, stripe_width, \
                step, stripes, stripe \
           FROM leaf.alloc AS a \
          WHERE pg_has_role($1::oid, 'pg_monitor', 'USAGE') \
             OR EXISTS (SELECT FROM pg_roles AS r \
                         WHERE r.rolname = a.owner AND pg_has_role($1::oid, r.oid, 'USAGE'))",
        &[bigint_arg(i64::from(role.to_u32()))],
        |row| ShownRow {
            tag: bytes(row, 1).unwrap_or_default(),
            upstream_tag: bytes(row, 2),
            bigints: [3, 4, 5].map(|at| column_of(row, at)),
            integers: [6, 7, 8].map(|at| column_of(row, at)),
        },
    )
}

/// A grant was not stored in its row, for example because of a trigger of the table's owner.
fn not_stored() -> Report {
    // When: a trigger or rule of yours prevented it
    Report::new(
        Code::ERRCODE_TRIGGERED_ACTION_EXCEPTION,
        "a grant was not stored in leaf.alloc",
        "Make sure that your own triggers and rules on leaf.alloc neither suppress updates nor change max_id.",
    )
}
