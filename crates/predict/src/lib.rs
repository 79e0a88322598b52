//! Predictions: TCP connections like those recorded, over the path that was fitted, in virtual time.
//!
//! A [`Setting`] has the path, and the senders as far as a capture or recording shows them. [`run`] simulates it with
//! each of several seeds and returns what would have been measured: an [`Outcome`] for each. [`change`] applies one
//! change, such as `policer.burst=200kB` or `cc=bbr`, to a setting.
//!
//! ```
//! use whydrop_predict::{Setting, change, run};
//!
//! let mut setting = Setting::one_flow("policer:rate=20M,burst=50kB".parse().unwrap(), 40_000_000);
//! let before = run(&setting, &[1]).unwrap();
//! change(&mut setting, "policer.burst=200kB").unwrap();
//! let after = run(&setting, &[1]).unwrap();
//! assert!(after[0].goodput_bps > before[0].goodput_bps);
//! ```

#![forbid(unsafe_code)]

mod change;
mod course;
mod measure;
mod pace;
mod run;
mod setting;

pub use change::{ChangeError, change};
pub use course::{Acknowledgments, Course, Packets, course};
pub use measure::{Carried, FlowOutcome, Outcome, together_bps};
pub use run::{run, run_watched};
pub use setting::{Control, Flow, Load, Setting};
