//! The end of a connection: its outcome, and its results.

use super::State;
use super::accounting::account_for_time;
use crate::control;
use crate::ecn::Ecn;
use crate::flow::{Connection, Flow};
use crate::half::Half;
use crate::outcome::{Ending, Outcome, Setup, Unanswered};
use crate::sender_clock::Echoes;
use crate::unseen::UnseenFlow;
use crate::vantage;

/// A sender that waits for a window probes at least this often (Linux's `TCP_RTO_MAX`), so it counts as waiting for
/// this long after its last packet.
const PROBE_INTERVAL_NS: i64 = 120_000_000_000;

impl State {
    fn ending(&self, now_ns: i64) -> Ending {
        let [initiator, responder] = &self.opening;
        let began = initiator.syns > 0;
        Ending {
            setup: Setup {
                syns: initiator.syns,
                syn_acks: responder.syns,
                first_syn_ns: began.then_some(initiator.first_syn_ns),
                last_syn_ns: began.then_some(initiator.last_syn_ns),
                ttl: initiator.ttl,
            },
            reset: self.reset.as_deref().copied(),
            closed: [initiator, responder].map(|opening| opening.finished_ns.is_some()),
            unanswered: [self.unanswered(0), self.unanswered(1)],
            is_answered: responder.packets > 0 || initiator.acknowledges,
            is_unreachable: self.is_syn_unreachable(),
            after_syn_ns: now_ns - initiator.last_syn_ns,
        }
    }

    fn unanswered(&self, direction: usize) -> Unanswered {
        let peer = &self.opening[1 - direction];
        let Some(halves) = &self.halves else {
            return Unanswered::default();
        };
        let half = &halves[direction];
        let last = half.silence.as_ref().and_then(|s| s.packets.last());
        Unanswered {
            repeats: half.silence.as_ref().map_or(0, |silence| silence.repeats),
            bytes: half.in_flight_bytes() as u64,
            last_answer_ns: (peer.packets > 0).then_some(peer.last_ns),
            last_sent_ns: half.last_sent_ns,
            packet: last
                .and_then(|number| u32::try_from(*number).ok())
                .unwrap_or(0),
        }
    }

    /// Builds the result for the whole connection; `now_ns` is the time of the capture's latest packet.
    fn connection(&self, now_ns: i64) -> Connection {
        let ending = self.ending(now_ns);
        let initiator = &self.opening[0];
        Connection {
            handshake: self.handshake,
            from_start: self.opening.iter().any(|opening| opening.syn.is_some()),
            outcome: ending.outcome(),
            setup: ending.setup,
            reset: self.reset.clone(),
            closed: ending.closed,
            closed_ns: [initiator.finished_ns, self.opening[1].finished_ns],
            unanswered: ending.unanswered,
            ecn_offered: match initiator.syn {
                Some(_) => Ecn::offered(initiator.flags),
                None => Ecn::Unknown,
            },
            signs: self.signs.clone(),
            ..Connection::default()
        }
    }

    /// Data acknowledged in a direction without captured packets.
    pub fn unseen(&self) -> Option<UnseenFlow> {
        let unseen = (0..2).find(|direction| self.opening[*direction].packets == 0)?;
        let by = &self.opening[1 - unseen];
        Some(UnseenFlow {
            source: self.endpoints[unseen],
            destination: self.endpoints[1 - unseen],
            bytes: by.acknowledged_bytes,
            lasted_ns: by.last_ns - by.first_ns,
        })
    }

    /// The result for a connection that failed without carrying data.
    pub fn failure(&self, now_ns: i64) -> Option<Connection> {
        let mut connection = self.connection(now_ns);
        let failed = connection.outcome.is_failure() || connection.taken_for_old().is_some();
        if self.abandoned || self.halves.is_some() || !failed {
            return None;
        }
        for (direction, flow) in connection.flows.iter_mut().enumerate() {
            let own = &self.opening[direction];
            flow.source = self.endpoints[direction];
            flow.destination = self.endpoints[1 - direction];
            (flow.first_ns, flow.last_ns) = (own.first_ns, own.last_ns);
            flow.counters.packets = u64::from(own.packets);
            flow.counters.ip_bytes = own.ip_bytes;
            self.add_signs(direction, flow);
        }
        Some(connection)
    }

