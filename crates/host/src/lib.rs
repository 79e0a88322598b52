//! Facts about this host, as JSON: its kernel, processors and settings, and the routes, interfaces and queues towards
//! the other end of a test. Both ends of a test gather them with this crate.
//!
//! Nothing fails: `not_gathered` lists the facts that could not be found, with the reason.

mod counters;
pub mod ethtool;
mod items;
mod layouts;
mod network;
mod qdiscs;
pub mod rtnetlink;
mod system;

use std::net::IpAddr;

use serde_json::{Map, Value};

pub use counters::{Reading, queue_counters};
use items::Items;
pub use network::Target;
pub use qdiscs::Counter;

/// The most that a far end may send to its client.
pub const MOST_BYTES: usize = 128 * 1024;

/// Left out in this order if the whole is larger.
const DISPENSABLE: [&str; 5] = ["modules", "addresses", "gateways", "interfaces", "sysctls"];

/// Properties of an interface that may change during a test.
const CHANGING: [&str; 5] = [
    "qdiscs",
    "classes",
    "byte_queue_limits",
    "carrier_changes",
    "flow_control",
];

/// Gathers facts about this host and its route to each target; as JSON they are smaller than [`MOST_BYTES`].
pub fn gather(targets: &[Target]) -> Map<String, Value> {
    let mut items = Items::default();
    system::gather(&mut items);
    network::gather(&mut items, targets);
    limited(items.into_document())
}

/// Returns the facts that were gathered before a test, with the present values of those that change, under keys that end
/// in `_after`.
pub fn with_after(mut before: Map<String, Value>, targets: &[Target]) -> Map<String, Value> {
    let mut items = Items::default();
    network::gather(&mut items, targets);
    let after = items.found.remove("interfaces").unwrap_or_default();
    let Some(Value::Object(interfaces)) = before.get_mut("interfaces") else {
        return before;
    };
    for (name, interface) in interfaces {
        let Value::Object(interface) = interface else {
            continue;
        };
        for key in CHANGING {
            let now = &after[name][key];
            if !now.is_null() {
                interface.insert(format!("{key}_after"), now.clone());
            }
        }
    }
    limited(before)
}

/// Describes this host for a client at an address, as JSON text.
pub fn described(client: IpAddr) -> String {
    Value::Object(gather(&[Target::from(client.to_canonical())])).to_string()
}

/// Leaves out the items that are not needed, until the rest is small enough.
fn limited(mut metadata: Map<String, Value>) -> Map<String, Value> {
    for key in DISPENSABLE {
        if serde_json::to_string(&metadata).is_ok_and(|text| text.len() < MOST_BYTES) {
            break;
        }
        if metadata.remove(key).is_some() {
            let note = Value::from(format!("{key}: too large to be kept"));
            match metadata.get_mut("not_gathered") {
                Some(Value::Array(notes)) => notes.push(note),
                _ => {
                    metadata.insert("not_gathered".to_owned(), Value::Array(vec![note]));
                }
            }
        }
    }
    metadata
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn too_much_is_cut_down_and_a_note_says_so() {
        let modules: Map<String, Value> = (0..5000)
            .map(|number| (format!("module-{number}"), Value::from("x".repeat(40))))
            .collect();
        let mut metadata = Map::new();
        metadata.insert("modules".to_owned(), Value::Object(modules));
        metadata.insert("uptime_s".to_owned(), Value::from(1.5));
        let found = limited(metadata);
        assert_eq!(found["uptime_s"], 1.5);
        assert!(!found.contains_key("modules"));
        assert_eq!(found["not_gathered"][0], "modules: too large to be kept");
    }

    #[test]
    fn a_client_of_this_host_is_reached_by_the_loopback_interface() {
        for client in ["127.0.0.1", "::ffff:127.0.0.1"] {
            let text = described(client.parse().unwrap());
            let found: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(found["egress"]["127.0.0.1"]["interface"], "lo", "{text}");
            let loopback = &found["interfaces"]["lo"];
            assert_eq!(loopback["index"], 1);
            assert_eq!(loopback["qdiscs"][0]["kind"], "noqueue");
            assert!(text.len() < MOST_BYTES);
        }
    }

    #[test]
    fn the_state_after_a_test_is_added_to_that_before_it() {
        let targets = [Target::from(IpAddr::V4(Ipv4Addr::LOCALHOST))];
        let both = with_after(gather(&targets), &targets);
        let loopback = &both["interfaces"]["lo"];
        assert_eq!(loopback["qdiscs"], loopback["qdiscs_after"]);
        assert_eq!(loopback.get("offloads_after"), None);
        let none = with_after(Map::new(), &targets);
        assert!(none.is_empty());
    }
}
