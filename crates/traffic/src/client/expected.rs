//! Limits on what a responder may report about the flows of a plan. A faulty or malicious responder must neither
//! exhaust this host's memory, nor have its rows attributed to another flow, nor report impossible values
//! ([`Plausible`]).

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use crate::client::plausible::{Plausible, is_time};
use crate::flow::{Direction, FlowSpec, Kind};
use crate::message::Report;
use crate::sample::{BurstPacket, Ending, Interval, TcpSample};
use crate::udp::SYNCHRONISATION_FLOW;
use crate::udp::schedule::Schedule;
use crate::udp::service::MOST_RANGES;

/// The most rows accepted, as a multiple of what the plan produces: a thread that wakes late may write two in a row.
const FACTOR: f64 = 4.0;
/// How many rows, and bursts, a flow may be ahead of that rate.
const AT_ONCE: f64 = 64.0;
/// The most UTF-8 bytes of facts and failure reasons accepted for one flow. The longest facts are lists of 64 marks
/// with their shares.
const MOST_WORDS_BYTES: usize = 64 << 10;

/// The kind of rows that a flow's far end reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// For a TCP flow that the responder receives.
    Intervals,
    /// For a UDP stream that it receives.
    Datagrams,
    /// For a TCP flow that it sends.
    TcpSamples,
    /// For bursts that it receives.
    Bursts,
    /// For bursts that it sends.
    Departures,
    None,
}

impl Rows {
    fn of(spec: &FlowSpec) -> Rows {
        match (spec.kind, spec.direction) {
            (Kind::Tcp, Direction::Down) => Rows::TcpSamples,
            (Kind::Tcp, _) => Rows::Intervals,
            (Kind::Udp, Direction::Up) => Rows::Datagrams,
            (Kind::Burst, Direction::Up) => Rows::Bursts,
            (Kind::Burst, _) => Rows::Departures,
            _ => Rows::None,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Rows::Intervals => "intervals of TCP",
            Rows::Datagrams => "intervals of UDP",
            Rows::TcpSamples => "samples of a TCP sender",
            Rows::Bursts => "packets of bursts",
            Rows::Departures => "departures of packets of bursts",
            Rows::None => "no rows",
        }
    }
}

/// The reports that may still arrive from one flow's far end.
#[derive(Debug)]
struct Flow {
    is_tcp: bool,
    rows: Rows,
    rows_per_s: f64,
    rows_at_once: f64,
    /// Packets in one burst, and bursts in the flow.
    bursts: (u64, u64),
    seen_rows: u64,
    seen_words_bytes: usize,
    values: Plausible,
}

impl Flow {
    fn of(spec: &FlowSpec) -> Flow {
        let rows = Rows::of(spec);
        let (rows_per_s, bursts) = match rows {
            Rows::None => (0.0, (1, 0)),
            Rows::Bursts | Rows::Departures => of_bursts(spec),
            _ => (1.0 / spec.interval_s, (1, 0)),
        };
        Flow {
            is_tcp: spec.kind == Kind::Tcp,
            rows,
            rows_per_s,
            rows_at_once: AT_ONCE * bursts.0 as f64,
            bursts,
            seen_rows: 0,
            seen_words_bytes: 0,
            values: Plausible::of(spec),
        }
    }
}

/// Returns packets per second and the numbers of packets and bursts. A flow with invalid settings is not run.
fn of_bursts(spec: &FlowSpec) -> (f64, (u64, u64)) {
    let Ok(schedule) = Schedule::of(spec) else {
        return (0.0, (1, 0));
    };
    let per_burst = u64::from(schedule.per_burst);
    let bursts = schedule
        .slots()
        .map_or(u64::MAX, |slots| slots.div_ceil(per_burst));
    (
        per_burst as f64 * 1e9 / schedule.every_ns,
        (per_burst, bursts),
    )
}

/// The flows that the responder was asked for, and which reports of them are outstanding.
#[derive(Debug)]
pub struct Expected {
    flows: HashMap<u32, Flow>,
    /// Probe flows for which the arrivals were requested.
    arrivals: HashSet<u32>,
    /// The timestamps of outstanding echoes.
    echoes: VecDeque<i64>,
}

