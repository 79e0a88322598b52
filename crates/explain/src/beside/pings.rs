//! Echo requests without a reply, and late replies.

use whydrop_datagrams::{Datagrams, Pings, is_probe_of_the_way};
use whydrop_verdict::{Cause, Fact, fact};

use super::{MOST_PACKETS, Seen, address, endpoint, gathered, seconds};
use crate::conditions::Condition;

/// A single one may have any reason.
const FEWEST: u64 = 2;
/// So many consecutive lost replies indicate an outage, whether replies resume or not.
const FEWEST_OF_AN_OUTAGE: usize = 3;
/// The least number of losses called random: as for TCP, three in two clumps, among this many requests.
const FEWEST_LOST: u64 = 3;
const FEWEST_CLUMPS: usize = 2;
const FEWEST_SENT: u64 = 10;
/// Hosts and routers limit the rate at which they answer; one request every tenth of a second is below all
/// usual limits.
const SLOW_PACE_S: f64 = 0.1;
/// Replies with times that differ by more were delayed somewhere.
const LONG_SPREAD_S: f64 = 0.1;
const LONG_SPREAD_TIMES: f64 = 3.0;

/// Find the failures that echo requests show.
pub(super) fn find(datagrams: &Datagrams, seen: &Seen) -> Vec<Condition> {
    let of_interest =
        |pings: &&Pings| !is_probe_of_the_way(Some(pings.ttl)) && !is_reported(pings, datagrams);
    let pings = || datagrams.pings.iter().filter(of_interest);
    let is_silent = |pings: &&Pings| pings.answered == 0 && pings.unanswered() >= FEWEST;
    // a host that is up and answers none filters them
    let is_dead = |pings: &&Pings| is_silent(pings) && !seen.heard.contains(&pings.destination);
    let silent: Vec<Silent> = pings().filter(is_dead).map(Silent::of).collect();
    let silent = gathered(silent, |one| one.sent, Silent::add);
    let silent = silent
        .into_iter()
        .map(|(one, others)| one.condition(others));
    let partly = pings().filter(|pings| pings.answered > 0);
    let partly = partly.flat_map(|pings| [lost(pings, seen), delayed(pings, seen)]);
    silent.chain(partly.flatten()).collect()
}

/// True if ICMP errors give the reason.
fn is_reported(pings: &Pings, datagrams: &Datagrams) -> bool {
    datagrams.reports.iter().any(|report| {
        report.is_icmp()
            && report.kind.is_unreachable()
            && (report.source, report.destination) == (pings.source, pings.destination)
    })
}

/// Echo requests to a host that answered none.
struct Silent<'a> {
    pings: &'a Pings,
    sent: u64,
    lasted_s: f64,
    packets: Vec<u64>,
}

impl<'a> Silent<'a> {
    fn of(pings: &'a Pings) -> Self {
        Self {
            pings,
            sent: pings.sent,
            lasted_s: seconds(pings.last_ns.saturating_sub(pings.first_ns)),
            packets: pings.packets.clone(),
        }
    }

    fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.lasted_s += other.lasted_s;
        self.packets.extend(other.packets);
        self.packets.truncate(MOST_PACKETS);
    }

    fn condition(self, others: u64) -> Condition {
        let mut condition = Condition::new(Cause::NoAnswer, Vec::new());
        condition.detail = Some("ping");
        condition.limited_s = self.lasted_s;
        let about = Fact {
            packets: self.packets,
            ..fact!(
                "pings-unanswered",
                sent = self.sent,
                lasted_s = self.lasted_s,
                other_responders = others
            )
        };
        condition.facts = vec![about.with("responder", endpoint(self.pings.destination, None))];
        condition
    }
}

/// The pattern of the lost replies.
struct Pattern {
    clumps: usize,
    longest: usize,
    /// The last run of losses continues to the end.
    to_the_end: bool,
}

