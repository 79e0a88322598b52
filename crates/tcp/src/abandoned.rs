//! Connections that were dropped because of a defect, so that one faulty connection does not cost the results of the
//! others.

use whydrop_capture::Defect;

use crate::flow::Endpoint;

/// The most connections that are named.
const MOST_NAMED: usize = 8;

/// A connection that was dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abandoned {
    pub endpoints: [Endpoint; 2],
    /// Its packets before it was dropped.
    pub packets: u64,
    /// The number of the packet at which it was dropped; `None` at the end of the connection.
    pub at_packet: Option<u64>,
    pub defect: Defect,
}

/// All connections that were dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AbandonedConnections {
    pub connections: u64,
    /// The first of them, with names.
    pub named: Vec<Abandoned>,
}

impl AbandonedConnections {
    pub(crate) fn take(&mut self, abandoned: Abandoned) {
        self.connections += 1;
        if self.named.len() < MOST_NAMED {
            self.named.push(abandoned);
        }
    }

    /// Returns one sentence for each named connection, and one for the others.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.named.iter().map(Abandoned::note).collect();
        match self.connections.saturating_sub(self.named.len() as u64) {
            0 => {}
            others => notes.push(format!(
                "{others} more connections were left out for the same reason"
            )),
        }
        notes
    }
}

impl Abandoned {
    fn note(&self) -> String {
        let [one, other] = &self.endpoints;
        let (packets, defect) = (self.packets, &self.defect);
        let at = self.at_packet.map(|number| format!(", at packet {number}"));
        let at = at.unwrap_or_default();
        format!(
            "the connection {one} - {other} ({packets} packets) is left out{at}: {defect}. Please report it"
        )
    }
}
