use super::*;

const RTT_NS: i64 = 100_000_000;

/// A sender with 100-byte segments that has written `segments` of them.
fn sender(config: SenderConfig, segments: u64) -> Sender {
    let mut sender = Sender::new(SenderConfig {
        mss: 100,
        hystart: false,
        ..config
    });
    sender.on_established(0, RTT_NS, 1_000_000);
    sender.write(0, segments * 100);
    sender
}

fn drain(sender: &mut Sender, now_ns: i64) -> Vec<Transmission> {
    std::iter::from_fn(|| sender.transmit(now_ns)).collect()
}

fn ack(sender: &mut Sender, now_ns: i64, acknowledgment: u64, sack: &[Range]) -> Vec<Transmission> {
    sender.on_ack(
        now_ns,
        AckIn {
            acknowledgment,
            window_bytes: 1_000_000,
            sack,
            pure: true,
            echo_ns: None,
        },
    );
    drain(sender, now_ns)
}

#[test]
fn it_begins_with_the_initial_window_and_doubles_in_slow_start() {
    let mut sender = sender(SenderConfig::default(), 100);
    assert_eq!(drain(&mut sender, 0).len(), 10);
    assert_eq!(
        ack(&mut sender, RTT_NS, 201, &[]).len(),
        4,
        "two acknowledged: two replaced and two more"
    );
    assert_eq!(sender.cwnd(), 12.0);
}

#[test]
fn a_hole_is_repaired_once_and_the_window_shrinks_by_beta_over_the_recovery() {
    let mut sender = sender(SenderConfig::default(), 1_000);
    drain(&mut sender, 0);
    let mut sent = Vec::new();
    // The first of ten is lost, the others arrive one after the other.
    for i in 1..10u64 {
        sent.extend(ack(
            &mut sender,
            RTT_NS + i as i64,
            1,
            &[(101, 101 + i * 100)],
        ));
    }
    let repaired: Vec<Range> = sent
        .iter()
        .filter(|t| t.reason == Reason::FastRetransmission)
        .map(|t| t.range)
        .collect();
    assert_eq!(repaired, [(1, 101)]);
    let more = ack(&mut sender, 2 * RTT_NS, 1_001, &[]);
    assert!(more.iter().all(|t| t.reason == Reason::New));
    // PRR has sent beta * 10 = 7 packets by the time the nine arrived, so that the rest of the window is small.
    assert!((6..=8).contains(&sent.len()), "{}", sent.len());
}

#[test]
fn silence_after_the_tail_is_probed_after_two_round_trips_and_times_out_later() {
    let mut sender = sender(SenderConfig::default(), 5);
    assert_eq!(drain(&mut sender, 0).len(), 5);
    // Two round trips of 100 ms and 2 ms.
    assert_eq!(sender.deadline_ns(), Some(202_000_000));
    sender.on_timer(202_000_000);
    let probe = drain(&mut sender, 202_000_000);
    assert_eq!(
        probe
            .iter()
            .map(|t| (t.range, t.reason))
            .collect::<Vec<_>>(),
        [((401, 501), Reason::TailLossProbe)]
    );
    // Then the timer, from the probe on: 100 ms smoothed plus four times the variation of 50 ms.
    assert_eq!(sender.deadline_ns(), Some(502_000_000));
    sender.on_timer(502_000_000);
    let after = drain(&mut sender, 502_000_000);
    assert_eq!(after.len(), 1);
    assert_eq!((after[0].range, sender.cwnd()), ((1, 101), 1.0));
    assert_eq!(
        sender.deadline_ns(),
        Some(502_000_000 + 600_000_000),
        "backed off"
    );
}

