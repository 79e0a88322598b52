//! The account of all time: attributes each moment of a flow to the limiter that kept its sender from sending more.
//!
//! Time is the sender's ([`SenderClock`]). If the capture was taken elsewhere, packets are shifted: data left its
//! sender half of the near round trip earlier, and an acknowledgment reaches it as much later. Only the sum of both
//! matters, so an asymmetric path does no harm.
//!
//! The time between two packets is attributed to what the sender waited for. That shows when the wait ends: by an
//! acknowledgment that made room, by a window that opened, by a timer, or by none of these, if there was no data to
//! send.

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

use silence::{LONG, LONGEST_ACK_DELAY_NS};

/// ... or this share of the round trip, since the near round trip from the handshake varies between packets.
const RELEASE_SHARE: f64 = 0.1;

/// The input of an account.
pub(crate) struct AccountInput<'a> {
    pub flow: &'a Flow,
    /// Returns when the latest data of the other direction (a request) passed before a given time.
    pub request_until: &'a dyn Fn(i64) -> Option<i64>,
    pub handshake: Handshake,
    /// This flow's sender accepted the connection.
    pub is_responder: bool,
    /// Round-trip times from the capture point to this flow's sender and to its receiver, from the handshake.
    pub near_rtts_ns: Option<(i64, i64)>,
    pub echoes: Option<&'a Echoes>,
    /// The round trip, if the flow's acknowledgments were not captured but inferred from echoed timestamps.
    pub echoed_rtt_ns: Option<i64>,
}

/// Computes the account of the flow's time; `None` if neither acknowledgments of its data nor a request for it were
/// captured.
pub(crate) fn account(input: &AccountInput) -> Option<Box<Account>> {
    let has_acknowledgments = input
        .flow
        .acknowledgments
        .iter()
        .any(|a| a.acknowledged > 0);
    if input.flow.segments.is_empty() {
        return None;
    }
    if !has_acknowledgments {
        return first_answer::account(input).map(Box::new);
    }
    let mut account = Walk::new(input).run();
    // thousands of small connections may be kept in memory
    account.spans.shrink_to_fit();
    account.transfers.shrink_to_fit();
    if let Some(echoes) = input.echoes {
        account.usual_near_rtt_ns = echoes.usual_near_rtt_ns(input.flow);
        echoes.add_waits(input.flow, &mut account.by_clocks);
    }
    Some(Box::new(account))
}

fn is_by_timer(segment: &Segment) -> bool {
    matches!(segment.kind, Kind::Timeout | Kind::TailLossProbe)
}

struct Walk<'a> {
    input: &'a AccountInput<'a>,
    clock: SenderClock,
    rounds: Rounds,
    account: Account,
    mss: i64,
    round_trip: RoundTrip<'a>,
    /// Hardly any round trip is longer.
    long_rtt_ns: i64,
    next: i64,
    acknowledged: i64,
    /// Acknowledgments with windows, and when they arrived. More than the last one is kept only while the order of
    /// packets and acknowledgments at the sender is uncertain.
    windows: VecDeque<(i64, Acknowledgment)>,
    last_sent_ns: i64,
    /// When the packet before the last one left.
    sent_before_ns: i64,
    last_heard_ns: i64,
    last_bytes: i64,
    /// When a timer last caused a spurious retransmission; cleared when an acknowledgment arrives.
    spurious_ns: Option<i64>,
    recoveries: Recoveries,
    /// The next segment to leave.
    leaving: usize,
    /// The limiter before the sender last sent, except timers and recoveries.
    before: Option<Limiter>,
    /// Start of the answer; earlier time is not attributed to it.
    answer_ns: i64,
    /// One past the last byte of the answer.
    answer_end: i64,
    /// The next acknowledgment to arrive.
    coming: usize,
    slack_ns: i64,
    lost_share: f64,
    /// Packets were lost between the sender and the capture point.
    lost_before: bool,
    /// When the receive window was last full without a recovery in progress.
    filled_ns: Option<i64>,
    /// When a recovery was last in progress.
    repaired_ns: i64,
    /// Retransmissions by timers; each might begin a run of losses.
    timeouts: usize,
    /// Arrival of the last acknowledgment before an outage.
    silent_since_ns: Option<i64>,
}

