//! Scoring of a diagnosis against a suite's truths, for all kinds.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

/// Transfers with fewer packets are not scored.
const LEAST_PACKETS: u64 = 50;

/// An error with one capture.
#[derive(Debug)]
pub struct ScoreError(pub(crate) String);

impl fmt::Display for ScoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScoreError {}

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

/// Runs `command` (its words; the capture's path is appended) on every capture in `folder` and prints a table.
pub fn score(folder: &Path, command: &[String], jobs: usize) -> Result<(), ScoreError> {
    let truths = truth_files(folder)?;
    let results = in_parallel(&truths, jobs, |path| judge_file(path, command));
    let (judged, failures): (Vec<_>, Vec<_>) = results.into_iter().partition(|r| r.is_ok());
    print_tables(judged.into_iter().flatten().collect());
    println!("failures: {}", failures.len());
    failures
        .into_iter()
        .filter_map(Result::err)
        .take(10)
        .for_each(|failure| println!("  {failure}"));
    Ok(())
}

/// Applies `work` to every item on this many threads. The results are in no particular order.
pub(crate) fn in_parallel<I: Sync, R: Send>(
    items: &[I],
    jobs: usize,
    of: impl Fn(&I) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = of(item);
                    // A poisoned lock means that another thread has panicked, which the scope reports.
                    if let Ok(mut results) = results.lock() {
                        results.push(result);
                    }
                }
            });
        }
    });
    results.into_inner().unwrap_or_default()
}

/// Runs a command (its words) on captures and parses the document that it prints.
pub(crate) fn run_command(command: &[String], captures: &[PathBuf]) -> Result<Value, String> {
    let (program, arguments) = command.split_first().ok_or("no command given")?;
    let output = Command::new(program)
        .args(arguments)
        .args(captures)
        .output();
    let output = output.map_err(|e| format!("cannot run {program}: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", output.status, said.trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())
}

fn truth_files(folder: &Path) -> Result<Vec<PathBuf>, ScoreError> {
    let unreadable =
        |e: std::io::Error| ScoreError(format!("{}: cannot list: {e}", folder.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.to_string_lossy().ends_with(".truth.json") {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(ScoreError(format!(
            "{}: no *.truth.json here: make a suite first with `whydrop-simulate suite`",
            folder.display()
        )));
    }
    files.sort();
    Ok(files)
}

fn judge_file(path: &Path, command: &[String]) -> Result<Judged, ScoreError> {
    let problem = |what: String| ScoreError(format!("{}: {what}", path.display()));
    let text = fs::read_to_string(path).map_err(|e| problem(e.to_string()))?;
    let truth: Value = serde_json::from_str(&text).map_err(|e| problem(e.to_string()))?;
    let file = truth["file"].as_str().unwrap_or_default().to_string();
    let capture = path.with_file_name(&file);
    let report = run_command(command, &[capture]).map_err(problem)?;
    Ok(judge(file, &truth, &report))
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
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
        let low = stated[name]["low"].as_f64().unwrap_or(f64::MIN);
        let high = stated[name]["high"].as_f64().unwrap_or(f64::MAX);
        Some((
            name,
            (value / true_value - 1.0).abs(),
            (low..=high).contains(&true_value),
        ))
    };
    names.into_iter().filter_map(compare).collect()
}

fn print_tables(mut judged: Vec<Judged>) {
    judged.sort_by(|a, b| a.file.cmp(&b.file));
    let mut kinds: BTreeMap<&str, Vec<&Judged>> = BTreeMap::new();
    judged
        .iter()
        .for_each(|j| kinds.entry(&j.kind).or_default().push(j));
    println!(
        "{:42} {:>5} {:>8} {:>13} {:>7} {:>15} headlines",
        "kind", "capt.", "headline", "lossy right", "accused", "lost found"
    );
    for (kind, of_kind) in &kinds {
        let sum = |of: fn(&Judged) -> u64| of_kind.iter().map(|j| of(j)).sum::<u64>();
        let mut headlines: BTreeMap<&str, usize> = BTreeMap::new();
        of_kind
            .iter()
            .for_each(|j| *headlines.entry(&j.headline).or_default() += 1);
        let named: Vec<String> = headlines
            .iter()
            .map(|(cause, n)| format!("{cause} {n}"))
            .collect();
        println!(
            "{kind:42} {:5} {:8.3} {:>13} {:7} {:>15} {}",
            of_kind.len(),
            sum(|j| j.headline_right.into()) as f64 / of_kind.len() as f64,
            format!("{}/{}", sum(|j| j.lossy_right), sum(|j| j.lossy)),
            sum(|j| j.accusations),
            format!("{}/{}", sum(|j| j.lost_found), sum(|j| j.lost)),
            named.join(", "),
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
    for ((kind, name), mut values) in errors {
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let covered = values.iter().filter(|v| v.1).count() as f64 / values.len() as f64;
        let at = |share: f64| values[((values.len() - 1) as f64 * share) as usize].0;
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
