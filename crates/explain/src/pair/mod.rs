//! Two captures of one path explained: where packets vanish, and why.
//!
//! | module | subject |
//! |---|---|
//! | [`timeline`] | all packets on one clock, with transit times, runs of losses and pauses |
//! | [`groups`] | flows of one direction to one host, and their packets between the points |
//! | [`outer`] | losses before and beyond the points |
//! | [`verdicts`] | the effect of each part of the path on a group |
//! | `return_path` | round trips made long by the queue of the other direction |
//! | `variation` | jitter and batching between the points |
//! | [`info`] | the pair in the form of the JSON contract |
//! | [`chain`] | more than two captures |
//! | [`crossings`] | the table of matched packets |

mod chain;
mod crossings;
mod groups;
mod info;
mod outer;
mod return_path;
mod timeline;
mod variation;
mod verdicts;

use std::path::PathBuf;

use whydrop_capture::Capture;
use whydrop_pair::{Pair, PairError, PairOptions, read_pair};

use crate::assemble::{capture_info, flow_infos, transfer_infos};
use crate::document::{Document, SCHEMA};
use crate::observe::Observation;
use crate::ranked::sort_verdicts;
use crate::tables::Tables;
use crate::{ExplainError, Explanation, Options, tabulate};
use timeline::Timeline;

/// Explains two or more captures of one path, given in any order.
///
/// With more than two the document lists them in the order along the path, from the sender of most data;
/// `pair` describes the first and the last, `hops` each two neighbours, and the verdicts name their place.
///
/// # Errors
///
/// Fewer than two captures, one that cannot be read, or captures without a common packet.
pub fn explain_pair(paths: &[PathBuf], options: Options) -> Result<Explanation, ExplainError> {
    match paths {
        [first, second] => explain_two([first, second], [0, 1], options),
        [_, _, _, ..] => chain::explain(paths, options),
        _ => Err(ExplainError::Pair(
            "one capture is not enough: give two captures of one path, or more".to_owned(),
        )),
    }
}

/// Explains two captures that have the numbers `places` in the document (from 0).
fn explain_two(
    paths: [&PathBuf; 2],
    places: [usize; 2],
    options: Options,
) -> Result<Explanation, ExplainError> {
    let keep_tables = options.keep_tables;
    let pair = read(paths, options, PairOptions::default())?;
    let timeline = Timeline::of(&pair);
    let (flows, groups) = groups::of(&pair, places);
    let (mut verdicts, causes, notes) = verdicts::judge_all(&pair, &timeline, &groups, keep_tables);
    sort_verdicts(&mut verdicts);
    let mut tables = Tables::default();
    if keep_tables {
        tabulate::flows(&flows, &mut tables);
        tables.crossings = crossings::table(&pair, &timeline);
        for (index, ranked) in verdicts.iter_mut().enumerate() {
            if let Some(model) = ranked.model.take() {
                tabulate::append_model(&mut tables.model, model, index as u32);
            }
        }
    }
    let mut document = Document {
        flows: flow_infos(&flows),
        transfers: transfer_infos(&flows, &causes),
        verdicts: verdicts.into_iter().map(|ranked| ranked.verdict).collect(),
        ..matched_document(&pair, &timeline)
    };
    document.captures[0].notes.extend(notes);
    Ok(Explanation { document, tables })
}

/// Matches the packets of two captures of one path without explaining them: the document has the captures and
/// the pair, the tables the crossings.
///
/// # Errors
///
/// As [`explain_pair`]; also with more than two captures.
pub fn match_pair(paths: &[PathBuf], options: Options) -> Result<Explanation, ExplainError> {
    let [first, second] = paths else {
        return Err(ExplainError::Pair(format!(
            "exactly two captures are needed to match packets; {} were given",
            paths.len()
        )));
    };
    let keep_tables = options.keep_tables;
    // acknowledgments are for charts of connections, of which there are none
    let without_acknowledgments = Options {
        keep_tables: false,
        ..options
    };
    let pair = read([first, second], without_acknowledgments, matched_only())?;
    let timeline = Timeline::of(&pair);
    let mut tables = Tables::default();
    if keep_tables {
        tables.crossings = crossings::table(&pair, &timeline);
    }
    Ok(Explanation {
        document: matched_document(&pair, &timeline),
        tables,
    })
}

/// Measure between two captures, by group of flows: for development.
#[doc(hidden)]
pub fn measure_pair(
    paths: &[PathBuf],
    options: Options,
) -> Result<Vec<(String, Observation)>, ExplainError> {
    let [first, second] = paths else {
        return Err(ExplainError::Pair("give two captures".to_owned()));
    };
    let pair = read([first, second], options, PairOptions::default())?;
    let timeline = Timeline::of(&pair);
    let (_, groups) = groups::of(&pair, [0, 1]);
    Ok(verdicts::hops(&pair, &timeline, &groups))
}

/// Options for matching without verdicts.
fn matched_only<'a>() -> PairOptions<'a> {
    PairOptions {
        account_for_time: false,
        ..PairOptions::default()
    }
}

fn read<'a>(
    paths: [&PathBuf; 2],
    options: Options<'a>,
    pair_options: PairOptions<'a>,
) -> Result<Pair, ExplainError> {
    let [first, second] = paths;
    let captures = [
        Capture::open(&[first], options.open.clone())?,
        Capture::open(&[second], options.open)?,
    ];
    let pair_options = PairOptions {
        keep_acknowledgments: options.keep_tables,
        progress: options.progress,
        hints: options.hints,
        ..pair_options
    };
    let pair = read_pair(captures, pair_options).map_err(|error| match error {
        PairError::Stopped => ExplainError::Stopped,
        error @ PairError::NothingInCommon { .. } => ExplainError::Pair(error.to_string()),
    })?;
    for summary in &pair.summaries {
        if let Some(timeless) = summary.timeless {
            return Err(ExplainError::Pair(format!(
                "{}: {}, but two captures are compared by their times; explain each by itself",
                summary.paths.join(", "),
                timeless.reason()
            )));
        }
    }
    Ok(pair)
}

fn matched_document(pair: &Pair, timeline: &Timeline) -> Document {
    let [first, second] =
        [0, 1].map(|side| capture_info(&pair.summaries[side], &pair.tracked[side]));
    Document {
        whydrop: env!("CARGO_PKG_VERSION").to_owned(),
        schema: SCHEMA,
        captures: vec![first, second],
        flows: Vec::new(),
        transfers: Vec::new(),
        verdicts: Vec::new(),
        pair: Some(info::pair_info(pair, timeline)),
        hops: Vec::new(),
        datagrams: None,
        servers: Vec::new(),
    }
}
