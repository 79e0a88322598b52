//! Probes that the responder answers, at the client's end.

use std::io;
use std::time::Duration;

use socket2::Socket;

use crate::clock;
use crate::flow::FlowSpec;
use crate::sample::{Ending, Sink};
use crate::stop::Stop;

use super::exchanges::Thinning;
use super::facts;
use super::isochronous::{Book, DEFAULT_TIMEOUT_S, MOST_OVERDUE_NS, Probing};
use super::ledger::{Answered, FarStamps, Ledger};
use super::link::{FarSide, Link, SYNCHRONISATION_FLOW};
use super::marks::Marks;
use super::packet::{Body, HEADER_BYTES, Keys, Packet};
use super::schedule::Schedule;
use super::socket::{self, Datagram, Envelope, Outbox};
use super::turns::Emitter;
use super::words::{ended, explained};

const READ_TIMEOUT: Duration = Duration::from_millis(20);

/// Runs one flow of probes.
pub(crate) fn run(
    spec: &FlowSpec,
    link: &Link,
    start_ns: i64,
    stop: &Stop,
    sink: &Sink,
    far: &dyn FarSide,
) -> Ending {
    ended(probe(spec, link, start_ns, stop, sink, far), stop)
}

fn probe(
    spec: &FlowSpec,
    link: &Link,
    start_ns: i64,
    stop: &Stop,
    sink: &Sink,
    far: &dyn FarSide,
) -> Result<(), String> {
    let schedule = Schedule::of(spec)?;
    let peer = link.remote.to_string();
    let say = |error: io::Error| explained(&error, &peer);
    let socket = link.open(spec, READ_TIMEOUT).map_err(say)?;
    let timeout_ns = clock::ns(spec.timeout_s.unwrap_or(DEFAULT_TIMEOUT_S)).max(0);
    let ledger = Ledger::new(spec.flow, schedule.packet_bytes as u32, timeout_ns, true);
    // For a short train that compares the clocks, every exchange is kept and no probe is too late.
    let is_for_clocks = spec.flow == SYNCHRONISATION_FLOW;
    let (thinning, most_overdue_ns) = match is_for_clocks {
        true => (Thinning::none(), i64::MAX),
        false => (Thinning::by_windows(), MOST_OVERDUE_NS),
    };
    let mut book = Book::new(spec.flow, ledger, thinning);
    let keys = link.keys();
    let mut sender = Sender {
        flow: spec.flow,
        keys: &keys,
        socket: &socket,
        outbox: Outbox::new(1, schedule.packet_bytes),
    };
    let mut marks = BothMarks::default();
    let probing = Probing {
        flow: spec.flow,
        schedule: &schedule,
        start_ns: start_ns.saturating_add(clock::ns(spec.start_s)),
        socket: &socket,
        most_overdue_ns,
        answer_bytes: HEADER_BYTES,
        stop,
        sink,
    };
    let result = probing.run(&mut book, &mut sender, &mut |datagram, book| {
        let packet = Packet::open(datagram.bytes, datagram.length, &keys).ok();
        if let Some(packet) = packet.filter(|packet| packet.flow == spec.flow) {
            enter(&packet, datagram, book, &mut marks);
        }
    });
    book.close(|| far.arrivals(spec.flow), sink);
    book.record_facts(&peer, sink);
    marks.record_facts(spec.flow, sink);
    result.map_err(say)?;
    book.verdict(
        &peer,
        "no probe was answered: does a firewall let this UDP port through, in both directions?",
    )
}

fn enter(packet: &Packet, datagram: &Datagram, book: &mut Book, marks: &mut BothMarks) {
    let Body::Answer(answer) = packet.body else {
        return;
    };
    marks.up.add(Some(answer.traffic_class));
    marks.down.add(datagram.traffic_class);
    let answered = Answered {
        sequence: packet.sequence,
        received_ns: datagram.received_ns,
        far: Some(FarStamps {
            received_ns: answer.far_received_ns,
            turnaround_ns: answer.turnaround_ns.into(),
            arrived: answer.arrived,
            window: answer.window,
        }),
    };
    book.answered(answered, packet.sent_ns);
}

struct Sender<'a> {
    flow: u32,
    keys: &'a Keys,
    socket: &'a Socket,
    outbox: Outbox,
}

impl Emitter for Sender<'_> {
    fn prepare(&mut self, sequence: u64, sent_ns: i64) {
        let packet = Packet {
            flow: self.flow,
            sequence,
            sent_ns,
            body: Body::Probe,
        };
        packet.write(self.outbox.datagram(0), self.keys);
    }

    fn emit(&mut self) -> io::Result<()> {
        socket::send(self.socket, &Envelope::connected(), self.outbox.datagram(0))
    }
}

#[derive(Default)]
struct BothMarks {
    up: Marks,
    down: Marks,
}

impl BothMarks {
    fn record_facts(&self, flow: u32, sink: &Sink) {
        let facts = [
            ("dscp_received_up", self.up.dscp()),
            ("ecn_received_up", self.up.ecn()),
            ("dscp_received_down", self.down.dscp()),
            ("ecn_received_down", self.down.ecn()),
        ];
        let facts = facts
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        facts::record(flow, facts, sink);
    }
}
