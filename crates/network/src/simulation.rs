//! The discrete-event simulation of a scenario.

mod back;
mod watch;

use std::collections::VecDeque;

use whydrop_hosts::{Segment, Toward};
use whydrop_path::{Arrival, Decision, Ecn, Header, Outcome, Random};

use crate::calendar::{Calendar, Event};
use crate::connection::Connection;
use crate::history::{History, Packet, PacketFate, Record};
use crate::scenario::{Behaviour, CaptureConfig, CrossTraffic, Scenario, Stage};
pub use back::ReturnLink;
pub use watch::{DatagramSource, WatchConfig};

/// Additions to a scenario; empty by default.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    /// For the first connections, in the order of the scenario.
    pub behaviours: Vec<Behaviour>,
    /// No packet passes this stage, in either direction, from each of these times until the next.
    pub outages: Vec<(i64, i64)>,
    pub outage_stage: usize,
    /// A narrow link on the return path.
    pub return_link: Option<ReturnLink>,
}

/// A bound on one simulation's packets, far above what any scenario needs.
const MOST_PACKETS: usize = 30_000_000;
/// Time between packets that a host passes to its network card together, in a capture there.
const HANDOVER_NS: (i64, i64) = (400, 2_500);

struct StageState {
    stage: Stage,
    queued: Queued,
    poll_at_ns: Option<i64>,
}

/// The packets that an element has queued, by its own numbers, which count its arrivals.
#[derive(Default)]
struct Queued {
    /// The number of the first place.
    first: u64,
    places: VecDeque<Option<usize>>,
}

impl Queued {
    fn insert(&mut self, number: u64, packet: usize) {
        if self.places.is_empty() {
            self.first = number;
        }
        let place = (number - self.first) as usize;
        self.places.resize(place, None);
        self.places.push_back(Some(packet));
    }

    fn remove(&mut self, number: u64) -> Option<usize> {
        let place = number.checked_sub(self.first)? as usize;
        let packet = self.places.get_mut(place)?.take();
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.first += 1;
        }
        packet
    }
}

/// The delay of an acknowledgment on the return path past these stages.
fn reverse_delay_ns(stages: &[StageState]) -> i64 {
    stages
        .iter()
        .map(|state| state.stage.reverse_delay_ns)
        .sum()
}

struct SourceState {
    config: CrossTraffic,
    off_at_ns: i64,
}

pub struct Simulation<'a> {
    now_ns: i64,
    end_ns: i64,
    calendar: Calendar<Event>,
    connections: Vec<Connection>,
    stages: Vec<StageState>,
    sources: Vec<SourceState>,
    random: Random,
    capture: CaptureConfig,
    reverse_jitter_ns: i64,
    acknowledgment_loss: f64,
    /// When the last acknowledgment of each connection left: they do not overtake each other.
    returned_ns: Vec<i64>,
    /// The timers of each connection: (server, client).
    timers: Vec<(Option<i64>, Option<i64>)>,
    last_handover_ns: i64,
    packets: Vec<Packet>,
    /// Packets that were made, those included that are no longer kept.
    made: usize,
    most_packets: usize,
    witness: Option<Witness<'a>>,
    /// Places of `packets` that may be used again.
    free: Vec<usize>,
    records: Vec<Record>,
    watch: Option<watch::Watch>,
    outages: Vec<(i64, i64)>,
    outage_stage: usize,
    back: Option<back::BackQueue>,
}

/// Takes each packet with its fate, and when it passed the two points of [`Simulation::watching`].
pub type Witness<'a> = Box<dyn FnMut(&Packet, [Option<i64>; 2]) + 'a>;

/// Flow numbers of cross traffic and UDP flows are above those of connections.
const OTHER_FLOWS: u64 = 1 << 32;

