//! Bursts of packets on a path: a hop, seen from both of its ends.
//!
//! When each packet left its sender and when it arrived, or that it did not, is what two captures show of a stretch of path;
//! so it is judged as one ([`hop`](crate::hop)). Two things are known better here: every burst found the path idle, and
//! behind each other its packets filled the queue for long, so that the rate at which it drains is that of the whole train
//! (the dispersion of long trains: Dovrolis, Ramanathan and Moore, "Packet-dispersion techniques and a capacity-estimation
//! methodology", IEEE/ACM Transactions on Networking 12(6), 2004; of pairs: Keshav, "A control-theoretic approach to flow
//! control", SIGCOMM 1991).
//!
//! | module | what it does |
//! |---|---|
//! | `trains` | rates of trains: of the line, of the hop, and what it counts |
//! | `limit` | what a full queue holds, by what lost packets found in it |
//! | `bucket` | a token bucket by what passed before and behind the first loss |
//! | `counted` | the same where the far end tells no single packet, but how many came when |

mod bucket;
mod counted;
mod limit;
#[cfg(test)]
mod tests;
mod trains;

use std::collections::HashMap;

use serde::Serialize;
use whydrop_path::fit::Seen;
use whydrop_path::fit::passage::{Held, Passage, Passages, held};
use whydrop_verdict::{Cause, Place, PlaceKind, Quantity};

use crate::document::Verdict;
use crate::evidence::Totals;
use crate::hop::{ByteBasis, Hop, HopInput, hop_verdict, judge_hop, measure_hop};
pub use bucket::Bucket;
use bucket::bucket;
pub use counted::{CountedTrain, explain_counted_trains};
use limit::{Inside, limit, lost_found_packets};
use trains::{bucket_bytes, byte_basis, drain_rate, line_rate_bps, trains};

/// One packet of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstPacket {
    /// Trains of one lot were measured by the same two clocks, close to each other in time.
    pub lot: u32,
    pub burst: u32,
    /// In the sender's clock.
    pub left_ns: i64,
    /// In the receiver's; `None` for a lost packet.
    pub arrived_ns: Option<i64>,
    pub ip_bytes: u32,
    pub marked: bool,
}

/// The result of bursts.
#[derive(Debug, Clone, Serialize)]
pub struct Bursts {
    pub packets: usize,
    pub lost: usize,
    pub marked: usize,
    /// Rate of the fastest burst as it left its sender, bit/s, IP bytes.
    pub line_rate_bps: Option<f64>,
    /// Rate of arrivals behind each other while packets waited, bit/s, IP bytes of large packets.
    pub drain_rate_bps: Option<Quantity>,
    /// The same of all that was slowed, whatever slowed it: which rate to try next.
    pub arrival_rate_bps: Option<f64>,
    /// Bytes that came faster than that before packets had to wait: the bucket of a shaper, IP bytes.
    pub burst_bytes: Option<Quantity>,
    /// The bucket that dropped packets, if that is what did: the fit to their fates (`verdict`) must agree.
    pub bucket: Option<Bucket>,
    /// Longest wait, seconds above that of a packet that finds the path idle.
    pub longest_wait_s: f64,
    /// The most that any packet found waiting: packets, and IP bytes.
    pub most_packets: f64,
    pub most_bytes: f64,
    /// Packets that lost packets found waiting, the median.
    pub lost_found_packets: Option<f64>,
    /// Packets that passed though they found more inside than lost ones did: a full queue lets none of them in.
    pub passed_with_more: usize,
    /// The content of a full queue, where lost packets found one.
    pub limit: Option<Limit>,
    /// The bytes that the queue counts of each packet: `ip`, `ethernet` or `wire`, where small packets tell.
    pub byte_basis: Option<&'static str>,
    /// Where something was lost: why.
    pub verdict: Option<Verdict>,
}

/// The content of a full queue, by what lost packets found in it.
#[derive(Debug, Clone, Serialize)]
pub struct Limit {
    /// `packets` or `bytes`; `None` where packets of one size alone were lost, or two sizes agree on neither.
    pub limited_by: Option<&'static str>,
    pub packets: Quantity,
    /// In bytes as the hop counts them (`byte_basis`), where that is known; else IP bytes.
    pub bytes: Quantity,
    /// Of the losses, and of what passed though more was inside, the share that a full queue accounts for: 0 to 1.
    pub certainty: f64,
}

/// Timers and interrupts hold a few packets back: where no more wait, and none is lost for it, nothing is told of a queue.
const LEAST_QUEUE_PACKETS: f64 = 5.0;

