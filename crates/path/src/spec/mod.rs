//! Paths as data: the elements of a path in order, with their parameters.
//!
//! A [`PathSpec`] is what a fit returns, a scenario states and a user asks for. [`PathSpec::build`] makes the
//! elements. It is written as text (`fifo:rate=100M,limit=64packets+policer:rate=280M,burst=80kB`: see
//! [`PathSpec::from_str`]), and as JSON or TOML by serde:
//!
//! ```
//! use whydrop_path::PathSpec;
//!
//! let path: PathSpec = "delay:time=5ms+policer:rate=280M,burst=80kB".parse().unwrap();
//! assert_eq!(path.to_string(), "delay:time=5ms+policer:rate=280M,burst=80kB");
//! let mut chain = path.build(1).unwrap();
//! # let _ = whydrop_path::replay(&mut chain, &[]);
//! ```
//!
//! [`PathSpec::from_str`]: std::str::FromStr

mod build;
mod catalogue;
mod check;
mod text;
mod trace;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::{Colour, InService};

pub use trace::{TraceError, read_trace};

/// The elements of a path, in the order in which packets meet them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    pub elements: Vec<ElementSpec>,
}

impl From<ElementSpec> for PathSpec {
    fn from(element: ElementSpec) -> Self {
        Self {
            elements: vec![element],
        }
    }
}

/// A description that cannot be built: which element and field, and what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// The element as written, or its name; empty if the error concerns the whole path.
    pub element: String,
    /// As in the text form; empty if the error concerns the whole element.
    pub field: String,
    pub message: String,
}

impl std::fmt::Display for SpecError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        for place in [&self.element, &self.field] {
            if !place.is_empty() {
                write!(formatter, "{place}: ")?;
            }
        }
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for SpecError {}

/// A field of an element: the text form, the checks and their errors follow from its name and type.
struct Field {
    name: &'static str,
    kind: &'static str,
    required: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Defines the elements: a name, the required fields, and after the semicolon the optional ones.
macro_rules! elements {
    ($($(#[$about:meta])* $variant:ident $name:literal {
        $($field:ident: $type:ty),*; $($option:ident: $option_type:ty),*
    })*) => {
        /// An element with its parameters: rates in bit/s, sizes in bytes, times in nanoseconds.
        ///
        /// `overhead_bytes` is counted for each packet on top of the IP packet: see
        /// [`overhead`](crate::overhead). Where both limits of a queue are given, the first that is reached
        /// applies; without one there is none. `seed` replaces the one given to [`PathSpec::build`]. `linux`
        /// follows Linux where it departs from the standard of an element, apart from the `period` of updates.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "element", deny_unknown_fields)]
        pub enum ElementSpec {
            $($(#[$about])*
            #[serde(rename = $name)]
            $variant {
                $($field: $type,)*
                $(#[serde(default, skip_serializing_if = "is_default")]
                $option: $option_type,)*
            },)*
        }

        impl ElementSpec {
            /// The names of all elements.
            pub const NAMES: &[&str] = &[$($name),*];

            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $name,)*
                }
            }

            fn fields(name: &str) -> Option<&'static [Field]> {
                match name {
                    $($name => Some(&[
                        $(Field {
                            name: stringify!($field),
                            kind: stringify!($type),
                            required: true,
                        },)*
                        $(Field {
                            name: stringify!($option),
                            kind: stringify!($option_type),
                            required: false,
                        },)*
                    ]),)*
                    _ => None,
                }
            }
        }
    };
}

