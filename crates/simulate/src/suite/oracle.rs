//! How much of a hop's behaviour can be determined from a capture if its parameters are known.

use serde_json::{Value, json};
use whydrop_hosts::Toward;
use whydrop_path::{Arrival, Outcome, PathElement, replay};

use super::world::single::ELEMENT;
use whydrop_network::history::{History, PacketFate};

/// The drops that the hop itself would make of the captured packets, compared with the actual drops. They differ
/// because of jitter between the capture and the hop, and because of packets that are not in the capture; no diagnosis
/// by replay can be expected to do better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oracle {
    pub predicted: usize,
    pub happened: usize,
    pub both: usize,
}

impl Oracle {
    /// Replays the captured packets towards the clients through the hop's true element.
    pub fn ask(history: &History, element: &mut dyn PathElement) -> Self {
        let mut arrivals = Vec::new();
        let mut dropped = Vec::new();
        for record in &history.records {
            let packet = &history.packets[record.packet];
            if packet.segment.is_some_and(|s| s.toward == Toward::Client) {
                arrivals.push(Arrival {
                    time_ns: record.time_ns,
                    bytes: packet.ip_bytes,
                });
                dropped.push(packet.fate == PacketFate::Dropped { stage: ELEMENT });
            }
        }
        let predicted: Vec<bool> = replay(element, &arrivals)
            .into_iter()
            .map(Outcome::is_dropped)
            .collect();
        let count = |flags: &[bool]| flags.iter().filter(|&&flag| flag).count();
        let both = predicted.iter().zip(&dropped).filter(|(p, d)| **p && **d);
        Self {
            predicted: count(&predicted),
            happened: count(&dropped),
            both: both.count(),
        }
    }

    /// 1 if it predicts every drop and no other, 0 if none (F1: the harmonic mean of precision and recall).
    pub fn agreement(self) -> f64 {
        2.0 * self.both as f64 / (self.predicted + self.happened).max(1) as f64
    }

    pub fn to_json(self) -> Value {
        json!({
            "predicted": self.predicted,
            "happened": self.happened,
            "both": self.both,
            "agreement": self.agreement(),
        })
    }
}
