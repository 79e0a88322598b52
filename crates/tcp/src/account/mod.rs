//! The account of all time: each moment of a flow belongs to what kept its sender from sending more.
//!
//! Time is the sender's ([`SenderClock`]). Where the capture was taken elsewhere, what passes there is moved: data left its
//! sender half of the near round trip earlier, an acknowledgment reaches it as much later. Only the sum of both counts,
//! so an uneven path does no harm.
//!
//! The stretch between two packets belongs to what the sender waited for, which shows when it ends: by an
//! acknowledgment that made room, by the window that opened, by a timer, or by nothing of that, when there was nothing
//! to send before.

mod first_answer;
mod silence;

use std::collections::VecDeque;

use crate::flow::{Acknowledgment, Fate, Flow, Handshake, Kind, Segment, SegmentFlags};
use crate::limits::{Account, ByClocks, Limiter};
use crate::quantile::quantile_in;
use crate::recovery::{DUPLICATES, Recoveries};
use crate::round_trip::{Heard, RoundTrip};
use crate::rounds::{RELEASE_NS, Rounds, loses_nothing_before};
use crate::sender_clock::{Echoes, SenderClock};

use silence::{LONG, MOST_HELD_NS};

/// ... or this share of the round trip, since a near round trip by the handshake is not the same for all packets.
const RELEASE_SHARE: f64 = 0.1;

/// The input of an account.
pub(crate) struct Told<'a> {
    pub flow: &'a Flow,
    /// When the latest data of the other direction passed, up to a time: a request.
    pub request_until: &'a dyn Fn(i64) -> Option<i64>,
    pub handshake: Handshake,
    /// This flow's sender accepted the connection.
    pub is_responder: bool,
    /// From the capture point to this flow's sender and back, and to its receiver, by the handshake.
    pub near_rtts_ns: Option<(i64, i64)>,
    pub echoes: Option<&'a Echoes>,
    /// The round trip, where the flow's acknowledgments were not captured but told by echoed timestamps.
    pub echoed_rtt_ns: Option<i64>,
}

/// An account of the flow's time; `None` where acknowledgments of its data were not captured, and no request for it either.
pub(crate) fn account(told: &Told) -> Option<Box<Account>> {
    let has_acknowledgments = told.flow.acknowledgments.iter().any(|a| a.acknowledged > 0);
    if told.flow.segments.is_empty() {
        return None;
    }
    if !has_acknowledgments {
        return first_answer::account(told).map(Box::new);
    }
    let mut account = Walk::new(told).run();
    // thousands of small connections may be kept
    account.spans.shrink_to_fit();
    account.transfers.shrink_to_fit();
    if let Some(echoes) = told.echoes {
        account.usual_near_rtt_ns = echoes.usual_near_rtt_ns(told.flow);
        echoes.tell_waits(told.flow, &mut account.by_clocks);
    }
    Some(Box::new(account))
}

fn is_by_timer(segment: &Segment) -> bool {
    matches!(segment.kind, Kind::Timeout | Kind::TailLossProbe)
}

struct Walk<'a> {
    told: &'a Told<'a>,
    clock: SenderClock,
    rounds: Rounds,
    account: Account,
    mss: i64,
    round_trip: RoundTrip<'a>,
    /// Hardly any round trip is longer.
    long_rtt_ns: i64,
    next: i64,
    acknowledged: i64,
    /// Acknowledgments that told windows, and when they were heard. More than the last only for as long as the order of
    /// packets and acknowledgments at the sender is in doubt.
    windows: VecDeque<(i64, Acknowledgment)>,
    last_sent_ns: i64,
    /// When the packet before the last one left.
    sent_before_ns: i64,
    last_heard_ns: i64,
    last_bytes: i64,
    /// When a timer last made it send again for nothing, until it hears something.
    again_ns: Option<i64>,
    recoveries: Recoveries,
    /// The next segment to leave.
    leaving: usize,
    /// The limiter before the sender last sent, timers and recoveries apart.
    before: Option<Limiter>,
    /// From when on the account tells of the answer.
    answer_ns: i64,
    /// One past the last byte of the answer.
    answer_end: i64,
    /// Next acknowledgment to come.
    coming: usize,
    slack_ns: i64,
    lost_share: f64,
    /// Something was lost between the sender and the capture point.
    lost_before: bool,
    /// When the receive window was full for the last time, and nothing was repaired.
    filled_ns: Option<i64>,
    /// When a recovery was on for the last time.
    repaired_ns: i64,
    /// Retransmissions by timers, each of which might begin a run of losses.
    timeouts: usize,
    /// When the last acknowledgment was heard before an outage.
    silent_since_ns: Option<i64>,
}

