//! The single table of thresholds and weights for judging losses and time. Each has its reason and its origin:
//!
//! *Physics* and *chance* follow from the given facts; *train* was chosen on random pairs and transfers of
//! the training split of `whydrop-simulate` (and, if stated, on half of the published laboratory captures),
//! and tested on other seeds of the validation split; *fitted* was fitted to transfers of the training split
//! (`bench/calibrate.py`). A test keeps numbers without a name out of the files that judge.

/// A bucket must make the losses this much more likely than chance to be considered, nats. Chance: e^20 is
/// 5e8, which leaves room for the many rates and limits that the search tries.
pub const NEEDED_GAIN: f64 = 20.0;
/// The cost of the search for a bucket in nats: the logarithm of the number of rates and limits tried, some
/// 1e5, and of the two parameters' precision. Chance.
pub const SEARCH_NATS: f64 = 12.0;
/// A bucket must remove this share of the uncertainty about which packets were lost. Train, and half of the
/// published captures.
pub const NEEDED_CERTAINTY: f64 = 0.45;
/// ... with less, its pattern still refutes chance. Train.
pub const WEAK_CERTAINTY: f64 = 0.3;
/// ... and predict this share of the losses. Train.
pub const NEEDED_EXPECTED: f64 = 0.6;
/// Replayed freely, a model must drop this share of the losses that it claims, and hardly others: a wrong
/// limit at the right rate reaches half of them. Train; all policers of the published captures reach 0.85.
pub const REPLAYED_SHARE: f64 = 0.6;

/// ... and exactly this share of losses before the capture point: if other traffic fills half of a queue's
/// line, the rest of it looks like a bucket, but not packet by packet. Train.
pub const REPLAYED_BEFORE_SHARE: f64 = 0.7;

/// Behind any queue packets are at least a service time apart, so a bucket of this many packets, emptied at
/// once, cannot be a queue before the capture point. Smaller buckets need evidence from delays. Train.
pub const SEEN_BUCKET_PACKETS: f64 = 8.0;
/// ... "at once" means: while the bucket's rate refills it, this share of its size arrives beyond that rate.
/// A queue of that rate lets nothing through beyond it, even if the rate is wrong by as much. Physics.
pub const AT_ONCE_SHARE: f64 = 0.5;
/// ... and more than arrives in this time, seconds: the longest frame of Wi-Fi (5.484 ms, IEEE 802.11)
/// delivers its packets together, as do interrupts, so that arrivals at a queue's rate look like a burst.
/// Physics.
pub const HANDED_OVER_S: f64 = 5.5e-3;
/// Share of the losses before the capture point that leave a gap there, as the parameters of a beta
/// distribution: few if a queue drops while its line is busy. Train.
pub const LEFT_BY_QUEUE: (u64, u64) = (1, 9);
/// ... and most if others drop. Train.
pub const LEFT_BY_OTHERS: (u64, u64) = (4, 1);
/// Losses clearly leave gaps, or a line clearly closes them, if one is a thousand times more likely than the
/// other, nats. Chance.
pub const HOLES_NATS: f64 = 6.9;
/// A smaller bucket is none: one packet and its neighbour, with jitter between them. Physics.
pub const SMALLEST_BUCKET_PACKETS: f64 = 3.0;
/// A bucket that fills this many times faster than packets arrive could only drop from bursts that no sender
/// sends. Physics.
pub const OUT_OF_REACH: f64 = 200.0;