elements! {
    /// A link: packets wait for it in a queue without limit.
    Line "line" { rate_bps: f64; overhead_bytes: u32 }
    /// See [`Fifo`](crate::Fifo).
    Fifo "fifo" {
        rate_bps: f64;
        limit_packets: Option<f64>, limit_bytes: Option<f64>, in_service: InService, overhead_bytes: u32
    }
    /// See [`Policer`](crate::Policer): one rate, or a committed and a peak rate with a bucket each.
    Policer "policer" {
        rate_bps: f64, burst_bytes: f64;
        peak_rate_bps: Option<f64>, peak_burst_bytes: Option<f64>, initial_bytes: Option<f64>,
        overhead_bytes: u32
    }
    /// See [`LinuxPolice`](crate::LinuxPolice).
    LinuxPolice "linux-police" {
        rate_bps: f64, burst_bytes: f64;
        peak_rate_bps: Option<f64>, mtu_bytes: Option<u32>, overhead_bytes: u32
    }
    /// See [`SingleRateThreeColour`](crate::SingleRateThreeColour); drops what is worse than `passing`.
    SingleRateThreeColour "single-rate-three-colour" {
        rate_bps: f64, burst_bytes: f64, excess_burst_bytes: f64;
        passing: Colour, overhead_bytes: u32
    }
    /// See [`TwoRateThreeColour`](crate::TwoRateThreeColour); drops what is worse than `passing`.
    TwoRateThreeColour "two-rate-three-colour" {
        rate_bps: f64, burst_bytes: f64, peak_rate_bps: f64, peak_burst_bytes: f64;
        passing: Colour, overhead_bytes: u32
    }
    /// See [`Shaper`](crate::Shaper).
    Shaper "shaper" {
        rate_bps: f64, burst_bytes: f64;
        peak_rate_bps: Option<f64>, peak_burst_bytes: Option<f64>, initial_bytes: Option<f64>,
        limit_packets: Option<f64>, limit_bytes: Option<f64>, overhead_bytes: u32
    }
    /// See [`TickShaper`](crate::TickShaper).
    TickShaper "tick-shaper" {
        rate_bps: f64, burst_bytes: f64, tick_ns: u64;
        limit_packets: Option<f64>, limit_bytes: Option<f64>, overhead_bytes: u32
    }
    /// See [`Red`](crate::Red).
    Red "red" {
        rate_bps: f64, min_packets: f64, max_packets: f64, max_probability: f64;
        limit_packets: Option<f64>, limit_bytes: Option<f64>, weight: Option<f64>, gentle: bool,
        marks: bool, overhead_bytes: u32, seed: Option<u64>
    }
    /// See [`Pie`](crate::Pie).
    Pie "pie" {
        rate_bps: f64;
        limit_packets: Option<f64>, limit_bytes: Option<f64>, target_ns: Option<u64>,
        period_ns: Option<u64>, marks: bool, linux: bool, overhead_bytes: u32, seed: Option<u64>
    }
    /// See [`CoDel`](crate::CoDel).
    CoDel "codel" {
        rate_bps: f64;
        limit_packets: Option<f64>, limit_bytes: Option<f64>, target_ns: Option<u64>,
        interval_ns: Option<u64>, marks: bool, linux: bool, overhead_bytes: u32
    }
    /// See [`FqCoDel`](crate::FqCoDel).
    FqCoDel "fq-codel" {
        rate_bps: f64, limit_packets: f64;
        target_ns: Option<u64>, interval_ns: Option<u64>, marks: bool, linux: bool,
        overhead_bytes: u32, seed: Option<u64>
    }
    /// See [`FqPie`](crate::FqPie).
    FqPie "fq-pie" {
        rate_bps: f64, limit_packets: f64;
        target_ns: Option<u64>, period_ns: Option<u64>, marks: bool, linux: bool,
        overhead_bytes: u32, seed: Option<u64>
    }
    /// See [`Cake`](crate::Cake).
    Cake "cake" {
        rate_bps: f64, limit_bytes: f64;
        target_ns: Option<u64>, interval_ns: Option<u64>, overhead_bytes: u32, seed: Option<u64>
    }
    /// See [`DualPi2`](crate::DualPi2).
    DualPi2 "dual-pi2" {
        rate_bps: f64, limit_packets: f64;
        target_ns: Option<u64>, overhead_bytes: u32, seed: Option<u64>
    }
    /// Each packet is lost with this probability: [`RandomLoss::independent`](crate::RandomLoss::independent).
    RandomLoss "random-loss" { probability: f64; seed: Option<u64> }
    /// Runs of lost packets: [`RandomLoss::bursts`](crate::RandomLoss::bursts).
    BurstyLoss "bursty-loss" { share: f64, mean_burst_packets: f64; seed: Option<u64> }
    /// See [`RandomLoss::gilbert_elliott`](crate::RandomLoss::gilbert_elliott).
    GilbertElliott "gilbert-elliott" {
        good_to_bad: f64, bad_to_good: f64, loss_in_good: f64, loss_in_bad: f64;
        seed: Option<u64>
    }
    /// Random times in which nothing passes: [`RandomLoss::outages`](crate::RandomLoss::outages).
    Fading "fading" { share: f64, mean_ns: u64; seed: Option<u64> }
    /// See [`Delay`](crate::Delay).
    Delay "delay" { time_ns: u64; }
    /// See [`Jitter`](crate::Jitter): uniform between two bounds.
    Jitter "jitter" { low_ns: u64, high_ns: u64; reorders: bool, seed: Option<u64> }
    /// See [`Detour`](crate::Detour).
    Detour "detour" { probability: f64, extra_ns: u64; seed: Option<u64> }
    /// See [`Batches`](crate::Batches).
    Batches "batches" { turn_ns: u64, most_packets: f64; }
    /// Nothing passes from one time to another: see [`Outage`](crate::Outage).
    Outage "outage" { from_ns: u64, until_ns: u64; }
}

