//! Numbers and durations, short enough for a column, and texts that a terminal can show.

use std::fmt::Write;
use std::str::FromStr;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// A count in at most five characters: `999`, `1.2k`, `12k`, `3.4M`, `9.2E`.
pub fn count(number: f64) -> String {
    const UNITS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let (mut value, mut unit) = (number, 0);
    // A number that would be rounded to four digits gets the next unit.
    while value.abs() >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1_000.0;
        unit += 1;
    }
    match unit {
        0 if value.fract() == 0.0 || value.abs() >= 99.95 => format!("{value:.0}"),
        0 => format!("{value:.1}"),
        _ if value.abs() < 9.95 => format!("{value:.1}{}", UNITS[unit]),
        _ => format!("{value:.0}{}", UNITS[unit]),
    }
}

/// A number with its thousands apart.
pub fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    match number < 0 {
        true => format!("-{text}"),
        false => text,
    }
}

/// A number and what is counted, which gets an s unless it is one.
pub fn counted(number: i64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// A text in at most `width` characters, without those in its middle.
pub fn shortened(text: &str, width: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let (first, last) = (&chars[..kept.div_ceil(2)], &chars[chars.len() - kept / 2..]);
    first.iter().chain(&['…']).chain(last).collect()
}

/// A time that is given with its unit, such as `500ms` or `2s`, longer than zero.
pub fn time(text: &str) -> Result<Duration, String> {
    let bad = || format!("\"{text}\" is not a time such as 500ms, 2s or 1min");
    let signed = SignedDuration::from_str(text).map_err(|_| bad())?;
    let duration = Duration::try_from(signed).map_err(|_| bad())?;
    match duration.is_zero() {
        true => Err("the time must be longer than zero".into()),
        false => Ok(duration),
    }
}

/// A duration in seconds, in its two largest units: `3d 4h`, `12m 5s`, `1.5s`, `20ms`.
pub fn duration(seconds: f64) -> String {
    const DAY: f64 = 86_400.0;
    let sign = if seconds < 0.0 { "-" } else { "" };
    let seconds = seconds.abs();
    let two = |large: f64, small: f64, names: [&str; 2]| {
        let whole = (seconds / large).floor();
        let rest = ((seconds - whole * large) / small).floor();
        match rest > 0.0 {
            true => format!("{whole}{} {rest}{}", names[0], names[1]),
            false => format!("{whole}{}", names[0]),
        }
    };
    let text = match seconds {
        s if s < 0.000_5 => "0s".into(),
        s if s < 1.0 => format!("{:.0}ms", s * 1_000.0),
        s if s < 10.0 => format!("{s:.1}s"),
        s if s < 60.0 => format!("{s:.0}s"),
        s if s < 3_600.0 => two(60.0, 1.0, ["m", "s"]),
        s if s < DAY => two(3_600.0, 60.0, ["h", "m"]),
        s if s < 365.0 * DAY => two(DAY, 3_600.0, ["d", "h"]),
        s if s < 1_000.0 * 365.0 * DAY => two(365.0 * DAY, DAY, ["y", "d"]),
        _ => ">1000y".into(),
    };
    format!("{sign}{text}")
}

/// An instant in the time zone of the machine.
pub fn instant(at: Timestamp) -> String {
    let at = at.to_zoned(zone());
    at.strftime("%Y-%m-%d %H:%M:%S%.3f%:z").to_string()
}

/// The time of day in the time zone of the machine.
pub fn time_of_day(at: Timestamp) -> String {
    at.to_zoned(zone()).strftime("%H:%M:%S").to_string()
}

/// The time zone of the machine; tests have one that is the same everywhere.
fn zone() -> TimeZone {
    match cfg!(test) {
        true => TimeZone::UTC,
        false => TimeZone::system(),
    }
}

/// A text of a server or a file, as a terminal may show it: characters that move the cursor,
/// give orders to the terminal or change the direction of the text are written as psql
/// writes them, such as `\n`, `\x1B` and `\u202E`.
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        // Writing to a string does not fail.
        let _ = match c {
            '\n' => printable.write_str("\\n"),
            '\r' => printable.write_str("\\r"),
            '\t' => printable.write_str("\\t"),
            '\0'..='\x1f' | '\x7f' => write!(printable, "\\x{:02X}", u32::from(c)),
            c if c.is_control() || changes_direction(c) => {
                write!(printable, "\\u{:04X}", u32::from(c))
            }
            c => printable.write_char(c),
        };
    }
    printable
}

