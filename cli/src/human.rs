//! Numbers and durations, short enough for a column.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A count in at most five characters: `999`, `1.2k`, `12k`, `3.4M`, `9.2E`.
pub fn count(number: f64) -> String {
    const UNITS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let (mut value, mut unit) = (number, 0);
    // What would be rounded to four digits gets the next unit.
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

/// That of the machine; tests have one that is the same everywhere.
fn zone() -> TimeZone {
    match cfg!(test) {
        true => TimeZone::UTC,
        false => TimeZone::system(),
    }
}

/// The beginning of a text, if it is longer than `width` characters.
pub fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => {
            let beginning: String = text.chars().take(width.saturating_sub(1)).collect();
            beginning + "…"
        }
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
