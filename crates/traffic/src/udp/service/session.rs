//! One session at the responder: its flows, and how packets change them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::activity::Activity;
use crate::clock;
use crate::flow::{Direction, FlowSpec, Kind};
use crate::sample::Sink;
use crate::stop::Stop;

use super::super::arrivals::{Arrival, Arrivals};
use super::super::collector::Collector;
use super::super::copies::{Admission, Copies, Requests};
use super::super::facts;
use super::super::link::SYNCHRONISATION_FLOW;
use super::super::marks::Marks;
use super::super::packet::{Answer, Body, HEADER_BYTES, Keys, Packet, Refusal, Total};
use super::super::schedule::Schedule;
use super::super::socket::Datagram;
use super::super::troubles::{self, Troubles};
use super::budget::Budget;
use super::down::{Down, ReplyPath};
use super::intake::Intake;
use super::{Registration, SessionLimits};

/// Sequence numbers of one probe flow that are remembered: hours at 5 ms, half a megabyte of bits.
const MOST_REMEMBERED: u64 = 1 << 22;
/// The same for all probe flows of a session: sixteen megabytes. One packet can use its flow's whole share.
const MOST_OF_SESSION: u64 = 1 << 27;
const SYNCHRONISATIONS_REMEMBERED: usize = 1 << 12;
/// The most ranges of arrivals that are reported.
pub(crate) const MOST_RANGES: usize = 100_000;
/// The most ranges of unanswered probes (over the limits) that are reported: a few dozen kilobytes of text.
const MOST_WITHHELD_RANGES: usize = 1000;
/// How long after the `finish` to wait for packets that it overtook.
const OVERTAKEN_NS: i64 = 200_000_000;
/// A silent sender that did not announce the end is done this long after its planned end.
const LINGER_NS: i64 = 5_000_000_000;
const QUIET_NS: i64 = 2_000_000_000;

/// How to react to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The answer is ready; it is sent with this traffic class.
    Answer(u8),
    Counted,
    Misplaced,
    /// A copy of a packet that had arrived.
    Repeated,
    Stale,
    Withheld,
    /// The client sent far more than its flows may.
    Overrun,
}

/// A session that is being served.
pub(super) struct Open {
    keys: Keys,
    ends_ns: i64,
    limits: SessionLimits,
    intake: Option<Intake>,
    overrun: Stop,
    activity: Activity,
    sink: Arc<Sink>,
    flows: HashMap<u32, Flow>,
    /// The service's count of overflows when the session began.
    lost_before: u64,
    has_refused: bool,
    troubles: Troubles,
}

enum Flow {
    Probes(Box<Probes>),
    Up(Box<Up>),
    Down(Box<Down>),
    /// Not agreed on, or with invalid settings.
    None,
}

struct Probes {
    arrivals: Arrivals,
    copies: Copies,
    /// The most probes the flow can have.
    planned: u64,
    budget: Budget,
    class: u8,
    marks: Marks,
    withheld: u64,
    /// Inclusive ranges of their numbers, as many as are reported.
    withheld_ranges: Vec<(u64, u64)>,
}

struct Up {
    collector: Collector,
    requests: Requests,
    class: u8,
    duration_ns: Option<i64>,
    first_ns: Option<i64>,
    latest_ns: i64,
    finish_ns: Option<i64>,
}

