//! The elements that a description stands for.

use super::{ElementSpec, PathSpec, SpecError};
use crate::{
    Batches, Cake, Chain, CoDel, Delay, Detour, DualPi2, Fifo, FqCoDel, FqPie, Jitter, Limit,
    LinuxPolice, Outage, PathElement, Pie, Policer, RandomLoss, Red, Shaper, SingleRateThreeColour,
    TickShaper, TwoRateThreeColour,
};

type Element = Box<dyn PathElement + Send>;

impl PathSpec {
    /// Makes the elements: a single one as it is, several as a [`Chain`]. Element number i, from 0, begins its
    /// random numbers with `seed` + i.
    pub fn build(&self, seed: u64) -> Result<Element, SpecError> {
        self.check()?;
        Ok(self.assemble(seed))
    }

    /// Like [`build`](Self::build), without its checks: of parameters that were fitted.
    pub fn assemble(&self, seed: u64) -> Element {
        let seeds = (0..).map(|place| seed.wrapping_add(place));
        let mut elements: Vec<Element> = (self.elements.iter().zip(seeds))
            .map(|(element, seed)| element.assemble(seed))
            .collect();
        match elements.len() {
            1 => elements.remove(0),
            _ => Box::new(Chain::new(elements)),
        }
    }
}

/// Parameters of state machines are whole and at least one.
fn whole(value: f64) -> u64 {
    value.round().max(1.0) as u64
}

fn signed(time_ns: u64) -> i64 {
    i64::try_from(time_ns).unwrap_or(i64::MAX)
}

fn limit(packets: Option<f64>, bytes: Option<f64>) -> Limit {
    Limit {
        packets: packets.map(whole),
        bytes: bytes.map(whole),
    }
}

/// Target and interval of CoDel, if one is given: the other is that of RFC 8289.
fn sojourn(target_ns: Option<u64>, interval_ns: Option<u64>) -> Option<(i64, i64)> {
    let given = target_ns.is_some() || interval_ns.is_some();
    given.then(|| {
        (
            signed(target_ns.unwrap_or(5_000_000)),
            signed(interval_ns.unwrap_or(100_000_000)),
        )
    })
}

fn with<E, T>(element: E, option: Option<T>, set: impl FnOnce(E, T) -> E) -> E {
    match option {
        Some(value) => set(element, value),
        None => element,
    }
}

fn flag<E>(element: E, wanted: bool, set: impl FnOnce(E) -> E) -> E {
    if wanted { set(element) } else { element }
}

fn pair(first: Option<f64>, second: Option<f64>) -> Option<(u64, u64)> {
    first.map(whole).zip(second.map(whole))
}

impl ElementSpec {
    fn assemble(&self, seed: u64) -> Element {
        let element = (self
            .queue()
            .or_else(|| self.meter())
            .or_else(|| self.shape()))
        .or_else(|| self.managed(seed).or_else(|| self.fair(seed)))
        .or_else(|| self.loss(seed).or_else(|| self.time(seed)));
        element.expect("each element is in one of these groups: a test builds all of them")
    }

    fn time(&self, seed: u64) -> Option<Element> {
        Some(match *self {
            Self::Delay { time_ns } => Box::new(Delay::new(signed(time_ns))),
            Self::Jitter {
                low_ns,
                high_ns,
                reorders,
                seed: own,
            } => {
                let jitter = Jitter::new(signed(low_ns), signed(high_ns), own.unwrap_or(seed));
                Box::new(flag(jitter, reorders, Jitter::reordering))
            }
            Self::Detour {
                probability,
                extra_ns,
                seed: own,
            } => Box::new(Detour::new(
                probability,
                signed(extra_ns),
                own.unwrap_or(seed),
            )),
            Self::Batches {
                turn_ns,
                most_packets,
            } => Box::new(Batches::new(signed(turn_ns), whole(most_packets))),
            Self::Outage { from_ns, until_ns } => {
                Box::new(Outage::new(vec![(signed(from_ns), signed(until_ns))]))
            }
            _ => return None,
        })
    }

    fn queue(&self) -> Option<Element> {
        Some(match *self {
            Self::Fifo {
                rate_bps,
                limit_packets,
                limit_bytes,
                in_service,
                overhead_bytes,
            } => Box::new(
                Fifo::new(whole(rate_bps), limit(limit_packets, limit_bytes))
                    .with_in_service(in_service)
                    .with_overhead(overhead_bytes),
            ),
            Self::Line {
                rate_bps,
                overhead_bytes,
            } => Box::new(Fifo::new(whole(rate_bps), Limit::NONE).with_overhead(overhead_bytes)),
            _ => return None,
        })
    }

