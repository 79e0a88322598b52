//! The numbers of a diagnosis compared with the true ones: parameters of the path, and the second capture's clock.

use serde_json::Value;

use super::statistics::covered;

/// One full Ethernet frame: the tolerance of a burst or a limit in bytes.
const ONE_PACKET_BYTES: f64 = 1_514.0;
/// Tolerances for captures without defects; doubled for those with noise of their own.
pub(crate) const RATE: f64 = 0.01;
const BURST: f64 = 0.05;
/// For a queue that never drops.
const STANDING_RATE: f64 = 0.02;
const OFFSET_US: f64 = 100.0;
const DRIFT_PPM: f64 = 2.0;
const TARGET: f64 = 0.25;
/// Fewer drops and marks do not determine CoDel's parameters.
const EVENTS_FOR_PARAMETERS: u64 = 30;

/// A number of the diagnosis, with the true one.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    pub name: &'static str,
    /// In the unit of its name; relative errors have none.
    pub error: Option<f64>,
    /// The largest permitted error.
    pub bar: f64,
    /// True if the stated interval, if any, contains the truth.
    pub covered: Option<bool>,
    /// It can be determined from the captures. Otherwise it may be omitted, but a stated value must contain the truth.
    pub identifiable: bool,
}

impl Compared {
    pub fn is_good(&self) -> bool {
        let near = self.error.is_some_and(|error| error.abs() <= self.bar);
        near || (!self.identifiable && self.covered != Some(false))
    }
}

/// The error of a parameter that is permitted.
#[derive(Debug, Clone, Copy)]
enum Bar {
    /// A share of the true value.
    Share(f64),
    /// A share, or one packet if that is more.
    Burst,
    /// One of these units.
    Units(f64),
    /// The true value is in milliseconds, the stated one in seconds; noise does not widen it.
    Milliseconds,
}