#[test]
fn without_rack_a_lost_retransmission_waits_for_the_timer() {
    for rack in [false, true] {
        let mut sender = sender(
            SenderConfig {
                rack,
                tail_loss_probe: false,
                ..SenderConfig::default()
            },
            1_000,
        );
        drain(&mut sender, 0);
        let mut later = Vec::new();
        for i in 1..10u64 {
            later.extend(ack(
                &mut sender,
                RTT_NS + i as i64,
                1,
                &[(101, 101 + i * 100)],
            ));
        }
        // The data sent after the retransmission arrives; the retransmission does not.
        let end = later.iter().map(|t| t.range.1).max().unwrap();
        let answer = ack(&mut sender, 2 * RTT_NS + 100, 1, &[(101, end)]);
        let again = answer.iter().any(|t| t.range == (1, 101));
        assert_eq!(again, rack);
    }
}

#[test]
fn reordering_seen_as_loss_is_taken_back_when_the_duplicate_is_reported() {
    let mut sender = sender(SenderConfig::default(), 1_000);
    drain(&mut sender, 0);
    for i in 1..5u64 {
        ack(&mut sender, RTT_NS + i as i64, 1, &[(101, 101 + i * 100)]);
    }
    assert!(sender.cwnd() < 10.0);
    // The original arrives late, then the retransmission, as a duplicate.
    ack(&mut sender, RTT_NS + 1_000_000, 501, &[]);
    ack(&mut sender, RTT_NS + 2_000_000, 501, &[(1, 101)]);
    assert!(sender.cwnd() >= 10.0, "{}", sender.cwnd());
}

#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let mut sender = sender(SenderConfig::default(), 100);
    drain(&mut sender, 0);
    sender.window_end = 1_001;
    sender.on_ack(
        RTT_NS,
        AckIn {
            acknowledgment: 1_001,
            window_bytes: 0,
            sack: &[],
            pure: true,
            echo_ns: None,
        },
    );
    assert!(drain(&mut sender, RTT_NS).is_empty());
    let due_ns = sender.deadline_ns().unwrap();
    assert_eq!(due_ns, RTT_NS + 300_000_000);
    sender.on_timer(due_ns);
    let probes = drain(&mut sender, due_ns);
    assert!(probes.len() == 1 && probes[0].window_probe && probes[0].range == (1_000, 1_000));
    assert_eq!(ack(&mut sender, due_ns + RTT_NS, 1_001, &[]).len(), 20);
    assert_eq!(sender.timer.window_ns, None);
}

#[test]
fn pacing_spreads_what_the_window_allows() {
    let mut sender = sender(
        SenderConfig {
            pacing: Pacing::Rate(1_328_000),
            ..SenderConfig::default()
        },
        100,
    );
    // 166 bytes on the wire at 1.328 Mbit/s are 1 ms.
    assert_eq!(drain(&mut sender, 0).len(), 1);
    assert_eq!(sender.deadline_ns(), Some(1_000_000));
    sender.on_timer(1_000_000);
    assert_eq!(drain(&mut sender, 1_000_000).len(), 1);
}

#[test]
fn a_receive_window_is_the_limit_of_a_sender_that_spreads_it() {
    let config = SenderConfig {
        pacing: Pacing::Window,
        ..SenderConfig::default()
    };
    let mut sender = sender(config, 1_000);
    let mut now_ns = 0;
    let mut spread = 0;
    for round in 0..6 {
        let acknowledgment = sender.next_sequence();
        sender.on_ack(
            now_ns,
            AckIn {
                acknowledgment,
                window_bytes: 800,
                sack: &[],
                pure: true,
                echo_ns: None,
            },
        );
        sender.window_end = acknowledgment + 800;
        let end_ns = now_ns + RTT_NS;
        while now_ns < end_ns {
            drain(&mut sender, now_ns);
            if let Some(wait) = sender.spreads_a_bound(now_ns) {
                assert_eq!(wait, Wait::ReceiveWindow);
                spread += 1;
            }
            assert!(round > 0 || sender.waits_for() != Wait::CongestionWindow);
            now_ns += RTT_NS / 100;
            sender.on_timer(now_ns);
        }
    }
    assert!(spread > 20, "{spread}");
}

