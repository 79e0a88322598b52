use std::fs;

use serde_json::{Value, json};

use super::*;

fn truth() -> Value {
    json!({
        "name": "p", "kind": "policer", "variant": "policer-dual-rate",
        "parameters": {
            "rate_bps": 1e6, "burst_bytes": 50_000, "peak_rate_bps": 3e6,
            "byte_basis": "Ethernet frame without FCS (L2)",
        },
        "forward_packets_lost_between": 100, "reverse_packets_y": 50, "reverse_packets_b": 48,
        "one_way_delay_b_to_y_base_ms": 10.2, "least_transit_ms": {"b_to_y": 10.2, "y_to_b": 10.0},
        "reverse_captured": true,
        "distortion": {"offset_ns": 2_000_000, "drift_ppm": -30.0},
        "realism": {"treatments": ["nat"], "lost_tolerance": 0.0},
    })
}

fn report() -> Value {
    json!({
        "verdicts": [{"cause": "policer", "parameters": {
            "rate_bps": {"value": 1.005e6, "low": 0.99e6, "high": null},
            "burst_bytes": {"value": 52_000.0, "low": 51_000.0, "high": 53_000.0},
            "peak_rate_bps": {"value": 3.0e6, "low": 2.9e6, "high": 3.1e6},
            "byte_basis": "ethernet",
        }}],
        // 0.1 ms of the offset is half of the difference between the directions, which cannot be known.
        "pair": {"lost_1_to_2": 100, "lost_2_to_1": 2, "clock_offset_s": 0.0021, "clock_drift_ppm": -29.0},
    })
}

fn error(judged: &Judged, name: &str) -> f64 {
    let number = judged.numbers.iter().find(|n| n.name == name);
    number.and_then(|n| n.error).unwrap_or(f64::NAN)
}

#[test]
fn a_right_report_has_no_fault() {
    let judged = judge(&truth(), &report());
    assert_eq!(judged.faults(), Vec::<String>::new());
    assert_eq!(judged.group, "policer-dual-rate");
    assert!((error(&judged, "rate_bps") - 0.005).abs() < 1e-9);
    assert!((error(&judged, "burst_bytes") - 0.04).abs() < 1e-9);
    assert!(error(&judged, "clock_offset_us").abs() < 1e-6);
    assert!((error(&judged, "clock_drift_ppm") - 1.0).abs() < 1e-9);
    let covered: Vec<Option<bool>> = judged.numbers.iter().map(|n| n.covered).collect();
    assert_eq!(covered, [Some(true), Some(false), Some(true), None, None]);
}

#[test]
fn every_wrong_thing_is_named() {
    let mut wrong = report();
    wrong["verdicts"][0]["parameters"]["rate_bps"]["value"] = json!(1.02e6);
    wrong["verdicts"][0]["parameters"]["byte_basis"] = json!("ip");
    wrong["verdicts"][0]["parameters"]["peak_rate_bps"] = Value::Null;
    wrong["pair"]["lost_1_to_2"] = json!(99);
    wrong["pair"]["clock_drift_ppm"] = json!(-27.0);
    let faults = judge(&truth(), &wrong).faults();
    let expected = [
        "lost 99/2, truth 100/2",
        "rate_bps +0.02",
        "peak_rate_bps not stated",
        "clock_drift_ppm +3",
        "byte basis ip",
    ];
    assert_eq!(faults.len(), expected.len(), "{faults:?}");
    for (fault, start) in faults.iter().zip(expected) {
        assert!(fault.starts_with(start), "{fault}");
    }
}

#[test]
fn captures_with_timestamp_noise_are_allowed_twice_as_much() {
    let mut noisy = truth();
    noisy["realism"]["treatments"] = json!(["coalesce"]);
    let mut off = report();
    off["verdicts"][0]["parameters"]["rate_bps"]["value"] = json!(1.019e6);
    assert!(judge(&noisy, &off).faults().is_empty());
    assert!(!judge(&truth(), &off).faults().is_empty());
}

