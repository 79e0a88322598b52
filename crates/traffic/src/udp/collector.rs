//! The receiver of one stream or flow of bursts: the same code at both ends.

use crate::flow::{Direction, FlowSpec, Kind};
use crate::sample::{BurstPacket, Interval, Sink};

use super::bursts::BurstTally;
use super::copies::{Admission, Copies};
use super::facts;
use super::marks::{self, Marks};
use super::packet::{Body, Packet, Total};
use super::schedule::Schedule;
use super::socket::Datagram;
use super::tally::{StreamPacket, Tally};

/// This many rows are passed on before the next tick.
const MANY: usize = 4096;
/// While a burst arrives, up to this many rows are kept back: the acknowledgments of reports would share the path with
/// the rest of the burst, and take space in the queue that it shall fill.
const MANY_OF_BURSTS: usize = 32_768;
/// After this silence a burst is over.
const BURST_SILENCE_NS: i64 = 50_000_000;

/// Counts the packets of one flow and passes rows on.
#[derive(Debug)]
pub(crate) struct Collector {
    flow: u32,
    book: Book,
    intervals: Vec<Interval>,
    packets: Vec<BurstPacket>,
    marks: Marks,
    copies: Copies,
    /// The most packets that the flow can have.
    planned: u64,
    /// Packets and bursts sent, according to the sender.
    end: Option<Total>,
    is_finished: bool,
}

#[derive(Debug)]
enum Book {
    Stream(Tally),
    Bursts(BurstTally),
}

impl Collector {
    /// `start_ns`: when counting begins, in this host's clock; `None`: with the first packet.
    pub(crate) fn new(spec: &FlowSpec, schedule: &Schedule, start_ns: Option<i64>) -> Collector {
        let planned = schedule.slots().unwrap_or(u64::MAX);
        let book = match spec.kind {
            Kind::Burst => {
                let packets = schedule.per_burst;
                let most = u32::try_from(planned.div_ceil(u64::from(packets))).unwrap_or(u32::MAX);
                let bytes = schedule.packet_bytes as u32;
                Book::Bursts(BurstTally::new(
                    spec.flow,
                    packets,
                    bytes,
                    schedule.every_ns as i64,
                    most,
                    start_ns,
                ))
            }
            _ => Book::Stream(Tally::new(
                spec.flow,
                crate::clock::ns(spec.interval_s),
                start_ns,
            )),
        };
        Collector {
            flow: spec.flow,
            book,
            intervals: Vec::new(),
            packets: Vec::new(),
            marks: Marks::default(),
            copies: Copies::default(),
            planned,
            end: None,
            is_finished: false,
        }
    }

    /// Classifies a packet; counts it if it is a copy.
    pub(crate) fn admit(&mut self, packet: &Packet, received_ns: i64) -> Admission {
        let admission = self.admission(packet, received_ns);
        self.copies.count(admission)
    }

    fn admission(&mut self, packet: &Packet, received_ns: i64) -> Admission {
        if packet.sequence >= self.planned {
            return Admission::Misplaced;
        }
        let admission = match (&mut self.book, packet.body) {
            (Book::Stream(tally), Body::Stream) => tally.admission(packet.sequence),
            (Book::Bursts(tally), Body::Burst(place)) => tally.admission(place, received_ns),
            _ => Admission::Misplaced,
        };
        match admission {
            Admission::New if self.is_finished => Admission::Stale,
            admission => admission,
        }
    }

    /// Counts a new packet.
    pub(crate) fn count(&mut self, packet: &Packet, datagram: &Datagram) {
        match (&mut self.book, packet.body) {
            (Book::Stream(tally), Body::Stream) => {
                let arrived = StreamPacket {
                    sequence: packet.sequence,
                    bytes: datagram.length as u64,
                    sent_ns: packet.sent_ns,
                    received_ns: datagram.received_ns,
                };
                tally.arrive(arrived, &mut self.intervals);
            }
            (Book::Bursts(tally), Body::Burst(place)) => {
                let marked = marks::is_marked(datagram.traffic_class);
                tally.arrive(
                    place,
                    datagram.length as u32,
                    packet.sent_ns,
                    (datagram.received_ns, marked),
                    &mut self.packets,
                );
            }
            _ => return,
        }
        self.marks.add(datagram.traffic_class);
    }

    /// Counts a packet, new or not; returns true if it is new.
    pub(crate) fn arrive(&mut self, packet: &Packet, datagram: &Datagram) -> bool {
        let is_new = self.admit(packet, datagram.received_ns) == Admission::New;
        if is_new {
            self.count(packet, datagram);
        }
        is_new
    }

