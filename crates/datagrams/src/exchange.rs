//! Requests and their outcomes: answered after some time and number of attempts, or not.
//!
//! A request is all attempts of a client to get the same answer: a resolver repeats a question under several numbers
//! and to several servers. It is followed until newer ones need its memory, so that floods cost no more than other
//! captures.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use crate::dns;
use crate::messages::{self, Message, Ports, Reply, Role, Service};

/// The most requests that are followed at a time, and servers that are listed.
const MOST_REQUESTS: usize = 1 << 13;
const MOST_SERVERS: usize = 1 << 12;
/// The most attempts of a request, and example packets and names of a server, that are kept.
const MOST_ATTEMPTS: usize = 8;
const MOST_SHOWN: usize = 16;
const MOST_NAMES: usize = 3;
/// Duplicates of one packet are closer together than attempts.
const COPIES_NS: i64 = 5_000_000;
/// The same question after this time is a new request: resolvers and telephones give up earlier.
const SAME_REQUEST_NS: i64 = 60_000_000_000;
/// A longer wait for an answer is slow, because users notice it. It is a tenth of the time after which stub resolvers
/// retry.
pub const SLOW_NS: i64 = 500_000_000;
/// A request is unanswered after this time even if it was not repeated: the longest first timeout of telephones,
/// resolvers and address assignment is 5 s, that of most programs 1 s.
const PATIENCE_NS: i64 = 3_000_000_000;
/// The same for a repeated request, if the attempts are this far apart.
const RETRIED_NS: i64 = 400_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    service: Service,
    /// `None` if it has no address yet.
    client: Option<IpAddr>,
    subject: u64,
}

/// One attempt to get an answer.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    server: (IpAddr, u16),
    identity: u64,
    time_ns: i64,
    is_answered: bool,
}

#[derive(Debug)]
struct Request {
    attempts: Vec<Attempt>,
    /// Including those that are not kept.
    tries: u32,
    first_ns: i64,
    last_ns: i64,
    /// Its first attempts.
    packets: Vec<u64>,
    name: Option<String>,
    answer: Option<FirstAnswer>,
    /// Another host that answered instead of the server.
    stranger: Option<IpAddr>,
}

#[derive(Debug, Clone, Copy)]
struct FirstAnswer {
    time_ns: i64,
    packet: u64,
    reply: Reply,
    /// The answered attempt.
    attempt: usize,
}

/// A server of one protocol, and its service.
#[derive(Debug, Clone)]
pub struct Server {
    pub service: Service,
    pub address: IpAddr,
    pub port: u16,
    /// One of its clients.
    pub client: Option<IpAddr>,
    /// Requests that were answered, or unanswered for long enough, and the attempts for them.
    pub requests: u64,
    pub attempts: u64,
    pub answered: u64,
    /// Answers by their result.
    pub no_such_name: u64,
    pub truncated: u64,
    pub refused: u64,
    pub failed: u64,
    pub other_version: u64,
    pub retry: u64,
    /// Requests without any answer, those of them that were repeated, and the total wait for them.
    pub unanswered: u64,
    pub unanswered_repeated: u64,
    pub unanswered_ns: i64,
    /// Since the last answer; all, if there was none.
    pub unanswered_since_answer: u64,
    /// Unanswered attempts of requests that were answered later, the wait they caused, and the number of such requests.
    pub lost_attempts: u64,
    pub repeated: u64,
    pub repeated_ns: i64,
    /// Slow answers, the total wait for them, and the longest and the shortest wait for an answer.
    pub slow: u64,
    pub slow_ns: i64,
    /// The same for answers that refuse or report an error.
    pub failed_ns: i64,
    pub longest_ns: i64,
    pub shortest_ns: i64,
    /// The longest of all waits for an answer, repeated requests included.
    pub slowest_ns: i64,
    /// Requests that another host answered.
    pub strange: u64,
    pub stranger: Option<IpAddr>,
    pub first_ns: i64,
    pub last_ns: i64,
    /// Example packets, and requested names.
    pub unanswered_packets: Vec<u64>,
    pub refused_packets: Vec<u64>,
    pub slow_packets: Vec<u64>,
    pub repeated_packets: Vec<u64>,
    pub unanswered_names: Vec<String>,
    pub refused_names: Vec<String>,
    pub slow_names: Vec<String>,
}

/// The requests that are followed.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    requests: HashMap<Key, Request>,
    order: VecDeque<(Key, i64)>,
    servers: HashMap<(Service, IpAddr, u16), Server>,
    expects_files: bool,
    /// Requests that were dropped before their outcome was known.
    dropped: u64,
}