impl Expected {
    /// Creates the expectations for these flows. ICMP flows have no far end.
    pub fn new(specs: &[FlowSpec]) -> Expected {
        let with_far_end = specs.iter().filter(|spec| spec.kind != Kind::Icmp);
        let mut flows: HashMap<u32, Flow> = with_far_end
            .map(|spec| (spec.flow, Flow::of(spec)))
            .collect();
        // The responder also reports facts about the exchanges of timestamps.
        let exchanges = FlowSpec::new(SYNCHRONISATION_FLOW, Kind::Probe, Direction::Both);
        flows
            .entry(SYNCHRONISATION_FLOW)
            .or_insert_with(|| Flow::of(&exchanges));
        Expected {
            flows,
            arrivals: HashSet::new(),
            echoes: VecDeque::new(),
        }
    }

    pub fn ask_for_arrivals(&mut self, flow: u32) {
        self.arrivals.insert(flow);
    }

    pub fn ask_for_echo(&mut self, sent_ns: i64) {
        self.echoes.push_back(sent_ns);
    }

    /// Registers a report that arrives `elapsed` after the flows were requested.
    ///
    /// # Errors
    /// The first item that a correct responder would not report for this plan, and what was expected.
    pub fn check(&mut self, report: &Report, elapsed: Duration) -> Result<(), String> {
        let kind = |interval: &Interval| match interval.datagrams {
            Some(_) => Rows::Datagrams,
            None => Rows::Intervals,
        };
        for interval in &report.intervals {
            let flow = self.count(interval.flow, kind(interval), elapsed)?;
            named(flow.values.interval(interval, elapsed), interval.flow)?;
        }
        for sample in &report.tcp {
            let flow = self.count(sample.flow, Rows::TcpSamples, elapsed)?;
            named(flow.values.sample(sample, elapsed), sample.flow)?;
        }
        for packet in &report.bursts {
            self.count(packet.flow, Rows::Bursts, elapsed)?;
            let flow = self.check_place(packet)?;
            named(flow.values.burst_packet(packet, elapsed), packet.flow)?;
        }
        for departure in &report.departures {
            let flow = self.count(departure.flow, Rows::Departures, elapsed)?;
            named(flow.values.departure(departure, elapsed), departure.flow)?;
        }
        for (flow, ending) in &report.endings {
            if !self.known(*flow, "the ending")?.is_tcp {
                return Err(format!(
                    "the ending of flow {flow}; it was expected for TCP flows only"
                ));
            }
            let words = match ending {
                Ending::Failed(reason) => reason.len(),
                _ => 0,
            };
            self.count_words(*flow, words)?;
        }
        for (flow, key, value) in &report.facts {
            self.count_words(*flow, key.len() + value.len())?;
        }
        Ok(())
    }

    /// Registers an echo.
    ///
    /// # Errors
    /// The echo is not the expected one, or has an impossible time. Echoes arrive in the order in which they were sent.
    pub fn check_echo(&mut self, sent_ns: i64, far_ns: i64) -> Result<(), String> {
        if !is_time(far_ns) {
            return Err(format!("the time {far_ns} ns, which no clock shows"));
        }
        match self.echoes.pop_front() {
            Some(awaited_ns) if awaited_ns == sent_ns => Ok(()),
            Some(awaited_ns) => Err(format!(
                "an echo of {sent_ns}; the echo of {awaited_ns} was expected"
            )),
            None => Err(format!("an echo of {sent_ns}; no such request was sent")),
        }
    }

    /// Registers the list of probes that arrived.
    ///
    /// # Errors
    /// The list was not requested, is longer than a responder may send, or has impossible numbers.
    pub fn check_arrivals(&mut self, flow: u32, ranges: &[(u64, u64)]) -> Result<(), String> {
        if !self.arrivals.remove(&flow) {
            return Err(format!(
                "the arrivals of flow {flow}; they were expected once for each probe flow, on request"
            ));
        }
        if ranges.len() > MOST_RANGES {
            return Err(format!(
                "{} ranges of arrived packets of flow {flow}; at most {MOST_RANGES} were expected",
                ranges.len()
            ));
        }
        let known = self.known(flow, "the arrivals")?;
        named(known.values.arrivals(ranges), flow)
    }

