use super::kind::{CAPTURES, PAIRS};
use super::pairs::{MOST_DRAWS, play};
use super::*;
use crate::pair::{Crossing, SimulatedPair, count, covered};
use crate::pair::{Point, Sniffer};

fn config(name: &str) -> SuiteConfig {
    SuiteConfig {
        seed: 7,
        count: 1,
        only: Kind::of_pair(name),
        ..SuiteConfig::default()
    }
}

#[test]
fn every_kind_of_pairs_shows_itself_several_times_over() {
    for kind in PAIRS {
        for index in 0..4 {
            let pair = play(&config(kind.name), index);
            let pair = pair
                .unwrap_or_else(|| panic!("{} {index}: nothing in {MOST_DRAWS} draws", kind.name));
            assert_eq!((pair.kind, pair.variant), (kind.family, kind.name));
        }
    }
}

#[test]
fn every_kind_of_captures_shows_itself_and_is_the_same_when_drawn_again() {
    for kind in CAPTURES {
        let config = SuiteConfig {
            only: Some(kind),
            ..config("")
        };
        let played = captures::play(&config, 3);
        let played = played.unwrap_or_else(|| panic!("{}: no draw shows it", kind.name));
        let again = captures::play(&config, 3).unwrap();
        assert_eq!(played.truths, again.truths, "{}", kind.name);
        assert!(played.history.records.len() > 100, "{}", kind.name);
    }
}

#[test]
fn short_transfers_are_the_same_when_drawn_again_and_name_what_happened() {
    let mut names = std::collections::BTreeSet::new();
    for index in 0..40 {
        let first = transfers::play(&config(""), transfers::Drawn::Transfers, index)
            .expect("a draw with enough data");
        let again = transfers::play(&config(""), transfers::Drawn::Transfers, index).unwrap();
        assert_eq!((first.seed, &first.right), (again.seed, &again.right));
        assert_eq!(first.accounts, again.accounts);
        let right = first.right;
        assert!(!right.is_empty());
        let transfers = &first.accounts[0].transfers;
        assert_eq!(first.right_by_transfer.len(), transfers.len());
        // a connection with one transfer has the same account
        if transfers.len() == 1 {
            assert_eq!(first.right_by_transfer[0], right);
        }
        names.insert(right[0]);
    }
    assert!(names.len() >= 5, "{names:?}");
}

#[test]
fn the_splits_differ() {
    let of = |split, name| SuiteConfig {
        split,
        ..config(name)
    };
    let pair = |split| play(&of(split, "policer"), 0).unwrap().seed;
    assert_ne!(pair(Split::Train), pair(Split::Validation));
    let only = Kind::of_capture("random-loss");
    let capture = |split| {
        captures::play(
            &SuiteConfig {
                only,
                ..of(split, "")
            },
            0,
        )
        .unwrap()
    };
    assert_ne!(capture(Split::Train).seed, capture(Split::Validation).seed);
}

#[test]
fn losses_count_while_both_captures_watch_and_not_before_or_after() {
    let mut pair = play(&config("policer"), 1).unwrap();
    (pair.b, pair.y) = (Sniffer::new(Point::B), Sniffer::new(Point::Y));
    let lost_ns: Vec<i64> = (pair.crossings.iter())
        .filter(|c| c.is_forward() && c.lost_between)
        .filter_map(|c| c.at_b_ns)
        .collect();
    let counted = |pair: &mut SimulatedPair| {
        let (b, y) = pair.watch();
        let within = covered(&pair.crossings, &b, &y);
        count(&pair.crossings, &within).forward_lost as usize
    };
    assert_eq!(counted(&mut pair), lost_ns.len());
    let (first_ns, last_ns) = (lost_ns[lost_ns.len() / 4], lost_ns[lost_ns.len() * 3 / 4]);
    (pair.b.begins_ns, pair.b.ends_ns) = (first_ns, last_ns);
    let within = lost_ns
        .iter()
        .filter(|&&ns| (first_ns..=last_ns).contains(&ns))
        .count();
    assert_eq!(counted(&mut pair), within);
    // Y stops before B does: losses in the last transit time are not counted.
    let transit_ns = pair
        .crossings
        .iter()
        .filter_map(Crossing::transit_ns)
        .min()
        .unwrap();
    pair.y.ends_ns = last_ns + transit_ns - 1_000_000;
    let sure = lost_ns
        .iter()
        .filter(|&&ns| (first_ns..last_ns - 1_500_000).contains(&ns))
        .count();
    assert!(
        (sure..within).contains(&counted(&mut pair)),
        "{sure} {within}"
    );
}

#[test]
fn replaying_the_policer_of_the_truth_over_b_gives_the_losses_of_the_truth() {
    use whydrop_path::{Outcome, Policer, replay};
    let (mut agreed, mut lost) = (0, 0);
    for index in 0..8 {
        let pair = play(&config("policer"), index).unwrap();
        let parameter = |name: &str| pair.parameters[name].as_u64().unwrap();
        let overhead = parameter("overhead_bytes") as u32;
        let header = if pair.tcp_flows[0].ends.client.is_ipv6() {
            20
        } else {
            0
        };
        let mut policer =
            Policer::new(parameter("rate_bps"), parameter("burst_bytes")).with_overhead(overhead);
        let mut sent: Vec<&Crossing> = pair
            .crossings
            .iter()
            .filter(|c| c.is_forward() && c.at_b_ns.is_some())
            .collect();
        sent.sort_by_key(|c| c.at_b_ns);
        let outcomes = replay(&mut policer, &observer::arrivals(&pair.crossings, header));
        assert_eq!(outcomes.len(), sent.len());
        lost += sent.iter().filter(|c| c.lost_between).count();
        let fates = outcomes.into_iter().map(Outcome::is_dropped).zip(sent);
        agreed += fates.filter(|(drops, c)| *drops && c.lost_between).count();
    }
    // The rounding of `act_police` and simultaneous packets make a few of them differ.
    assert!(
        lost > 1_000 && agreed as f64 >= 0.97 * lost as f64,
        "{agreed} of {lost}"
    );
}
