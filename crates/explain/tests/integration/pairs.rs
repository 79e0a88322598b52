//! Two captures of one path, and more: the published case, faults, order.

use std::fs;
use std::path::{Path, PathBuf};

use whydrop_explain::document::{Document, Verdict};
use whydrop_explain::{ExplainError, Options, explain_pair, match_pair};
use whydrop_simulate::pair::published::{PublishedConfig, pair};
use whydrop_simulate::pair::write;
use whydrop_verdict::{Fact, Place, PlaceKind};

/// The records of a capture file, to be rewritten.
#[derive(Clone)]
struct Pcap {
    header: Vec<u8>,
    /// Seconds, fraction, the rest of the record.
    records: Vec<(u32, u32, Vec<u8>)>,
}

impl Pcap {
    fn example(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../examples")
            .join(name);
        let bytes = zstd::decode_all(fs::File::open(path).expect("the example is there"))
            .expect("it is zstd");
        let word =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let (mut at, mut records) = (24, Vec::new());
        while at + 16 <= bytes.len() {
            let end = at + 16 + word(at + 8) as usize;
            records.push((word(at), word(at + 4), bytes[at + 8..end].to_vec()));
            at = end;
        }
        Self {
            header: bytes[..24].to_vec(),
            records,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.clone();
        for (seconds, fraction, rest) in &self.records {
            bytes.extend(seconds.to_le_bytes());
            bytes.extend(fraction.to_le_bytes());
            bytes.extend(rest);
        }
        bytes
    }

    fn keeping(&self, keep: impl Fn(usize) -> bool) -> Self {
        let records = self
            .records
            .iter()
            .enumerate()
            .filter(|(index, _)| keep(*index));
        Self {
            header: self.header.clone(),
            records: records.map(|(_, record)| record.clone()).collect(),
        }
    }

    /// The capture with every record from `from` on later by this many seconds.
    fn later(&self, from: usize, seconds: u32) -> Self {
        let mut moved = self.clone();
        for record in &mut moved.records[from..] {
            record.0 += seconds;
        }
        moved
    }
}

/// A folder for the files of one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    folder
}

fn explain_files(name: &str, captures: &[&[u8]]) -> Result<Document, ExplainError> {
    let folder = folder(name);
    let paths: Vec<PathBuf> = captures
        .iter()
        .enumerate()
        .map(|(index, bytes)| {
            let path = folder.join(format!("{}.pcap", index + 1));
            fs::write(&path, bytes).expect("the file can be written");
            path
        })
        .collect();
    explain_pair(&paths, Options::default()).map(|explanation| explanation.document)
}

/// The example of a policed download, near and far: 20 Mbit/s and 51 200 bytes, 96 packets lost, segmentation offload
/// at the near point.
fn near_and_far() -> (Pcap, Pcap) {
    (
        Pcap::example("policed-download.pcap.zst"),
        Pcap::example("policed-download-far.pcap.zst"),
    )
}

fn parameter(verdict: &Verdict, name: &str) -> f64 {
    verdict.parameters[name].value
}

fn assert_policed(document: &Document) {
    let headline = &document.verdicts[0];
    assert_eq!(headline.cause.name(), "policer", "{:?}", headline.facts);
    let rate = parameter(headline, "rate_bps");
    assert!((rate / 20e6 - 1.0).abs() < 0.02, "{rate}");
    let burst = parameter(headline, "burst_bytes");
    assert!((burst - 51_200.0).abs() < 2_560.0, "{burst}");
    assert_eq!(replayed(headline).number("variants"), Some(1.0));
}

#[test]
fn the_published_case_is_a_policer_at_300_megabit_and_50_kilobytes() {
    for (seed, one_way) in [(1, false), (2, false), (3, true)] {
        let folder = folder(&format!("published-{seed}"));
        let mut simulated = pair(PublishedConfig {
            seed,
            one_way,
            ..PublishedConfig::default()
        });
        let truth = write(&mut simulated, &folder).expect("it can be written");
        let paths = ["b.pcap", "y.pcap"].map(|name| folder.join(name));
        let document = explain_pair(&paths, Options::default())
            .expect("they match")
            .document;
        let headline = &document.verdicts[0];
        assert_eq!(headline.cause.name(), "policer", "{:?}", headline.facts);
        let (rate, burst) = (
            parameter(headline, "rate_bps"),
            parameter(headline, "burst_bytes"),
        );
        assert!((rate - 300e6).abs() < 3e6, "{rate}");
        assert!((burst - 51_200.0).abs() < 3e3, "{burst}");
        let found = document.pair.expect("two captures").lost_1_to_2;
        assert_eq!(
            found,
            truth["forward_packets_lost_between"]
                .as_u64()
                .expect("a count")
        );
        for ruled_out in ["shallow-queue", "shaper"] {
            let why = headline
                .against
                .iter()
                .find(|against| against.cause.name() == ruled_out);
            let why = &why.expect("it competed").fact;
            assert!(
                why.code.ends_with("-would-queue")
                    && why.number("longest_wait_s") > why.number("seen_longest_wait_s"),
                "{why:?}"
            );
        }
    }
}

