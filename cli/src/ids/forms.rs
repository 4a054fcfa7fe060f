//! What an id can be given as: a number, a text, or a masked number.

use std::fs;
use std::num::{IntErrorKind, ParseIntError};
use std::path::PathBuf;

use clap::ValueEnum;
use leaf_core::mask::{KEY_LENGTH, Key};
use leaf_sdk::{Mask, MaskWidth};

use crate::failure::Failure;

/// What an id is given as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A number if it has digits only and does not begin with 0, else a text
    #[default]
    Auto,
    /// A number
    Number,
    /// 13 symbols and a check symbol, as leaf_id_text writes them
    Text,
    /// A number that leaf_mask has made of the id
    Masked,
}

/// The key with which ids are masked.
#[derive(Debug, clap::Args)]
pub struct MaskArgs {
    /// File with the key of leaf_mask_key, as hexadecimal digits
    #[arg(long, value_name = "FILE")]
    mask_key: Option<PathBuf>,

    /// How many bits masked ids have: 63 or 53
    #[arg(long, value_name = "BITS", default_value = "63", value_parser = width, requires = "mask_key")]
    mask_bits: MaskWidth,
}

fn width(text: &str) -> Result<MaskWidth, String> {
    let bits = text.parse().ok();
    bits.and_then(MaskWidth::of)
        .ok_or_else(|| "must be 63 or 53".into())
}

impl MaskArgs {
    /// The mask, if there is a key.
    pub fn mask(&self) -> Result<Option<Mask>, Failure> {
        let Some(file) = &self.mask_key else {
            return Ok(None);
        };
        let bad = |why: String| Failure::usage(why).about(file.display());
        let content = fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
        let key = key(content.trim()).ok_or_else(|| {
            let digits = 2 * KEY_LENGTH;
            bad(format!("the key must have {digits} hexadecimal digits"))
                .hint("SELECT key FROM leaf_mask_key('…')")
        })?;
        Ok(Some(Mask::new(1, &key, self.mask_bits)))
    }
}

/// A key as psql shows it, `\x` and hexadecimal digits.
fn key(text: &str) -> Option<Key> {
    let digits = text.strip_prefix("\\x").unwrap_or(text);
    let mut key: Key = [0; KEY_LENGTH];
    hex::decode_to_slice(digits, &mut key).ok()?;
    Some(key)
}

impl Form {
    /// The id that is given.
    pub fn parse(self, given: &str, mask: Option<&Mask>) -> Result<i64, Failure> {
        match self {
            Form::Auto if is_number(given) && mask.is_some() => Form::Masked.parse(given, mask),
            Form::Auto if is_number(given) => Form::Number.parse(given, mask),
            Form::Auto | Form::Text => leaf_core::id_text::decode(given.as_bytes())
                .map_err(|bad| Failure::input(format!("not an id: {bad}"))),
            Form::Number => given.parse().map_err(|bad: ParseIntError| {
                Failure::input(match bad.kind() {
                    IntErrorKind::PosOverflow => {
                        format!("not an id: it is larger than {}", i64::MAX)
                    }
                    IntErrorKind::NegOverflow => format!("not an id: it is less than {}", i64::MIN),
                    _ => format!("not an id: {bad}"),
                })
            }),
            Form::Masked => {
                let masked = Form::Number.parse(given, None)?;
                let id = mask.map(|mask| mask.unmask::<i64>(masked));
                id.unwrap_or(Ok(masked)).map_err(Failure::input)
            }
        }
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_decimal = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_decimal && (digits == "0" || !digits.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_leads_to_the_id() {
        let mask = Mask::new(1, &[7; KEY_LENGTH], MaskWidth::Bits63);
        let masked = mask.mask(1001).expect("a number").to_string();
        for (form, given, mask) in [
            (Form::Auto, "1001", None),
            (Form::Auto, "0000-0000-000-z92", None),
            (Form::Text, "00000000000Z92", None),
            (Form::Auto, masked.as_str(), Some(&mask)),
            (Form::Masked, masked.as_str(), Some(&mask)),
            (Form::Number, "1001", Some(&mask)),
        ] {
            assert_eq!(form.parse(given, mask).ok(), Some(1001), "{form:?} {given}");
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for given in ["", "x", "9223372036854775808", "007", "00000000000Z29"] {
            assert!(Form::Auto.parse(given, None).is_err(), "{given}");
        }
    }
}
