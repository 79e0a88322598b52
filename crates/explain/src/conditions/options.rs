//! TCP options that one side offered and the other never received, or that a device on the path rewrote.

use whydrop_tcp::{Endpoint, Flow, Offer};
use whydrop_verdict::{Cause, Fact, Value, fact};

use super::Condition;
use crate::observe::Observation;
use crate::observe::group::Group;

/// Selective acknowledgments, or repairs without them, that are no accident.
const SEVERAL: u64 = 3;
/// Least scale of a window that shrank between the handshake and the first acknowledgment without data to
/// fill it.
const LEAST_SHIFT: u8 = 2;
/// The largest scale (RFC 7323, section 2.3).
const LARGEST_SHIFT: u8 = 14;
/// Receivers do not announce space that fits no full segment: up to this many segments may be missing from
/// the largest window.
const UNUSED_SEGMENTS: u32 = 2;

/// Windows without a scale (RFC 7323, section 2): both SYNs were captured, and at least one lacks the option.
///
/// *Misread*: the receiver scales nevertheless, as its windows show: those after the handshake equal that of
/// its SYN divided by a power of two. Its option was lost on the path to the sender. *Missing*: the receiver
/// offers all that 16 bits hold, and the sender waits for the window (`judged` by the load). No verdict if
/// the snapshot length cut the options off, or a SYN was not captured.
pub(super) fn window_scaling(
    group: &Group,
    seen: &Observation,
    judged: Cause,
) -> Option<Condition> {
    let flows = || group.flows.iter().map(|flow| flow.flow);
    let misread = flows().find_map(|flow| Some((flow, misread_shift(flow)?)));
    if let Some((flow, shift)) = misread {
        let [_, receivers] = flow.offers.map(Option::unwrap_or_default);
        let mut found = scaling(group, |flow| misread_shift(flow).is_some());
        found.detail = Some("misread");
        found.limited_s = seen.totals.busy_s;
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
    found.limited_s = seen.totals.window_limited_s();
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
                window_share = seen.totals.window_share()
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

/// Both offers, if both were captured completely.
fn offers(flow: &Flow) -> Option<[Offer; 2]> {
    let [Some(senders), Some(receivers)] = flow.offers else {
        return None;
    };
    (!senders.truncated && !receivers.truncated).then_some([senders, receivers])
}

/// The side with a SYN that lacks the option; if both lack it, the side that sent the first SYN, which the
/// other must follow.
fn unscaled_side(flow: &Flow) -> Endpoint {
    let [senders, receivers] = flow.offers.map(Option::unwrap_or_default);
    let receiver_began = receivers.packet < senders.packet;
    match (senders.window_scale, receivers.window_scale) {
        (Some(_), _) => flow.destination,
        (None, None) if receiver_began => flow.destination,
        _ => flow.source,
    }
}

/// The scale by which the receiver's windows are smaller than that of its SYN, if the sender applies none.
fn misread_shift(flow: &Flow) -> Option<u8> {
    let [senders, receivers] = offers(flow)?;
    let lost_it = senders.window_scale.is_some() && receivers.window_scale.is_none();
    let (offered, first) = (u32::from(receivers.window), u32::from(flow.first_window));
    // the window may have moved by a segment meanwhile, and scaling discards the last bits
    let tolerance = |shift: u8| (1 << shift) + flow.mss_bytes.unwrap_or(0);
    let agrees = |shift: &u8| (first << shift).abs_diff(offered) <= tolerance(*shift);
    let still_small = u32::from(flow.largest_window) < offered >> 1;
    let shift = (LEAST_SHIFT..=LARGEST_SHIFT).find(agrees)?;
    (lost_it && still_small && first > 0).then_some(shift)
}

/// The receiver offers the most that is possible without a scale; one that closes its window has less to
/// offer.
fn is_capped(flow: &Flow) -> bool {
    let unused = UNUSED_SEGMENTS * flow.mss_bytes.unwrap_or(0);
    let is_scaled = |both: [Offer; 2]| both.iter().all(|offer| offer.window_scale.is_some());
    let never_closed = flow.counters.zero_windows == 0 && flow.counters.window_closures == 0;
    never_closed
        && offers(flow).is_some_and(|both| !is_scaled(both))
        && u32::from(flow.largest_window) + unused > u32::from(u16::MAX)
}

/// True if most selective acknowledgments report data that was never sent.
pub(super) fn is_mangled(flow: &Flow) -> bool {
    let sack = flow.sack();
    sack.outside >= SEVERAL && 2 * sack.outside > sack.blocks
}

/// Selective acknowledgments (RFC 2018).
///
/// *Mangled*: they report sequence numbers that were never sent, for example because a firewall shifts the
/// numbers of segments but not those in the option. *Stripped*: both sides agreed on them, holes were
/// repaired after three duplicate acknowledgments, the receiver had data above them, and no acknowledgment
/// reported it, as RFC 2018, section 4, requires. *Refused*: one side offered them, the other did not, and
/// packets were lost. No verdict if the snapshot length cut the options off.
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
