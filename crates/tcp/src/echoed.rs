//! Inference of acknowledgments that were not captured, from the timestamps that data echoes.
//!
//! If the two directions of a path differ, a capture may contain only the data. Each packet of it still echoes the
//! receiver's clock from the newest acknowledgment that had reached its sender (RFC 7323, sections 3.2 and 4.3). This
//! shows when that acknowledgment left the receiver and by when it had arrived. It also shows what was acknowledged:
//! receivers acknowledge at once or within a timer, so it was all data sent up to a round trip before.
//!
//! Of windows, the echoes show one property. A receiver that has acknowledged all data sends a further acknowledgment
//! only to open its window (RFC 9293, section 3.8.6.2.2), so a silence that ends with one was caused by a closed
//! window.

use whydrop_capture::TcpSegment;

use crate::echoed_round_trips::round_trips_ns;
use crate::flow::{Acknowledgment, Flow, Segment};
use crate::quantile::quantile;
use crate::rounds::RELEASE_NS;
use crate::sender_clock::{Echo, Echoes};

/// A round trip with fewer ticks of the receiver's clock is too short to separate earlier from later packets.
const FEWEST_TICKS: i64 = 4;
/// Share of the round trip within which a packet from the receiver may still be the answer to what arrived.
const ANSWER_PART: i64 = 10;
/// Acknowledgments are not delayed for longer (RFC 1122, section 4.2.3.2) ...
const LONGEST_ACK_DELAY_NS: i64 = 500_000_000;
/// ... nor for more full segments: every second one is acknowledged (RFC 5681, section 4.2), or about every fourth by
/// receivers that coalesce packets.
const NEVER_DELAYED_SEGMENTS: i64 = 10;

/// The clock of a receiver without captured packets, as the packets of its peer echo it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Echoed {
    stamps: Echoes,
    /// In the latest packet: the next byte expected of the receiver's own data.
    acknowledgment: Option<u32>,
    /// When packets passed that acknowledged more of it: requests.
    asked_ns: Vec<i64>,
}

/// The other direction, as inferred from the echoes.
#[derive(Debug)]
pub(crate) struct Inferred {
    /// When each acknowledgment arrived and what it acknowledged. The window is 0 while it is closed, and otherwise
    /// unknown.
    pub acknowledgments: Vec<Acknowledgment>,
    /// The first segment after each request that arrived when all earlier data was acknowledged, and when the request
    /// arrived.
    pub answers: Vec<(usize, i64)>,
    pub round_trip_ns: i64,
    /// Segments with a known round-trip time.
    pub round_trips_ns: Vec<(usize, i64)>,
    /// Median delay of acknowledgments that were followed by newer ones.
    pub late_ns: i64,
}

impl Echoed {
    /// Registers a packet of the captured direction.
    pub fn packet(&mut self, time_ns: i64, tcp: &TcpSegment) {
        let Some((_, echo)) = tcp.options.timestamps else {
            return;
        };
        self.stamps.data(time_ns, echo, 0);
        let before = self.acknowledgment.replace(tcp.acknowledgment);
        let more = before.map_or(0, |before| tcp.acknowledgment.wrapping_sub(before) as i32);
        if more > 0 {
            self.asked_ns.push(time_ns);
        }
    }

    /// Infers the acknowledgments of `flow`. Its SYN passed at `opened_ns`, and its own clock is `own`; `None` if
    /// too little is echoed or the round trip is unknown.
    pub fn infer(
        &self,
        flow: &Flow,
        opened_ns: Option<i64>,
        own: Option<&Echoes>,
    ) -> Option<Inferred> {
        let (tick_ns, echoes) = self.stamps.newest()?;
        let round_trip_ns = self.round_trip_ns(flow, &echoes, opened_ns)?;
        if round_trip_ns < FEWEST_TICKS * tick_ns {
            return None;
        }
        let mut receiver = Receiver {
            segments: &flow.segments,
            mss: i64::from(flow.full_bytes()),
            // both ends of the measured span are known within a tick
            round_trip_ns: round_trip_ns - tick_ns,
            passed: 0,
            arrived: 0,
            next: flow.segments.first()?.sequence,
            acknowledgments: Vec::with_capacity(echoes.len()),
        };
        let mut asked = self.asked_ns.iter().peekable();
        for echo in &echoes {
            let mut asks = false;
            while asked.next_if(|ns| **ns <= echo.passed_ns).is_some() {
                asks = true;
            }
            receiver.acknowledge(echo, asks);
        }
        Some(Inferred {
            acknowledgments: receiver.acknowledgments,
            answers: self.answers(flow, &echoes, round_trip_ns - tick_ns),
            round_trip_ns,
            round_trips_ns: round_trips_ns(flow, &echoes, round_trip_ns),
            late_ns: late_ns(&echoes, own),
        })
    }

