use std::net::Ipv4Addr;

use super::*;
use crate::dns::tests::message;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 53));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 54));

#[derive(Default)]
struct Talk {
    exchanges: Exchanges,
    packets: u64,
}

impl Talk {
    fn say(&mut self, second: f64, ends: (IpAddr, IpAddr), ports: Ports, payload: &[u8]) {
        self.packets += 1;
        let seen = Seen {
            time_ns: (second * 1e9) as i64,
            packet: self.packets,
            source: ends.0,
            destination: ends.1,
            ports,
        };
        self.exchanges.take(&seen, payload.len() as u32, payload);
    }

    fn query(&mut self, second: f64, server: IpAddr, id: u16, name: &str) {
        let payload = message(id, 0x0100, name);
        self.say(second, (CLIENT, server), (40_000 + id, 53), &payload);
    }

    fn answer(&mut self, second: f64, server: IpAddr, id: u16, name: &str, code: u16) {
        let payload = message(id, 0x8180 | code, name);
        self.say(second, (server, CLIENT), (53, 40_000 + id), &payload);
    }

    fn end(self, second: f64) -> Vec<Server> {
        self.exchanges.finish((second * 1e9) as i64).servers
    }
}

#[test]
fn a_question_repeated_under_other_numbers_is_one_request() {
    let mut talk = Talk::default();
    talk.query(0.0, SERVER, 1, "a.example");
    talk.query(1.0, SERVER, 2, "a.example");
    talk.query(2.0, SERVER, 3, "a.example");
    let servers = talk.end(2.0);
    let [server] = &servers[..] else { panic!() };
    assert_eq!((server.requests, server.attempts), (1, 3));
    assert_eq!(
        (server.unanswered, server.unanswered_ns),
        (1, 2_000_000_000)
    );
    assert_eq!(server.unanswered_names, ["a.example"]);
    assert_eq!(server.unanswered_packets, [1, 2, 3]);
}

#[test]
fn an_answer_counts_where_it_has_the_number_of_the_query() {
    let mut talk = Talk::default();
    talk.query(0.0, SERVER, 1, "a.example");
    talk.answer(0.01, SERVER, 9, "a.example", 0);
    talk.query(5.0, SERVER, 2, "b.example");
    talk.answer(5.1, SERVER, 2, "b.example", 3);
    let servers = talk.end(10.0);
    assert_eq!((servers[0].requests, servers[0].answered), (2, 1));
    assert_eq!((servers[0].unanswered, servers[0].no_such_name), (1, 1));
    assert_eq!(servers[0].shortest_ns, 100_000_000);
}

#[test]
fn an_answer_to_the_second_attempt_shows_that_the_first_was_lost() {
    let mut talk = Talk::default();
    talk.query(0.0, SERVER, 1, "a.example");
    talk.query(5.0, SERVER, 1, "a.example");
    talk.answer(5.02, SERVER, 1, "a.example", 0);
    let server = &talk.end(6.0)[0];
    assert_eq!(
        (server.answered, server.repeated, server.lost_attempts),
        (1, 1, 1)
    );
    assert_eq!((server.unanswered, server.slow), (0, 0));
}

#[test]
fn two_answers_to_two_attempts_came_late_and_none_was_lost() {
    let mut talk = Talk::default();
    talk.query(0.0, SERVER, 1, "a.example");
    talk.query(1.0, SERVER, 2, "a.example");
    talk.answer(1.5, SERVER, 1, "a.example", 0);
    talk.answer(2.5, SERVER, 2, "a.example", 0);
    let server = &talk.end(6.0)[0];
    assert_eq!((server.repeated, server.slow), (0, 1));
    assert_eq!(server.longest_ns, 1_500_000_000);
}

#[test]
fn a_server_that_is_silent_while_another_answers_is_the_silent_one() {
    let mut talk = Talk::default();
    talk.query(0.0, SERVER, 1, "a.example");
    talk.query(5.0, OTHER, 2, "a.example");
    talk.answer(5.02, OTHER, 2, "a.example", 0);
    let servers = talk.end(9.0);
    let silent = servers
        .iter()
        .find(|server| server.address == SERVER)
        .expect("one");
    let other = servers
        .iter()
        .find(|server| server.address == OTHER)
        .expect("one");
    assert_eq!((silent.unanswered, silent.answered), (1, 0));
    assert_eq!((other.unanswered, other.answered), (0, 1));
}

#[test]
fn an_answer_from_elsewhere_is_none_of_the_server() {
    let mut talk = Talk::default();
    talk.query(0.0, SERVER, 1, "a.example");
    talk.answer(0.1, OTHER, 1, "a.example", 0);
    let servers = talk.end(9.0);
    assert_eq!((servers[0].answered, servers[0].strange), (0, 1));
    assert_eq!(servers[0].stranger, Some(OTHER));
}

#[test]
fn a_query_at_the_end_of_the_capture_is_neither_answered_nor_unanswered() {
    let mut talk = Talk::default();
    talk.query(0.0, SERVER, 1, "a.example");
    let exchanged = talk.exchanges.finish(1_000_000_000);
    assert_eq!((exchanged.servers.len(), exchanged.too_late), (0, 1));
}

#[test]
fn multicast_and_broadcast_requests_need_no_answer() {
    let mut talk = Talk::default();
    for to in [[224, 0, 0, 251], [192, 0, 2, 255], [255; 4]] {
        talk.query(0.0, IpAddr::from(to), 1, "a.local");
    }
    assert!(talk.end(60.0).is_empty());
}

#[test]
fn a_file_server_answers_from_a_port_of_its_own() {
    let mut talk = Talk::default();
    talk.say(0.0, (CLIENT, SERVER), (2000, 69), b"\0\x01file\0octet\0");
    talk.say(0.1, (SERVER, CLIENT), (3000, 2000), b"\0\x03\0\x01data");
    assert_eq!(talk.end(9.0)[0].answered, 1);
}

#[test]
fn a_flood_of_queries_takes_no_more_room_than_others() {
    let mut talk = Talk::default();
    for number in 0..50_000_u32 {
        let name = format!("n{number}.example");
        let payload = message(number as u16, 0x0100, &name);
        let server = IpAddr::from((0x0a00_0000 + number).to_be_bytes());
        talk.say(
            f64::from(number) * 1e-5,
            (CLIENT, server),
            (number as u16 | 1024, 53),
            &payload,
        );
    }
    assert!(talk.exchanges.requests.len() <= MOST_REQUESTS);
    assert!(talk.exchanges.order.len() <= 2 * MOST_REQUESTS);
    let exchanged = talk.exchanges.finish(10_000_000_000);
    assert!(exchanged.servers.len() <= MOST_SERVERS);
}
