//! Paths with policers, and how far their parameters can be told at all.

use serde_json::{Map, Value, json};
use whydrop_path::{Arrival, Outcome, Random, replay};

use super::draw::World;
use super::policer::{Bucket, PolicerSpec};
use super::settings::{MBIT, byte_basis, companions, outrun};
use crate::pair::crossing::{Body, Crossing};

pub fn apply(world: &mut World, random: &mut Random) {
    let rate_bps = (random.log_uniform(2.0, 1_000.0) * MBIT) as u64;
    // A bucket for more than two seconds is not emptied in a short capture.
    let most = (rate_bps as f64 / 8.0 * 2.0).clamp(20_000.0, 2_000_000.0);
    let burst_bytes = random.log_uniform(5_000.0, most) as u64;
    let overhead_bytes = byte_basis(world, random);
    outrun(world, rate_bps);
    let committed = Bucket {
        rate_bps,
        burst_bytes,
    };
    let spec = PolicerSpec::draw(world.mechanism, overhead_bytes, committed, random);
    note(world, &spec);
    world.set_element(spec.build());
    world.policer = Some(spec);
    companions(world, random);
    world.transfer(rate_bps, 4 * burst_bytes, random);
}

fn note(world: &mut World, spec: &PolicerSpec) {
    for (prefix, bucket) in [
        ("", Some(spec.committed)),
        ("peak_", spec.peak),
        ("shaper_", spec.shaper),
    ] {
        if let Some(bucket) = bucket {
            world.parameter(&format!("{prefix}rate_bps"), bucket.rate_bps);
            world.parameter(&format!("{prefix}burst_bytes"), bucket.burst_bytes);
        }
    }
    if spec.linux {
        world.parameter("implementation", "Linux act_police");
    }
    world.parameter("queue", false);
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

/// What somebody with all arrivals and fates could tell: whether each parameter, wrong by a share, would have dropped
/// other packets.
#[derive(Debug, Clone)]
pub struct Tellable<'a> {
    pub spec: PolicerSpec,
    pub arrivals: &'a [Arrival],
}

impl Tellable<'_> {
    /// By name: whether an error of `share(name)`, either way, shows.
    pub fn by_name(&self, share: impl Fn(&str, &PolicerSpec) -> f64) -> Map<String, Value> {
        let true_fates = self.fates(self.spec);
        let shows = |name: &&'static str| {
            let share = share(name, &self.spec);
            [1.0 + share, 1.0 - share].iter().all(|&factor| {
                let fates = self.fates(self.spec.with(name, factor));
                fates
                    .iter()
                    .zip(&true_fates)
                    .filter(|(a, b)| a != b)
                    .count()
                    >= 2
            })
        };
        let names = self.spec.names();
        names
            .iter()
            .map(|name| (name.to_string(), json!(shows(name))))
            .collect()
    }

    fn fates(&self, spec: PolicerSpec) -> Vec<bool> {
        let mut element = spec.build();
        replay(&mut element, self.arrivals)
            .into_iter()
            .map(Outcome::is_dropped)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(peak: Option<Bucket>) -> PolicerSpec {
        PolicerSpec {
            committed: Bucket {
                rate_bps: 12_000_000,
                burst_bytes: 15_000,
            },
            peak,
            shaper: None,
            shaper_first: false,
            linux: false,
            overhead_bytes: 0,
        }
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

    fn told(spec: PolicerSpec, packets: i64, share: f64) -> Vec<bool> {
        let tellable = Tellable {
            spec,
            arrivals: &bursts(packets),
        };
        let by_name = tellable.by_name(|_, _| share);
        spec.names()
            .iter()
            .map(|&name| by_name[name] == true)
            .collect()
    }

    #[test]
    fn what_no_packet_met_cannot_be_told() {
        // Nothing is ever dropped of bursts that fit the bucket.
        assert_eq!(told(spec(None), 5, 0.1), [false, false]);
        // Longer bursts show both, to 30 % (their ends are a packet apart), not to a thousandth.
        assert_eq!(told(spec(None), 40, 0.3), [true, true]);
        assert_eq!(told(spec(None), 40, 0.001), [false, false]);
    }

    #[test]
    fn a_peak_rate_that_never_binds_cannot_be_told() {
        let wide = Bucket {
            rate_bps: 1_000_000_000,
            burst_bytes: 100_000,
        };
        assert_eq!(told(spec(Some(wide)), 40, 0.3), [true, true, false, false]);
        let narrow = Bucket {
            rate_bps: 60_000_000,
            burst_bytes: 4_500,
        };
        let binding = told(spec(Some(narrow)), 40, 0.3);
        assert!(binding[2], "{binding:?}");
    }
}
