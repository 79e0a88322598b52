//! whydrop's own UDP packets: probes and their answers, streams and bursts. Their packets are numbered, and answers
//! state how many probes had arrived. One capture therefore shows losses in both directions, and round trips without
//! the responder's own delay.
//!
//! Only fields at the same place in every version of the format are read; only the two ends can detect forged packets.

use std::collections::HashMap;

/// Of the versions of the format.
const MAGICS: [[u8; 2]; 2] = [[0x77, 0xd2], [0x77, 0xd1]];
/// The smallest packet.
const HEADER_BYTES: u32 = 64;
/// Instead of a flow number: comparisons of clocks.
const NO_FLOW: u32 = u32::MAX;
/// The most packets of one direction that are examined.
const MOST_SEEN: usize = 1 << 16;
/// Fewer answers say nothing about losses.
const FEWEST_ANSWERS: usize = 2;

/// The kind of packets in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Probes,
    Answers,
    Stream,
    Bursts,
    ClockComparisons,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Probes => "probes",
            Self::Answers => "answers",
            Self::Stream => "stream",
            Self::Bursts => "bursts",
            Self::ClockComparisons => "clock-comparisons",
        }
    }
}

/// A responder's answer to a probe.
#[derive(Debug, Clone, Copy)]
struct Answer {
    received_ns: i64,
    turnaround_ns: u32,
    /// Distinct probes that had arrived, modulo 2^32.
    arrived: u32,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    number: u64,
    time_ns: i64,
    sent_ns: i64,
    answer: Option<Answer>,
}

/// The packets of one direction, in the order of their passing.
#[derive(Debug, Default)]
pub(crate) struct Numbered {
    kind: Option<Kind>,
    flow: u32,
    seen: Vec<Seen>,
}