impl<'a> Walk<'a> {
    fn new(told: &'a Told<'a>) -> Self {
        let near_rtt_ns = told.near_rtts_ns.map(|(near, _)| near);
        let clock = SenderClock::of(told.flow, near_rtt_ns, told.echoes);
        let handshake_ns = told.near_rtts_ns.map(|(a, b)| a.saturating_add(b));
        let exact = |segment: &&Segment| segment.flags.has(SegmentFlags::RTT_EXACT);
        let sampled_ns = told.flow.segments.iter().filter(exact);
        let sampled_ns = sampled_ns
            .map(|segment| segment.rtt_ns.saturating_add(clock.near_rtt_ns))
            .min();
        let known_ns = [handshake_ns, sampled_ns, told.echoed_rtt_ns];
        let base_rtt_ns = known_ns.into_iter().flatten().min().unwrap_or(0);
        let usual_rtt_ns = told.echoed_rtt_ns.unwrap_or_else(|| {
            let mut all_ns: Vec<i64> = told.flow.segments.iter().map(|s| s.rtt_ns).collect();
            quantile_in(&mut all_ns, 0.5).saturating_add(clock.near_rtt_ns)
        });
        let slack_ns = RELEASE_NS.max((base_rtt_ns as f64 * RELEASE_SHARE) as i64);
        let by_echoes = told.echoed_rtt_ns.is_some();
        let rounds = Rounds::of(
            told.flow,
            &clock,
            base_rtt_ns,
            slack_ns,
            by_echoes,
            told.handshake.syn_ack_ns.is_some(),
        );
        let (mut lost, mut timeouts) = (0, 0);
        for segment in &told.flow.segments {
            lost += usize::from(segment.fate == Fate::Lost);
            timeouts += usize::from(is_by_timer(segment));
        }
        let by_clocks = by_echoes.then(|| {
            Box::new(ByClocks {
                echoed_rtt_ns: told.echoed_rtt_ns,
                stands: rounds.stands_unseen(),
                ..ByClocks::default()
            })
        });
        let account = Account {
            near_rtt_ns: clock.known_near_rtt_ns,
            sees_waits: clock.longest_queued_ns.is_some(),
            by_clocks,
            ..Account::default()
        };
        Self {
            told,
            rounds,
            clock,
            account,
            mss: i64::from(told.flow.full_bytes()),
            round_trip: RoundTrip::of(told.flow, base_rtt_ns),
            long_rtt_ns: usual_rtt_ns.saturating_mul(LONG),
            next: 0,
            acknowledged: 0,
            windows: VecDeque::new(),
            last_sent_ns: 0,
            sent_before_ns: 0,
            last_heard_ns: 0,
            last_bytes: 0,
            again_ns: None,
            recoveries: Recoveries::of(told.flow),
            leaving: 0,
            before: None,
            answer_ns: 0,
            answer_end: 0,
            coming: 0,
            slack_ns,
            lost_share: lost as f64 / told.flow.segments.len().max(1) as f64,
            lost_before: !loses_nothing_before(told.flow),
            filled_ns: None,
            repaired_ns: i64::MIN,
            timeouts,
            silent_since_ns: None,
        }
    }

    fn run(mut self) -> Account {
        let flow = self.told.flow;
        self.set_up();
        let transfers = flow.transfers.clone();
        for (number, transfer) in transfers.iter().enumerate() {
            let from_ns = self.begin_transfer(number, transfer.first);
            let own = &flow.segments[transfer.first..transfer.end];
            self.answer_end = own.iter().map(Segment::end).max().unwrap_or(0);
            let mut index = transfer.first;
            while index < transfer.end {
                index = self.burst(index, transfer.end, index == transfer.first);
            }
            let bound_ns = transfers
                .get(number + 1)
                .map_or(i64::MAX, |next| self.clock.sent_ns[next.first]);
            let until_ns = self.tail(bound_ns);
            self.account.transfers.push((from_ns, until_ns));
        }
        self.account
    }