    /// The latest time until which a sender that waits for a window can be assumed to wait.
    fn waits_until_ns(&self, now_ns: i64) -> i64 {
        match self.is_over() {
            true => self.last_ns(),
            false => now_ns.clamp(self.last_ns(), self.last_ns() + PROBE_INTERVAL_NS),
        }
    }

    /// Returns the result for the connection, if it carried data, and clears it.
    pub fn finish(&mut self, now_ns: i64) -> Option<Connection> {
        let mut connection = self.connection(now_ns);
        let halves = self.halves.take()?;
        let beginnings = [halves[0].beginning, halves[1].beginning];
        let sent = [halves[0].next, halves[1].next];
        connection.control = control::program(self.endpoints, beginnings, sent);
        connection.carries_load = control::carries_load(beginnings);
        let only_greet = control::only_greet(beginnings, sent);
        let (keeps_acknowledgments, accounts) =
            (halves[1].keep_acknowledgments, halves[1].account_for_time);
        let mut echoes = [None, None];
        for (direction, half) in halves.into_iter().enumerate() {
            let (mut flow, echoed) = self.finish_half(direction, half, now_ns);
            flow.only_greets = only_greet[direction];
            let unanswered = connection.unanswered[direction];
            if connection.outcome == Outcome::DataUnanswered && unanswered.is_dead() {
                let since_ns = unanswered.last_answer_ns.unwrap_or(i64::MIN);
                flow.signs_mut().unanswered_since_ns = Some(since_ns);
            }
            echoes[direction] = echoed;
            connection.flows[direction] = flow;
        }
        let near_rtts_ns = self.locate(&mut connection);
        for direction in (0..2).filter(|_| accounts) {
            let alone = self.opening[1 - direction].packets == 0;
            let echoed = self.echoed.as_deref().filter(|_| alone);
            let echoes = echoes[direction].as_deref();
            account_for_time(&mut connection, direction, near_rtts_ns, echoes, echoed);
        }
        if !keeps_acknowledgments {
            for flow in &mut connection.flows {
                flow.acknowledgments = Vec::new();
            }
        }
        Some(connection)
    }

    /// The flow of one direction, and the timestamps of its data.
    fn finish_half(
        &self,
        direction: usize,
        mut half: Half,
        now_ns: i64,
    ) -> (Flow, Option<Box<Echoes>>) {
        half.end_closed_window(self.waits_until_ns(now_ns));
        let mut echoes = half.echoes.take();
        if let (Some(echoes), Some(first)) = (&mut echoes, half.first_clock) {
            echoes.begin(self.opening[direction].clock(), first);
        }
        let ended_ns = match self.is_over() {
            true => self.last_ns(),
            false => now_ns,
        };
        let open_hole = half.open_hole(ended_ns);
        let mut flow = half.finish();
        if open_hole.is_some() {
            flow.signs_mut().open_hole = open_hole;
        }
        if self.opening[1 - direction].packets == 0 {
            flow.believe_delivered();
        }
        self.add_signs(direction, &mut flow);
        (flow, echoes)
    }

    /// Finds where the capture was taken, for both flows; returns the round-trip times to both ends.
    fn locate(&self, connection: &mut Connection) -> Option<(i64, i64)> {
        let ttls = [self.opening[0].ttl, self.opening[1].ttl];
        let near_rtts_ns = self
            .near_rtts_ns()
            .or_else(|| vantage::near_rtts_by_requests(&connection.flows, ttls));
        for (direction, flow) in connection.flows.iter_mut().enumerate() {
            flow.vantage = vantage::vantage(near_rtts_ns, ttls, direction);
        }
        near_rtts_ns
    }
}
