//! For tests: a path between client and responder that drops, repeats and holds back what it is told to.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::packet::HEADER_BYTES;

/// Events of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whim {
    Pass,
    Drop,
    Twice,
    /// Goes behind the next one, or when nothing more comes.
    Hold,
}

impl Whim {
    pub(crate) fn copies(self) -> usize {
        match self {
            Whim::Drop => 0,
            Whim::Twice => 2,
            Whim::Pass | Whim::Hold => 1,
        }
    }
}

/// The packets handled, in order: kind, sequence, and the whim.
#[derive(Debug, Default)]
pub(crate) struct Did {
    up: Vec<(u8, u64, Whim)>,
    down: Vec<(u8, u64, Whim)>,
}

impl Did {
    /// The whims that befell probes of this sequence, and their answers.
    pub(crate) fn up(&self, sequence: u64) -> Vec<Whim> {
        Did::of(&self.up, 1, sequence)
    }

    pub(crate) fn down(&self, sequence: u64) -> Vec<Whim> {
        Did::of(&self.down, 2, sequence)
    }

    fn of(list: &[(u8, u64, Whim)], kind: u8, sequence: u64) -> Vec<Whim> {
        let matching = list
            .iter()
            .filter(|(found, number, _)| (*found, *number) == (kind, sequence));
        matching.map(|(_, _, whim)| *whim).collect()
    }

    /// Packets of streams and bursts.
    pub(crate) fn data(&self, is_up: bool) -> Vec<(u64, Whim)> {
        let list = if is_up { &self.up } else { &self.down };
        let data = list.iter().filter(|(kind, _, _)| matches!(kind, 3 | 4));
        data.map(|&(_, sequence, whim)| (sequence, whim)).collect()
    }
}

/// A relay for any number of clients.
pub(crate) struct Proxy {
    address: SocketAddr,
    did: Arc<Mutex<Did>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

type Whims = fn(bool, u64) -> Whim;

impl Proxy {
    /// `whims` are asked with the direction (up?) and the number of the packet of data or probe in it; others pass.
    pub(crate) fn towards(remote: SocketAddr, whims: Whims) -> Proxy {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = front.local_addr().unwrap();
        let (did, stop) = (Arc::<Mutex<Did>>::default(), Arc::<AtomicBool>::default());
        let relay = Relay {
            front,
            remote,
            whims,
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

    pub(crate) fn stop(mut self) -> Did {
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

struct Relay {
    front: UdpSocket,
    remote: SocketAddr,
    whims: Whims,
    did: Arc<Mutex<Did>>,
    stop: Arc<AtomicBool>,
}

impl Relay {
    fn run(&self) {
        const AGAIN: Duration = Duration::from_millis(50);
        self.front.set_read_timeout(Some(AGAIN)).unwrap();
        let mut backs: HashMap<SocketAddr, (Arc<UdpSocket>, Way)> = HashMap::new();
        std::thread::scope(|scope| {
            let mut bytes = [0; 65_536];
            while !self.stop.load(Ordering::Relaxed) {
                let Ok((length, client)) = self.front.recv_from(&mut bytes) else {
                    for (back, way) in backs.values_mut() {
                        way.release(&|bytes| drop(back.send(bytes)));
                    }
                    continue;
                };
                let (back, way) = backs.entry(client).or_insert_with(|| {
                    let back = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
                    back.connect(self.remote).unwrap();
                    back.set_read_timeout(Some(AGAIN)).unwrap();
                    let from = Arc::clone(&back);
                    scope.spawn(move || self.return_from(&from, client));
                    (back, Way::default())
                });
                let send = |bytes: &[u8]| drop(back.send(bytes));
                self.pass(true, way, &bytes[..length], &send);
            }
        });
    }

    fn return_from(&self, back: &UdpSocket, client: SocketAddr) {
        let mut bytes = [0; 65_536];
        let mut way = Way::default();
        let send = |bytes: &[u8]| drop(self.front.send_to(bytes, client));
        while !self.stop.load(Ordering::Relaxed) {
            match back.recv(&mut bytes) {
                Ok(length) => self.pass(false, &mut way, &bytes[..length], &send),
                Err(_) => way.release(&send),
            }
        }
    }

    fn pass(&self, is_up: bool, way: &mut Way, bytes: &[u8], send: &dyn Fn(&[u8])) {
        let kind = bytes[2];
        if bytes.len() < HEADER_BYTES || !(1..=4).contains(&kind) {
            // The end of a flow does not overtake what is held: on a busy machine it would be taken for lost.
            way.release(send);
            return send(bytes);
        }
        let whim = (self.whims)(is_up, way.number);
        way.number += 1;
        let sequence = u64::from_be_bytes(bytes[16..24].try_into().unwrap());
        let mut did = self.did.lock().unwrap();
        let list = if is_up { &mut did.up } else { &mut did.down };
        list.push((kind, sequence, whim));
        drop(did);
        match whim {
            Whim::Hold => return way.held.push(bytes.to_vec()),
            whim => (0..whim.copies()).for_each(|_| send(bytes)),
        }
        way.release(send);
    }
}

#[derive(Default)]
struct Way {
    number: u64,
    held: Vec<Vec<u8>>,
}

impl Way {
    fn release(&mut self, send: &dyn Fn(&[u8])) {
        for held in self.held.drain(..) {
            send(&held);
        }
    }
}
