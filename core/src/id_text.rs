//! Ids as short texts for people and for programs that cannot hold 64-bit integers:
//! [Crockford's base 32](https://www.crockford.com/base32.html) with its check symbol.
//!
//! A text has a fixed width, so that texts sort as the ids do, even in collations that are
//! not the bytes' order: digits come before letters, letters in the order of the alphabet,
//! and two texts differ before the check symbol, which can be a punctuation mark.

use std::fmt;

/// The symbols of the numbers from 0 to 36; those from 32 on are check symbols only.
const SYMBOLS: &[u8; 37] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ*~$=U";

/// The number of symbols of an id, 5 bits each.
const DIGITS: usize = 13;

/// The length of a text: the id's symbols and the check symbol.
pub const LENGTH: usize = DIGITS + 1;

/// The modulus of the check symbol: a prime above 32, so that one wrong symbol, and two
/// neighbours that are swapped, always change it.
const MODULUS: u64 = 37;

/// Why a text is not that of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadIdText {
    /// It has another number of symbols.
    Length(usize),
    /// It has something else than a symbol at this place, counted from 1, in bytes.
    Symbol(usize),
    /// The check symbol belongs to another number: the text was misread or mistyped.
    Check,
    /// The number is larger than any id.
    Range,
}

impl fmt::Display for BadIdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadIdText::Length(found) => write!(f, "it has {found} symbols instead of {LENGTH}"),
            BadIdText::Symbol(place) => write!(f, "its byte {place} is not a symbol"),
            BadIdText::Check => f.write_str("its check symbol is wrong"),
            BadIdText::Range => f.write_str("its number is larger than any id"),
        }
    }
}

impl std::error::Error for BadIdText {}

/// The text of an id; `None` for a negative number, which has none.
///
/// ```
/// use leaf_core::id_text;
///
/// assert_eq!(id_text::encode(1001).as_deref(), Some("00000000000Z92"));
/// assert_eq!(id_text::encode(-1), None);
/// ```
pub fn encode(id: i64) -> Option<String> {
    let id = u64::try_from(id).ok()?;
    let digit = |place: usize| SYMBOLS[(id >> (5 * place) & 31) as usize];
    let digits = (0..DIGITS).rev().map(digit);
    let check = SYMBOLS[(id % MODULUS) as usize];
    Some(digits.chain([check]).map(char::from).collect())
}

/// The id of a text. Upper and lower case are the same, `I` and `L` are read as 1, `O` as 0,
/// and hyphens are skipped.
///
/// # Errors
/// The error in a text that is no id.
///
/// ```
/// use leaf_core::id_text::{self, BadIdText};
///
/// assert_eq!(id_text::decode(b"00000000000Z92"), Ok(1001));
/// assert_eq!(id_text::decode(b"oooo-oooo-ooo-z92"), Ok(1001));
/// assert_eq!(id_text::decode(b"00000000000Z29"), Err(BadIdText::Check));
/// ```
pub fn decode(text: &[u8]) -> Result<i64, BadIdText> {
    let symbols = text.iter().zip(1..).filter(|(byte, _)| **byte != b'-');
    let (mut number, mut count) = (0_u64, 0);
    let mut check = None;
    for (&byte, place) in symbols {
        let value = value(byte).ok_or(BadIdText::Symbol(place))?;
        count += 1;
        match count {
            1..=DIGITS if value < 32 && number < 1 << 59 => number = number << 5 | value,
            1..=DIGITS if value < 32 => return Err(BadIdText::Range),
            LENGTH => check = Some(value),
            1..=DIGITS => return Err(BadIdText::Symbol(place)),
            _ => {}
        }
    }
    if count != LENGTH {
        return Err(BadIdText::Length(count));
    }
    let id = i64::try_from(number).map_err(|_| BadIdText::Range)?;
    match check == Some(number % MODULUS) {
        true => Ok(id),
        false => Err(BadIdText::Check),
    }
}

/// The number that a symbol stands for.
fn value(byte: u8) -> Option<u64> {
    let symbol = match byte.to_ascii_uppercase() {
        b'I' | b'L' => b'1',
        b'O' => b'0',
        symbol => symbol,
    };
    let place = SYMBOLS.iter().position(|known| *known == symbol)?;
    Some(place as u64)
}
