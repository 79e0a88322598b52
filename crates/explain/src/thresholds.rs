//! The one table of thresholds and weights of the judges of losses and of time, each with its reason and where it was chosen.
//!
//! *Physics* and *chance* follow from what is named; *train* was chosen on drawn pairs and transfers of the training
//! split of `whydrop-simulate` (and, where it says so, on half of the published laboratory captures), and tested on
//! other seeds of the validation split.

/// A bucket must make the losses this many times more likely than chance before it is looked at, nats. Chance: e^20 is
/// 5e8, which leaves room for the many rates and limits that the search tries.
pub const NEEDED_GAIN: f64 = 20.0;
/// The cost of the search for a bucket, nats: the logarithm of the rates and limits that it looks at, some 1e5, and of
/// the two parameters' precision. Chance.
pub const SEARCH_NATS: f64 = 12.0;
/// A bucket must remove this share of the uncertainty about which packets were lost. Train, and half of the published
/// captures.
pub const NEEDED_CERTAINTY: f64 = 0.45;
/// ... with less, its pattern still refutes chance. Train.
pub const WEAK_CERTAINTY: f64 = 0.3;
/// ... and expect this share of the losses. Train.
pub const NEEDED_EXPECTED: f64 = 0.6;
/// Replayed by itself, a model must drop this share of the losses that it claims, and hardly
/// others: half of them is what a wrong limit of the right rate reaches. Train; all policers of the published captures reach 0.85.
pub const REPLAYED_SHARE: f64 = 0.6;

/// ... and exactly so many of losses before the capture point: where other traffic fills half of a queue's line, the rest of
/// it looks like a bucket, but not packet by packet. Train.
pub const REPLAYED_BEFORE_SHARE: f64 = 0.7;

/// Behind any queue packets come no closer than it lets them out, so a bucket of this many packets, spent at once, is
/// what no queue before the capture point leaves of a burst. Smaller ones need the delays to tell. Train.
pub const SEEN_BUCKET_PACKETS: f64 = 8.0;
/// ... "at once" being: while the bucket's rate refills it, this share of what it holds comes beyond that rate. A queue of
/// that rate lets nothing through beyond it, whatever else is wrong with the rate by as much. Physics.
pub const AT_ONCE_SHARE: f64 = 0.5;
/// ... and more than comes in this time, seconds: the longest frame of Wi-Fi (5.484 ms, IEEE 802.11) hands its packets over
/// together, as do interrupts, and what came at a queue's rate looks like a burst. Physics.
pub const HANDED_OVER_S: f64 = 5.5e-3;
/// Share of the losses before the capture point that leave a hole there, as the parameters of a beta distribution: of a
/// queue that drops while its line is busy, few; of what keeps no packets back, most. Train.
pub const LEFT_BY_QUEUE: (u64, u64) = (1, 9);
pub const LEFT_BY_OTHERS: (u64, u64) = (4, 1);
/// Losses leave holes, or a line closes them, beyond doubt where one is a thousand times likelier than the other, nats. Chance.
pub const HOLES_NATS: f64 = 6.9;
/// A bucket below this is no bucket: one packet and its neighbour, with jitter between them. Physics.
pub const SMALLEST_BUCKET_PACKETS: f64 = 3.0;
/// A bucket that fills this many times faster than packets arrive could only drop from bursts that no sender sends.
/// Physics.
pub const OUT_OF_REACH: f64 = 200.0;

