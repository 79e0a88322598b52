//! The document as a whole: the contract of its JSON, the order of its verdicts, its transfers and tables.

use crate::common::{
    MS, captured, chunks, document_of, explain_bytes, explained, headline, joined, path, text,
};
use serde_json::Value;
use whydrop_capture::{Capture, OpenOptions};
use whydrop_explain::{ExplainError, Options, explain};
use whydrop_path::{Fifo, Limit, Policer, RandomLoss, Shaper};
use whydrop_simulate::{Algorithm, Scenario};

fn policed() -> Scenario {
    path(Box::new(Policer::new(5_000_000, 40_000)), 30)
}

/// Another client, half a minute later, so that the two captures can be joined.
fn elsewhere(mut scenario: Scenario) -> Scenario {
    let flow = &mut scenario.flows[0];
    flow.client = [203, 0, 113, 7];
    flow.start_ns = 60_000 * MS;
    scenario
}

/// The kind of value that a field may have.
#[derive(Clone, Copy)]
enum Is {
    Text,
    Whole,
    /// A number; one that is not finite would be `null`.
    Number,
    NumberOrNull,
    WholeOrNull,
    Share,
    ShareOrNull,
    Flag,
    Texts,
    Counts,
    List,
    Object,
    Null,
    TextOrNull,
    ObjectOrNull,
}

fn fits(value: &Value, is: Is) -> bool {
    let share = |value: &Value| {
        value
            .as_f64()
            .is_some_and(|share| (0.0..=1.0).contains(&share))
    };
    match is {
        Is::Text => value.is_string(),
        Is::Whole => value.is_u64(),
        Is::Number => value.is_number(),
        Is::NumberOrNull => value.is_number() || value.is_null(),
        Is::WholeOrNull => value.is_u64() || value.is_null(),
        Is::Share => share(value),
        Is::ShareOrNull => share(value) || value.is_null(),
        Is::Flag => value.is_boolean(),
        Is::Texts => value
            .as_array()
            .is_some_and(|list| list.iter().all(Value::is_string)),
        Is::Counts => value
            .as_object()
            .is_some_and(|map| !map.is_empty() && map.values().all(Value::is_u64)),
        Is::List => value.is_array(),
        Is::Object => value.is_object(),
        Is::Null => value.is_null(),
        Is::TextOrNull => value.is_string() || value.is_null(),
        Is::ObjectOrNull => value.is_object() || value.is_null(),
    }
}