/// A queue that drops has just delayed the packets that it admitted by the time that a full queue takes to
/// drain. Below this share of that time there is no relevant queue (a few packets in front of a policer's
/// bucket). Train.
pub const NO_QUEUE_RATIO: f64 = 0.05;
/// Above this share of it there is one. Shapers that let a burst pass first delay by less than a full queue.
/// Train.
pub const QUEUE_RATIO: f64 = 0.1;
/// A full queue delays by at least this share of the time that it takes to drain, unless a burst passes
/// first. Train.
pub const FULL_QUEUE_RATIO: f64 = 0.6;
/// Rates, one from losses and one from delays, that differ by more than this (log) do not belong to one
/// queue. Train.
pub const ALIKE_RATES: f64 = 0.1;
/// A delay this many times longer than the fitted queue could cause has another cause. Train.
pub const OTHER_DELAY_RATIO: f64 = 2.5;
/// A delay model that explains this share of the spread of all delays is a queue. Train.
pub const DELAY_EXPLAINED: f64 = 0.6;
/// ... and for this share, one that may be standing. Train.
pub const STANDING_EXPLAINED: f64 = 0.8;
/// No queue management lets half of all packets wait longer than this in seconds, nor than twice the round
/// trip: three times the interval of CoDel (RFC 8289) and twice the burst allowance of PIE (RFC 8033).
/// Physics.
pub const LONGEST_MANAGED_S: f64 = 0.3;
/// ... and none lets packets wait longer than both this in seconds and a round trip: three times the target
/// of PIE in Linux and more than ten times that of CoDel (RFC 8289) ... Physics.
pub const UNMANAGED_WAIT_S: f64 = 0.06;
/// ... for this long without a drop: ten times the interval of CoDel, six times the burst allowance of PIE.
/// Physics.
pub const LONGEST_UNMANAGED_S: f64 = 1.0;
/// Delays too short to relate losses to, seconds: interfaces and hosts take tens of microseconds. Physics.
pub const SHORTEST_DELAY_S: f64 = 0.2e-3;
/// Coarser timestamps hide the target delay of queue management, seconds: half of CoDel's target (RFC 8289).
/// Physics.
pub const COARSEST_TICK_S: f64 = 2.5e-3;
/// Two round trips that differ by more than one tick of their timestamps differ as measured, whatever the
/// rounding. Physics.
pub const TICKS_THAT_SHOW: f64 = 1.5;
/// The usual tick of senders' clocks in their timestamps, seconds. Physics.
pub const USUAL_TICK_S: f64 = 1e-3;
/// A delay measured with senders' clocks is longer than five ticks of the usual clock, seconds. Physics.
pub const SHORTEST_CLOCKED_S: f64 = 5.0 * USUAL_TICK_S;

/// Tail drop occurs when the queue is full, so nearly all delays are shorter than those just before a loss:
/// by chance the mean rank is one half. Train.
pub const TAIL_DROP_RANK: f64 = 0.75;
/// Losses at delays that differ by more than this share of the longest were not all caused by one full queue.
/// Train.
pub const TAIL_DROP_LOWEST: f64 = 0.75;
/// The delay is measured on the packet before the lost one, which may have found one or two packets fewer.
/// Physics.
pub const TAIL_DROP_NOISE_PACKETS: f64 = 1.5;
/// A full queue admits no packet that would wait longer than those that it drops; late acknowledgments add
/// this many exceptions for each loss. Train.
pub const LET_IN: usize = 3;
/// With this many loss events, their median shows where most of them lie ... Chance.
pub const ENOUGH_EVENTS: usize = 20;
/// ... and within a tenth of the longest delay is at the top. Train.
pub const MOST_AT_TOP: f64 = 0.9;
/// Losses occur at one delay if the middle three fifths of them lie within this share of it: queues hold
/// whole packets, and the measured delay is that of the packet before. Train.
pub const ONE_DELAY_SHARE: f64 = 0.1;
/// A relation between losses and delay that chance produces less often is real, log: one in a thousand.
/// Chance.
pub const CHANCE: f64 = -7.0;

/// With fewer losses their pattern cannot be judged. Chance.
pub const FEWEST_LOSSES: u64 = 3;
/// With fewer losses, chance is not named as the cause: three losses unrelated to load, delay or time do not
/// prove that there is no relation. Chance.
pub const FEWEST_BY_CHANCE: u64 = 4;
/// Losses before the capture point leave no delays to evaluate: runs this much longer than those of
/// independent losses are no chance. Train.
pub const LONGER_RUNS: f64 = 1.2;
/// Losses come in runs if a dependence on the packet before makes them this much more likely, nats. Chance: by
/// Wilks' theorem, one in a hundred thousand series of independent losses.
pub const RUNS_NATS: f64 = 10.0;

/// A silence is longer than this many round trips: twice the least timer and one trip. Physics.
pub const OUTAGE_ROUND_TRIPS: f64 = 3.0;
/// ... and than this, seconds: Linux retransmits after 0.2 s at the
/// earliest, and again after twice that (RFC 6298). Physics.
pub const SHORTEST_OUTAGE_S: f64 = 0.3;

/// Two dozen packets: one window of ten segments as a burst, and the next, overflow it. Physics.
pub const SHALLOW_PACKETS: f64 = 24.0;
/// A queue that never adds half a round trip is shallow however many packets it holds. Physics.
pub const SHALLOW_RTT_SHARE: f64 = 0.5;
/// Round trip of a path with an unknown one, because only one direction was captured, seconds. Physics.
pub const USUAL_RTT_S: f64 = 0.05;