/// Judges what bursts met. `None` where none of them arrived.
pub fn explain_bursts(packets: &[BurstPacket]) -> Option<Bursts> {
    let passages = passages(packets)?;
    let trains = trains(packets);
    let hop = measure_hop(HopInput {
        totals: totals(&passages),
        passages: passages.clone(),
        offloaded: false,
        base_rtt_s: None,
        missed_share: 0.0,
    });
    // by the stamps as they are: what a capture leaves open, the sender's line and its own queue, is known here
    let waits = passages.wait_s.iter().filter(|wait| !wait.is_nan());
    let longest_wait_s = waits.fold(0.0, |most: f64, wait| most.max(*wait));
    let inside = held(&passages, 0.0);
    let most = |of: fn(&Held) -> f64| inside.iter().map(of).fold(0.0, f64::max);
    let most_packets = most(|held| held.packets);
    let unseen_share = hop
        .departures
        .map_or(0.0, |departures| departures.unseen_share);
    let arrival_rate = drain_rate(&trains, &hop);
    let basis = byte_basis(&trains, &hop);
    let seen = Inside {
        passages: &passages,
        held: &inside,
        unseen_share,
    };
    let met = limit(&seen, &trains, arrival_rate, basis);
    let verdict = (passages.lost > 0).then(|| verdict(&hop));
    // what lost packets found full is a queue, however short
    let overflowed = verdict.as_ref().is_some_and(|verdict| {
        [Cause::ShallowQueue, Cause::DeepQueue]
            .map(Cause::name)
            .contains(&verdict.cause.as_str())
    });
    let is_queue = most_packets >= LEAST_QUEUE_PACKETS || met.limit.is_some() || overflowed;
    let drain_rate_bps = arrival_rate.filter(|_| is_queue || unseen_share > 0.0);
    Some(Bursts {
        packets: passages.len(),
        lost: passages.lost,
        marked: hop.marked,
        line_rate_bps: line_rate_bps(&trains),
        arrival_rate_bps: arrival_rate.map(|rate| rate.value),
        burst_bytes: drain_rate_bps.and_then(|rate| bucket_bytes(&trains, rate.value)),
        lost_found_packets: lost_found_packets(&passages, &inside),
        passed_with_more: met.passed_with_more,
        limit: met.limit,
        drain_rate_bps,
        byte_basis: basis.map(ByteBasis::name),
        bucket: bucket(&trains),
        longest_wait_s,
        most_packets,
        most_bytes: most(|held| held.bytes),
        verdict,
    })
}

fn verdict(hop: &Hop) -> Verdict {
    let place = Place::of(PlaceKind::Between, &[1, 2]);
    let largest = f64::from(hop.evidence.group_trace.trace.largest_bytes);
    hop_verdict(&judge_hop(hop), hop, place, Vec::new(), largest, Vec::new()).0
}

/// The packets on their way; the idle path's time is that of the fastest packet of each lot and size, since large packets take
/// longer to be sent than small ones.
fn passages(packets: &[BurstPacket]) -> Option<Passages> {
    let transit_ns = |packet: &BurstPacket| Some(packet.arrived_ns?.saturating_sub(packet.left_ns));
    let mut shortest_ns: HashMap<(u32, u32), i64> = HashMap::new();
    for packet in packets {
        if let Some(transit_ns) = transit_ns(packet) {
            let shortest_ns = shortest_ns
                .entry((packet.lot, packet.ip_bytes))
                .or_insert(transit_ns);
            *shortest_ns = transit_ns.min(*shortest_ns);
        }
    }
    let passage = |packet: &BurstPacket| {
        let idle_ns = *shortest_ns.get(&(packet.lot, packet.ip_bytes))?;
        let transit_ns = transit_ns(packet).map(|transit_ns| transit_ns.saturating_sub(idle_ns));
        Some(Passage {
            arrival_ns: packet.left_ns,
            bytes: packet.ip_bytes,
            outcome: transit_ns.map_or(Seen::Lost, |_| Seen::Passed),
            transit_ns,
            flow: 0,
            marked: packet.marked,
        })
    };
    let passages: Vec<Passage> = packets.iter().filter_map(passage).collect();
    (!passages.is_empty()).then(|| Passages::new(passages))
}

fn totals(passages: &Passages) -> Totals {
    let packets = passages.len() as u64;
    Totals {
        packets,
        data_packets: packets,
        payload_bytes: passages.bytes.iter().map(|bytes| *bytes as u64).sum(),
        lost: passages.lost as u64,
        lossy_flows: u64::from(passages.lost > 0),
        busy_s: passages.duration_s(),
        union_busy_s: passages.duration_s(),
        ..Totals::default()
    }
}