    /// The first segment that passed at or after the packet that acknowledged a request.
    fn first_after(flow: &Flow, asked_ns: i64) -> Option<usize> {
        let first = flow.segments.partition_point(|s| s.time_ns < asked_ns);
        (first < flow.segments.len()).then_some(first)
    }

    /// The least time between a packet that the receiver answers at once and its answer: from the SYN, and from the
    /// first data after a request.
    fn round_trip_ns(&self, flow: &Flow, echoes: &[Echo], opened_ns: Option<i64>) -> Option<i64> {
        let first =
            |asked_ns: &i64| Some(flow.segments[Self::first_after(flow, *asked_ns)?].time_ns);
        let firsts_ns = self.asked_ns.iter().filter_map(first);
        let until_heard_ns = |sent_ns: i64| {
            let next = echoes.partition_point(|echo| echo.passed_ns <= sent_ns);
            Some(echoes.get(next)?.heard_ns.saturating_sub(sent_ns))
        };
        let answered = opened_ns.into_iter().chain(firsts_ns);
        answered
            .filter_map(until_heard_ns)
            .filter(|ns| *ns > 0)
            .min()
    }

    fn answers(&self, flow: &Flow, echoes: &[Echo], round_trip_ns: i64) -> Vec<(usize, i64)> {
        let of = |asked_ns: &i64| {
            let first = Self::first_after(flow, *asked_ns)?;
            let heard = echoes.partition_point(|echo| echo.passed_ns <= *asked_ns);
            let heard_ns = echoes[heard.checked_sub(1)?].heard_ns;
            let before = first.checked_sub(1).map(|last| flow.segments[last].time_ns);
            let all_acknowledged =
                before.is_none_or(|ns| ns.saturating_add(round_trip_ns) <= heard_ns);
            all_acknowledged.then_some((first, heard_ns))
        };
        self.asked_ns.iter().filter_map(of).collect()
    }
}

/// Median delay of echoes that a newer acknowledgment should have replaced by then, because it had left the receiver
/// long enough before. The wait of the packets themselves before the capture point, from their sender's clock, is
/// subtracted.
fn late_ns(echoes: &[Echo], own: Option<&Echoes>) -> i64 {
    let own_ns = own.and_then(Echoes::waits).unwrap_or_default();
    let late = echoes.windows(2).map(|two| {
        let passed_ns = two[0].passed_ns;
        let before = own_ns.partition_point(|(time_ns, _)| *time_ns <= passed_ns);
        let waited_ns = before.checked_sub(1).map_or(0, |before| own_ns[before].1);
        let left_ns = passed_ns
            .saturating_sub(waited_ns)
            .saturating_sub(RELEASE_NS);
        if two[1].heard_ns < left_ns {
            left_ns.saturating_sub(two[0].heard_ns)
        } else {
            0
        }
    });
    quantile(&late.collect::<Vec<i64>>(), 0.5)
}

/// A receiver known by its clock, converted to the sender's clock.
struct Receiver<'a> {
    segments: &'a [Segment],
    mss: i64,
    round_trip_ns: i64,
    /// The segments that have passed, and how many of them have arrived.
    passed: usize,
    arrived: usize,
    /// One past the last byte that has passed.
    next: i64,
    acknowledgments: Vec<Acknowledgment>,
}