    fn meter(&self) -> Option<Element> {
        Some(match *self {
            Self::Policer {
                rate_bps,
                burst_bytes,
                peak_rate_bps,
                peak_burst_bytes,
                initial_bytes,
                overhead_bytes,
            } => {
                let policer =
                    Policer::new(whole(rate_bps), whole(burst_bytes)).with_overhead(overhead_bytes);
                let peak = pair(peak_rate_bps, peak_burst_bytes);
                let policer = with(policer, peak, |policer, (rate, burst)| {
                    policer.with_peak(rate, burst)
                });
                Box::new(with(policer, initial_bytes, |policer, bytes| {
                    policer.with_initial_bytes(bytes.round() as u64)
                }))
            }
            Self::LinuxPolice {
                rate_bps,
                burst_bytes,
                peak_rate_bps,
                mtu_bytes,
                overhead_bytes,
            } => {
                let police = LinuxPolice::new(whole(rate_bps), whole(burst_bytes))
                    .with_overhead(overhead_bytes);
                let police = with(police, mtu_bytes, LinuxPolice::with_mtu);
                Box::new(with(
                    police,
                    peak_rate_bps.map(whole),
                    LinuxPolice::with_peak_rate,
                ))
            }
            Self::SingleRateThreeColour {
                rate_bps,
                burst_bytes,
                excess_burst_bytes,
                passing,
                overhead_bytes,
            } => Box::new(
                SingleRateThreeColour::new(
                    whole(rate_bps),
                    whole(burst_bytes),
                    excess_burst_bytes.round() as u64,
                )
                .passing(passing)
                .with_overhead(overhead_bytes),
            ),
            Self::TwoRateThreeColour {
                rate_bps,
                burst_bytes,
                peak_rate_bps,
                peak_burst_bytes,
                passing,
                overhead_bytes,
            } => Box::new(
                TwoRateThreeColour::new(
                    whole(rate_bps),
                    whole(burst_bytes),
                    whole(peak_rate_bps),
                    whole(peak_burst_bytes),
                )
                .passing(passing)
                .with_overhead(overhead_bytes),
            ),
            _ => return None,
        })
    }

    fn shape(&self) -> Option<Element> {
        Some(match *self {
            Self::Shaper {
                rate_bps,
                burst_bytes,
                peak_rate_bps,
                peak_burst_bytes,
                initial_bytes,
                limit_packets,
                limit_bytes,
                overhead_bytes,
            } => {
                let limit = limit(limit_packets, limit_bytes);
                let shaper = Shaper::new(whole(rate_bps), whole(burst_bytes), limit)
                    .with_overhead(overhead_bytes);
                let peak = pair(peak_rate_bps, peak_burst_bytes);
                let shaper = with(shaper, peak, |shaper, (rate, burst)| {
                    shaper.with_peak(rate, burst)
                });
                Box::new(with(shaper, initial_bytes, |shaper, bytes| {
                    shaper.with_initial_bytes(bytes.round() as u64)
                }))
            }
            Self::TickShaper {
                rate_bps,
                burst_bytes,
                tick_ns,
                limit_packets,
                limit_bytes,
                overhead_bytes,
            } => {
                let limit = limit(limit_packets, limit_bytes);
                let (rate, burst) = (whole(rate_bps), whole(burst_bytes));
                let shaper = TickShaper::new(rate, signed(tick_ns), burst, limit);
                Box::new(shaper.with_overhead(overhead_bytes))
            }
            _ => return None,
        })
    }

