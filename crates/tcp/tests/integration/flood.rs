//! Floods of connections that carry almost nothing: memory is bounded, and the sums cover all of them.

use crate::synthetic::{ACK, Client, Fields, SYN};
use whydrop_tcp::{SMALL_PACKETS, Tracked, Tracker, TrackerOptions};

const TUPLES: u32 = 20_000;
const MOST_WITHOUT_DATA: usize = 300;
const MOST_OPEN: usize = 200;
const MOST_KEPT: usize = 100;
const SECOND_NS: i64 = 1_000_000_000;

fn tracker() -> Tracker {
    Tracker::new(TrackerOptions {
        most_without_data: MOST_WITHOUT_DATA,
        most_small_open: MOST_OPEN,
        most_small: MOST_KEPT,
        ..TrackerOptions::default()
    })
}

/// One packet of an exchange: whether from the server, its flags, sequence number, acknowledgment and payload.
type Step = (bool, u16, u32, u32, u32);

const SYN_SENT: Step = (false, SYN, 0, 0, 0);
const SYN_ANSWERED: Step = (true, SYN | ACK, 0, 1, 0);
const BYTE: Step = (false, ACK, 1, 1, 1);
const BYTE_BACK: Step = (true, ACK, 1, 2, 1);

fn play(tracker: &mut Tracker, client: Client, time_ns: i64, steps: &[Step]) {
    for &(from_server, flags, sequence, acknowledgment, payload_bytes) in steps {
        let fields = Fields {
            time_ns,
            flags,
            sequence,
            acknowledgment,
            payload_bytes,
            ..Fields::default()
        };
        match from_server {
            true => client.gets(tracker, fields),
            false => client.sends(tracker, fields),
        }
        let bound = MOST_WITHOUT_DATA + MOST_OPEN + 1;
        assert!(tracker.slots() <= bound, "{} slots", tracker.slots());
    }
}

/// The same exchange with one client after the other, 10 µs apart.
fn flood(steps: &[Step]) -> Tracked {
    let mut tracker = tracker();
    for number in 0..TUPLES {
        play(
            &mut tracker,
            Client(number),
            i64::from(number) * 10_000,
            steps,
        );
    }
    tracker.finish()
}

fn check_sums(tracked: &Tracked, steps: &[Step]) {
    let tuples = u64::from(TUPLES);
    let kept = tracked.connections.len() as u64;
    let flows = || tracked.connections.iter().flat_map(|both| &both.flows);
    let packets: u64 = flows().map(|flow| flow.counters.packets).sum();
    let payload_bytes: u64 = flows().map(|flow| flow.counters.payload_bytes).sum();
    let lost: u64 = flows().map(|flow| flow.counters.lost).sum();
    let (small, each) = (&tracked.small, steps.len() as u64);
    assert_eq!((kept, small.connections), (MOST_KEPT as u64, tuples - kept));
    assert_eq!(packets + small.packets, each * tuples);
    let sent: u64 = steps.iter().map(|step| u64::from(step.4)).sum();
    assert_eq!(payload_bytes + small.payload_bytes, sent * tuples);
    let repeats = sent - steps.iter().any(|step| step.4 > 0 && step.0) as u64 - 1;
    assert_eq!(lost + small.lost, repeats * tuples);
    assert_eq!(small.ip_bytes, small.packets * 40 + small.payload_bytes);
    assert_eq!((tracked.without_data, tracked.packets), (0, each * tuples));
}

#[test]
fn a_flood_of_lone_data_packets_is_summed_up() {
    let tracked = flood(&[BYTE]);
    check_sums(&tracked, &[BYTE]);
    let small = &tracked.small;
    assert_eq!((small.attempts, small.answered), (0, 0));
    assert_eq!(
        (small.flows, small.responders.distinct()),
        (small.connections, 1)
    );
}

#[test]
fn a_flood_of_connections_that_are_never_answered_is_summed_up() {
    let steps = [SYN_SENT, BYTE];
    let tracked = flood(&steps);
    check_sums(&tracked, &steps);
    let small = &tracked.small;
    assert_eq!((small.attempts, small.answered), (small.connections, 0));
}

