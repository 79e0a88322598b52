//! The loop that receives packets, drives the elements, and sends packets when they are due.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use nix::sys::time::TimeSpec;

use crate::clock::{self, WallOffset};
use crate::direction::{Departure, Direction};
use crate::lateness::Lateness;
use crate::rests::Rests;
use crate::ring::{Given, Outlet, Ring};

/// Packets that are received before those that are due are sent.
const MOST_AT_ONCE: usize = 16;
/// How long the end may be overlooked.
const LONGEST_SLEEP_NS: i64 = 20_000_000;
/// A refused packet is offered again until it is late by so much. The host's kernel has no room if its processor stands
/// still for a while; but it refuses in the same words what it will never take, as packets larger than an MTU that the
/// host has lowered.
const LONGEST_WAIT_FOR_ROOM_NS: i64 = 20_000_000;
const OFFERED_AGAIN_NS: i64 = 50_000;
/// Shorter rests serve no other program.
const SHORTEST_REST_NS: i64 = 30_000;

/// A direction between two interfaces, and its lateness.
pub struct Lane {
    pub direction: Direction,
    pub lateness: Lateness,
    from: Ring,
    to: Outlet,
    /// A packet that is due, but was refused by the receiving host, and when it is offered again.
    refused: Option<(Departure, i64)>,
    /// The time of the last arrival.
    arrived_ns: i64,
}

/// Lanes that one thread serves.
pub struct Worker {
    pub lanes: Vec<Lane>,
    /// After a packet, and before a departure, the thread does not sleep for this long: to be woken takes longer than
    /// packets may be late.
    pub awake_ns: i64,
    /// The thread runs ahead of all programs, with others of its kind on the same processor in turns.
    pub is_realtime: bool,
}

impl Worker {
    /// Runs until the end is requested.
    pub fn run(&mut self, is_over: &AtomicBool) {
        let mut active_ns = i64::MIN;
        let mut rests = Rests::default();
        let mut wall = WallOffset::default();
        while !is_over.load(Ordering::Relaxed) {
            let now_ns = clock::now_ns();
            rests.runs(now_ns);
            let is_active = self.step(now_ns, wall.ns());
            if is_active {
                active_ns = now_ns;
            }
            if rests.overdue_ns() > 0 {
                std::thread::sleep(Duration::from_nanos(rests.overdue_ns() as u64));
                rests.slept(clock::now_ns());
            }
            if is_active {
                continue;
            }
            let left_ns = self.next_ns().saturating_sub(now_ns);
            let is_awake = now_ns.saturating_sub(active_ns) < self.awake_ns;
            let sleep_ns = match is_awake || left_ns < self.awake_ns {
                // Without a packet it rests, if it has to, and for as long as another program needs to run at all.
                true if left_ns < SHORTEST_REST_NS => 0,
                true => rests.owed_ns().min(left_ns),
                false => left_ns - self.awake_ns,
            };
            if sleep_ns > 0 {
                self.sleep(sleep_ns);
                rests.slept(clock::now_ns());
            }
            match self.is_realtime {
                true => std::thread::yield_now(),
                // A program would have the processor for a whole slice of time.
                false => std::hint::spin_loop(),
            }
        }
        for lane in &mut self.lanes {
            let unread = lane.from.dropped();
            lane.direction.counts.arrived += unread;
            lane.direction.counts.lost_by_emulator += unread;
        }
    }

    /// When any lane next has to decide or to send.
    fn next_ns(&self) -> i64 {
        let all = self.lanes.iter();
        let all = all.filter_map(Lane::next_ns);
        all.min().unwrap_or(i64::MAX)
    }

    /// Receives and sends; returns whether there was anything to do.
    fn step(&mut self, now_ns: i64, to_monotonic_ns: i64) -> bool {
        let served = self.lanes.iter_mut();
        // All of them, whatever the first has done.
        served.fold(false, |is_active, lane| {
            lane.step(now_ns, to_monotonic_ns) | is_active
        })
    }

    fn sleep(&self, time_ns: i64) {
        let timeout = TimeSpec::new(0, time_ns.clamp(0, LONGEST_SLEEP_NS));
        let mut watched: Vec<_> = (self.lanes.iter())
            .map(|lane| PollFd::new(lane.from.as_fd(), PollFlags::POLLIN))
            .collect();
        // A signal wakes as well as a packet.
        let _ = nix::poll::ppoll(&mut watched, Some(timeout), None);
    }
}

impl Lane {
    fn new(direction: Direction, from: Ring, to: Outlet) -> Lane {
        Lane {
            direction,
            lateness: Lateness::default(),
            from,
            to,
            refused: None,
            arrived_ns: i64::MIN,
        }
    }

    /// When it next has to decide or to send, if no packet arrives before.
    fn next_ns(&self) -> Option<i64> {
        let again_ns = self.refused.map(|(_, again_ns)| again_ns);
        again_ns.or_else(|| self.direction.next_ns())
    }

    fn step(&mut self, now_ns: i64, to_monotonic_ns: i64) -> bool {
        let mut last_ns = now_ns;
        let received = self.from.receive(MOST_AT_ONCE, |wall_ns, frame| {
            let stamped_ns = wall_ns + to_monotonic_ns;
            // A step of the wall clock neither reorders packets nor brings them from the future.
            last_ns = self.arrived_ns.max(stamped_ns.min(clock::now_ns()));
            self.arrived_ns = last_ns;
            self.direction.arrive(last_ns, frame);
        });
        // Decisions after the last packet may depend on those that are still in the ring.
        let is_all = received < MOST_AT_ONCE;
        self.direction.poll(if is_all { now_ns } else { last_ns });
        let sent = self.send_due(now_ns);
        received > 0 || sent > 0
    }

    fn send_due(&mut self, now_ns: i64) -> usize {
        let mut sent = 0;
        while let Some(departure) = self.next_due(now_ns) {
            let late_ns = clock::now_ns() - departure.due_ns;
            let given = self.to.send(self.direction.frame(departure));
            if given == Given::NoRoom && late_ns < LONGEST_WAIT_FOR_ROOM_NS {
                self.refused = Some((departure, now_ns + OFFERED_AGAIN_NS));
                break;
            }
            if given == Given::Taken {
                self.lateness.record(late_ns);
            }
            self.direction.sent(departure, given == Given::Taken);
            sent += 1;
        }
        sent
    }

    /// The packet to hand over now: a refused one before all others.
    fn next_due(&mut self, now_ns: i64) -> Option<Departure> {
        match self.refused {
            Some((_, again_ns)) if again_ns > now_ns => None,
            Some((departure, _)) => {
                self.refused = None;
                Some(departure)
            }
            None => self.direction.due(now_ns),
        }
    }
}

/// Rings of two interfaces joined by a lane in each direction.
///
/// # Errors
/// No descriptors are left.
pub fn lanes(forward: Direction, back: Direction, near: Ring, far: Ring) -> io::Result<[Lane; 2]> {
    let (to_near, to_far) = (near.outlet()?, far.outlet()?);
    Ok([
        Lane::new(forward, near, to_far),
        Lane::new(back, far, to_near),
    ])
}
