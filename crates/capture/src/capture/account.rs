//! Counts made while a capture is read, and the notes about them.

use std::collections::HashSet;

use crate::decode::Decoded;
use crate::format::Interface;
use crate::link_type::LinkType;
use crate::summary::{PacketKinds, Summary, packets};
use crate::ticks::{Ticks, Timeless};
use crate::timeline::{self, Fate};
use crate::unread::UnreadCounts;

/// Counts over packets.
#[derive(Clone)]
pub(super) struct Counts {
    /// Frames read, and those of them that were returned or left out.
    read: u64,
    packets: u64,
    kinds: PacketKinds,
    unread: UnreadCounts,
    pub(super) duplicates: u64,
    /// Of the duplicates, frames that a wireless station retransmitted.
    pub(super) link_retries: u64,
    out_of_order: u64,
    largest_step_back_ns: u64,
    ticks: Ticks,
    /// The clock runs backwards.
    pub(super) runs_backwards: bool,
    /// Timestamps went back because the clock did.
    pub(super) clock_was_set_back: bool,
    /// The fate of packets out of order.
    pub(super) disorder_fate: Fate,
    pub(super) untimed: u64,
    /// Packets that the selection leaves out.
    pub(super) not_selected: u64,
    /// Packets that look like duplicates, and are kept.
    pub(super) suspects: u64,
    first_ns: i64,
    last_ns: i64,
    previous_ns: i64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            read: 0,
            packets: 0,
            kinds: PacketKinds::default(),
            unread: UnreadCounts::default(),
            duplicates: 0,
            link_retries: 0,
            out_of_order: 0,
            largest_step_back_ns: 0,
            ticks: Ticks::default(),
            runs_backwards: false,
            clock_was_set_back: false,
            disorder_fate: Fate::AsTheyAre,
            untimed: 0,
            not_selected: 0,
            suspects: 0,
            first_ns: i64::MAX,
            last_ns: i64::MIN,
            previous_ns: i64::MIN,
        }
    }
}

impl Counts {
    /// Counts a frame of the file by its timestamp; returns its number.
    #[inline(always)]
    pub(super) fn read(&mut self, stamped_ns: i64) -> u64 {
        if stamped_ns < self.previous_ns {
            self.out_of_order += 1;
            self.largest_step_back_ns = self
                .largest_step_back_ns
                .max(stamped_ns.abs_diff(self.previous_ns));
        }
        self.ticks.note(stamped_ns);
        self.previous_ns = stamped_ns;
        self.read += 1;
        self.read - 1
    }

    #[inline(always)]
    pub(super) fn packet(&mut self, time_ns: i64, decoded: &Decoded) {
        self.packets += 1;
        self.kinds.count(&decoded.transport);
        if let Some(unread) = decoded.unread() {
            self.unread.count(unread);
        }
        self.first_ns = self.first_ns.min(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
    }

    pub(super) fn add_to(&self, summary: &mut Summary) {
        summary.packets = self.packets;
        summary.kinds = self.kinds;
        summary.duplicates = self.duplicates;
        summary.link_retries = self.link_retries;
        summary.unread = self.unread.named();
        summary.out_of_order = self.out_of_order;
        if self.packets > 0 {
            summary.first_ns = Some(self.first_ns);
            summary.last_ns = Some(self.last_ns);
        }
        summary.left_out = self.not_selected;
        summary.timeless = match self.runs_backwards {
            true => Some(Timeless::Backwards),
            false => self.ticks.timeless(),
        };
        let notes = &mut summary.notes;
        notes.extend(self.unread.note());
        let without_times =
            |timeless: Timeless| format!("{}: the capture shows no times", timeless.reason());
        notes.extend(summary.timeless.map(without_times));
        if self.link_retries > 0 {
            notes.push(format!(
                "left out because the wireless link, not TCP, retransmitted them (802.11 retries): {}",
                packets(self.link_retries)
            ));
        }
        if self.out_of_order > 0 && !self.clock_was_set_back && !self.runs_backwards {
            notes.push(timeline::disorder_note(
                self.out_of_order,
                self.largest_step_back_ns,
                self.disorder_fate,
            ));
        }
        if self.untimed > 0 {
            notes.push(format!(
                "without a timestamp in the file (simple packet blocks): {}; each has the time of the packet before",
                packets(self.untimed)
            ));
        }
        // One per cent: repeated acknowledgments of a lossy connection stay well below.
        if self.suspects > self.packets / 100 {
            notes.push(format!(
                "possible duplicates (equal to a packet at most 20 µs before): {}; they are kept because nothing \
                 proves it. On a mirror port, remove them with `editcap -d`",
                packets(self.suspects)
            ));
        }
    }
}

/// Adds what a capture states about its interfaces.
pub(super) fn add_interfaces(interfaces: &[Interface], summary: &mut Summary) {
    /// A capture has one or two. More are summarised as a number: a damaged file may have thousands.
    const LINK_TYPES_NAMED: usize = 16;
    let mut links = Vec::new();
    let mut seen = HashSet::new();
    links.extend(
        interfaces
            .iter()
            .map(|interface| interface.link)
            .filter(|link| seen.insert(*link)),
    );
    summary.link_types = links
        .iter()
        .take(LINK_TYPES_NAMED)
        .map(LinkType::to_string)
        .collect();
    if links.len() > LINK_TYPES_NAMED {
        summary
            .link_types
            .push(format!("{} more", links.len() - LINK_TYPES_NAMED));
    }
    let limits = || interfaces.iter().map(|interface| interface.snaplen_bytes);
    summary.snaplen_bytes = limits().max().filter(|_| limits().all(|bytes| bytes != 0));
    let total = |count: fn(&Interface) -> Option<u64>| {
        let counts = interfaces.iter().filter_map(count);
        counts.reduce(u64::saturating_add)
    };
    summary.dropped_by_capture = total(Interface::dropped);
    if let Some(dropped) = summary.dropped_by_capture.filter(|&dropped| dropped > 0) {
        let received =
            total(|interface| interface.received).filter(|&received| received >= dropped);
        let of = received.map_or(String::new(), |received| {
            format!(" (it received {received} in all)")
        });
        summary.notes.push(format!(
            "dropped by the capturing host, as it reports: {}{of}",
            packets(dropped)
        ));
    }
}
