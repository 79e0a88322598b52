//! Scoring of an account of time against the simulator's own, from the capture at either end alone.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::run::{ScoreError, Scoring, capture, print_failures, read_truth};
use super::statistics::list;
use whydrop_network::limiter::Limiter;

/// The tolerance of a limiter's share of the time.
const NEAR: f64 = 0.05;

/// The account of a transfer's first connection from one capture.
struct Compared {
    name: String,
    point: &'static str,
    /// The limiter with the largest error, that error, and the true share; `None` if no account was stated.
    worst: Option<(&'static str, f64, f64)>,
    /// Limiters with a share in the truth or in the statement, and how many of them are within the tolerance.
    shares: (usize, usize),
    largest: &'static str,
}

impl Compared {
    fn is_near(&self) -> bool {
        self.worst.is_some_and(|(_, off, _)| off.abs() <= NEAR)
    }
}

/// Runs the command on each capture of the transfers in the folder and prints the errors.
pub fn score(scoring: &Scoring) -> Result<(), ScoreError> {
    let folders = scoring.entries()?;
    let (compared, failures) = scoring.each(&folders, |folder| compare_folder(folder, scoring));
    let mut compared: Vec<Compared> = compared.into_iter().flatten().collect();
    compared.sort_by(|a, b| (a.point, &a.name).cmp(&(b.point, &b.name)));
    print(&compared);
    print_failures(&failures);
    Ok(())
}

fn compare_folder(folder: &Path, scoring: &Scoring) -> Result<Vec<Compared>, String> {
    let truth = read_truth(folder)?;
    // without the return path no acknowledgment is captured, so limiters cannot be determined
    if !truth["reverse_captured"].as_bool().unwrap_or(true) {
        return Ok(Vec::new());
    }
    let mut compared = Vec::new();
    for point in ["b", "y"] {
        let Some(right) = shares(&truth, point) else {
            continue;
        };
        let report = scoring.report(&[capture(folder, point)?])?;
        compared.push(compare(&truth, point, &right, &report));
    }
    Ok(compared)
}

type Shares = BTreeMap<&'static str, f64>;

/// The true shares of limiters of the first connection within its captured part, without a pause between transfers at
/// the capture's beginning or end, and without a wait for the answer to a request before it.
fn shares(truth: &Value, point: &str) -> Option<Shares> {
    let capture = &truth["captures"][point];
    let begins_s = capture["begins_s"].as_f64().unwrap_or(f64::MIN);
    let ends_s = capture["ends_s"].as_f64().unwrap_or(f64::MAX);
    let flow = list(&truth["flows"])
        .iter()
        .find(|flow| flow["proto"] == "tcp" && flow["limits"].is_object())?;
    let transfers = list(&flow["limits"]["transfers"]);
    let next = transfers
        .iter()
        .find(|transfer| transfer["until_s"].as_f64() > Some(begins_s))?;
    let begins_s = next["from_s"]
        .as_f64()
        .filter(|_| begins_s > 0.0)
        .map_or(begins_s, |from_s| from_s.max(begins_s));
    let begins_in = |span: &&Value| {
        let until_s = span[1].as_f64();
        span[0].as_f64() <= Some(begins_s) && until_s > Some(begins_s) && begins_s > 0.0
    };
    let begins_s = list(&flow["limits"]["spans"])
        .iter()
        .find(begins_in)
        .filter(|span| span[2] == Limiter::PeerApplication.name())
        .and_then(|span| span[1].as_f64())
        .unwrap_or(begins_s);
    let begun = transfers
        .iter()
        .rfind(|transfer| transfer["from_s"].as_f64() < Some(ends_s));
    let ends_s = begun
        .and_then(|last| last["until_s"].as_f64())
        .map_or(ends_s, |until_s| until_s.min(ends_s));
    let mut shares = Shares::new();
    for span in list(&flow["limits"]["spans"]) {
        let (from_s, until_s) = (span[0].as_f64()?, span[1].as_f64()?);
        let time_s = until_s.min(ends_s) - from_s.max(begins_s);
        let limiter = Limiter::ALL.iter().find(|l| span[2] == l.name())?;
        if time_s > 0.0 {
            *shares.entry(limiter.name()).or_default() += time_s;
        }
    }
    let total_s: f64 = shares.values().sum();
    shares.values_mut().for_each(|share| *share /= total_s);
    (total_s > 0.0).then_some(shares)
}

fn compare(truth: &Value, point: &'static str, right: &Shares, report: &Value) -> Compared {
    let flow = list(&truth["flows"])
        .iter()
        .find(|flow| flow["proto"] == "tcp" && flow["limits"].is_object())
        .unwrap_or(&Value::Null);
    // an address translator between the points changes ports
    let (from, to) = match point {
        "y" => (&flow["sport_at_y"], &flow["dport_at_y"]),
        _ => (&flow["sport"], &flow["dport"]),
    };
    let (from, to) = (format!(":{from} > "), format!(":{to}"));
    let stated = list(&report["flows"]).iter().find(|flow| {
        let name = flow["flow"].as_str().unwrap_or_default();
        name.contains(&from) && name.ends_with(&to)
    });
    let stated = stated.map_or(&Value::Null, |f| &f["limits"]["shares"]);
    let off = |limiter: &Limiter| {
        let right = right.get(limiter.name()).copied().unwrap_or(0.0);
        let found = stated[limiter.name()].as_f64().unwrap_or(0.0);
        (limiter.name(), found - right, right)
    };
    let all: Vec<_> = Limiter::ALL.iter().map(off).collect();
    let named = || {
        all.iter()
            .filter(|(_, off, right)| *right > 0.0 || *off != 0.0)
    };
    let shares = match stated.is_object() {
        true => (
            named().filter(|(_, off, _)| off.abs() <= NEAR).count(),
            named().count(),
        ),
        false => (0, named().count()),
    };
    let worst = all.iter().copied();
    let worst = worst.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    let largest = right.iter().max_by(|a, b| a.1.total_cmp(b.1));
    Compared {
        name: truth["name"].as_str().unwrap_or_default().into(),
        point,
        worst: worst.filter(|_| stated.is_object()),
        shares,
        largest: largest.map_or("", |(name, _)| name),
    }
}

fn print(compared: &[Compared]) {
    for point in ["b", "y"] {
        let of: Vec<&Compared> = compared.iter().filter(|c| c.point == point).collect();
        let near = of.iter().filter(|c| c.is_near()).count();
        let (shares, of_shares) = of.iter().fold((0, 0), |sum, compared| {
            (sum.0 + compared.shares.0, sum.1 + compared.shares.1)
        });
        println!(
            "capture {point}: shares of time within {NEAR} of the truth: all of {near} of {} transfers ({:.3}), \
             {shares} of {of_shares} shares ({:.3})",
            of.len(),
            near as f64 / of.len().max(1) as f64,
            shares as f64 / of_shares.max(1) as f64
        );
        let mut by_limiter: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for c in &of {
            let count = by_limiter.entry(c.largest).or_default();
            count.0 += usize::from(c.is_near());
            count.1 += 1;
        }
        for (limiter, (near, all)) in by_limiter {
            println!("  mostly {limiter:18} {near:4}/{all}");
        }
    }
    println!(
        "\nnot near: capture, name, the limiter with the largest error, that error, its true share"
    );
    for c in compared.iter().filter(|c| !c.is_near()) {
        match c.worst {
            Some((limiter, off, right)) => {
                println!("{} {} {limiter} {off:+.3} {right:.3}", c.point, c.name)
            }
            None => println!("{} {} nothing stated", c.point, c.name),
        }
    }
}
