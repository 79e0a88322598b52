//! Numbers as people write them, with units.

/// `9.98 Mbit/s`: three significant digits.
pub fn rate(bps: f64) -> String {
    scaled(
        bps,
        &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")],
        "bit/s",
    )
}

/// `51.2 kB`: three significant digits, decimal multiples.
pub fn bytes(bytes: f64) -> String {
    scaled(bytes, &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB")], "bytes")
}

/// `18.5 ms`: three significant digits.
pub fn duration(seconds: f64) -> String {
    match scaled(seconds, &[(1.0, "s"), (1e-3, "ms")], "µs") {
        nothing if nothing == "0 µs" => "0 ms".to_owned(),
        text => text,
    }
}

fn scaled(value: f64, units: &[(f64, &str)], smallest: &str) -> String {
    for &(factor, unit) in units {
        // the rounding must not carry a value into the next unit: 999.6 kbit/s is 1.00 Mbit/s
        if value.abs() >= 0.9995 * factor {
            return format!("{} {unit}", significant(value / factor));
        }
    }
    let factor = if smallest == "µs" { 1e-6 } else { 1.0 };
    format!("{} {smallest}", (value / factor).round())
}

/// Three significant digits, no exponent.
fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// `1 284`: groups of three digits, as SI writes them, with a no-break space.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push('\u{a0}');
        }
        grouped.push(digit);
    }
    grouped
}

/// `97 %`; never rounded to 0 or 100 unless it is.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let text = match percent {
        p if p > 99.0 && p < 100.0 => format!("{:.1}", p.min(99.9)),
        p if p > 0.0 && p < 1.0 => format!("{:.2}", p.max(0.01)),
        p if p < 10.0 => format!("{p:.1}"),
        p => format!("{p:.0}"),
    };
    format!("{} %", text.trim_end_matches(".0"))
}

/// `1 packet`, `2 packets`.
pub fn plural(number: u64, noun: &str) -> String {
    format!(
        "{} {noun}{}",
        count(number),
        if number == 1 { "" } else { "s" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_carry_three_digits_and_a_unit() {
        assert_eq!(rate(9_983_000.0), "9.98 Mbit/s");
        assert_eq!(rate(999_600.0), "1.00 Mbit/s");
        assert_eq!(rate(280e6), "280 Mbit/s");
        assert_eq!(bytes(51_200.0), "51.2 kB");
        assert_eq!(bytes(800.0), "800 bytes");
        assert_eq!(duration(0.01854), "18.5 ms");
        assert_eq!(duration(0.000_004), "4 µs");
        assert_eq!(duration(0.000_020), "20 µs");
        assert_eq!(duration(2.5), "2.50 s");
        assert_eq!(duration(0.0), "0 ms");
    }

    #[test]
    fn digits_stand_in_groups_of_three() {
        assert_eq!(count(7), "7");
        assert_eq!(count(1284), "1\u{a0}284");
        assert_eq!(count(1_000_000), "1\u{a0}000\u{a0}000");
    }

    #[test]
    fn a_share_is_all_or_nothing_only_when_it_is() {
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.9999), "99.9 %");
        assert_eq!(percent(0.00001), "0.01 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.42), "42 %");
    }
}