/// All requests of a capture.
#[derive(Debug, Default)]
pub struct Exchanged {
    /// In the order of their first requests.
    pub servers: Vec<Server>,
    /// Requests too close to the end of the capture for an answer.
    pub too_late: u64,
    pub dropped: u64,
}

/// Where and when a message was captured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub time_ns: i64,
    /// Number of its packet in the capture, from 1.
    pub packet: u64,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub ports: Ports,
}

impl Exchanges {
    /// Processes a datagram; returns true if it was part of an exchange.
    pub fn take(&mut self, seen: &Seen, payload_bytes: u32, payload: &[u8]) -> bool {
        let message = messages::read(seen.ports, payload_bytes, payload);
        let of_file = || messages::tftp_answer(seen.ports, payload);
        let message = message.or_else(|| self.expects_files.then(of_file).flatten());
        let Some(message) = message else {
            return false;
        };
        self.take_message(seen, message, payload)
    }

    /// Processes DNS over TCP: a segment with a whole message after its length (RFC 7766, section 8).
    pub fn take_segment(&mut self, seen: &Seen, payload: &[u8]) {
        let Some((length, rest)) = payload.split_first_chunk() else {
            return;
        };
        let whole = rest.get(..usize::from(u16::from_be_bytes(*length)));
        if let Some(message) = whole.and_then(|whole| messages::of_dns(seen.ports, whole)) {
            self.take_message(seen, message, rest);
        }
    }

    fn take_message(&mut self, seen: &Seen, message: Message, payload: &[u8]) -> bool {
        match message.role {
            Role::Request => self.ask(seen, &message, payload),
            Role::Answer(reply) => return self.answer(seen, &message, reply),
            Role::Either { begins, reply } => {
                if self.answer(seen, &message, reply) {
                    return true;
                }
                if !begins {
                    return false;
                }
                self.ask(seen, &message, payload);
            }
        }
        true
    }

    fn ask(&mut self, seen: &Seen, message: &Message, payload: &[u8]) {
        if !message.service.asks_everybody() && asks_many(seen.destination) {
            return;
        }
        self.expects_files |= message.service == Service::Tftp;
        let key = key(message, seen.source);
        let attempt = Attempt {
            server: (seen.destination, seen.ports.1),
            identity: message.identity,
            time_ns: seen.time_ns,
            is_answered: false,
        };
        if let Some(request) = self.requests.get_mut(&key)
            && request.goes_on(seen.time_ns)
        {
            request.repeat(attempt, seen.packet);
            return;
        }
        if let Some(old) = self.requests.remove(&key) {
            self.settle(&key, &old, seen.time_ns);
        }
        self.make_room(seen.time_ns);
        let is_dns = message.service == Service::Dns;
        let name = is_dns.then(|| dns::name(payload)).flatten();
        self.order.push_back((key, seen.time_ns));
        self.requests
            .insert(key, Request::new(attempt, seen.packet, name));
    }

    /// True if a request waits for this answer.
    fn answer(&mut self, seen: &Seen, message: &Message, reply: Reply) -> bool {
        let key = key(message, seen.destination);
        let Some(request) = self.requests.get_mut(&key) else {
            return false;
        };
        let from =
            |attempt: &Attempt| message.service.asks_everybody() || attempt.server.0 == seen.source;
        let asked = |attempt: &Attempt| attempt.identity == message.identity;
        let open = |attempt: &Attempt| !attempt.is_answered;
        let attempts = &mut request.attempts;
        let place = attempts
            .iter()
            .rposition(|attempt| asked(attempt) && from(attempt) && open(attempt));
        let Some(place) = place else {
            if attempts
                .iter()
                .any(|attempt| asked(attempt) && !from(attempt))
            {
                request.stranger.get_or_insert(seen.source);
            }
            return true;
        };
        attempts[place].is_answered = true;
        request.answer.get_or_insert(FirstAnswer {
            time_ns: seen.time_ns,
            packet: seen.packet,
            reply,
            attempt: place,
        });
        true
    }

    /// Drops the oldest requests if there are too many.
    fn make_room(&mut self, now_ns: i64) {
        while self.requests.len() >= MOST_REQUESTS || self.order.len() >= 2 * MOST_REQUESTS {
            let Some((key, since_ns)) = self.order.pop_front() else {
                return;
            };
            let is_same = |request: &Request| request.first_ns == since_ns;
            if self.requests.get(&key).is_some_and(is_same)
                && let Some(request) = self.requests.remove(&key)
                && !self.settle(&key, &request, now_ns)
            {
                self.dropped += 1;
            }
        }
    }

