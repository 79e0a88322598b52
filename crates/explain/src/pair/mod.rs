//! Two captures of one path explained: where packets vanish, and by which mechanism.
//!
//! | module | what it does |
//! |---|---|
//! | [`timeline`] | all packets on one clock, with transit, runs of losses and pauses |
//! | [`groups`] | flows of one direction to one host, and their packets between the points |
//! | [`outer`] | what was lost before and beyond the points |
//! | [`verdicts`] | what each part of the path did to a group |
//! | `way_back` | round trips that the queue of the other direction makes long |
//! | `variation` | jitter and batching between the points |
//! | [`info`] | the pair in the shape of the JSON contract |
//! | [`chain`] | more than two captures |
//! | [`crossings`] | the table of matched packets |

mod chain;
mod crossings;
mod groups;
mod info;
mod outer;
mod timeline;
mod variation;
mod verdicts;
mod way_back;

use std::path::PathBuf;

use whydrop_capture::Capture;
use whydrop_pair::{Pair, PairError, PairOptions, read_pair};

use crate::assemble::{capture_info, flow_infos, transfer_infos};
use crate::document::{Document, SCHEMA};
use crate::hop::Hop;
use crate::ranked::sort_verdicts;
use crate::tables::Tables;
use crate::{ExplainError, Explanation, Options, tabulate};
use timeline::Timeline;

/// Explains two captures of one path, given in either order, or more of them in any order.
///
/// With more than two the document names them in the order along the path, seen from the sender of most data; `pair` is
/// what the first and the last show, `hops` what each two neighbours do, and the verdicts say between which of them.
///
/// # Errors
///
/// Fewer than two captures, one that cannot be read, or captures without a packet in common.
pub fn explain_pair(paths: &[PathBuf], options: Options) -> Result<Explanation, ExplainError> {
    match paths {
        [first, second] => explain_two([first, second], [0, 1], options),
        [_, _, _, ..] => chain::explain(paths, options),
        _ => Err(ExplainError::Pair(
            "one capture is no pair: give two captures of one path, or more".to_owned(),
        )),
    }
}

/// Explains two captures that the document numbers `places` (from 0).
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

/// Matches the packets of two captures of one path, and explains nothing: the document has the captures and the pair,
/// the tables the crossings.
///
/// # Errors
///
/// As [`explain_pair`]; also with more than two captures.
pub fn match_pair(paths: &[PathBuf], options: Options) -> Result<Explanation, ExplainError> {
    let [first, second] = paths else {
        return Err(ExplainError::Pair(format!(
            "packets are matched between two captures; {} were given",
            paths.len()
        )));
    };
    let keep_tables = options.keep_tables;
    // acknowledgments are for charts of connections, which this has none of
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
) -> Result<Vec<(String, Hop)>, ExplainError> {
    let [first, second] = paths else {
        return Err(ExplainError::Pair("give two captures".to_owned()));
    };
    let pair = read([first, second], options, PairOptions::default())?;
    let timeline = Timeline::of(&pair);
    let (_, groups) = groups::of(&pair, [0, 1]);
    Ok(verdicts::hops(&pair, &timeline, &groups))
}

/// Options for matching where no verdict follows.
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
        ..pair_options
    };
    read_pair(captures, pair_options).map_err(|error| match error {
        PairError::Stopped => ExplainError::Stopped,
        error @ PairError::NothingInCommon { .. } => ExplainError::Pair(error.to_string()),
    })
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
    }
}
