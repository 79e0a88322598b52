//! Connections that fail, and similar ones that do not.

use whydrop_tcp::Pause;

use super::*;

fn connection(outcome: Outcome) -> Connection {
    let mut connection = Connection {
        outcome,
        ..Connection::default()
    };
    let [one, other] = &mut connection.flows;
    (one.destination.port, other.source.port) = (443, 443);
    let client = IpAddr::from([192, 0, 2, 9]);
    (one.source.address, other.destination.address) = (client, client);
    (one.first_ns, one.last_ns, one.counters.packets) = (0, 7_000_000_000, 4);
    connection.setup.syns = 4;
    connection
}

fn of(connections: Vec<Connection>) -> Vec<Ranked> {
    let tracked = Tracked {
        connections,
        ..Tracked::default()
    };
    verdicts(&tracked, &Named::new()).0
}

#[test]
fn attempts_without_an_answer_are_counted_together() {
    let found = of(vec![
        connection(Outcome::NoAnswer),
        connection(Outcome::NoAnswer),
    ]);
    let [one] = &found[..] else {
        panic!("{} verdicts", found.len())
    };
    assert_eq!(one.verdict.cause.name(), "no-answer");
    assert_eq!(one.verdict.facts[0].number("syns"), Some(8.0));
    assert_eq!(one.verdict.facts[0].number("lasted_s"), Some(14.0));
}

#[test]
fn a_reset_with_all_data_acknowledged_is_no_failure() {
    assert!(of(vec![connection(Outcome::Reset)]).is_empty());
    let mut in_flight = connection(Outcome::Reset);
    in_flight.unanswered[0].bytes = 1;
    let found = of(vec![in_flight]);
    assert_eq!(found[0].verdict.cause.name(), "reset");
    assert_eq!(found[0].limited_s, 0.0);
}

/// A pause of 60 s, then data that gets no answer, or a reset without ACK.
fn paused(reset: bool) -> Connection {
    let mut connection = connection(if reset {
        Outcome::Reset
    } else {
        Outcome::DataUnanswered
    });
    connection.signs.get_or_insert_default().pauses.unanswered = Some(Pause {
        idle_ns: 60_000_000_000,
        ended_ns: 6_000_000_000,
        by: 0,
        packet: 9,
    });
    connection.reset = reset.then(|| {
        Box::new(whydrop_tcp::Reset {
            by: 1,
            knows_no_connection: true,
            ..Default::default()
        })
    });
    connection.unanswered[0].repeats = 5;
    connection
}

fn cause(connections: Vec<Connection>) -> String {
    of(connections).remove(0).verdict.cause.name().to_owned()
}

#[test]
fn a_reset_of_an_unknown_connection_after_a_pause_shows_an_idle_timeout() {
    assert_eq!(cause(vec![paused(true)]), "idle-timeout");
    let mut aborted = paused(true);
    aborted.unanswered[0].bytes = 1;
    if let Some(reset) = &mut aborted.reset {
        reset.knows_no_connection = false;
    }
    assert_eq!(cause(vec![aborted]), "reset");
    let mut survived = paused(true);
    survived.unanswered[0].bytes = 1;
    survived
        .signs
        .get_or_insert_default()
        .pauses
        .longest_answered_ns = 61_000_000_000;
    assert_eq!(cause(vec![survived]), "reset");
}

#[test]
fn silence_after_a_pause_is_a_timeout_only_where_the_host_lives() {
    assert_eq!(cause(vec![paused(false)]), "no-answer");
    let mut other = connection(Outcome::Closed);
    let [forth, back] = &mut other.flows;
    (forth.source.port, back.destination.port) = (7, 7);
    (back.counters.packets, back.last_ns) = (3, 8_000_000_000);
    assert_eq!(cause(vec![paused(false), other.clone()]), "idle-timeout");
    other.flows[1].last_ns = 5_000_000_000;
    assert_eq!(cause(vec![paused(false), other]), "no-answer");
}

#[test]
fn an_icmp_error_names_the_host_that_rejected_a_connection() {
    let mut rejected = connection(Outcome::NoAnswer);
    rejected.flows[0].signs_mut().notices.push(Notice {
        kind: IcmpErrorKind::Prohibited,
        from: IpAddr::from([10, 0, 0, 1]),
        direction: 0,
        mtu_bytes: None,
        ip_bytes: 60,
        count: 1,
        first_ns: 1,
        packet: 2,
        quoted: Vec::new(),
    });
    let found = of(vec![rejected.clone()]);
    let verdict = &found[0].verdict;
    assert_eq!(
        (verdict.cause.name(), verdict.detail.as_deref()),
        ("refused", Some("icmp"))
    );
    assert_eq!(
        verdict.facts[1].values["router"],
        Value::Text("10.0.0.1".into())
    );
    rejected.flows[0].signs_mut().notices[0].kind = IcmpErrorKind::HostUnreachable;
    let verdict = &of(vec![rejected])[0].verdict;
    assert_eq!(
        (verdict.cause.name(), verdict.facts.len()),
        ("no-answer", 2)
    );
}

#[test]
fn a_host_that_continues_after_a_reset_did_not_send_it() {
    let mut forged = connection(Outcome::Reset);
    forged.reset = Some(Box::new(whydrop_tcp::Reset {
        by: 1,
        ..Default::default()
    }));
    assert!(of(vec![forged.clone()]).is_empty());
    if let Some(reset) = &mut forged.reset {
        reset.packets_after = 1;
    }
    let found = of(vec![forged]);
    assert_eq!(found[0].verdict.detail.as_deref(), Some("middlebox"));
}

#[test]
fn a_connection_that_ended_normally_is_no_failure() {
    assert!(of(vec![connection(Outcome::Closed), connection(Outcome::Open)]).is_empty());
}

#[test]
fn a_scan_of_many_ports_is_one_verdict() {
    let to = |port: u16| {
        let mut connection = connection(Outcome::Refused);
        connection.flows[0].destination.port = port;
        connection
    };
    assert_eq!(of((1..=16).map(to).collect()).len(), 16);
    let found = of((1..=1000).chain([7]).map(to).collect());
    let [one] = &found[..] else {
        panic!("{} verdicts", found.len())
    };
    let fact = &one.verdict.facts[0];
    assert_eq!(fact.number("connections"), Some(1001.0));
    assert_eq!(fact.number("other_responders"), Some(999.0));
    assert_eq!(fact.values["responder"], Value::Text("[::]:7".into()));
    assert_eq!(one.verdict.flows.len(), MOST_NAMED);
}

#[test]
fn data_unanswered_by_a_closed_side_delays_no_one() {
    let mut silent = connection(Outcome::DataUnanswered);
    silent.unanswered[0].repeats = 5;
    let waited = |silent: &Connection| of(vec![silent.clone()]).remove(0).harm_s;
    assert!(waited(&silent) >= 7.0);
    silent.closed[1] = true;
    assert_eq!(waited(&silent), 0.0);
}