    /// Counts the outcome of a request; returns false if it is not known yet.
    fn settle(&mut self, key: &Key, request: &Request, now_ns: i64) -> bool {
        if request.answer.is_none() && !request.is_over(now_ns) {
            return false;
        }
        let mut seen: Vec<(IpAddr, u16)> = Vec::new();
        for attempt in &request.attempts {
            if !seen.contains(&attempt.server) {
                seen.push(attempt.server);
            }
        }
        for (address, port) in seen {
            let place = (key.service, address, port);
            if self.servers.len() >= MOST_SERVERS && !self.servers.contains_key(&place) {
                self.dropped += 1;
                continue;
            }
            let server = self.servers.entry(place);
            server
                .or_insert_with(|| Server::new(key, (address, port), request.first_ns))
                .take(request, (address, port));
        }
        true
    }

    /// Counts all outcomes; `now_ns` is the end of the capture.
    pub fn finish(mut self, now_ns: i64) -> Exchanged {
        let mut left: Vec<(Key, Request)> = self.requests.drain().collect();
        left.sort_by_key(|(_, request)| (request.first_ns, request.packets.first().copied()));
        let mut too_late = 0;
        for (key, request) in left {
            too_late += u64::from(!self.settle(&key, &request, now_ns));
        }
        let mut servers: Vec<Server> = self.servers.into_values().collect();
        servers
            .sort_by_key(|server| (server.first_ns, server.service, server.address, server.port));
        Exchanged {
            servers,
            too_late,
            dropped: self.dropped,
        }
    }
}

fn key(message: &Message, client: IpAddr) -> Key {
    Key {
        service: message.service,
        client: (!message.service.asks_everybody()).then_some(client),
        subject: message.subject,
    }
}

/// True for an address of several hosts. The last address of a network of 256 counts as its broadcast address.
pub(crate) fn asks_many(destination: IpAddr) -> bool {
    match destination {
        IpAddr::V4(address) => address.is_multicast() || address.octets()[3] == u8::MAX,
        IpAddr::V6(address) => address.is_multicast(),
    }
}

impl Request {
    fn new(attempt: Attempt, packet: u64, name: Option<String>) -> Self {
        Self {
            attempts: vec![attempt],
            tries: 1,
            first_ns: attempt.time_ns,
            last_ns: attempt.time_ns,
            packets: vec![packet],
            name,
            answer: None,
            stranger: None,
        }
    }

    /// True if a new attempt belongs to this request: not if it was answered, or given up long ago.
    fn goes_on(&self, now_ns: i64) -> bool {
        let answered_before = self
            .answer
            .is_some_and(|answer| answer.time_ns < now_ns.saturating_sub(COPIES_NS));
        !answered_before && now_ns.saturating_sub(self.last_ns) < SAME_REQUEST_NS
    }

    fn repeat(&mut self, attempt: Attempt, packet: u64) {
        let is_copy = |known: &Attempt| {
            known.identity == attempt.identity
                && known.server == attempt.server
                && attempt.time_ns.saturating_sub(known.time_ns) < COPIES_NS
        };
        if self.attempts.iter().any(is_copy) {
            return;
        }
        self.tries = self.tries.saturating_add(1);
        self.last_ns = self.last_ns.max(attempt.time_ns);
        if self.attempts.len() < MOST_ATTEMPTS {
            self.attempts.push(attempt);
            self.packets.push(packet);
        } else if let Some(last) = self.attempts.last_mut() {
            *last = attempt;
        }
    }

    /// True if it had enough time for an answer.
    fn is_over(&self, now_ns: i64) -> bool {
        self.last_ns.saturating_sub(self.first_ns) >= RETRIED_NS
            || now_ns.saturating_sub(self.last_ns) >= PATIENCE_NS
    }
}

impl Server {
    fn new(key: &Key, (address, port): (IpAddr, u16), first_ns: i64) -> Self {
        Self {
            service: key.service,
            address,
            port,
            client: key.client,
            requests: 0,
            attempts: 0,
            answered: 0,
            no_such_name: 0,
            truncated: 0,
            refused: 0,
            failed: 0,
            other_version: 0,
            retry: 0,
            unanswered: 0,
            unanswered_repeated: 0,
            unanswered_ns: 0,
            unanswered_since_answer: 0,
            lost_attempts: 0,
            repeated: 0,
            repeated_ns: 0,
            slow: 0,
            slow_ns: 0,
            failed_ns: 0,
            longest_ns: 0,
            shortest_ns: i64::MAX,
            slowest_ns: 0,
            strange: 0,
            stranger: None,
            first_ns,
            last_ns: first_ns,
            unanswered_packets: Vec::new(),
            refused_packets: Vec::new(),
            slow_packets: Vec::new(),
            repeated_packets: Vec::new(),
            unanswered_names: Vec::new(),
            refused_names: Vec::new(),
            slow_names: Vec::new(),
        }
    }

