//! Comparison of one diagnosis with its truth: which statements are correct, and the errors of its numbers.

use serde_json::Value;

use crate::pair::suite::kind::right_causes;
use crate::score::statistics::{covered, list};

/// One full Ethernet frame: the tolerance of a burst or a limit in bytes.
pub(crate) const ONE_PACKET_BYTES: f64 = 1_514.0;
/// Tolerances for a pair without defects; doubled for captures with noise of their own.
pub(crate) const RATE: f64 = 0.01;
pub(crate) const BURST: f64 = 0.05;
/// For a queue that never drops.
const STANDING_RATE: f64 = 0.02;
const LIMIT_PACKETS: f64 = 1.0;
const OFFSET_US: f64 = 100.0;
const DRIFT_PPM: f64 = 2.0;
/// Treatments that add noise to timestamps or counts, not only to headers or clocks.
const NOISY: [&str; 6] = ["jitter", "coalesce", "us", "tso", "gro", "missed"];

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

/// A diagnosis compared with its truth.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    pub name: String,
    /// The mechanism: a narrower name than the kind, if the truth has one.
    pub group: String,
    pub treatments: Vec<String>,
    pub cause: String,
    pub cause_right: bool,
    /// A policer is named where there is none.
    pub accused: bool,
    /// (found, truth) forward, and in reverse if that was captured.
    pub lost: [(Option<u64>, u64); 2],
    pub lost_right: bool,
    pub numbers: Vec<Compared>,
    /// (stated, truth)
    pub byte_basis: Option<(Option<String>, String)>,
    /// For queue management with enough drops or marks.
    pub family: Option<FamilyJudged>,
}

/// The stated family of queue management, and the true one.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilyJudged {
    pub stated: Option<String>,
    pub truth: String,
    /// Packets that it dropped or marked.
    pub events: u64,
}

impl FamilyJudged {
    /// The law is correct, whether or not flows have separate queues, which one flow does not show.
    pub fn law_right(&self) -> bool {
        self.stated
            .as_deref()
            .is_some_and(|stated| law(stated) == law(&self.truth))
    }

    pub fn name_right(&self) -> bool {
        self.stated.as_deref() == Some(self.truth.as_str())
    }
}

fn law(family: &str) -> &str {
    match family {
        "fq-codel" | "cake" => "codel",
        "fq-pie" => "pie",
        family => family,
    }
}

/// Fewer drops and marks do not determine the family ...
const EVENTS_FOR_FAMILY: u64 = 10;
/// ... and fewer than this do not determine CoDel's parameters; the tolerances of these follow.
const EVENTS_FOR_PARAMETERS: u64 = 30;
const TARGET: f64 = 0.25;

/// The packets that queue management dropped and marked.
fn events(truth: &Value) -> u64 {
    let marks = list(&truth["flows"])
        .iter()
        .filter_map(|flow| flow["ce_marked_between"].as_u64());
    truth["forward_packets_lost_between"].as_u64().unwrap_or(0) + marks.sum::<u64>()
}

fn family(kind: &str, truth: &Value, stated: Option<&Value>) -> Option<FamilyJudged> {
    let name = match kind.strip_prefix("aqm_") {
        Some(name) => name,
        None => truth["parameters"]["discipline"].as_str()?,
    };
    let events = events(truth);
    let family = stated.and_then(|verdict| verdict["detail"].as_str());
    (events >= EVENTS_FOR_FAMILY).then(|| FamilyJudged {
        stated: family.map(String::from),
        truth: name.replace('_', "-"),
        events,
    })
}

impl Judged {
    /// Describes the faults; empty if everything is correct.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !self.cause_right {
            faults.push(format!("cause {}", self.cause));
        }
        if self.accused {
            faults.push("a policer named where there is none".into());
        }
        if !self.lost_right {
            let found =
                |found: Option<u64>| found.map_or("-".into(), |found: u64| found.to_string());
            let [forward, reverse] = self.lost;
            faults.push(format!(
                "lost {}/{}, truth {}/{}",
                found(forward.0),
                found(reverse.0),
                forward.1,
                reverse.1
            ));
        }
        for number in self.numbers.iter().filter(|number| !number.is_good()) {
            faults.push(match number.error {
                Some(error) => format!("{} {error:+.4} (bar {})", number.name, number.bar),
                None => format!("{} not stated", number.name),
            });
        }
        if let Some((stated, truth)) = &self.byte_basis {
            // It may be left out: the evidence may not determine it.
            if stated.as_ref().is_some_and(|stated| stated != truth) {
                faults.push(format!(
                    "byte basis {}, truth {truth}",
                    stated.as_deref().unwrap_or("-")
                ));
            }
        }
        faults
    }
}

