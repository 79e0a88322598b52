//! Fates of retransmitted data without selective acknowledgments.
//!
//! A sender without SACK retransmits data that had arrived: everything from the first hole on after a timeout (RFC
//! 6298, section 5.4), the next unacknowledged segment after a partial acknowledgment (RFC 6582). The receiver answers
//! each packet beyond a hole at once (RFC 5681, section 4.2). Two conclusions follow. A jump of the cumulative
//! acknowledgment is caused by the one packet that filled the hole: all data that it skips had arrived before, and
//! later retransmissions of it were needless. And while the acknowledgment does not move, each duplicate stands for one
//! packet that arrived: of the packets sent between the one that brought it there and the one that moves it on, as many
//! arrived as there are duplicates, and the others were lost.

use super::acknowledgments::AckPacket;
use super::{Half, Outstanding};
use crate::flow::{Fate, Segment, SegmentFlags, UnplacedLosses};

/// The most transmissions of one range that are distinguished; beyond it, the oldest keep their presumed fate.
const MOST_TRANSMISSIONS: usize = 16;
/// The most ranges released by one acknowledgment that may have arrived with the packet that filled the hole: as many
/// as receivers that coalesce packets answer at once (64 KiB).
const MOST_AT_ONCE: usize = 44;
/// Receivers that coalesce packets acknowledge more than two segments at once more often than one time in this many.
const JOINT_SHARE: u64 = 50;
/// Retransmissions that skip data prove that the sender knows what arrived if there are this many, and one in so many
/// of all. A few are retransmissions between which the capture missed one.
const FEWEST_CHOICES: u64 = 3;
const CHOICES_SHARE: u64 = 8;
/// The uncertainty of the number of losses that acknowledgments do not identify, as a number of packets, and as a
/// share.
const LEAST_DOUBT: u64 = 3;
const DOUBT_SHARE: f64 = 0.03;

/// A direction's record of retransmissions without SACK.
#[derive(Debug, Default)]
pub(crate) struct WithoutSack {
    /// Ranges that the present acknowledgment releases.
    released: Vec<Outstanding>,
    /// Those of the last acknowledgment that the receiver either had, or received together with the packet that filled
    /// the hole.
    doubtful: Vec<Outstanding>,
    /// The last segment that the present cumulative acknowledgment answers, and the same if the doubtful ranges had
    /// arrived before.
    answered: Option<u32>,
    filled: u32,
    /// Duplicate acknowledgments since.
    duplicates: u32,
    stands: Vec<Stand>,
}

/// Counts retransmissions that skip other unacknowledged data: only selective acknowledgments let a sender do so. A
/// middlebox or the capture may have removed the options.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Choices {
    skipping: u32,
    are_informed: bool,
}

/// Acknowledgments of data that arrived in order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Answering {
    acknowledgments: u32,
    /// Those of more segments than RFC 5681, section 4.2 requires.
    of_many: u32,
}

impl Answering {
    /// True if the receiver, or a device before it, coalesces packets, so that two packets beyond a hole may have one
    /// answer.
    fn is_joint(self) -> bool {
        u64::from(self.of_many) * JOINT_SHARE > u64::from(self.acknowledgments)
    }
}

/// A time for which the cumulative acknowledgment stood before a hole.
#[derive(Debug, Clone, Copy)]
struct Stand {
    /// The segment that brought it there, and the one that filled the hole.
    after: u32,
    before: u32,
    /// Duplicate acknowledgments: for segments beyond the hole, or below it, that arrived.
    answers: u32,
}

/// Transmissions of a range, newest first: indices in `Flow::segments`.
struct Chain {
    segments: [u32; MOST_TRANSMISSIONS],
    length: usize,
}

impl Chain {
    fn all(&self) -> &[u32] {
        &self.segments[..self.length]
    }

    fn newest(&self) -> u32 {
        self.segments[0]
    }

    fn oldest(&self) -> u32 {
        self.all().last().copied().unwrap_or(self.newest())
    }

    /// Those sent after this segment, and those before.
    fn divided_by(&self, segment: u32) -> (&[u32], &[u32]) {
        let all = self.all();
        let after = all.partition_point(|one| *one > segment);
        all.split_at(after)
    }
}

impl Half {
    /// True if arrivals beyond a hole are not reported.
    #[inline]
    pub fn lacks_sack(&self) -> bool {
        !self.flow.sack_permitted && !self.options_cut && !self.choices.are_informed
    }

