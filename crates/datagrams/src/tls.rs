//! Fatal TLS alerts in the clear: which side ended a handshake, and why (RFC 5246, section 7.2; RFC 8446, section 6).
//!
//! Once keys are established, alerts are encrypted and longer: an alert that can be read ended a handshake.

use std::net::IpAddr;

use whydrop_capture::{Packet, TcpSegment};

/// The most alerts that are kept.
const MOST_ALERTS: usize = 1 << 10;
const ALERT: u8 = 21;
const FATAL: u8 = 2;

/// A handshake that one side ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// The side that ended it, and the other side.
    pub source: (IpAddr, u16),
    pub destination: (IpAddr, u16),
    pub description: u8,
    /// Number of its packet in the capture, from 1.
    pub packet: u64,
}

/// All fatal alerts of a capture.
#[derive(Debug, Default)]
pub(crate) struct Alerts(pub Vec<Alert>);

impl Alerts {
    /// Processes a segment: an alert is written separately, so it begins a segment.
    #[inline]
    pub fn take(&mut self, packet: &Packet, tcp: &TcpSegment) {
        let &[ALERT, 3, 0..=4, 0, 2, FATAL, description, ..] = tcp.payload else {
            return;
        };
        let Some(network) = &packet.network else {
            return;
        };
        let alert = Alert {
            source: (network.source, tcp.source_port),
            destination: (network.destination, tcp.destination_port),
            description,
            packet: packet.index.saturating_add(1),
        };
        let is_known =
            |known: &Alert| (known.source, known.destination) == (alert.source, alert.destination);
        if self.0.len() < MOST_ALERTS && !self.0.iter().rev().take(64).any(is_known) {
            self.0.push(alert);
        }
    }
}

impl Alert {
    /// Name of its description in IANA's registry (TLS Alerts).
    pub fn name(&self) -> Option<&'static str> {
        Some(match self.description {
            10 => "unexpected message",
            20 => "bad record mac",
            22 => "record overflow",
            40 => "handshake failure",
            42 => "bad certificate",
            43 => "unsupported certificate",
            44 => "certificate revoked",
            45 => "certificate expired",
            46 => "certificate unknown",
            47 => "illegal parameter",
            48 => "unknown certificate authority",
            49 => "access denied",
            50 => "decode error",
            51 => "decrypt error",
            70 => "protocol version",
            71 => "insufficient security",
            80 => "internal error",
            86 => "inappropriate fallback",
            109 => "missing extension",
            110 => "unsupported extension",
            112 => "unrecognized name",
            116 => "certificate required",
            120 => "no application protocol",
            _ => return None,
        })
    }

    /// True if the service's side ended it, judged by ports.
    pub fn is_by_server(&self) -> bool {
        self.source.1 < self.destination.1
    }
}

#[cfg(test)]
mod tests {
    use whydrop_capture::{Network, TcpFlags, TcpOptions, Transport};

    use super::*;

    fn alerts(payloads: &[&[u8]]) -> Vec<Option<&'static str>> {
        let mut alerts = Alerts::default();
        for (index, payload) in (0_u16..).zip(payloads) {
            let tcp = TcpSegment {
                source_port: 443,
                destination_port: 40_000 + index,
                sequence: 1,
                acknowledgment: 1,
                flags: TcpFlags(TcpFlags::ACK),
                window: 1,
                payload_bytes: payload.len() as u32,
                payload,
                options: TcpOptions::default(),
            };
            let packet = Packet {
                index: u64::from(index),
                time_ns: 0,
                interface: 0,
                wire_bytes: 60,
                captured_bytes: 60,
                network: Some(Network {
                    source: IpAddr::from([192, 0, 2, 1]),
                    destination: IpAddr::from([192, 0, 2, 2]),
                    ip_bytes: 60,
                    identification: None,
                    ttl: 64,
                    dscp: 0,
                    ecn: 0,
                    tunnel_depth: 0,
                }),
                transport: Transport::Tcp(tcp),
            };
            alerts.take(&packet, &tcp);
        }
        alerts.0.iter().map(Alert::name).collect()
    }

    #[test]
    fn a_fatal_alert_in_the_clear_ended_a_handshake_and_others_did_not() {
        assert_eq!(
            alerts(&[&[21, 3, 3, 0, 2, 2, 40]]),
            [Some("handshake failure")]
        );
        // a warning, an encrypted one, a truncated one
        assert!(alerts(&[&[21, 3, 3, 0, 2, 1, 0]]).is_empty());
        assert!(alerts(&[&[21, 3, 3, 0, 26, 2, 40]]).is_empty());
        assert!(alerts(&[&[21, 3, 3, 0, 2, 2]]).is_empty());
    }
}