/// Compares a report with a truth.
pub fn judge(truth: &Value, report: &Value) -> Judged {
    let kind = truth["kind"].as_str().unwrap_or_default();
    let verdicts = list(&report["verdicts"]);
    let headline = headline(kind, truth, verdicts);
    let cause = headline.and_then(|v| v["cause"].as_str()).unwrap_or("none");
    let cause_right = match truth["right_causes"].as_array() {
        Some(right) => right.iter().any(|right| right == cause),
        None => right_causes(kind).contains(&cause),
    } || cause == "unknown" && is_out_of_sight(kind, truth);
    let treatments: Vec<String> = list(&truth["realism"]["treatments"])
        .iter()
        .filter_map(|t| t.as_str().map(String::from))
        .collect();
    let is_noisy = treatments.iter().any(|t| NOISY.contains(&t.as_str()));
    let slack = if is_noisy { 2.0 } else { 1.0 };
    let stated = headline.map_or(&Value::Null, |v| &v["parameters"]);
    let mut numbers = match cause_right {
        true => parameters(kind, truth, stated, slack),
        false => Vec::new(),
    };
    numbers.extend(clock(truth, &report["pair"], slack));
    let (lost, lost_right) = lost(truth, &report["pair"]);
    Judged {
        name: truth["name"].as_str().unwrap_or_default().into(),
        group: truth["variant"].as_str().unwrap_or(kind).into(),
        treatments,
        cause: cause.into(),
        cause_right,
        accused: kind != "policer" && verdicts.iter().any(|v| v["cause"] == "policer"),
        lost,
        lost_right,
        numbers,
        byte_basis: byte_basis(&truth["parameters"], headline).filter(|_| cause_right),
        family: family(kind, truth, headline),
    }
}

/// Kinds in which the hosts of one connection limit it by something that others do not share.
const OF_ONE_CONNECTION: [&str; 8] = [
    "app_limited",
    "closed_window",
    "delayed_ack",
    "paced",
    "peer_application",
    "rwnd_limited",
    "send_buffer",
    "slow_reader",
];

/// The verdict that is compared: the first one; if one connection is limited by its hosts, the first on its data, since
/// other connections may well have a longer explanation.
fn headline<'a>(kind: &str, truth: &Value, verdicts: &'a [Value]) -> Option<&'a Value> {
    let first = verdicts.first();
    if !OF_ONE_CONNECTION.contains(&kind) {
        return first;
    }
    let to_client = format!(":{}", truth["flows"][0]["dport"]);
    let names = |verdict: &&Value| {
        let flows = list(&verdict["flows"]).iter().filter_map(Value::as_str);
        flows.into_iter().any(|flow| flow.ends_with(&to_client))
    };
    verdicts.iter().find(names).or(first)
}

/// True for causes that captures of the data alone do not show: losses of acknowledgments, and window limits, which
/// only acknowledgments state. (A closed window is revealed by its reopening, and a full window over a queue by the
/// queue.)
fn is_out_of_sight(kind: &str, truth: &Value) -> bool {
    let by_windows = [
        "rwnd_limited",
        "slow_reader",
        "send_buffer",
        "jitter",
        "ack_loss",
        "batching",
    ];
    truth["reverse_captured"] == false
        && (kind == "slow_way_back" || by_windows.contains(&kind) && is_limited_by_a_window(truth))
}

/// True if the receive window or the send buffer limits the first connection for most of its sending time.
fn is_limited_by_a_window(truth: &Value) -> bool {
    let shares = &truth["flows"][0]["limits"]["shares"];
    let share = |limiter: &str| shares[limiter].as_f64().unwrap_or(0.0);
    let windows = share("receive-window") + share("send-buffer");
    windows > share("slow-start") + share("congestion-window") + share("pacing")
}

/// Losses in both directions. For a direction that is not captured, none need be stated.
fn lost(truth: &Value, pair: &Value) -> ([(Option<u64>, u64); 2], bool) {
    let number = |name: &str| truth[name].as_u64().unwrap_or(0);
    let forward = number("forward_packets_lost_between");
    let reverse = number("reverse_packets_y").saturating_sub(number("reverse_packets_b"));
    let found = (pair["lost_1_to_2"].as_u64(), pair["lost_2_to_1"].as_u64());
    let tolerance = truth["realism"]["lost_tolerance"].as_f64().unwrap_or(0.0);
    let near =
        |found: u64, truth: u64| found.abs_diff(truth) as f64 <= tolerance * truth.max(30) as f64;
    let reverse_captured = truth["reverse_captured"].as_bool().unwrap_or(true);
    let forward_right = found.0.is_some_and(|found| near(found, forward));
    let reverse_right = match found.1 {
        Some(found) => near(found, reverse),
        None => !reverse_captured,
    };
    (
        [(found.0, forward), (found.1, reverse)],
        forward_right && reverse_right,
    )
}