impl Receiver<'_> {
    /// Processes a newly echoed clock value; `asks`: the acknowledgment came with a request.
    fn acknowledge(&mut self, echo: &Echo, asks: bool) {
        let coming = &self.segments[self.passed..];
        let passed = coming.iter().take_while(|s| s.time_ns < echo.passed_ns);
        for segment in passed {
            self.next = self.next.max(segment.end());
            self.passed += 1;
        }
        let last = self.acknowledgments.last();
        let mut acknowledged = last.map_or(self.segments[0].sequence, |last| last.acknowledged);
        let opens_window = !asks && self.opens_window(echo, acknowledged);
        // a queue on the return path does not hide which data the acknowledgment covered
        let sent_by_ns = echo.heard_ns.saturating_sub(self.round_trip_ns);
        while let Some(segment) = self.segments[..self.passed].get(self.arrived)
            && segment.time_ns <= sent_by_ns
        {
            acknowledged = acknowledged.max(segment.end());
            self.arrived += 1;
        }
        let last_ns = self
            .passed
            .checked_sub(1)
            .map(|last| self.segments[last].time_ns);
        let due_ns = last_ns.map_or(i64::MAX, |last_ns| {
            last_ns.saturating_add(self.round_trip_ns)
        });
        if opens_window {
            self.close_window();
        } else if asks && due_ns < echo.heard_ns {
            self.push(due_ns, self.next, -1); // a request acknowledges all earlier data
        }
        self.push(echo.heard_ns, acknowledged, -1);
    }

    /// True if the receiver owed no acknowledgment any more when it sent one, and the sender, silent until then,
    /// continues at once with the next segment.
    fn opens_window(&self, echo: &Echo, acknowledged: i64) -> bool {
        let Some(last) = self.passed.checked_sub(1).map(|last| &self.segments[last]) else {
            return false;
        };
        let next = self.segments.get(self.passed);
        let goes_on = next.is_some_and(|next| next.time_ns == echo.passed_ns)
            && echo.passed_ns.saturating_sub(echo.heard_ns) <= RELEASE_NS;
        let due_ns = last.time_ns.saturating_add(self.round_trip_ns);
        let late_ns = echo.heard_ns.saturating_sub(due_ns);
        let slack_ns = RELEASE_NS.max(self.round_trip_ns / ANSWER_PART);
        let is_full = i64::from(last.payload_bytes) >= self.mss;
        let never_delayed =
            is_full && self.next - acknowledged >= NEVER_DELAYED_SEGMENTS * self.mss;
        goes_on
            && late_ns
                > if never_delayed {
                    slack_ns
                } else {
                    LONGEST_ACK_DELAY_NS
                }
    }

    /// Registers that the window had no room behind the last segment. The sender knew so when the segment left, and the
    /// receiver said so when it arrived.
    fn close_window(&mut self) {
        let last_ns = self.segments[self.passed - 1].time_ns;
        let mut known = self.acknowledgments.iter_mut().rev();
        if let Some(known) = known.find(|known| known.time_ns <= last_ns) {
            known.window_bytes = self.next - known.acknowledged;
        }
        self.push(last_ns.saturating_add(self.round_trip_ns), self.next, 0);
    }

    fn push(&mut self, heard_ns: i64, acknowledged: i64, window_bytes: i64) {
        let last_ns = self.acknowledgments.last().map(|last| last.time_ns);
        self.acknowledgments.push(Acknowledgment {
            time_ns: last_ns.map_or(heard_ns, |last_ns| heard_ns.max(last_ns)),
            acknowledged,
            window_bytes,
            ecn_echo: false,
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::limits::Limiter;
    use crate::testing::{Extra, MS, MSS, Talk};
    use crate::{Account, Fate};

    const RTT_MS: i64 = 20;

    /// The data of a connection without any captured packet of the other direction. The client is 20 ms away, and its
    /// clock shows 5000 when the server's shows 0.
    struct DataAlone(Talk);

    impl DataAlone {
        fn new() -> Self {
            let mut talk = Talk::new();
            // a SYN/ACK that answers a SYN of 10 ms before, and the acknowledgment of a request
            talk.syn_ack(0, (0, 5000 - 10));
            talk.client_next += 100;
            Self(talk)
        }

        /// `count` segments that leave at once, after the packet that the client sent half a round trip before has
        /// arrived.
        fn send(&mut self, at_ms: i64, first: u32, count: u32, heard_ms: i64) {
            let stamps = (at_ms as u32, (5000 + heard_ms - RTT_MS / 2) as u32);
            for number in first..first + count {
                let extra = Extra {
                    timestamps: Some(stamps),
                    ..Extra::default()
                };
                self.0.data_with(at_ms * MS, number * MSS, MSS, extra);
            }
        }

        fn account(self) -> Account {
            let flow = self.0.finish();
            assert!(flow.acknowledgments.is_empty(), "none was captured");
            flow.account().clone()
        }
    }

    fn share(account: &Account, limiter: Limiter) -> f64 {
        let (from_ns, until_ns) = account.bounds().expect("an account");
        let times_ns = account.times_ns(from_ns, until_ns);
        times_ns[limiter as usize] as f64 / (until_ns - from_ns) as f64
    }

    /// Ten segments per round trip, as acknowledgments release them: in slow start, four round trips would carry more.
    #[test]
    fn a_flight_that_stands_still_has_an_uncaptured_window() {
        let mut data = DataAlone::new();
        for round in 0..30 {
            let at_ms = RTT_MS * (1 + round);
            data.send(at_ms, 10 * round as u32, 10, at_ms);
        }
        let account = data.account();
        assert!(
            account
                .by_clocks
                .as_ref()
                .is_some_and(|clocks| clocks.echoed_rtt_ns.is_some() && clocks.stands)
        );
        assert_eq!(share(&account, Limiter::SendBuffer), 0.0);
        assert_eq!(share(&account, Limiter::Application), 0.0);
    }

    #[test]
    fn a_sender_that_has_heard_of_all_long_since_has_nothing_to_send() {
        let mut data = DataAlone::new();
        for write in 0..20 {
            let at_ms = RTT_MS + 150 * write;
            let heard_ms = if write == 0 { at_ms } else { at_ms - 130 };
            data.send(at_ms, 3 * write as u32, 3, heard_ms);
        }
        let account = data.account();
        assert!(account.by_echoes());
        let share = share(&account, Limiter::Application);
        assert!(share > 0.8, "{share}");
    }

    #[test]
    fn an_unowed_acknowledgment_followed_by_data_proves_a_closed_window() {
        let mut data = DataAlone::new();
        for round in 0..4 {
            let at_ms = RTT_MS * (1 + round);
            data.send(at_ms, 10 * round as u32, 10, at_ms);
        }
        data.send(3000, 40, 10, 3000);
        data.send(3000 + RTT_MS, 50, 10, 3000 + RTT_MS);
        let share = share(&data.account(), Limiter::ReceiveWindow);
        assert!(share > 0.9, "{share}");
    }

    #[test]
    fn an_answer_begins_with_the_request_and_not_with_the_pause_before_it() {
        let mut data = DataAlone::new();
        data.send(RTT_MS, 0, 10, RTT_MS);
        data.0.client_next += 100;
        // requested at 500 ms, answered 400 ms later
        data.send(900, 10, 10, 500);
        data.send(900 + RTT_MS, 20, 10, 900 + RTT_MS);
        let account = data.account();
        assert_eq!(account.transfers.len(), 2);
        let share = share(&account, Limiter::PeerApplication);
        assert!((0.4..0.5).contains(&share), "{share}");
    }

    #[test]
    fn data_that_is_not_retransmitted_has_arrived() {
        let mut data = DataAlone::new();
        data.send(RTT_MS, 0, 10, RTT_MS);
        data.send(2000, 10, 10, 2000);
        let fates: Vec<Fate> = data.0.finish().segments.iter().map(|s| s.fate).collect();
        assert!(fates[..10].iter().all(|fate| *fate == Fate::Delivered));
        assert!(fates[10..].iter().all(|fate| *fate == Fate::Unknown));
    }

    /// The third segment behind a lost one is acknowledged 65 ms after it left, because it waited in a queue.
    #[test]
    fn a_retransmission_measures_the_round_trip_of_the_third_packet_behind_the_lost_one() {
        let rtt_ns = |third_ms: i64, heard_ms: i64| {
            let mut data = DataAlone::new();
            data.send(RTT_MS, 0, 10, RTT_MS);
            data.send(2 * RTT_MS, 10, 5, 2 * RTT_MS);
            data.send(third_ms, 15, 5, 2 * RTT_MS);
            data.send(2 * RTT_MS + 65, 14, 1, heard_ms);
            let flow = data.0.finish();
            assert_eq!(flow.segments[14].fate, Fate::Lost);
            flow.segments[17].rtt_ns
        };
        assert_eq!(rtt_ns(2 * RTT_MS, 2 * RTT_MS + 65), 65 * MS);
        // an acknowledgment that arrived long before did not cause it; a timer did
        assert_eq!(rtt_ns(2 * RTT_MS, 2 * RTT_MS), -1);
        // sooner than the least round trip: the acknowledgment was not for the third segment
        assert_eq!(rtt_ns(2 * RTT_MS + 60, 2 * RTT_MS + 65), -1);
    }

    #[test]
    fn with_a_packet_of_the_receiver_echoes_are_not_asked() {
        let mut data = DataAlone::new();
        data.send(RTT_MS, 0, 10, RTT_MS);
        data.0.ack(30 * MS, 10 * MSS);
        data.send(200, 10, 10, 200);
        assert!(!data.0.finish().account().by_echoes());
    }
}
