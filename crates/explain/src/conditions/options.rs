//! TCP options that one side offered and that the other never got, or that something on the path rewrote.

use whydrop_tcp::{Endpoint, Flow, Offer};
use whydrop_verdict::{Cause, Fact, Value, fact};

use super::Condition;
use crate::evidence::Evidence;
use crate::group::Group;

/// Selective acknowledgments, or repairs without them, that are no accident.
const SEVERAL: u64 = 3;
/// A window shrunk at least so much between the handshake and the first acknowledgment, with no data to fill it, was
/// scaled.
const LEAST_SHIFT: u8 = 2;
/// The largest scale (RFC 7323, section 2.3).
const LARGEST_SHIFT: u8 = 14;
/// Receivers keep what fits no full segment to themselves: so many segments may be missing from the largest window.
const UNUSED_SEGMENTS: u32 = 2;

/// Windows without a scale (RFC 7323, section 2): both SYNs were captured, and not both have the option.
///
/// *Misread*: the receiver scales nevertheless, which its windows show: those after the handshake are that of its SYN, cut
/// by a power of two. Its option was lost on the way to the sender. *Missing*: the receiver offers all that 16 bits hold,
/// and the sender waits for the window (`judged` by the load). Silent where the options were cut off by the snapshot
/// length, or a SYN was not captured.
pub(super) fn window_scaling(
    group: &Group,
    evidence: &Evidence,
    judged: Cause,
) -> Option<Condition> {
    let flows = || group.flows.iter().map(|flow| flow.flow);
    let misread = flows().find_map(|flow| Some((flow, misread_shift(flow)?)));
    if let Some((flow, shift)) = misread {
        let [_, receivers] = flow.offers.map(Option::unwrap_or_default);
        let mut found = scaling(group, |flow| misread_shift(flow).is_some());
        found.detail = Some("misread");
        found.limited_s = evidence.totals.busy_s;
        found.facts = vec![
            fact!("window-misread", shift = u64::from(shift)),
            Fact {
                packets: vec![u64::from(receivers.packet)],
                ..fact!(
                    "window-shrank",
                    offered_bytes = u64::from(receivers.window),
                    read_bytes = u64::from(flow.first_window)
                )
            },
        ];
        return Some(found);
    }
    let flow = flows().find(|flow| is_capped(flow))?;
    if judged != Cause::ReceiverWindow {
        return None;
    }
    let mut found = scaling(group, is_capped);
    found.detail = Some("missing");
    found.limited_s = evidence.totals.held_by_window_s();
    let without = Value::Text(unscaled_side(flow).to_string().into());
    found.facts = vec![
        fact!("window-unscaled").with("side", without.clone()),
        Fact {
            packets: flow
                .offers
                .iter()
                .flatten()
                .map(|offer| u64::from(offer.packet))
                .collect(),
            ..fact!(
                "window-capped",
                window_bytes = u64::from(flow.largest_window),
                window_share = evidence.totals.window_share()
            )
            .with("side", without)
        },
    ];
    Some(found)
}

fn scaling(group: &Group, concerns: impl Fn(&Flow) -> bool) -> Condition {
    Condition::new(Cause::WindowScaling, names(group, concerns))
}

fn names(group: &Group, concerns: impl Fn(&Flow) -> bool) -> Vec<String> {
    let flows = group.flows.iter().map(|flow| flow.flow);
    flows
        .filter(|flow| concerns(flow))
        .map(Flow::name)
        .collect()
}

/// Both offers, if they were captured whole.
fn offers(flow: &Flow) -> Option<[Offer; 2]> {
    let [Some(senders), Some(receivers)] = flow.offers else {
        return None;
    };
    (!senders.truncated && !receivers.truncated).then_some([senders, receivers])
}

/// The side whose SYN lacks the option; of two the one that sent the first SYN, which the other must follow.
fn unscaled_side(flow: &Flow) -> Endpoint {
    let [senders, receivers] = flow.offers.map(Option::unwrap_or_default);
    let receiver_began = receivers.packet < senders.packet;
    match (senders.window_scale, receivers.window_scale) {
        (Some(_), _) => flow.destination,
        (None, None) if receiver_began => flow.destination,
        _ => flow.source,
    }
}

