//! Observations of each hop between two captures, for development.
//!
//!     cargo run --release -p whydrop-explain --example hops -- CAPTURE CAPTURE2

use std::path::PathBuf;

use whydrop_explain::cause::weigh;
use whydrop_explain::{Options, measure_pair};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    for (name, seen) in measure_pair(&paths, Options::default())? {
        let Some(exact) = &seen.exact else {
            continue;
        };
        println!(
            "{name}: {} lost of {}",
            exact.passages.lost,
            exact.passages.len()
        );
        println!("  departures  {:?}", exact.departures);
        println!("  queue       {:?}", exact.backlog);
        println!("  overtaking  {:?}", exact.overtaking);
        println!("  bucket      {:?}", exact.bucket);
        println!("  two buckets {:?}", exact.two_buckets);
        println!("  behind      {:?}", exact.behind_queue);
        println!("  at loss     {:?}", seen.at_loss);
        println!("  pattern     {:?}", seen.pattern);
        println!("  occupancy   {:?}", seen.occupancy);
        println!("  drain       {:?}", seen.drain);
        println!("  line        {:?}", seen.line_rate_bps);
        println!("  loss runs   {}", seen.group_trace.trace.loss_runs());
        if exact.passages.lost > 0 {
            println!("  outcome     {:?}", weigh(&seen));
        }
    }
    Ok(())
}
