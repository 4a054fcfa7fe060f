//! Texts in the database's encoding as Rust strings, and back.
//!
//! In a database whose encoding is not UTF-8, every byte of a character that is not ASCII
//! becomes a private character of its own, and becomes that byte again when the string is
//! handed to PostgreSQL. Nothing is converted, so nothing can fail, also outside of
//! transactions and for bytes that are no characters (SQL_ASCII).

use std::ffi::{CStr, CString};

use pgrx::pg_sys;

/// The private character of byte 0.
const PRIVATE: u32 = 0x0010_FF00;

fn is_utf8() -> bool {
    // SAFETY: reads a variable of this process.
    unsafe { pg_sys::GetDatabaseEncoding() == pg_sys::pg_enc::PG_UTF8 as i32 }
}

/// A text in the database's encoding as a string, for messages.
pub fn display(text: &[u8]) -> String {
    if is_utf8() {
        return String::from_utf8_lossy(text).into_owned();
    }
    let to_char = |&byte: &u8| match byte.is_ascii() {
        true => char::from(byte),
        false => char::from_u32(PRIVATE + u32::from(byte)).unwrap_or('?'),
    };
    text.iter().map(to_char).collect()
}

/// A text in the database's encoding, converted to UTF-8. An error if that is not possible.
pub fn to_utf8(text: &[u8]) -> String {
    // SAFETY: reads exactly the bytes given; the result is those, or a C string.
    unsafe {
        let (start, len) = (text.as_ptr().cast(), text.len() as i32);
        let converted = pg_sys::pg_server_to_any(start, len, pg_sys::pg_enc::PG_UTF8 as i32);
        match converted.cast_const() == start {
            true => String::from_utf8_lossy(text).into_owned(),
            false => CStr::from_ptr(converted).to_string_lossy().into_owned(),
        }
    }
}

/// A string in the database's encoding: the reverse of [`display`]. Other characters that
/// are not ASCII become question marks. A character that was cut is left out.
pub fn encode(text: &str) -> Vec<u8> {
    if is_utf8() {
        return text.as_bytes().to_vec();
    }
    let to_byte = |char: char| match u32::from(char) {
        code @ 0..128 => code as u8,
        code @ 0x0010_FF80..=0x0010_FFFF => (code - PRIVATE) as u8,
        _ => b'?',
    };
    let mut bytes: Vec<u8> = text.chars().map(to_byte).collect();
    let len = bytes.len() as i32;
    // SAFETY: reads exactly the bytes given.
    let whole = unsafe { pg_sys::pg_mbcliplen(bytes.as_ptr().cast(), len, len) };
    bytes.truncate(whole as usize);
    bytes
}

/// Like [`encode`], for C. Ends at the first zero byte.
pub fn encode_c(text: &str) -> CString {
    let mut bytes = encode(text);
    let end = bytes.iter().position(|&byte| byte == 0);
    bytes.truncate(end.unwrap_or(bytes.len()));
    CString::new(bytes).unwrap_or_default()
}

/// Whether strings can be handed to PostgreSQL as they are.
pub fn needs_no_encoding() -> bool {
    is_utf8()
}
