//! Masks: ids that give nothing away.

use leaf_core::mask::{Mask, Width};
use pgrx::PgSqlErrorCode as Code;

use super::args;
use crate::error::Report;
use crate::pg::call::{Call, sql_functions};

sql_functions!(leaf_mask, leaf_unmask);

/// The masked number of an id; NULL for NULL.
fn leaf_mask(call: Call<'_>) -> Option<i64> {
    turn(call, "id", Mask::mask)
}

/// The id of a masked number; NULL for NULL.
fn leaf_unmask(call: Call<'_>) -> Option<i64> {
    turn(call, "masked id", Mask::unmask)
}

fn turn(call: Call<'_>, what: &str, turn: fn(&Mask, i64) -> Option<i64>) -> Option<i64> {
    let (number, key, bits) = (call.bigint(0)?, call.bytea(1)?, call.integer(2)?);
    let (key, width) = (args::mask_key(key), args::mask_width(bits));
    let turned = turn(&Mask::new(key, width), number);
    Some(turned.unwrap_or_else(|| out_of_range(what, number, width)))
}

fn out_of_range(what: &str, number: i64, width: Width) -> ! {
    // When: `leaf_mask`, `leaf_unmask`
    Report::new(
        Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
        format!("{what} {number} is not a number of {} bits", width.bits()),
        "If it is an id, use 64 bits, which all ids have; nothing has this number as its mask of fewer bits.",
    )
    .raise()
}
