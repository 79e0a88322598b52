//! Active queue management: queues that drop early so that they stay short.

mod codel;
mod pie;
mod red;

pub use codel::CoDel;
pub use pie::Pie;
pub use red::Red;