/// The cost of having searched for several patterns, nats: delay, time, buckets and silences. Fitted
/// likewise.
pub const LOOKED_FOR_NATS: f64 = 2.0;
/// How much less likely queue management is than chance if nothing distinguishes them and no delays are
/// visible, since losses before the capture point leave none. If the delays are a queue's, it is equally
/// likely. Fitted on transfers of the training split (`bench/calibrate.py`).
pub const UNSEEN_NATS: f64 = 0.3;
/// How much less likely queue management makes losses at only the longest delays than a full queue, nats.
/// Train.
pub const FULL_NATS: f64 = 1.0;
/// How much less likely than a known mechanism the background makes a pattern that the mechanism predicts,
/// nats: few paths with losses that a bucket explains, or that are related to delay or change with time, have
/// an unlisted cause. Fitted on transfers of the training split (`bench/calibrate.py`).
pub const BUCKET_NATS: f64 = 4.5;
/// ... for a pattern by delay. Fitted likewise.
pub const DELAY_NATS: f64 = 3.0;
/// ... for a pattern by time. Fitted likewise.
pub const TIME_NATS: f64 = 2.0;
/// The same if the losses are unrelated to anything, however many there are: chance was correct no more often
/// for a hundred losses than for three. Fitted likewise.
pub const CHANCE_NATS: f64 = 2.0;
/// ... and if no delays are visible: not every cause of single drops is in the list. Fitted likewise.
pub const UNSEEN_CHANCE_NATS: f64 = 0.8;
/// ... except for the gaps that losses left. Fitted likewise.
pub const HOLES_CHANCE_NATS: f64 = 1.5;

/// Nanoseconds of a second. Physics.
pub const NS_PER_S: f64 = 1e9;
/// No round trip is shorter, seconds: kernels take a microsecond to stamp a packet. Physics.
pub const SHORTEST_RTT_S: f64 = 1e-6;
/// Times are divided by at least the tick of captures, seconds. Physics.
pub const SHORTEST_TIME_S: f64 = 1e-9;
/// Headers of TCP with timestamps over IPv4: 20 + 20 + 12. Physics.
pub const HEADERS_BYTES: f64 = 52.0;
/// Packets within less time than this arrived together on the capture's clock, seconds, and give no rate.
/// Physics.
pub const SHORTEST_SPAN_S: f64 = 1e-5;
/// A link that is busy for this share of the time sets the goodput: other causes cost a tenth of it at most.
/// Physics.
pub const FULL_LINK_SHARE: f64 = 0.9;
/// Share of the time without data in flight that is stated. Train.
pub const STATED_IDLE_SHARE: f64 = 0.01;
/// A queue is relevant if it delays by this share of the round trip. Train.
pub const QUEUE_RTT_SHARE: f64 = 0.1;
/// ... and by this time, seconds. Train.
pub const SHORTEST_QUEUE_S: f64 = 1e-3;
/// A capture with less than this share of the round trip behind it is at the receiver: no queue there is
/// relevant. Physics.
pub const AT_RECEIVER_RTT_SHARE: f64 = 0.1;
/// Segments that a sender may send before any acknowledgment (RFC 6928). Physics.
pub const INITIAL_SEGMENTS: f64 = 10.0;
/// Slow start has filled any window of the protocol (1 GiB) after 20 doublings of ten segments. Physics.
pub const SETTLED_ROUND_TRIPS: f64 = 20.0;
/// One packet in a thousand out of order begins to affect senders: three later ones trigger a retransmission
/// (RFC 5681) ... Train.
pub const REORDERED_SHARE: f64 = 1e-3;
/// ... and one in a hundred disturbs any sender, slow start included. Train.
pub const MUCH_REORDERED_SHARE: f64 = 1e-2;
/// Packets that may be retransmitted needlessly for each one that was overtaken: an initial window (RFC
/// 6928). Physics.
pub const REPEATED_FOR_EACH: u64 = 10;
/// Confidence in a cause shown by both facts: packets that others overtook, and that were retransmitted
/// needlessly. The same as for a limiter with all of the time ([`ACCOUNT_NATS`]). Fitted likewise.
pub const REPEATED_CONFIDENCE: f64 = 0.97;
/// Confidence for losses in runs before the first point that neither a bucket nor a queue caused: other
/// causes are in no list. Train.
pub const HOLES_CONFIDENCE: f64 = 0.6;
/// With fewer data packets, only the amount of data to send is a limit: five initial windows. Physics.
pub const FEWEST_PACKETS: u64 = 50;
/// Log-odds that a cause with all of the time is correct, nats. Fitted on transfers of the training split
/// (`bench/calibrate.py`).
pub const ACCOUNT_NATS: f64 = 3.3;
/// ... and their decrease for each e-fold less of the time, nats. Fitted likewise.
pub const SHARE_NATS: f64 = 1.5;
/// How much more likely a cause is that packets show directly: late answers, marks, overtaking. Fitted
/// likewise.
pub const SHOWN_NATS: f64 = 0.5;
/// Weight of shares of time between two causes relative to that between a cause and the background: shares
/// are measured, and which of two is larger is more certain than what either means. Fitted likewise.
pub const RIVALRY: f64 = 4.0;
/// If a queue before the capture point would look the same: odds of that or another cause, for each time that
/// the cause is correct. Fitted likewise, on captures before and behind the path element in equal parts:
/// before it this is too much, behind it too little, and no capture shows which it is.
pub const DOUBT_ODDS: f64 = 0.38;
/// ... if the capture is the first of two, which is before more of the path. Fitted likewise.
pub const FIRST_DOUBT_ODDS: f64 = 0.1;
/// Log-odds that nothing limited a transfer without captured acknowledgments. Fitted likewise.
pub const UNSEEN_TIME_NATS: f64 = 0.75;

