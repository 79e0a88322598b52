//! Whether the receiver's window is what limits a connection.

use crate::network::{Fate, History};
use crate::segment::Toward;

/// A segment that leaves less than this many segments of room was stopped by the window.
const ROOM_SEGMENTS: u64 = 2;

/// The share of data packets of a connection that were sent up to the edge of the window that the server knew.
pub fn limited_share(history: &History, flow: usize) -> f64 {
    // (time, is data, end of the data, edge of the window, payload)
    let mut events: Vec<(i64, bool, u64, u64)> = Vec::new();
    for packet in &history.packets {
        let Some(segment) = packet.segment.filter(|segment| segment.flow == flow) else {
            continue;
        };
        match (segment.toward, packet.fate) {
            (Toward::Client, _) if segment.payload_bytes > 0 => {
                let room = ROOM_SEGMENTS * u64::from(segment.payload_bytes);
                events.push((packet.sent_ns, true, segment.end(), room));
            }
            (Toward::Server, Fate::Delivered { time_ns }) => {
                let edge = segment.acknowledgment + u64::from(segment.window_bytes);
                events.push((time_ns, false, edge, 0));
            }
            _ => {}
        }
    }
    // What an acknowledgment allows is sent at the same time, after it.
    events.sort_by_key(|event| (event.0, event.1));
    let (mut edge, mut sent, mut limited) = (0, 0_u32, 0_u32);
    for (_, is_data, end, room) in events {
        if is_data {
            sent += 1;
            limited += u32::from(end + room > edge);
        } else {
            edge = edge.max(end);
        }
    }
    f64::from(limited) / f64::from(sent.max(1))
}