impl<'a> Simulation<'a> {
    pub fn new(scenario: Scenario) -> Self {
        let mut random = Random::new(scenario.seed);
        let connections: Vec<Connection> = (scenario.flows.iter().enumerate())
            .map(|(flow, config)| Connection::new(flow, *config, &mut random))
            .collect();
        let stage = |stage| StageState {
            stage,
            queued: Queued::default(),
            poll_at_ns: None,
        };
        let count = connections.len();
        let mut simulation = Self {
            now_ns: 0,
            end_ns: scenario.end_ns,
            calendar: Calendar::default(),
            connections,
            stages: scenario.stages.into_iter().map(stage).collect(),
            sources: Vec::new(),
            random,
            capture: scenario.capture,
            reverse_jitter_ns: scenario.reverse_jitter_ns,
            acknowledgment_loss: scenario.acknowledgment_loss,
            returned_ns: vec![0; count],
            timers: vec![(None, None); count],
            last_handover_ns: i64::MIN,
            packets: Vec::new(),
            made: 0,
            most_packets: MOST_PACKETS,
            witness: None,
            free: Vec::new(),
            records: Vec::new(),
            watch: None,
            outages: Vec::new(),
            outage_stage: 0,
            back: None,
        };
        for (flow, config) in scenario.flows.iter().enumerate() {
            simulation
                .calendar
                .at(config.start_ns, Event::Open { flow });
        }
        for (source, &config) in scenario.cross_traffic.iter().enumerate() {
            simulation.sources.push(SourceState {
                config,
                off_at_ns: i64::MIN,
            });
            simulation
                .calendar
                .at(config.start_ns, Event::Cross { source });
        }
        simulation
    }

    /// Adds behaviour of hosts and path to the scenario.
    pub fn with(mut self, extras: Extras) -> Self {
        for (connection, behaviour) in self.connections.iter_mut().zip(extras.behaviours) {
            connection.set_behaviour(behaviour);
        }
        (self.outages, self.outage_stage) = (extras.outages, extras.outage_stage);
        self.back = extras.return_link.map(back::BackQueue::new);
        self
    }

    /// Gives each packet to `witness` as soon as its fate is known, in that order, instead of keeping it: memory does not
    /// grow with time. The [`History`] has no packets then. Not for captures, which refer to kept packets.
    pub fn with_witness(mut self, witness: Witness<'a>) -> Self {
        self.witness = Some(witness);
        self
    }

    /// Ends the run when so many packets were made, acknowledgments among them.
    pub fn with_most_packets(mut self, most_packets: usize) -> Self {
        self.most_packets = most_packets.min(MOST_PACKETS);
        self
    }

    /// Runs until every connection has received what it requested, or the time is over.
    pub fn run(mut self) -> History {
        let mut stop_ns = self.end_ns;
        let mut complete = false;
        while let Some((time_ns, event)) = self.calendar.pop() {
            if time_ns > stop_ns || self.made > self.most_packets {
                break;
            }
            self.now_ns = time_ns;
            self.handle(event);
            if !complete && self.connections.iter().all(Connection::is_complete) {
                // Let packets in flight arrive.
                complete = true;
                stop_ns = stop_ns.min(self.now_ns + 2_000_000_000);
            }
        }
        self.witness_packets_in_flight();
        self.records.sort_by_key(|record| record.time_ns);
        History {
            end_ns: self.now_ns,
            capture_begins_ns: self.capture.begins_ns,
            stage_names: self.stages.iter().map(|s| s.stage.name).collect(),
            complete: self
                .connections
                .iter()
                .map(Connection::is_complete)
                .collect(),
            passed: self.passed(),
            ledgers: (self.connections.iter_mut())
                .map(|connection| std::mem::take(connection.ledger()))
                .collect(),
            packets: self.packets,
            records: self.records,
        }
    }

