//! Datagrams on the path of a group's packets: the hop serves them as well, and fits of the group's own
//! packets do not count them.

use std::net::IpAddr;

use whydrop_datagrams::{Datagrams, Flow};
use whydrop_path::fit::Trace;

use super::group::Group;

/// Datagrams to the receiver of a group while it sent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DatagramsBeside {
    pub packets: f64,
    /// IP bytes.
    pub bytes: f64,
}

/// Counts those to the group's receiver; of a flow that lasts longer, the share of its time.
pub fn datagrams_beside(group: &Group, trace: &Trace, datagrams: &Datagrams) -> DatagramsBeside {
    let Some(receiver) = group
        .flows
        .first()
        .map(|flow| flow.flow.destination.address)
    else {
        return DatagramsBeside::default();
    };
    let lasts_ns = (trace.duration_s() * 1e9) as i64;
    let span_ns = (trace.start_ns, trace.start_ns.saturating_add(lasts_ns));
    let to_receiver = |flow: &&Flow| same_host(flow.destination.0, receiver);
    let theirs = datagrams.flows.iter().filter(to_receiver);
    theirs.fold(DatagramsBeside::default(), |sum, flow| {
        let share = share_within((flow.first_ns, flow.last_ns), span_ns);
        DatagramsBeside {
            packets: sum.packets + share * flow.packets as f64,
            bytes: sum.bytes + share * flow.ip_bytes as f64,
        }
    })
}

fn same_host(one: IpAddr, other: IpAddr) -> bool {
    one.to_canonical() == other.to_canonical()
}

/// Share of one interval that overlaps another.
fn share_within((first, last): (i64, i64), (from, to): (i64, i64)) -> f64 {
    let common = last.min(to).saturating_sub(first.max(from));
    match last.saturating_sub(first) {
        0 => f64::from(u8::from(common >= 0)),
        lasts => common.max(0) as f64 / lasts as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_of_a_flow_while_the_group_sent_counts() {
        assert_eq!(share_within((10, 20), (0, 30)), 1.0);
        assert_eq!(share_within((10, 20), (15, 30)), 0.5);
        assert_eq!(share_within((10, 20), (20, 30)), 0.0);
        assert_eq!(share_within((10, 20), (25, 30)), 0.0);
        assert_eq!(
            (share_within((7, 7), (0, 9)), share_within((7, 7), (8, 9))),
            (1.0, 0.0)
        );
    }
}
