//! Comparison of one diagnosis with its truth, of a capture or of a pair: which statements are right.

use serde_json::Value;

use super::numbers::{Compared, clock, parameters};
use super::statistics::list;
use crate::suite::kind::right_causes;

/// Treatments that add noise to timestamps or counts, not only to headers or clocks.
const NOISY: [&str; 6] = ["jitter", "coalesce", "us", "tso", "gro", "missed"];
/// Transfers with fewer packets are not scored.
const LEAST_PACKETS: u64 = 50;

/// A diagnosis compared with its truth.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    pub name: String,
    /// The narrowest name that the truth has: of a mechanism, or of a kind.
    pub group: String,
    /// The defects of a pair's captures; the place of a single one.
    pub treatments: Vec<String>,
    /// To explain a wrong answer: the treatments, and for a single capture what each stage lost.
    pub circumstances: String,
    pub cause: String,
    pub cause_right: bool,
    pub confidence: f64,
    /// A policer is named where there is none.
    pub accused: bool,
    /// Scored transfers with losses, and those of them with a right cause; none are scored in pairs.
    pub lossy: u64,
    pub lossy_right: u64,
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
        let stated = self.stated.as_deref();
        stated.is_some_and(|stated| law(stated) == law(&self.truth))
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

/// Fewer drops and marks do not determine the family.
const EVENTS_FOR_FAMILY: u64 = 10;

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
        if self.lossy_right < self.lossy {
            faults.push(format!("transfers {}/{}", self.lossy_right, self.lossy));
        }
        if !self.lost_right {
            let found = |(found, _): (Option<u64>, u64)| {
                found.map_or("-".into(), |found: u64| found.to_string())
            };
            let [forward, reverse] = self.lost;
            faults.push(format!(
                "lost {}/{}, truth {}/{}",
                found(forward),
                found(reverse),
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
        // It may be left out: the evidence may not determine it.
        if let Some((Some(stated), truth)) = &self.byte_basis
            && stated != truth
        {
            faults.push(format!("byte basis {stated}, truth {truth}"));
        }
        faults
    }
}

/// Compares a report with a truth.
pub fn judge(truth: &Value, report: &Value) -> Judged {
    let kind = truth["kind"].as_str().unwrap_or_default();
    let verdicts = list(&report["verdicts"]);
    let headline = headline(kind, truth, verdicts);
    let cause = cause_of(headline);
    let right = |cause: &str| match truth["right_causes"].as_array() {
        Some(right) => right.iter().any(|right| right == cause),
        None => right_causes(kind).contains(&cause),
    };
    // Verdicts besides the headline count for kinds that do not limit a flow by themselves.
    let aside = truth["aside"] == true && verdicts.iter().any(|v| right(cause_of(Some(v))));
    let cause_right = right(cause) || aside || cause == "unknown" && is_out_of_sight(kind, truth);
    let treatments = treatments(truth);
    let is_noisy = treatments.iter().any(|t| NOISY.contains(&t.as_str()));
    let slack = if is_noisy { 2.0 } else { 1.0 };
    let stated = headline.map_or(&Value::Null, |v| &v["parameters"]);
    let mut numbers = match cause_right {
        true => parameters(kind, truth, stated, events(truth), slack),
        false => Vec::new(),
    };
    if !is_single(truth) {
        numbers.extend(clock(truth, &report["pair"], slack));
    }
    let transfers = transfers(truth, report);
    let lossy = || transfers.iter().filter(|t| t["lost"].as_u64() > Some(0));
    let policed = truth["policed"].as_bool().unwrap_or(kind == "policer");
    let mut named = verdicts.iter().chain(transfers.iter().copied());
    let (lost, lost_right) = lost(truth, report);
    Judged {
        name: ["name", "file"]
            .iter()
            .find_map(|name| truth[name].as_str())
            .unwrap_or_default()
            .into(),
        group: group(kind, truth),
        circumstances: circumstances(&treatments, truth),
        treatments,
        cause: cause.into(),
        cause_right,
        confidence: headline
            .and_then(|v| v["confidence"].as_f64())
            .unwrap_or(0.0),
        accused: !policed && named.any(|v| v["cause"] == "policer"),
        lossy: lossy().count() as u64,
        lossy_right: lossy().filter(|t| right(cause_of(Some(t)))).count() as u64,
        lost,
        lost_right,
        numbers,
        byte_basis: byte_basis(&truth["parameters"], headline).filter(|_| cause_right),
        family: family(kind, truth, headline),
    }
}

fn cause_of(verdict: Option<&Value>) -> &str {
    verdict.and_then(|v| v["cause"].as_str()).unwrap_or("none")
}

/// Behind the hop a single capture shows neither its delay nor its drops, so it gets a group of its own.
fn group(kind: &str, truth: &Value) -> String {
    let behind = truth["parameters"]["tap"] == "behind" || truth["parameters"]["tap"] == "receiver";
    let seen = if behind { " (seen behind)" } else { "" };
    format!("{}{seen}", truth["variant"].as_str().unwrap_or(kind))
}

fn treatments(truth: &Value) -> Vec<String> {
    if let Some(tap) = truth["parameters"]["tap"].as_str() {
        let offloads = truth["parameters"]["segmentation_offload"] == true;
        let offload = offloads.then(|| "tso".to_owned());
        return [tap.to_owned()].into_iter().chain(offload).collect();
    }
    let treatments = list(&truth["realism"]["treatments"]).iter();
    let treatments = treatments.filter_map(Value::as_str);
    treatments.map(String::from).collect()
}

fn is_single(truth: &Value) -> bool {
    truth["file"].is_string()
}

fn circumstances(treatments: &[String], truth: &Value) -> String {
    let treatments = treatments.join(" ");
    match is_single(truth) {
        true => format!(
            "{treatments} {} oracle {:.2}",
            truth["flows"][0]["lost_by_stage"],
            truth["oracle"]["agreement"].as_f64().unwrap_or(f64::NAN)
        ),
        false => treatments,
    }
}

/// The data connection of a single capture, by its client's port.
fn is_of_flow(truth: &Value, of: &Value) -> bool {
    let tail = format!(":{}", truth["flows"][0]["client_port"]);
    of["flow"]
        .as_str()
        .is_some_and(|name| name.ends_with(&tail))
}

/// The scored transfers of a single capture.
fn transfers<'a>(truth: &Value, report: &'a Value) -> Vec<&'a Value> {
    let is_scored =
        |t: &&Value| is_of_flow(truth, t) && t["packets"].as_u64().unwrap_or(0) >= LEAST_PACKETS;
    list(&report["transfers"])
        .iter()
        .filter(is_scored)
        .collect()
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

/// Losses in both directions. For a direction that is not captured, none need be stated. In a single capture: those of
/// its data connection since it began.
fn lost(truth: &Value, report: &Value) -> ([(Option<u64>, u64); 2], bool) {
    if let Some(lost) = truth["flows"][0]["lost_since_capture_began"].as_u64() {
        let stated = list(&report["flows"]).iter().find(|f| is_of_flow(truth, f));
        let found = stated.and_then(|flow| flow["lost"].as_u64());
        return ([(found, lost), (None, 0)], found == Some(lost));
    }
    let pair = &report["pair"];
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