/// A parameter that a verdict has to state: its name, those that truths have for it, the error that is permitted.
type Required = (&'static str, &'static [&'static str], Bar);

const POLICER: &[Required] = &[
    ("rate_bps", &["rate_bps"], Bar::Share(RATE)),
    ("burst_bytes", &["burst_bytes"], Bar::Burst),
    ("peak_rate_bps", &["peak_rate_bps"], Bar::Share(RATE)),
    ("peak_burst_bytes", &["peak_burst_bytes"], Bar::Burst),
];
const QUEUE: &[Required] = &[
    ("drain_rate_bps", &["drain_rate_bps"], Bar::Share(RATE)),
    (
        "limit_packets",
        &["queue_limit_packets", "limit_packets"],
        Bar::Units(1.0),
    ),
    (
        "limit_bytes",
        &["queue_limit_bytes", "limit_bytes"],
        Bar::Units(ONE_PACKET_BYTES),
    ),
];
const SHAPER: &[Required] = &[(
    "rate_bps",
    &["drain_rate_bps", "rate_bps"],
    Bar::Share(RATE),
)];
const SOJOURN: &[Required] = &[
    ("target_s", &["target_ms"], Bar::Milliseconds),
    ("interval_s", &["interval_ms"], Bar::Milliseconds),
];
const STANDING: Bar = Bar::Share(STANDING_RATE);

/// The parameters that are required for a kind.
fn required(kind: &str, events: u64, stated: &Value) -> &'static [Required] {
    match kind {
        "aqm_codel" | "aqm_fq_codel" | "aqm_cake" if events >= EVENTS_FOR_PARAMETERS => SOJOURN,
        "shaper" | "shaper_ticks" => SHAPER,
        // For a verdict of queue or shaper, the rate has the name that belongs to it.
        "standing_queue" if stated["rate_bps"].is_object() => {
            &[("rate_bps", &["drain_rate_bps"], STANDING)]
        }
        "standing_queue" => &[("drain_rate_bps", &["drain_rate_bps"], STANDING)],
        "shallow_fifo" | "deep_fifo" => QUEUE,
        _ if kind.starts_with("policer") => POLICER,
        _ if kind.starts_with("queue") => QUEUE,
        _ => &[],
    }
}

/// The required parameters that the truth has, beside the stated ones.
pub(super) fn parameters(
    kind: &str,
    truth: &Value,
    stated: &Value,
    events: u64,
    slack: f64,
) -> Vec<Compared> {
    let compared = |&(name, true_names, bar): &Required| {
        let known = |name: &&'static str| Some((*name, truth["parameters"][*name].as_f64()?));
        let (true_name, true_value) = true_names.iter().find_map(known)?;
        let relative = |true_value: f64| move |value: f64| value / true_value - 1.0;
        let value = stated[name]["value"].as_f64();
        let (true_value, error, bar) = match bar {
            Bar::Share(share) => (true_value, value.map(relative(true_value)), share * slack),
            Bar::Burst => {
                let share = burst_share(true_value);
                (true_value, value.map(relative(true_value)), share * slack)
            }
            Bar::Units(unit) => {
                let units = value.map(|value| (value - true_value) / unit);
                (true_value, units, slack)
            }
            Bar::Milliseconds => {
                let true_value = true_value * 1e-3;
                (true_value, value.map(relative(true_value)), TARGET)
            }
        };
        Some(Compared {
            name,
            error,
            bar,
            covered: covered(&stated[name], true_value),
            identifiable: truth["identifiable"][true_name].as_bool().unwrap_or(true),
        })
    };
    let required = required(kind, events, stated);
    required.iter().filter_map(compared).collect()
}

/// The tolerance of a burst: 5 %, or one packet if that is more.
pub(crate) fn burst_share(bytes: f64) -> f64 {
    BURST.max(ONE_PACKET_BYTES / bytes.max(1.0))
}

/// Offset and drift. The difference between the transits of the two directions cannot be known: any offset between the
/// true one and that plus half of the difference between the least transits is correct. With one direction there is no
/// known offset.
pub(super) fn clock(truth: &Value, pair: &Value, slack: f64) -> Vec<Compared> {
    let distortion = &truth["distortion"];
    let offset_us = distortion["offset_ns"].as_f64().unwrap_or(0.0) / 1e3;
    let drift_ppm = distortion["drift_ppm"].as_f64().unwrap_or(0.0);
    let least_ms = |direction: &str| truth["least_transit_ms"][direction].as_f64();
    let asymmetry_us = match (least_ms("b_to_y"), least_ms("y_to_b")) {
        (Some(forth), Some(back)) => Some((forth - back) / 2.0 * 1e3),
        // The given data does not state it; if the points are adjacent there is no transit.
        _ if truth["one_way_delay_b_to_y_base_ms"].as_f64() == Some(0.0) => Some(0.0),
        _ => None,
    };
    let both_directions = truth["reverse_captured"].as_bool().unwrap_or(true);
    let mut numbers = Vec::new();
    if let Some(asymmetry_us) = asymmetry_us.filter(|_| both_directions) {
        let found = pair["clock_offset_s"].as_f64();
        numbers.push(Compared {
            name: "clock_offset_us",
            error: found.map(|found| {
                let more_us = found * 1e6 - offset_us;
                more_us - more_us.clamp(asymmetry_us.min(0.0), asymmetry_us.max(0.0))
            }),
            bar: OFFSET_US * slack,
            covered: found.and_then(|_| {
                let bound_us = |name: &str| Some(pair[name].as_f64()? * 1e6);
                let low_us = bound_us("clock_offset_low_s")?;
                Some((low_us..=bound_us("clock_offset_high_s")?).contains(&offset_us))
            }),
            identifiable: true,
        });
    }
    // With one direction, or with timestamps that are randomly late, drift is not required; if it is stated it is
    // compared.
    let found = pair["clock_drift_ppm"].as_f64();
    if both_directions || found.is_some() {
        numbers.push(Compared {
            name: "clock_drift_ppm",
            error: found.map(|found| found - drift_ppm),
            bar: DRIFT_PPM * slack,
            covered: found.and_then(|found| {
                let error_ppm = pair["clock_drift_error_ppm"].as_f64()?;
                Some((found - drift_ppm).abs() <= error_ppm)
            }),
            identifiable: true,
        });
    }
    numbers
}
