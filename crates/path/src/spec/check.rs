//! Values that make no sense, found by the name of their field.

use serde_json::{Map, Value};

use super::{ElementSpec, PathSpec, SpecError, text};

/// The smallest Ethernet frame: a bucket for less lets nothing pass.
const SMALLEST_PACKET_BYTES: f64 = 64.0;
/// A petabit per second. The models compute with whole numbers of bits and nanoseconds.
const HIGHEST_RATE_BPS: f64 = 1e15;
const MOST: f64 = 1e15;

impl PathSpec {
    /// Returns an error for the first field with a value that makes no sense.
    pub fn check(&self) -> Result<(), SpecError> {
        self.elements.iter().try_for_each(ElementSpec::check)
    }
}

impl ElementSpec {
    fn check(&self) -> Result<(), SpecError> {
        let fault = |field: &str, message: String| SpecError {
            element: self.name().to_owned(),
            field: field.to_owned(),
            message,
        };
        let values = self.values();
        for field in Self::fields(self.name()).unwrap_or_default() {
            if let Some(value) = values.get(field.name)
                && let Some(message) = wrong(field.name, value)
            {
                return Err(fault(&text::key(field.name), message));
            }
        }
        self.wrong_together()
            .map_or(Ok(()), |(field, message)| Err(fault(field, message)))
    }

    /// The fields that are set, by name.
    pub(super) fn values(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(values)) => values,
            _ => Map::new(),
        }
    }

    fn wrong_together(&self) -> Option<(&'static str, String)> {
        match *self {
            Self::Policer {
                peak_rate_bps,
                peak_burst_bytes,
                ..
            }
            | Self::Shaper {
                peak_rate_bps,
                peak_burst_bytes,
                ..
            } if peak_rate_bps.is_some() != peak_burst_bytes.is_some() => {
                let (given, missing) = match peak_rate_bps {
                    Some(_) => ("peak-rate", "peak-burst"),
                    None => ("peak-burst", "peak-rate"),
                };
                Some((
                    given,
                    format!("expected {missing} with it: the second bucket has a rate and a size"),
                ))
            }
            Self::Red {
                min_packets,
                max_packets,
                ..
            } if max_packets < min_packets => Some((
                "max",
                format!("expected at least min, which is {min_packets} packets"),
            )),
            Self::Jitter {
                low_ns, high_ns, ..
            } if high_ns < low_ns => Some((
                "high",
                format!("expected at least low, which is {}", text::time(low_ns)),
            )),
            Self::Outage { from_ns, until_ns } if until_ns <= from_ns => Some((
                "until",
                format!(
                    "expected a time after from, which is {}",
                    text::time(from_ns)
                ),
            )),
            _ => None,
        }
    }
}

/// The message about a value, if it makes no sense. JSON has no NaN and no infinity: they are null.
fn wrong(field: &str, value: &Value) -> Option<String> {
    if value.is_null() {
        return Some("expected a finite number".to_owned());
    }
    let number = value.as_f64()?;
    let within = |low: f64, high: f64| (low..=high).contains(&number);
    let (right, expected) = match field {
        "seed" => (true, ""),
        "overhead_bytes" => (within(0.0, 65_535.0), "expected 0 to 65535 bytes"),
        "initial_bytes" | "excess_burst_bytes" => (within(0.0, MOST), "expected 0 or more bytes"),
        "min_packets" => (within(0.0, MOST), "expected 0 or more packets"),
        "tick_ns" | "turn_ns" | "interval_ns" | "mean_ns" => (
            within(1.0, i64::MAX as f64),
            "expected a time longer than 0",
        ),
        "period_ns" => (
            within(1e6, i64::MAX as f64),
            "expected at least 1ms between updates",
        ),
        "share" => (
            number > 0.0 && number < 1.0,
            "expected more than 0 and less than 1, or 100%",
        ),
        _ if field.ends_with("_bps") => (
            within(1.0, HIGHEST_RATE_BPS),
            "expected at least 1 bit/s and at most 10^15 bit/s",
        ),
        _ if field.ends_with("_bytes") => (
            within(SMALLEST_PACKET_BYTES, MOST),
            "expected room for a packet: at least 64 bytes (1500B is a full one)",
        ),
        _ if field.ends_with("_packets") => (within(1.0, MOST), "expected at least one packet"),
        _ if field.ends_with("_ns") => {
            (within(0.0, i64::MAX as f64), "expected less than 292 years")
        }
        _ => (within(0.0, 1.0), "expected 0 to 1, or 0% to 100%"),
    };
    (!right).then(|| format!("{}: {expected}", text::written(field, value)))
}
