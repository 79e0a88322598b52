//! Bursts of packets on a path: a hop observed from both ends.
//!
//! Departure and arrival time of each packet, or its loss, are what two captures show of a stretch of path;
//! so the path is judged as one ([`hop`](crate::hop)). Two things are known better here. Every burst found
//! the path idle; and its back-to-back packets kept the queue filled, so that the rate of the whole train is
//! the queue's drain rate (the dispersion of long trains: Dovrolis, Ramanathan and Moore, "Packet-dispersion
//! techniques and a capacity-estimation methodology", IEEE/ACM Transactions on Networking 12(6), 2004; of
//! pairs: Keshav, "A control-theoretic approach to flow control", SIGCOMM 1991).
//!
//! | module | subject |
//! |---|---|
//! | `trains` | rates of trains: of the sender's line, of the hop, and the bytes that the hop counts |
//! | `limit` | contents of a full queue, from the packets ahead of each lost packet |
//! | `bucket` | a token bucket, from the parts of bursts before and after the first loss |
//! | `counted` | the same if the far end reports only counts of packets per interval |

mod bucket;
mod counted;
mod limit;
#[cfg(test)]
mod tests;
mod trains;

use std::collections::HashMap;

use serde::Serialize;
use whydrop_path::fit::Seen;
use whydrop_path::fit::passage::{Contents, Passage, Passages, contents};
use whydrop_verdict::{Cause, Place, PlaceKind, Quantity};

use crate::cause::judge;
use crate::document::Verdict;
use crate::hop::{self, hop_verdict};
use crate::observe::totals::Totals;
use crate::observe::{ByteBasis, HopInput, Observation, laws_of_hop};
use crate::verdict::Subject;
pub use bucket::Bucket;
use bucket::bucket;
pub use counted::{CountedTrain, explain_counted_trains};
use limit::{Inside, limit, lost_found_packets};
use trains::{bucket_bytes, byte_basis, drain_rate, line_rate_bps, trains};

/// One packet of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstPacket {
    /// Trains of one lot were measured with the same two clocks, close together in time.
    pub lot: u32,
    pub burst: u32,
    /// By the sender's clock.
    pub left_ns: i64,
    /// By the receiver's clock; `None` for a lost packet.
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
    /// Rate of back-to-back arrivals while packets were queued, bit/s, IP bytes of large packets.
    pub drain_rate_bps: Option<Quantity>,
    /// The same for all trains that were slowed, for any reason: the rate to try next.
    pub arrival_rate_bps: Option<f64>,
    /// Bytes received faster than that before packets were queued: the bucket of a shaper, IP bytes.
    pub burst_bytes: Option<Quantity>,
    /// The bucket that dropped packets, if one did: the fit to the lost packets (`verdict`) must agree.
    pub bucket: Option<Bucket>,
    /// Longest queueing delay in seconds, relative to a packet that finds the path idle.
    pub longest_wait_s: f64,
    /// The largest queue that any packet found: packets, and IP bytes.
    pub most_packets: f64,
    pub most_bytes: f64,
    /// Median number of packets that lost packets found queued.
    pub lost_found_packets: Option<f64>,
    /// Packets that passed although they found more queued than lost ones did: a full queue lets none of them
    /// in.
    pub passed_with_more: usize,
    /// Contents of a full queue, if lost packets found one.
    pub limit: Option<Limit>,
    /// The bytes that the queue counts for each packet: `ip`, `ethernet` or `wire`, if small packets show it.
    pub byte_basis: Option<&'static str>,
    /// The cause of the losses, if there were any.
    pub verdict: Option<Verdict>,
}

/// Contents of a full queue, from the packets ahead of each lost packet.
#[derive(Debug, Clone, Serialize)]
pub struct Limit {
    /// `packets` or `bytes`; `None` if only packets of one size were lost, or two sizes agree on neither.
    pub limited_by: Option<&'static str>,
    pub packets: Quantity,
    /// In the bytes that the hop counts (`byte_basis`) if known; otherwise in IP bytes.
    pub bytes: Quantity,
    /// Share of the losses, and of the packets that passed although more were queued, that a full queue
    /// accounts for: 0 to 1.
    pub certainty: f64,
}

/// Timers and interrupts delay a few packets: a shorter queue without losses is not reported.
const LEAST_QUEUE_PACKETS: f64 = 5.0;

/// Explains what happened to bursts. `None` if none of them arrived.
pub fn explain_bursts(packets: &[BurstPacket]) -> Option<Bursts> {
    let passages = passages(packets)?;
    let trains = trains(packets);
    let mut seen = hop::measure(HopInput {
        totals: totals(&passages),
        passages: passages.clone(),
        offloaded: false,
        base_rtt_s: None,
        missed_share: 0.0,
    });
    // by the timestamps as they are: the sender's line and its own queue, unknown in a capture, are known
    // here
    let waits = passages.wait_s.iter().filter(|wait| !wait.is_nan());
    let longest_wait_s = waits.fold(0.0, |most: f64, wait| most.max(*wait));
    let inside = contents(&passages, 0.0);
    let most = |of: fn(&Contents) -> f64| inside.iter().map(of).fold(0.0, f64::max);
    let most_packets = most(|contents| contents.packets);
    let hop = seen.exact.as_ref()?;
    let marked = hop.marked;
    let unseen_share = hop
        .departures
        .map_or(0.0, |departures| departures.unseen_share);
    let arrival_rate = drain_rate(&trains, hop);
    let basis = byte_basis(&trains, hop);
    let in_hop = Inside {
        passages: &passages,
        contents: &inside,
        unseen_share,
    };
    let met = limit(&in_hop, &trains, arrival_rate, basis);
    let verdict = (passages.lost > 0).then(|| verdict(&mut seen));
    // losses that found it full prove a queue, however short
    let overflowed = verdict
        .as_ref()
        .is_some_and(|verdict| matches!(verdict.cause, Cause::ShallowQueue | Cause::DeepQueue));
    let is_queue = most_packets >= LEAST_QUEUE_PACKETS || met.limit.is_some() || overflowed;
    let drain_rate_bps = arrival_rate.filter(|_| is_queue || unseen_share > 0.0);
    Some(Bursts {
        packets: passages.len(),
        lost: passages.lost,
        marked,
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
        most_bytes: most(|contents| contents.bytes),
        verdict,
    })
}

fn verdict(seen: &mut Observation) -> Verdict {
    let subject = Subject {
        place: Some(Place::of(PlaceKind::Between, &[1, 2])),
        mss_bytes: f64::from(seen.group_trace.trace.largest_bytes),
        ..Subject::default()
    };
    let outcome = judge(seen, |seen| seen.exact.as_ref().map(laws_of_hop));
    hop_verdict(&outcome, seen, subject).0
}

/// The packets in the hop. The transit time of the idle path is that of the fastest packet of each lot and
/// size, since large packets take longer to transmit than small ones.
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
