//! Captures of simulated paths, made in memory and explained.

#![allow(dead_code, reason = "each test file uses some of it")]

use whydrop_capture::{Capture, OpenOptions};
use whydrop_explain::document::{Document, Verdict};
use whydrop_explain::{Explanation, Options, explain};
use whydrop_path::{Delay, Fifo, Limit, PathElement, overhead};
use whydrop_simulate::{
    Application, CaptureConfig, FlowConfig, FlowTruth, History, ReceiverConfig, Scenario,
    SenderConfig, Simulation, Stage, flow_truths, write_capture,
};

pub const MS: i64 = 1_000_000;
/// The index in the stages of [`path`], which are the card, the hop, and the rest of the path.
pub const HOP: usize = 1;

pub type Hop = Box<dyn PathElement + Send>;

/// A download in three chunks of 2 MB.
pub fn flow() -> FlowConfig {
    FlowConfig {
        sender: SenderConfig::default(),
        receiver: ReceiverConfig::default(),
        application: chunks(2_000_000, 3),
        client: [192, 0, 2, 10],
        server: [198, 51, 100, 20],
        client_port: 40_000,
        server_port: 443,
        start_ns: 10 * MS,
        captured: true,
        timestamps: true,
        closes: true,
        extra_rtt_ns: 0,
    }
}

pub fn chunks(bytes: u64, count: u32) -> Application {
    Application::Chunks {
        bytes,
        count,
        pause_ns: 700 * MS,
    }
}

/// One download over a card of 1 Gbit/s, the hop, and some distance, captured at the sender.
pub fn path(hop: Hop, rtt_ms: i64) -> Scenario {
    let card = Fifo::new(1_000_000_000, Limit::NONE).with_overhead(overhead::WIRE);
    let stage = |name, element, reverse_delay_ns| Stage {
        name,
        element,
        reverse_delay_ns,
    };
    Scenario {
        seed: 1,
        flows: vec![flow()],
        stages: vec![
            stage("card", Box::new(card), 0),
            stage("hop", hop, 0),
            stage(
                "distance",
                Box::new(Delay::new(rtt_ms * MS / 2)),
                rtt_ms * MS / 2,
            ),
        ],
        cross_traffic: Vec::new(),
        reverse_jitter_ns: 0,
        acknowledgment_loss: 0.0,
        capture: CaptureConfig::default(),
        end_ns: 600_000 * MS,
    }
}

/// The capture that a sniffer wrote, and the truth.
pub struct Captured {
    pub pcap: Vec<u8>,
    pub truths: Vec<FlowTruth>,
}

pub fn captured(scenario: Scenario) -> Captured {
    let (flows, capture, seed) = (scenario.flows.clone(), scenario.capture, scenario.seed);
    let history = Simulation::new(scenario).run();
    Captured {
        pcap: pcap(&history, &flows, &capture, seed),
        truths: flow_truths(&history, &flows),
    }
}

pub fn pcap(
    history: &History,
    flows: &[FlowConfig],
    capture: &CaptureConfig,
    seed: u64,
) -> Vec<u8> {
    let mut pcap = Vec::new();
    write_capture(&mut pcap, history, flows, capture, seed).expect("memory takes what it is given");
    pcap
}

/// Two captures as one: the packets of the second after those of the first.
pub fn joined(first: &[u8], second: &[u8]) -> Vec<u8> {
    const FILE_HEADER_BYTES: usize = 24;
    [first, &second[FILE_HEADER_BYTES..]].concat()
}

pub fn explain_bytes(pcap: Vec<u8>, keep_tables: bool) -> Explanation {
    let capture = Capture::from_reader(
        "simulated.pcap",
        std::io::Cursor::new(pcap),
        OpenOptions::default(),
    )
    .expect("a capture");
    let options = Options {
        keep_tables,
        ..Options::default()
    };
    explain(capture, options).expect("the callback never stops it")
}

pub fn document_of(pcap: Vec<u8>) -> Document {
    explain_bytes(pcap, false).document
}

/// Simulates, captures and explains; the first verdict is the headline.
pub fn explained(scenario: Scenario) -> (Document, Vec<FlowTruth>) {
    let Captured { pcap, truths } = captured(scenario);
    (document_of(pcap), truths)
}

pub fn headline(document: &Document) -> &Verdict {
    document.verdicts.first().expect("data was sent")
}

/// True if the interval of the named parameter of a verdict contains the true value.
pub fn holds(verdict: &Verdict, name: &str, truth: f64) -> bool {
    let parameter = verdict
        .parameters
        .get(name)
        .unwrap_or_else(|| panic!("{} has no {name}", verdict.cause));
    parameter.low.is_none_or(|low| low <= truth) && parameter.high.is_none_or(|high| truth <= high)
}

/// The verdicts, for the message of a failed assertion.
pub fn text(document: &Document) -> String {
    let verdict = headline(document);
    format!(
        "{} {:?}\n{:#?}\n{:#?}",
        verdict.cause, verdict.parameters, verdict.facts, verdict.against
    )
}
