//! Evidence in a simulated pair: losses or none, waits, overtaking, marks, and limits of its connections.

use super::windows;
use crate::pair::{self, Counts, Crossing, Sighting, SimulatedPair};
use whydrop_network::history::{History, PacketFate};
use whydrop_network::limiter::{Account, Limiter};

/// The least share of the time in flight with a full window, if the window is the limiter.
pub const LEAST_WINDOW_LIMITED: f64 = 0.6;
/// The same for delayed acknowledgments and remote applications, besides the round trips that they add to, and for
/// outages.
pub const LEAST_HOST_LIMITED: f64 = 0.5;
pub const LEAST_OUTAGE: f64 = 0.15;
/// The least number of data packets in a pair.
const LEAST_DATA_PACKETS: u64 = 250;

/// A simulated pair, within the common coverage of both captures.
pub struct Observed<'a> {
    history: &'a History,
    account: Option<&'a Account>,
    forward: Vec<&'a Crossing>,
    back: Vec<&'a Crossing>,
    pub counts: Counts,
}

/// True if the pair shows what its kind promises: the least number of losses between the points (none if 0), and more.
pub fn shows_its_kind(
    pair: &mut SimulatedPair,
    history: &History,
    least_lost: u64,
    shows: fn(&Observed) -> bool,
) -> bool {
    let (b, y) = pair.watch();
    let covered = pair::covered(&pair.crossings, &b, &y);
    let own = (pair.crossings.iter().zip(&covered)).filter(|(_, covered)| **covered);
    let (forward, back) = (own.map(|(crossing, _)| crossing)).partition(|c| c.is_forward());
    let observed = Observed {
        history,
        account: pair.accounts.first(),
        forward,
        back,
        counts: pair::count(&pair.crossings, &covered),
    };
    let lost = observed.counts.forward_lost;
    observed.counts.data_b >= LEAST_DATA_PACKETS
        && lost >= least_lost
        && (least_lost > 0 || lost == 0)
        && step_is_inside(pair, &y)
        && shows(&observed)
}

/// True if the clock's step lies within the capture, with enough packets before and after it.
fn step_is_inside(pair: &SimulatedPair, y: &Sighting) -> bool {
    const LEAST_ON_A_SIDE: usize = 200;
    pair.y.clock.steps.iter().all(|&(at_ns, _)| {
        let before = y.records.partition_point(|record| record.time_ns < at_ns);
        before >= LEAST_ON_A_SIDE && y.records.len() - before >= LEAST_ON_A_SIDE
    })
}

impl Observed<'_> {
    /// Packets that a stage dropped, without cross traffic.
    pub fn dropped_at(&self, stage: usize) -> u64 {
        let dropped = PacketFate::Dropped { stage };
        let packets = self.history.packets.iter();
        packets
            .filter(|p| p.fate == dropped && !p.is_cross_traffic())
            .count() as u64
    }

    pub fn lost_returning(&self) -> u64 {
        self.counts.reverse_y - self.counts.reverse_b
    }

    pub fn marked(&self) -> usize {
        self.forward.iter().filter(|c| c.marked_between).count()
    }

    /// The excess of the median transit over the least.
    pub fn median_wait_ns(&self) -> i64 {
        median_more_ns(&self.forward)
    }

    /// On the return path.
    pub fn median_wait_back_ns(&self) -> i64 {
        median_more_ns(&self.back)
    }

    /// True if the receive window limits the first connection, as its server knows it.
    pub fn window_limits(&self) -> bool {
        windows::limited_share(self.history, 0) >= LEAST_WINDOW_LIMITED
    }

    /// True if the first connection had this limiter for this share of its transfers.
    pub fn is_limited_by(&self, limiter: Limiter, least: f64) -> bool {
        self.account.is_some_and(|account| {
            let times = account.times_within(&account.transfers);
            let all: i64 = times.iter().sum();
            times[limiter as usize] as f64 >= least * all.max(1) as f64
        })
    }

    /// Packets that a later one overtook between the points.
    pub fn overtaken(&self) -> usize {
        let own = self.forward.iter();
        let mut by_departure: Vec<(i64, i64)> =
            own.filter_map(|c| c.at_b_ns.zip(c.at_y_ns)).collect();
        by_departure.sort_unstable();
        let mut earliest_later_ns = i64::MAX;
        let mut overtaken = 0;
        for &(_, at_y_ns) in by_departure.iter().rev() {
            overtaken += usize::from(at_y_ns > earliest_later_ns);
            earliest_later_ns = earliest_later_ns.min(at_y_ns);
        }
        overtaken
    }
}

fn median_more_ns(own: &[&Crossing]) -> i64 {
    let mut transits: Vec<i64> = own.iter().filter_map(|c| c.transit_ns()).collect();
    transits.sort_unstable();
    let least_ns = transits.first().copied().unwrap_or(0);
    transits
        .get(transits.len() / 2)
        .map_or(0, |&median_ns| median_ns - least_ns)
}
