//! Random paths over a wide range of physics, with a seed that tuned no threshold.

use whydrop_explain::document::Document;
use whydrop_simulate::suite::captures::{self, Played};
use whydrop_simulate::suite::{CAPTURES, Kind, Split, SuiteConfig};

/// The day on which the paper on policers behind this work was presented: 22 August 2016.
const SEED: u64 = 20_160_822;

/// Some cases of each kind, one after the other: a suite in memory would be large.
fn each(
    kinds: &[&'static Kind],
    count: usize,
    mut look: impl FnMut(&str, &Played, &Document),
) -> usize {
    let mut played = 0;
    for (position, &kind) in kinds.iter().enumerate() {
        let config = SuiteConfig {
            split: Split::Validation,
            seed: SEED,
            count,
            only: Some(kind),
            ..SuiteConfig::default()
        };
        // the same index would draw the same hosts and distances for every kind
        for index in position * count..(position + 1) * count {
            let Some(case) = captures::play(&config, index) else {
                continue;
            };
            played += 1;
            let pcap = crate::common::pcap(&case.history, &case.flows, &case.capture, case.seed);
            let name = format!("{} {index} {:?}", kind.name, case.parameters);
            look(&name, &case, &crate::common::document_of(pcap));
        }
    }
    played
}

/// The worst mistake: a user would complain to the wrong provider for days.
#[test]
fn no_policer_is_named_on_thirty_paths_without_one() {
    names_no_policer(2);
}

#[test]
#[ignore = "exhaustive"]
fn no_policer_is_named_on_sixty_paths_without_one() {
    names_no_policer(4);
}

/// On this many paths of each kind without a policer.
fn names_no_policer(count: usize) {
    let kinds: Vec<&Kind> = CAPTURES.iter().filter(|kind| !kind.has_policer()).collect();
    let mut accused = Vec::new();
    let played = each(&kinds, count, |name, _, document| {
        for verdict in document
            .verdicts
            .iter()
            .filter(|v| v.cause.name() == "policer")
        {
            accused.push(format!("{name}: {} {:?}", verdict.cause, verdict.facts));
        }
        for transfer in document
            .transfers
            .iter()
            .filter(|t| t.cause.name() == "policer")
        {
            accused.push(format!("{name}: transfer {transfer:?}"));
        }
    });
    assert!(played >= 15 * count, "{played}");
    assert!(accused.is_empty(), "{accused:#?}");
}

#[test]
fn most_policers_are_named_and_their_rates_lie_in_the_intervals() {
    // behind the hop the evidence is weak
    let kinds = ["policer", "policer-shared"].map(|name| Kind::of_capture(name).expect(name));
    let (mut named, mut inside, mut missed) = (0, 0, Vec::new());
    let mut before_the_hop = 0;
    each(&kinds, 8, |name, case, document| {
        if case.oracle.is_none() {
            return;
        }
        before_the_hop += 1;
        let verdict = crate::common::headline(document);
        if verdict.cause.name() != "policer" {
            missed.push(format!("{name}: {} {:?}", verdict.cause, verdict.facts));
            return;
        }
        named += 1;
        let rate_bps = case.parameters["rate_bps"].as_f64().expect("a rate");
        if crate::common::holds(verdict, "rate_bps", rate_bps) {
            inside += 1;
        } else {
            missed.push(format!("{name}: {:?}", verdict.parameters));
        }
    });
    assert!(
        3 * named >= 2 * before_the_hop,
        "{named} of {before_the_hop}: {missed:#?}"
    );
    assert!(10 * inside >= 9 * named, "{inside} of {named}: {missed:#?}");
}