/// The winner's replay.
fn replayed(verdict: &Verdict) -> &Fact {
    let mut facts = verdict.facts.iter();
    let replayed = facts.find(|fact| fact.code == "model-replayed");
    replayed.expect("the winner was replayed")
}

#[test]
fn a_queue_verdict_states_the_number_of_variants() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let names = ["shallow-queue.pcap.zst", "shallow-queue-far.pcap.zst"];
    let explained = explain_pair(&names.map(|name| examples.join(name)), Options::default());
    let document = explained.expect("they match").document;
    let variants = replayed(&document.verdicts[0]).number("variants");
    assert_eq!(variants, Some(20.0));
}

#[test]
fn losses_are_the_same_whichever_capture_is_named_first() {
    let (near, far) = near_and_far();
    let document = explain_files("reversed", &[&far.bytes(), &near.bytes()]).expect("they match");
    assert_policed(&document);
    let pair = document.pair.expect("two captures");
    assert_eq!((pair.lost_1_to_2, pair.lost_2_to_1), (0, 96));
    assert_eq!(pair.upstream, "capture 2");
}

#[test]
fn clocks_an_hour_apart_are_found_to_be() {
    let (near, far) = near_and_far();
    let document =
        explain_files("hour", &[&near.bytes(), &far.later(0, 3600).bytes()]).expect("they match");
    assert_policed(&document);
    let pair = document.pair.expect("two captures");
    assert_eq!((pair.lost_1_to_2, pair.lost_2_to_1), (96, 0));
    let offset = pair.clock_offset_s.expect("both directions");
    assert!((offset - 3600.0).abs() < 1e-3, "{offset}");
}

#[test]
fn a_clock_that_is_stepped_in_the_middle_loses_no_packet() {
    let (near, far) = near_and_far();
    let stepped = far.later(far.records.len() / 2, 7);
    let document = explain_files("step", &[&near.bytes(), &stepped.bytes()]).expect("they match");
    assert_policed(&document);
    let pair = document.pair.expect("two captures");
    assert_eq!((pair.lost_1_to_2, pair.clock_stretches.len()), (96, 2));
    let step = pair.clock_stretches[1].offset_s - pair.clock_stretches[0].offset_s;
    assert!((step - 7.0).abs() < 1e-3, "{step}");
}

#[test]
fn packets_missing_from_a_capture_are_no_losses_of_the_path() {
    let (near, far) = near_and_far();
    // three of ten, in no order related to the packets
    let kept = |index: usize| (index * 7919 + index / 13) % 10 >= 3;
    let document =
        explain_files("missed", &[&near.bytes(), &far.keeping(kept).bytes()]).expect("they match");
    assert_policed(&document);
    let pair = document.pair.expect("two captures");
    assert!(pair.lost_1_to_2.abs_diff(96) <= 5, "{}", pair.lost_1_to_2);
    assert!(
        pair.missed_by_2 > 4000 && pair.missed_by_1 == 0,
        "{}",
        pair.missed_by_2
    );
    assert!(
        document
            .verdicts
            .iter()
            .any(|verdict| verdict.cause.name() == "capture-loss")
    );
}

#[test]
fn a_truncated_capture_is_compared_as_far_as_it_goes() {
    let (near, far) = near_and_far();
    let bytes = far.bytes();
    let document = explain_files("truncated", &[&near.bytes(), &bytes[..bytes.len() / 2 + 7]])
        .expect("they match");
    assert!(document.captures[1].truncated);
    assert!(
        document.captures[1].notes[0].contains("at byte"),
        "{:?}",
        document.captures[1].notes
    );
    assert_eq!(document.verdicts[0].cause.name(), "policer");
    let pair = document.pair.expect("two captures");
    assert!(
        pair.unmatched["outside-overlap"] > 3000,
        "{:?}",
        pair.unmatched
    );
    assert!(
        pair.lost_1_to_2 > 80 && pair.lost_1_to_2 <= 96,
        "{}",
        pair.lost_1_to_2
    );
}

#[test]
fn captures_of_different_paths_are_refused_with_the_contents_of_each() {
    let (near, _) = near_and_far();
    let other = Pcap::example("shallow-queue-far.pcap.zst");
    let error =
        explain_files("other-path", &[&near.bytes(), &other.bytes()]).expect_err("nothing matches");
    let message = error.to_string();
    assert!(message.starts_with("no packet in common"), "{message}");
    assert!(
        message.contains("10.0.1.1") && !message.contains('\n'),
        "{message}"
    );
}

