//! The order of verdicts.

use super::*;

/// A verdict on flows that took ten seconds, a share of which it limited, and that lost packets.
fn ranked(cause: Cause, lost: u64, explained: f64, times_s: &[(Limiter, f64)]) -> Ranked {
    let mut totals = Totals {
        busy_s: 10.0,
        payload_bytes: 1_000_000,
        ..Totals::default()
    };
    for (limiter, time_s) in times_s {
        totals.limited_s[*limiter as usize] = *time_s;
    }
    let verdict = Verdict {
        lost,
        explained,
        limited_share: times_s.iter().map(|(_, time_s)| time_s / 10.0).sum(),
        ..Verdict::new(cause, 0.95)
    };
    Ranked::new(verdict, &totals)
}

fn first(mut verdicts: Vec<Ranked>) -> &'static str {
    sort_verdicts(&mut verdicts);
    verdicts.swap_remove(0).verdict.cause.name()
}

#[test]
fn a_few_explained_losses_come_after_many_that_took_more_time() {
    let few = || ranked(Cause::RandomLoss, 9, 1.0, &[(Limiter::LossRecovery, 0.4)]);
    let many = ranked(Cause::Unknown, 529, 0.0, &[(Limiter::LossRecovery, 9.0)]);
    assert_eq!(first(vec![few(), many]), "unknown");
    let alike = ranked(Cause::Unknown, 529, 0.0, &[(Limiter::LossRecovery, 0.5)]);
    assert_eq!(first(vec![alike, few()]), "random-loss");
}

#[test]
fn a_long_wait_comes_before_losses_that_took_no_time() {
    let waited = [(Limiter::PeerApplication, 9.0)];
    let waited = ranked(Cause::PeerApplication, 0, 1.0, &waited);
    let lost = ranked(Cause::Policer, 9, 1.0, &[(Limiter::LossRecovery, 1e-5)]);
    assert_eq!(first(vec![lost, waited]), "peer-application");
}

#[test]
fn a_failed_connection_comes_before_an_unnoticeable_delay() {
    let waited = || {
        ranked(
            Cause::PeerApplication,
            0,
            1.0,
            &[(Limiter::PeerApplication, 0.009)],
        )
    };
    let reset = || ranked(Cause::Reset, 0, 1.0, &[]);
    assert_eq!(first(vec![waited(), reset()]), "reset");
    let felt = [(Limiter::PeerApplication, 0.9)];
    let felt = || ranked(Cause::PeerApplication, 0, 1.0, &felt);
    assert_eq!(first(vec![felt(), reset()]), "peer-application");
    // a failure costs at least a second
    assert_eq!(first(vec![felt(), reset().failed()]), "reset");
    // losses are more informative than the ending
    let lost = ranked(Cause::Unknown, 9, 0.0, &[(Limiter::LossRecovery, 0.05)]);
    assert_eq!(first(vec![reset(), lost]), "unknown");
}

#[test]
fn an_idle_application_counts_by_its_share_of_the_data() {
    let mut idle = ranked(Cause::Sender, 0, 1.0, &[(Limiter::Application, 10.0)]);
    idle.payload_bytes = 1_000;
    let lost = ranked(Cause::RandomLoss, 30, 1.0, &[(Limiter::LossRecovery, 0.5)]);
    assert_eq!(first(vec![idle, lost]), "random-loss");
}

#[test]
fn a_verdict_that_most_packets_are_missing_comes_first() {
    let lost = ranked(Cause::Policer, 99, 1.0, &[(Limiter::LossRecovery, 9.0)]);
    let lacking = Ranked {
        basis: Basis::MostMissing,
        ..ranked(Cause::CaptureLoss, 0, 0.0, &[])
    };
    assert_eq!(first(vec![lost, lacking]), "capture-loss");
}
