//! The account of time of a finished connection.

use crate::account::{AccountInput, account};
use crate::echoed::Echoed;
use crate::flow::{Connection, Flow, Handshake, SegmentFlags};
use crate::sender_clock::{Echoes, SenderClock};
use crate::window_scale;

/// Accounts for all time of the flow in this direction; `echoed` is the clock of a receiver without captured packets.
pub(super) fn account_for_time(
    connection: &mut Connection,
    direction: usize,
    near_rtts_ns: Option<(i64, i64)>,
    echoes: Option<&Echoes>,
    echoed: Option<&Echoed>,
) {
    let handshake = connection.handshake;
    let is_responder = direction == connection.responder();
    let [flow, other] = &mut connection.flows;
    let (flow, other) = match direction {
        0 => (flow, other),
        _ => (other, flow),
    };
    let opened_ns = [handshake.syn_ns, handshake.syn_ack_ns][usize::from(is_responder)];
    let inferred = echoed.and_then(|echoed| echoed.infer(flow, opened_ns, echoes));
    let echoed_rtt_ns = inferred.as_ref().map(|inferred| inferred.round_trip_ns);
    let late_ns = inferred.as_ref().map_or(0, |inferred| inferred.late_ns);
    let mut answers = Vec::new();
    if let Some(inferred) = inferred {
        flow.divide(inferred.answers.iter().map(|answer| answer.0));
        for (index, rtt_ns) in inferred.round_trips_ns {
            let segment = &mut flow.segments[index];
            segment.rtt_ns = rtt_ns;
            segment.flags.set(SegmentFlags::RTT_EXACT);
        }
        (flow.acknowledgments, answers) = (inferred.acknowledgments, inferred.answers);
    }
    let near_rtts_ns = near_rtts_ns.map(|(initiator, responder)| match direction {
        0 => (initiator, responder),
        _ => (responder, initiator),
    });
    if flow.window_scale.is_none() && echoed_rtt_ns.is_none() {
        let clock = SenderClock::of(flow, near_rtts_ns.map(|(near, _)| near), echoes);
        window_scale::infer(flow, &clock);
    }
    let unseen_ns = unseen_requests_ns(other, &handshake);
    let until = |passed: usize| passed.checked_sub(1);
    let request_until = |until_ns: i64| match echoed_rtt_ns {
        Some(_) => Some(answers[until(answers.partition_point(|a| a.1 <= until_ns))?].1),
        None => {
            let requests = &other.segments;
            let seen = until(requests.partition_point(|s| s.time_ns <= until_ns));
            let unseen = until(unseen_ns.partition_point(|ns| *ns <= until_ns));
            let seen_ns = seen.map(|index| requests[index].time_ns);
            seen_ns.max(unseen.map(|index| unseen_ns[index]))
        }
    };
    let account = account(&AccountInput {
        flow,
        request_until: &request_until,
        handshake,
        is_responder,
        near_rtts_ns,
        echoes,
        echoed_rtt_ns,
    });
    flow.account = account.map(|mut account| {
        if let Some(clocks) = &mut account.by_clocks {
            clocks.late_ns = late_ns;
        }
        account
    });
    if echoed_rtt_ns.is_some() {
        flow.acknowledgments = Vec::new(); // only what was captured is kept for charts
    }
}

/// When data that the capture missed was acknowledged: it had arrived before. The first request of a connection follows
/// the handshake.
fn unseen_requests_ns(requests: &Flow, handshake: &Handshake) -> Vec<i64> {
    let mut segments = requests.segments.iter().peekable();
    let mut captured = None;
    let unseen_ns = requests
        .acknowledgments
        .iter()
        .filter_map(|acknowledgment| {
            while let Some(segment) =
                segments.next_if(|segment| segment.time_ns <= acknowledgment.time_ns)
            {
                captured = captured.max(Some(segment.end()));
            }
            let is_first = captured.is_none();
            // the FIN takes a sequence number too
            let beyond = acknowledgment.acknowledged > captured.unwrap_or(0) + 1;
            captured = captured.max(Some(acknowledgment.acknowledged));
            beyond.then_some(match handshake.ack_ns {
                Some(ack_ns) if is_first => ack_ns,
                _ => acknowledgment.time_ns,
            })
        });
    unseen_ns.collect()
}