#[test]
fn one_capture_is_not_enough() {
    let (near, _) = near_and_far();
    let error = explain_files("alone", &[&near.bytes()]).expect_err("there is one");
    assert!(error.to_string().contains("two captures"), "{error}");
}

#[test]
fn three_captures_are_sorted_and_the_loss_is_located_between_two() {
    let (near, far) = near_and_far();
    // a third point 20 ms further on, as its microsecond timestamps show, without losses before it
    let forth = |rest: &[u8]| rest[8 + 26..8 + 30] == [10, 0, 1, 1];
    let mut third = far.clone();
    for (seconds, fraction, rest) in &mut third.records {
        let moved = i64::from(*fraction) + if forth(rest) { 20_000 } else { -20_000 };
        *seconds = seconds.wrapping_add_signed(moved.div_euclid(1_000_000) as i32);
        *fraction = moved.rem_euclid(1_000_000) as u32;
    }
    third
        .records
        .sort_by_key(|(seconds, fraction, _)| (*seconds, *fraction));
    let captures = [third.bytes(), near.bytes(), far.bytes()];
    let document =
        explain_files("three", &[&captures[0], &captures[1], &captures[2]]).expect("they match");
    let names: Vec<&str> = document
        .captures
        .iter()
        .map(|capture| capture.path.rsplit('/').next().unwrap_or(""))
        .collect();
    assert_eq!(names, ["2.pcap", "3.pcap", "1.pcap"]);
    assert_policed(&document);
    assert_eq!(
        document.verdicts[0].place,
        Some(Place::of(PlaceKind::Between, &[1, 2]))
    );
    let lost: Vec<u64> = document.hops.iter().map(|hop| hop.lost_1_to_2).collect();
    assert_eq!(lost, [96, 0]);
    assert_eq!(document.pair.expect("the whole path").lost_1_to_2, 96);
}

#[test]
fn matching_alone_gives_every_packet_a_row() {
    let (near, far) = near_and_far();
    let folder = folder("match");
    let paths = [("near.pcap", near.bytes()), ("far.pcap", far.bytes())].map(|(name, bytes)| {
        let path = folder.join(name);
        fs::write(&path, bytes).expect("the file can be written");
        path
    });
    let options = Options {
        keep_tables: true,
        ..Options::default()
    };
    let matched = match_pair(&paths, options).expect("they match");
    let pair = matched.document.pair.expect("two captures");
    let rows = &matched.tables.crossings;
    let count = |crossing: u8| {
        rows.crossing
            .iter()
            .filter(|code| **code == crossing)
            .count() as u64
    };
    assert_eq!((count(0), count(1)), (pair.matched, 96));
    assert_eq!(
        rows.burst_position
            .iter()
            .filter(|position| **position > 0)
            .count(),
        96
    );
    assert!(matched.document.verdicts.is_empty());
}

/// Numbers without a pattern (xorshift, Marsaglia 2003), the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * bound as u64) >> 32) as usize
    }
}

#[test]
fn pairs_with_flipped_bits_end_in_an_answer_or_in_one_line() {
    let (near, far) = near_and_far();
    let captures = [
        near.keeping(|index| index < 600).bytes(),
        far.keeping(|index| index < 900).bytes(),
    ];
    let mut random = Random(11);
    for round in 0..150 {
        let mut damaged = captures.clone();
        let hit = &mut damaged[round % 2];
        let reach = if round % 3 == 0 { 600 } else { hit.len() };
        for _ in 0..1 + random.below(40) {
            hit[random.below(reach)] ^= 1 << random.below(8);
        }
        match explain_files("flipped", &[&damaged[0], &damaged[1]]) {
            Ok(document) => {
                let json = serde_json::to_string(&document).expect("a document is JSON");
                assert!(!json.contains("NaN"), "{json}");
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
}

#[test]
fn timestamps_without_sense_are_survived() {
    let (near, far) = near_and_far();
    let mut random = Random(12);
    let mut near = near.keeping(|index| index < 2000);
    for record in &mut near.records {
        if random.below(5) == 0 {
            record.0 = random.below(u32::MAX as usize) as u32;
        }
        if random.below(7) == 0 {
            record.1 = random.below(u32::MAX as usize) as u32;
        }
    }
    let result = explain_files(
        "senseless",
        &[&near.bytes(), &far.keeping(|index| index < 2000).bytes()],
    );
    assert!(result.is_ok_and(|document| document.pair.is_some_and(|pair| pair.matched > 500)));
}
