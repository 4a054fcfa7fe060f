//! `leaf.alloc`: the tags.

use std::ffi::CStr;

use leaf_core::grant::{Found, OwnNumbers, Position, Row, Stripe};
use pgrx::pg_sys;

use super::statement::{ResultRow, bigint, bytes, column_of, execute, flag, query, uuid};
use super::{relation, triggers};
use crate::error::{Error, Problem};
use crate::pg::datum::{
    bigint_arg, bigint_array_arg, flag_arg, optional_text_arg, string_arg, text_arg,
    text_array_arg, text_datum, uuid_arg, uuid_datum,
};
use crate::pg::encoding::encode;
use crate::pg::{clock, heap, trigger, xact};

/// Columns of `leaf.alloc` that are read or written without SQL.
pub(super) mod column {
    pub const BIZ_TAG: i16 = 1;
    pub const MAX_ID: i16 = 2;
    pub const UPDATE_TIME: i16 = 5;
    pub const MAX_VALUE: i16 = 6;
    pub const OWNER: i16 = 7;
    pub const GRANTEES: i16 = 8;
    pub const INCARNATION: i16 = 9;
    pub const HISTORY: i16 = 10;
    pub const LAST_GRANT: i16 = 11;
    pub const WRITTEN_BY: i16 = 13;
    pub const FLOOR: i16 = 14;
    pub const MASK_SECRET: i16 = 16;
    pub const MASK_VERSION: i16 = 17;
    pub const UPSTREAM_TAG: i16 = 18;
    pub const UPSTREAM_INCARNATION: i16 = 19;
    pub const FED_IN: i16 = 20;
    pub const STRIPES: i16 = 21;
    pub const STRIPE: i16 = 22;
    pub const STRIPE_WIDTH: i16 = 23;
    pub const STRIPED_FROM: i16 = 24;
    pub const EARLIER_STRIPES: i16 = 25;
    pub const EARLIER_STRIPE: i16 = 26;
}

/// The numbers of a tag, from the columns of its row. These have constraints that exclude
/// stripes that cannot be.
pub fn own_numbers(
    [stripes, stripe, earlier_stripes, earlier_stripe]: [i32; 4],
    [width, from]: [i64; 2],
) -> OwnNumbers {
    let of = |stripes, stripe| Stripe::new(stripes, stripe, width).unwrap_or(Stripe::WHOLE);
    let earlier = of(earlier_stripes, earlier_stripe);
    OwnNumbers::changed_at(earlier, from, of(stripes, stripe))
}

/// A row of `leaf.alloc` in a trigger.
pub struct AllocRow(pub heap::Row);

impl AllocRow {
    pub fn tag(&self) -> &[u8] {
        self.0.text(column::BIZ_TAG).unwrap_or_default()
    }

    pub fn max_id(&self) -> i64 {
        self.0.bigint(column::MAX_ID).unwrap_or_default()
    }

    pub fn max_value(&self) -> i64 {
        self.0.bigint(column::MAX_VALUE).unwrap_or_default()
    }

    /// The numbers that the tag may grant.
    pub fn own_numbers(&self) -> OwnNumbers {
        own_numbers_of(&self.0)
    }

    /// Whether the tag has a stripe of the numbers, not all of them.
    pub fn is_striped(&self) -> bool {
        self.own_numbers().stripe().width().is_some()
    }

    /// The row with the stripe columns of another one.
    pub fn with_stripe_of(self, other: &AllocRow) -> AllocRow {
        let integers = [
            column::STRIPES,
            column::STRIPE,
            column::EARLIER_STRIPES,
            column::EARLIER_STRIPE,
        ];
        let mut row = self.0;
        for column in integers {
            let value = other.0.integer(column).unwrap_or_default();
            row = row.with(column, pg_sys::Datum::from(value));
        }
        for column in [column::STRIPE_WIDTH, column::STRIPED_FROM] {
            let value = other.0.bigint(column).unwrap_or_default();
            row = row.with(column, pg_sys::Datum::from(value));
        }
        AllocRow(row)
    }

    /// Whether both rows give the same permissions to the same roles.
    pub fn same_permissions(&self, other: &AllocRow) -> bool {
        self.0.name(column::OWNER) == other.0.name(column::OWNER)
            && self.0.names(column::GRANTEES) == other.0.names(column::GRANTEES)
    }