    /// Registers what this host's kernel saw acknowledged of the TCP flows that it sends.
    pub fn acknowledge(&mut self, samples: &[TcpSample]) {
        for sample in samples {
            if let (Some(flow), Some(bytes)) =
                (self.flows.get_mut(&sample.flow), sample.acked_bytes)
            {
                flow.values.acknowledge(bytes);
            }
        }
    }

    /// Compares, at the end, the bytes that receivers counted with those that they acknowledged.
    ///
    /// # Errors
    /// The first flow with an impossible count.
    pub fn check_totals(&self) -> Result<(), String> {
        let mut sent_here = self
            .flows
            .iter()
            .filter(|(_, flow)| flow.rows == Rows::Intervals);
        sent_here.try_for_each(|(number, flow)| named(flow.values.total(), *number))
    }

    fn known(&mut self, flow: u32, what: &str) -> Result<&mut Flow, String> {
        self.flows.get_mut(&flow).ok_or_else(|| {
            format!("{what} of flow {flow}; only flows that this host requested were expected")
        })
    }

    fn count(&mut self, flow: u32, rows: Rows, elapsed: Duration) -> Result<&mut Flow, String> {
        let known = self.known(flow, rows.words())?;
        if known.rows != rows {
            let (seen, expected) = (rows.words(), known.rows.words());
            return Err(format!(
                "{seen} of flow {flow}; {expected} were expected for its kind and direction"
            ));
        }
        known.seen_rows += 1;
        let most = known.rows_at_once + FACTOR * known.rows_per_s * elapsed.as_secs_f64();
        if known.seen_rows as f64 > most {
            return Err(format!(
                "more than {most:.0} {} of flow {flow} in {:.1} s; {:.1} per second were expected",
                rows.words(),
                elapsed.as_secs_f64(),
                known.rows_per_s
            ));
        }
        Ok(known)
    }

    fn check_place(&mut self, packet: &BurstPacket) -> Result<&mut Flow, String> {
        let BurstPacket {
            flow,
            burst,
            sequence,
            ..
        } = *packet;
        let known = self.known(flow, Rows::Bursts.words())?;
        let (per_burst, bursts) = known.bursts;
        if sequence / per_burst != u64::from(burst) || u64::from(burst) >= bursts {
            return Err(format!(
                "packet {sequence} of burst {burst} of flow {flow}; {bursts} bursts of {per_burst} packets were expected"
            ));
        }
        Ok(known)
    }

    fn count_words(&mut self, flow: u32, bytes: usize) -> Result<(), String> {
        let known = self.known(flow, "facts")?;
        // The tuple that stores the fact needs memory as well.
        known.seen_words_bytes += bytes + size_of::<(u32, String, String)>();
        if known.seen_words_bytes > MOST_WORDS_BYTES {
            return Err(format!(
                "more than {MOST_WORDS_BYTES} bytes of facts of flow {flow}; a few hundred were expected"
            ));
        }
        Ok(())
    }
}

/// Adds the flow to the description of an impossible value.
fn named(checked: Result<(), String>, flow: u32) -> Result<(), String> {
    checked.map_err(|what| format!("{what}, of flow {flow}"))
}