/// A queue that drops has delayed what it let in just before: by the time that a full queue takes to drain. Below
/// this share of that time there is no queue worth the name (a few packets in front of a policer's bucket). Train.
pub const NO_QUEUE_RATIO: f64 = 0.05;
/// Above this share of it there is one. Shapers that let a burst pass first delay by less than a full queue. Train.
pub const QUEUE_RATIO: f64 = 0.1;
/// A full queue delays by at least this share of the time that it takes to drain, unless a burst passes first. Train.
pub const FULL_QUEUE_RATIO: f64 = 0.6;
/// Rates, one from losses and one from delays, that differ by more than this are not one queue's, log. Train.
pub const ALIKE_RATES: f64 = 0.1;
/// A delay this many times longer than the fitted queue could cause has another cause. Train.
pub const OTHER_DELAY_RATIO: f64 = 2.5;
/// A delay model that accounts for this share of the spread of all delays is a queue. Train.
pub const DELAY_EXPLAINED: f64 = 0.6;
/// ... and for this share, one that may stand. Train.
pub const STANDING_EXPLAINED: f64 = 0.8;
/// No queue management lets half of all packets wait longer than this, seconds, nor than twice the round trip: three
/// times the interval of CoDel (RFC 8289) and twice the burst allowance of PIE (RFC 8033). Physics.
pub const LONGEST_MANAGED_S: f64 = 0.3;
/// ... and none lets packets wait longer than this, seconds, and than a round trip: three times the target of PIE as Linux has it and
/// more than ten times that of CoDel (RFC 8289) ...
pub const UNMANAGED_WAIT_S: f64 = 0.06;
/// ... for so long on end without a drop: ten times the interval of CoDel, six times the burst allowance of PIE. Physics.
pub const LONGEST_UNMANAGED_S: f64 = 1.0;
/// A relation to delays too short to measure is none, seconds: interfaces and hosts take tens of microseconds. Physics.
pub const SHORTEST_DELAY_S: f64 = 0.2e-3;
/// Stamps that are coarser hide what queue management aims at, seconds: half of CoDel's target (RFC 8289). Physics.
pub const COARSEST_TICK_S: f64 = 2.5e-3;
/// Two round trips that differ by more than one tick of their stamps differ as measured, whatever was rounded. Physics.
pub const TICKS_THAT_SHOW: f64 = 1.5;
/// The tick of the usual clock of senders in their timestamps, seconds. Physics.
pub const USUAL_TICK_S: f64 = 1e-3;
/// A wait that the clocks of senders tell is longer than five ticks of the usual clock, seconds. Physics.
pub const SHORTEST_CLOCKED_S: f64 = 5.0 * USUAL_TICK_S;

/// Tail drop comes when the queue is full, so nearly all delays are shorter than those just before a loss: chance puts
/// the mean rank at one half. Train.
pub const TAIL_DROP_RANK: f64 = 0.75;
/// Losses at delays that differ by more than this share of the longest were not all made by one full queue. Train.
pub const TAIL_DROP_LOWEST: f64 = 0.75;
/// The delay is measured on the packet before the lost one, which may have found a packet or two less. Physics.
pub const TAIL_DROP_NOISE_PACKETS: f64 = 1.5;
/// A full queue lets nobody in who would wait longer than those that it drops; what acknowledgments were late adds so many
/// for each loss. Train.
pub const LET_IN: usize = 3;
/// With this many loss events, their median tells where most of them lie ... Chance.
pub const ENOUGH_EVENTS: usize = 20;
/// ... and within a tenth of the longest delay is at the top. Train.
pub const MOST_AT_TOP: f64 = 0.9;
/// Losses come at one delay if the middle three fifths of them lie within this share of it: queues hold whole packets, and the
/// measured delay is that of the packet before.
pub const ONE_DELAY_SHARE: f64 = 0.1;
/// A relation between losses and delay that chance brings about less often is taken for real, log: one in a thousand.
pub const CHANCE: f64 = -7.0;

/// With fewer losses nothing about their pattern can be said. Chance.
pub const FEWEST_LOSSES: u64 = 3;
/// With fewer losses nothing is said to have dropped them by chance: that three lean on no load, delay or time is no sign that
/// there was none to lean on. Chance.
pub const FEWEST_BY_CHANCE: u64 = 4;
/// Losses before the capture point leave no delays to look at: runs this much longer than independent losses make them
/// are no chance. Train.
pub const LONGER_RUNS: f64 = 1.2;

/// A silence is longer than three round trips and than this, seconds: Linux repeats after 0.2 s at the earliest, and again
/// after twice that (RFC 6298). Physics.
pub const SHORTEST_OUTAGE_S: f64 = 0.3;

/// Two dozen packets: the burst of one window of ten segments and its successor overflow it. Physics.
pub const SHALLOW_PACKETS: f64 = 24.0;
/// A queue that never adds half a round trip is shallow however many packets it holds. Physics.
pub const SHALLOW_RTT_SHARE: f64 = 0.5;
/// Round trip of a path whose own was not seen, because only one direction was captured, seconds.
pub const USUAL_RTT_S: f64 = 0.05;

/// The cost of having looked for several patterns, nats: delay, time, buckets and silences. Fitted likewise.
pub const LOOKED_FOR_NATS: f64 = 2.0;
/// How much less likely queue management is than chance where nothing tells them apart and no delays are seen, since
/// losses before the capture point leave none. Where the delays are a queue's it is as likely.
/// Fitted on transfers of the training split (`bench/calibrate.py`).
pub const UNSEEN_NATS: f64 = 0.3;
/// How much less likely queue management makes losses at the longest delays only than a full queue, nats.
pub const FULL_NATS: f64 = 1.0;
/// How much less likely than a mechanism that is known the background makes a pattern that the mechanism predicts, nats:
/// of paths with losses that a bucket accounts for, that lean on delay, or that change with time, so few are made by
/// what is in no list. Fitted on transfers of the training split (`bench/calibrate.py`).
pub const BUCKET_NATS: f64 = 4.5;
pub const DELAY_NATS: f64 = 3.0;
pub const TIME_NATS: f64 = 2.0;
/// The same where the losses lean on nothing, however many there are: chance was right no more often of a hundred losses
/// than of three.
pub const CHANCE_NATS: f64 = 2.0;
/// ... and where no delays are seen: what drops singly without a trace is not in every list.
pub const UNSEEN_CHANCE_NATS: f64 = 0.8;
/// ... but where the holes that losses left are.
pub const HOLES_CHANCE_NATS: f64 = 1.5;

