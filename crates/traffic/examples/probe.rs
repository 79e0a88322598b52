//! Measures how precisely probes are sent: prints the sender's timer error and the round-trip times.
//!
//!     cargo run --release -p whydrop-traffic --example probe -- [INTERVAL_MS] [SECONDS] [FLOWS]
//!     cargo run --release -p whydrop-traffic --example probe -- serve ADDRESS:PORT
//!     cargo run --release -p whydrop-traffic --example probe -- to ADDRESS:PORT [INTERVAL_MS] [SECONDS] [FLOWS]
//!
//! The first form runs the responder in its own process. The other two use a public key, and are for the lab only.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use whydrop_traffic::activity::Activity;
use whydrop_traffic::clock;
use whydrop_traffic::flow::{Direction, FlowSpec, Kind};
use whydrop_traffic::local_end::LocalEnd;
use whydrop_traffic::sample::{Fate, Probe, Sink};
use whydrop_traffic::stop::Stop;
use whydrop_traffic::udp::{self, FarSide, Link, Registration, Service, SessionLimits};

const TOKEN: u64 = 1;
const KEY: [u8; 32] = [0; 32];
const MOST_FLOWS: u32 = 64;

struct NoFarSide;

impl FarSide for NoFarSide {
    fn arrivals(&self, _: u32) -> Option<Vec<(u64, u64)>> {
        None
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", address] => {
            let _service = serve(address.parse().expect("ADDRESS:PORT"));
            std::thread::sleep(Duration::from_secs(3600));
        }
        ["to", address, ref rest @ ..] => probe(address.parse().expect("ADDRESS:PORT"), rest),
        ref rest => {
            let service = serve("127.0.0.1:0".parse().expect("an address"));
            probe(service.local_addresses()[0], rest);
            println!("{:?}", service.statistics());
        }
    }
}

fn serve(address: SocketAddr) -> Service {
    let service = Service::bind(&[address]).expect("the address can be bound");
    service.register(Registration {
        token: TOKEN,
        key: KEY,
        flows: (0..MOST_FLOWS)
            .map(|flow| FlowSpec::new(flow, Kind::Probe, Direction::Both))
            .collect(),
        limits: SessionLimits {
            max_rate_bps: 0.0,
            max_packet_bytes: 9000,
            min_interval_ns: 0,
        },
        ends_ns: i64::MAX,
        overrun: Stop::default(),
        activity: Activity::default(),
        sink: Arc::default(),
    });
    service
}

fn probe(remote: SocketAddr, numbers: &[&str]) {
    let number = |place: usize, default: f64| {
        numbers
            .get(place)
            .map_or(default, |word| word.parse().expect("a number"))
    };
    let (interval_ms, seconds, flows) = (number(0, 5.0), number(1, 10.0), number(2, 1.0) as u32);
    let link = Link {
        remote,
        source: LocalEnd::default(),
        token: TOKEN,
        key: KEY,
    };
    let (stop, sink) = (Stop::default(), Sink::default());
    let start_ns = clock::now_ns() + 100_000_000;
    std::thread::scope(|scope| {
        for flow in 0..flows.min(MOST_FLOWS) {
            let spec = FlowSpec {
                interval_s: interval_ms / 1e3,
                duration_s: Some(seconds),
                ..FlowSpec::new(flow, Kind::Probe, Direction::Both)
            };
            let (link, stop, sink) = (&link, &stop, &sink);
            scope.spawn(move || {
                println!(
                    "flow {flow}: {:?}",
                    udp::run(&spec, link, start_ns, stop, sink, &NoFarSide)
                )
            });
        }
    });
    let samples = sink.take();
    for (flow, key, value) in &samples.facts {
        println!("flow {flow}: {key} {value}");
    }
    report(&samples.probes, clock::ns(interval_ms / 1e3));
}

fn report(probes: &[Probe], interval_ns: i64) {
    let errors: Vec<i64> = probes
        .iter()
        .filter_map(|probe| Some(probe.sent_ns? - probe.scheduled_ns))
        .collect();
    let missed = errors
        .iter()
        .filter(|error_ns| **error_ns > interval_ns)
        .count();
    let answered = probes.iter().filter(|probe| probe.fate == Fate::Ok).count();
    println!(
        "{} probes, {answered} answered in time, {missed} sent an interval late",
        probes.len()
    );
    let mut fates: BTreeMap<String, usize> = BTreeMap::new();
    for probe in probes {
        *fates.entry(format!("{:?}", probe.fate)).or_default() += 1;
    }
    println!("{fates:?}");
    percentiles("timer error", errors);
    percentiles(
        "round trip",
        probes.iter().filter_map(|probe| probe.rtt_ns).collect(),
    );
    // One-way times compare the clocks of both ends, so they are valid within one host only.
    let spans = |span: fn(&Probe) -> Option<i64>| probes.iter().filter_map(span).collect();
    percentiles(
        "one-way up",
        spans(|probe| Some(probe.far_received_ns? - probe.sent_ns?)),
    );
    percentiles(
        "responder",
        spans(|probe| Some(probe.far_sent_ns? - probe.far_received_ns?)),
    );
    percentiles(
        "one-way down",
        spans(|probe| Some(probe.received_ns? - probe.far_sent_ns?)),
    );
}

fn percentiles(name: &str, mut values_ns: Vec<i64>) {
    values_ns.sort_unstable();
    let at = |share: f64| {
        let place =
            ((values_ns.len() as f64 * share) as usize).min(values_ns.len().saturating_sub(1));
        values_ns
            .get(place)
            .map_or(f64::NAN, |&value| value as f64 / 1e3)
    };
    println!(
        "{name} (us): median {:.1}, p90 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}