/// Offset and drift. The difference between the transits of the two directions cannot be known: any offset between the
/// true one and that plus half of the difference between the least transits is correct. With one direction there is no
/// known offset.
fn clock(truth: &Value, pair: &Value, slack: f64) -> Vec<Compared> {
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

/// The parameters that are required for each kind.
fn parameters(kind: &str, truth: &Value, stated: &Value, slack: f64) -> Vec<Compared> {
    let identifiable = |name: &str| truth["identifiable"][name].as_bool().unwrap_or(true);
    let is_enough = events(truth) >= EVENTS_FOR_PARAMETERS;
    let truth = &truth["parameters"];
    let compared = |name: &'static str, true_name: &str, error: &dyn Fn(f64, f64) -> f64| {
        let true_value = truth[true_name].as_f64()?;
        let value = stated[name]["value"].as_f64();
        Some(Compared {
            name,
            error: value.map(|value| error(value, true_value)),
            bar: LIMIT_PACKETS * slack,
            covered: covered(&stated[name], true_value),
            identifiable: identifiable(true_name),
        })
    };
    let relative = |name: &'static str, true_name: &str, bar: f64| {
        Some(Compared {
            bar: bar * slack,
            ..compared(name, true_name, &|value, truth| value / truth - 1.0)?
        })
    };
    let absolute = |name: &'static str, true_name: &str, unit: f64| {
        compared(name, true_name, &|value, truth| (value - truth) / unit)
    };
    // Within 5 %, or one packet if that is more.
    let burst = |name: &'static str| {
        let true_value = truth[name].as_f64()?;
        relative(
            name,
            name,
            BURST.max(ONE_PACKET_BYTES / true_value.max(1.0)),
        )
    };
    let in_ms = |name: &'static str, true_name: &str| {
        let true_value = truth[true_name].as_f64()? * 1e-3;
        Some(Compared {
            name,
            error: stated[name]["value"]
                .as_f64()
                .map(|value| value / true_value - 1.0),
            bar: TARGET,
            covered: covered(&stated[name], true_value),
            identifiable: true,
        })
    };
    let found = match kind {
        "aqm_codel" | "aqm_fq_codel" | "aqm_cake" if is_enough => vec![
            in_ms("target_s", "target_ms"),
            in_ms("interval_s", "interval_ms"),
        ],
        "policer" => vec![
            relative("rate_bps", "rate_bps", RATE),
            burst("burst_bytes"),
            relative("peak_rate_bps", "peak_rate_bps", RATE),
            burst("peak_burst_bytes"),
        ],
        "shallow_fifo" | "deep_fifo" => vec![
            relative("drain_rate_bps", "drain_rate_bps", RATE),
            absolute("limit_packets", "queue_limit_packets", 1.0),
            absolute("limit_bytes", "queue_limit_bytes", ONE_PACKET_BYTES),
        ],
        "shaper" | "shaper_ticks" => vec![relative("rate_bps", "drain_rate_bps", RATE)],
        // For a verdict of queue or shaper, the rate has the name that belongs to it.
        "standing_queue" => {
            let name = match stated["rate_bps"].is_object() {
                true => "rate_bps",
                false => "drain_rate_bps",
            };
            vec![relative(name, "drain_rate_bps", STANDING_RATE)]
        }
        _ => Vec::new(),
    };
    found.into_iter().flatten().collect()
}

/// The bytes that the element counts, as stated and in truth, by their short names.
fn byte_basis(truth: &Value, verdict: Option<&Value>) -> Option<(Option<String>, String)> {
    let true_name = match truth["byte_basis"].as_str()? {
        prose if prose.starts_with("IP") => "ip",
        prose if prose.starts_with("Ethernet") => "ethernet",
        _ => "wire",
    };
    // Among the parameters, with or without an interval, or beside them.
    let places = verdict.map(|verdict| {
        let parameter = &verdict["parameters"]["byte_basis"];
        [parameter, &parameter["value"], &verdict["byte_basis"]]
    });
    let stated = places.into_iter().flatten().find_map(Value::as_str);
    Some((stated.map(String::from), true_name.into()))
}