/// How much more likely exact fates between two captures make chance, full and managed queues than the fates
/// of one capture, nats. Fitted likewise.
pub const EXACT_FATES_NATS: f64 = 1.0;

/// A law of queue management must make drops and marks this much more likely than a queue that drops when it
/// is long, nats: the laws' parameters are accounted for, so this pays for having tried several. Chance.
pub const LAW_NATS: f64 = 10.0;
/// ... and this much more likely than the next family, to be named: odds of 20 to 1. Chance.
pub const FAMILY_NATS: f64 = 3.0;

// Exact fates, delays and departures between two captures

/// Two rates of one element, measured by different methods, differ by less than this (log). Train.
pub const SAME_RATES: f64 = 0.02;
/// A bucket with exact fates removes more than this share of the uncertainty about the losses. Train.
pub const EXACT_CERTAINTY: f64 = 0.6;
/// ... and predicts this share of the losses. Train.
pub const EXACT_EXPECTED: f64 = 0.8;
/// ... with almost no correction: for each loss this many times the timestamp noise. Train.
pub const CORRECTED_NOISE: f64 = 2.0;
/// ... or, behind the queue, this share of a packet: the arrival of a lost packet there is known only from its
/// neighbours. Train.
pub const CORRECTED_PACKETS: f64 = 0.25;
/// All arrivals are known, so a bucket that all of them pass drops exactly the lost packets. If its drops agree
/// with the losses less than this, other traffic passes it too, and so the queue. Train.
pub const EXACT_AGREEMENT: f64 = 0.9;
/// Share of the packets that must have left at the rate of a queue for that to be the rate of the hop. Train.
pub const NEARLY_ALL_SERVED: f64 = 0.9;
/// Mean rank of the delays before losses from which losses and delays are related. Train.
pub const RELATED_RANK: f64 = 0.7;
/// Two buckets have four parameters and must do better than one: three quarters of the drops and of the losses
/// agree. Train.
pub const TWO_AGREEMENT: f64 = 0.75;
/// ... in this many runs of losses, more than parameters. Chance.
pub const FEWEST_RUNS_OF_TWO: usize = 5;
/// A bucket has two parameters and must explain more runs of losses than that. Chance.
pub const FEWEST_RUNS: usize = 3;
/// A bucket beside a queue fills at less than this share of the rate at which the queue drains: closer rates
/// cannot be distinguished with certainty. Train.
pub const SLOWER_SHARE: f64 = 0.92;
/// A rate known to within this share leaves no room for other traffic. Train.
pub const SHARP_SHARE: f64 = 0.05;
/// A bucket that fills lets packets pass from time to time. Share of the losses that may belong to runs longer
/// than the time in which it fills by as much, while other traffic takes the tokens. Train.
pub const STARVED_SHARE: f64 = 0.25;
/// Lost packets found the queue full if all found equal contents: within this many packets ... Physics.
pub const FULL_PACKETS: f64 = 2.0;
/// ... or this share of them. Train.
pub const FULL_SHARE: f64 = 0.05;
/// ... if nearly all other packets found less (if most are lost, most find it full). Train.
pub const FULL_RANK: f64 = 0.9;
/// ... and if it was this share of the most that any packet found: a limit in bytes lets small packets in on
/// top. Train.
pub const FULL_OF_MOST_SHARE: f64 = 0.8;
/// Fewer packets in the hop are no queue. Physics.
pub const FEWEST_QUEUED_PACKETS: f64 = 2.0;
/// A queue is long if losses find more than this share of the packets do. Train.
pub const LONG_QUEUE_RANK: f64 = 0.8;
/// ... and fewer than this share of the lost packets find it empty. Train.
pub const SELDOM_EMPTY_SHARE: f64 = 0.2;
/// Contents at losses vary if fewer than this share are near their median. Train.
pub const VARIED_SHARE: f64 = 0.4;
/// ... of at least this many losses. Chance.
pub const FEWEST_TO_VARY: usize = 10;
/// Flows have queues of their own if packets overtake those of other flows this many times as often as those of
/// their own. Train.
pub const SELDOM_WITHIN: usize = 10;
/// ... and once in at most this many opportunities. Train.
pub const SELDOM_BETWEEN: usize = 20;
/// Standard deviations from which losses are related to the contents of the queue: one in three million, divided
/// among several mechanisms that are tried. Chance.
pub const RELATED_DEVIATIONS: f64 = 5.0;
/// Share of lost packets that must have found nothing queued for the hop to be empty. Train.
pub const FOUND_NOTHING_SHARE: f64 = 0.9;
/// The best bucket is none if it is wrong by more than this share of a packet for each loss, which must also
/// exceed the timestamp noise. Train.
pub const MISFIT_PACKETS: f64 = 0.25;
/// A model locates single losses if it drops this share of them. Train.
pub const PLACED_SHARE: f64 = 0.6;
/// ... or a neighbour this many packets away: if two arrive together, nanoseconds decide which of them finds no
/// room. Physics.
pub const NEIGHBOURS_PACKETS: usize = 1;

