//! Scores of single captures, for all kinds.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::run::{ScoreError, Scoring, print_failures, read_truth};
use super::statistics::{counted, covered, grouped, list, quantile};

/// Transfers with fewer packets are not scored.
const LEAST_PACKETS: u64 = 50;

/// A command's statement on one capture, compared with the truth.
struct Judged {
    file: String,
    kind: String,
    policed: bool,
    /// Where the capture was taken, and how much each stage lost, to explain a wrong answer.
    circumstances: String,
    /// The stated cause of each scored transfer.
    causes: Vec<String>,
    headline: String,
    headline_right: bool,
    lossy: u64,
    lossy_right: u64,
    accusations: u64,
    lost: u64,
    lost_found: u64,
    /// (parameter, relative error, truth inside the interval)
    parameters: Vec<(&'static str, f64, bool)>,
}

/// Runs the command on every capture in the folder and prints tables.
pub fn score(scoring: &Scoring) -> Result<(), ScoreError> {
    let is_truth = |path: &Path| path.to_string_lossy().ends_with(".truth.json");
    let truths = scoring.truths(is_truth, "*.truth.json", "a suite")?;
    let (judged, failures) = scoring.each(&truths, |path| judge_file(path, scoring));
    print_tables(judged);
    print_failures(&failures);
    Ok(())
}

fn judge_file(path: &Path, scoring: &Scoring) -> Result<Judged, String> {
    let truth = read_truth(path)?;
    let file = truth["file"].as_str().unwrap_or_default().to_string();
    let report = scoring.report(&[path.with_file_name(&file)])?;
    Ok(judge(file, &truth, &report))
}

fn judge(file: String, truth: &Value, report: &Value) -> Judged {
    let right: Vec<&str> = list(&truth["right_causes"])
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let policed = truth["policed"].as_bool().unwrap_or(false);
    let flow = &truth["flows"][0];
    let tail = format!(":{}", flow["client_port"]);
    let of_flow = |t: &&Value| t["flow"].as_str().is_some_and(|name| name.ends_with(&tail));
    let cause = |t: &Value| t["cause"].as_str().unwrap_or("none").to_string();
    let transfers: Vec<&Value> = list(&report["transfers"])
        .iter()
        .filter(of_flow)
        .filter(|t| t["packets"].as_u64().unwrap_or(0) >= LEAST_PACKETS)
        .collect();
    let lossy: Vec<&&Value> = transfers
        .iter()
        .filter(|t| t["lost"].as_u64().unwrap_or(0) > 0)
        .collect();
    let causes: Vec<String> = list(&report["verdicts"]).iter().map(cause).collect();
    let headline = causes.first().cloned().unwrap_or("none".into());
    // Verdicts besides the headline count for kinds that do not limit a flow by themselves.
    let aside = truth["aside"].as_bool().unwrap_or(false);
    let headline_right = right.contains(&headline.as_str())
        || (aside && causes.iter().any(|cause| right.contains(&cause.as_str())));
    let tap = truth["parameters"]["tap"].as_str().unwrap_or("unknown");
    let behind = matches!(tap, "behind" | "receiver");
    Judged {
        file,
        // Behind the hop a capture shows neither its delay nor its drops, so it gets a separate row.
        kind: format!(
            "{}{}",
            truth["kind"].as_str().unwrap_or_default(),
            if behind { " (seen behind)" } else { "" }
        ),
        policed,
        circumstances: format!(
            "{tap} {} oracle {:.2}",
            flow["lost_by_stage"],
            truth["oracle"]["agreement"].as_f64().unwrap_or(f64::NAN)
        ),
        causes: transfers.iter().map(|t| cause(t)).collect(),
        headline_right,
        headline,
        lossy: lossy.len() as u64,
        lossy_right: lossy
            .iter()
            .filter(|t| right.contains(&cause(t).as_str()))
            .count() as u64,
        accusations: if policed {
            0
        } else {
            transfers.iter().filter(|t| cause(t) == "policer").count() as u64
        },
        lost: flow["lost_since_capture_began"].as_u64().unwrap_or(0),
        lost_found: list(&report["flows"])
            .iter()
            .find(of_flow)
            .and_then(|f| f["lost"].as_u64())
            .unwrap_or(0),
        parameters: parameters(&truth["parameters"], &report["verdicts"]),
    }
}

/// The parameters in the truth that the headline states.
fn parameters(truth: &Value, verdicts: &Value) -> Vec<(&'static str, f64, bool)> {
    let names = [
        "rate_bps",
        "burst_bytes",
        "peak_rate_bps",
        "drain_rate_bps",
        "limit_packets",
        "limit_bytes",
    ];
    let Some(stated) = list(verdicts).first().map(|v| &v["parameters"]) else {
        return Vec::new();
    };
    let compare = |name: &'static str| {
        let (true_value, value) = (truth[name].as_f64()?, stated[name]["value"].as_f64()?);
        let covered = covered(&stated[name], true_value)?;
        Some((name, (value / true_value - 1.0).abs(), covered))
    };
    names.into_iter().filter_map(compare).collect()
}

