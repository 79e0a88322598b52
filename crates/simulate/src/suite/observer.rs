//! An observer who knows all arrivals and fates, and how precisely the parameters of a policer can be determined at all.

use serde_json::{Map, Value, json};
use whydrop_path::{Arrival, Outcome, PathElement, PathSpec, overhead, replay};

use super::world::FULL_PACKET_BYTES;
use crate::pair::{Body, Crossing};

/// The parameters of the policer of a path.
pub fn buckets(path: &PathSpec) -> Vec<(&'static str, f64)> {
    let mut path = path.clone();
    [
        "rate_bps",
        "burst_bytes",
        "peak_rate_bps",
        "peak_burst_bytes",
    ]
    .into_iter()
    .filter_map(|name| Some((name, *path.bucket_mut(name)?)))
    .collect()
}

/// Returns a copy with one parameter of the policer multiplied by a factor.
fn with(mut path: PathSpec, name: &str, factor: f64) -> PathSpec {
    if let Some(value) = path.bucket_mut(name) {
        *value = (*value * factor).round();
    }
    path
}

/// Packets that reach a policer, as sent.
pub fn arrivals(crossings: &[Crossing], longer_ip_header_bytes: u32) -> Vec<Arrival> {
    let of = |crossing: &Crossing| {
        let bytes = match crossing.body {
            Body::Tcp(segment) => segment.ip_bytes(),
            Body::Udp(datagram) => datagram.payload_bytes + 28,
        };
        let time_ns = crossing.at_b_ns.filter(|_| crossing.is_forward())?;
        Some(Arrival {
            time_ns,
            bytes: bytes + longer_ip_header_bytes,
        })
    };
    let mut arrivals: Vec<Arrival> = crossings.iter().filter_map(of).collect();
    arrivals.sort_by_key(|arrival| arrival.time_ns);
    arrivals
}

/// An observer who knows all arrivals and fates, and finds whether an error of a parameter by a given share would have
/// changed which packets were dropped.
#[derive(Debug, Clone)]
pub struct Observer<'a> {
    pub path: PathSpec,
    pub arrivals: &'a [Arrival],
}

/// A difference in fewer packets is not significant: one may be another's.
const SHOWS: usize = 2;
/// The steps by which other parameters are adjusted to compensate for a wrong one, larger steps first.
const STEPS: [f64; 5] = [0.1, 0.03, 0.01, 0.003, 0.001];
/// The byte basis is unknown to the observer.
const OVERHEADS_BYTES: [u32; 3] = [overhead::IP, overhead::ETHERNET, overhead::WIRE];

