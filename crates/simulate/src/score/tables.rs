//! Tables of the scores: by mechanism, by treatment, by number, and a list of the entries with faults.

use std::collections::BTreeMap;

use super::judge::Judged;
use super::numbers::Compared;
use super::run::print_failures;
use super::statistics::{counted, grouped, quantile};

pub fn print(judged: &[Judged], failures: &[String]) {
    groups("mechanism", judged, |j| vec![j.group.as_str()]);
    println!();
    groups("treatment", judged, |j| match j.treatments.is_empty() {
        true => vec!["(none)"],
        false => j.treatments.iter().map(String::as_str).collect(),
    });
    println!();
    numbers(judged);
    families(judged);
    let all = judged.len() + failures.len();
    let count = |of: &dyn Fn(&Judged) -> bool| judged.iter().filter(|j| of(j)).count();
    println!(
        "\ncause right: {}/{all}; lost packets right in both directions: {}/{all}; a policer named where there is none: {}; all right: {}/{all}",
        count(&|j| j.cause_right),
        count(&|j| j.lost_right),
        count(&|j| j.accused),
        count(&|j| j.faults().is_empty()),
    );
    confidences(judged);
    println!("\nmisses:");
    for j in judged.iter().filter(|j| !j.faults().is_empty()) {
        let faults = j.faults().join("; ");
        println!("  {} {} [{}]: {faults}", j.name, j.group, j.circumstances);
    }
    print_failures(failures);
}

/// How far the confidences of the headlines that name a cause are from what came true.
fn confidences(judged: &[Judged]) {
    let unknown = judged.iter().filter(|j| j.cause == "unknown").count();
    let named: Vec<&Judged> = judged.iter().filter(|j| j.cause != "unknown").collect();
    let right = named.iter().filter(|j| j.cause_right).count();
    let mean = |of: &dyn Fn(&Judged) -> f64| {
        named.iter().map(|j| of(j)).sum::<f64>() / named.len().max(1) as f64
    };
    println!(
        "headlines: {right} right, {} wrong, {unknown} unknown; mean confidence {:.3}, Brier score {:.4}",
        named.len() - right,
        mean(&|j| j.confidence),
        mean(&|j| (j.confidence - f64::from(u8::from(j.cause_right))).powi(2)),
    );
}

/// Families of queue management, for entries with ten or more drops.
fn families(judged: &[Judged]) {
    let judged_families: Vec<_> = judged
        .iter()
        .filter_map(|j| Some((j, j.family.as_ref()?)))
        .collect();
    if judged_families.is_empty() {
        return;
    }
    let laws = judged_families
        .iter()
        .filter(|(_, family)| family.law_right())
        .count();
    let names = judged_families
        .iter()
        .filter(|(_, family)| family.name_right())
        .count();
    println!(
        "\nqueue management with ten or more drops and marks: law right {laws}/{0}, family by name {names}/{0}",
        judged_families.len()
    );
    for (j, family) in judged_families
        .iter()
        .filter(|(_, family)| !family.name_right())
    {
        let stated = family.stated.as_deref().unwrap_or("-");
        println!(
            "  {}: {stated}, truth {}, {} drops and marks",
            j.name, family.truth, family.events
        );
    }
}

fn groups(title: &str, judged: &[Judged], names: impl Fn(&Judged) -> Vec<&str>) {
    println!(
        "{title:38} {:>7} {:>5} {:>9} {:>5} {:>11} {:>7} {:>7} {:>5} {:>4}  causes",
        "entries", "cause", "transfers", "lost", "found", "accused", "numbers", "basis", "all"
    );
    for (name, of_row) in grouped(judged, names) {
        let count = |of: &dyn Fn(&Judged) -> bool| of_row.iter().filter(|j| of(j)).count();
        let sum = |of: &dyn Fn(&Judged) -> u64| of_row.iter().map(|j| of(j)).sum::<u64>();
        let share = |part: u64, whole: u64| format!("{part}/{whole}");
        let all = || of_row.iter().flat_map(|j| &j.numbers);
        let good = all().filter(|number| number.is_good()).count() as u64;
        let bases = || of_row.iter().filter_map(|j| j.byte_basis.as_ref());
        let right = bases().filter(|(stated, truth)| stated.as_ref() == Some(truth));
        println!(
            "{name:38} {:7} {:5} {:>9} {:5} {:>11} {:7} {:>7} {:>5} {:4}  {}",
            of_row.len(),
            count(&|j| j.cause_right),
            share(sum(&|j| j.lossy_right), sum(&|j| j.lossy)),
            count(&|j| j.lost_right),
            share(sum(&|j| j.lost[0].0.unwrap_or(0)), sum(&|j| j.lost[0].1)),
            count(&|j| j.accused),
            share(good, all().count() as u64),
            share(right.count() as u64, bases().count() as u64),
            count(&|j| j.faults().is_empty()),
            counted(of_row.iter().map(|j| j.cause.as_str()))
        );
    }
}

/// Errors of every stated number, over the entries with the correct cause.
fn numbers(judged: &[Judged]) {
    let mut rows: BTreeMap<&str, Vec<&Compared>> = BTreeMap::new();
    for number in judged.iter().flat_map(|j| &j.numbers) {
        rows.entry(number.name).or_default().push(number);
    }
    println!(
        "{:18} {:>7} {:>8} {:>7} {:>7} {:>12} {:>12} {:>12} {:>17}",
        "number",
        "entries",
        "identifiable",
        "stated",
        "good",
        "median",
        "90 %",
        "worst",
        "truth in interval"
    );
    for (name, of_row) in rows {
        let mut errors: Vec<f64> = of_row
            .iter()
            .filter_map(|n| n.error)
            .map(f64::abs)
            .collect();
        errors.sort_by(f64::total_cmp);
        let at =
            |share: f64| quantile(&errors, share).map_or("-".into(), |error| format!("{error:.5}"));
        let intervals: Vec<bool> = of_row.iter().filter_map(|n| n.covered).collect();
        println!(
            "{name:18} {:7} {:8} {:7} {:7} {:>12} {:>12} {:>12} {:>17}",
            of_row.len(),
            of_row.iter().filter(|n| n.identifiable).count(),
            errors.len(),
            of_row.iter().filter(|n| n.is_good()).count(),
            at(0.5),
            at(0.9),
            at(1.0),
            format!(
                "{}/{}",
                intervals.iter().filter(|covered| **covered).count(),
                intervals.len()
            ),
        );
    }
}