fn print_tables(mut judged: Vec<Judged>) {
    judged.sort_by(|a, b| a.file.cmp(&b.file));
    println!(
        "{:42} {:>5} {:>8} {:>13} {:>7} {:>15} headlines",
        "kind", "capt.", "headline", "lossy right", "accused", "lost found"
    );
    for (kind, of_kind) in grouped(&judged, |j| vec![&j.kind]) {
        let sum = |of: fn(&Judged) -> u64| of_kind.iter().map(|j| of(j)).sum::<u64>();
        println!(
            "{kind:42} {:5} {:8.3} {:>13} {:7} {:>15} {}",
            of_kind.len(),
            sum(|j| j.headline_right.into()) as f64 / of_kind.len() as f64,
            format!("{}/{}", sum(|j| j.lossy_right), sum(|j| j.lossy)),
            sum(|j| j.accusations),
            format!("{}/{}", sum(|j| j.lost_found), sum(|j| j.lost)),
            counted(of_kind.iter().map(|j| j.headline.as_str())),
        );
    }
    print_parameters(&judged);
    let accused: Vec<&str> = judged
        .iter()
        .filter(|j| j.accusations > 0)
        .map(|j| j.file.as_str())
        .collect();
    println!(
        "a policer named where there is none: {} {}",
        accused.len(),
        accused.join(" ")
    );
    let missed = judged
        .iter()
        .filter(|j| j.policed && j.headline != "policer");
    println!(
        "a policer not named: {}",
        missed
            .map(|j| j.file.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    );
    print_wrong(&judged);
}

fn print_wrong(judged: &[Judged]) {
    println!(
        "\nnot right: capture, kind, headline, causes of the transfers, place of the capture and losses by stage"
    );
    for j in judged
        .iter()
        .filter(|j| !j.headline_right || j.lossy_right < j.lossy)
    {
        println!(
            "{} {} {} [{}] {}",
            j.file,
            j.kind,
            j.headline,
            j.causes.join(" "),
            j.circumstances
        );
    }
}

fn print_parameters(judged: &[Judged]) {
    let mut errors: BTreeMap<(&str, &str), Vec<(f64, bool)>> = BTreeMap::new();
    for j in judged.iter().filter(|j| j.headline_right) {
        for &(name, error, covered) in &j.parameters {
            errors
                .entry((&j.kind, name))
                .or_default()
                .push((error, covered));
        }
    }
    println!(
        "\nparameters of right headlines: relative error (median, 90th percentile), truth inside the interval"
    );
    for ((kind, name), values) in errors {
        let covered = values.iter().filter(|v| v.1).count() as f64 / values.len() as f64;
        let mut errors: Vec<f64> = values.iter().map(|v| v.0).collect();
        errors.sort_by(f64::total_cmp);
        let at = |share: f64| quantile(&errors, share).unwrap_or(f64::NAN);
        println!(
            "{kind:42} {name:15} {:7.4} {:7.4} {covered:6.3} n {}",
            at(0.5),
            at(0.9),
            values.len()
        );
    }
    println!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_is_judged_by_the_flow_of_the_truth() {
        let truth = json!({
            "kind": "policer", "policed": true, "right_causes": ["policer"],
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
        let judged = judge("f".into(), &truth, &report);
        assert!(judged.headline_right);
        assert_eq!(
            (
                judged.lossy,
                judged.lossy_right,
                judged.lost_found,
                judged.accusations
            ),
            (1, 1, 9, 0)
        );
        let covered: Vec<bool> = judged.parameters.iter().map(|p| p.2).collect();
        assert_eq!(covered, [true, false]);
        assert!((judged.parameters[0].1 - 0.02).abs() < 1e-9);
    }

    #[test]
    fn a_policer_named_where_there_is_none_is_an_accusation() {
        let truth = json!({"kind": "queue", "policed": false, "right_causes": ["deep-queue"], "flows": [{"client_port": 5}]});
        let report = json!({"transfers": [{"flow": "a > b:5", "packets": 99, "lost": 3, "cause": "policer"}]});
        let judged = judge("f".into(), &truth, &report);
        assert_eq!(
            (judged.accusations, judged.lossy, judged.lossy_right),
            (1, 1, 0)
        );
        assert!(!judged.headline_right, "no verdict is the headline none");
    }
}