    pub fn same_incarnation(&self, other: &AllocRow) -> bool {
        self.0.uuid(column::INCARNATION) == other.0.uuid(column::INCARNATION)
    }

    /// The row with another `max_id`.
    pub fn with_max_id(self, max_id: i64) -> AllocRow {
        AllocRow(self.0.with(column::MAX_ID, pg_sys::Datum::from(max_id)))
    }

    /// The history that the row has, if any.
    pub fn history(&self) -> Option<&[u8]> {
        self.0.text(column::HISTORY)
    }

    /// The row with another history.
    pub fn with_history(self, history: &str) -> AllocRow {
        AllocRow(self.0.with(column::HISTORY, text_datum(&encode(history))))
    }

    /// The row as it is after its tag was moved: nothing below its position is taken back, and
    /// what was fed before lies below it.
    pub fn moved(self) -> AllocRow {
        let floor = self.0.bigint(column::FLOOR).unwrap_or(i64::MIN);
        let floor = pg_sys::Datum::from(floor.max(self.max_id()));
        let row = self.0.with(column::FLOOR, floor);
        AllocRow(row.with(column::FED_IN, None))
    }

    /// In which history the tag has fed others, if it has.
    pub fn fed_in(&self) -> Option<&[u8]> {
        self.0.text(column::FED_IN)
    }

    /// The row with another history in which it has fed others.
    pub fn with_fed_in(self, history: &str) -> AllocRow {
        AllocRow(self.0.with(column::FED_IN, text_datum(&encode(history))))
    }

    /// Whether the tag is fed.
    pub fn is_fed(&self) -> bool {
        self.0.text(column::UPSTREAM_TAG).is_some()
    }

    /// Whether the ids of both come from the same tag of the centre, or from none.
    pub fn same_upstream(&self, other: &AllocRow) -> bool {
        self.0.text(column::UPSTREAM_TAG) == other.0.text(column::UPSTREAM_TAG)
            && self.0.uuid(column::UPSTREAM_INCARNATION)
                == other.0.uuid(column::UPSTREAM_INCARNATION)
    }

    /// The row as its own cluster has it: what another cluster has granted, and where that gets
    /// its ids, is not its own.
    pub fn with_grants_of(self, own: &AllocRow) -> AllocRow {
        let text = |column| own.0.text(column).map(text_datum);
        let bigint = |column| own.0.bigint(column).map(pg_sys::Datum::from);
        let row = self.0;
        let row = row.with(column::MAX_ID, bigint(column::MAX_ID));
        let row = row.with(column::HISTORY, text(column::HISTORY));
        let row = row.with(column::LAST_GRANT, bigint(column::LAST_GRANT));
        let row = row.with(column::FED_IN, text(column::FED_IN));
        let row = row.with(column::UPSTREAM_TAG, text(column::UPSTREAM_TAG));
        let upstream = own.0.uuid(column::UPSTREAM_INCARNATION);
        let row = row.with(column::UPSTREAM_INCARNATION, upstream.map(uuid_datum));
        let incarnation = own.0.uuid(column::INCARNATION);
        AllocRow(row.with(column::INCARNATION, incarnation.map(uuid_datum)))
    }

    /// The row as the current transaction writes it.
    pub fn touched(self) -> AllocRow {
        let now = pg_sys::Datum::from(clock::to_timestamp(clock::now()));
        let row = self.0.with(column::UPDATE_TIME, now);
        AllocRow(row.with(column::WRITTEN_BY, xact::current_id()))
    }
}

/// The numbers of the tag of a row.
pub(super) fn own_numbers_of(row: &heap::Row) -> OwnNumbers {
    let integers = [
        column::STRIPES,
        column::STRIPE,
        column::EARLIER_STRIPES,
        column::EARLIER_STRIPE,
    ];
    own_numbers(
        integers.map(|column| row.integer(column).unwrap_or_default()),
        [column::STRIPE_WIDTH, column::STRIPED_FROM]
            .map(|column| row.bigint(column).unwrap_or_default()),
    )
}

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
}

impl<'a> NewTag<'a> {
    /// A tag with the defaults of `leaf_tag_create`.
    pub fn of(owner: &'a CStr) -> Self {
        NewTag {
            step: 1000,
            max_step: None,
            start: 1,
            max_value: i64::MAX,
            description: None,
            owner,
            stripe: Stripe::WHOLE,
        }
    }
}