    /// From the first SYN until the sender knows that the connection stands.
    fn set_up(&mut self) {
        let first = &self.told.flow.segments[0];
        let begin_ns = self.clock.sent_ns[0];
        self.next = first.sequence;
        self.acknowledged = first.sequence;
        self.last_sent_ns = begin_ns;
        self.last_heard_ns = begin_ns;
        let handshake = &self.told.handshake;
        let (syn_ack_ns, ack_ns) = match (handshake.syn_ack_ns, handshake.ack_ns) {
            (Some(syn_ack_ns), Some(ack_ns)) => (syn_ack_ns, ack_ns),
            // the answer was missed, and what the initiator acknowledges first comes behind it
            (None, _) if self.told.is_responder && handshake.syn_ns.is_some() => {
                let first = self.told.flow.acknowledgments.first();
                let Some(first_ns) = first.map(|first| first.time_ns) else {
                    return;
                };
                (first_ns, first_ns)
            }
            _ => return,
        };
        // the responder hears SYN and ACK later than they pass; the initiator sent the first and hears the answer
        let (from_ns, until_ns) = match (self.told.is_responder, handshake.syn_ns) {
            (true, Some(syn_ns)) => (self.clock.arrives_ns(syn_ns), self.clock.arrives_ns(ack_ns)),
            (true, None) => (
                self.clock.left_ns(syn_ack_ns),
                self.clock.arrives_ns(ack_ns),
            ),
            (false, Some(syn_ns)) => (
                self.clock.left_ns(syn_ns),
                self.clock.arrives_ns(syn_ack_ns),
            ),
            (false, None) => return,
        };
        let until_ns = until_ns.min(begin_ns);
        if from_ns < until_ns {
            self.account
                .push(until_ns, from_ns, Limiter::ConnectionSetup);
            self.last_sent_ns = until_ns;
            self.last_heard_ns = until_ns;
        }
    }

    /// Account for the time before a transfer's first packet; return when the transfer begins.
    fn begin_transfer(&mut self, number: usize, first: usize) -> i64 {
        let segment_ns = self.clock.sent_ns[first];
        let done_ns = self.account.bounds().map(|(_, until_ns)| until_ns);
        let request_ns = self.request_before(first);
        let asked_ns = request_ns.filter(|_| self.told.is_responder);
        let begins_ns = match asked_ns {
            Some(ns) => ns.max(done_ns.unwrap_or(ns)).min(segment_ns),
            // nobody asks whoever began the connection: its pauses are between transfers
            None if number > 0 => segment_ns,
            None => done_ns.unwrap_or(segment_ns).min(segment_ns),
        };
        let from_ns = done_ns.unwrap_or(begins_ns);
        // nothing is asked for
        self.account.push(begins_ns, from_ns, Limiter::Application);
        // whoever opens a connection and says nothing waits to be greeted
        let greets = number == 0 && self.told.handshake.syn_ack_ns.is_some();
        let limiter = match self.told.is_responder && (request_ns.is_some() || greets) {
            true => Limiter::PeerApplication,
            false => Limiter::Application,
        };
        self.account.push(segment_ns, begins_ns, limiter);
        self.before = None;
        self.answer_ns = segment_ns;
        match number {
            0 => self
                .account
                .bounds()
                .map_or(segment_ns, |(from_ns, _)| from_ns),
            _ => begins_ns,
        }
    }

    /// When the last of a request reached this sender that it answers with the segment `first`: one that came after all
    /// that was sent before.
    fn request_before(&self, first: usize) -> Option<i64> {
        let segments = &self.told.flow.segments;
        let request_ns = (self.told.request_until)(segments[first].time_ns)?;
        let is_new = first == 0 || request_ns > segments[first - 1].time_ns;
        // a near round trip that varies must not bring the request after its answer
        is_new.then(|| {
            self.clock
                .arrives_ns(request_ns)
                .min(self.clock.sent_ns[first])
        })
    }

    /// Takes the packets of one instant, and says what the time before them belongs to.
    fn burst(&mut self, first: usize, end: usize, begins_transfer: bool) -> usize {
        let segments = &self.told.flow.segments[..end];
        let segment = segments[first];
        let now_ns = self.clock.sent_ns[first].max(self.last_sent_ns);
        if !begins_transfer {
            self.wait_for(&segment, now_ns);
        }
        self.hear_until(now_ns);
        let mut index = first;
        while let Some(sent) = segments.get(index).filter(|s| s.time_ns <= segment.time_ns) {
            self.send(sent);
            index += 1;
        }
        if is_by_timer(&segment) && segment.flags.has(SegmentFlags::SPURIOUS) {
            return index; // what is acknowledged is what it repeats
        }
        self.sent_before_ns = if index > first + 1 {
            now_ns
        } else {
            self.last_sent_ns
        };
        self.last_sent_ns = now_ns;
        index
    }

