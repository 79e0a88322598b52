//! Times and rates on the command line: `10min`, `100M`.

const TIMES: [(&str, f64); 10] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
    ("", 1.0),
];
const PREFIXES: [(&str, f64); 3] = [("k", 1e3), ("m", 1e6), ("g", 1e9)];
const RATE_UNITS: [&str; 4] = ["bit/s", "bit", "bps", ""];

/// Reads a time; without a unit, in seconds.
///
/// # Errors
/// A message with an example.
pub fn seconds(text: &str) -> Result<f64, String> {
    quantity(text, "a time such as 0.2, 20 ms or 1 min", |unit| {
        TIMES
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, factor)| *factor)
    })
}

/// Reads a rate in bit/s.
///
/// # Errors
/// A message with an example.
pub fn rate_bps(text: &str) -> Result<f64, String> {
    quantity(text, "a rate such as 10 Mbit/s", |unit| {
        if RATE_UNITS.contains(&unit) {
            return Some(1.0);
        }
        let prefixed = |(prefix, factor): &(&str, f64)| {
            unit.strip_prefix(prefix)
                .is_some_and(|rest| RATE_UNITS.contains(&rest))
                .then_some(*factor)
        };
        PREFIXES.iter().find_map(prefixed)
    })
}

fn quantity(text: &str, wanted: &str, factor: impl Fn(&str) -> Option<f64>) -> Result<f64, String> {
    let expected = || format!("'{text}': expected {wanted}");
    let (number, unit) = split(text.trim()).ok_or_else(expected)?;
    let factor = factor(&unit.to_lowercase())
        .ok_or_else(|| format!("'{text}' has an unknown unit; expected {wanted}"))?;
    // Through a text, so that 20 ms is 0.02 s and not the nearest product of two binary fractions.
    let rounded: f64 = format!("{:.14e}", number * factor)
        .parse()
        .map_err(|_| expected())?;
    Some(rounded)
        .filter(|value| value.is_finite())
        .ok_or_else(expected)
}

/// Splits a number from its unit: the longest beginning that is a number.
fn split(text: &str) -> Option<(f64, &str)> {
    let ends = text
        .char_indices()
        .map(|(at, character)| at + character.len_utf8());
    let (number, end) = ends
        .take_while(|&end| !text[..end].contains(char::is_whitespace))
        .filter(|&end| text[..end].ends_with(|last: char| last.is_ascii_digit()))
        .filter_map(|end| Some((text[..end].parse::<f64>().ok()?, end)))
        .last()?;
    Some((number, text[end..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_seconds() {
        for (text, expected) in [
            ("4h", 14_400.0),
            ("10min", 600.0),
            ("90s", 90.0),
            ("90", 90.0),
            ("20 ms", 0.02),
            ("1.5m", 90.0),
            (".5", 0.5),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn rates_are_in_bits_per_second() {
        for (text, expected) in [
            ("100M", 1e8),
            ("1G", 1e9),
            ("10 Mbit/s", 1e7),
            ("1gbit", 1e9),
            ("64000", 64e3),
            ("1e6", 1e6),
            ("5kbps", 5e3),
        ] {
            assert_eq!(rate_bps(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_mistake_is_answered_with_an_example() {
        for text in ["", "fast", "4x", "h", "1 2", "--", "1e999"] {
            assert!(seconds(text).unwrap_err().contains("20 ms"), "{text}");
            assert!(rate_bps(text).unwrap_err().contains("10 Mbit/s"), "{text}");
        }
    }
}
