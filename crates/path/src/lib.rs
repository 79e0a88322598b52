//! Models of a hop: one small deterministic state machine for each kind of path element.
//!
//! A [`PathElement`] takes packets, each a time and a size, and returns their outcomes. It does not depend on
//! TCP, never looks ahead, and gives the same answer to the same arrivals every time, so one model serves to
//! *replay* the effect of a hop on captured packets, to *fit* its parameters, and to run live.
//!
//! ```
//! use whydrop_path::{Arrival, Outcome, Policer, replay};
//!
//! // 1 Mbit/s with room for two packets of 1500 bytes: of three in a row, the third finds the bucket empty.
//! let mut policer = Policer::new(1_000_000, 3_000);
//! let arrivals = [0, 1_000, 2_000].map(|time_ns| Arrival { time_ns, bytes: 1_500 });
//! let outcomes = replay(&mut policer, &arrivals);
//! assert_eq!(outcomes, [
//!     Outcome::Departs { time_ns: 0 },
//!     Outcome::Departs { time_ns: 1_000 },
//!     Outcome::Dropped,
//! ]);
//! ```
//!
//! | element | delays | drops | source |
//! |---|---|---|---|
//! | [`Fifo`] | at its drain rate | packets that find it full | |
//! | [`Policer`] | nothing | packets beyond rate and burst | RFC 2697 without excess burst |
//! | [`SingleRateThreeColour`], [`TwoRateThreeColour`] | nothing | red, or yellow and red | RFC 2697, RFC 2698 |
//! | [`LinuxPolice`] | nothing | packets beyond rate, peak rate or size | Linux `act_police` |
//! | [`Shaper`] | packets beyond rate and burst | packets that find its queue full | Linux `tbf` |
//! | [`RandomLoss`] | nothing | by chance, alone or in bursts | Gilbert 1960, Elliott 1963 |
//! | [`Delay`], [`Jitter`], [`Detour`] | for a constant or random time | nothing | |
//! | [`Red`], [`Pie`], [`CoDel`] | at their drain rate | early, to keep the queue short | Floyd 1993, RFC 8033, RFC 8289 |
//! | [`FqCoDel`], [`FqPie`], [`Cake`] | at their drain rate, with a queue per flow | early, from the flow that fills the queue | RFC 8290, Linux `fq_pie`, `sch_cake` |
//! | [`DualPi2`] | at their drain rate, ECT(1) ahead | early, or marks | RFC 9332 |
//! | [`TickShaper`], [`Batches`] | until a tick, or the link's turn | packets that find the queue full | |
//! | [`Outage`] | nothing | everything, for a time | |
//! | [`Trace`] | until a recorded delivery opportunity | nothing | Netravali et al., mahimahi, 2015 |
//! | [`Chain`] | and drops as its elements do, one after the other | | |
//!
//! A path as data, which makes these elements, is a [`PathSpec`].
//!
//! Elements that separate flows or mark read a [`Header`]: [`PathElement::arrive_with`].
//!
//! Sizes are bytes on the IP layer. An element that counts more (a policer on an Ethernet switch) takes the
//! difference as `overhead_bytes` for each packet: see [`overhead`].

mod aqm;
mod chain;
mod colour;
mod delay;
mod element;
mod fifo;
pub mod fit;
mod linux_police;
mod loss;
mod outage;
mod policer;
mod queue;
mod random;
mod shaper;
mod spec;
mod ticks;
mod tokens;
mod trace;
mod transmitter;

pub use aqm::{Cake, CoDel, DualPi2, FqCoDel, FqPie, Pie, Red};
pub use chain::Chain;
pub use colour::{Colour, SingleRateThreeColour, TwoRateThreeColour};
pub use delay::{Delay, Detour, Jitter};
pub use element::{
    Arrival, Decision, Ecn, Header, Outcome, PathElement, overhead, replay, replay_with, settle,
};
pub use fifo::{Fifo, InService};
pub use linux_police::LinuxPolice;
pub use loss::RandomLoss;
pub use outage::Outage;
pub use policer::Policer;
pub use queue::{Backlog, Limit};
pub use random::Random;
pub use shaper::Shaper;
pub use spec::{ElementSpec, PathSpec, SpecError, TraceError, read_trace};
pub use ticks::{Batches, TickShaper};
pub use tokens::TokenBucket;
pub use trace::Trace;
