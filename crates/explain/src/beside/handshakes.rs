//! TLS handshakes that one side ended with an unencrypted alert.

use std::collections::BTreeMap;
use std::net::IpAddr;

use whydrop_datagrams::{Alert, Datagrams};
use whydrop_verdict::{Cause, Fact, Value, fact};

use super::{MOST_NAMED, MOST_PACKETS, endpoint, gathered};
use crate::conditions::Condition;

/// Alerts with one description about one server.
struct Ended<'a> {
    alert: &'a Alert,
    server: (IpAddr, u16),
    connections: u64,
    names: Vec<String>,
    packets: Vec<u64>,
}

/// Find them.
pub(super) fn find(datagrams: &Datagrams) -> Vec<Condition> {
    let mut by_kind: BTreeMap<(u8, bool), Vec<Ended>> = BTreeMap::new();
    for alert in &datagrams.alerts {
        let by_server = alert.is_by_server();
        let server = if by_server {
            alert.source
        } else {
            alert.destination
        };
        let of_kind = by_kind.entry((alert.description, by_server)).or_default();
        let one = Ended::of(alert, server);
        match of_kind.iter_mut().find(|known| known.server == server) {
            Some(known) => known.add(one),
            None => of_kind.push(one),
        }
    }
    let together = by_kind
        .into_values()
        .flat_map(|ended| gathered(ended, |one| one.connections, Ended::add));
    together
        .map(|(one, others)| one.condition(others))
        .collect()
}

impl<'a> Ended<'a> {
    fn of(alert: &'a Alert, server: (IpAddr, u16)) -> Self {
        let end = |(address, port): (IpAddr, u16)| std::net::SocketAddr::new(address, port);
        Self {
            alert,
            server,
            connections: 1,
            names: vec![format!(
                "{} > {}",
                end(alert.source),
                end(alert.destination)
            )],
            packets: vec![alert.packet],
        }
    }

    fn add(&mut self, other: Self) {
        self.connections += other.connections;
        self.names.extend(other.names);
        self.names.truncate(MOST_NAMED);
        self.packets.extend(other.packets);
        self.packets.truncate(MOST_PACKETS);
    }

    fn condition(self, others: u64) -> Condition {
        let mut condition = Condition::new(Cause::Refused, self.names);
        condition.detail = Some("tls");
        let description = match self.alert.name() {
            Some(name) => Value::from(name),
            None => Value::Text(self.alert.description.to_string().into()),
        };
        let about = Fact {
            packets: self.packets,
            ..fact!(
                "tls-alert",
                by_server = self.alert.is_by_server(),
                connections = self.connections,
                other_responders = others
            )
        };
        let (address, port) = self.server;
        let about = about.with("responder", endpoint(address, Some(port)));
        condition.facts = vec![about.with("description", description)];
        condition
    }
}