#[test]
fn a_policer_named_where_there_is_none_is_an_accusation_even_as_a_runner_up() {
    let truth = json!({"name": "q", "kind": "shallow_fifo", "parameters": {"drain_rate_bps": 10e6, "queue_limit_bytes": 30_000},
        "forward_packets_lost_between": 40, "reverse_packets_y": 9, "reverse_packets_b": 9});
    let report = json!({
        "verdicts": [
            {"cause": "shallow-queue", "parameters": {"drain_rate_bps": {"value": 10e6}, "limit_bytes": {"value": 33_100.0}}},
            {"cause": "policer", "parameters": {}},
        ],
        "pair": {"lost_1_to_2": 40, "lost_2_to_1": 0, "clock_drift_ppm": 0.1},
    });
    let judged = judge(&truth, &report);
    assert!(judged.cause_right && judged.accused && judged.lost_right);
    // 3100 bytes are two packets.
    assert!((error(&judged, "limit_bytes") - 3_100.0 / 1_514.0).abs() < 1e-9);
    assert_eq!(judged.faults().len(), 2, "{:?}", judged.faults());
}

#[test]
fn of_a_direction_that_was_not_captured_nothing_need_be_said() {
    let mut truth = truth();
    truth["reverse_captured"] = json!(false);
    (truth["reverse_packets_y"], truth["reverse_packets_b"]) = (json!(0), json!(0));
    let mut report = report();
    report["pair"] = json!({"lost_1_to_2": 100, "lost_2_to_1": null, "clock_offset_s": null, "clock_drift_ppm": -30.5});
    assert!(judge(&truth, &report).faults().is_empty());
    report["pair"]["lost_2_to_1"] = json!(7);
    assert!(!judge(&truth, &report).lost_right);
}

#[test]
fn losses_may_be_wrong_by_what_the_truth_tolerates() {
    let mut truth = truth();
    truth["realism"]["lost_tolerance"] = json!(0.05);
    let mut report = report();
    report["pair"]["lost_1_to_2"] = json!(105);
    assert!(judge(&truth, &report).lost_right);
    report["pair"]["lost_1_to_2"] = json!(106);
    assert!(!judge(&truth, &report).lost_right);
}

#[test]
fn a_report_that_says_nothing_is_wrong_and_not_a_failure() {
    let judged = judge(&truth(), &json!({"verdicts": [], "pair": null}));
    assert_eq!(judged.cause, "none");
    assert!(!judged.cause_right && !judged.lost_right);
}

