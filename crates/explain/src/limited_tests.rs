use whydrop_tcp::{Account, Flow, Span};

use super::*;
use crate::testing::{MS, delivered, flow, group};
use crate::transfers::by_limit;
use crate::vantage::observe_group;

/// A path without marks, queue or reordering, for many packets.
fn plain() -> Bottleneck {
    Bottleneck {
        in_order: Cause::None,
        congested: Cause::None,
        growing: Cause::None,
        disturbs: &[],
        standing: 0.0,
        unexplained_s: None,
        few_packets: false,
        doubt_odds: DOUBT_ODDS,
        windows_unseen: false,
        sender_unknown: false,
        at_receiver: false,
        window_closes: false,
        unseen: false,
        alone: true,
    }
}

fn over_a_queue(standing: f64) -> Bottleneck {
    Bottleneck {
        congested: Cause::Shaper,
        standing,
        ..plain()
    }
}

/// Ten seconds, divided among limiters by these shares.
fn times_s(shares: &[(Limiter, f64)]) -> Times {
    let mut times_s = [0.0; Limiter::ALL.len()];
    for (limiter, share) in shares {
        times_s[*limiter as usize] = 10.0 * share;
    }
    times_s
}

fn judged(path: &Bottleneck, shares: &[(Limiter, f64)]) -> Outcome {
    let times_s = times_s(shares);
    path.judge(&times_s)
}

#[test]
fn a_transfer_gets_the_cause_of_its_largest_limiter() {
    for (limiter, cause) in [
        (Limiter::ConnectionSetup, Cause::None),
        (Limiter::SlowStart, Cause::None),
        (Limiter::CongestionWindow, Cause::None),
        (Limiter::PeerApplication, Cause::PeerApplication),
        (Limiter::Application, Cause::Sender),
        (Limiter::SendBuffer, Cause::Sender),
        (Limiter::Pacing, Cause::Sender),
        (Limiter::ReceiveWindow, Cause::ReceiverWindow),
        (Limiter::DelayedAck, Cause::DelayedAck),
        (Limiter::Outage, Cause::Outage),
    ] {
        let rest = match limiter {
            Limiter::SlowStart => Limiter::ReceiveWindow,
            _ => Limiter::SlowStart,
        };
        let found = judged(&plain(), &[(limiter, 0.7), (rest, 0.3)]);
        assert_eq!(found.cause, cause, "{limiter:?}");
    }
}

#[test]
fn a_full_window_with_a_standing_queue_limits_the_queue() {
    for limiter in [
        Limiter::ReceiveWindow,
        Limiter::SendBuffer,
        Limiter::SlowStart,
    ] {
        let shares = [(limiter, 0.9), (Limiter::ConnectionSetup, 0.1)];
        assert_eq!(judged(&over_a_queue(0.9), &shares).cause, Cause::Shaper);
    }
    let window = [(Limiter::ReceiveWindow, 0.9), (Limiter::SlowStart, 0.1)];
    assert_eq!(
        judged(&over_a_queue(0.1), &window).cause,
        Cause::ReceiverWindow
    );
}

#[test]
fn a_larger_share_of_the_time_raises_the_confidence() {
    let sure = |share: f64| {
        let rest = [
            (Limiter::PeerApplication, share),
            (Limiter::SlowStart, 1.0 - share),
        ];
        judged(&plain(), &rest).confidence
    };
    let stated: Vec<f64> = [0.55, 0.7, 0.85, 1.0].map(sure).to_vec();
    assert!(stated.is_sorted_by(|a, b| a < b), "{stated:?}");
    assert!(stated[3] < 0.99);
}

#[test]
fn an_alternative_explanation_by_an_earlier_queue_leaves_doubt() {
    let sure = |limiter| judged(&plain(), &[(limiter, 1.0)]).confidence;
    assert!(sure(Limiter::SendBuffer) < sure(Limiter::Application) - 0.2);
    assert!(sure(Limiter::CongestionWindow) < sure(Limiter::SlowStart) - 0.2);
}

#[test]
fn a_delay_of_a_round_trip_is_reported() {
    let waits = Bottleneck {
        congested: Cause::Unknown,
        unexplained_s: Some(0.05),
        ..plain()
    };
    let found = judged(
        &waits,
        &[(Limiter::SlowStart, 0.5), (Limiter::CongestionWindow, 0.5)],
    );
    assert_eq!(found.cause, Cause::Unknown);
}

#[test]
fn without_acknowledgments_the_confidence_is_low() {
    let found = judged(&plain(), &[]);
    assert_eq!(found.cause, Cause::None);
    assert!(found.confidence < 0.8);
}

