//! Prints the measurements of each group of flows of a capture, before any cause is named.
//!
//!     cargo run --release -p whydrop-explain --example measures -- CAPTURE...

use whydrop_capture::{Capture, OpenOptions};
use whydrop_explain::cause::weigh;
use whydrop_explain::limited::judge_lossless;
use whydrop_explain::observe::group::{FlowRef, by_destination};
use whydrop_explain::vantage::observe_group;
use whydrop_tcp::{Tracker, TrackerOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args_os().skip(1) {
        let started = std::time::Instant::now();
        let mut capture =
            Capture::open(&[std::path::PathBuf::from(&path)], OpenOptions::default())?;
        let mut tracker = Tracker::new(TrackerOptions::default());
        while let Some(packet) = capture.next_packet() {
            tracker.push(&packet);
        }
        let tracked = tracker.finish();
        let read = started.elapsed();
        let flows: Vec<FlowRef> = tracked
            .connections
            .iter()
            .flat_map(|connection| &connection.flows)
            .filter(|flow| flow.carried_data())
            .enumerate()
            .map(|(index, flow)| FlowRef { index, flow })
            .collect();
        for group in by_destination(&flows) {
            if group
                .flows
                .iter()
                .map(|f| f.flow.segments.len())
                .sum::<usize>()
                < 200
            {
                continue;
            }
            let started = std::time::Instant::now();
            let e = observe_group(&group);
            let took = started.elapsed();
            println!(
                "{} flows {} packets {} lost {} base {:.1} ms vantage {} | read {:.0} ms fit {:.0} ms line {:?}",
                path.to_string_lossy(),
                group.flows.len(),
                e.group_trace.trace.len(),
                e.totals.lost,
                e.base_rtt_s.unwrap_or(0.0) * 1e3,
                group.flows[0].flow.vantage.name(),
                read.as_secs_f64() * 1e3,
                took.as_secs_f64() * 1e3,
                e.line_rate_bps.map(|r| (r / 1e6).round())
            );
            if let Some(b) = &e.bucket {
                println!(
                    "  bucket rate {:.4} [{:.4} {:.4}] Mbit/s limit {:.0} [{:.0} {:.0}] certainty {:.3} gain {:.0} corr/lost {:.3} L {:?} P {:?} replay {:?}",
                    b.rate_bps.value / 1e6,
                    b.rate_bps.low.unwrap_or(0.0) / 1e6,
                    b.rate_bps.high.unwrap_or(f64::INFINITY) / 1e6,
                    b.limit_bytes.value,
                    b.limit_bytes.low.unwrap_or(0.0),
                    b.limit_bytes.high.unwrap_or(f64::INFINITY),
                    b.certainty(),
                    b.gain(),
                    b.agreement.corrected_bytes() / b.packet_bytes / e.totals.lost as f64,
                    b.agreement.lost,
                    b.agreement.passed,
                    e.replay
                );
            }
            println!("  {:?}", e.pattern);
            if let Some(o) = &e.occupancy {
                println!(
                    "  occupancy empty {:.2} ms near limit {:.2} ms expected {:.2} ms ratio {:.3} {:.3?} n {} {}",
                    o.empty_s * 1e3,
                    o.near_limit_s * 1e3,
                    o.expected_s * 1e3,
                    o.ratio(),
                    o.ratio_bounds(),
                    o.samples_empty,
                    o.samples_near_limit
                );
            }
            if let Some(a) = &e.at_loss {
                println!(
                    "  at loss rank {:.2} chance {:.1} low {:.2} median {:.2} high {:.2} largest {:.2} typical {:.2} ms above {:.3}",
                    a.mean_rank,
                    a.log_chance,
                    a.low_s * 1e3,
                    a.median_s * 1e3,
                    a.high_s * 1e3,
                    a.largest_s * 1e3,
                    a.typical_s * 1e3,
                    a.share_above
                );
            }
            if let Some(d) = &e.drain {
                println!(
                    "  drain {:.3} [{:.3} {:.3}] Mbit/s burst {:.0} explained {:.3} residual {:.2} ms largest {:.1} ms",
                    d.rate_bps / 1e6,
                    d.low_bps / 1e6,
                    d.high_bps / 1e6,
                    d.burst_bytes,
                    d.explained,
                    d.residual_s * 1e3,
                    d.largest_s * 1e3
                );
            }
            let judged = if e.totals.lost > 0 {
                weigh(&e)
            } else {
                judge_lossless(&e)
            };
            println!(
                "  => {} {:.2} {:?}",
                judged.cause, judged.confidence, judged.against
            );
            println!("  {:?}", e.totals);
        }
    }
    Ok(())
}
