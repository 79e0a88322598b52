//! Sends a UDP stream in each direction through a responder in this process, and prints the rate and the losses.
//!
//!     cargo run --release -p whydrop-traffic --example stream -- [MBIT_PER_SECOND] [PACKET_BYTES] [SECONDS]

use std::sync::Arc;

use whydrop_traffic::activity::Activity;
use whydrop_traffic::clock;
use whydrop_traffic::flow::{Direction, FlowSpec, Kind};
use whydrop_traffic::local_end::LocalEnd;
use whydrop_traffic::sample::{Interval, Sink};
use whydrop_traffic::stop::Stop;
use whydrop_traffic::udp::{self, FarSide, Link, Registration, Service, SessionLimits};

struct NoFarSide;

impl FarSide for NoFarSide {
    fn arrivals(&self, _: u32) -> Option<Vec<(u64, u64)>> {
        None
    }
}

fn main() {
    let numbers: Vec<f64> = std::env::args()
        .skip(1)
        .map(|word| word.parse().expect("a number"))
        .collect();
    let number = |place: usize, default| numbers.get(place).copied().unwrap_or(default);
    for direction in [Direction::Up, Direction::Down] {
        let spec = FlowSpec {
            rate_bps: Some(number(0, 500.0) * 1e6),
            packet_payload_bytes: Some(number(1, 1400.0) as u32),
            duration_s: Some(number(2, 5.0)),
            ..FlowSpec::new(1, Kind::Udp, direction)
        };
        stream(&spec);
    }
}

fn stream(spec: &FlowSpec) {
    let service = Service::bind(&["127.0.0.1:0".parse().expect("an address")]).expect("a port");
    let far_sink = Arc::new(Sink::default());
    let (token, key) = (1, [0; 32]);
    service.register(Registration {
        token,
        key,
        flows: vec![spec.clone()],
        limits: SessionLimits {
            max_rate_bps: 1e12,
            max_packet_bytes: 65_507,
            min_interval_ns: 0,
        },
        ends_ns: i64::MAX,
        overrun: Stop::default(),
        activity: Activity::default(),
        sink: Arc::clone(&far_sink),
    });
    let link = Link {
        remote: service.local_addresses()[0],
        source: LocalEnd::default(),
        token,
        key,
    };
    let (stop, sink) = (Stop::default(), Sink::default());
    let ending = udp::run(
        spec,
        &link,
        clock::now_ns() + 100_000_000,
        &stop,
        &sink,
        &NoFarSide,
    );
    service.remove(token);
    let (here, there) = (sink.take(), far_sink.take());
    println!("{:?}: {ending:?}", spec.direction);
    for (flow, key, value) in here.facts.iter().chain(&there.facts) {
        println!("  flow {flow}: {key} {value}");
    }
    let intervals: Vec<&Interval> = here.intervals.iter().chain(&there.intervals).collect();
    let bytes: u64 = intervals
        .iter()
        .map(|interval| interval.payload_bytes)
        .sum();
    let span_ns = match intervals[..] {
        [first, .., last] => last.end_ns - first.start_ns,
        _ => 0,
    };
    let lost: i64 = intervals
        .iter()
        .filter_map(|interval| Some(interval.datagrams?.lost))
        .sum();
    println!(
        "  {:.1} Mbit/s over {:.3} s in {} intervals, {lost} packets lost",
        bytes as f64 * 8e3 / span_ns as f64,
        span_ns as f64 / 1e9,
        intervals.len()
    );
    println!("  {:?}", service.statistics());
}