    fn loss(&self, seed: u64) -> Option<Element> {
        Some(Box::new(match *self {
            Self::RandomLoss {
                probability,
                seed: own,
            } => RandomLoss::independent(probability, own.unwrap_or(seed)),
            Self::BurstyLoss {
                share,
                mean_burst_packets,
                seed: own,
            } => RandomLoss::bursts(share, mean_burst_packets, own.unwrap_or(seed)),
            Self::GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_in_good,
                loss_in_bad,
                seed: own,
            } => {
                let seed = own.unwrap_or(seed);
                RandomLoss::gilbert_elliott(
                    good_to_bad,
                    bad_to_good,
                    loss_in_good,
                    loss_in_bad,
                    seed,
                )
            }
            Self::Fading {
                share,
                mean_ns,
                seed: own,
            } => RandomLoss::outages(share, signed(mean_ns), own.unwrap_or(seed)),
            _ => return None,
        }))
    }

    fn managed(&self, seed: u64) -> Option<Element> {
        Some(match *self {
            Self::Red {
                rate_bps,
                min_packets,
                max_packets,
                max_probability,
                limit_packets,
                limit_bytes,
                weight,
                gentle,
                marks,
                overhead_bytes,
                seed: own,
            } => {
                let (limit, seed) = (limit(limit_packets, limit_bytes), own.unwrap_or(seed));
                let rate = whole(rate_bps);
                let red = Red::new(rate, limit, min_packets, max_packets, max_probability, seed);
                let red = with(red, weight, Red::with_weight);
                let red = flag(flag(red, gentle, Red::gentle), marks, Red::marking);
                Box::new(red.with_overhead(overhead_bytes))
            }
            Self::Pie {
                rate_bps,
                limit_packets,
                limit_bytes,
                target_ns,
                period_ns,
                marks,
                linux,
                overhead_bytes,
                seed: own,
            } => {
                let limit = limit(limit_packets, limit_bytes);
                let pie = Pie::new(whole(rate_bps), limit, own.unwrap_or(seed));
                let pie = with(pie, target_ns.map(signed), Pie::with_target);
                let pie = with(pie, period_ns.map(signed), Pie::with_period);
                let pie = flag(pie, linux, Pie::like_linux);
                Box::new(flag(pie, marks, Pie::marking).with_overhead(overhead_bytes))
            }
            Self::CoDel {
                rate_bps,
                limit_packets,
                limit_bytes,
                target_ns,
                interval_ns,
                marks,
                linux,
                overhead_bytes,
            } => {
                let codel = CoDel::new(whole(rate_bps), limit(limit_packets, limit_bytes));
                let codel = with(
                    codel,
                    sojourn(target_ns, interval_ns),
                    |codel, (target, interval)| codel.with_target(target, interval),
                );
                let codel = flag(codel, linux, CoDel::like_linux);
                Box::new(flag(codel, marks, CoDel::marking).with_overhead(overhead_bytes))
            }
            _ => return None,
        })
    }

    /// Those with a queue for each flow, or for each class of flows.
    fn fair(&self, seed: u64) -> Option<Element> {
        Some(match *self {
            Self::FqCoDel {
                rate_bps,
                limit_packets,
                target_ns,
                interval_ns,
                marks,
                linux,
                overhead_bytes,
                seed: own,
            } => {
                let fair = FqCoDel::new(whole(rate_bps), whole(limit_packets), own.unwrap_or(seed));
                let fair = with(
                    fair,
                    sojourn(target_ns, interval_ns),
                    |fair, (target, interval)| fair.with_target(target, interval),
                );
                let fair = flag(fair, linux, FqCoDel::like_linux);
                Box::new(flag(fair, marks, FqCoDel::marking).with_overhead(overhead_bytes))
            }
            Self::FqPie {
                rate_bps,
                limit_packets,
                target_ns,
                period_ns,
                marks,
                linux,
                overhead_bytes,
                seed: own,
            } => {
                let fair = FqPie::new(whole(rate_bps), whole(limit_packets), own.unwrap_or(seed));
                let fair = with(fair, target_ns.map(signed), FqPie::with_target);
                let fair = with(fair, period_ns.map(signed), FqPie::with_period);
                let fair = flag(fair, linux, FqPie::like_linux);
                Box::new(flag(fair, marks, FqPie::marking).with_overhead(overhead_bytes))
            }
            Self::Cake {
                rate_bps,
                limit_bytes,
                target_ns,
                interval_ns,
                overhead_bytes,
                seed: own,
            } => {
                let cake = Cake::new(whole(rate_bps), whole(limit_bytes), own.unwrap_or(seed));
                let cake = with(
                    cake,
                    sojourn(target_ns, interval_ns),
                    |cake, (target, interval)| cake.with_target(target, interval),
                );
                Box::new(cake.with_overhead(overhead_bytes))
            }
            Self::DualPi2 {
                rate_bps,
                limit_packets,
                target_ns,
                overhead_bytes,
                seed: own,
            } => {
                let dual = DualPi2::new(whole(rate_bps), whole(limit_packets), own.unwrap_or(seed));
                let dual = with(dual, target_ns.map(signed), DualPi2::with_target);
                Box::new(dual.with_overhead(overhead_bytes))
            }
            _ => return None,
        })
    }
}