const DOCUMENT: &[(&str, Is)] = &[
    ("whydrop", Is::Text),
    ("schema", Is::Whole),
    ("captures", Is::List),
    ("flows", Is::List),
    ("transfers", Is::List),
    ("verdicts", Is::List),
    ("pair", Is::Null),
    ("hops", Is::List),
];
const CAPTURE: &[(&str, Is)] = &[
    ("path", Is::Text),
    ("format", Is::Text),
    ("packets", Is::Whole),
    ("first", Is::Number),
    ("last", Is::Number),
    ("link_type", Is::Text),
    ("snaplen", Is::WholeOrNull),
    ("truncated", Is::Flag),
    ("packets_by_kind", Is::Counts),
    ("duplicates", Is::Whole),
    ("out_of_order", Is::Whole),
    ("notes", Is::Texts),
    ("connections_without_data", Is::Whole),
];
const FLOW: &[(&str, Is)] = &[
    ("flow", Is::Text),
    ("packets", Is::Whole),
    ("payload_bytes", Is::Whole),
    ("lost", Is::Whole),
    ("retransmitted", Is::Whole),
    ("spurious", Is::Whole),
    ("reordered", Is::Whole),
    ("rtt_min_s", Is::NumberOrNull),
    ("rtt_median_s", Is::NumberOrNull),
    ("mss", Is::WholeOrNull),
    ("vantage", Is::Text),
    ("start", Is::Number),
    ("end", Is::Number),
    ("missed_by_capture_bytes", Is::Whole),
    ("retransmitted_by_kind", Is::Counts),
    ("ce_marked", Is::Whole),
    ("ecn_echoes", Is::Whole),
    ("zero_windows", Is::Whole),
    ("window_limited_share", Is::ShareOrNull),
    ("window_scale", Is::WholeOrNull),
    ("ecn", Is::Text),
    ("accecn", Is::Flag),
    ("ect0", Is::Whole),
    ("ect1", Is::Whole),
    ("ce_reported", Is::Whole),
    ("ce_reported_bytes", Is::Whole),
    ("windows_reduced", Is::Whole),
    ("window_closed_s", Is::Number),
    ("window_closures", Is::Whole),
    ("window_probes", Is::Whole),
    ("outstanding_at_loss_mean_bytes", Is::NumberOrNull),
    ("outstanding_at_loss_deviation_bytes", Is::NumberOrNull),
    ("limits", Is::ObjectOrNull),
];
const TRANSFER: &[(&str, Is)] = &[
    ("flow", Is::Text),
    ("start", Is::Number),
    ("end", Is::Number),
    ("payload_bytes", Is::Whole),
    ("packets", Is::Whole),
    ("lost", Is::Whole),
    ("goodput_bps", Is::NumberOrNull),
    ("cause", Is::Text),
    ("confidence", Is::Share),
    ("limits", Is::ObjectOrNull),
];
const VERDICT: &[(&str, Is)] = &[
    ("cause", Is::Text),
    ("confidence", Is::Share),
    ("flows", Is::Texts),
    ("lost", Is::Whole),
    ("explained", Is::Share),
    ("limited_share", Is::Share),
    ("parameters", Is::Object),
    ("path", Is::ObjectOrNull),
    ("byte_basis", Is::TextOrNull),
    ("at", Is::ObjectOrNull),
    ("detail", Is::TextOrNull),
    ("family", Is::TextOrNull),
    ("models", Is::List),
    ("facts", Is::List),
    ("against", Is::List),
    ("throughput_lost", Is::ObjectOrNull),
];

fn assert_fields(value: &Value, fields: &[(&str, Is)]) {
    for &(name, is) in fields {
        assert!(fits(&value[name], is), "{name}: {value:#}");
    }
    let object = value.as_object().expect("an object");
    for name in object.keys() {
        assert!(
            fields.iter().any(|(known, _)| known == name),
            "{name} is not in the contract"
        );
    }
}

fn assert_contract(json: &Value) {
    assert_fields(json, DOCUMENT);
    assert_eq!(json["schema"], 2);
    let each = |name: &str| json[name].as_array().unwrap().clone();
    each("captures")
        .iter()
        .for_each(|capture| assert_fields(capture, CAPTURE));
    each("flows")
        .iter()
        .for_each(|flow| assert_fields(flow, FLOW));
    each("transfers")
        .iter()
        .for_each(|transfer| assert_fields(transfer, TRANSFER));
    for verdict in each("verdicts") {
        assert_fields(&verdict, VERDICT);
        for (name, parameter) in verdict["parameters"].as_object().unwrap() {
            let (low, high) = (parameter["low"].as_f64(), parameter["high"].as_f64());
            let value = parameter["value"].as_f64().expect("finite");
            assert!(
                low.is_none_or(|low| low <= value) && high.is_none_or(|high| value <= high),
                "{name}: {parameter}"
            );
        }
        for reason in verdict["against"].as_array().unwrap() {
            assert!(reason["cause"].is_string());
            assert_fact(&reason["fact"]);
            assert_ne!(reason["cause"], verdict["cause"]);
        }
        verdict["facts"]
            .as_array()
            .unwrap()
            .iter()
            .for_each(assert_fact);
    }
}

/// A code of the right form, and known values, except for those that a capture may not show.
fn assert_fact(fact: &Value) {
    let code = fact["code"].as_str().expect("a code");
    assert!(
        code.chars()
            .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
    );
    for (name, value) in fact["values"].as_object().expect("values") {
        let may_be_unknown =
            ["base_rtt_s", "goodput_bps", "link_rate_bps", "window_share"].contains(&name.as_str());
        assert!(may_be_unknown || !value.is_null(), "{fact}");
    }
}

