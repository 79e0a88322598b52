//! Connections with and without a receive window that limits them.

use whydrop_hosts::Toward;

use whydrop_network::history::{History, PacketFate};

/// Less room than this many segments counts as none: receivers and senders both wait for more.
const ROOM_SEGMENTS: u64 = 2;

/// An event at the server: an action, or new information.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Everything before this is acknowledged, and the window ends there.
    Acknowledged {
        until: u64,
        window_end: u64,
    },
    Sent {
        end: u64,
        payload_bytes: u64,
    },
}

/// The share of a connection's time with data in flight in which the window, as known to the server, had no room for
/// more.
pub fn limited_share(history: &History, flow: usize) -> f64 {
    let (mut until, mut window_end, mut sent_end, mut room) = (0, 0, 0, 0);
    let (mut in_flight_ns, mut limited_ns, mut last_ns) = (0_i64, 0_i64, 0_i64);
    for (time_ns, event) in events(history, flow) {
        if sent_end > until {
            in_flight_ns += time_ns - last_ns;
            if sent_end + room > window_end {
                limited_ns += time_ns - last_ns;
            }
        }
        last_ns = time_ns;
        match event {
            Event::Acknowledged {
                until: now_until,
                window_end: now_end,
            } => {
                until = until.max(now_until);
                window_end = window_end.max(now_end);
            }
            Event::Sent { end, payload_bytes } => {
                sent_end = sent_end.max(end);
                room = room.max(ROOM_SEGMENTS * payload_bytes);
            }
        }
    }
    limited_ns as f64 / in_flight_ns.max(1) as f64
}

/// In order of time; data that an acknowledgment permits is sent after it.
fn events(history: &History, flow: usize) -> Vec<(i64, Event)> {
    let mut events = Vec::new();
    for packet in &history.packets {
        let Some(segment) = packet.segment.filter(|segment| segment.flow == flow) else {
            continue;
        };
        match (segment.toward, packet.fate) {
            (Toward::Client, _) if segment.payload_bytes > 0 => {
                let sent = Event::Sent {
                    end: segment.end(),
                    payload_bytes: segment.payload_bytes.into(),
                };
                events.push((packet.sent_ns, sent));
            }
            (Toward::Server, PacketFate::Delivered { time_ns }) => {
                let acknowledged = Event::Acknowledged {
                    until: segment.acknowledgment,
                    window_end: segment.acknowledgment + u64::from(segment.window_bytes),
                };
                events.push((time_ns, acknowledged));
            }
            _ => {}
        }
    }
    events.sort_unstable();
    events
}
