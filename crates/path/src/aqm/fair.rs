//! Flow queues served by deficit round robin with new flows first (RFC 8290, section 4).

use std::collections::VecDeque;

use super::sojourn::{SojournQueue, Waiting};
use crate::Random;

/// A queue for each bucket of flows, with the state of its discipline.
#[derive(Debug, Clone)]
pub(super) struct FlowQueue<S> {
    pub queue: SojournQueue,
    pub state: S,
    deficit_bytes: i64,
    listed: bool,
    /// In the list of old queues.
    old: bool,
    /// Packets waited when it had used up a quantum.
    busy: bool,
}

/// DRR++ (RFC 8290, section 4.2): each queue may send a quantum in its turn; a queue that was empty goes
/// first, once.
#[derive(Debug, Clone)]
pub(super) struct FlowQueues<S> {
    queues: Vec<FlowQueue<S>>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    quantum_bytes: i64,
    /// The quantum is divided by the number of busy queues.
    divides: bool,
    busy: usize,
    packets: usize,
    bytes: u64,
    salt: u64,
}

impl<S: Default + Clone> FlowQueues<S> {
    /// `salt` varies which flows share a queue.
    pub fn new(count: usize, quantum_bytes: u32, salt: u64) -> Self {
        let empty = FlowQueue {
            queue: SojournQueue::default(),
            state: S::default(),
            deficit_bytes: 0,
            listed: false,
            old: false,
            busy: false,
        };
        Self {
            queues: vec![empty; count.max(1)],
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum_bytes: i64::from(quantum_bytes.max(1)),
            divides: false,
            busy: 0,
            packets: 0,
            bytes: 0,
            salt,
        }
    }

    /// Divide the quantum among the busy queues, as cake does for those of a host: here all flows have one in common.
    pub fn dividing(mut self) -> Self {
        self.divides = true;
        self
    }

    pub fn reset(&mut self) {
        let quantum = u32::try_from(self.quantum_bytes).unwrap_or(u32::MAX);
        let divides = self.divides;
        *self = Self::new(self.queues.len(), quantum, self.salt);
        self.divides = divides;
    }

    fn turn_bytes(&self) -> i64 {
        match self.divides {
            true => (self.quantum_bytes / self.busy.max(1) as i64).max(1),
            false => self.quantum_bytes,
        }
    }

    pub fn packets(&self) -> usize {
        self.packets
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The index of a flow's queue.
    pub fn place(&self, flow: u64) -> usize {
        // The generator's output is a good hash of its seed.
        (Random::new(flow ^ self.salt).next_u64() % self.queues.len() as u64) as usize
    }

    pub fn get_mut(&mut self, place: usize) -> &mut FlowQueue<S> {
        &mut self.queues[place]
    }

    /// True if the queue was empty in a turn of its own, and has had no packet since.
    pub fn is_idle(&self, place: usize) -> bool {
        !self.queues[place].listed
    }

    pub fn push(&mut self, place: usize, waiting: Waiting) {
        self.packets += 1;
        self.bytes += waiting.bytes;
        let turn_bytes = self.turn_bytes();
        let queue = &mut self.queues[place];
        queue.queue.push(waiting);
        if !queue.listed {
            queue.listed = true;
            queue.deficit_bytes = turn_bytes;
            self.new.push_back(place);
        } else if queue.old && !queue.busy {
            queue.busy = true;
            self.busy += 1;
        }
    }

    /// The queue with the most bytes, which drops when there is no room (RFC 8290, section 4.1).
    pub fn fattest(&self) -> Option<usize> {
        let full = self.queues.iter().enumerate();
        full.filter(|(_, queue)| queue.queue.len() > 0)
            .max_by_key(|(_, queue)| queue.queue.bytes())
            .map(|(place, _)| place)
    }

    pub fn drop_head(&mut self, place: usize) -> Option<Waiting> {
        let head = self.queues[place].queue.pop()?;
        self.packets -= 1;
        self.bytes -= head.bytes;
        Some(head)
    }

    /// After a round in which no queue could send: give all of them the quanta of the rounds with the same
    /// result.
    fn skip_rounds(&mut self) {
        let listed = self.new.iter().chain(&self.old);
        let nearest = listed
            .clone()
            .map(|&place| self.queues[place].deficit_bytes)
            .max();
        let turn_bytes = self.turn_bytes();
        let more = nearest.map_or(0, |nearest| -nearest / turn_bytes * turn_bytes);
        if more > 0 {
            for &place in listed {
                self.queues[place].deficit_bytes += more;
            }
        }
    }

    /// The next packet to send. `take` removes it from its queue, given the bytes in the other queues, and
    /// adds packets that it drops to `dropped`.
    pub fn next(
        &mut self,
        dropped: &mut Vec<Waiting>,
        mut take: impl FnMut(&mut FlowQueue<S>, u64, &mut Vec<Waiting>) -> Option<(Waiting, bool)>,
    ) -> Option<(Waiting, bool)> {
        let mut turns = 0;
        loop {
            if turns > self.new.len() + self.old.len() {
                self.skip_rounds();
                turns = 0;
            }
            let turn_bytes = self.turn_bytes();
            let from_new = !self.new.is_empty();
            let list = if from_new {
                &mut self.new
            } else {
                &mut self.old
            };
            let place = *list.front()?;
            let queue = &mut self.queues[place];
            if queue.deficit_bytes <= 0 {
                if from_new && queue.queue.len() > 0 && !queue.busy {
                    queue.busy = true;
                    self.busy += 1;
                }
                queue.deficit_bytes += turn_bytes;
                queue.old = true;
                list.pop_front();
                self.old.push_back(place);
                turns += 1;
                continue;
            }
            let before = dropped.len();
            let beside_bytes = self.bytes - queue.queue.bytes();
            let sent = take(queue, beside_bytes, dropped);
            for lost in &dropped[before..] {
                self.packets -= 1;
                self.bytes -= lost.bytes;
            }
            let Some((sent, marked)) = sent else {
                list.pop_front();
                // A new queue that becomes empty passes through the old ones first, or it could always be
                // first.
                if from_new {
                    queue.old = true;
                    self.old.push_back(place);
                } else {
                    (queue.listed, queue.old) = (false, false);
                    self.busy -= usize::from(queue.busy);
                    queue.busy = false;
                }
                continue;
            };
            queue.deficit_bytes -= i64::try_from(sent.bytes).unwrap_or(i64::MAX);
            self.packets -= 1;
            self.bytes -= sent.bytes;
            return Some((sent, marked));
        }
    }
}
