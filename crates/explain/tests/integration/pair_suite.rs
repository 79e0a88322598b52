//! Random pairs of captures for every mechanism, as untidy as real ones, with a seed that tuned no threshold.

use std::fs;
use std::path::Path;

use whydrop_explain::document::Document;
use whydrop_explain::{Options, explain_pair, explain_paths};
use whydrop_simulate::pair::write;
use whydrop_simulate::suite::kind::right_causes;
use whydrop_simulate::suite::pairs::play;
use whydrop_simulate::suite::{Split, SuiteConfig};

/// The day on which RFC 4737, which defines reordering, was published: November 2006.
const SEED: u64 = 20_061_101;
const MECHANISMS: usize = 24;

struct Explained {
    name: String,
    kind: String,
    truth: serde_json::Value,
    document: Document,
}

/// Simulates, writes and explains this many pairs, one after the other.
fn each(folder: &str, count: usize, mut look: impl FnMut(Explained)) -> usize {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let config = SuiteConfig {
        split: Split::Validation,
        seed: SEED,
        count,
        ..SuiteConfig::default()
    };
    let mut played = 0;
    for index in 0..count {
        let Some(mut pair) = play(&config, index) else {
            continue;
        };
        played += 1;
        let truth = write(&mut pair, &folder).expect("the target folder can be written to");
        let paths = ["b.pcap", "y.pcap"].map(|name| folder.join(name));
        let explanation = explain_pair(&paths, Options::default()).expect("they match");
        look(Explained {
            name: format!("{index} {}", truth["name"]),
            kind: truth["kind"].as_str().unwrap_or("").to_owned(),
            truth,
            document: explanation.document,
        });
    }
    let _ = fs::remove_dir_all(&folder);
    played
}

#[test]
fn random_pairs_are_explained_and_no_policer_is_named_without_one() {
    explains_drawn_pairs("pair-suite", MECHANISMS);
}

#[test]
#[ignore = "exhaustive"]
fn two_of_each_mechanism_are_explained_and_no_policer_is_named_without_one() {
    explains_drawn_pairs("pair-suite-of-two", 2 * MECHANISMS);
}

fn explains_drawn_pairs(folder: &str, count: usize) {
    let (mut accused, mut wrong, mut miscounted) = (Vec::new(), Vec::new(), Vec::new());
    let played = each(folder, count, |explained_pair| {
        let verdicts = &explained_pair.document.verdicts;
        if explained_pair.kind != "policer" {
            let policers = verdicts
                .iter()
                .filter(|verdict| verdict.cause.name() == "policer");
            accused.extend(policers.map(|verdict| {
                format!(
                    "{}: {} {:?}",
                    explained_pair.name, verdict.cause, verdict.facts
                )
            }));
        }
        let cause = verdicts
            .first()
            .map_or("none", |verdict| verdict.cause.name());
        if !right_causes(&explained_pair.kind).contains(&cause) {
            wrong.push(format!(
                "{} ({}): {cause}",
                explained_pair.name, explained_pair.kind
            ));
        }
        let pair = explained_pair.document.pair.as_ref().expect("two captures");
        let lost = explained_pair.truth["forward_packets_lost_between"]
            .as_u64()
            .unwrap_or(0);
        let tolerance = explained_pair.truth["realism"]["lost_tolerance"]
            .as_f64()
            .unwrap_or(0.0);
        if pair.lost_1_to_2.abs_diff(lost) as f64 > tolerance * lost.max(30) as f64 {
            miscounted.push(format!(
                "{}: {} of {lost}",
                explained_pair.name, pair.lost_1_to_2
            ));
        }
    });
    assert!(played >= count - 4, "{played}");
    assert!(accused.is_empty(), "{accused:#?}");
    // not every mechanism shows in every untidy pair (one direction only, a sniffer that misses a third,
    // ...): one in five of many may be wrong, and one more of few
    assert!(wrong.len() * 5 <= played + 5, "{wrong:#?}");
    assert!(miscounted.len() * 12 <= played, "{miscounted:#?}");
}

#[test]
fn one_direction_shows_overtaking_and_marks() {
    // both without the return direction
    for (seed, index, cause) in [(3107, 92, "reordering"), (3131, 108, "aqm")] {
        let config = SuiteConfig {
            split: Split::Train,
            seed,
            count: 160,
            ..SuiteConfig::default()
        };
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("one-way-{cause}"));
        let mut pair = play(&config, index).expect("it shows its mechanism");
        let truth = write(&mut pair, &folder).expect("the target folder can be written to");
        assert_eq!(truth["reverse_captured"], false);
        let paths = ["b.pcap", "y.pcap"].map(|name| folder.join(name));
        let explanation = explain_pair(&paths, Options::default()).expect("they match");
        assert_eq!(explanation.document.verdicts[0].cause.name(), cause);
        let _ = fs::remove_dir_all(&folder);
    }
}

#[test]
fn one_capture_distinguishes_a_shared_full_queue_from_queue_management() {
    let config = SuiteConfig {
        split: Split::Train,
        seed: 9102,
        count: 120,
        ..SuiteConfig::default()
    };
    // losses at many delays, since cross traffic fills the queue too; fourteen drops of a queue per flow, at
    // long delays
    for (index, is_managed) in [(93, false), (106, true)] {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("one-capture-{index}"));
        let mut pair = play(&config, index).expect("it shows its mechanism");
        write(&mut pair, &folder).expect("the target folder can be written to");
        let explanation =
            explain_paths(&[folder.join("b.pcap")], Options::default()).expect("it can be read");
        let first = &explanation.document.verdicts[0];
        assert_eq!(
            first.cause.name() == "aqm",
            is_managed,
            "{index}: {first:?}"
        );
        let _ = fs::remove_dir_all(&folder);
    }
}