    /// Counts the outcome of a request to this server.
    fn take(&mut self, request: &Request, own: (IpAddr, u16)) {
        let attempts = || {
            request
                .attempts
                .iter()
                .filter(|attempt| attempt.server == own)
        };
        let is_alone = request.attempts.iter().all(|attempt| attempt.server == own);
        self.requests += 1;
        self.attempts += match is_alone {
            true => u64::from(request.tries),
            false => attempts().count() as u64,
        };
        self.first_ns = self.first_ns.min(request.first_ns);
        self.last_ns = self.last_ns.max(request.last_ns);
        if request.stranger.is_some() {
            self.strange += 1;
            self.stranger = self.stranger.or(request.stranger);
        }
        let by_this = |answer: &FirstAnswer| {
            request
                .attempts
                .get(answer.attempt)
                .is_some_and(|attempt| attempt.server == own)
        };
        match request.answer.filter(by_this) {
            Some(answer) => self.take_answer(request, &answer, own),
            // another server was equally good; this one is judged only by whether it answers too
            None if attempts().any(|attempt| attempt.is_answered) => self.answered += 1,
            None => self.take_unanswered(request),
        }
    }

    fn take_answer(&mut self, request: &Request, answer: &FirstAnswer, own: (IpAddr, u16)) {
        self.answered += 1;
        self.unanswered_since_answer = 0;
        self.last_ns = self.last_ns.max(answer.time_ns);
        // the time waited for other servers before is not this server's
        let own = || {
            request
                .attempts
                .iter()
                .filter(|attempt| attempt.server == own)
        };
        let since_ns = |time_ns: i64| answer.time_ns.saturating_sub(time_ns).max(0);
        let whole_ns = since_ns(own().map(|attempt| attempt.time_ns).min().unwrap_or(0));
        let answered = request.attempts.get(answer.attempt);
        let wait_ns = answered.map_or(whole_ns, |attempt| since_ns(attempt.time_ns));
        let unanswered = own().filter(|attempt| !attempt.is_answered).count() as u64;
        let is_failure = matches!(answer.reply, Reply::Refused | Reply::Failed);
        self.shortest_ns = self.shortest_ns.min(wait_ns);
        self.slowest_ns = self.slowest_ns.max(whole_ns);
        if unanswered > 0 && whole_ns.saturating_sub(wait_ns) >= RETRIED_NS {
            self.repeated += 1;
            self.lost_attempts += unanswered;
            self.repeated_ns = self.repeated_ns.saturating_add(whole_ns);
            show(&mut self.repeated_packets, &request.packets);
        } else if is_failure {
            self.failed_ns = self.failed_ns.saturating_add(whole_ns);
        } else if whole_ns >= SLOW_NS {
            self.slow += 1;
            self.slow_ns = self.slow_ns.saturating_add(whole_ns);
            self.longest_ns = self.longest_ns.max(whole_ns);
            let first = request.packets.first().copied().unwrap_or_default();
            show(&mut self.slow_packets, &[first, answer.packet]);
            name(&mut self.slow_names, request);
        }
        match answer.reply {
            Reply::Given => {}
            Reply::NoSuchName => self.no_such_name += 1,
            Reply::Truncated => self.truncated += 1,
            Reply::Refused => self.refused += 1,
            Reply::Failed => self.failed += 1,
            Reply::OtherVersion => self.other_version += 1,
            Reply::Retry => self.retry += 1,
        }
        if is_failure {
            show(&mut self.refused_packets, &[answer.packet]);
            name(&mut self.refused_names, request);
        }
    }

    fn take_unanswered(&mut self, request: &Request) {
        let until_ns = request
            .answer
            .map_or(request.last_ns, |answer| answer.time_ns);
        let waited_ns = until_ns.saturating_sub(request.first_ns).max(0);
        self.unanswered += 1;
        self.unanswered_since_answer += 1;
        self.unanswered_repeated += u64::from(waited_ns >= RETRIED_NS);
        self.unanswered_ns = self.unanswered_ns.saturating_add(waited_ns);
        show(&mut self.unanswered_packets, &request.packets);
        name(&mut self.unanswered_names, request);
    }
}

fn show(shown: &mut Vec<u64>, packets: &[u64]) {
    let room = MOST_SHOWN.saturating_sub(shown.len());
    shown.extend(packets.iter().take(room));
}

fn name(names: &mut Vec<String>, request: &Request) {
    if let Some(name) = &request.name
        && names.len() < MOST_NAMES
        && !names.contains(name)
    {
        names.push(name.clone());
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
