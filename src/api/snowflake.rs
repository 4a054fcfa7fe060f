//! Snowflake ids: `leaf_snowflake_next`, `leaf_snowflake_batch`, and what turns
//! ids into instants and back.

use leaf_core::snowflake::Scheme;
use pgrx::iter::SetOfIterator;
use pgrx::pg_sys;
use pgrx::prelude::*;

use super::segment::{bad_argument, checked_count};
use crate::pg::call::{self, Call, Datum, v1_function};
use crate::pg::{self, args};
use crate::session;
use crate::snowflake::{self, Run};

#[unsafe(no_mangle)]
pub extern "C" fn pg_finfo_leaf_snowflake_next() -> &'static pg_sys::Pg_finfo_record {
    &pg::V1
}

/// The next id: a look at the clock and a compare-and-swap, while the lease
/// holds and the tick has ids.
///
/// # Safety
/// Called by PostgreSQL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn leaf_snowflake_next(
    _fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    if let Some(source) = snowflake::known()
        && let Ok(taken) = source.take(1)
    {
        if taken.due {
            // SAFETY: PostgreSQL has called this function.
            unsafe { call::guarded(|| source.request_renewal()) };
        }
        return Datum::from(taken.first);
    }
    // SAFETY: as above.
    unsafe { call::guarded(|| Datum::from(snowflake::draw(1).first)) }
}

#[pg_extern(sql = false)]
fn leaf_snowflake_batch(count: i32) -> SetOfIterator<'static, i64> {
    let left = checked_count(i64::from(count));
    session::shared();
    SetOfIterator::new(Batch {
        left,
        drawn: Run { first: 0, len: 0 },
    })
}

/// The rest of a `leaf_snowflake_batch`: draws as it goes, at most a tick's ids
/// at once.
struct Batch {
    left: u64,
    drawn: Run,
}

impl Iterator for Batch {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        if self.left == 0 {
            return None;
        }
        if self.drawn.len == 0 {
            pg::check_for_interrupts();
            self.drawn = snowflake::draw(self.left);
        }
        let id = self.drawn.first;
        self.drawn.first += 1;
        self.drawn.len -= 1;
        self.left -= 1;
        Some(id)
    }
}

v1_function! {
    /// What an id says, by this database's layout and epoch, or by those given.
    ///
    /// # Safety
    /// Called by PostgreSQL as a strict function of a `bigint`, or a `bigint`, a
    /// `text` and a `timestamptz`, that returns a record of a `timestamptz` and two
    /// `integer`s.
    fn leaf_snowflake_decode(call) {
        let id = call.arg(0).value() as i64;
        let scheme = scheme_of(call);
        let Some(parts) = scheme.decode(id) else {
            bad_argument(
                format!("{id} is not an id of layout {}", scheme.layout),
                "Give the layout and epoch that the id was made with.",
            );
        };
        call.record([
            Datum::from(pg::from_unix_us(parts.created_us)),
            Datum::from(parts.worker as i32),
            Datum::from(parts.sequence as i32),
        ])
    }
}

v1_function! {
    /// The smallest id of an instant, by this database's layout and epoch, or by
    /// those given.
    ///
    /// # Safety
    /// Called by PostgreSQL as a strict function of a `timestamptz`, or a
    /// `timestamptz`, a `text` and a `timestamptz`.
    fn leaf_snowflake_floor(call) {
        let at = pg::to_unix_us(call.arg(0).value() as i64);
        Datum::from(scheme_of(call).floor(at))
    }
}

/// Layout and epoch from the second and third argument, if there are any.
///
/// # Safety
/// These arguments are a `text` and a `timestamptz`.
unsafe fn scheme_of(call: Call) -> Scheme {
    if call.args() < 3 {
        return snowflake::scheme();
    }
    // SAFETY: the caller's promise.
    let (layout, epoch) = unsafe { (args::text(call.arg(1)), call.arg(2).value() as i64) };
    Scheme {
        layout: snowflake::parse_layout(&String::from_utf8_lossy(layout)),
        epoch_us: pg::to_unix_us(epoch),
    }
}