/// The scale by which the receiver's windows are smaller than that of its SYN, where the sender knows of none.
fn misread_shift(flow: &Flow) -> Option<u8> {
    let [senders, receivers] = offers(flow)?;
    let lost_it = senders.window_scale.is_some() && receivers.window_scale.is_none();
    let (offered, first) = (u32::from(receivers.window), u32::from(flow.first_window));
    // the window may have moved by a segment meanwhile, and scaling drops the last bits
    let tolerance = |shift: u8| (1 << shift) + flow.mss_bytes.unwrap_or(0);
    let agrees = |shift: &u8| (first << shift).abs_diff(offered) <= tolerance(*shift);
    let still_small = u32::from(flow.largest_window) < offered >> 1;
    let shift = (LEAST_SHIFT..=LARGEST_SHIFT).find(agrees)?;
    (lost_it && still_small && first > 0).then_some(shift)
}

/// The receiver gives all that it can without a scale; one that closes its window has less to give.
fn is_capped(flow: &Flow) -> bool {
    let unused = UNUSED_SEGMENTS * flow.mss_bytes.unwrap_or(0);
    let is_scaled = |both: [Offer; 2]| both.iter().all(|offer| offer.window_scale.is_some());
    let never_closed = flow.counters.zero_windows == 0 && flow.counters.window_closures == 0;
    never_closed
        && offers(flow).is_some_and(|both| !is_scaled(both))
        && u32::from(flow.largest_window) + unused > u32::from(u16::MAX)
}

/// Selective acknowledgments that report, for the most part, what was never sent.
pub(super) fn is_mangled(flow: &Flow) -> bool {
    let sack = flow.sack();
    sack.outside >= SEVERAL && 2 * sack.outside > sack.blocks
}

/// Selective acknowledgments (RFC 2018).
///
/// *Mangled*: they report sequence numbers that were never sent, as where a firewall shifts the numbers of segments
/// and not those in the option. *Stripped*: both sides agreed on them, holes were repaired after three duplicate
/// acknowledgments, the receiver had data above them, and no acknowledgment ever told of it, which RFC 2018, section 4, asks for. *Refused*: one side
/// offered them, the other did not, and packets were lost. Silent where the snapshot length cut the options off.
pub(super) fn sack(group: &Group) -> Option<Condition> {
    let agreed = |flow: &Flow| {
        offers(flow).is_some_and(|both| both.iter().all(|offer| offer.sack_permitted))
    };
    let is_stripped = |flow: &Flow| {
        let sack = flow.sack();
        agreed(flow) && sack.blocks == 0 && sack.holes_without >= SEVERAL
    };
    let is_refused = |flow: &Flow| {
        let one_sided = |[one, other]: [Offer; 2]| one.sack_permitted != other.sack_permitted;
        flow.counters.lost >= SEVERAL && offers(flow).is_some_and(one_sided)
    };
    let count = |of: fn(&Flow) -> u64, concerns: &dyn Fn(&Flow) -> bool| -> u64 {
        let flows = group.flows.iter().map(|flow| flow.flow);
        flows.filter(|flow| concerns(flow)).map(of).sum()
    };
    let found = |concerns: &dyn Fn(&Flow) -> bool, detail, facts| {
        let mut condition = Condition::new(Cause::Sack, names(group, concerns));
        (condition.detail, condition.facts) = (Some(detail), facts);
        (!condition.flows.is_empty()).then_some(condition)
    };
    let mangled = fact!(
        "sack-mangled",
        outside = count(|flow| flow.sack().outside, &is_mangled),
        blocks = count(|flow| flow.sack().blocks, &is_mangled)
    );
    let holes = count(|flow| flow.sack().holes_without, &is_stripped);
    let packets = |flow: &Flow| {
        flow.offers
            .iter()
            .flatten()
            .map(|offer| u64::from(offer.packet))
            .collect()
    };
    let refusing = group
        .flows
        .iter()
        .map(|flow| flow.flow)
        .find(|flow| is_refused(flow));
    let refused = Fact {
        packets: refusing.map(packets).unwrap_or_default(),
        ..fact!("sack-refused")
    };
    found(&is_mangled, "mangled", vec![mangled])
        .or_else(|| {
            found(
                &is_stripped,
                "stripped",
                vec![fact!("sack-stripped", holes = holes)],
            )
        })
        .or_else(|| found(&is_refused, "refused", vec![refused]))
}