    /// Registers how many packets and bursts the sender sent.
    pub(crate) fn announce_end(&mut self, total: Total) {
        self.end = Some(Total {
            packets: total.packets.min(self.planned),
            ..total
        });
    }

    /// Passes on rows that accumulated since the last tick; the sink limits their memory.
    pub(crate) fn relieve(&mut self, sink: &Sink) {
        if self.packets.len() >= MANY_OF_BURSTS || self.intervals.len() >= MANY {
            self.hand_on(sink);
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Passes on settled rows.
    pub(crate) fn tick(&mut self, now_ns: i64, sink: &Sink) {
        if self.is_finished {
            return;
        }
        match &mut self.book {
            Book::Stream(tally) => tally.tick(now_ns, &mut self.intervals),
            Book::Bursts(tally) => {
                tally.tick(now_ns, &mut self.packets);
                let is_over = tally.is_silent(now_ns, BURST_SILENCE_NS);
                if !is_over && self.packets.len() < MANY_OF_BURSTS {
                    return;
                }
            }
        }
        self.hand_on(sink);
    }

    /// Settles and passes on everything, and records facts, with keys that end with the direction; later packets are
    /// not counted.
    ///
    /// `end_ns` is when the flow was over; a later arrival extends it.
    pub(crate) fn finish(&mut self, end_ns: i64, direction: Direction, sink: &Sink) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        match &mut self.book {
            Book::Stream(tally) => {
                let sent = self.end.map(|total| total.packets);
                tally.finish(sent, end_ns, &mut self.intervals);
            }
            Book::Bursts(tally) => {
                tally.finish(self.end.map(|total| total.bursts), &mut self.packets);
            }
        }
        self.hand_on(sink);
        self.record_facts(direction, sink);
    }

    /// Distinct packets that arrived.
    pub(crate) fn packets(&self) -> u64 {
        match &self.book {
            Book::Stream(tally) => tally.packets(),
            Book::Bursts(tally) => tally.packets(),
        }
    }

    fn hand_on(&mut self, sink: &Sink) {
        if self.intervals.is_empty() && self.packets.is_empty() {
            return;
        }
        sink.with(|samples| {
            samples.intervals.append(&mut self.intervals);
            samples.bursts.append(&mut self.packets);
        });
    }

    fn record_facts(&self, direction: Direction, sink: &Sink) {
        let is_up = direction == Direction::Up;
        let mut facts = vec![("packets_received", self.packets().to_string())];
        let dscp_key = if is_up {
            "dscp_received_up"
        } else {
            "dscp_received_down"
        };
        let ecn_key = if is_up {
            "ecn_received_up"
        } else {
            "ecn_received_down"
        };
        facts.extend(self.marks.dscp().map(|dscp| (dscp_key, dscp)));
        facts.extend(self.marks.ecn().map(|ecn| (ecn_key, ecn)));
        facts.extend(self.copies.to_facts(direction));
        if let Book::Bursts(tally) = &self.book {
            if tally.too_late() > 0 {
                facts.push(("packets_too_late", tally.too_late().to_string()));
            }
            if tally.unlisted() > 0 {
                facts.push(("lost_packets_without_rows", tally.unlisted().to_string()));
            }
        }
        facts::record(self.flow, facts, sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Direction;
    use crate::udp::packet::BurstPlace;

    #[test]
    fn rows_of_an_outage_do_not_pile_up_until_the_next_tick() {
        let spec = FlowSpec {
            packets_per_burst: Some(1000),
            burst_every_s: Some(0.1),
            ..FlowSpec::new(7, Kind::Burst, Direction::Up)
        };
        let schedule = Schedule::of(&spec).unwrap();
        let mut collector = Collector::new(&spec, &schedule, None);
        let sink = Sink::bounded(100_000);
        for burst in [0, 20, 40] {
            let place = BurstPlace {
                burst,
                place: 0,
                packets: 1000,
            };
            let packet = Packet {
                flow: 7,
                sequence: 0,
                sent_ns: 0,
                body: Body::Burst(place),
            };
            let datagram = Datagram {
                bytes: &[0; 100],
                length: 100,
                from: None,
                to: None,
                traffic_class: None,
                received_ns: 0,
            };
            assert!(collector.arrive(&packet, &datagram));
            collector.relieve(&sink);
        }
        assert!(collector.packets.len() < MANY);
        assert!(sink.take().overflowed);
    }
}