fn pattern(outcomes: &[bool]) -> Pattern {
    let runs = || outcomes.split(|answered| *answered).map(<[bool]>::len);
    let clumps = runs().filter(|run| *run > 0).count();
    let longest = runs().max().unwrap_or(0);
    let last = runs().next_back().unwrap_or(0);
    Pattern {
        clumps,
        longest,
        to_the_end: longest > 0 && last == longest,
    }
}

/// The verdict on requests of which some got no reply.
fn lost(pings: &Pings, seen: &Seen) -> Option<Condition> {
    let lost = pings.unanswered().saturating_add(pings.missing);
    if lost == 0 {
        return None;
    }
    let sent = (pings.sent - pings.too_late).saturating_add(pings.missing);
    let pattern = pattern(&pings.outcomes);
    let lasted_s = seconds(pings.last_ns.saturating_sub(pings.first_ns));
    let pace_s = lasted_s / pings.sent.saturating_sub(1).max(1) as f64;
    let is_one_run =
        pattern.longest >= FEWEST_OF_AN_OUTAGE && 5 * pattern.longest as u64 >= 4 * lost;
    let silence_s = pattern.longest as f64 * pace_s;
    // A queue that the connections of this capture filled may have dropped them.
    let is_random = !seen.is_loaded
        && lost >= FEWEST_LOST
        && (pattern.clumps >= FEWEST_CLUMPS || pings.missing >= FEWEST_LOST)
        && pings.sent >= FEWEST_SENT
        && pace_s >= SLOW_PACE_S
        && spread_s(pings).is_some_and(|(_, spread_s)| spread_s < LONG_SPREAD_S);
    let (cause, detail, confidence) = match () {
        () if is_one_run && pattern.to_the_end => (Cause::NoAnswer, "ping", 0.8),
        () if is_one_run => (Cause::Outage, "ping", 0.8),
        () if is_random => (Cause::RandomLoss, "ping", 0.7),
        () => (Cause::Unknown, "ping", 0.9),
    };
    let mut condition = Condition::new(cause, Vec::new());
    condition.detail = Some(detail);
    condition.confidence = confidence;
    condition.limited_s = if is_one_run { silence_s } else { 0.0 };
    let about = Fact {
        packets: pings.packets.clone(),
        ..fact!(
            "pings-lost",
            lost = lost,
            sent = sent,
            missing = pings.missing,
            longest_run = pattern.longest,
            silence_s = is_one_run.then_some(silence_s),
            to_the_end = pattern.to_the_end
        )
    };
    condition.facts = vec![
        about
            .with("responder", endpoint(pings.destination, None))
            .with("sender", address(pings.source)),
    ];
    Some(condition)
}

/// The shortest round trip, and how much longer the slowest twentieth took.
fn spread_s(pings: &Pings) -> Option<(f64, f64)> {
    let times = &pings.round_trips_ns;
    let long = times.get(
        times
            .len()
            .saturating_sub(1)
            .checked_sub(times.len() / 20)?,
    )?;
    let shortest_s = seconds(*times.first()?);
    Some((shortest_s, seconds(*long) - shortest_s))
}

/// The verdict on replies that are occasionally late.
fn delayed(pings: &Pings, seen: &Seen) -> Option<Condition> {
    let (shortest_s, spread_s) = spread_s(pings)?;
    let is_long = spread_s >= LONG_SPREAD_S && spread_s >= LONG_SPREAD_TIMES * shortest_s;
    if !is_long || pings.answered < FEWEST_SENT || seen.is_loaded {
        return None;
    }
    let mut condition = Condition::new(Cause::Jitter, Vec::new());
    condition.confidence = 0.9;
    let about = fact!(
        "pings-delayed",
        answered = pings.answered,
        shortest_s = shortest_s,
        spread_s = spread_s
    );
    condition.facts = vec![about.with("responder", endpoint(pings.destination, None))];
    Some(condition)
}
