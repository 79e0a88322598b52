//! Measurements of each hop between two captures, for development.
//!
//!     cargo run --release -p whydrop-explain --example hops -- CAPTURE CAPTURE2

use std::path::PathBuf;

use whydrop_explain::hop::judge_hop;
use whydrop_explain::{Options, measure_pair};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    for (name, hop) in measure_pair(&paths, Options::default())? {
        println!(
            "{name}: {} lost of {}",
            hop.passages.lost,
            hop.passages.len()
        );
        println!("  departures  {:?}", hop.departures);
        println!("  queue       {:?}", hop.backlog);
        println!("  overtaking  {:?}", hop.overtaking);
        println!("  bucket      {:?}", hop.bucket);
        println!("  two buckets {:?}", hop.two_buckets);
        println!("  behind      {:?}", hop.behind_queue);
        println!("  at loss     {:?}", hop.evidence.at_loss);
        println!("  pattern     {:?}", hop.evidence.pattern);
        println!("  occupancy   {:?}", hop.evidence.occupancy);
        println!("  drain       {:?}", hop.evidence.drain);
        println!("  line        {:?}", hop.evidence.line_rate_bps);
        println!(
            "  loss runs   {}",
            hop.evidence.group_trace.trace.loss_runs()
        );
        if hop.passages.lost > 0 {
            let judged = judge_hop(&hop);
            println!("  judged      {:?} {:?}", judged.judgement, judged.family);
        }
    }
    Ok(())
}