impl Open {
    pub(super) fn new(session: Registration, secret: [u8; 32], lost_before: u64) -> Open {
        let demanded_bps: f64 = session
            .flows
            .iter()
            .filter(|spec| is_down(spec))
            .filter_map(|spec| Some(Schedule::of(spec).ok()?.rate_bps()))
            .sum();
        let probes = session.flows.iter().filter(|spec| spec.kind == Kind::Probe);
        let remembered = (MOST_OF_SESSION / (probes.count() as u64).max(1)).min(MOST_REMEMBERED);
        let mut flows: HashMap<u32, Flow> = session
            .flows
            .iter()
            .map(|spec| {
                let flow = Flow::of(spec, &session, demanded_bps, remembered, secret);
                (spec.flow, flow)
            })
            .collect();
        flows.insert(
            SYNCHRONISATION_FLOW,
            Flow::Probes(Box::new(Probes::synchronisation(&session.limits))),
        );
        Open {
            keys: Keys::of_responder(&session.key, session.token),
            ends_ns: session.ends_ns,
            limits: session.limits,
            // A session without limits has no intake to check.
            intake: session
                .limits
                .max_rate_bps
                .is_finite()
                .then(|| Intake::of(&session.flows)),
            overrun: session.overrun,
            activity: session.activity,
            sink: session.sink,
            flows,
            lost_before,
            has_refused: false,
            troubles: Troubles::default(),
        }
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(super) fn is_valid(&self, now_ns: i64) -> bool {
        now_ns < self.ends_ns
    }

    /// True while the client's traffic is within its announcement, this datagram included.
    fn takes(&mut self, datagram: &Datagram) -> bool {
        if let Some(intake) = &mut self.intake
            && !intake.take(datagram.length, datagram.received_ns)
        {
            self.overrun.set();
        }
        !self.overrun.is_set()
    }

    pub(super) fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.has_refused)
    }

    pub(super) fn arrivals(&self, flow: u32) -> Vec<(u64, u64)> {
        match self.flows.get(&flow) {
            Some(Flow::Probes(probes)) => probes.arrivals.ranges(MOST_RANGES),
            _ => Vec::new(),
        }
    }

    /// Handles an authentic packet; the answer, if any, is left in `answer`.
    ///
    /// Copies are recognised before anything else: they use nothing of a limit, are not answered and change no state.
    pub(super) fn serve(
        &mut self,
        packet: &Packet,
        datagram: &Datagram,
        reply_path: &ReplyPath,
        answer: &mut Vec<u8>,
    ) -> Verdict {
        let admission = self.admit(packet, datagram.received_ns);
        match admission {
            Admission::Duplicate => return Verdict::Repeated,
            Admission::Stale => return Verdict::Stale,
            Admission::New | Admission::Misplaced => {}
        }
        if !self.takes(datagram) {
            return Verdict::Overrun;
        }
        if admission == Admission::New && packet.flow != SYNCHRONISATION_FLOW {
            self.activity.register();
        }
        match admission {
            Admission::New => self.serve_new(packet, datagram, reply_path, answer),
            _ => Verdict::Misplaced,
        }
    }

    /// Compares a packet with those of its flow that arrived before it, and remembers it.
    fn admit(&mut self, packet: &Packet, received_ns: i64) -> Admission {
        match (self.flows.get_mut(&packet.flow), packet.body) {
            (Some(Flow::Probes(probes)), Body::Probe) => probes.admit(packet.sequence),
            (Some(Flow::Up(up)), Body::Stream | Body::Burst(_)) => {
                up.collector.admit(packet, received_ns)
            }
            (Some(Flow::Up(up)), Body::Finish(_)) => up.requests.admit(packet.sequence),
            (Some(Flow::Down(down)), _) => down.admit(packet),
            // Requests for other flows are refused.
            (_, Body::Hello | Body::Proof { .. }) => Admission::New,
            _ => Admission::Misplaced,
        }
    }

    fn serve_new(
        &mut self,
        packet: &Packet,
        datagram: &Datagram,
        reply_path: &ReplyPath,
        answer: &mut Vec<u8>,
    ) -> Verdict {
        answer.clear();
        let reply = |body: Body, answer: &mut Vec<u8>| {
            answer.resize(HEADER_BYTES, 0);
            Packet { body, ..*packet }.write(answer, &self.keys);
        };
        let flow = self.flows.get_mut(&packet.flow);
        match (flow, packet.body) {
            (Some(Flow::Probes(probes)), Body::Probe) => {
                let is_too_large = datagram.length > self.limits.max_packet_bytes as usize;
                let outcome = probes.serve(packet, datagram, is_too_large);
                if let Ok((body, class)) = outcome {
                    // As long as the probe, with its padding.
                    answer.extend_from_slice(datagram.bytes);
                    Packet { body, ..*packet }.write(answer, &self.keys);
                    return Verdict::Answer(class);
                }
                outcome.map_or_else(|verdict| verdict, |_| Verdict::Counted)
            }
            (Some(Flow::Up(up)), Body::Stream | Body::Burst(_)) => {
                up.arrive(packet, datagram, &self.sink)
            }
            (Some(Flow::Up(up)), Body::Finish(total)) => {
                up.finish(total, datagram.received_ns);
                reply(Body::Finished(total), answer);
                Verdict::Answer(up.class)
            }
            (
                Some(Flow::Down(down)),
                Body::Hello | Body::Proof { .. } | Body::Leave(_) | Body::Finished(_),
            ) => match down.serve(
                packet,
                reply_path,
                &self.keys,
                &self.sink,
                datagram.received_ns,
            ) {
                Some(body) => {
                    self.has_refused = matches!(body, Body::Refused(_));
                    reply(body, answer);
                    Verdict::Answer(down.class())
                }
                None => Verdict::Counted,
            },
            (_, Body::Hello | Body::Proof { .. }) => {
                self.has_refused = true;
                reply(Body::Refused(Refusal::NoSuchFlow), answer);
                Verdict::Answer(0)
            }
            _ => Verdict::Misplaced,
        }
    }

    /// The service's pauses and overflows.
    pub(super) fn troubles(&mut self) -> &mut Troubles {
        &mut self.troubles
    }

    /// Closes intervals, and flows that are over.
    pub(super) fn tick(&mut self, now_ns: i64, lost: u64) {
        let lost_meanwhile = lost.saturating_sub(self.lost_before);
        for (&number, flow) in &mut self.flows {
            if let Flow::Up(up) = flow {
                up.tick(number, now_ns.min(self.ends_ns), lost_meanwhile, &self.sink);
            }
        }
    }

    /// Ends all flows and passes on their remaining rows.
    pub(super) fn close(self, now_ns: i64, lost: u64) {
        let lost_meanwhile = lost.saturating_sub(self.lost_before);
        let now_ns = now_ns.min(self.ends_ns);
        let troubles = self.troubles.to_fact().map(|fact| (troubles::KEY, fact));
        facts::record(SYNCHRONISATION_FLOW, troubles, &self.sink);
        let mut threads = Vec::new();
        for (number, flow) in self.flows {
            match flow {
                Flow::Probes(probes) => probes.record_facts(number, &self.sink),
                Flow::Up(mut up) => up.close(number, now_ns, lost_meanwhile, &self.sink),
                Flow::Down(down) => threads.extend(down.end()),
                Flow::None => {}
            }
        }
        for thread in threads {
            let _ = thread.join();
        }
    }
}