#[test]
fn a_flood_of_connections_with_data_in_both_directions_is_summed_up() {
    let steps = [SYN_SENT, SYN_ANSWERED, BYTE, BYTE_BACK];
    let tracked = flood(&steps);
    check_sums(&tracked, &steps);
    let small = &tracked.small;
    assert_eq!(small.answered, small.connections);
    assert_eq!(small.flows, 2 * small.connections);
}

#[test]
fn a_flood_of_bytes_that_are_repeated_is_summed_up_with_its_losses() {
    let steps = [SYN_SENT, BYTE, BYTE];
    let tracked = flood(&steps);
    check_sums(&tracked, &steps);
    assert_eq!(tracked.small.lost, tracked.small.connections);
}

#[test]
fn ports_that_are_used_again_and_again_are_summed_up() {
    let mut tracker = tracker();
    for number in 0..TUPLES {
        let (time_ns, isn) = (i64::from(number) * 10_000, number * 1000);
        let steps = [
            (false, SYN, isn, 0, 0),
            (false, ACK, isn.wrapping_add(1), 1, 1),
        ];
        play(&mut tracker, Client(1), time_ns, &steps);
    }
    let tracked = tracker.finish();
    assert_eq!(tracked.connections.len(), MOST_KEPT);
    assert_eq!(
        tracked.small.connections + MOST_KEPT as u64,
        u64::from(TUPLES)
    );
}

#[test]
fn a_transfer_and_a_conversation_in_a_flood_are_followed_from_their_start_to_their_end() {
    let (transfer, conversation) = (Client(3_000_000), Client(3_000_001));
    let mut tracker = tracker();
    let mut said = 0;
    for number in 0..TUPLES {
        let time_ns = i64::from(number) * SECOND_NS / 1000;
        if number % 10 == 0 {
            let sequence = 1 + number / 10 * 1000;
            play(
                &mut tracker,
                transfer,
                time_ns,
                &[(false, ACK, sequence, 1, 1000)],
            );
        }
        // one packet for each turn of all other open connections
        if number % 900 == 0 {
            play(
                &mut tracker,
                conversation,
                time_ns,
                &[(false, ACK, 1 + said, 1, 1)],
            );
            said += 1;
        }
        if number % 10 < 1 + u32::from(number > 2000) {
            play(&mut tracker, Client(number), time_ns, &[BYTE]);
        }
    }
    assert!(u64::from(said) < SMALL_PACKETS);
    let tracked = tracker.finish();
    let segments = |port_of: Client| {
        let flows = tracked.connections.iter().map(|both| &both.flows[0]);
        let same = flows.filter(|flow| Client::of(flow.source) == Some(port_of));
        same.map(|flow| flow.segments.len()).collect::<Vec<_>>()
    };
    assert_eq!(segments(transfer), [TUPLES as usize / 10]);
    assert_eq!(segments(conversation), [said as usize]);
}

#[test]
fn of_small_connections_those_with_losses_and_most_data_are_kept() {
    let mut tracker = tracker();
    for number in 0..TUPLES {
        let time_ns = i64::from(number) * 10_000;
        let steps: &[Step] = match number % 1000 {
            500 => &[SYN_SENT, BYTE, BYTE],
            700 => &[SYN_SENT, BYTE, (false, ACK, 2, 1, 500)],
            _ => &[SYN_SENT, BYTE],
        };
        play(&mut tracker, Client(number), time_ns, steps);
    }
    let tracked = tracker.finish();
    let count = |of: fn(&whydrop_tcp::Flow) -> bool| {
        let first = tracked.connections.iter().map(|both| &both.flows[0]);
        first.filter(|flow| of(flow)).count() as u32
    };
    assert_eq!(count(|flow| flow.counters.lost > 0), TUPLES / 1000);
    assert_eq!(
        count(|flow| flow.counters.payload_bytes > 500),
        TUPLES / 1000
    );
    assert_eq!(
        (tracked.connections.len(), tracked.small.lost),
        (MOST_KEPT, 0)
    );
}
