//! Connections that were given up because of a defect: what a capture holds of one must not cost the others theirs.

use whydrop_capture::Defect;

use crate::flow::Endpoint;

/// Connections named at most.
const MOST_NAMED: usize = 8;

/// A connection that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abandoned {
    pub endpoints: [Endpoint; 2],
    /// Its packets until then.
    pub packets: u64,
    /// The number of the packet at which it was given up; `None` at its end.
    pub at_packet: Option<u64>,
    pub defect: Defect,
}

/// All connections that were given up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AbandonedConnections {
    pub connections: u64,
    /// The first of them.
    pub named: Vec<Abandoned>,
}

impl AbandonedConnections {
    pub(crate) fn take(&mut self, abandoned: Abandoned) {
        self.connections += 1;
        if self.named.len() < MOST_NAMED {
            self.named.push(abandoned);
        }
    }

    /// One sentence for each that is named, and one for the others.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.named.iter().map(Abandoned::note).collect();
        match self.connections.saturating_sub(self.named.len() as u64) {
            0 => {}
            others => notes.push(format!("{others} more connections are left out likewise")),
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
