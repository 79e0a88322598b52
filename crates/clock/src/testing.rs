//! Packets over a synthetic path between two clocks with a known relation.

use crate::{ClockFit, ClockSample};

/// Small and deterministic random numbers (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// From 0 to 1, excluding 1.
    pub fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Mean 0, deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// The queue that delays forward packets beyond the base transit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Queue {
    Empty,
    /// Fills and empties like a bulk transfer's: a sawtooth up to this many nanoseconds, empty for a tenth of
    /// it.
    Sawtooth(f64),
    /// A standing queue of this many nanoseconds after a tenth of a second without, with a ripple.
    Standing(f64),
    /// Sawteeth of about this many nanoseconds that never return to zero, nor twice to the same value.
    NeverEmpty(f64),
    /// Normal, with this deviation, four deviations above the base at its middle.
    Jitter(f64),
}

#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub seconds: f64,
    pub packets_per_second: f64,
    pub transit_ns: [f64; 2],
    pub queue: Queue,
    /// The same in the return direction.
    pub queue_back: Queue,
    /// Scatter of every transit in both directions, nanoseconds.
    pub noise_ns: f64,
    pub offset_ns: f64,
    pub drift_ppm: f64,
    /// Timestamps are truncated to multiples of this.
    pub resolution_ns: i64,
    pub seed: u64,
    /// Share of packets that run backward, 0 to 1.
    pub backward_share: f64,
    /// At these seconds capture 2's clock is set forward by this many nanoseconds: forward packets in transit
    /// then are stamped afterwards.
    pub steps_2: Vec<(f64, f64)>,
    /// The same for capture 1's clock.
    pub steps_1: Vec<(f64, f64)>,
    /// At these seconds the forward route becomes longer by this many nanoseconds.
    pub forward_routes: Vec<(f64, f64)>,
}

pub(crate) const START_NS: f64 = 1_795_000_000_000_000_000.0;

impl Default for Path {
    fn default() -> Path {
        Path {
            seconds: 8.0,
            packets_per_second: 2000.0,
            transit_ns: [4e3, 4e3],
            queue: Queue::Empty,
            queue_back: Queue::Empty,
            noise_ns: 300.0,
            offset_ns: 0.0,
            drift_ppm: 0.0,
            resolution_ns: 1,
            seed: 1,
            backward_share: 0.35,
            steps_2: Vec::new(),
            steps_1: Vec::new(),
            forward_routes: Vec::new(),
        }
    }
}

impl Path {
    pub fn samples(&self) -> Vec<ClockSample> {
        let mut random = Random::new(self.seed);
        let count = (self.seconds * self.packets_per_second) as usize;
        let stamp = |clock_ns: f64| {
            let since_start =
                (clock_ns.round() as i64 + START_NS as i64).div_euclid(self.resolution_ns);
            since_start * self.resolution_ns
        };
        (0..count)
            .map(|i| {
                let seconds = (i as f64 + 0.9 * random.uniform()) / self.packets_per_second;
                let forward = random.uniform() >= self.backward_share;
                let noise = self.noise_ns * random.uniform();
                let transit = if forward {
                    let route = stepped(&self.forward_routes, seconds);
                    self.transit_ns[0] + noise + route + delay(self.queue, seconds, &mut random)
                } else {
                    -self.transit_ns[1] - noise - delay(self.queue_back, seconds, &mut random)
                };
                let at_1 = seconds * 1e9;
                let at_2 = at_1 + transit;
                let clock_2 = at_2
                    + self.offset_ns
                    + self.drift_ppm * 1e-6 * at_2
                    + stepped(&self.steps_2, at_2 * 1e-9);
                ClockSample {
                    first_ns: stamp(at_1 + stepped(&self.steps_1, seconds)),
                    second_ns: stamp(clock_2),
                    forward,
                }
            })
            .collect()
    }

    /// Error of the fit's offset at this time, nanoseconds.
    pub fn offset_error(&self, fit: &ClockFit, seconds: f64) -> f64 {
        let [first, second] = [&self.steps_1, &self.steps_2].map(|steps| stepped(steps, seconds));
        let truth = self.offset_ns + self.drift_ppm * 1e-6 * seconds * 1e9 + second - first;
        let first = seconds * 1e9 + first;
        fit.offset_at(first as i64 + START_NS as i64) - truth
    }
}

/// The sum of the steps until this second.
fn stepped(steps: &[(f64, f64)], seconds: f64) -> f64 {
    let made = steps.iter().filter(|step| step.0 <= seconds);
    made.map(|step| step.1).sum()
}

fn delay(queue: Queue, seconds: f64, random: &mut Random) -> f64 {
    match queue {
        Queue::Empty => 0.0,
        Queue::Sawtooth(peak) => peak * ((seconds / 1.7).fract() * 1.1 - 0.1).max(0.0),
        Queue::Standing(level) => {
            let fill = ((seconds - 0.1) / 0.5).clamp(0.0, 1.0);
            level * fill * (1.0 + 0.2 * (seconds * 3.0).sin() * random.uniform())
        }
        // a sawtooth above a floor that rises and falls over tens of seconds
        Queue::NeverEmpty(level) => {
            let base = level * (0.5 + 0.4 * (seconds * 0.37).sin());
            base + 0.3 * level * (seconds / 0.9).fract()
        }
        Queue::Jitter(deviation) => deviation * (4.0 + random.normal()).max(0.0),
    }
}