#[test]
fn a_command_is_run_on_both_captures_of_a_folder_plain_or_compressed() {
    let folder = std::env::temp_dir().join(format!("whydrop-score-pairs-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("truth.json"), truth().to_string()).unwrap();
    fs::write(folder.join("answer.json"), report().to_string()).unwrap();
    fs::write(folder.join("b.pcap"), "").unwrap();
    let script = r#"test -f "$1" && test -f "$2" && cat "$(dirname "$1")/answer.json""#;
    let scoring = |script: &str| Scoring {
        folder: folder.clone(),
        jobs: 1,
        command: ["sh", "-c", script, "sh"].map(String::from).to_vec(),
    };
    let judged = |scoring: &Scoring| judge_entry(&folder, scoring, &["b", "y"]);
    let missing = judged(&scoring(script)).unwrap_err();
    assert!(missing.contains("y.pcap.zst"), "{missing}");
    fs::write(folder.join("y.pcap.zst"), "").unwrap();
    assert!(judged(&scoring(script)).unwrap().faults().is_empty());
    assert_eq!(
        scoring(script).entries().unwrap(),
        std::slice::from_ref(&folder)
    );
    let failure = judged(&scoring("echo broken >&2; exit 3")).unwrap_err();
    assert!(failure.contains("broken"), "{failure}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_undeterminable_number_may_be_omitted_but_not_be_stated_incorrectly() {
    let mut truth = truth();
    truth["identifiable"] = json!({"rate_bps": false, "burst_bytes": true});
    let mut report = report();
    report["verdicts"][0]["parameters"]["rate_bps"] =
        json!({"value": 2e6, "low": 0.9e6, "high": null});
    assert!(judge(&truth, &report).faults().is_empty());
    report["verdicts"][0]["parameters"]["rate_bps"] = Value::Null;
    assert!(judge(&truth, &report).faults().is_empty());
    report["verdicts"][0]["parameters"]["rate_bps"] =
        json!({"value": 2e6, "low": 1.9e6, "high": 2.1e6});
    assert_eq!(judge(&truth, &report).faults().len(), 1);
}

#[test]
fn of_one_connection_that_its_hosts_hold_back_the_verdict_on_its_data_counts() {
    let truth =
        json!({"name": "d", "kind": "delayed_ack", "flows": [{"dport": 4001}, {"dport": 4002}]});
    let verdict =
        |cause: &str, flow: &str| json!({"cause": cause, "parameters": {}, "flows": [flow]});
    let report = json!({"pair": null, "verdicts": [
        verdict("sender", "10.0.0.1:80 > 10.0.0.2:4002"), verdict("delayed-ack", "10.0.0.1:80 > 10.0.0.2:4001"),
    ]});
    assert!(judge(&truth, &report).cause_right);
    let swapped = json!({"pair": null, "verdicts": [
        verdict("delayed-ack", "10.0.0.1:80 > 10.0.0.2:4002"), verdict("sender", "10.0.0.1:80 > 10.0.0.2:4001"),
    ]});
    assert!(!judge(&truth, &swapped).cause_right);
}

#[test]
fn what_no_capture_holds_may_be_unknown() {
    let mut truth = json!({"name": "w", "kind": "slow_way_back", "reverse_captured": false});
    let unknown = json!({"verdicts": [{"cause": "unknown", "parameters": {}}], "pair": null});
    assert!(judge(&truth, &unknown).cause_right);
    truth["reverse_captured"] = json!(true);
    assert!(!judge(&truth, &unknown).cause_right);
}

#[test]
fn what_a_truth_itself_calls_right_is_right() {
    let mut truth = truth();
    truth["kind"] = json!("none");
    truth["right_causes"] = json!(["none", "sender", "capture-loss"]);
    let of = |cause: &str| json!({"verdicts": [{"cause": cause, "parameters": {}}], "pair": null});
    assert!(judge(&truth, &of("capture-loss")).cause_right);
    assert!(!judge(&truth, &of("random-loss")).cause_right);
}

#[test]
fn a_report_is_judged_by_the_flow_of_the_truth() {
    let truth = json!({
        "file": "f", "kind": "policer", "policed": true, "right_causes": ["policer"],
        "flows": [{"client_port": 5, "lost_since_capture_began": 10}], "parameters": {"rate_bps": 100.0, "burst_bytes": 50.0},
    });
    let report = json!({
        "flows": [{"flow": "a:1 > b:5", "lost": 9}, {"flow": "a:1 > b:6", "lost": 1}],
        "transfers": [
            {"flow": "a:1 > b:5", "packets": 60, "lost": 9, "cause": "policer"},
            {"flow": "a:1 > b:5", "packets": 49, "lost": 1, "cause": "unknown"},
            {"flow": "a:1 > b:6", "packets": 60, "lost": 1, "cause": "unknown"},
        ],
        "verdicts": [{"cause": "policer", "parameters": {
            "rate_bps": {"value": 102.0, "low": 99.0, "high": null},
            "burst_bytes": {"value": 60.0, "low": 55.0, "high": 65.0},
        }}],
    });
    let judged = judge(&truth, &report);
    assert!(judged.cause_right);
    assert_eq!(
        (
            judged.lossy,
            judged.lossy_right,
            judged.lost[0],
            judged.accused
        ),
        (1, 1, (Some(9), 10), false)
    );
    let covered: Vec<Option<bool>> = judged.numbers.iter().map(|n| n.covered).collect();
    assert_eq!(covered[..2], [Some(true), Some(false)]);
    assert!((error(&judged, "rate_bps") - 0.02).abs() < 1e-9);
}

#[test]
fn a_transfer_with_a_policer_where_there_is_none_is_an_accusation() {
    let truth = json!({"file": "f", "kind": "queue", "policed": false, "right_causes": ["deep-queue"], "flows": [{"client_port": 5}]});
    let report =
        json!({"transfers": [{"flow": "a > b:5", "packets": 99, "lost": 3, "cause": "policer"}]});
    let judged = judge(&truth, &report);
    assert_eq!(
        (judged.accused, judged.lossy, judged.lossy_right),
        (true, 1, 0)
    );
    assert!(!judged.cause_right, "no verdict is the headline none");
}