/// A sender without SACK with ten segments outstanding.
fn without_sack(segments: u64) -> Sender {
    let config = SenderConfig {
        sack: false,
        ..SenderConfig::default()
    };
    let mut sender = sender(config, segments);
    assert_eq!(drain(&mut sender, 0).len(), 10);
    sender
}

fn repaired(sent: &[Transmission]) -> Vec<Range> {
    let repairs = sent.iter().filter(|sent| sent.reason != Reason::New);
    repairs.map(|sent| sent.range).collect()
}

#[test]
fn without_sack_the_third_duplicate_repairs_the_first_hole_and_a_partial_acknowledgment_the_next() {
    let mut sender = without_sack(1_000);
    // The first and the fifth are lost: eight duplicates.
    let mut early = Vec::new();
    for duplicate in 0..2 {
        early.extend(ack(&mut sender, RTT_NS + duplicate, 1, &[]));
    }
    assert_eq!(repaired(&early), []);
    assert_eq!(early.len(), 2, "limited transmit (RFC 3042)");
    let mut sent = Vec::new();
    for duplicate in 2..8 {
        sent.extend(ack(&mut sender, RTT_NS + duplicate, 1, &[]));
    }
    assert_eq!(repaired(&sent), [(1, 101)]);
    let sent = ack(&mut sender, 2 * RTT_NS, 401, &[]);
    assert_eq!(repaired(&sent), [(401, 501)]);
    let high = sender.next_sequence();
    assert_eq!(repaired(&ack(&mut sender, 3 * RTT_NS, high, &[])), []);
    assert!(matches!(sender.recovery, Recovery::Open));
}

#[test]
fn without_sack_a_timeout_retransmits_everything_that_is_not_acknowledged_meanwhile() {
    let mut sender = without_sack(10);
    let due_ns = sender.deadline_ns().unwrap();
    assert_eq!(due_ns, 300_000_000, "no probe of the tail comes first");
    sender.on_timer(due_ns);
    assert_eq!(repaired(&drain(&mut sender, due_ns)), [(1, 101)]);
    // The third and the sixth were lost too.
    let sent = ack(&mut sender, due_ns + RTT_NS, 201, &[]);
    assert_eq!(repaired(&sent), [(201, 301), (301, 401), (401, 501)]);
    let sent = ack(&mut sender, due_ns + 2 * RTT_NS, 501, &[]);
    assert_eq!(repaired(&sent)[0], (501, 601));
}

#[test]
fn without_sack_duplicates_of_needless_retransmissions_begin_no_recovery() {
    let mut sender = without_sack(1_000);
    let due_ns = sender.deadline_ns().unwrap();
    sender.on_timer(due_ns);
    drain(&mut sender, due_ns);
    // Only the first was lost; its repair is acknowledged with all data.
    ack(&mut sender, due_ns + RTT_NS, 1_001, &[]);
    for duplicate in 1..6 {
        let sent = ack(&mut sender, due_ns + RTT_NS + duplicate, 1_001, &[]);
        assert_eq!(repaired(&sent), []);
    }
}

#[test]
fn without_sack_an_acknowledgment_that_comes_with_data_or_opens_the_window_is_no_duplicate() {
    for (pure, opens_bytes) in [(false, 0), (true, 100)] {
        let mut sender = without_sack(1_000);
        let mut sent = Vec::new();
        for count in 0..6 {
            sender.on_ack(
                RTT_NS,
                AckIn {
                    acknowledgment: 1,
                    window_bytes: 1_000_000 + (count + 1) * opens_bytes,
                    sack: &[],
                    pure,
                    echo_ns: None,
                },
            );
            sent.extend(drain(&mut sender, RTT_NS));
        }
        assert_eq!(repaired(&sent), []);
    }
}