/// Packets of less time than this came as one for the capture's clock, seconds, and tells no rate. Physics.
pub const SHORTEST_SPAN_S: f64 = 1e-5;
/// A link that sends for so much of the time sets the goodput: what else happens costs a tenth of it at most. Physics.
pub const FULL_LINK_SHARE: f64 = 0.9;
/// A queue is worth the name where it delays by a tenth of the round trip and by a millisecond, seconds. Train.
pub const QUEUE_RTT_SHARE: f64 = 0.1;
pub const SHORTEST_QUEUE_S: f64 = 1e-3;
/// A capture behind which less than this share of the round trip lies is the receiver's: no queue there is worth the name.
/// Physics.
pub const AT_RECEIVER_RTT_SHARE: f64 = 0.1;
/// Segments that a sender may send before it hears anything (RFC 6928). Physics.
pub const INITIAL_SEGMENTS: f64 = 10.0;
/// Slow start has filled any window of the protocol (1 GiB) after 20 doublings of ten segments. Physics.
pub const SETTLED_ROUND_TRIPS: f64 = 20.0;
/// One packet in a thousand out of order is what senders begin to feel: three later ones make a sender repeat (RFC 5681) ...
/// Train.
pub const REORDERED_SHARE: f64 = 1e-3;
/// ... and one in a hundred disturbs any, slow start included. Train.
pub const MUCH_REORDERED_SHARE: f64 = 1e-2;
/// So many packets of one that was overtaken may be retransmitted needlessly: an initial window (RFC 6928). Physics.
pub const REPEATED_FOR_EACH: u64 = 10;
/// Of what both facts show: packets that others overtook, and that were retransmitted needlessly. As of a limiter that
/// has all of the time ([`ACCOUNT_NATS`]).
pub const REPEATED_CONFIDENCE: f64 = 0.97;
/// Of losses in runs before the first point that no bucket made, and no queue: what else drops by itself is in no list.
/// Chosen while looking at the training split, and not fitted.
pub const HOLES_CONFIDENCE: f64 = 0.6;
/// With fewer data packets nothing is limited but by what there was to send: five initial windows. Physics.
pub const FEWEST_PACKETS: u64 = 50;
/// A cause that has all of the time is right, log odds, and how much less likely it is with each e-fold less of the
/// time, nats. Fitted on transfers of the training split (`bench/calibrate.py`).
pub const ACCOUNT_NATS: f64 = 3.3;
pub const SHARE_NATS: f64 = 1.5;
/// How much likelier a cause is that packets show by themselves: late answers, marks, overtaking. Fitted likewise.
pub const SHOWN_NATS: f64 = 0.5;
/// How many times as much shares of time speak for one cause against another as against the background: shares are
/// measured, and which of two is larger is less open than what either means. Fitted likewise.
pub const RIVALRY: f64 = 4.0;
/// Where a queue before the capture point would look the same, how often it is that, or something else, for each time
/// that the cause is right. Fitted likewise, on captures before the path element and behind it in equal parts: before it
/// this is too much, behind it too little, and no capture tells which it is.
pub const DOUBT_ODDS: f64 = 0.38;
/// ... where the capture is the first of two, which is before more of the path.
pub const FIRST_DOUBT_ODDS: f64 = 0.1;
/// That nothing held a transfer up of which no acknowledgment was captured, log odds. Fitted likewise.
pub const UNSEEN_TIME_NATS: f64 = 0.75;

/// How much likelier exact fates between two captures make chance, full and managed queues than one capture's do, nats.
/// Fitted likewise.
pub const EXACT_FATES_NATS: f64 = 1.0;

/// A law of queue management must make drops and marks this many times likelier than a queue that drops when it is long,
/// nats: the laws' parameters are paid for, so this is for having tried some. Chance.
pub const LAW_NATS: f64 = 10.0;
/// ... and this much likelier than the next family does, to be named: odds of 20 to 1. Chance.
pub const FAMILY_NATS: f64 = 3.0;
