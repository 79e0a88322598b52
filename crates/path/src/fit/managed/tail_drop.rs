//! A queue that drops when it is full: the rival of every law.
//!
//! If delays are measured exactly, drops occur at the longest. From a distance delays are noisy, so the
//! contents of the queue are also calculated from arrivals and drain rate: this is the
//! [`virtual_queue`](crate::fit::virtual_queue), at the rate that the delays show.

use super::laws::{Hazards, nats_of_rate};
use crate::fit::level::Level;
use crate::fit::rows::{CLASSES, MARGINS};
use crate::fit::virtual_queue::log_likelihood;

/// Multiples of the rate to try: a frame may add 38 bytes to a packet, or to small ones much more, and a rate
/// fitted to delays may be wrong by a few per cent.
const AROUND: [f64; 9] = [0.92, 0.95, 0.97, 0.985, 1.0, 1.015, 1.03, 1.05, 1.08];
/// Finer relative steps of rate and limit around the best.
const FINER: [f64; 3] = [0.006, 0.002, 0.0007];
/// Shares of the losses that find less than the limits to try.
const SHARES: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

/// A rate relative to the drain rate, and a limit in seconds at the drain rate.
#[derive(Clone, Copy)]
struct Full {
    speed: f64,
    limit_s: f64,
}

impl Hazards<'_> {
    /// Gain in nats of a queue that drops when it is full, over chance.
    pub fn tail_drop(&self) -> f64 {
        self.when_long().max(self.when_full())
    }

    /// Two drop rates, on either side of the delay that separates them best: from a distance, the noise of
    /// delays hides the limit.
    fn when_long(&self) -> f64 {
        let mut items: Vec<(f64, bool)> = self
            .queues
            .iter()
            .flat_map(|queue| &queue.items)
            .filter(|item| !item.hidden)
            .map(|item| (item.wait_s(), item.chosen))
            .collect();
        items.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut below = 0.0;
        let mut best = f64::MIN;
        for (index, (_, chosen)) in items.iter().enumerate() {
            if *chosen {
                let parted = nats_of_rate(below, index as f64)
                    + nats_of_rate(self.events - below, self.packets - index as f64);
                best = best.max(parted);
                below += 1.0;
            }
        }
        best - self.chance_nats() - self.cost(2.0)
    }

    /// From its contents: separate drop rates far below the limit, near it, and above.
    fn when_full(&self) -> f64 {
        let of = |full: Full| (self.nats_of_full(full), full);
        let better = |a: (f64, Full), b: (f64, Full)| if b.0 > a.0 { b } else { a };
        let starts = AROUND.into_iter().flat_map(|speed| {
            let limits_s = self.backlogs_at_losses_s(speed);
            limits_s.map(move |limit_s| Full { speed, limit_s })
        });
        let Some(mut best) = starts.map(of).reduce(better) else {
            return f64::MIN;
        };
        for step in FINER {
            let from = best.1;
            let factors = [1.0 - step, 1.0, 1.0 + step];
            let around = factors.into_iter().flat_map(|speed| {
                factors.map(|limit| Full {
                    speed: from.speed * speed,
                    limit_s: from.limit_s * limit,
                })
            });
            best = around.map(of).fold(best, better);
        }
        best.0 - self.chance_nats() - self.cost(3.0)
    }

    /// Backlogs found by losses, without corrections, seconds at the drain rate: some quantiles.
    fn backlogs_at_losses_s(&self, speed: f64) -> impl Iterator<Item = f64> + use<> {
        let mut backlog_s: Vec<f64> = Vec::new();
        for queue in self.queues {
            let mut backlog = Level::EMPTY;
            for (gap_s, item) in queue.arrivals() {
                backlog.drain(&[speed], gap_s);
                if item.chosen {
                    backlog_s.push(backlog.0[0] + self.packet_s);
                } else {
                    backlog = backlog.with(item.service_s);
                }
            }
        }
        backlog_s.sort_by(f64::total_cmp);
        let at = move |share: f64| backlog_s[((backlog_s.len() - 1) as f64 * share) as usize];
        SHARES.into_iter().map(at)
    }

    /// Log-likelihood of the outcomes, from the position of the queue with each packet relative to the limit.
    /// After an unexpected outcome the queue is corrected.
    fn nats_of_full(&self, full: Full) -> f64 {
        let (mut lost, mut passed) = ([0; CLASSES], [0; CLASSES]);
        let Full { speed, limit_s } = full;
        for queue in self.queues {
            let mut backlog = Level::EMPTY;
            for (gap_s, item) in queue.arrivals() {
                backlog.drain(&[speed], gap_s);
                let size_s = if item.chosen {
                    self.packet_s
                } else {
                    item.service_s
                };
                let with_packet = backlog.with(size_s);
                let above = (with_packet.0[0] - limit_s) / self.packet_s;
                let class = MARGINS.iter().filter(|margin| above >= **margin).count();
                if item.chosen {
                    lost[class] += 1;
                    backlog = backlog.without_room(&[limit_s], size_s);
                } else {
                    passed[class] += u32::from(!item.hidden);
                    backlog = with_packet.at_most(&[limit_s]);
                }
            }
        }
        log_likelihood(&lost, &passed)
    }
}