    fn passed(&mut self) -> Vec<[Option<i64>; 2]> {
        let Some(watch) = self.watch.take() else {
            return Vec::new();
        };
        let mut passed = watch.passed;
        passed.resize(self.packets.len(), [None; 2]);
        passed
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Open { flow } => {
                let syn = self.connections[flow].open(self.now_ns);
                self.send_back(syn);
                self.set_timers(flow);
            }
            Event::Request { flow } => {
                let request = self.connections[flow].request(self.now_ns);
                self.send_back(request);
                self.set_timers(flow);
            }
            Event::Write { flow, left } => self.write(flow, left),
            Event::ServerTimer { flow } => self.server_timer(flow),
            Event::ClientTimer { flow } => self.client_timer(flow),
            Event::Reach { stage, packet } if stage < self.stages.len() => {
                let segment = self.packets[packet].segment.filter(|_| stage == 1);
                self.reach_stage(stage, packet);
                if let Some(segment) = segment {
                    self.left_host(segment);
                }
            }
            Event::Reach { packet, .. } => self.reach_client(packet),
            Event::Poll { stage } => self.poll(stage),
            Event::Return { packet } => self.reach_server(packet),
            Event::Cross { source } => self.cross(source),
            Event::Datagram { source } => self.send_datagram(source),
            Event::EnterBack { packet } => self.enter_back(packet),
            Event::LeaveBack => self.leave_back(),
        }
    }

    fn write(&mut self, flow: usize, left: u32) {
        let segments = self.connections[flow].write(self.now_ns);
        self.send_all(segments);
        self.set_timers(flow);
        let (_, gap_ns) = self.connections[flow].config.application.writes();
        if left > 1 {
            self.calendar.at(
                self.now_ns + gap_ns,
                Event::Write {
                    flow,
                    left: left - 1,
                },
            );
        }
    }

    fn server_timer(&mut self, flow: usize) {
        if self.timers[flow].0 == Some(self.now_ns) {
            self.timers[flow].0 = None;
        }
        if self.connections[flow]
            .server_deadline_ns()
            .is_some_and(|due_ns| due_ns <= self.now_ns)
        {
            let segments = self.connections[flow].on_server_timer(self.now_ns);
            self.send_all(segments);
        }
        self.set_timers(flow);
    }

    fn client_timer(&mut self, flow: usize) {
        if self.timers[flow].1 == Some(self.now_ns) {
            self.timers[flow].1 = None;
        }
        if let Some(ack) = self.connections[flow].on_client_timer(self.now_ns) {
            self.send_back(ack);
        }
        self.set_timers(flow);
    }

    /// Schedules the hosts' timers. One that is scheduled but no longer needed has no effect.
    fn set_timers(&mut self, flow: usize) {
        let connection = &self.connections[flow];
        let earlier = |due_ns: Option<i64>, set_ns: Option<i64>| {
            due_ns.filter(|&due_ns| set_ns.is_none_or(|set_ns| due_ns < set_ns))
        };
        if let Some(due_ns) = earlier(connection.server_deadline_ns(), self.timers[flow].0) {
            let due_ns = due_ns.max(self.now_ns);
            self.timers[flow].0 = Some(due_ns);
            self.calendar.at(due_ns, Event::ServerTimer { flow });
        }
        if let Some(due_ns) = earlier(connection.client_deadline_ns(), self.timers[flow].1) {
            let due_ns = due_ns.max(self.now_ns);
            self.timers[flow].1 = Some(due_ns);
            self.calendar.at(due_ns, Event::ClientTimer { flow });
        }
    }

    fn new_packet(&mut self, segment: Option<Segment>, ip_bytes: u32) -> usize {
        let packet = Packet {
            segment,
            datagram: None,
            ip_bytes,
            sent_ns: self.now_ns,
            fate: PacketFate::InFlight,
            header: Header {
                flow: segment.map_or(OTHER_FLOWS, |segment| segment.flow as u64),
                ecn: segment.map_or(Ecn::NotCapable, |segment| segment.ecn),
            },
            marked: None,
        };
        self.made += 1;
        if let Some(place) = self.free.pop() {
            self.packets[place] = packet;
            return place;
        }
        self.packets.push(packet);
        self.packets.len() - 1
    }

    /// Settles the fate of a packet. Nothing may refer to it afterwards: its place may be used again.
    fn end(&mut self, packet: usize, fate: PacketFate) {
        self.packets[packet].fate = fate;
        if let Some(witness) = &mut self.witness {
            let passed = self.watch.as_mut().map(|watch| watch.take_passed(packet));
            witness(&self.packets[packet], passed.unwrap_or_default());
            self.free.push(packet);
        }
    }

    fn witness_packets_in_flight(&mut self) {
        if self.witness.is_none() {
            return;
        }
        let mut is_in_flight = vec![true; self.packets.len()];
        for &place in &self.free {
            is_in_flight[place] = false;
        }
        for place in (0..self.packets.len()).filter(|&place| is_in_flight[place]) {
            self.end(place, PacketFate::InFlight);
        }
        self.packets.clear();
    }

    fn record(&mut self, time_ns: i64, packet: usize) {
        let captured = |segment: Segment| self.connections[segment.flow].config.captured;
        if self.packets[packet].segment.is_some_and(captured) && time_ns >= self.capture.begins_ns {
            self.records.push(Record { time_ns, packet });
        }
    }

    /// Sends segments from the server to the client.
    fn send_all(&mut self, segments: Vec<Segment>) {
        for segment in segments {
            let ip_bytes = segment.ip_bytes() + self.longer_ip_header_bytes();
            let packet = self.new_packet(Some(segment), ip_bytes);
            self.reach_stage(0, packet);
        }
    }

    fn reach_stage(&mut self, stage: usize, packet: usize) {
        if self.capture.tap == stage {
            self.record_passing(stage, packet);
        }
        if let Some(watch) = &mut self.watch {
            watch.pass(stage, packet, self.now_ns);
        }
        if stage == self.outage_stage && self.is_lost_in_outage(packet, self.now_ns) {
            return self.end(packet, PacketFate::Dropped { stage });
        }
        let arrival = Arrival {
            time_ns: self.now_ns,
            bytes: self.packets[packet].ip_bytes,
        };
        let header = self.packets[packet].header;
        let state = &mut self.stages[stage];
        let outcome = state.stage.element.arrive_with(arrival, header);
        match outcome {
            Outcome::Queued { packet: number } => {
                state.queued.insert(number, packet);
            }
            outcome => self.leave_stage(stage, packet, outcome),
        }
        self.set_poll(stage);
    }

    /// Records a packet at the tap. At the sender, packets that leave together have slightly different timestamps;
    /// elsewhere their own times apply.
    fn record_passing(&mut self, stage: usize, packet: usize) {
        let mut time_ns = self.now_ns;
        if stage == 0 {
            let spread_ns = (HANDOVER_NS.1 - HANDOVER_NS.0) as u64;
            let gap_ns = HANDOVER_NS.0 + self.random.below(spread_ns) as i64;
            time_ns = time_ns.max(self.last_handover_ns.saturating_add(gap_ns));
            self.last_handover_ns = time_ns;
        }
        self.record(time_ns, packet);
    }

    /// True if no packet passes at this time; records the loss in the connection's ledger.
    fn is_lost_in_outage(&mut self, packet: usize, time_ns: i64) -> bool {
        let outage = self.outages.iter().copied();
        let mut now = outage.filter(|&(from_ns, until_ns)| (from_ns..until_ns).contains(&time_ns));
        let Some((from_ns, until_ns)) = now.next() else {
            return false;
        };
        if let Some(segment) = self.packets[packet].segment {
            let ledger = self.connections[segment.flow].ledger();
            ledger.lost_in_outage(from_ns, until_ns);
        }
        true
    }

    fn leave_stage(&mut self, stage: usize, packet: usize, outcome: Outcome) {
        if matches!(outcome, Outcome::Marked { .. }) {
            self.packets[packet].header.ecn = Ecn::Ce;
            self.packets[packet].marked.get_or_insert(stage);
        }
        match outcome.departure_ns() {
            // Cross traffic leaves the path here.
            Some(time_ns) if self.packets[packet].is_cross_traffic() => {
                self.end(packet, PacketFate::Delivered { time_ns });
            }
            Some(time_ns) => self.calendar.at(
                time_ns.max(self.now_ns),
                Event::Reach {
                    stage: stage + 1,
                    packet,
                },
            ),
            None => {
                let segment = self.packets[packet].segment.filter(|_| stage == 0);
                self.end(packet, PacketFate::Dropped { stage });
                if let Some(segment) = segment {
                    self.left_host(segment);
                }
            }
        }
    }

    /// Reports to a sender with small queues that a packet has left the first stage, its own interface.
    fn left_host(&mut self, segment: Segment) {
        if self.connections[segment.flow].config.sender.small_queues {
            let more = self.connections[segment.flow].left_host(self.now_ns, segment.payload_bytes);
            self.send_all(more);
            self.set_timers(segment.flow);
        }
    }

    fn set_poll(&mut self, stage: usize) {
        let state = &mut self.stages[stage];
        let Some(due_ns) = state.stage.element.next_event_ns() else {
            return;
        };
        let due_ns = due_ns.max(self.now_ns);
        if state.poll_at_ns.is_none_or(|set_ns| due_ns < set_ns) {
            state.poll_at_ns = Some(due_ns);
            self.calendar.at(due_ns, Event::Poll { stage });
        }
    }

    fn poll(&mut self, stage: usize) {
        let state = &mut self.stages[stage];
        if state.poll_at_ns == Some(self.now_ns) {
            state.poll_at_ns = None;
        }
        let mut decided: Vec<Decision> = Vec::new();
        state.stage.element.poll(self.now_ns, &mut decided);
        for decision in decided {
            if let Some(packet) = self.stages[stage].queued.remove(decision.packet) {
                self.leave_stage(stage, packet, decision.outcome);
            }
        }
        self.set_poll(stage);
    }

    fn reach_client(&mut self, packet: usize) {
        if self.capture.tap == self.stages.len() {
            self.record(self.now_ns, packet);
        }
        if let Some(watch) = &mut self.watch {
            watch.pass(self.stages.len(), packet, self.now_ns);
        }
        let segment = self.packets[packet].segment_before(self.stages.len());
        let time_ns = self.now_ns;
        self.end(packet, PacketFate::Delivered { time_ns });
        let Some(segment) = segment else {
            return;
        };
        let flow = segment.flow;
        let reaction = self.connections[flow].at_client(self.now_ns, &segment);
        for ack in reaction.send {
            self.send_back(ack);
        }
        if reaction.chunk_complete {
            self.chunk_complete(flow);
        }
        self.set_timers(flow);
    }

    /// After a complete chunk (or the handshake), the client requests the next one after a pause, or closes.
    fn chunk_complete(&mut self, flow: usize) {
        let connection = &mut self.connections[flow];
        if connection.wants_more() {
            let pause_ns = match connection.received_bytes() {
                0 => 0,
                _ => connection.config.application.pause_ns(),
            };
            self.calendar
                .at(self.now_ns + pause_ns, Event::Request { flow });
        } else if let Some(fin) = connection.finish(self.now_ns) {
            self.send_back(fin);
        }
    }

    /// Sends a segment from the client to the server. Only pure acknowledgments can be lost in this direction.
    fn send_back(&mut self, segment: Segment) {
        let ip_bytes = segment.ip_bytes() + self.longer_ip_header_bytes();
        let packet = self.new_packet(Some(segment), ip_bytes);
        let flow = segment.flow;
        let spread_ns = self.reverse_jitter_ns.max(0) as u64 + 1;
        let leaves_ns =
            (self.now_ns + self.random.below(spread_ns) as i64).max(self.returned_ns[flow]);
        self.returned_ns[flow] = leaves_ns;
        if self.watch.is_some() {
            return self.send_back_past_points(segment, packet, leaves_ns);
        }
        if self.back.is_some() {
            if self.capture.tap == self.stages.len() {
                self.record(self.now_ns, packet);
            }
            return self.calendar.at(leaves_ns, Event::EnterBack { packet });
        }
        self.carry_back(segment, packet, leaves_ns);
    }

    /// Carries a packet to the server from the start of the return path, or from the end of its narrow link.
    fn carry_back(&mut self, segment: Segment, packet: usize, leaves_ns: i64) {
        let flow = segment.flow;
        let pure = segment.is_pure_acknowledgment();
        let lost = pure && self.random.chance(self.acknowledgment_loss);
        let tap = self.capture.tap.min(self.stages.len());
        let extra_ns = self.connections[flow].config.extra_rtt_ns;
        let at_tap_ns =
            leaves_ns + reverse_delay_ns(&self.stages[tap..]) + if tap == 0 { extra_ns } else { 0 };
        let arrives_ns = leaves_ns + reverse_delay_ns(&self.stages) + extra_ns;
        let outage_ns =
            leaves_ns + reverse_delay_ns(&self.stages[self.outage_stage.min(self.stages.len())..]);
        let in_outage = self.is_lost_in_outage(packet, outage_ns);
        if in_outage {
            // Seen at the tap only if the outage is behind it.
            if tap > self.outage_stage && !(self.back.is_some() && tap == self.stages.len()) {
                self.record(at_tap_ns, packet);
            }
            return self.end(packet, PacketFate::LostReturning);
        }
        // Lost between the client and the tap, or the tap and the server, at random.
        let seen_before = self.back.is_some() && tap == self.stages.len();
        if (!lost || self.random.chance(0.5)) && !seen_before {
            let seen_ns = if tap == self.stages.len() {
                self.now_ns
            } else {
                at_tap_ns
            };
            self.record(seen_ns, packet);
        }
        if lost {
            self.end(packet, PacketFate::LostReturning);
        } else {
            self.calendar.at(arrives_ns, Event::Return { packet });
        }
    }

    fn reach_server(&mut self, packet: usize) {
        let segment = self.packets[packet].segment;
        let time_ns = self.now_ns;
        self.end(packet, PacketFate::Delivered { time_ns });
        let Some(segment) = segment else {
            return;
        };
        debug_assert_eq!(segment.toward, Toward::Server);
        let flow = segment.flow;
        let reaction = self.connections[flow].at_server(self.now_ns, &segment);
        self.send_all(reaction.send);
        if reaction.requested {
            let (left, _) = self.connections[flow].config.application.writes();
            let answer_ns = self.now_ns + self.connections[flow].behaviour().answers_after_ns;
            self.calendar.at(answer_ns, Event::Write { flow, left });
        }
        self.set_timers(flow);
    }

    /// Sends a cross-traffic packet and schedules the next one.
    fn cross(&mut self, source: usize) {
        let config = self.sources[source].config;
        if self.now_ns >= self.sources[source].off_at_ns && config.mean_off_ns > 0 {
            let begun = self.sources[source].off_at_ns != i64::MIN;
            let on_ns = self.random.exponential(config.mean_on_ns as f64) as i64;
            let off_ns = if begun {
                self.random.exponential(config.mean_off_ns as f64) as i64
            } else {
                0
            };
            self.sources[source].off_at_ns = self.now_ns + off_ns + on_ns;
            self.calendar
                .at(self.now_ns + off_ns + 1, Event::Cross { source });
            return;
        }
        let packet = self.new_packet(None, config.packet_bytes);
        self.reach_stage(config.stage, packet);
        let mean_ns = f64::from(config.packet_bytes) * 8e9 / config.rate_bps.max(1) as f64;
        let gap_ns = if config.poisson {
            self.random.exponential(mean_ns)
        } else {
            mean_ns
        };
        self.calendar.at(
            self.now_ns + (gap_ns as i64).max(1),
            Event::Cross { source },
        );
    }
}