    /// From the first retransmission on, acknowledgments are judged by the data that they release.
    pub fn look_back(&mut self) {
        let duplicates = self.duplicate_acknowledgments;
        self.without_sack.get_or_insert_with(|| {
            Box::new(WithoutSack {
                duplicates,
                ..WithoutSack::default()
            })
        });
    }

    /// Registers that the sender retransmits the outstanding range with this index.
    pub fn note_choice(&mut self, index: usize) {
        let before = index
            .checked_sub(1)
            .and_then(|index| self.outstanding.get(index));
        let skips = before.is_some_and(|range| range.transmissions == 1 && !range.gap);
        self.choices.skipping = self.choices.skipping.saturating_add(u32::from(skips));
        let skipping = u64::from(self.choices.skipping);
        if skipping >= FEWEST_CHOICES
            && skipping * CHOICES_SHARE >= self.flow.counters.retransmitted
        {
            self.choices.are_informed = true;
            self.without_sack = None;
        }
    }

    /// Registers how many segments were acknowledged in order.
    pub fn note_answer(&mut self, segments: usize) {
        let answering = &mut self.answering;
        answering.acknowledgments = answering.acknowledgments.saturating_add(1);
        let of_many = u32::from(segments > 2);
        answering.of_many = answering.of_many.saturating_add(of_many);
    }

    /// Registers that a range is acknowledged; returns true if its fate will be judged with the other released ranges.
    pub fn release(&mut self, range: &Outstanding) -> bool {
        if let Some(without) = &mut self.without_sack {
            without.released.push(*range);
        }
        range.transmissions > 1 && !range.gap
    }

    /// The transmissions of the first byte of a range.
    fn transmissions_of(&self, range: &Outstanding) -> Chain {
        let mut chain = Chain {
            segments: [range.segment; MOST_TRANSMISSIONS],
            length: 1,
        };
        while let (Some(previous), true) = (
            self.transmission_before(range, chain.oldest()),
            chain.length < MOST_TRANSMISSIONS,
        ) {
            chain.segments[chain.length] = previous;
            chain.length += 1;
        }
        chain
    }

    fn transmission_before(&self, range: &Outstanding, segment: u32) -> Option<u32> {
        let first = self
            .repeats
            .partition_point(|repeat| repeat.segment < segment);
        let same = self.repeats.range(first..);
        let mut same = same.take_while(|repeat| repeat.segment == segment);
        let repeat = same.find(|repeat| repeat.start <= range.start && range.start < repeat.end)?;
        Some(repeat.previous).filter(|previous| *previous < segment)
    }

    /// Judges the fates of the ranges that an acknowledgment releases; `first` is the range that the receiver waited
    /// for.
    pub fn judge_released(&mut self, packet: &AckPacket, first: &Outstanding) {
        let Some(mut without) = self.without_sack.take() else {
            return;
        };
        let chain = self.transmissions_of(first);
        let filled = self.filled_by(packet, first, &chain);
        let after = without.answered.unwrap_or(chain.oldest());
        if after < filled {
            without.stands.push(Stand {
                after,
                before: filled,
                answers: without.duplicates,
            });
        }
        without.duplicates = 0;
        if first.transmissions > 1 && !first.gap {
            self.settle(packet, first, &chain, filled);
        }
        let received_beyond = self.received_beyond(packet, filled, &without.released);
        let mut answered = filled.max(after);
        without.filled = answered;
        without.doubtful.clear();
        for range in without.released.iter().skip(1) {
            let joined = self.answering.is_joint()
                || received_beyond.is_none_or(|beyond| beyond <= range.start);
            let at_once =
                joined && range.segment > filled && self.may_have_arrived(packet, range.segment);
            if at_once {
                answered = answered.max(range.segment);
            }
            if range.transmissions < 2 || range.gap {
                continue;
            }
            match at_once && without.doubtful.len() < MOST_AT_ONCE {
                true => without.doubtful.push(*range),
                false => self.had_arrived(packet, range, filled),
            }
        }
        without.answered = Some(answered);
        without.released.clear();
        self.without_sack = Some(without);
    }

    /// Processes a duplicate of an acknowledgment that released doubtful ranges: the receiver had them, and their
    /// retransmissions were needless.
    pub fn duplicate_without_sack(&mut self, packet: &AckPacket) {
        let Some(without) = &mut self.without_sack else {
            return;
        };
        without.duplicates = without.duplicates.saturating_add(1);
        if without.doubtful.is_empty() {
            return;
        }
        let filled = without.filled;
        without.answered = Some(filled);
        for range in std::mem::take(&mut without.doubtful) {
            self.had_arrived(packet, &range, filled);
        }
    }