// One bucket or two, in one capture

/// Losses that a bucket may have room for although it drops alone, because of errors in the inferred fates. Train.
pub const MISTAKEN_LOSSES: u32 = 3;
/// ... and the same as a share. Train.
pub const MISTAKEN_SHARE: f64 = 0.01;
/// A bucket that drops alone removes more than this share of the uncertainty about the losses. Train.
pub const ALONE_CERTAINTY: f64 = 0.85;
/// Two buckets must leave less than this share of the uncertainty about the losses that one leaves. If a queue
/// before the bucket, or packets missing from the capture, make one misfit, two need fewer corrections but
/// separate no better. Train.
pub const LEFT_BY_TWO: f64 = 0.75;
/// Nats below which it is no chance that delays before losses are longer than others: one in a hundred. Chance.
pub const LONGER_BY_CHANCE: f64 = -4.6;

// Limits of queues

/// A queue that explains this share of the spread of the delays gives a rate, and is stated. Train.
pub const DELAY_RELATED: f64 = 0.3;
/// A larger packet is a super-segment, unless most packets are as large, bytes. Physics.
pub const ETHERNET_BYTES: f64 = 1_500.0;
/// A limit derived from losses is too large by up to a packet, typically by this share of one: it includes the packet
/// that is not admitted. Train.
pub const NOT_ADMITTED_PACKETS: f64 = 0.75;
/// Share of the packets that captures are taken to have at least: with fewer they do not show how many were queued.
/// Physics.
pub const LEAST_CAPTURED_SHARE: f64 = 0.1;

// Captures that lack packets

/// Share of acknowledged packets missing from a capture that deserves a verdict of its own: counts of losses are
/// wrong by as much. Train.
pub const CAPTURE_LOSS_SHARE: f64 = 1e-3;
/// Share of missing data from which neither waits nor losses of the rest can be judged: every second packet,
/// every tenth, or the result of a display filter. Physics.
pub const MUCH_MISSED_SHARE: f64 = 0.4;

// Confidences

/// The surest statement about a mechanism, and about what captures show without doubt. Train.
pub const SUREST: f64 = 0.99;
/// Drops that follow a law of queue management, between two captures. Fitted.
pub const LAWFUL_CONFIDENCE: f64 = 0.95;
/// ... and drops of a queue with room, if flows overtake each other in it. Fitted.
pub const ISOLATES_CONFIDENCE: f64 = 0.65;
/// Losses in runs, in an empty hop, that no bucket explains. Train.
pub const ON_EMPTY_CONFIDENCE: f64 = 0.6;
/// At most, in a bucket beside a queue. Train.
pub const SUREST_BESIDE_QUEUE: f64 = 0.95;
/// At most, in two buckets. Train.
pub const SUREST_OF_TWO: f64 = 0.97;
/// At least, in a queue that all lost packets found full. Train.
pub const UNSUREST_WHEN_FULL: f64 = 0.6;
/// In `unknown`, if there is nothing to weigh. Chance.
pub const NO_EVIDENCE_CONFIDENCE: f64 = 0.5;
