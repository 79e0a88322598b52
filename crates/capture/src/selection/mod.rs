//! Which packets of a capture are read: a span of time, and a display filter.

mod filter;
mod parse;
#[cfg(test)]
mod tests;

use crate::packet::{Network, Transport};
pub use filter::Filter;
pub use parse::FilterError;

/// The packets to read. Packets that it leaves out are not counted and not analysed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    pub filter: Option<Filter>,
    /// The first time that is read, and the last.
    pub from: Option<Moment>,
    pub to: Option<Moment>,
}

/// A time in a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Nanoseconds since the first packet of the capture.
    SinceStart(i64),
    /// Nanoseconds since the Unix epoch.
    At(i64),
}

impl Moment {
    fn time_ns(self, start_ns: i64) -> i64 {
        match self {
            Self::SinceStart(after_ns) => start_ns.saturating_add(after_ns),
            Self::At(time_ns) => time_ns,
        }
    }
}

impl Selection {
    /// True if a packet of that time is read; `start_ns` is the time of the capture's first packet.
    pub(crate) fn holds(
        &self,
        start_ns: i64,
        time_ns: i64,
        network: Option<&Network>,
        transport: &Transport<'_>,
    ) -> bool {
        let begun = self
            .from
            .is_none_or(|from| time_ns >= from.time_ns(start_ns));
        let over = self.to.is_some_and(|to| time_ns > to.time_ns(start_ns));
        begun
            && !over
            && self.filter.as_ref().is_none_or(|filter| {
                network.is_some_and(|network| filter.matches(network, transport))
            })
    }
}