    /// Registers that the range had arrived when the hole before it was filled.
    fn had_arrived(&mut self, packet: &AckPacket, range: &Outstanding, filled: u32) {
        let chain = self.transmissions_of(range);
        match chain.divided_by(filled) {
            (_, [arrived]) => self.settle(packet, range, &chain, *arrived),
            // all of them are later than the packet that filled the hole: this acknowledgment does not answer that
            // alone
            (_, []) => self.settle(packet, range, &chain, chain.oldest()),
            (later, earlier) => {
                self.came_for_nothing(later);
                earlier
                    .iter()
                    .for_each(|segment| self.set_fate(*segment, Fate::Unknown));
            }
        }
    }

    /// The segment that filled the hole: the newest transmission that this acknowledgment can answer.
    fn filled_by(&self, packet: &AckPacket, first: &Outstanding, chain: &Chain) -> u32 {
        let echoes_earlier = match packet.echo {
            Some(echo) if first.timestamp != 0 && echo != 0 => {
                (echo.wrapping_sub(first.timestamp) as i32) < 0
            }
            _ => false,
        };
        let newest = chain.all().iter().find(|segment| {
            let earlier = echoes_earlier && **segment == first.segment;
            self.may_have_arrived(packet, **segment) && !earlier
        });
        newest.copied().unwrap_or(chain.oldest())
    }

    /// The start of the last range that the receiver certainly had when the hole before it was filled.
    fn received_beyond(
        &self,
        packet: &AckPacket,
        filled: u32,
        released: &[Outstanding],
    ) -> Option<i64> {
        let is_received = |range: &&Outstanding| {
            range.segment < filled || !self.may_have_arrived(packet, range.segment)
        };
        let beyond = released.get(1..).unwrap_or_default();
        beyond
            .iter()
            .rev()
            .find(is_received)
            .map(|range| range.start)
    }

    /// True if it was sent long enough ago for this acknowledgment to answer it.
    fn may_have_arrived(&self, packet: &AckPacket, segment: u32) -> bool {
        let rtt_ns = packet.time_ns - self.flow.segments[segment as usize].time_ns;
        !self.is_too_soon(rtt_ns)
    }

    /// Registers that this transmission of a range arrived, earlier ones were lost, and later ones were needless.
    fn settle(&mut self, packet: &AckPacket, range: &Outstanding, chain: &Chain, arrived: u32) {
        let (later, _) = chain.divided_by(arrived);
        self.came_for_nothing(later);
        self.arrive(packet, arrived);
        // one packet may retransmit the data of several
        if let Some(&repeat) = later.last() {
            let first = self.repeats.partition_point(|other| other.segment < repeat);
            let mut at = first;
            while let Some(other) = self.repeats.get(at).filter(|it| it.segment == repeat) {
                let previous = other.previous;
                if other.start < range.end && range.start < other.end && previous < repeat {
                    self.arrive(packet, previous);
                }
                at += 1;
            }
        }
        self.newest_delivered_ns = self
            .newest_delivered_ns
            .max(self.flow.segments[arrived as usize].time_ns);
    }

    fn arrive(&mut self, packet: &AckPacket, segment: u32) {
        let segment = self.segment_mut(segment);
        segment.fate = Fate::Delivered;
        if segment.rtt_ns < 0 {
            segment.rtt_ns = packet.time_ns.saturating_sub(segment.time_ns).max(-1);
        }
    }

    fn came_for_nothing(&mut self, segments: &[u32]) {
        for &segment in segments {
            let segment = self.segment_mut(segment);
            segment.flags.set(SegmentFlags::SPURIOUS);
            segment.fate = Fate::Unknown;
        }
    }

    /// The wait before a hole that is still open at the end; packets sent too recently to be answered are not judged.
    fn last_stand(&self, without: &WithoutSack) -> Option<Stand> {
        let is_open = self.outstanding.front();
        if is_open.is_some_and(|first| first.transmissions < 2) {
            return None;
        }
        let answered_ns = self.last_acknowledgment_ns - self.smoothed_rtt_ns as i64;
        let segments = &self.flow.segments;
        let before = segments.partition_point(|segment| segment.time_ns <= answered_ns);
        Some(Stand {
            after: without.answered?,
            before: before as u32,
            answers: without.duplicates,
        })
    }