impl ElementSpec {
    pub fn policer(rate_bps: f64, burst_bytes: f64) -> Self {
        Self::Policer {
            rate_bps,
            burst_bytes,
            peak_rate_bps: None,
            peak_burst_bytes: None,
            initial_bytes: None,
            overhead_bytes: 0,
        }
    }

    pub fn shaper(rate_bps: f64, burst_bytes: f64) -> Self {
        Self::Shaper {
            rate_bps,
            burst_bytes,
            peak_rate_bps: None,
            peak_burst_bytes: None,
            initial_bytes: None,
            limit_packets: None,
            limit_bytes: None,
            overhead_bytes: 0,
        }
    }

    /// A second bucket, for a policer or a shaper: its rate and burst.
    pub fn with_peak(mut self, peak: Option<(f64, f64)>) -> Self {
        if let Self::Policer {
            peak_rate_bps,
            peak_burst_bytes,
            ..
        }
        | Self::Shaper {
            peak_rate_bps,
            peak_burst_bytes,
            ..
        } = &mut self
        {
            (*peak_rate_bps, *peak_burst_bytes) = peak.unzip();
        }
        self
    }

    /// The same element counting these bytes for each packet on top of the IP packet, if it counts bytes.
    pub fn with_overhead(mut self, bytes: u32) -> Self {
        if let Some(overhead_bytes) = self.overhead_mut() {
            *overhead_bytes = bytes;
        }
        self
    }

    fn overhead_mut(&mut self) -> Option<&mut u32> {
        match self {
            Self::Line { overhead_bytes, .. }
            | Self::Fifo { overhead_bytes, .. }
            | Self::Policer { overhead_bytes, .. }
            | Self::LinuxPolice { overhead_bytes, .. }
            | Self::SingleRateThreeColour { overhead_bytes, .. }
            | Self::TwoRateThreeColour { overhead_bytes, .. }
            | Self::Shaper { overhead_bytes, .. }
            | Self::TickShaper { overhead_bytes, .. }
            | Self::Red { overhead_bytes, .. }
            | Self::Pie { overhead_bytes, .. }
            | Self::CoDel { overhead_bytes, .. }
            | Self::FqCoDel { overhead_bytes, .. }
            | Self::FqPie { overhead_bytes, .. }
            | Self::Cake { overhead_bytes, .. }
            | Self::DualPi2 { overhead_bytes, .. } => Some(overhead_bytes),
            _ => None,
        }
    }

