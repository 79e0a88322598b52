//! How long a prediction takes: one connection of CUBIC over a queue of 20 Mbit/s, for this many simulated seconds.
//!
//! ```text
//! cargo run --release -p whydrop-predict --example long_run -- 10000
//! ```

use std::time::Instant;

use whydrop_path::PathSpec;
use whydrop_predict::{Setting, run};

fn main() {
    let seconds: i64 = std::env::args()
        .nth(1)
        .map_or(Ok(10_000), |text| text.parse())
        .expect("simulated seconds, as a whole number");
    let path: PathSpec = "fifo:rate=20M,limit=64packets".parse().expect("a path");
    let setting = Setting {
        duration_ns: seconds * 1_000_000_000,
        ..Setting::one_flow(path, 40_000_000)
    };
    let begin = Instant::now();
    let outcome = &run(&setting, &[1]).expect("a path that makes sense")[0];
    let took_s = begin.elapsed().as_secs_f64();
    println!(
        "{seconds} simulated seconds at {:.1} Mbit/s of goodput, {:.2} % lost: {took_s:.1} s, {:.0} times real time",
        outcome.goodput_bps / 1e6,
        100.0 * outcome.loss_rate,
        seconds as f64 / took_s
    );
}
