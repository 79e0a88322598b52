//! The routes from this host to others, and the interfaces by which packets leave.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::ethtool::{self, Ethtool};
use crate::items::{Items, line, whole_number};
use crate::qdiscs;
use crate::rtnetlink::{Link, Netlink, by_type, text, unsigned};

/// Hosts of containers have thousands; of those by which no packet leaves, the addresses suffice.
const MOST_INTERFACES: usize = 64;

/// linux/if_link.h
const HARDWARE_ADDRESS: u16 = 1;
const LINK_INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const OF_LINK: [(&str, u16); 7] = [
    ("mtu_bytes", 4),
    ("queue_length_packets", 13),
    ("transmit_queues", 31),
    ("receive_queues", 32),
    ("gso_max_bytes", 41),
    ("gso_max_segments", 40),
    ("gro_max_bytes", 58),
];

/// Files of /sys/class/net with their names in the document.
const STATE_FILES: [(&str, &str); 5] = [
    ("operstate", "operstate"),
    ("carrier", "carrier"),
    ("carrier_changes", "carrier_changes"),
    ("speed", "speed_mbit_per_s"),
    ("duplex", "duplex"),
];

const QUEUE_LIMITS: [&str; 5] = ["limit", "limit_max", "limit_min", "inflight", "hold_time"];

/// The other end of a test: the name under which its route is reported, and its address or the reason for none.
pub struct Target {
    pub name: String,
    pub address: Result<IpAddr, String>,
}

impl From<IpAddr> for Target {
    fn from(address: IpAddr) -> Target {
        Target {
            name: address.to_string(),
            address: Ok(address),
        }
    }
}

/// Gathers addresses, gateways, and for each target the route and its interface.
pub fn gather(items: &mut Items, targets: &[Target]) {
    let Some(mut netlink) = items.noted("network", Netlink::open(None)) else {
        return;
    };
    let links = items
        .noted("interfaces", netlink.links())
        .unwrap_or_default();
    let names: BTreeMap<u32, &str> = links.iter().map(|link| (link.index, &*link.name)).collect();
    items.add("addresses", addresses(&mut netlink, &names));
    items.add("gateways", gateways(&mut netlink, &names));
    let mut egress = Map::new();
    let mut used = BTreeSet::new();
    for target in targets {
        let way = egress_to(&mut netlink, &names, target);
        if let Some((interface, described)) = items.noted(&format!("route to {}", target.name), way)
        {
            egress.insert(target.name.clone(), described);
            used.extend(interface);
        }
    }
    items
        .found
        .insert("egress".to_owned(), Value::Object(egress));
    let interfaces: Map<String, Value> = links
        .iter()
        .filter(|link| used.contains(&link.index))
        .map(|link| (link.name.clone(), interface(items, link)))
        .collect();
    items
        .found
        .insert("interfaces".to_owned(), Value::Object(interfaces));
}

fn addresses(netlink: &mut Netlink, names: &BTreeMap<u32, &str>) -> io::Result<Value> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (index, address, prefix_bits) in netlink.addresses()? {
        let name = names
            .get(&index)
            .map_or_else(|| index.to_string(), ToString::to_string);
        if found.contains_key(&name) || found.len() < MOST_INTERFACES {
            found
                .entry(name)
                .or_default()
                .push(format!("{address}/{prefix_bits}"));
        }
    }
    Ok(json!(found))
}

fn gateways(netlink: &mut Netlink, names: &BTreeMap<u32, &str>) -> io::Result<Value> {
    let routes = netlink.default_routes()?;
    let described = |route: &crate::rtnetlink::Route| {
        let interface = route.interface.and_then(|index| names.get(&index));
        json!({"interface": interface, "address": route.gateway})
    };
    Ok(routes.iter().map(described).collect())
}

/// The index of the interface towards a target, if it is known by name, and the route.
fn egress_to(
    netlink: &mut Netlink,
    names: &BTreeMap<u32, &str>,
    target: &Target,
) -> io::Result<(Option<u32>, Value)> {
    let address = target.address.clone().map_err(io::Error::other)?;
    let route = netlink.route_to(address)?;
    let interface = route.interface.filter(|index| names.contains_key(index));
    let mut described = json!({
        "address": address,
        "interface": interface.and_then(|index| names.get(&index)),
        "source": route.source,
        "gateway": route.gateway,
    });
    if let Some(bytes) = route.path_mtu_bytes.filter(|bytes| *bytes > 0) {
        described["path_mtu_bytes"] = bytes.into();
    }
    Ok((interface, described))
}

