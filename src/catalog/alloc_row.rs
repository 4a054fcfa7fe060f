//! A row of `leaf.alloc` as triggers and look-ups see it, without SQL.

use leaf_core::grant::{Grantor, OwnNumbers, Stripe};
use pgrx::pg_sys;

use super::engine;
use crate::pg::datum::text_datum;
use crate::pg::encoding::encode;
use crate::pg::{clock, heap, xact};

/// Columns of `leaf.alloc` that are read or written without SQL.
pub(super) mod column {
    pub const BIZ_TAG: i16 = 1;
    pub const MAX_ID: i16 = 2;
    pub const STEP: i16 = 3;
    pub const UPDATE_TIME: i16 = 5;
    pub const MAX_VALUE: i16 = 6;
    pub const OWNER: i16 = 7;
    pub const GRANTEES: i16 = 8;
    pub const INCARNATION: i16 = 9;
    pub const HISTORY: i16 = 10;
    pub const IS_COPY: i16 = 11;
    pub const LAST_GRANT: i16 = 12;
    pub const WRITTEN_BY: i16 = 14;
    pub const FLOOR: i16 = 15;
    pub const MAX_STEP: i16 = 16;
    pub const UPSTREAM_TAG: i16 = 17;
    pub const UPSTREAM_INCARNATION: i16 = 18;
    pub const VOUCHED_IN: i16 = 19;
    pub const STRIPES: i16 = 20;
    pub const STRIPE: i16 = 21;
    pub const STRIPE_WIDTH: i16 = 22;
    pub const CACHE: i16 = 23;
    pub const STRIPE_GROUP: i16 = 24;
}

/// The columns that say what a cluster has granted, and where it gets its ids.
const OF_GRANTS: [i16; 8] = [
    column::MAX_ID,
    column::INCARNATION,
    column::HISTORY,
    column::IS_COPY,
    column::LAST_GRANT,
    column::UPSTREAM_TAG,
    column::UPSTREAM_INCARNATION,
    column::VOUCHED_IN,
];

/// The numbers of a tag, from the columns `stripes`, `stripe` and `stripe_width` of its row. These have
/// constraints that exclude stripes that cannot be.
pub fn own_numbers(stripes: i32, stripe: i32, width: i64) -> OwnNumbers {
    OwnNumbers::of(Stripe::new(stripes, stripe, width).unwrap_or(Stripe::WHOLE))
}

/// A row of `leaf.alloc` in a trigger.
pub struct AllocRow<'r>(pub heap::Row<'r>);

impl<'r> AllocRow<'r> {
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

    /// Whether both rows give the same permissions to the same roles.
    pub fn same_permissions(&self, other: &AllocRow<'_>) -> bool {
        self.0.name(column::OWNER) == other.0.name(column::OWNER)
            && self.0.names(column::GRANTEES) == other.0.names(column::GRANTEES)
    }

    /// Whether segments of both are of the same lengths.
    pub fn same_steps(&self, other: &AllocRow<'_>) -> bool {
        [column::STEP, column::MAX_STEP]
            .iter()
            .all(|&column| self.0.integer(column) == other.0.integer(column))
    }

    /// Whether sessions take as many ids of both at once.
    pub fn same_cache(&self, other: &AllocRow<'_>) -> bool {
        cache_of(&self.0) == cache_of(&other.0)
    }

    pub fn incarnation(&self) -> [u8; 16] {
        self.0.uuid(column::INCARNATION).unwrap_or_default()
    }

    pub fn same_incarnation(&self, other: &AllocRow<'_>) -> bool {
        self.incarnation() == other.incarnation()
    }

