//! Masks: ids that give nothing away.

use leaf_core::mask::{Mask, Width};
use pgrx::PgSqlErrorCode as Code;

use super::args;
use crate::catalog::{self, alloc};
use crate::error::Report;
use crate::pg::call::{Call, sql_functions};
use crate::pg::rows::Record;
use crate::segment::masks::{self, Wanted};
use crate::segment::permissions::require_owner;
use crate::shmem;

sql_functions!(leaf_mask, leaf_unmask, leaf_mask_key, leaf_mask_rotate);

/// The masked number of an id; NULL for NULL.
fn leaf_mask(call: Call<'_>) -> Option<i64> {
    turn(call, "id", Mask::mask)
}

/// The id of a masked number; NULL for NULL.
fn leaf_unmask(call: Call<'_>) -> Option<i64> {
    turn(call, "masked id", Mask::unmask)
}

fn turn(call: Call<'_>, what: &str, turn: impl Fn(&Mask, i64) -> Option<i64>) -> Option<i64> {
    shmem::require();
    let (tag, wanted) = (args::tag(call.text(0)), wanted(call, 2));
    // Also for NULL, the tag must exist.
    let number = call.bigint(1);
    let turned = masks::with(tag, wanted, |mask| number.map(|number| turn(mask, number)));
    turned.map(|turned| turned.unwrap_or_else(|| out_of_range(what, number, wanted.width)))
}

fn out_of_range(what: &str, number: Option<i64>, width: Width) -> ! {
    let (number, bits) = (number.unwrap_or_default(), width.bits());
    let hint = match width {
        Width::Bits53 if number >= 0 => {
            "If it is an id, use 63 bits, which all ids have; nothing has this number as its mask of 53 bits."
        }
        _ => "Only numbers from 0 on can be masked.",
    };
    Report::new(
        Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
        format!("{what} {number} is not a number of {bits} bits"),
        hint,
    )
    .raise()
}

/// The key of a version: for clients that mask ids themselves.
fn leaf_mask_key(call: Call<'_>) -> Record {
    shmem::require();
    let tag = args::tag(call.text(0));
    let (version, key) = masks::key(tag, wanted(call, 1));
    Record::new()
        .with("version", version)
        .with("key", key.as_slice())
}

/// Begins another version of a tag's key.
fn leaf_mask_rotate(call: Call<'_>) -> i32 {
    shmem::require();
    let tag = args::tag(call.text(0));
    require_owner(tag);
    catalog::as_owner(|| alloc::rotate_mask(tag)).unwrap_or_else(|| {
        Report::new(
            Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
            "there are no more versions of the key",
            "Drop the tag and create it again to get another secret.",
        )
        .raise()
    })
}

/// Width and version, from the argument with this number on.
fn wanted(call: Call<'_>, bits: usize) -> Wanted {
    Wanted {
        width: args::mask_width(call.integer(bits)),
        version: call.integer(bits + 1),
    }
}
