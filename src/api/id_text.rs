//! Ids as texts with a check symbol.

use leaf_core::id_text::{self, BadIdText};
use pgrx::PgSqlErrorCode as Code;

use crate::error::Report;
use crate::pg::call::{Call, sql_functions};
use crate::pg::display;

sql_functions!(leaf_id_text, leaf_id_parse);

/// How many bytes a wrong text may have that an error shows.
const SHOWN: usize = 64;

/// The text of an id.
fn leaf_id_text(call: Call<'_>) -> Option<Vec<u8>> {
    Some(text_of(call.bigint(0)?))
}

/// The id of a text.
fn leaf_id_parse(call: Call<'_>) -> Option<i64> {
    Some(parse(call.text(0)?))
}

/// The text of an id; an error if the id is negative.
pub fn text_of(id: i64) -> Vec<u8> {
    let text = id_text::encode(id).unwrap_or_else(|| {
        // When: `leaf_id_text`
        Report::new(
            Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
            format!("{id} has no text, because it is negative"),
            "Only ids from 0 on have texts. Let the tag start at 0 or above.",
        )
        .raise()
    });
    text.into_bytes()
}

/// The id of a text; an error if it is not one.
pub fn parse(text: &[u8]) -> i64 {
    id_text::decode(text).unwrap_or_else(|error| refuse(text, error))
}

fn refuse(text: &[u8], error: BadIdText) -> ! {
    let shown = match text.len() {
        0..=SHOWN => format!("\"{}\"", display(text)),
        bytes => format!("a text of {bytes} bytes"),
    };
    // When: `leaf_id_parse`, `leaf_partman_decoder`: a symbol is wrong, or the text was cut; DETAIL
    // says which
    Report::new(
        Code::ERRCODE_INVALID_TEXT_REPRESENTATION,
        format!("{shown} is not the text of an id"),
        "Give what leaf_id_text has returned: 13 symbols and a check symbol, with or without hyphens.",
    )
    .detail(format!("As the text of an id, {error}."))
    .raise()
}
