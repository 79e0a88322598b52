//! A narrow link on the return path, at which acknowledgments queue, are thinned, or lost.

use std::collections::VecDeque;

use super::{PacketFate, Simulation};
use crate::calendar::Event;

/// A link on the return path. Requests and acknowledgments share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReturnLink {
    pub rate_bps: u64,
    /// The most packets that may wait; further ones are dropped.
    pub limit_packets: usize,
    /// A pure acknowledgment replaces a waiting one of the same connection if neither carries SACK blocks (as cake's
    /// `ack-filter` and the filters of cable modems do).
    pub thins: bool,
    /// Bytes on the link in addition to each IP packet.
    pub overhead_bytes: u32,
}

pub(super) struct BackQueue {
    config: ReturnLink,
    waiting: VecDeque<usize>,
    on_link: Option<usize>,
}

impl BackQueue {
    pub fn new(config: ReturnLink) -> Self {
        Self {
            config,
            waiting: VecDeque::new(),
            on_link: None,
        }
    }
}

impl Simulation<'_> {
    /// Processes a packet that reaches the link.
    pub(super) fn enter_back(&mut self, packet: usize) {
        let Some(queue) = &mut self.back else {
            return;
        };
        if queue.on_link.is_none() {
            queue.on_link = Some(packet);
            return self.send_on_back_link(packet);
        }
        let thinnable = |number: usize| {
            let segment = self.packets[number].segment?;
            let pure = segment.is_pure_acknowledgment() && segment.sack.as_slice().is_empty();
            pure.then_some(segment.flow)
        };
        if let (true, Some(flow)) = (queue.config.thins, thinnable(packet))
            && let Some(place) =
                (queue.waiting.iter()).position(|&older| thinnable(older) == Some(flow))
            && let Some(older) = queue.waiting.remove(place)
        {
            // The newer one takes its place at the end: it acknowledges everything that the older one did.
            queue.waiting.push_back(packet);
            return self.end(older, PacketFate::LostReturning);
        }
        if queue.waiting.len() >= queue.config.limit_packets {
            return self.end(packet, PacketFate::LostReturning);
        }
        queue.waiting.push_back(packet);
    }

    fn send_on_back_link(&mut self, packet: usize) {
        let Some(queue) = &self.back else {
            return;
        };
        let bytes = u64::from(self.packets[packet].ip_bytes + queue.config.overhead_bytes);
        let time_ns = bytes * 8_000_000_000 / queue.config.rate_bps.max(1);
        self.calendar
            .at(self.now_ns + time_ns as i64, Event::LeaveBack);
    }

    /// Forwards the packet on the link, and starts the next one.
    pub(super) fn leave_back(&mut self) {
        let Some(queue) = &mut self.back else {
            return;
        };
        let sent = queue.on_link.take();
        let next = queue.waiting.pop_front();
        queue.on_link = next;
        if let Some(next) = next {
            self.send_on_back_link(next);
        }
        if let Some(sent) = sent
            && let Some(segment) = self.packets[sent].segment
        {
            if self.watch.is_some() {
                self.pass_points_back(segment, sent, self.now_ns);
            } else {
                self.carry_back(segment, sent, self.now_ns);
            }
        }
    }
}