#[cfg(test)]
mod impossible;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Datagrams, TcpSample};

    const SECOND: Duration = Duration::from_secs(1);

    fn up() -> FlowSpec {
        FlowSpec {
            interval_s: 0.1,
            ..FlowSpec::new(0, Kind::Tcp, Direction::Up)
        }
    }

    /// One flow of each kind: TCP in both directions, a stream and bursts up, probes, a stream down, and ICMP echoes.
    fn plan() -> Vec<FlowSpec> {
        let udp = |flow, kind, direction| FlowSpec {
            rate_bps: Some(1e6),
            duration_s: Some(10.0),
            packets_per_burst: Some(10),
            ..FlowSpec::new(flow, kind, direction)
        };
        vec![
            up(),
            FlowSpec::new(1, Kind::Tcp, Direction::Down),
            udp(2, Kind::Udp, Direction::Up),
            udp(3, Kind::Burst, Direction::Up),
            udp(4, Kind::Probe, Direction::Both),
            udp(5, Kind::Udp, Direction::Down),
            udp(6, Kind::Icmp, Direction::Both),
        ]
    }

    fn interval(flow: u32, datagrams: Option<Datagrams>) -> Report {
        Report {
            intervals: vec![Interval {
                flow,
                datagrams,
                ..Interval::default()
            }],
            ..Report::default()
        }
    }

    fn sample(flow: u32) -> Report {
        Report {
            tcp: vec![TcpSample {
                flow,
                ..TcpSample::default()
            }],
            ..Report::default()
        }
    }

    fn burst(flow: u32, burst: u32, sequence: u64) -> Report {
        Report {
            bursts: vec![BurstPacket {
                flow,
                burst,
                sequence,
                sent_ns: 0,
                received_ns: None,
                payload_bytes: 0,
                marked: false,
            }],
            ..Report::default()
        }
    }

    fn ending(flow: u32) -> Report {
        Report {
            endings: vec![(flow, Ending::Complete)],
            ..Report::default()
        }
    }

    fn fact(flow: u32, bytes: usize) -> Report {
        Report {
            facts: vec![(flow, "key".to_owned(), "x".repeat(bytes))],
            ..Report::default()
        }
    }

    #[test]
    fn each_flow_has_rows_of_its_kind_and_direction_only() {
        let some = Some(Datagrams::default());
        let good = [
            interval(0, None),
            sample(1),
            interval(2, some),
            burst(3, 9, 99),
            ending(1),
            fact(4, 100),
            fact(SYNCHRONISATION_FLOW, 100),
        ];
        for report in good {
            assert_eq!(Expected::new(&plan()).check(&report, SECOND), Ok(()));
        }
        let bad = [
            (
                interval(9, None),
                "of flow 9; only flows that this host requested",
            ),
            (
                interval(6, None),
                "of flow 6; only flows that this host requested",
            ),
            (
                interval(0, some),
                "intervals of UDP of flow 0; intervals of TCP were expected",
            ),
            (interval(1, None), "samples of a TCP sender were expected"),
            (interval(5, some), "no rows were expected"),
            (sample(0), "intervals of TCP were expected"),
            (sample(4), "no rows were expected"),
            (burst(2, 0, 0), "intervals of UDP were expected"),
            (burst(3, 0, 10), "10 bursts of 10 packets were expected"),
            (burst(3, 10, 100), "10 bursts of 10 packets were expected"),
            (ending(4), "the ending of flow 4"),
            (ending(9), "the ending of flow 9"),
            (fact(9, 1), "facts of flow 9"),
            (fact(1, MOST_WORDS_BYTES), "a few hundred were expected"),
        ];
        for (report, expected) in bad {
            let message = Expected::new(&plan()).check(&report, SECOND).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn rows_may_come_late_and_all_at_once_but_not_be_more_than_time_makes() {
        // Rows of one minute at ten per second, half of them twice, all of which the path delivers at once.
        let mut expected = Expected::new(&[up()]);
        for _ in 0..900 {
            let report = interval(0, None);
            assert_eq!(expected.check(&report, 60 * SECOND), Ok(()));
        }
        // The first second cannot produce so many rows.
        let mut expected = Expected::new(&[up()]);
        let taken = (0..900)
            .take_while(|_| expected.check(&interval(0, None), SECOND).is_ok())
            .count();
        assert_eq!(taken, 64 + 40);
    }

    #[test]
    fn facts_are_counted_over_all_reports() {
        let mut expected = Expected::new(&[up()]);
        let taken = (0..1000)
            .take_while(|_| expected.check(&fact(0, 1000), SECOND).is_ok())
            .count();
        assert!((20..100).contains(&taken), "{taken}");
    }

    #[test]
    fn answers_are_expected_once_and_only_to_what_was_asked() {
        let mut expected = Expected::new(&plan());
        assert!(expected.check_arrivals(4, &[]).is_err());
        expected.ask_for_arrivals(4);
        assert!(expected.check_arrivals(3, &[]).is_err());
        assert_eq!(expected.check_arrivals(4, &[(0, 9)]), Ok(()));
        assert!(expected.check_arrivals(4, &[]).is_err());
        expected.ask_for_arrivals(4);
        let many = vec![(0, 0); MOST_RANGES + 1];
        assert!(expected.check_arrivals(4, &many).is_err());

        assert!(expected.check_echo(7, 1).is_err());
        expected.ask_for_echo(7);
        expected.ask_for_echo(8);
        assert_eq!(expected.check_echo(7, 1), Ok(()));
        assert!(expected.check_echo(9, 1).is_err());
    }
}