fn is_down(spec: &FlowSpec) -> bool {
    matches!(spec.kind, Kind::Udp | Kind::Burst) && spec.direction == Direction::Down
}

impl Flow {
    /// `demanded_bps`: of all flows down; `remembered`: how many sequence numbers a probe flow may keep.
    fn of(
        spec: &FlowSpec,
        session: &Registration,
        demanded_bps: f64,
        remembered: u64,
        secret: [u8; 32],
    ) -> Flow {
        let Ok(schedule) = Schedule::of(spec) else {
            return Flow::None;
        };
        match (spec.kind, spec.direction) {
            (Kind::Probe, _) => Flow::Probes(Box::new(Probes::new(
                spec,
                &schedule,
                &session.limits,
                remembered,
            ))),
            (Kind::Udp | Kind::Burst, Direction::Up) => Flow::Up(Box::new(Up {
                collector: Collector::new(spec, &schedule, None),
                requests: Requests::default(),
                class: spec.traffic_class(),
                duration_ns: schedule.duration_ns(),
                first_ns: None,
                latest_ns: i64::MIN,
                finish_ns: None,
            })),
            (Kind::Udp | Kind::Burst, Direction::Down) => {
                let limits = &session.limits;
                let refusal = if demanded_bps > limits.max_rate_bps {
                    Some(Refusal::Rate(limits.max_rate_bps as u64))
                } else if schedule.packet_bytes > limits.max_packet_bytes as usize {
                    Some(Refusal::PacketSize(limits.max_packet_bytes.into()))
                } else {
                    None
                };
                Flow::Down(Box::new(Down::new(
                    session.token,
                    spec,
                    schedule,
                    refusal,
                    session.ends_ns,
                    secret,
                )))
            }
            _ => Flow::None,
        }
    }
}

impl Probes {
    fn new(
        spec: &FlowSpec,
        schedule: &Schedule,
        limits: &SessionLimits,
        remembered: u64,
    ) -> Probes {
        let planned = schedule.slots().unwrap_or(u64::MAX);
        Probes {
            arrivals: Arrivals::new(planned.min(remembered) as usize),
            copies: Copies::default(),
            planned,
            budget: Budget::new(limits.min_interval_ns),
            class: spec.traffic_class(),
            marks: Marks::default(),
            withheld: 0,
            withheld_ranges: Vec::new(),
        }
    }

    fn synchronisation(limits: &SessionLimits) -> Probes {
        Probes {
            arrivals: Arrivals::new(SYNCHRONISATIONS_REMEMBERED),
            copies: Copies::default(),
            planned: u64::MAX,
            budget: Budget::new(limits.min_interval_ns),
            class: 0,
            marks: Marks::default(),
            withheld: 0,
            withheld_ranges: Vec::new(),
        }
    }

