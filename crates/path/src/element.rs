//! The interface of every path element, and the replay of arrivals through one.

/// A packet for a path element: its arrival time and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Nanoseconds; the epoch is the caller's, usually the Unix epoch.
    pub time_ns: i64,
    /// Length on the IP layer.
    pub bytes: u32,
}

/// The ECN field of an IP header (RFC 3168, section 5; RFC 9331 for ECT(1)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// The hosts do not react to congestion marks.
    NotCapable,
    #[default]
    Ect0,
    /// Asks for the low latency service of RFC 9331.
    Ect1,
    /// Congestion was experienced.
    Ce,
}

impl Ecn {
    /// True if an element may mark the packet instead of dropping it.
    #[inline]
    pub fn is_capable(self) -> bool {
        self != Self::NotCapable
    }

    /// The field in the last two bits of a traffic class, or of the byte with the DSCP.
    pub fn of_bits(traffic_class: u8) -> Self {
        match traffic_class & 0b11 {
            0b00 => Self::NotCapable,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits in the header.
    pub fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }
}

/// The header fields, besides the length, that elements use: to separate flows, or to mark.
///
/// By default ([`PathElement::arrive`]), all packets belong to one flow and are ECN-capable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Packets with equal numbers belong to one flow: a hash of the 5-tuple, or an index.
    pub flow: u64,
    pub ecn: Ecn,
}

/// The method that sets the bytes counted on top of the IP packet.
macro_rules! with_overhead {
    () => {
        /// Bytes counted for each packet on top of the IP packet: see [`overhead`](crate::overhead).
        pub fn with_overhead(mut self, overhead_bytes: u32) -> Self {
            self.overhead_bytes = overhead_bytes;
            self
        }
    };
}
pub(crate) use with_overhead;

/// The outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It leaves the element at this time, which may be after its arrival.
    Departs { time_ns: i64 },
    /// It leaves at this time with Congestion Experienced set (RFC 3168).
    Marked { time_ns: i64 },
    /// It never leaves.
    Dropped,
    /// Not decided yet: later packets, or time alone, decide. [`PathElement::poll`] returns the outcome under
    /// this number, which counts the arrivals since the element was made or reset, from 0.
    Queued { packet: u64 },
}

impl Outcome {
    /// It leaves at this time, marked or not.
    #[inline]
    pub(crate) fn leaves(time_ns: i64, marked: bool) -> Self {
        match marked {
            true => Self::Marked { time_ns },
            false => Self::Departs { time_ns },
        }
    }

    /// Departure time of the packet, if it departs and the time is known.
    #[inline]
    pub fn departure_ns(self) -> Option<i64> {
        match self {
            Self::Departs { time_ns } | Self::Marked { time_ns } => Some(time_ns),
            Self::Dropped | Self::Queued { .. } => None,
        }
    }

    #[inline]
    pub fn is_dropped(self) -> bool {
        self == Self::Dropped
    }
}

/// The outcome of a packet that was [`Outcome::Queued`] when it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The number given by [`Outcome::Queued`].
    pub packet: u64,
    /// When it was decided; a drop at the head of a queue happens here.
    pub time_ns: i64,
    /// Never [`Outcome::Queued`].
    pub outcome: Outcome,
}

/// A hop, or a part of one, as a deterministic state machine over (arrival time, size).
///
/// Most elements decide at arrival, because the packets ahead determine the outcome: they need only
/// [`arrive`] and [`reset`]. Elements that decide later (CoDel drops at the head of its queue) answer
/// [`Outcome::Queued`]; their caller calls [`poll`] when [`next_event_ns`] is due, before it uses the effects
/// of later arrivals. [`replay`] does all of this for a list of arrivals.
///
/// Time must not decrease. If it does (captures with clock steps), an element uses the latest time so far: it
/// does not panic, and no bucket fills.
///
/// [`arrive`]: Self::arrive
/// [`reset`]: Self::reset
/// [`poll`]: Self::poll
/// [`next_event_ns`]: Self::next_event_ns
pub trait PathElement {
    /// Offer a packet. Decisions due before it are made first and kept for the next [`poll`](Self::poll).
    fn arrive(&mut self, packet: Arrival) -> Outcome;