#[test]
fn the_json_of_every_cause_keeps_the_contract() {
    let mut missed = policed();
    missed.capture.missed = 0.01;
    let mut window = path(Box::new(Fifo::new(200_000_000, Limit::NONE)), 60);
    window.flows[0].receiver.buffer_bytes = 60_000;
    let mut short = path(Box::new(Fifo::new(200_000_000, Limit::NONE)), 60);
    short.flows[0].application = chunks(10_000, 1);
    let scenarios = [
        policed(),
        missed,
        window,
        short,
        path(Box::new(Fifo::new(10_000_000, Limit::packets(20))), 40),
        path(Box::new(Fifo::new(10_000_000, Limit::packets(200))), 20),
        path(Box::new(RandomLoss::independent(0.02, 3)), 20),
        path(Box::new(Shaper::new(8_000_000, 40_000, Limit::NONE)), 30),
    ];
    for scenario in scenarios {
        let (document, _) = explained(scenario);
        assert_contract(&serde_json::to_value(&document).unwrap());
    }
}

#[test]
fn a_capture_without_tcp_has_no_flows_and_no_verdicts() {
    let mut pcap = captured(policed()).pcap;
    pcap.truncate(24);
    let document = document_of(pcap);
    let json = serde_json::to_value(&document).unwrap();
    assert_eq!(
        (&json["flows"], &json["verdicts"]),
        (&Value::Array(vec![]), &Value::Array(vec![]))
    );
    assert!(json["captures"][0]["first"].is_null());
}

#[test]
fn the_same_capture_is_explained_in_the_same_words_every_time() {
    let first = captured(policed()).pcap;
    let second = captured(elsewhere(path(
        Box::new(RandomLoss::independent(0.02, 4)),
        30,
    )))
    .pcap;
    let pcap = joined(&first, &second);
    let once = serde_json::to_string(&document_of(pcap.clone())).unwrap();
    for _ in 0..3 {
        assert_eq!(
            serde_json::to_string(&document_of(pcap.clone())).unwrap(),
            once
        );
    }
}

#[test]
fn verdicts_are_sorted_by_the_losses_that_they_explain() {
    let policed = captured(policed());
    let lossy = captured(elsewhere(path(
        Box::new(RandomLoss::independent(0.01, 4)),
        30,
    )));
    let (of_policer, of_chance) = (policed.truths[0].lost(), lossy.truths[0].lost());
    assert!(
        of_policer > 2 * of_chance && of_chance > 3,
        "{of_policer} {of_chance}"
    );
    // whichever comes first in the capture; requests of the clients are flows of a third and fourth group
    let document = document_of(joined(&policed.pcap, &lossy.pcap));
    let causes: Vec<&str> = document.verdicts.iter().map(|v| v.cause.name()).collect();
    assert_eq!(&causes[..2], ["policer", "random-loss"], "{causes:?}");
    let explained_losses: Vec<f64> = document
        .verdicts
        .iter()
        .map(|verdict| verdict.explained * verdict.lost as f64)
        .collect();
    assert!(
        explained_losses.is_sorted_by(|a, b| a >= b),
        "{explained_losses:?}"
    );
    assert!(
        document.verdicts[2..]
            .iter()
            .all(|verdict| verdict.lost == 0)
    );
}

#[test]
fn every_flow_with_data_is_in_one_group() {
    let mut scenario = policed();
    scenario.flows.push(whydrop_simulate::FlowConfig {
        client: [192, 0, 2, 99],
        start_ns: 500 * MS,
        ..crate::common::flow()
    });
    let (document, _) = explained(scenario);
    for flow in &document.flows {
        let holding = document.verdicts.iter().filter(|verdict| {
            verdict.cause.name() != "capture-loss" && verdict.flows.contains(&flow.flow)
        });
        assert_eq!(holding.count(), 1, "{}", flow.flow);
    }
}