impl Observer<'_> {
    /// By name: whether an error of `share(name)` in either direction changes the fates, with all other parameters
    /// correct.
    pub fn alone(&self, share: impl Fn(&str, f64) -> f64) -> Map<String, Value> {
        self.by_name(share, |name, factor| {
            self.differing(&with(self.path.clone(), name, factor), &self.fates(), SHOWS)
        })
    }

    /// By name: whether such an error changes the fates whatever the other parameters and the byte basis are, which are
    /// unknown as well. A rate and its burst compensate for each other if bursts are alike, and all of them for the
    /// byte basis if packets are alike (Raue et al., Bioinformatics 25, 2009: identifiability by profile).
    pub fn by_profile(&self, share: impl Fn(&str, f64) -> f64) -> Map<String, Value> {
        let fates = self.fates();
        self.by_name(share, |name, factor| {
            let with_overhead = |bytes: u32| self.made_up_for(name, factor, bytes, &fates);
            OVERHEADS_BYTES
                .map(with_overhead)
                .into_iter()
                .min()
                .unwrap_or(SHOWS)
        })
    }

    fn by_name(
        &self,
        share: impl Fn(&str, f64) -> f64,
        differing: impl Fn(&str, f64) -> usize,
    ) -> Map<String, Value> {
        let shows = |name: &str, value: f64| {
            let share = share(name, value);
            let factors = [1.0 + share, 1.0 - share];
            factors
                .iter()
                .all(|&factor| differing(name, factor) >= SHOWS)
        };
        buckets(&self.path)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), json!(shows(name, value))))
            .collect()
    }

    /// Packets with a different fate if one parameter is wrong by a factor, this many bytes are added to each packet,
    /// and all other parameters are adjusted to compensate.
    fn made_up_for(&self, name: &str, factor: f64, overhead_bytes: u32, fates: &[bool]) -> usize {
        let counted = |bytes: u32| FULL_PACKET_BYTES as f64 + f64::from(bytes);
        let raise = counted(overhead_bytes) / counted(self.path.overhead_bytes());
        let mut best = self.path.clone().with_overhead(overhead_bytes);
        let names: Vec<&str> = buckets(&best).into_iter().map(|bucket| bucket.0).collect();
        let others = || names.iter().filter(|other| **other != name);
        for other in others() {
            best = with(best, other, raise);
        }
        best = with(best, name, factor);
        let mut differing = self.differing(&best, fates, usize::MAX);
        for step in STEPS {
            for other in others() {
                for factor in [1.0 + step, 1.0 - step] {
                    while differing >= SHOWS {
                        let tried = with(best.clone(), other, factor);
                        let fewer = self.differing(&tried, fates, differing);
                        if fewer >= differing {
                            break;
                        }
                        (best, differing) = (tried, fewer);
                    }
                }
            }
        }
        differing
    }

    /// Packets with a different fate, counted up to `most`.
    fn differing(&self, path: &PathSpec, fates: &[bool], most: usize) -> usize {
        let mut element = path.assemble(0);
        let differs = |(arrival, dropped): &(&Arrival, &bool)| {
            element.arrive(**arrival).is_dropped() != **dropped
        };
        let packets = self.arrivals.iter().zip(fates);
        packets.filter(differs).take(most).count()
    }

    fn fates(&self) -> Vec<bool> {
        let mut element = self.path.assemble(0);
        replay(&mut element, self.arrivals)
            .into_iter()
            .map(Outcome::is_dropped)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use whydrop_path::ElementSpec;

    use super::*;

    fn path(peak: Option<(f64, f64)>) -> PathSpec {
        ElementSpec::policer(12e6, 15e3).with_peak(peak).into()
    }

    /// Bursts of this many packets, 0.1 ms apart, every 20 ms.
    fn bursts(packets: i64) -> Vec<Arrival> {
        let at = |burst: i64, packet: i64| Arrival {
            time_ns: burst * 20_000_000 + packet * 100_000,
            bytes: 1_500,
        };
        (0..50)
            .flat_map(|burst| (0..packets).map(move |packet| at(burst, packet)))
            .collect()
    }

    fn shown(path: PathSpec, packets: i64, share: f64) -> Vec<bool> {
        let observer = Observer {
            path,
            arrivals: &bursts(packets),
        };
        let by_name = observer.alone(|_, _| share);
        let names = buckets(&observer.path).into_iter();
        names.map(|(name, _)| by_name[name] == true).collect()
    }

    #[test]
    fn a_parameter_that_affected_no_packet_cannot_be_determined() {
        // No packet is dropped from bursts that fit the bucket.
        assert_eq!(shown(path(None), 5, 0.1), [false, false]);
        // Longer bursts reveal both, to 30 % (their ends are a packet apart), not to a thousandth.
        assert_eq!(shown(path(None), 40, 0.3), [true, true]);
        assert_eq!(shown(path(None), 40, 0.001), [false, false]);
    }

    #[test]
    fn a_peak_rate_that_never_limits_cannot_be_determined() {
        let wide = (1e9, 100e3);
        assert_eq!(shown(path(Some(wide)), 40, 0.3), [true, true, false, false]);
        let narrow = (60e6, 4.5e3);
        let binding = shown(path(Some(narrow)), 40, 0.3);
        assert!(binding[2], "{binding:?}");
    }

    #[test]
    fn packets_of_one_size_do_not_reveal_the_byte_basis() {
        let arrivals = bursts(40);
        let observer = Observer {
            path: path(None).with_overhead(overhead::WIRE),
            arrivals: &arrivals,
        };
        // 38 bytes of 1500 are 2.5 %
        let within = |share: f64| observer.by_profile(|_, _| share)["rate_bps"] == true;
        assert!(!within(0.02) && within(0.3));
        assert_eq!(observer.alone(|_, _| 0.02)["rate_bps"], true);
    }

    #[test]
    fn a_burst_makes_up_for_a_rate_where_bursts_are_alike() {
        // eleven of thirteen pass, ten of them at once
        let arrivals = bursts(13);
        let observer = Observer {
            path: path(None),
            arrivals: &arrivals,
        };
        let alone = observer.alone(|_, _| 0.7);
        let by_profile = observer.by_profile(|_, _| 0.7);
        assert!(alone["rate_bps"] == true && by_profile["rate_bps"] == false);
    }
}