    fn send(&mut self, segment: &Segment) {
        self.recoveries
            .send(segment, self.acknowledged, self.next, self.mss);
        self.leaving += 1;
        self.last_bytes = i64::from(segment.payload_bytes);
        self.next = self.next.max(segment.end());
    }

    /// The stretch from the last packet to this one.
    fn wait_for(&mut self, segment: &Segment, now_ns: i64) {
        if self.recoveries.is_on() {
            self.repaired_ns = now_ns;
        }
        let by_timer = is_by_timer(segment) || self.probes_tail(segment, now_ns);
        let spurious = segment.flags.has(SegmentFlags::SPURIOUS);
        if by_timer && spurious {
            self.again_ns = Some(now_ns);
        }
        let unseen = self.repairs_unseen(segment, now_ns);
        let limiter = match unseen {
            true => self
                .before
                .unwrap_or(self.rounds.window_at(self.last_sent_ns)),
            false => self.limiter_of(segment, now_ns),
        };
        self.suffer_outage(segment, now_ns, limiter);
        // an application that pauses waits for no acknowledgment; Nagle's algorithm does, until this packet leaves
        let waits = match limiter {
            _ if self.next >= self.answer_end => true,
            Limiter::Pacing => false,
            Limiter::Application => self.released_at(now_ns).0,
            _ => true,
        };
        while let Some(acknowledgment) = self.next_heard(now_ns) {
            let heard_ns = self.clock.heard_ns[self.coming].min(now_ns);
            let held = Some(acknowledgment).filter(|_| waits);
            self.wait_until(heard_ns, limiter, held);
            self.hear(&acknowledgment);
        }
        if unseen {
            let due_ns = self.last_heard_ns.saturating_add(self.round_trip.recent_ns);
            self.wait_until(due_ns.min(now_ns), limiter, None);
            self.recoveries.begin(self.acknowledged, segment.end());
            self.wait_until(now_ns, Limiter::LossRecovery, None);
        } else if by_timer {
            let due_ns = self.last_sent_ns.saturating_add(self.round_trip.recent_ns);
            let due_ns = due_ns.max(self.last_heard_ns);
            self.wait_until(due_ns.min(now_ns), limiter, None);
            let late = match spurious {
                true => self.late_answer(),
                false => Limiter::LossRecovery,
            };
            self.wait_until(now_ns, late, None);
        } else {
            self.wait_until(now_ns, limiter, None);
        }
        if !by_timer && !unseen && !self.recoveries.is_on() {
            self.before = Some(limiter);
        }
    }

    /// Gives the time until then to `limiter`, save for what an acknowledgment that ends it was held back.
    fn wait_until(&mut self, until_ns: i64, limiter: Limiter, ended_by: Option<Acknowledgment>) {
        let from_ns = self
            .account
            .bounds()
            .map_or(self.last_sent_ns, |(_, ns)| ns);
        let limiter = if self.recoveries.is_on() {
            Limiter::LossRecovery
        } else {
            limiter
        };
        let held_ns = ended_by
            .filter(|_| !self.recoveries.is_on())
            .and_then(|acknowledgment| self.held_from_ns(&acknowledgment, until_ns));
        if let Some(held_ns) = held_ns {
            self.account.push(held_ns, from_ns, limiter);
            self.account.push(until_ns, from_ns, Limiter::DelayedAck);
        } else {
            self.account.push(until_ns, from_ns, limiter);
        }
    }

    /// The next acknowledgment that reached the sender by then. The near round trip varies: what passed before the packet
    /// that left then, and acknowledges all before that, is what the packet waited for.
    fn next_heard(&self, until_ns: i64) -> Option<Acknowledgment> {
        let near_rtt_ns = self.clock.near_rtt_ns;
        let next = self.told.flow.acknowledgments.get(self.coming).copied();
        next.filter(|acknowledgment| {
            let late_ns = self.clock.heard_ns[self.coming].saturating_sub(until_ns);
            let releases = acknowledgment.acknowledged >= self.next
                && self.next > self.acknowledged
                && acknowledgment.time_ns <= until_ns.saturating_add(near_rtt_ns / 2);
            late_ns <= 0 || (releases && late_ns <= near_rtt_ns / 4)
        })
    }