#[test]
fn the_limiter_with_most_of_a_transfer_is_its_cause_however_short_it_was() {
    let mut short_s = [0.0; Limiter::ALL.len()];
    short_s[Limiter::PeerApplication as usize] = 0.03;
    short_s[Limiter::SlowStart as usize] = 0.01;
    assert_eq!(plain().judge(&short_s).cause, Cause::PeerApplication);
}

/// A flow of this many packets, the whole second of which has one limiter.
fn limited_by(limiter: Limiter, packets: i64, host: u8) -> Flow {
    let mut flow = flow(
        host,
        (0..packets)
            .map(|number| delivered(number * MS, 5))
            .collect(),
    );
    let (from_ns, until_ns) = (0, 1_000 * MS);
    flow.account = Some(Box::new(Account {
        spans: vec![Span {
            from_ns,
            until_ns,
            limiter,
        }],
        transfers: vec![(from_ns, until_ns)],
        ..Account::default()
    }));
    flow
}

#[test]
fn each_cause_names_its_flows_and_small_ones_get_no_verdict_of_their_own() {
    let flows = [
        limited_by(Limiter::Application, 400, 1),
        limited_by(Limiter::ReceiveWindow, 600, 1),
        limited_by(Limiter::PeerApplication, 10, 1),
        limited_by(Limiter::ReceiveWindow, 10, 1),
    ];
    let group = group(&flows);
    let path = Bottleneck::of(&observe_group(&group));
    let limited = by_limit(&group, |flow| {
        let times_s = limits::times_of_flow_s(flow);
        (path.judge(&times_s), ())
    });
    let named: Vec<(Cause, usize)> = limited
        .iter()
        .map(|one| (one.outcome.cause, one.flows.flows.len()))
        .collect();
    assert_eq!(named, [(Cause::ReceiverWindow, 2), (Cause::Sender, 1)]);
}

#[test]
fn without_a_handshake_a_constant_flight_may_be_the_receivers_limit() {
    let unseen = Bottleneck {
        windows_unseen: true,
        sender_unknown: false,
        at_receiver: false,
        window_closes: false,
        unseen: false,
        ..plain()
    };
    let stands = [(Limiter::SendBuffer, 0.9), (Limiter::SlowStart, 0.1)];
    assert_eq!(judged(&unseen, &stands).cause, Cause::Unknown);
    let pauses = [(Limiter::Application, 0.9), (Limiter::SlowStart, 0.1)];
    assert_eq!(judged(&unseen, &pauses).cause, Cause::Sender);
}

#[test]
fn a_cause_with_three_times_the_time_is_certain_and_neither_of_equals() {
    let of_window = |share: f64| {
        let shares = [
            (Limiter::ReceiveWindow, share),
            (Limiter::DelayedAck, 1.0 - share),
        ];
        judged(&plain(), &shares).confidence
    };
    assert!(of_window(0.75) > 0.9);
    assert!(of_window(0.501) < 0.55);
}

#[test]
fn direct_evidence_of_packets_is_more_certain_than_the_window() {
    let sure = |limiter| judged(&plain(), &[(limiter, 0.9)]).confidence;
    assert!(sure(Limiter::PeerApplication) > sure(Limiter::ReceiveWindow));
}

#[test]
fn reordering_limits_a_flow_if_its_own_packets_were_overtaken_and_its_sender_reacted() {
    let reorders = Bottleneck {
        congested: Cause::Reordering,
        ..plain()
    };
    let with = |reordered: u64, spurious: u64| {
        let mut flow = limited_by(Limiter::CongestionWindow, 500, 1);
        flow.window_scale = Some(7);
        (flow.counters.reordered, flow.counters.spurious) = (reordered, spurious);
        let times_s = limits::times_of_flow_s(&flow);
        reorders.of_flow(&flow).judge(&times_s).cause
    };
    assert_eq!((with(4, 3), with(0, 3)), (Cause::Reordering, Cause::None));
    // one among so many is no pattern, and a few without retransmissions limit nothing
    assert_eq!(
        (with(1, 1), with(4, 0), with(9, 0)),
        (Cause::None, Cause::None, Cause::Reordering)
    );
}

#[test]
fn delays_are_compared_with_the_whole_round_trip_and_not_with_its_last_part() {
    let near = |near_rtt_ns: Option<i64>| {
        let segments =
            (0..100).map(|number| delivered(number * MS, if number == 0 { 1 } else { 20 }));
        let mut flow = flow(1, segments.collect());
        flow.account = Some(Box::new(Account {
            near_rtt_ns,
            ..Account::default()
        }));
        let flows = [flow];
        Bottleneck::of(&observe_group(&group(&flows))).congested
    };
    assert_eq!(near(None), Cause::Unknown);
    assert_ne!(near(Some(100 * MS)), Cause::Unknown);
}
