//! Counters of interfaces and of their queueing disciplines, as they are sampled during a test.

use std::collections::BTreeMap;
use std::io;

use whydrop_sockets::attributes::u64_at;

use crate::qdiscs::{self, Counter};
use crate::rtnetlink::{Link, Netlink, by_type, handle};

/// linux/if_link.h
const STATS64: u16 = 23;

/// Fields of `rtnl_link_stats64` (linux/if_link.h), in order.
const OF_LINK: [&str; 16] = [
    "received_packets",
    "sent_packets",
    "received_bytes",
    "sent_bytes",
    "receive_errors",
    "send_errors",
    "receive_dropped_packets",
    "send_dropped_packets",
    "multicast_packets",
    "collisions",
    "receive_length_errors",
    "receive_over_errors",
    "receive_crc_errors",
    "receive_frame_errors",
    "receive_fifo_errors",
    "receive_missed_packets",
];

/// A counter with its place.
#[derive(Debug)]
pub struct Reading {
    /// `interface` or `qdisc`.
    pub source: &'static str,
    /// The interface, with the kind and the handle of the discipline.
    pub object: String,
    pub counter: Counter,
}

/// Reads the counters of some interfaces, or of all, and those of their disciplines.
///
/// # Errors
/// The kernel does not answer.
pub fn queue_counters(interfaces: Option<&[String]>) -> io::Result<Vec<Reading>> {
    let mut netlink = Netlink::open(None)?;
    let links = netlink.links()?;
    let is_wanted = |link: &&Link| interfaces.is_none_or(|names| names.contains(&link.name));
    let wanted: BTreeMap<u32, &Link> = links
        .iter()
        .filter(is_wanted)
        .map(|link| (link.index, link))
        .collect();
    let mut found: Vec<_> = wanted.values().flat_map(|link| of_link(link)).collect();
    for qdisc in netlink.all_qdiscs()? {
        let Some(link) = wanted.get(&qdisc.interface) else {
            continue;
        };
        // A discipline without a handle of its own is known by its place.
        let place = if qdisc.handle == 0 {
            qdisc.parent
        } else {
            qdisc.handle
        };
        let object = format!("{} {} {}", link.name, qdisc.kind(), handle(place));
        found.extend(qdiscs::counters(&qdisc).into_iter().map(|counter| Reading {
            source: "qdisc",
            object: object.clone(),
            counter,
        }));
    }
    Ok(found)
}

fn of_link(link: &Link) -> Vec<Reading> {
    let attributes = by_type(&link.attributes);
    let bytes = attributes.get(&STATS64).copied().unwrap_or_default();
    let reading = |(place, name): (usize, &&str)| {
        Some(Reading {
            source: "interface",
            object: link.name.clone(),
            counter: Counter {
                name: (*name).to_owned(),
                value: u64_at(bytes, 8 * place)?.into(),
                is_cumulative: true,
            },
        })
    };
    OF_LINK
        .iter()
        .enumerate()
        .map(reading)
        .collect::<Option<_>>()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_its_own_counters_and_those_of_its_discipline() {
        let found = queue_counters(Some(&["lo".to_owned()])).unwrap();
        let of = |source| found.iter().filter(move |one| one.source == source);
        assert_eq!(of("interface").count(), OF_LINK.len());
        assert!(of("interface").all(|one| one.object == "lo" && one.counter.is_cumulative));
        assert!(
            of("qdisc").all(|one| one.object == "lo noqueue root"),
            "{found:?}"
        );
    }

    #[test]
    fn an_interface_that_does_not_exist_has_no_counters() {
        assert!(
            queue_counters(Some(&["no-such-link".to_owned()]))
                .unwrap()
                .is_empty()
        );
        assert!(!queue_counters(None).unwrap().is_empty());
    }
}