    fn hear_until(&mut self, now_ns: i64) {
        while let Some(acknowledgment) = self.next_heard(now_ns) {
            self.hear(&acknowledgment);
        }
    }

    fn hear(&mut self, acknowledgment: &Acknowledgment) {
        let heard_ns = self.clock.heard_ns[self.coming];
        self.again_ns = self.again_ns.filter(|ns| heard_ns < *ns);
        self.coming += 1;
        let heard = Heard {
            at_ns: heard_ns,
            before_ns: self.last_heard_ns,
            acknowledged: acknowledgment.acknowledged,
            bytes: acknowledgment.acknowledged - self.acknowledged,
            all: acknowledgment.acknowledged >= self.next && self.next > self.acknowledged,
            together: self.last_sent_ns - self.sent_before_ns <= self.slack_ns,
            last_sent_ns: self.last_sent_ns,
        };
        self.round_trip.hear(&heard, &self.clock);
        let (acknowledged, was) = (acknowledgment.acknowledged, self.acknowledged);
        let (clock, coming) = (&self.clock, self.coming);
        let told = || {
            let told_ns = clock.heard_ns.get(coming + DUPLICATES - 1);
            told_ns.map_or(usize::MAX, |ns| {
                clock.sent_ns.partition_point(|sent_ns| sent_ns < ns)
            })
        };
        self.recoveries
            .hear(acknowledged, was, self.next, self.leaving, told);
        self.acknowledged = was.max(acknowledged);
        if acknowledgment.window_bytes >= 0 {
            self.windows.push_back((heard_ns, *acknowledgment));
        } else {
            self.windows.clear();
        }
        self.last_heard_ns = heard_ns.max(self.last_heard_ns);
    }

    /// One past the last byte that the receiver allowed when the last packet left. A window that the receiver still opens
    /// further is not the limit because it might have been so a moment before.
    fn edge(&mut self) -> Option<i64> {
        let certain_ns = self.last_sent_ns - self.clock.doubt_ns;
        while (self.windows.get(1)).is_some_and(|(heard_ns, _)| *heard_ns <= certain_ns) {
            self.windows.pop_front();
        }
        let ((_, first), (_, last)) = (self.windows.front()?, self.windows.back()?);
        let settled = self.rounds.window_at(self.last_sent_ns) != Limiter::SlowStart;
        let slides =
            self.before == Some(Limiter::ReceiveWindow) && last.window_bytes <= first.window_bytes;
        let known = if settled || slides { first } else { last };
        Some(known.acknowledged + known.window_bytes)
    }

    /// The limiter of a sender that sends `segment` next.
    fn limiter_of(&mut self, segment: &Segment, now_ns: i64) -> Limiter {
        if segment.kind != Kind::New || segment.flags.has(SegmentFlags::INFERRED) {
            return match self.next >= self.answer_end {
                true => self.limiter_of_tail(now_ns),
                false => self.before.unwrap_or(self.rounds.window_at(now_ns)),
            };
        }
        if self.rounds.is_next_by_rate(now_ns - self.last_sent_ns) {
            return Limiter::Pacing;
        }
        let goes_on =
            now_ns - self.last_sent_ns <= self.rounds.pause_ns && self.next_heard(now_ns).is_none();
        if let Some(before) = self.before.filter(|_| goes_on) {
            return before; // with what went before, as fast as the line takes it
        }
        let bytes = i64::from(segment.payload_bytes);
        if self.edge().is_some_and(|edge| edge - self.next < bytes) {
            // what was out behind a hole filled it only until that was repaired
            let certain_ns = self.last_sent_ns.saturating_sub(self.clock.doubt_ns);
            let repairs = self.recoveries.is_on() || certain_ns <= self.repaired_ns;
            self.filled_ns = (!repairs).then_some(now_ns);
            return Limiter::ReceiveWindow;
        }
        // what is left over of a write is small, and the next packet did not wait for anything
        let (released, empty_ns) = self.released_at(now_ns);
        let own_time = self.rounds.own_time;
        let left_over = self.last_bytes < self.mss && (!released || own_time.ends_small);
        let by_itself = (own_time.unreleased || own_time.ends_small)
            && !released
            && self.rounds.paced_gap_ns.is_none();
        let idle_ns = self.slack_ns.saturating_add(self.rounds.full_packet_ns);
        if empty_ns > idle_ns || left_over || by_itself {
            return Limiter::Application;
        }
        if self.last_bytes < self.mss && bytes < self.mss {
            return Limiter::Application; // Nagle's algorithm waits until all is acknowledged
        }
        // a sender that spreads what the receiver allows over a round trip fills that now and then
        let spreads = |ns: i64| now_ns.saturating_sub(ns) <= self.round_trip.recent_ns;
        if self.filled_ns.is_some_and(spreads) {
            return Limiter::ReceiveWindow;
        }
        self.rounds
            .limiter_at(self.last_sent_ns, now_ns, self.next - self.acknowledged)
    }

