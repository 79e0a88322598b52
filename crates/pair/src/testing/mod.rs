//! Two synthetic captures of one path, with the known fate of every packet.

mod path;
mod wire;

pub(crate) use path::{Path, Random, Transfer};
pub(crate) use wire::{Body, Encoding, Passing, Wire};

use std::io::Cursor;

use whydrop_capture::{Capture, OpenOptions};

use crate::{Crossing, NOT_CAPTURED, Pair, PairError, PairOptions, read_pair};

/// A packet's transit past both points: its contents in each capture, and the expected verdict.
#[derive(Debug, Clone)]
pub(crate) struct Journey {
    /// At each point; `None` if it did not get that far, or the capture does not hold it.
    pub seen: [Option<Passing>; 2],
    pub crossing: Crossing,
}

/// Packets of one test: their captures, and the expected verdicts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scene {
    pub journeys: Vec<Journey>,
    pub encodings: [Encoding; 2],
}

impl Scene {
    pub(crate) fn new(journeys: Vec<Journey>) -> Self {
        Self {
            journeys,
            ..Self::default()
        }
    }

    /// Changes the packets at one point.
    pub(crate) fn at(mut self, side: usize, change: impl Fn(&mut Passing)) -> Self {
        for journey in &mut self.journeys {
            if let Some(passing) = &mut journey.seen[side] {
                change(passing);
            }
        }
        self
    }

    pub(crate) fn encoded(mut self, side: usize, encoding: Encoding) -> Self {
        self.encodings[side] = encoding;
        self
    }

    pub(crate) fn swapped(mut self) -> Self {
        self.encodings.swap(0, 1);
        for journey in &mut self.journeys {
            journey.seen.swap(0, 1);
        }
        self
    }

    /// Both captures as files, and the number of each packet's journey in the order of the file.
    pub(crate) fn files(&self) -> ([Vec<u8>; 2], [Vec<usize>; 2]) {
        let one = |side: usize| {
            let mut seen: Vec<(i64, usize)> = self
                .journeys
                .iter()
                .enumerate()
                .filter_map(|(number, journey)| {
                    journey.seen[side].as_ref().map(|p| (p.order_ns, number))
                })
                .collect();
            seen.sort_unstable();
            let packets = seen
                .iter()
                .filter_map(|&(_, number)| self.journeys[number].seen[side].as_ref());
            let file = self.encodings[side].file(packets);
            (file, seen.into_iter().map(|(_, number)| number).collect())
        };
        let ([first, second], [one_order, two_order]) = {
            let (first, one_order) = one(0);
            let (second, two_order) = one(1);
            ([first, second], [one_order, two_order])
        };
        ([first, second], [one_order, two_order])
    }

    pub(crate) fn read(&self) -> Result<Pair, PairError> {
        self.read_with(PairOptions::default())
    }

    pub(crate) fn read_with(&self, options: PairOptions) -> Result<Pair, PairError> {
        let (files, _) = self.files();
        read_files(files, options)
    }

    /// Reads the captures and compares every packet's verdict.
    #[track_caller]
    pub(crate) fn check(&self) -> Pair {
        let pair = self.read().expect("packets in common");
        let wrong = self.wrong(&pair);
        assert!(
            wrong.is_empty(),
            "{} of {} packets: {:#?}",
            wrong.len(),
            self.journeys.len(),
            &wrong[..wrong.len().min(8)]
        );
        pair
    }

    /// Packets with an unexpected verdict, or matched with another one. Only for captures without
    /// super-segments.
    pub(crate) fn wrong(&self, pair: &Pair) -> Vec<String> {
        let (_, orders) = self.files();
        let mut found: Vec<Option<(Crossing, [u32; 2])>> = vec![None; self.journeys.len()];
        let mut wrong = Vec::new();
        for packet in &pair.packets {
            let numbers: Vec<usize> = (0..2)
                .filter(|&side| packet.index[side] != NOT_CAPTURED)
                .map(|side| orders[side][packet.index[side] as usize])
                .collect();
            if numbers.windows(2).any(|pair| pair[0] != pair[1]) {
                wrong.push(format!("{numbers:?} matched: {packet:?}"));
            }
            for number in numbers {
                found[number] = Some((packet.crossing, packet.index));
            }
        }
        for (number, (journey, found)) in self.journeys.iter().zip(&found).enumerate() {
            let expected = journey
                .seen
                .iter()
                .any(Option::is_some)
                .then_some(journey.crossing);
            if expected != found.map(|(crossing, _)| crossing) {
                wrong.push(format!(
                    "{number}: expected {expected:?}, found {found:?} of {journey:?}"
                ));
            }
        }
        wrong
    }
}

pub(crate) fn read_files(files: [Vec<u8>; 2], options: PairOptions) -> Result<Pair, PairError> {
    read_pair(opened(files), options)
}

pub(crate) fn opened(files: [Vec<u8>; 2]) -> [Capture; 2] {
    let mut number = 0;
    files.map(|bytes| {
        number += 1;
        let label = format!("capture-{number}");
        Capture::from_reader(&label, Cursor::new(bytes), OpenOptions::default())
            .expect("a capture file")
    })
}
