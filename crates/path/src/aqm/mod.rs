//! Active queue management: queues that drop early so that they stay short.

mod cake;
mod codel;
mod dual_pi2;
mod fair;
mod fq_codel;
mod fq_pie;
mod pie;
mod red;
mod served;
mod sojourn;
#[cfg(test)]
mod tests;

pub use cake::Cake;
pub use codel::CoDel;
pub use dual_pi2::DualPi2;
pub use fq_codel::FqCoDel;
pub use fq_pie::FqPie;
pub(crate) use pie::Control as PieControl;
pub use pie::Pie;
pub(crate) use pie::Rules as PieRules;
pub use red::Red;
