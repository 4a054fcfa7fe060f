//! Drawing snowflake ids, and converting between ids and instants.

use leaf_core::snowflake::generator::TickIds;
use leaf_core::snowflake::scheme::Fields;
use leaf_core::snowflake::{Layout, Scheme};
use leaf_core::time::WallTime;
use pgrx::pg_sys;

use super::{args, id_text};
use crate::pg::call::{Call, Datum, describe_function, sql_functions};
use crate::pg::rows::Record;
use crate::pg::{process, report};
use crate::session::snowflake::draw::draw;
use crate::session::snowflake::source;
use crate::shmem;

describe_function!(leaf_snowflake_next);
sql_functions!(
    leaf_snowflake_batch,
    leaf_snowflake_decode,
    leaf_snowflake_floor,
    leaf_snowflake_time,
    leaf_partman_encoder,
    leaf_partman_decoder
);

/// The next id: one reading of the clock and one compare-and-swap, while the lease is
/// valid and the tick has ids.
///
/// # Safety
/// Called by PostgreSQL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn leaf_snowflake_next(_fcinfo: pg_sys::FunctionCallInfo) -> Datum {
    if let Some(source) = source::known()
        && let Ok(taken) = source.take(1)
    {
        if taken.due {
            // SAFETY: PostgreSQL has called this function.
            unsafe { report::guarded(|| source.request_renewal()) };
        }
        return Datum::from(taken.ids.first());
    }
    // SAFETY: as above.
    unsafe { report::guarded(|| Datum::from(draw(1).first())) }
}

/// Any number of ascending ids.
fn leaf_snowflake_batch(call: Call<'_>) -> Datum {
    call.each(|| {
        let left = args::count(call.integer(0));
        shmem::require();
        Batch {
            left,
            drawn: TickIds::default(),
        }
    })
}

/// The rest of a batch. It draws step by step, at most the ids of one tick at once.
struct Batch {
    left: u64,
    drawn: TickIds,
}

impl Iterator for Batch {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        if self.left == 0 {
            return None;
        }
        if self.drawn.len() == 0 {
            process::check_for_interrupts();
            self.drawn = draw(self.left);
        }
        self.left -= 1;
        self.drawn.next()
    }
}

/// The fields of an id, by this database's layout and epoch, or by the given ones.
fn leaf_snowflake_decode(call: Call<'_>) -> Record {
    let id = args::given(call.bigint(0), "id");
    let fields = decoded(id, scheme_of(call));
    Record::new()
        .with("created_at", fields.created_at)
        .with("worker_id", fields.worker_id as i32)
        .with("sequence", fields.sequence as i32)
}

/// The instant in an id, by this database's layout and epoch, or by the given ones.
fn leaf_snowflake_time(call: Call<'_>) -> WallTime {
    let id = args::given(call.bigint(0), "id");
    decoded(id, scheme_of(call)).created_at
}

/// The smallest id of an instant, by this database's layout and epoch, or by the given
/// ones.
fn leaf_snowflake_floor(call: Call<'_>) -> i64 {
    let at = args::given(call.timestamp(0), "ts");
    scheme_of(call).floor(at)
}

/// The text of the smallest id of an instant with layout `leaf`.
fn leaf_partman_encoder(call: Call<'_>) -> Option<Vec<u8>> {
    let floor = Scheme::of(Layout::LEAF).floor(call.timestamp(0)?);
    Some(id_text::text_of(floor))
}

/// The instant in the id of a text with layout `leaf`.
fn leaf_partman_decoder(call: Call<'_>) -> Option<WallTime> {
    let id = id_text::parse(call.text(0)?);
    Some(decoded(id, Scheme::of(Layout::LEAF)).created_at)
}

/// The fields of an id; an error if it is not one.
fn decoded(id: i64, scheme: Scheme) -> Fields {
    scheme.decode(id).unwrap_or_else(|| {
        // When: `leaf_snowflake_decode`, `leaf_snowflake_time`, `leaf_partman_decoder`
        args::raise_bad(
            format!("{id} is not an id of layout {}", scheme.layout),
            "Give the layout and epoch that the id was made with.",
        )
    })
}

/// Layout and epoch from the second and third argument, if there are any.
fn scheme_of(call: Call<'_>) -> Scheme {
    if call.args() < 3 {
        return source::scheme();
    }
    Scheme {
        layout: args::layout(call.text(1)),
        epoch: args::given(call.timestamp(2), "epoch"),
    }
}
