//! The settings of an emulation, as JSON.

use serde::Deserialize;
use whydrop_path::{Chain, Delay, PathElement, PathSpec, SpecError, Trace};

use crate::direction::Direction;

/// The path, the hosts' programs, and the rest.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// From the near host to the far one, or the reverse.
    pub path: PathSpec,
    /// A link of mahimahi's traces behind the path: times of delivery opportunities.
    pub trace_ms: Vec<u64>,
    /// The path is in the direction from the far host to the near one.
    pub is_reverse: bool,
    /// Delay in the direction without the path.
    pub round_trip_ns: i64,
    pub mtu_bytes: u32,
    /// Of random numbers.
    pub seed: u64,
    /// The program of the near host, and its arguments.
    pub command: Vec<String>,
    /// Lines for a shell of the far host.
    pub far: Vec<String>,
    /// The program writes to stderr instead of stdout.
    pub is_quiet: bool,
}

impl Settings {
    /// The directions: from the near host to the far one, and back.
    ///
    /// # Errors
    /// The path makes no sense: which element and field.
    pub fn directions(&self) -> Result<[Direction; 2], SpecError> {
        let mut elements: Vec<Box<dyn PathElement + Send>> = Vec::new();
        if !self.path.elements.is_empty() {
            elements.push(self.path.build(self.seed)?);
        }
        if !self.trace_ms.is_empty() {
            elements.push(Box::new(Trace::new(&self.trace_ms)));
        }
        let path = Direction::new(match elements.len() {
            1 => elements.remove(0),
            _ => Box::new(Chain::new(elements)),
        });
        let plain = Direction::new(Box::new(Delay::new(self.round_trip_ns)));
        Ok(match self.is_reverse {
            false => [path, plain],
            true => [plain, path],
        })
    }
}