    /// The row with another `max_id`.
    pub fn with_max_id(self, max_id: i64) -> AllocRow<'r> {
        AllocRow(self.0.with(column::MAX_ID, pg_sys::Datum::from(max_id)))
    }

    /// The new row with where it was made. One that brings a history along is a copy of an
    /// earlier row, which may have granted more ids since, even in this history, and numbers to
    /// shards. `history` is the current one, `of_database` that of the database.
    pub fn made(self, history: &str, of_database: &str) -> AllocRow<'r> {
        let is_copy = self.0.text(column::HISTORY).is_some();
        let row = self.with_flag(column::IS_COPY, is_copy);
        match is_copy {
            true => row.unvouched(),
            false => row
                .with_text(column::HISTORY, history)
                .vouched_in(Some(of_database.as_bytes())),
        }
    }

    /// The row as it is after its tag was moved: nothing below its position is taken back.
    pub fn moved(self) -> AllocRow<'r> {
        let floor = self.0.bigint(column::FLOOR).unwrap_or(i64::MIN);
        let floor = pg_sys::Datum::from(floor.max(self.max_id()));
        AllocRow(self.0.with(column::FLOOR, floor))
    }

    /// Whether it was written while leaf's triggers were disabled.
    pub fn is_unsigned(&self) -> bool {
        !self.0.is_written_by(column::WRITTEN_BY)
    }

    /// The row as it follows `old`, by a statement that neither grants nor vouches for it: nobody
    /// vouches for one that was replayed or was written while the triggers were disabled.
    pub fn with_signs_of(self, old: &AllocRow<'_>, is_replayed: bool) -> AllocRow<'r> {
        let vouched_in = old.0.text(column::VOUCHED_IN);
        let vouched_in = vouched_in.filter(|_| !is_replayed && !old.is_unsigned());
        self.with_copy_of(old).vouched_in(vouched_in)
    }

    /// The row as it follows `old` without a grant: what is a copy stays one.
    pub fn with_copy_of(self, old: &AllocRow<'_>) -> AllocRow<'r> {
        let was_copy = old.0.flag(column::IS_COPY) == Some(true) || old.is_unsigned();
        let is_copy = self.0.flag(column::IS_COPY) == Some(true) || was_copy;
        self.with_flag(column::IS_COPY, is_copy)
    }

    /// The row, for which nobody has vouched.
    pub fn unvouched(self) -> AllocRow<'r> {
        self.vouched_in(None)
    }

    fn vouched_in(self, history: Option<&[u8]>) -> AllocRow<'r> {
        AllocRow(self.0.with(column::VOUCHED_IN, history.map(text_datum)))
    }

    fn with_text(self, column: i16, text: &str) -> AllocRow<'r> {
        AllocRow(self.0.with(column, text_datum(&encode(text))))
    }

    fn with_flag(self, column: i16, flag: bool) -> AllocRow<'r> {
        AllocRow(self.0.with(column, pg_sys::Datum::from(flag)))
    }

    /// Whether the centre grants the tag's numbers.
    pub fn is_of_centre(&self) -> bool {
        grantor_of(&self.0) == Grantor::Centre
    }

    /// Whether the ids of both come from the same tag of the centre, or from none.
    pub fn same_upstream(&self, other: &AllocRow<'_>) -> bool {
        self.0.text(column::UPSTREAM_TAG) == other.0.text(column::UPSTREAM_TAG)
            && self.0.uuid(column::UPSTREAM_INCARNATION)
                == other.0.uuid(column::UPSTREAM_INCARNATION)
    }

    /// The row as its own cluster has it: what another cluster has granted, and where that gets
    /// its ids, is not its own.
    pub fn with_grants_of(self, own: &AllocRow<'_>) -> AllocRow<'r> {
        AllocRow(self.0.with_columns_of(&own.0, &OF_GRANTS))
    }

    /// The row, whose stripe is from now on that of this node of Citus, if it is not known yet
    /// for which it was made.
    fn with_group(self) -> AllocRow<'r> {
        if !self.is_striped() || self.0.integer(column::STRIPE_GROUP).is_some() {
            return self;
        }
        let group = engine::group().map(pg_sys::Datum::from);
        AllocRow(self.0.with(column::STRIPE_GROUP, group))
    }

    /// The row as the current transaction writes it. Unless it is signed by that, it looks as if it
    /// had been written while the triggers were disabled.
    pub fn touched(self, is_signed: bool) -> AllocRow<'r> {
        let now = pg_sys::Datum::from(clock::to_timestamp(clock::now()));
        let row = self.with_group().0.with(column::UPDATE_TIME, now);
        let written_by = match is_signed {
            true => xact::current_id(),
            false => pg_sys::Datum::from(0u32),
        };
        AllocRow(row.with(column::WRITTEN_BY, written_by))
    }
}

/// Who grants the numbers of the tag of a row.
pub(super) fn grantor_of(row: &heap::Row<'_>) -> Grantor {
    match row.text(column::UPSTREAM_TAG) {
        None => Grantor::Row,
        Some(_) => Grantor::Centre,
    }
}

/// How many ids of the tag of a row a session takes at once.
pub(super) fn cache_of(row: &heap::Row<'_>) -> u64 {
    row.integer(column::CACHE)
        .unwrap_or(1)
        .max(1)
        .unsigned_abs()
        .into()
}

/// Whether another node may grant the numbers of the tag of a row, too.
pub(super) fn may_be_granted_elsewhere(row: &heap::Row<'_>) -> bool {
    let is_striped = own_numbers_of(row).stripe().width().is_some();
    grantor_of(row) == Grantor::Row
        && engine::may_be_granted_elsewhere(is_striped, row.integer(column::STRIPE_GROUP))
}

/// The numbers of the tag of a row.
pub(super) fn own_numbers_of(row: &heap::Row<'_>) -> OwnNumbers {
    own_numbers(
        row.integer(column::STRIPES).unwrap_or_default(),
        row.integer(column::STRIPE).unwrap_or_default(),
        row.bigint(column::STRIPE_WIDTH).unwrap_or_default(),
    )
}