    /// Sets the fates that the number of acknowledgments determines, and counts the losses that it does not place;
    /// returns the uncertainty of their number.
    pub fn settle_stands(&mut self) -> u64 {
        let Some(mut without) = self.without_sack.take() else {
            return 0;
        };
        without.stands.extend(self.last_stand(&without));
        let segments = &self.flow.segments;
        let counts = without.stands.iter().map(|stand| stand.count(segments));
        let counts: Vec<Count> = counts.collect();
        let answers = Answers::of(&counts);
        let (mut surplus, mut unplaced_lost) = (answers.surplus, 0);
        for (stand, count) in without.stands.iter().zip(&counts) {
            let lost = answers.missing(count);
            if count.open == 0 {
                continue;
            }
            match lost {
                0 if answers.none_missing(count) => {
                    stand.settle(&mut self.flow.segments, Fate::Delivered)
                }
                _ if lost == count.needless && lost == count.open && answers.are_sure => {
                    stand.settle(&mut self.flow.segments, Fate::Lost);
                }
                _ => {
                    // a surplus of answers in one stand is missing in another
                    let balanced = lost.saturating_sub(surplus);
                    surplus = surplus.saturating_sub(lost);
                    if balanced > 0 {
                        unplaced_lost += balanced;
                        let range = stand.range();
                        self.flow.unplaced_losses.push(UnplacedLosses {
                            first: range.start,
                            end: range.end,
                            lost: balanced,
                        });
                    }
                }
            }
        }
        match unplaced_lost {
            0 => 0,
            lost => LEAST_DOUBT + (DOUBT_SHARE * lost as f64).ceil() as u64 + answers.surplus,
        }
    }
}

impl Stand {
    /// The segments between those that began and ended it.
    fn range(self) -> std::ops::Range<usize> {
        (self.after as usize).saturating_add(1)..self.before as usize
    }

    /// Sets this fate for all segments of unknown fate.
    fn settle(self, segments: &mut [Segment], fate: Fate) {
        let sent = segments.get_mut(self.range()).unwrap_or_default();
        let open = sent.iter_mut().filter(|segment| {
            segment.fate == Fate::Unknown && !segment.flags.has(SegmentFlags::INFERRED)
        });
        open.for_each(|segment| segment.fate = fate);
    }

    fn count(self, segments: &[Segment]) -> Count {
        let sent = segments.get(self.range()).unwrap_or_default();
        let mut count = Count {
            answers: u64::from(self.answers),
            ..Count::default()
        };
        for segment in sent {
            if segment.flags.has(SegmentFlags::INFERRED) {
                continue;
            }
            match segment.fate {
                Fate::Delivered => count.delivered += 1,
                Fate::Lost => {}
                Fate::Unknown => {
                    count.open += 1;
                    count.needless += u64::from(segment.flags.has(SegmentFlags::SPURIOUS));
                }
            }
        }
        count
    }
}

/// Packets sent during a stand, and the answers to them.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    delivered: u64,
    open: u64,
    /// Of those, retransmissions of data that had arrived: all of them may have been lost, unlike all transmissions of
    /// other data.
    needless: u64,
    answers: u64,
}

/// The reliability of counting acknowledgments: some are lost, some answer two packets, and packets are reordered.
#[derive(Debug, Clone, Copy, Default)]
struct Answers {
    /// The share of packets known to have arrived that were not answered.
    unanswered_share: f64,
    /// Answers beyond the number of possible arrivals.
    surplus: u64,
    few_surplus: bool,
    are_sure: bool,
}

impl Answers {
    fn of(counts: &[Count]) -> Self {
        let (mut arrived, mut unanswered, mut surplus, mut open) = (0, 0, 0, 0);
        for count in counts {
            surplus += count.answers.saturating_sub(count.delivered + count.open);
            open += count.open;
            if count.open == 0 {
                arrived += count.delivered;
                unanswered += count.delivered.saturating_sub(count.answers);
            }
        }
        let unanswered_share = match unanswered {
            0 => 0.0,
            some => some as f64 / arrived as f64,
        };
        Self {
            unanswered_share,
            surplus,
            few_surplus: surplus * 10 <= open,
            are_sure: unanswered == 0 && surplus * 10 <= open,
        }
    }

    /// True if all packets of unknown fate arrived.
    fn none_missing(&self, count: &Count) -> bool {
        self.few_surplus && count.answers >= count.delivered + count.open
    }

    /// How many packets of unknown fate were lost.
    fn missing(&self, count: &Count) -> u64 {
        let arrived = count.delivered + count.open;
        let answered = count.answers as f64 / (1.0 - self.unanswered_share).max(0.5);
        (arrived as f64 - answered)
            .round()
            .clamp(0.0, count.open as f64) as u64
    }
}