/// A text as one word of a command of the shell, to be copied.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// A database for `-d` in a shell. A name that would be taken for a connection string, or for an
/// option, becomes one.
pub fn database_word(name: &str) -> String {
    let is_name = !name.contains('=') && !name.contains("://") && !name.starts_with('-');
    match is_name {
        true => shell_word(name),
        false => {
            let escaped = name.replace('\\', r"\\").replace('\'', r"\'");
            shell_word(&format!("dbname='{escaped}'"))
        }
    }
}

/// Marks of the direction of a text, and separators of lines and paragraphs.
fn changes_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shortened_in_their_middle() {
        for (width, expected) in [
            (30, "billing.invoices.archive"),
            (24, "billing.invoices.archive"),
            (11, "billi…chive"),
            (10, "billi…hive"),
            (1, "…"),
        ] {
            assert_eq!(shortened("billing.invoices.archive", width), expected);
        }
        assert_eq!(
            counted(1, "wait") + ", " + &counted(0, "wait"),
            "1 wait, 0 waits"
        );
    }

    #[test]
    fn counts_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (0.25, "0.2"),
            (999.0, "999"),
            (999.7, "1.0k"),
            (1_234.0, "1.2k"),
            (9_960.0, "10k"),
            (999_499.0, "999k"),
            (999_600.0, "1.0M"),
            (9.2e18, "9.2E"),
            (-1_500.0, "-1.5k"),
        ] {
            assert_eq!(count(number), text, "{number}");
        }
    }

    #[test]
    fn text_cannot_give_orders_to_a_terminal() {
        for (text, shown) in [
            ("orders", "orders"),
            ("\x1b]0;title\x07", "\\x1B]0;title\\x07"),
            ("a\r\n\tb\x7f", "a\\r\\n\\tb\\x7F"),
            ("\u{9b}31m", "\\u009B31m"),
            ("abc \u{202e}def\u{2066}", "abc \\u202Edef\\u2066"),
            ("עברית 💧", "עברית 💧"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }

    #[test]
    fn name_stays_one_word_of_the_shell() {
        for (text, word) in [
            ("shop.orders-2", "shop.orders-2"),
            ("", "''"),
            ("a b; rm $HOME", "'a b; rm $HOME'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(shell_word(text), word);
        }
        for (name, word) in [
            ("shop", "shop"),
            ("a b", "'a b'"),
            ("host=x", r"'dbname='\''host=x'\'''"),
            ("postgres://x/y", r"'dbname='\''postgres://x/y'\'''"),
            (r"it's\=", r"'dbname='\''it\'\''s\\='\'''"),
        ] {
            assert_eq!(database_word(name), word);
        }
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!(grouped(1), "1");
        assert_eq!(grouped(123_456), "123,456");
        assert_eq!(grouped(i64::MIN), "-9,223,372,036,854,775,808");
    }

    #[test]
    fn durations_have_two_units() {
        for (seconds, text) in [
            (0.0, "0s"),
            (0.02, "20ms"),
            (1.5, "1.5s"),
            (59.4, "59s"),
            (725.0, "12m 5s"),
            (7_200.0, "2h"),
            (273_600.0, "3d 4h"),
            (-2.0, "-2.0s"),
            (1e12, ">1000y"),
        ] {
            assert_eq!(duration(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn times_have_a_unit_and_are_longer_than_zero() {
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("1min"), Ok(Duration::from_secs(60)));
        for bad in ["", "5", "0s", "-1s", "soon"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