/// Creates a tag; `false` if it exists already.
pub fn insert(tag: &[u8], new: &NewTag<'_>) -> bool {
    let inserted = execute(
        "INSERT INTO leaf.alloc (biz_tag, step, max_id, max_value, description, owner, max_step, \
                                 stripes, stripe, stripe_width) \
         VALUES ($1, $2::integer, $3, $4, $5, $6::name, $7::integer, $8::integer, $9::integer, $10) \
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
        ],
    );
    inserted == 1
}

/// The width of a stripe's blocks as a row has it.
fn width_of(stripe: &Stripe) -> i64 {
    let width = stripe.width().map(i64::try_from);
    width.and_then(Result::ok).unwrap_or(Stripe::WIDTH)
}

/// Gives a tag other numbers. What was granted up to now is not taken back, because it was
/// granted as one of the earlier ones.
pub fn restripe(tag: &[u8], numbers: &OwnNumbers) {
    let (stripe, earlier) = (numbers.stripe(), numbers.earlier());
    execute(
        "UPDATE leaf.alloc SET stripes = $2::integer, stripe = $3::integer, stripe_width = $4, \
                striped_from = $5, earlier_stripes = $6::integer, earlier_stripe = $7::integer, \
                floor = greatest(floor, max_id) \
          WHERE biz_tag = $1",
        &[
            text_arg(tag),
            bigint_arg(i64::from(stripe.count())),
            bigint_arg(i64::from(stripe.number())),
            bigint_arg(width_of(stripe)),
            bigint_arg(numbers.from()),
            bigint_arg(i64::from(earlier.count())),
            bigint_arg(i64::from(earlier.number())),
        ],
    );
}

/// What a tag's row should have; `None` for what stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes<'a> {
    pub step: Option<i32>,
    /// 0 for that of the settings.
    pub max_step: Option<i32>,
    pub max_id: Option<i64>,
    pub max_value: Option<i64>,
    pub description: Option<&'a [u8]>,
}

/// Changes the given columns of a tag's row.
pub fn update(tag: &[u8], changes: &Changes<'_>) {
    execute(
        "UPDATE leaf.alloc SET step = coalesce($2::integer, step), max_id = coalesce($3, max_id), \
         floor = greatest(floor, $3), fed_in = CASE WHEN $3 IS NULL THEN fed_in END, max_value = coalesce($4, max_value), \
         description = coalesce($5, description), \
         max_step = nullif(coalesce($6::integer, max_step), 0) WHERE biz_tag = $1",
        &[
            text_arg(tag),
            bigint_arg(changes.step.map(i64::from)),
            bigint_arg(changes.max_id),
            bigint_arg(changes.max_value),
            optional_text_arg(changes.description),
            bigint_arg(changes.max_step.map(i64::from)),
        ],
    );
}