impl<'a> Walk<'a> {
    fn new(input: &'a AccountInput<'a>) -> Self {
        let near_rtt_ns = input.near_rtts_ns.map(|(near, _)| near);
        let clock = SenderClock::of(input.flow, near_rtt_ns, input.echoes);
        let handshake_ns = input.near_rtts_ns.map(|(a, b)| a.saturating_add(b));
        let exact = |segment: &&Segment| segment.flags.has(SegmentFlags::RTT_EXACT);
        let sampled_ns = input.flow.segments.iter().filter(exact);
        let sampled_ns = sampled_ns
            .map(|segment| segment.rtt_ns.saturating_add(clock.near_rtt_ns))
            .min();
        let known_ns = [handshake_ns, sampled_ns, input.echoed_rtt_ns];
        let base_rtt_ns = known_ns.into_iter().flatten().min().unwrap_or(0);
        let usual_rtt_ns = input.echoed_rtt_ns.unwrap_or_else(|| {
            let mut all_ns: Vec<i64> = input.flow.segments.iter().map(|s| s.rtt_ns).collect();
            quantile_in(&mut all_ns, 0.5).saturating_add(clock.near_rtt_ns)
        });
        let slack_ns = RELEASE_NS.max((base_rtt_ns as f64 * RELEASE_SHARE) as i64);
        let by_echoes = input.echoed_rtt_ns.is_some();
        let rounds = Rounds::of(
            input.flow,
            &clock,
            base_rtt_ns,
            slack_ns,
            by_echoes,
            input.handshake.syn_ack_ns.is_some(),
        );
        let (mut lost, mut timeouts) = (0, 0);
        for segment in &input.flow.segments {
            lost += usize::from(segment.fate == Fate::Lost);
            timeouts += usize::from(is_by_timer(segment));
        }
        let by_clocks = by_echoes.then(|| {
            Box::new(ByClocks {
                echoed_rtt_ns: input.echoed_rtt_ns,
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
            input,
            rounds,
            clock,
            account,
            mss: i64::from(input.flow.full_bytes()),
            round_trip: RoundTrip::of(input.flow, base_rtt_ns),
            long_rtt_ns: usual_rtt_ns.saturating_mul(LONG),
            next: 0,
            acknowledged: 0,
            windows: VecDeque::new(),
            last_sent_ns: 0,
            sent_before_ns: 0,
            last_heard_ns: 0,
            last_bytes: 0,
            spurious_ns: None,
            recoveries: Recoveries::of(input.flow),
            leaving: 0,
            before: None,
            answer_ns: 0,
            answer_end: 0,
            coming: 0,
            slack_ns,
            lost_share: lost as f64 / input.flow.segments.len().max(1) as f64,
            lost_before: !loses_nothing_before(input.flow),
            filled_ns: None,
            repaired_ns: i64::MIN,
            timeouts,
            silent_since_ns: None,
        }
    }

    fn run(mut self) -> Account {
        let flow = self.input.flow;
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

    /// Accounts for the time from the first SYN until the sender knows that the connection is established.
    fn set_up(&mut self) {
        let first = &self.input.flow.segments[0];
        let begin_ns = self.clock.sent_ns[0];
        self.next = first.sequence;
        self.acknowledged = first.sequence;
        self.last_sent_ns = begin_ns;
        self.last_heard_ns = begin_ns;
        let handshake = &self.input.handshake;
        let (syn_ack_ns, ack_ns) = match (handshake.syn_ack_ns, handshake.ack_ns) {
            (Some(syn_ack_ns), Some(ack_ns)) => (syn_ack_ns, ack_ns),
            // the SYN/ACK was not captured; the initiator's first acknowledgment follows it
            (None, _) if self.input.is_responder && handshake.syn_ns.is_some() => {
                let first = self.input.flow.acknowledgments.first();
                let Some(first_ns) = first.map(|first| first.time_ns) else {
                    return;
                };
                (first_ns, first_ns)
            }
            _ => return,
        };
        // the responder receives SYN and ACK later than they pass; the initiator sent the SYN earlier and receives the
        // SYN/ACK later
        let (from_ns, until_ns) = match (self.input.is_responder, handshake.syn_ns) {
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

    /// Accounts for the time before a transfer's first packet; returns when the transfer begins.
    fn begin_transfer(&mut self, number: usize, first: usize) -> i64 {
        let segment_ns = self.clock.sent_ns[first];
        let done_ns = self.account.bounds().map(|(_, until_ns)| until_ns);
        let request_ns = self.request_before(first);
        let asked_ns = request_ns.filter(|_| self.input.is_responder);
        let begins_ns = match asked_ns {
            Some(ns) => ns.max(done_ns.unwrap_or(ns)).min(segment_ns),
            // the initiator of a connection needs no request: its pauses lie between transfers
            None if number > 0 => segment_ns,
            None => done_ns.unwrap_or(segment_ns).min(segment_ns),
        };
        let from_ns = done_ns.unwrap_or(begins_ns);
        // no request precedes the data
        self.account.push(begins_ns, from_ns, Limiter::Application);
        // an initiator that sends no data at first waits for the responder's greeting
        let greets = number == 0 && self.input.handshake.syn_ack_ns.is_some();
        let limiter = match self.input.is_responder && (request_ns.is_some() || greets) {
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

    /// Returns when the end of a request reached this sender, which answers it with segment `first`. The request must
    /// have arrived after all earlier data was sent.
    fn request_before(&self, first: usize) -> Option<i64> {
        let segments = &self.input.flow.segments;
        let request_ns = (self.input.request_until)(segments[first].time_ns)?;
        let is_new = first == 0 || request_ns > segments[first - 1].time_ns;
        // the near round trip varies, which must not move the request behind its answer
        is_new.then(|| {
            self.clock
                .arrives_ns(request_ns)
                .min(self.clock.sent_ns[first])
        })
    }

    /// Processes the packets of one instant, and attributes the time before them.
    fn burst(&mut self, first: usize, end: usize, begins_transfer: bool) -> usize {
        let segments = &self.input.flow.segments[..end];
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
            return index; // this acknowledgment covers the data that the sender is retransmitting
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

    /// Attributes the time from the last packet to this one.
    fn wait_for(&mut self, segment: &Segment, now_ns: i64) {
        if self.recoveries.is_on() {
            self.repaired_ns = now_ns;
        }
        let by_timer = is_by_timer(segment) || self.probes_tail(segment, now_ns);
        let spurious = segment.flags.has(SegmentFlags::SPURIOUS);
        if by_timer && spurious {
            self.spurious_ns = Some(now_ns);
        }
        let unseen = self.repairs_unseen(segment, now_ns);
        let limiter = match unseen {
            true => self
                .before
                .unwrap_or(self.rounds.window_at(self.last_sent_ns)),
            false => self.limiter_of(segment, now_ns),
        };
        self.account_outage(segment, now_ns, limiter);
        // an application's pause does not depend on an acknowledgment; Nagle's algorithm does, until this packet leaves
        let waits = match limiter {
            _ if self.next >= self.answer_end => true,
            Limiter::Pacing => false,
            Limiter::Application => self.released_at(now_ns).0,
            _ => true,
        };
        while let Some(acknowledgment) = self.next_heard(now_ns) {
            let heard_ns = self.clock.heard_ns[self.coming].min(now_ns);
            let ended_by = Some(acknowledgment).filter(|_| waits);
            self.wait_until(heard_ns, limiter, ended_by);
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

    /// Attributes the time until then to `limiter`, except the time by which the acknowledgment that ended it was
    /// delayed.
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
        let delayed_ns = ended_by
            .filter(|_| !self.recoveries.is_on())
            .and_then(|acknowledgment| self.delayed_from_ns(&acknowledgment, until_ns));
        if let Some(delayed_ns) = delayed_ns {
            self.account.push(delayed_ns, from_ns, limiter);
            self.account.push(until_ns, from_ns, Limiter::DelayedAck);
        } else {
            self.account.push(until_ns, from_ns, limiter);
        }
    }

    /// The next acknowledgment that reached the sender by then. The near round trip varies: if an acknowledgment of all
    /// earlier data passed before the packet that left then, the packet waited for it.
    fn next_heard(&self, until_ns: i64) -> Option<Acknowledgment> {
        let near_rtt_ns = self.clock.near_rtt_ns;
        let next = self.input.flow.acknowledgments.get(self.coming).copied();
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
        self.spurious_ns = self.spurious_ns.filter(|ns| heard_ns < *ns);
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
        let first_later = || {
            let later_ns = clock.heard_ns.get(coming + DUPLICATES - 1);
            later_ns.map_or(usize::MAX, |ns| {
                clock.sent_ns.partition_point(|sent_ns| sent_ns < ns)
            })
        };
        self.recoveries
            .hear(acknowledged, was, self.next, self.leaving, first_later);
        self.acknowledged = was.max(acknowledged);
        if acknowledgment.window_bytes >= 0 {
            self.windows.push_back((heard_ns, *acknowledgment));
        } else {
            self.windows.clear();
        }
        self.last_heard_ns = heard_ns.max(self.last_heard_ns);
    }

    /// One past the last byte that the receiver allowed when the last packet left. If the receiver opens the window
    /// further, it is not the limit merely because it was nearly full a moment before.
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

    /// The limiter of a sender when it sends `segment` next.
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
            return before; // sent back to back with the previous packet, as fast as the line permits
        }
        let bytes = i64::from(segment.payload_bytes);
        if self.edge().is_some_and(|edge| edge - self.next < bytes) {
            // data outstanding behind a hole filled the window only until the hole was repaired
            let certain_ns = self.last_sent_ns.saturating_sub(self.clock.doubt_ns);
            let repairs = self.recoveries.is_on() || certain_ns <= self.repaired_ns;
            self.filled_ns = (!repairs).then_some(now_ns);
            return Limiter::ReceiveWindow;
        }
        // the remainder of a write is small, and the next packet followed without a wait
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
            return Limiter::Application; // Nagle's algorithm waits until all data is acknowledged
        }
        // a sender that spreads the receive window over a round trip fills the window now and then
        let spreads = |ns: i64| now_ns.saturating_sub(ns) <= self.round_trip.recent_ns;
        if self.filled_ns.is_some_and(spreads) {
            return Limiter::ReceiveWindow;
        }
        self.rounds
            .limiter_at(self.last_sent_ns, now_ns, self.next - self.acknowledged)
    }

    /// True where an acknowledgment arrived just before; and how long no data had been outstanding by then.
    fn released_at(&self, now_ns: i64) -> (bool, i64) {
        let mut heard_ns = self.last_heard_ns;
        let mut empty_since_ns = (self.acknowledged >= self.next).then_some(self.last_heard_ns);
        let coming = &self.input.flow.acknowledgments[self.coming..];
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

    /// The limiter with the most time shortly before the answer's tail, over a span as long as the tail, which lasts
    /// until `until_ns`. A nearly full window changes its limiter with each acknowledgment, so the last instant alone
    /// would be random.
    fn limiter_of_tail(&self, until_ns: i64) -> Limiter {
        let bounds = self.account.bounds();
        let tail_ns = bounds.map_or(self.last_sent_ns, |(_, until_ns)| until_ns);
        let since_ns = tail_ns.saturating_sub(until_ns.saturating_sub(tail_ns));
        let times_ns = self.account.times_ns(since_ns.max(self.answer_ns), tail_ns);
        let longest = Limiter::ALL.into_iter().zip(times_ns);
        let longest = longest
            // only limiters of the sender, not delays of acknowledgments in between
            .filter(|(limiter, ns)| {
                *ns > 0 && !matches!(limiter, Limiter::DelayedAck | Limiter::Outage)
            })
            .max_by_key(|(_, ns)| *ns);
        let longest = longest.map(|(limiter, _)| limiter).or(self.before);
        longest.unwrap_or(self.rounds.window_at(self.last_sent_ns))
    }

    /// When the sender learns that all outstanding data was received.
    fn acknowledged_at_ns(&self) -> i64 {
        let coming = &self.input.flow.acknowledgments[self.coming..];
        let all = coming.iter().position(|a| a.acknowledged >= self.next);
        all.map_or(i64::MAX, |all| self.clock.heard_ns[self.coming + all])
    }

    /// Accounts for the end of an answer: all data is outstanding until it is acknowledged.
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
            // a sender without acknowledgments for this long retransmits (RFC 6298): one arrived that was not captured
            let silent_ns = heard_ns.saturating_sub(self.last_sent_ns.max(self.last_heard_ns));
            if silent_ns > LONGEST_ACK_DELAY_NS.saturating_add(self.long_rtt_ns) {
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
