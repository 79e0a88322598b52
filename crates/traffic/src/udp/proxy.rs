//! For tests: a path between client and responder that drops, duplicates or delays packets on instruction.

use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::Domain;

use super::packet::HEADER_BYTES;
use super::socket;

const MOST_OVERHEARD: usize = 100;

/// The action of the proxy on one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Pass,
    Drop,
    Twice,
    /// Delayed until after the next packet, or until no more arrive.
    Hold,
}

impl Action {
    pub(crate) fn copies(self) -> usize {
        match self {
            Action::Drop => 0,
            Action::Twice => 2,
            Action::Pass | Action::Hold => 1,
        }
    }
}

/// The packets handled, in order: kind, sequence, and the action.
#[derive(Debug, Default)]
pub(crate) struct Handled {
    up: Vec<(u8, u64, Action)>,
    down: Vec<(u8, u64, Action)>,
    /// The latest packets of any kind on the path up, as an eavesdropper sees them.
    overheard: VecDeque<Vec<u8>>,
}

impl Handled {
    /// The actions on probes of this sequence, and on their answers.
    pub(crate) fn up(&self, sequence: u64) -> Vec<Action> {
        Handled::of(&self.up, 1, sequence)
    }

    pub(crate) fn down(&self, sequence: u64) -> Vec<Action> {
        Handled::of(&self.down, 2, sequence)
    }

    fn of(list: &[(u8, u64, Action)], kind: u8, sequence: u64) -> Vec<Action> {
        let matching = list
            .iter()
            .filter(|(found, number, _)| (*found, *number) == (kind, sequence));
        matching.map(|(_, _, action)| *action).collect()
    }

    /// Packets of streams and bursts.
    pub(crate) fn data(&self, is_up: bool) -> Vec<(u64, Action)> {
        let list = if is_up { &self.up } else { &self.down };
        let data = list.iter().filter(|(kind, _, _)| matches!(kind, 3 | 4));
        data.map(|&(_, sequence, action)| (sequence, action))
            .collect()
    }
}

/// A relay for any number of clients.
pub(crate) struct Proxy {
    address: SocketAddr,
    did: Arc<Mutex<Handled>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

type Choices = fn(bool, u64) -> Action;

impl Proxy {
    /// `choose` selects the action for each probe or data packet from its direction (up?) and its number; other packets
    /// pass.
    pub(crate) fn towards(remote: SocketAddr, choose: Choices) -> Proxy {
        let front = open();
        let address = front.local_addr().unwrap();
        let (did, stop) = (
            Arc::<Mutex<Handled>>::default(),
            Arc::<AtomicBool>::default(),
        );
        let relay = Relay {
            front,
            remote,
            choose,
            did: Arc::clone(&did),
            stop: Arc::clone(&stop),
        };
        Proxy {
            address,
            did,
            stop,
            threads: vec![std::thread::spawn(move || relay.run())],
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The latest packets on the path up.
    pub(crate) fn overheard(&self) -> Vec<Vec<u8>> {
        self.did.lock().unwrap().overheard.iter().cloned().collect()
    }

    pub(crate) fn stop(mut self) -> Handled {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
        std::mem::take(&mut *self.did.lock().unwrap())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// With a buffer for the packets of seconds: a busy machine may run other processes that long.
fn open() -> UdpSocket {
    let socket = socket::open(Domain::IPV4).unwrap();
    let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&loopback.into()).unwrap();
    socket.into()
}

struct Relay {
    front: UdpSocket,
    remote: SocketAddr,
    choose: Choices,
    did: Arc<Mutex<Handled>>,
    stop: Arc<AtomicBool>,
}

impl Relay {
    fn run(&self) {
        const AGAIN: Duration = Duration::from_millis(50);
        self.front.set_read_timeout(Some(AGAIN)).unwrap();
        let mut backs: HashMap<SocketAddr, (Arc<UdpSocket>, DirectionState)> = HashMap::new();
        std::thread::scope(|scope| {
            let mut bytes = [0; 65_536];
            while !self.stop.load(Ordering::Relaxed) {
                let Ok((length, client)) = self.front.recv_from(&mut bytes) else {
                    for (back, state) in backs.values_mut() {
                        state.release(&|bytes| drop(back.send(bytes)));
                    }
                    continue;
                };
                let (back, state) = backs.entry(client).or_insert_with(|| {
                    let back = Arc::new(open());
                    back.connect(self.remote).unwrap();
                    back.set_read_timeout(Some(AGAIN)).unwrap();
                    let from = Arc::clone(&back);
                    scope.spawn(move || self.return_from(&from, client));
                    (back, DirectionState::default())
                });
                let send = |bytes: &[u8]| drop(back.send(bytes));
                self.pass(true, state, &bytes[..length], &send);
            }
        });
    }

    fn return_from(&self, back: &UdpSocket, client: SocketAddr) {
        let mut bytes = [0; 65_536];
        let mut state = DirectionState::default();
        let send = |bytes: &[u8]| drop(self.front.send_to(bytes, client));
        while !self.stop.load(Ordering::Relaxed) {
            match back.recv(&mut bytes) {
                Ok(length) => self.pass(false, &mut state, &bytes[..length], &send),
                Err(_) => state.release(&send),
            }
        }
    }

    fn pass(&self, is_up: bool, state: &mut DirectionState, bytes: &[u8], send: &dyn Fn(&[u8])) {
        self.forward(is_up, state, bytes, send);
        // Only now: a replayed copy must not overtake its original. The answer to that would go to the attacker.
        if is_up {
            let overheard = &mut self.did.lock().unwrap().overheard;
            overheard.push_back(bytes.to_vec());
            if overheard.len() > MOST_OVERHEARD {
                overheard.pop_front();
            }
        }
    }

    fn forward(&self, is_up: bool, state: &mut DirectionState, bytes: &[u8], send: &dyn Fn(&[u8])) {
        let kind = bytes[2];
        if bytes.len() < HEADER_BYTES || !(1..=4).contains(&kind) {
            // The end of a flow does not overtake delayed packets: on a busy machine they would count as lost.
            state.release(send);
            return send(bytes);
        }
        let action = (self.choose)(is_up, state.number);
        state.number += 1;
        let sequence = u64::from_be_bytes(bytes[16..24].try_into().unwrap());
        let mut did = self.did.lock().unwrap();
        let list = if is_up { &mut did.up } else { &mut did.down };
        list.push((kind, sequence, action));
        drop(did);
        match action {
            Action::Hold => return state.delayed.push(bytes.to_vec()),
            action => (0..action.copies()).for_each(|_| send(bytes)),
        }
        state.release(send);
    }
}

#[derive(Default)]
struct DirectionState {
    number: u64,
    delayed: Vec<Vec<u8>>,
}

impl DirectionState {
    fn release(&mut self, send: &dyn Fn(&[u8])) {
        for delayed in self.delayed.drain(..) {
            send(&delayed);
        }
    }
}
