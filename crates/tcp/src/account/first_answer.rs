//! The account of an answer without captured acknowledgments, because the capture ended or lacks them. How long
//! the request waited is still known; the limiters of the answer itself are not.

use super::AccountInput;
use crate::limits::{Account, Limiter};

/// Accounts for the time until the first data of a flow, if a request for it was captured.
pub(super) fn account(input: &AccountInput) -> Option<Account> {
    let first = input.flow.segments.first().filter(|_| input.is_responder)?;
    let request_ns = (input.request_until)(first.time_ns)?;
    // packets that pass here reach the sender half of the near round trip later, or left it as much earlier
    let half_ns = input.near_rtts_ns.map_or(0, |(near_ns, _)| near_ns / 2);
    let left_ns = first.time_ns.saturating_sub(half_ns);
    let asked_ns = request_ns.saturating_add(half_ns).min(left_ns);
    let mut account = Account {
        near_rtt_ns: input.near_rtts_ns.map(|(near_ns, _)| near_ns),
        ..Account::default()
    };
    if let (Some(syn_ns), Some(ack_ns)) = (input.handshake.syn_ns, input.handshake.ack_ns) {
        let [from_ns, until_ns] =
            [syn_ns, ack_ns].map(|ns| ns.saturating_add(half_ns).min(asked_ns));
        account.push(until_ns, from_ns, Limiter::ConnectionSetup);
        account.push(asked_ns, until_ns, Limiter::Application);
    }
    account.push(left_ns, asked_ns, Limiter::PeerApplication);
    let bounds = account.bounds()?;
    account.transfers.push(bounds);
    Some(account)
}