    /// A rate or a burst of an element that polices, by the name of its field.
    pub fn bucket_mut(&mut self, name: &str) -> Option<&mut f64> {
        match (self, name) {
            (Self::Policer { rate_bps, .. } | Self::LinuxPolice { rate_bps, .. }, "rate_bps") => {
                Some(rate_bps)
            }
            (
                Self::Policer { burst_bytes, .. } | Self::LinuxPolice { burst_bytes, .. },
                "burst_bytes",
            ) => Some(burst_bytes),
            (Self::Policer { peak_rate_bps, .. }, "peak_rate_bps") => peak_rate_bps.as_mut(),
            (
                Self::Policer {
                    peak_burst_bytes, ..
                },
                "peak_burst_bytes",
            ) => peak_burst_bytes.as_mut(),
            _ => None,
        }
    }

    /// Bit/s: the (committed) rate, if the element has one.
    pub fn rate_bps(&self) -> Option<f64> {
        match self {
            Self::Policer { rate_bps, .. }
            | Self::LinuxPolice { rate_bps, .. }
            | Self::SingleRateThreeColour { rate_bps, .. }
            | Self::TwoRateThreeColour { rate_bps, .. }
            | Self::Shaper { rate_bps, .. }
            | Self::TickShaper { rate_bps, .. } => Some(*rate_bps),
            _ => self.line_rate_bps(),
        }
    }

    /// Bit/s: the rate at which the element sends each packet, if it has a line.
    fn line_rate_bps(&self) -> Option<f64> {
        match self {
            Self::Line { rate_bps, .. }
            | Self::Fifo { rate_bps, .. }
            | Self::Red { rate_bps, .. }
            | Self::Pie { rate_bps, .. }
            | Self::CoDel { rate_bps, .. }
            | Self::FqCoDel { rate_bps, .. }
            | Self::FqPie { rate_bps, .. }
            | Self::Cake { rate_bps, .. }
            | Self::DualPi2 { rate_bps, .. } => Some(*rate_bps),
            _ => None,
        }
    }

    /// True if packets wait in it up to a limit that a user may set.
    pub fn has_limit(&self) -> bool {
        Self::fields(self.name())
            .is_some_and(|fields| fields.iter().any(|field| text::key(field.name) == "limit"))
    }

    /// True if the packets that it drops, or delays, depend on a seed.
    pub fn is_random(&self) -> bool {
        Self::fields(self.name())
            .is_some_and(|fields| fields.iter().any(|field| field.name == "seed"))
    }
}

impl PathSpec {
    /// The same elements counting these bytes for each packet on top of the IP packet.
    pub fn with_overhead(mut self, bytes: u32) -> Self {
        let elements = self.elements.drain(..);
        self.elements = elements
            .map(|element| element.with_overhead(bytes))
            .collect();
        self
    }

    /// Bytes that the first element that counts them counts on top of each IP packet.
    pub fn overhead_bytes(&self) -> u32 {
        let mut elements = self.elements.clone();
        let mut counted = elements.iter_mut().filter_map(ElementSpec::overhead_mut);
        counted.next().map_or(0, |bytes| *bytes)
    }

    /// A rate or a burst of the first element that polices, by the name of its field.
    pub fn bucket_mut(&mut self, name: &str) -> Option<&mut f64> {
        let mut elements = self.elements.iter_mut();
        elements.find_map(|element| element.bucket_mut(name))
    }

    /// Time for each byte of a packet that finds every element idle, in seconds.
    pub fn idle_s_per_byte(&self) -> f64 {
        let rates = self.elements.iter().filter_map(ElementSpec::line_rate_bps);
        rates.map(|rate_bps| 8.0 / rate_bps).sum()
    }

    /// Time in every packet's transit that does not depend on its size or on other packets, in seconds.
    pub fn constant_s(&self) -> f64 {
        let constant_ns = |element: &ElementSpec| match element {
            ElementSpec::Delay { time_ns } => *time_ns,
            ElementSpec::Jitter { low_ns, .. } => *low_ns,
            _ => 0,
        };
        self.elements.iter().map(constant_ns).sum::<u64>() as f64 * 1e-9
    }
}