/// Losses and delays shown by the packets of one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    pub kind: Kind,
    /// Packets with a known fate, and those that did not arrive: for probes beyond the capture point, for all others
    /// before it.
    pub known: Option<KnownFates>,
    /// For probes, in seconds.
    pub round_trips: Option<RoundTrips>,
    /// The excess delay over the fastest packet, for half of the packets and for all but one in twenty, by the clocks
    /// of both ends, including their drift; seconds.
    pub waited_s: Option<[f64; 2]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownFates {
    pub packets: u64,
    pub lost: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundTrips {
    pub count: u64,
    pub min_s: f64,
    pub median_s: f64,
    /// 95 % are shorter.
    pub high_s: f64,
}

impl Numbered {
    pub fn take(&mut self, time_ns: i64, payload_bytes: u32, payload: &[u8]) {
        if payload_bytes < HEADER_BYTES || !MAGICS.iter().any(|magic| payload.starts_with(magic)) {
            return;
        }
        let (Some(&kind), Some(flow)) = (payload.get(2), number32(payload, 4)) else {
            return;
        };
        let kind = match kind {
            1 | 2 if flow == NO_FLOW => Kind::ClockComparisons,
            1 => Kind::Probes,
            2 => Kind::Answers,
            3 => Kind::Stream,
            4 => Kind::Bursts,
            _ => return,
        };
        let first = *self.kind.get_or_insert(kind);
        if self.seen.is_empty() {
            self.flow = flow;
        }
        if first != kind || self.flow != flow || self.seen.len() >= MOST_SEEN {
            return;
        }
        let (Some(number), Some(sent)) = (number64(payload, 16), number64(payload, 24)) else {
            return;
        };
        let answer = || {
            Some(Answer {
                received_ns: number64(payload, 32)?.cast_signed(),
                turnaround_ns: number32(payload, 40)?,
                arrived: number32(payload, 44)?,
            })
        };
        self.seen.push(Seen {
            number,
            time_ns,
            sent_ns: sent.cast_signed(),
            answer: answer().filter(|_| kind == Kind::Answers),
        });
    }

    /// The losses and delays that these packets and those of the other direction show; `None` for other traffic.
    pub fn measured(&self, back: Option<&Self>) -> Option<Measured> {
        let kind = self.kind?;
        let back = back.filter(|back| back.flow == self.flow);
        let (mut known, mut round_trips, mut waited_s) = (None, None, None);
        match kind {
            Kind::Probes => {
                let answers = back.filter(|back| back.kind == Some(Kind::Answers));
                known = answers.and_then(|answers| lost_behind(self, answers));
                round_trips = answers.and_then(|answers| round_trips_of(self, answers));
                waited_s = answers.and_then(|answers| waited(answers.delays_out()));
            }
            Kind::Answers => {
                known = self.lost_answers();
                waited_s = waited(self.delays_back());
            }
            Kind::Stream => known = self.missing(),
            Kind::Bursts | Kind::ClockComparisons => {}
        }
        Some(Measured {
            kind,
            known,
            round_trips,
            waited_s,
        })
    }

    /// The first answer, and the one to the latest probe, with their counts of arrivals.
    fn ends(&self) -> Option<[(u64, u32); 2]> {
        let known = || {
            self.seen
                .iter()
                .filter_map(|one| Some((one.number, one.answer?.arrived)))
        };
        let (first, last) = (known().next()?, known().max_by_key(|(number, _)| *number)?);
        (first.0 < last.0).then_some([first, last])
    }

    /// Distinct packets with numbers after the first, up to and including the last.
    fn between(&self, [first, last]: [(u64, u32); 2]) -> u64 {
        let numbers = self.seen.iter().map(|one| one.number);
        distinct(numbers.filter(|number| first.0 < *number && *number <= last.0))
    }

    /// Answers that were sent according to other answers, and those that never arrived.
    fn lost_answers(&self) -> Option<KnownFates> {
        let ends = self.ends().filter(|_| self.seen.len() >= FEWEST_ANSWERS)?;
        let sent = u64::from(ends[1].1.wrapping_sub(ends[0].1));
        KnownFates::of(sent, self.between(ends))
    }

    /// Packets missing by their numbers.
    fn missing(&self) -> Option<KnownFates> {
        let numbers = || self.seen.iter().map(|one| one.number);
        let span = numbers().max()?.checked_sub(numbers().min()?)?;
        KnownFates::of(span.checked_add(1)?, distinct(numbers()))
    }

    /// Apparent one-way delays of probes by the clocks of both ends, including their offset.
    fn delays_out(&self) -> impl Iterator<Item = i64> {
        let delay = |one: &Seen| one.answer?.received_ns.checked_sub(one.sent_ns);
        self.seen.iter().filter_map(delay)
    }

    /// The same for answers up to the capture point.
    fn delays_back(&self) -> impl Iterator<Item = i64> {
        let delay = |one: &Seen| {
            let answer = one.answer?;
            let left_ns = answer
                .received_ns
                .checked_add(i64::from(answer.turnaround_ns))?;
            one.time_ns.checked_sub(left_ns)
        };
        self.seen.iter().filter_map(delay)
    }
}

impl KnownFates {
    /// `None` if the count is impossible: the numbers restarted, or most packets were not captured.
    fn of(packets: u64, arrived: u64) -> Option<Self> {
        let lost = packets.saturating_sub(arrived);
        let plausible = packets > 0 && packets <= 10 * arrived.max(1);
        plausible.then_some(Self { packets, lost })
    }
}

/// Probes that were captured but did not arrive, according to the responder.
fn lost_behind(probes: &Numbered, answers: &Numbered) -> Option<KnownFates> {
    let ends = answers
        .ends()
        .filter(|_| answers.seen.len() >= FEWEST_ANSWERS)?;
    let arrived = u64::from(ends[1].1.wrapping_sub(ends[0].1));
    KnownFates::of(probes.between(ends), arrived)
}

/// Times from probes to their answers as captured, without the responder's own delay.
fn round_trips_of(probes: &Numbered, answers: &Numbered) -> Option<RoundTrips> {
    let mut sent: HashMap<u64, i64> = HashMap::with_capacity(probes.seen.len());
    for probe in &probes.seen {
        sent.entry(probe.number).or_insert(probe.time_ns);
    }
    let trip_ns = |one: &Seen| {
        let turnaround_ns = one
            .answer
            .map_or(0, |answer| i64::from(answer.turnaround_ns));
        let took_ns = one.time_ns.checked_sub(*sent.get(&one.number)?)?;
        took_ns
            .checked_sub(turnaround_ns)
            .filter(|trip_ns| *trip_ns >= 0)
    };
    let mut trips_ns: Vec<i64> = answers.seen.iter().filter_map(trip_ns).collect();
    trips_ns.sort_unstable();
    Some(RoundTrips {
        count: trips_ns.len() as u64,
        min_s: seconds(*trips_ns.first()?),
        median_s: seconds(quantile(&trips_ns, 50)?),
        high_s: seconds(quantile(&trips_ns, 95)?),
    })
}

/// Excess over the fastest: the median and the 95th percentile.
fn waited(delays_ns: impl Iterator<Item = i64>) -> Option<[f64; 2]> {
    let mut delays_ns: Vec<i64> = delays_ns.collect();
    delays_ns.sort_unstable();
    let least_ns = *delays_ns
        .first()
        .filter(|_| delays_ns.len() >= FEWEST_ANSWERS)?;
    let beyond = |percent| {
        Some(seconds(
            quantile(&delays_ns, percent)?.checked_sub(least_ns)?,
        ))
    };
    Some([beyond(50)?, beyond(95)?])
}

/// A quantile of sorted values.
fn quantile(sorted: &[i64], percent: usize) -> Option<i64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get(last * percent / 100).copied()
}