    /// Offer a packet with its header. Elements that depend on sizes and times only need not override this.
    fn arrive_with(&mut self, packet: Arrival, header: Header) -> Outcome {
        let _ = header;
        self.arrive(packet)
    }

    /// Return to the initial state, random numbers included.
    fn reset(&mut self);

    /// Time of the element's next decision, if no packet arrives before.
    fn next_event_ns(&self) -> Option<i64> {
        None
    }

    /// Append to `decided` the decisions up to and including `now_ns`, in order.
    fn poll(&mut self, now_ns: i64, decided: &mut Vec<Decision>) {
        let _ = (now_ns, decided);
    }

    /// Bytes that a packet at this time finds: tokens in the (committed) bucket, or queued packets; NaN if the
    /// element has neither. Advances the clock.
    fn level_bytes_at(&mut self, time_ns: i64) -> f64 {
        let _ = time_ns;
        f64::NAN
    }

    /// Limit the (committed) tokens at this time to those for this many bytes: other traffic took the rest.
    fn spend_to(&mut self, bytes: u64, time_ns: i64) {
        let _ = (bytes, time_ns);
    }

    /// True if `arrive` never answers [`Outcome::Queued`].
    fn decides_at_arrival(&self) -> bool {
        true
    }

    /// True if packets leave in the order of arrival.
    fn keeps_order(&self) -> bool {
        true
    }
}

impl<E: PathElement + ?Sized> PathElement for Box<E> {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        (**self).arrive(packet)
    }
    fn arrive_with(&mut self, packet: Arrival, header: Header) -> Outcome {
        (**self).arrive_with(packet, header)
    }
    fn reset(&mut self) {
        (**self).reset();
    }
    fn next_event_ns(&self) -> Option<i64> {
        (**self).next_event_ns()
    }
    fn poll(&mut self, now_ns: i64, decided: &mut Vec<Decision>) {
        (**self).poll(now_ns, decided);
    }
    fn level_bytes_at(&mut self, time_ns: i64) -> f64 {
        (**self).level_bytes_at(time_ns)
    }
    fn spend_to(&mut self, bytes: u64, time_ns: i64) {
        (**self).spend_to(bytes, time_ns);
    }
    fn decides_at_arrival(&self) -> bool {
        (**self).decides_at_arrival()
    }
    fn keeps_order(&self) -> bool {
        (**self).keeps_order()
    }
}

/// Reset `element` and pass `arrivals`, sorted by time, through it: one outcome for each, none of them
/// `Queued`.
pub fn replay<E: PathElement + ?Sized>(element: &mut E, arrivals: &[Arrival]) -> Vec<Outcome> {
    element.reset();
    let outcomes = arrivals
        .iter()
        .map(|&packet| element.arrive(packet))
        .collect();
    settle(element, outcomes)
}

/// Like [`replay`], for packets with headers.
pub fn replay_with<E: PathElement + ?Sized>(
    element: &mut E,
    arrivals: &[(Arrival, Header)],
) -> Vec<Outcome> {
    element.reset();
    let outcomes = arrivals
        .iter()
        .map(|&(packet, header)| element.arrive_with(packet, header))
        .collect();
    settle(element, outcomes)
}

/// Fetch the pending ones of the outcomes of all arrivals since the element was made or reset.
pub fn settle<E: PathElement + ?Sized>(
    element: &mut E,
    mut outcomes: Vec<Outcome>,
) -> Vec<Outcome> {
    if !element.decides_at_arrival() {
        let mut decided = Vec::new();
        element.poll(i64::MAX, &mut decided);
        for decision in decided {
            // The element counts from its reset, so its numbers are positions in `arrivals`.
            let place = usize::try_from(decision.packet)
                .ok()
                .and_then(|i| outcomes.get_mut(i));
            if let Some(outcome) = place {
                *outcome = decision.outcome;
            }
        }
    }
    outcomes
}

/// Bytes that elements count on top of each IP packet.
pub mod overhead {
    /// Only the IP packet, as most routers' policers count.
    pub const IP: u32 = 0;
    /// With the Ethernet header, as Linux queueing disciplines count.
    pub const ETHERNET: u32 = 14;
    /// With header, frame check sequence, preamble and inter-frame gap: the time for which an Ethernet link
    /// is busy (IEEE 802.3: 14 + 4 + 8 + 12).
    pub const WIRE: u32 = 38;
}
