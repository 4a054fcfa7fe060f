//! Texts as raw datums, and parameters of SQL statements.
//!
//! Tags are handled as bytes in the database's encoding, because leaf does not need
//! their characters.

use leaf_core::time::WallTime;
use pgrx::datum::DatumWithOid;
use pgrx::{pg_sys, varlena};

use super::clock;
use super::encoding::encode;

/// The bytes of a `text` or `varchar` datum; `None` if it is compressed or stored out
/// of line.
///
/// # Safety
/// `datum` is a valid, non-null datum of such a type and outlives `'a`.
#[inline(always)]
pub unsafe fn plain_text<'a>(datum: pg_sys::Datum) -> Option<&'a [u8]> {
    let text = datum.cast_mut_ptr::<pg_sys::varlena>() as *const pg_sys::varlena;
    // SAFETY: the caller's promise; external values are recognized by their header.
    unsafe {
        let inline = varlena::varatt_is_4b_u(text)
            || (varlena::varatt_is_1b(text) && !varlena::varatt_is_1b_e(text));
        inline.then(|| varlena::varlena_to_byte_slice(text))
    }
}

/// The bytes of any `text` or `varchar` datum, copied into palloc'd memory if they
/// have to be unpacked.
///
/// # Safety
/// As [`plain_text`].
pub unsafe fn text<'a>(datum: pg_sys::Datum) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe {
        let packed = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
        varlena::varlena_to_byte_slice(packed)
    }
}

/// The number of characters of a text in the database's encoding.
pub fn characters(text: &[u8]) -> usize {
    // SAFETY: reads exactly the bytes given.
    unsafe { pg_sys::pg_mbstrlen_with_len(text.as_ptr().cast(), text.len() as i32) as usize }
}

/// A parameter of an SQL statement.
pub type Arg = DatumWithOid<'static>;

/// A `text` parameter.
pub fn text_arg(text: &[u8]) -> Arg {
    // SAFETY: the datum is a new text in the current memory context, which outlives
    // the statement.
    unsafe { DatumWithOid::new(text_datum(text), pg_sys::TEXTOID) }
}

/// A `text` parameter from a string, as [`display`](super::display) makes it.
pub fn string_arg(text: &str) -> Arg {
    text_arg(&encode(text))
}

/// A `text` parameter or NULL.
pub fn optional_text_arg(text: Option<&[u8]>) -> Arg {
    match text {
        Some(text) => text_arg(text),
        None => DatumWithOid::null_oid(pg_sys::TEXTOID),
    }
}

/// A `bigint` parameter or NULL.
pub fn bigint_arg(value: impl Into<Option<i64>>) -> Arg {
    DatumWithOid::from(value.into())
}

/// A `timestamptz` parameter.
pub fn timestamp_arg(at: WallTime) -> Arg {
    let at = pg_sys::Datum::from(clock::to_timestamp(at));
    // SAFETY: a timestamptz is its 64 bits.
    unsafe { DatumWithOid::new(at, pg_sys::TIMESTAMPTZOID) }
}

/// A `uuid` parameter.
pub fn uuid_arg(uuid: [u8; 16]) -> Arg {
    DatumWithOid::from(pgrx::Uuid::from_bytes(uuid))
}

/// A `text[]` parameter.
pub fn text_array_arg<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Arg {
    let mut datums: Vec<_> = texts.map(text_datum).collect();
    // SAFETY: the elements are texts, described as such (`int` alignment,
    // variable length).
    unsafe {
        let array = pg_sys::construct_array(
            datums.as_mut_ptr(),
            datums.len() as i32,
            pg_sys::TEXTOID,
            -1,
            false,
            b'i' as _,
        );
        DatumWithOid::new(pg_sys::Datum::from(array), pg_sys::TEXTARRAYOID)
    }
}

/// A `bigint[]` parameter.
pub fn bigint_array_arg(values: impl Iterator<Item = i64>) -> Arg {
    let mut datums: Vec<_> = values.map(pg_sys::Datum::from).collect();
    // SAFETY: the elements are bigints, described as such (passed by value,
    // `double` alignment).
    unsafe {
        let array = pg_sys::construct_array(
            datums.as_mut_ptr(),
            datums.len() as i32,
            pg_sys::INT8OID,
            8,
            true,
            b'd' as _,
        );
        DatumWithOid::new(pg_sys::Datum::from(array), pg_sys::INT8ARRAYOID)
    }
}

/// A `tid[]` parameter.
pub fn tid_array_arg(places: Vec<pg_sys::ItemPointerData>) -> Arg {
    DatumWithOid::from(places)
}

/// A new `text` in the current memory context.
pub fn text_datum(text: &[u8]) -> pg_sys::Datum {
    // SAFETY: copies exactly the bytes given.
    let copy = unsafe { pg_sys::cstring_to_text_with_len(text.as_ptr().cast(), text.len() as i32) };
    pg_sys::Datum::from(copy)
}