fn distinct(numbers: impl Iterator<Item = u64>) -> u64 {
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.len() as u64
}

fn seconds(time_ns: i64) -> f64 {
    time_ns as f64 * 1e-9
}

fn number32(payload: &[u8], at: usize) -> Option<u32> {
    let bytes = payload.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

fn number64(payload: &[u8], at: usize) -> Option<u64> {
    let bytes = payload.get(at..)?.first_chunk()?;
    Some(u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn packet(kind: u8, flow: u32, number: u64, sent_ns: i64) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..2].copy_from_slice(&MAGICS[0]);
        bytes[2] = kind;
        bytes[4..8].copy_from_slice(&flow.to_be_bytes());
        bytes[16..24].copy_from_slice(&number.to_be_bytes());
        bytes[24..32].copy_from_slice(&sent_ns.to_be_bytes());
        bytes
    }

    fn answer(number: u64, sent_ns: i64, received_ns: i64, arrived: u32) -> [u8; 64] {
        let mut bytes = packet(2, 7, number, sent_ns);
        bytes[32..40].copy_from_slice(&received_ns.to_be_bytes());
        bytes[40..44].copy_from_slice(&(2 * MS as u32).to_be_bytes());
        bytes[44..48].copy_from_slice(&arrived.to_be_bytes());
        bytes
    }

    /// Ten probes, of which 3 and 4 do not arrive; the answer to 6 is lost. The delay is 10 ms in each direction, from
    /// probe 8 on 15 ms longer towards the responder. The responder's clock is 5 s ahead.
    fn played() -> (Numbered, Numbered) {
        let (mut probes, mut answers) = (Numbered::default(), Numbered::default());
        let mut arrived = 0;
        for number in 0..10_u64 {
            let sent_ns = number as i64 * 20 * MS;
            probes.take(sent_ns, 64, &packet(1, 7, number, sent_ns));
            if (3..5).contains(&number) {
                continue;
            }
            arrived += 1;
            let out_ns = if number == 8 { 25 * MS } else { 10 * MS };
            let received_ns = sent_ns + out_ns + 5_000 * MS;
            let back_ns = sent_ns + out_ns + 12 * MS;
            if number != 6 {
                answers.take(back_ns, 64, &answer(number, sent_ns, received_ns, arrived));
            }
        }
        (probes, answers)
    }

    #[test]
    fn losses_are_reported_by_direction() {
        let (probes, answers) = played();
        let up = probes.measured(Some(&answers)).unwrap();
        assert_eq!(
            (up.kind, up.known),
            (
                Kind::Probes,
                Some(KnownFates {
                    packets: 9,
                    lost: 2
                })
            )
        );
        let down = answers.measured(Some(&probes)).unwrap();
        assert_eq!(
            (down.kind, down.known),
            (
                Kind::Answers,
                Some(KnownFates {
                    packets: 7,
                    lost: 1
                })
            )
        );
    }

    #[test]
    fn round_trips_leave_out_the_responders_own_delay_and_delays_the_offset_of_the_clocks() {
        let (probes, answers) = played();
        let up = probes.measured(Some(&answers)).unwrap();
        let trips = up.round_trips.unwrap();
        assert_eq!((trips.count, trips.min_s, trips.median_s), (7, 0.02, 0.02));
        assert_eq!(up.waited_s, Some([0.0, 0.0]));
        assert_eq!(answers.measured(None).unwrap().waited_s, Some([0.0, 0.0]));
    }

    #[test]
    fn probes_without_answers_show_no_losses() {
        let (probes, _) = played();
        let alone = probes.measured(None).unwrap();
        assert_eq!((alone.known, alone.round_trips), (None, None));
    }

    #[test]
    fn streams_miss_what_their_numbers_leave_out() {
        let mut stream = Numbered::default();
        for number in [5, 6, 8, 9, 9] {
            stream.take(0, 64, &packet(3, 1, number, 0));
        }
        let known = stream.measured(None).unwrap().known;
        assert_eq!(
            known,
            Some(KnownFates {
                packets: 5,
                lost: 1
            })
        );
    }

    #[test]
    fn cut_foreign_and_hostile_packets_are_no_matter() {
        let mut numbered = Numbered::default();
        let whole = packet(2, 7, u64::MAX, i64::MIN);
        for cut in 0..64 {
            numbered.take(i64::MAX, 64, &whole[..cut]);
        }
        numbered.take(i64::MIN, 64, &answer(0, i64::MAX, i64::MIN, u32::MAX));
        assert_eq!(
            numbered.measured(Some(&Numbered::default())).unwrap().kind,
            Kind::Answers
        );
        let mut foreign = Numbered::default();
        foreign.take(0, 100, b"GET / HTTP/1.1");
        foreign.take(0, 10, &whole);
        assert!(foreign.measured(None).is_none());
    }
}