fn interface(items: &mut Items, link: &Link) -> Value {
    let mut own = Items {
        found: of_link(link),
        ..Items::default()
    };
    let folder = Path::new("/sys/class/net").join(&link.name);
    for (file, key) in STATE_FILES {
        if let Ok(value) = line(folder.join(file)) {
            own.found.insert(key.to_owned(), whole_number(value));
        }
    }
    own.add("byte_queue_limits", Ok(byte_queue_limits(&folder)));
    if let Some(asked) = own.noted("offloads", Ethtool::open(&link.name)) {
        own.add("offloads", Ok(asked.offloads()));
        own.add("driver", asked.driver());
        own.add("rings", asked.rings());
        own.add("coalescing", asked.coalescing());
    }
    own.add("flow_control", ethtool::flow_control(&link.name));
    if let Some((qdiscs, classes)) = own.noted("qdiscs", qdiscs::describe(link.index)) {
        own.found.insert("qdiscs".to_owned(), qdiscs);
        own.found.insert("classes".to_owned(), classes);
    }
    let notes = own
        .missing
        .iter()
        .map(|note| format!("{}: {note}", link.name));
    items.missing.extend(notes);
    Value::Object(own.found)
}

fn of_link(link: &Link) -> Map<String, Value> {
    let own = by_type(&link.attributes);
    let info = by_type(own.get(&LINK_INFO).copied().unwrap_or_default());
    let hardware_address = own.get(&HARDWARE_ADDRESS).filter(|bytes| !bytes.is_empty());
    let mut found = Map::new();
    found.insert("index".to_owned(), link.index.into());
    found.insert(
        "kind".to_owned(),
        info.get(&INFO_KIND).map(|kind| text(kind)).into(),
    );
    for (key, kind) in OF_LINK {
        let number = own.get(&kind).and_then(|bytes| unsigned(bytes));
        found.insert(key.to_owned(), number.into());
    }
    found.insert(
        "hardware_address".to_owned(),
        hardware_address.map(|bytes| in_hex(bytes)).into(),
    );
    found
}

fn in_hex(bytes: &[u8]) -> String {
    let pairs: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(":")
}

/// The limits of the driver's own queues, by queue.
fn byte_queue_limits(interface: &Path) -> Value {
    let mut found = Map::new();
    for entry in fs::read_dir(interface.join("queues"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let folder = entry.path().join("byte_queue_limits");
        let read = |key: &str| Some((key.to_owned(), whole_number(line(folder.join(key)).ok()?)));
        let values: Map<String, Value> = QUEUE_LIMITS.iter().filter_map(|key| read(key)).collect();
        if name.starts_with("tx-") && !values.is_empty() {
            found.insert(name, Value::Object(values));
        }
    }
    Value::Object(found)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_route_to_this_host_is_by_the_loopback_interface() {
        let mut items = Items::default();
        gather(&mut items, &[Target::from(IpAddr::V4(Ipv4Addr::LOCALHOST))]);
        assert_eq!(items.found["egress"]["127.0.0.1"]["source"], "127.0.0.1");
        let loopback = &items.found["interfaces"]["lo"];
        let mtu: u64 = line("/sys/class/net/lo/mtu").unwrap().parse().unwrap();
        assert_eq!(loopback["mtu_bytes"], mtu);
        assert_eq!(items.found["addresses"]["lo"][0], "127.0.0.1/8");
    }

    #[test]
    fn a_target_without_an_address_costs_only_its_own_route() {
        let unknown = Target {
            name: "far".to_owned(),
            address: Err("no such host".to_owned()),
        };
        let mut items = Items::default();
        gather(
            &mut items,
            &[unknown, Target::from(IpAddr::V4(Ipv4Addr::LOCALHOST))],
        );
        assert!(
            items
                .missing
                .contains(&"route to far: no such host".to_owned())
        );
        assert!(items.found["interfaces"]["lo"].is_object());
    }

    #[test]
    fn a_hardware_address_is_written_with_colons() {
        assert_eq!(in_hex(&[2, 0, 0xab]), "02:00:ab");
    }
}
