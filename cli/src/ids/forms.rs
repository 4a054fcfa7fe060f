//! The forms of an id: a number or a text.

use std::num::{IntErrorKind, ParseIntError};

use clap::ValueEnum;

use crate::failure::Failure;

/// The form of an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A number if it has digits only and does not begin with 0, else a text
    #[default]
    Auto,
    /// A number
    Number,
    /// 13 symbols and a check symbol, as leaf_id_text writes them
    Text,
}

impl Form {
    /// The id that is given.
    pub fn parse(self, given: &str) -> Result<i64, Failure> {
        match self {
            Form::Auto if is_number(given) => Form::Number.parse(given),
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
        for (form, given) in [
            (Form::Auto, "1001"),
            (Form::Auto, "0000-0000-000-z92"),
            (Form::Text, "00000000000Z92"),
            (Form::Number, "1001"),
        ] {
            assert_eq!(form.parse(given).ok(), Some(1001), "{form:?} {given}");
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for given in ["", "x", "9223372036854775808", "007", "00000000000Z29"] {
            assert!(Form::Auto.parse(given).is_err(), "{given}");
        }
    }
}