/// Moves a tag's row to a position.
pub fn advance(tag: &[u8], max_id: i64) {
    let changes = Changes {
        max_id: Some(max_id),
        ..Changes::default()
    };
    update(tag, &changes);
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

/// Removes a grantee.
pub fn remove_grantee(tag: &[u8], grantee: &CStr) {
    execute(
        "UPDATE leaf.alloc SET grantees = array_remove(grantees, $2::name) \
         WHERE biz_tag = $1 AND $2::name = ANY (grantees)",
        &[text_arg(tag), text_arg(grantee.to_bytes())],
    );
}

/// Begins another version of the key of a tag's masks and returns it; `None` if there are no
/// more versions.
pub fn rotate_mask(tag: &[u8]) -> Option<i32> {
    query(
        "UPDATE leaf.alloc SET mask_version = mask_version + 1 \
          WHERE biz_tag = $1 AND mask_version < 2147483647 RETURNING mask_version",
        &[text_arg(tag)],
        |row| column_of::<i32>(row, 1),
    )
    .pop()
    .flatten()
}

/// The columns of `leaf.alloc` that [`position_of`] reads.
macro_rules! position_columns {
    () => {
        "SELECT NULL, max_id, max_value, stripes, stripe, stripe_width, striped_from, \
                earlier_stripes, earlier_stripe"
    };
}

/// How far a tag's ids are granted.
pub fn position(tag: &[u8]) -> Option<Position> {
    let statement = concat!(position_columns!(), " FROM leaf.alloc WHERE biz_tag = $1");
    query(statement, &[text_arg(tag)], position_of).pop()
}

/// The columns from the second to the ninth.
fn position_of(row: &ResultRow<'_>) -> Position {
    let integer = |ordinal| column_of::<i32>(row, ordinal).unwrap_or_default();
    Position {
        max_id: bigint(row, 2),
        max_value: bigint(row, 3),
        numbers: own_numbers([4, 5, 8, 9].map(integer), [bigint(row, 6), bigint(row, 7)]),
    }
}

/// Whether a tag is fed.
pub fn is_fed(tag: &[u8]) -> bool {
    let statement = "SELECT upstream_tag IS NOT NULL FROM leaf.alloc WHERE biz_tag = $1";
    query(statement, &[text_arg(tag)], |row| flag(row, 1)) == [true]
}

/// Like [`position`], and locks the row until the transaction ends.
pub fn position_for_update(tag: &[u8]) -> Option<Position> {
    let statement = concat!(
        position_columns!(),
        " FROM leaf.alloc WHERE biz_tag = $1 FOR NO KEY UPDATE"
    );
    query(statement, &[text_arg(tag)], position_of).pop()
}

/// The columns of `leaf.alloc`, named `a`, that [`locked_row`] reads; `$2` is the current
/// history.
macro_rules! columns {
    () => {
        "a.max_id, a.max_value, a.stripes, a.stripe, a.stripe_width, a.striped_from, \
         a.earlier_stripes, a.earlier_stripe, a.step::bigint, a.last_grant, a.largest_reserve, \
         a.history IS DISTINCT FROM $2 OR a.written_by <> a.xmin, a.incarnation, a.floor, \
         a.max_step::bigint, a.upstream_incarnation"
    };
}

/// A tag's row, locked until this transaction ends. `history` is the current one.
pub fn lock(tag: &[u8], history: &str) -> Option<Row> {
    query(
        concat!(
            "SELECT NULL, ",
            columns!(),
            ", false FROM leaf.alloc AS a WHERE a.biz_tag = $1 FOR NO KEY UPDATE"
        ),
        &[text_arg(tag), string_arg(history)],
        locked_row,
    )
    .pop()
}

/// The columns from the second on.
fn locked_row(row: &ResultRow<'_>) -> Row {
    Row {
        position: position_of(row),
        step: bigint(row, 10).max(1) as u64,
        last_grant: bigint(row, 11).max(0) as u64,
        largest_reserve: bigint(row, 12).max(0) as u64,
        from_other_history: column_of::<bool>(row, 13).unwrap_or(true),
        incarnation: uuid(row, 14),
        floor: bigint(row, 15),
        max_step: column_of::<i64>(row, 16).and_then(|most| u64::try_from(most).ok()),
        upstream: column_of::<pgrx::Uuid>(row, 17).map(|uuid| *uuid.as_bytes()),
        may_lack_feeds: column_of::<bool>(row, 18).unwrap_or(true),
        has_fed: false,
    }
}

/// Sets the position of a tag's row, which the current transaction has locked. An error
/// if the row was not changed to it.
pub fn set_position(tag: &[u8], max_id: i64, history: &str) {
    let stored = query(
        "UPDATE leaf.alloc SET max_id = $2, history = $3 WHERE biz_tag = $1 RETURNING max_id = $2",
        &[text_arg(tag), bigint_arg(max_id), string_arg(history)],
        |row| column_of::<bool>(row, 1) == Some(true),
    );
    if stored != [true] {
        Error::NotStored.raise();
    }
}

/// Marks a history in which a tag has fed others without a synchronous standby.
pub const UNREPLICATED: &str = " unreplicated";

/// Locks the rows of `tags` for grants, and skips those that another transaction has
/// locked. The results are in the order of `tags`. If `lost_grants`, the current history may
/// lack grants of the one before.
pub fn lock_for_grant(tags: &[&[u8]], history: &str, lost_grants: bool) -> Vec<Found> {
    let mut found = vec![Found::Missing; tags.len()];
    let rows = query(
        concat!(
            "SELECT d.n, ",
            columns!(),
            ", a.fed_in IS NOT NULL AND (a.written_by <> a.xmin \
                OR a.fed_in <> $2 AND a.fed_in <> $2 || ' unreplicated' \
                   AND ($3 OR a.fed_in LIKE '% unreplicated' OR a.fed_in LIKE 'copy of %')) \
               FROM unnest($1) WITH ORDINALITY AS d(tag, n) JOIN leaf.alloc AS a ON a.biz_tag = d.tag \
                FOR NO KEY UPDATE OF a SKIP LOCKED"
        ),
        &[
            text_array_arg(tags.iter().copied()),
            string_arg(history),
            flag_arg(lost_grants),
        ],
        |row| (bigint(row, 1) as usize - 1, locked_row(row)),
    );
    for (at, row) in rows {
        found[at] = Found::Row(row);
    }
    if found.contains(&Found::Missing) {
        mark_busy(tags, &mut found);
    }
    found
}

/// The centre's tags of fed tags, in UTF-8, in the order of `tags`.
pub fn upstream_tags(tags: &[&[u8]]) -> Vec<Option<String>> {
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

/// Makes a tag fed. Its numbers so far are no longer its own, so it is another tag from now
/// on.
pub fn attach(tag: &[u8], upstream_tag: &[u8], upstream_incarnation: [u8; 16]) {
    execute(
        "UPDATE leaf.alloc SET upstream_tag = $2, upstream_incarnation = $3, \
                incarnation = pg_catalog.gen_random_uuid() WHERE biz_tag = $1",
        &[
            text_arg(tag),
            text_arg(upstream_tag),
            uuid_arg(upstream_incarnation),
        ],
    );
}

/// Distinguishes rows that were skipped because they are locked from rows that do not
/// exist.
fn mark_busy(tags: &[&[u8]], found: &mut [Found]) {
    let existing = query(
        "SELECT d.n FROM unnest($1) WITH ORDINALITY AS d(tag, n) JOIN leaf.alloc AS a ON a.biz_tag = d.tag",
        &[text_array_arg(tags.iter().copied())],
        |row| bigint(row, 1) as usize - 1,
    );
    for at in existing {
        if found[at] == Found::Missing {
            found[at] = Found::Busy;
        }
    }
}

/// Writes the grants of rows that [`lock_for_grant`] has locked. An error if a row was not
/// changed to its grant, for example because of a trigger. `fed_in` is stored in the rows that
/// have fed others.
pub fn store_grants(grants: &[(&[u8], &Row)], history: &str, fed_in: &str) {
    let as_bigint = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let rows = || grants.iter().map(|(_, row)| row);
    let stored = query(
        "UPDATE leaf.alloc AS a \
            SET max_id = g.max_id, last_grant = g.last_grant, largest_reserve = g.largest_reserve, \
                history = $5, fed_in = CASE WHEN g.has_fed <> 0 THEN $7 ELSE a.fed_in END \
           FROM unnest($1, $2, $3, $4, $6) AS g(tag, max_id, last_grant, largest_reserve, has_fed) \
          WHERE a.biz_tag = g.tag RETURNING a.max_id = g.max_id",
        &[
            text_array_arg(grants.iter().map(|(tag, _)| *tag)),
            bigint_array_arg(rows().map(|row| row.position.max_id)),
            bigint_array_arg(rows().map(|row| as_bigint(row.last_grant))),
            bigint_array_arg(rows().map(|row| as_bigint(row.largest_reserve))),
            string_arg(history),
            bigint_array_arg(rows().map(|row| i64::from(row.has_fed))),
            string_arg(fed_in),
        ],
        |row| column_of::<bool>(row, 1) == Some(true),
    );
    if stored.len() != grants.len() || stored.contains(&false) {
        Error::NotStored.raise();
    }
}

/// Checks that the rows are still as [`store_grants`] has written them: triggers that have
/// fired since may have changed them. An error if not. (Deferred triggers do not fire
/// later: [`relation::as_owner`] makes them errors.)
pub fn check_stored(grants: &[(&[u8], &Row)]) {
    if grants.is_empty() || !has_other_triggers() {
        return;
    }
    let as_granted = query(
        "SELECT a.max_id = g.max_id FROM unnest($1, $2) AS g(tag, max_id) JOIN leaf.alloc AS a ON a.biz_tag = g.tag",
        &[
            text_array_arg(grants.iter().map(|(tag, _)| *tag)),
            bigint_array_arg(grants.iter().map(|(_, row)| row.position.max_id)),
        ],
        |row| column_of::<bool>(row, 1) == Some(true),
    );
    if as_granted.len() != grants.len() || as_granted.contains(&false) {
        Error::NotStored.raise();
    }
}

/// Whether `leaf.alloc` has triggers that are not leaf's.
fn has_other_triggers() -> bool {
    let triggers = trigger::of(relation::require_alloc());
    triggers.len() > triggers::ALLOC.len()
}
