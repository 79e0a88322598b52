//! The window known to the sender.

use super::Half;

impl Half {
    /// Bytes of the receive window that the sender knows of and has not used; `None` while the window is unknown.
    pub fn window_room(&self) -> Option<i64> {
        self.window_bytes?;
        self.known_window.edge.map(|edge| edge - self.next)
    }
}