#[test]
fn a_transfer_with_two_losses_in_a_policed_connection_is_policed() {
    // such chunks empty the bucket once, shortly before their end; the losses alone prove nothing
    let mut few = 0;
    for (burst_bytes, chunk_bytes, algorithm) in [
        (30_000, 150_000, Algorithm::NewReno),
        (60_000, 350_000, Algorithm::NewReno),
        (60_000, 350_000, Algorithm::Cubic),
        (120_000, 350_000, Algorithm::Cubic),
    ] {
        let mut scenario = path(Box::new(Policer::new(3_000_000, burst_bytes)), 60);
        scenario.flows[0].application = chunks(chunk_bytes, 20);
        scenario.flows[0].sender.algorithm = algorithm;
        let (document, _) = explained(scenario);
        assert_eq!(
            headline(&document).cause.name(),
            "policer",
            "{}",
            text(&document)
        );
        for transfer in &document.transfers {
            if (1..=2).contains(&transfer.lost) {
                assert_eq!(transfer.cause.name(), "policer", "{transfer:?}");
                few += 1;
            }
            if transfer.lost == 0 {
                assert_ne!(transfer.cause.name(), "policer", "{transfer:?}");
            }
        }
    }
    assert!(few >= 3, "{few}");
}

#[test]
fn losses_of_transfers_add_up_to_those_of_their_flow() {
    let (document, truths) = explained(policed());
    let flow = document.flows.iter().find(|flow| flow.lost > 0).unwrap();
    let of_transfers: u64 = document
        .transfers
        .iter()
        .filter(|transfer| transfer.flow == flow.flow)
        .map(|transfer| transfer.lost)
        .sum();
    assert_eq!((of_transfers, flow.lost), (flow.lost, truths[0].lost()));
}

#[test]
fn tables_are_filled_when_asked_for_and_agree_with_the_document() {
    let pcap = captured(policed()).pcap;
    let without = explain_bytes(pcap.clone(), false).tables;
    assert!(without.segments.flow.is_empty() && without.model.flow.is_empty());
    let explanation = explain_bytes(pcap, true);
    let (document, tables) = (&explanation.document, &explanation.tables);
    let segments = &tables.segments;
    let lost = segments.fate.iter().filter(|fate| **fate == 1).count() as u64;
    assert_eq!(
        lost,
        document.flows.iter().map(|flow| flow.lost).sum::<u64>()
    );
    assert!(
        segments
            .flow
            .iter()
            .all(|flow| (*flow as usize) < document.flows.len())
    );
    for (flow, transfer) in segments.flow.iter().zip(&segments.transfer) {
        let of_transfer = &document.transfers[*transfer as usize].flow;
        assert_eq!(of_transfer, &document.flows[*flow as usize].flow);
    }
    let model = &tables.model;
    let policer = headline(document);
    assert!(model.verdict.iter().all(|verdict| *verdict == 0));
    let burst = policer.parameters["burst_bytes"].value;
    assert!(
        model
            .level_bytes
            .iter()
            .all(|level| (0.0..=burst).contains(level))
    );
    let predicted = model.predicted_drop.iter().zip(&model.seen_lost);
    let hits = predicted
        .filter(|(predicted, seen)| **predicted && **seen)
        .count() as u64;
    assert!(10 * hits > 9 * policer.lost, "{hits} of {}", policer.lost);
    let columns = [
        model.flow.len(),
        model.time_ns.len(),
        model.level_bytes.len(),
        model.ip_bytes.len(),
        model.predicted_drop.len(),
        model.seen_lost.len(),
    ];
    assert!(
        columns
            .iter()
            .all(|rows| *rows == model.verdict.len() && *rows > 0)
    );
}

#[test]
fn the_progress_callback_can_stop_the_analysis() {
    let pcap = captured(policed()).pcap;
    let open = |pcap: Vec<u8>| {
        Capture::from_reader(
            "simulated.pcap",
            std::io::Cursor::new(pcap),
            OpenOptions::default(),
        )
        .unwrap()
    };
    let stopping = Options {
        progress: Some(Box::new(|_, _| false)),
        ..Options::default()
    };
    let stopped = explain(open(pcap.clone()), stopping);
    assert!(matches!(stopped, Err(ExplainError::Stopped)));
    let going_on = Options {
        progress: Some(Box::new(|_, _| true)),
        ..Options::default()
    };
    assert!(explain(open(pcap), going_on).is_ok());
}