    /// Registers the arrival of a probe.
    fn admit(&mut self, sequence: u64) -> Admission {
        if sequence >= self.planned {
            return Admission::Misplaced;
        }
        let admission = match self.arrivals.insert(sequence) {
            Arrival::Ahead | Arrival::Reordered => Admission::New,
            Arrival::Duplicate => Admission::Duplicate,
            Arrival::Forgotten => Admission::Stale,
        };
        self.copies.count(admission)
    }

    /// Answers a probe that is no copy, within the limits.
    fn serve(
        &mut self,
        packet: &Packet,
        datagram: &Datagram,
        is_too_large: bool,
    ) -> Result<(Body, u8), Verdict> {
        self.marks.add(datagram.traffic_class);
        if is_too_large || !self.budget.take(datagram.received_ns) {
            self.withhold(packet.sequence);
            return Err(Verdict::Withheld);
        }
        let turnaround_ns = clock::now_ns().saturating_sub(datagram.received_ns);
        let answer = Answer {
            traffic_class: datagram.traffic_class.unwrap_or(0),
            far_received_ns: datagram.received_ns,
            turnaround_ns: u32::try_from(turnaround_ns.max(0)).unwrap_or(u32::MAX),
            arrived: self.arrivals.distinct() as u32,
            window: self.arrivals.window(packet.sequence),
        };
        Ok((Body::Answer(answer), self.class))
    }

    fn withhold(&mut self, sequence: u64) {
        self.withheld += 1;
        let has_room = self.withheld_ranges.len() < MOST_WITHHELD_RANGES;
        match self.withheld_ranges.last_mut() {
            Some(last) if last.1.checked_add(1) == Some(sequence) => last.1 = sequence,
            _ if has_room => self.withheld_ranges.push((sequence, sequence)),
            _ => {}
        }
    }

    fn record_facts(&self, flow: u32, sink: &Sink) {
        facts::record(flow, self.copies.to_facts(Direction::Up), sink);
        if self.withheld == 0 {
            return;
        }
        let ranges: Vec<String> = self
            .withheld_ranges
            .iter()
            .map(|(first, last)| format!("{first}-{last}"))
            .collect();
        let facts = [
            (
                "answers_withheld_by_responders_limits",
                self.withheld.to_string(),
            ),
            ("probes_without_answer_by_limits", ranges.join(",")),
        ];
        facts::record(flow, facts, sink);
    }
}

impl Up {
    fn arrive(&mut self, packet: &Packet, datagram: &Datagram, sink: &Sink) -> Verdict {
        self.collector.count(packet, datagram);
        self.collector.relieve(sink);
        self.first_ns.get_or_insert(datagram.received_ns);
        self.latest_ns = self.latest_ns.max(datagram.received_ns);
        Verdict::Counted
    }

    fn finish(&mut self, total: Total, now_ns: i64) {
        if self.finish_ns.is_none() {
            self.collector.announce_end(total);
            self.finish_ns = Some(now_ns);
        }
    }

    fn planned_end_ns(&self) -> Option<i64> {
        Some(self.first_ns?.saturating_add(self.duration_ns?))
    }

    fn tick(&mut self, flow: u32, now_ns: i64, lost_meanwhile: u64, sink: &Sink) {
        let has_said_so = self
            .finish_ns
            .is_some_and(|finish_ns| now_ns >= finish_ns.saturating_add(OVERTAKEN_NS));
        let must_be = self.planned_end_ns().is_some_and(|end_ns| {
            now_ns >= end_ns.saturating_add(LINGER_NS)
                && now_ns >= self.latest_ns.saturating_add(QUIET_NS)
        });
        if has_said_so || must_be {
            self.close(flow, now_ns, lost_meanwhile, sink);
        } else if self.finish_ns.is_none() {
            self.collector.tick(now_ns, sink);
        }
    }

    fn close(&mut self, flow: u32, now_ns: i64, lost_meanwhile: u64, sink: &Sink) {
        if self.collector.is_finished() {
            return;
        }
        // Waiting for the sender's `finish` does not count as part of the flow; a silence before it does.
        let end_ns = match (self.finish_ns, self.planned_end_ns()) {
            (Some(finish_ns), Some(planned_ns)) => finish_ns.min(planned_ns),
            (Some(_), None) => i64::MIN,
            (None, _) => now_ns,
        };
        self.collector.finish(end_ns, Direction::Up, sink);
        if lost_meanwhile > 0 {
            // For all flows together: the kernel does not report which one lost them.
            let lost = (
                "packets_lost_in_responders_receive_buffer",
                lost_meanwhile.to_string(),
            );
            facts::record(flow, [lost], sink);
        }
    }
}