    /// Find out if an acknowledgment came just before, and for how long nothing had been out by then.
    fn released_at(&self, now_ns: i64) -> (bool, i64) {
        let mut heard_ns = self.last_heard_ns;
        let mut empty_since_ns = (self.acknowledged >= self.next).then_some(self.last_heard_ns);
        let coming = &self.told.flow.acknowledgments[self.coming..];
        for (acknowledgment, &at_ns) in coming.iter().zip(&self.clock.heard_ns[self.coming..]) {
            let releases = acknowledgment.acknowledged >= self.next
                && acknowledgment.time_ns <= now_ns + self.clock.near_rtt_ns / 2;
            if at_ns > now_ns && !(releases && at_ns - now_ns <= self.clock.near_rtt_ns / 4) {
                break;
            }
            heard_ns = at_ns.min(now_ns);
            if acknowledgment.acknowledged >= self.next {
                empty_since_ns = empty_since_ns.or(Some(heard_ns));
            }
        }
        let empty_ns = empty_since_ns.map_or(0, |since_ns| now_ns - since_ns);
        let release_ns = self.slack_ns.saturating_add(self.rounds.full_packet_ns);
        (now_ns - heard_ns <= release_ns, empty_ns)
    }

    /// The limiter of the answer for longest just before its tail, which lasts until then, within as much time: a window that
    /// is nearly full changes its limit with each acknowledgment, and the last of these instants is nothing but chance.
    fn limiter_of_tail(&self, until_ns: i64) -> Limiter {
        let bounds = self.account.bounds();
        let tail_ns = bounds.map_or(self.last_sent_ns, |(_, until_ns)| until_ns);
        let since_ns = tail_ns.saturating_sub(until_ns.saturating_sub(tail_ns));
        let times_ns = self.account.times_ns(since_ns.max(self.answer_ns), tail_ns);
        let longest = Limiter::ALL.into_iter().zip(times_ns);
        let longest = longest
            // of what the sender waits for, and not of what came late meanwhile
            .filter(|(limiter, ns)| {
                *ns > 0 && !matches!(limiter, Limiter::DelayedAck | Limiter::Outage)
            })
            .max_by_key(|(_, ns)| *ns);
        let longest = longest.map(|(limiter, _)| limiter).or(self.before);
        longest.unwrap_or(self.rounds.window_at(self.last_sent_ns))
    }

    /// When the sender hears that all of what is out was received.
    fn acknowledged_at_ns(&self) -> i64 {
        let coming = &self.told.flow.acknowledgments[self.coming..];
        let all = coming.iter().position(|a| a.acknowledged >= self.next);
        all.map_or(i64::MAX, |all| self.clock.heard_ns[self.coming + all])
    }

    /// All of an answer is out: until it is acknowledged.
    fn tail(&mut self, bound_ns: i64) -> i64 {
        let ends_ns = self.acknowledged_at_ns().min(bound_ns);
        let mut before = None;
        while self.acknowledged < self.next {
            let Some(acknowledgment) = self.next_heard(bound_ns) else {
                break;
            };
            let heard_ns = self.clock.heard_ns[self.coming];
            let limiter = match self.recoveries.is_on() {
                true => Limiter::LossRecovery,
                false => *before.get_or_insert_with(|| self.limiter_of_tail(ends_ns)),
            };
            // a sender that hears of nothing for so long retransmits (RFC 6298): it heard what was not captured
            let silent_ns = heard_ns.saturating_sub(self.last_sent_ns.max(self.last_heard_ns));
            if silent_ns > MOST_HELD_NS.saturating_add(self.long_rtt_ns) {
                let due_ns = self.last_sent_ns.saturating_add(self.round_trip.recent_ns);
                self.wait_until(due_ns.max(self.last_heard_ns), limiter, None);
                break;
            }
            self.wait_until(heard_ns, limiter, Some(acknowledgment));
            self.hear(&acknowledgment);
        }
        self.account
            .bounds()
            .map_or(self.last_sent_ns, |(_, until_ns)| until_ns)
    }
}
