//! Numbers that steer judgements have names, reasons and origins, in one table.

use std::fs;
use std::path::{Path, PathBuf};

/// Files and folders that judge.
const JUDGING: [&str; 15] = [
    "cause",
    "hop/verdict.rs",
    "limited.rs",
    "one_group.rs",
    "pair/verdicts.rs",
    "vantage.rs",
    "verdict.rs",
    "observe/delays.rs",
    "observe/exact.rs",
    "observe/full_queue.rs",
    "observe/observation.rs",
    "observe/runs.rs",
    "observe/silence.rs",
    "observe/standing.rs",
    "observe/stated.rs",
];

/// Numbers that need no name: none, one, twice, half, bits of a byte.
const PLAIN: [&str; 9] = ["0", "1", "2", "8", "0.0", "1.0", "2.0", "8.0", "0.5"];

/// Where a threshold may come from.
const ORIGINS: [&str; 4] = ["Physics", "Chance", "Train", "Fitted"];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files(path: PathBuf) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path];
    }
    let entries = fs::read_dir(&path).expect("a folder of the crate");
    let entries = entries.map(|entry| entry.expect("an entry").path());
    entries.flat_map(files).collect()
}

/// The numbers in a line of code, without comments, quoted text and types.
fn numbers(line: &str) -> Vec<String> {
    let code = line.split("//").next().unwrap_or_default();
    let unquoted: Vec<&str> = code.split('"').step_by(2).collect();
    let text = unquoted.join(" ").replace("..", " ").replace("e-", "e");
    text.split(|c: char| !c.is_ascii_alphanumeric() && !"_.".contains(c))
        .map(|word| word.trim_matches('.').trim_end_matches("_f64").to_owned())
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .collect()
}

#[test]
fn numbers_of_a_line_leave_out_names_comments_and_text() {
    assert_eq!(
        numbers("x1 > 0.3_f64 * y.0 + f64::from(7) // 9"),
        ["0.3", "7"]
    );
    assert_eq!(
        numbers("name(\"5 of 6\", 0..1_500, x.max(1e-9))"),
        ["0", "1_500", "1e9"]
    );
}

#[test]
fn files_that_judge_name_their_numbers() {
    let mut bare = Vec::new();
    for file in JUDGING.iter().flat_map(|name| files(source().join(name))) {
        let is_of_tests = file.ends_with("tests.rs") || file.ends_with("testing.rs");
        let text = fs::read_to_string(&file).expect("a source file");
        let judging = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        let lines = judging
            .lines()
            .filter(|line| !is_of_tests && !line.contains("const "));
        for line in lines {
            let unnamed = numbers(line)
                .into_iter()
                .filter(|number| !PLAIN.contains(&number.as_str()));
            bare.extend(
                unnamed.map(|number| format!("{}: {number} in {}", file.display(), line.trim())),
            );
        }
    }
    assert!(
        bare.is_empty(),
        "numbers without a name: give each a name and a reason in thresholds.rs\n{}",
        bare.join("\n")
    );
}

#[test]
fn every_threshold_says_where_it_comes_from() {
    let table = fs::read_to_string(source().join("thresholds.rs")).expect("the table");
    let mut reason = String::new();
    for line in table.lines() {
        if let Some(text) = line.strip_prefix("///") {
            reason.push_str(text);
        } else if line.starts_with("pub const") {
            let known = ORIGINS.iter().any(|origin| reason.contains(origin));
            assert!(
                known,
                "no origin, one of {ORIGINS:?}, in the reason of: {line}"
            );
            reason.clear();
        }
    }
}
