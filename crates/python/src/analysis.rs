//! The call into the analysis, and its result.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use pyo3::exceptions::{PyKeyError, PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use whydrop_capture::{Filter, Moment, OpenOptions, Selection, contain};
use whydrop_explain::document::Document;
use whydrop_explain::{
    ExplainError, Explanation, Options, PairHints, explain_pair as explain_several, explain_paths,
    match_pair as match_two,
};

use crate::columns;
use crate::json;
use crate::progress::Watch;
use crate::table::Table;

pyo3::create_exception!(
    whydrop._core,
    CaptureError,
    crate::errors::Error,
    "A capture that could not be analysed. The message names the file, the byte offset and what was expected."
);

/// The result of one analysis: the document and the tables behind it.
#[pyclass(frozen, module = "whydrop._core")]
pub struct Analysis {
    document: Document,
    batches: [(&'static str, RecordBatch); columns::TABLES],
}

#[pymethods]
impl Analysis {
    /// The document of the JSON contract, as dictionaries and lists.
    fn document<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&self.document).map_err(|error| {
            PyRuntimeError::new_err(format!(
                "the document could not be written as JSON: {error}"
            ))
        })?;
        json::loads(py, &text)
    }

    /// One of the tables `segments`, `acks`, `sacks`, `model`, `crossings`, `rtp`, `rtp_reports`.
    fn table(&self, name: &str) -> PyResult<Table> {
        match self.batches.iter().find(|(known, _)| *known == name) {
            Some((_, batch)) => Ok(Table::new(batch.clone())),
            None => {
                let known: Vec<&str> = self.batches.iter().map(|(known, _)| *known).collect();
                Err(PyKeyError::new_err(format!(
                    "no table {name:?}; there are {}",
                    known.join(", ")
                )))
            }
        }
    }
}

/// Analyses one capture: one file, or the files of a rotated sequence in order.
///
/// `progress(done_bytes, total_bytes)` is called from the calling thread from time to time; an exception that
/// it raises stops the analysis and is raised here. Without `tables` only the document is kept. Only packets
/// that match the display filter and lie between `begin` and `end` are analysed: seconds since the first packet
/// (`float`), or nanoseconds since the epoch (`int`).
#[pyfunction]
#[pyo3(signature = (paths, *, tables = true, progress = None, filter = None, begin = None, end = None))]
pub fn explain(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    tables: bool,
    progress: Option<Py<PyAny>>,
    filter: Option<&str>,
    begin: Option<Time>,
    end: Option<Time>,
) -> PyResult<Analysis> {
    let open = selecting(filter, begin, end)?;
    run(
        py,
        &paths,
        tables,
        progress,
        open,
        PairHints::default(),
        explain_paths,
    )
}

/// Analyses two or more captures of one path, in any order.
///
/// `progress`, `tables` and `filter` as for `explain`. `hints` has what the user knows of the path:
/// `same_sequence_numbers` (bool), `client_side` (0 or 1), `longest_bytes` (int).
#[pyfunction]
#[pyo3(signature = (paths, *, tables = true, progress = None, filter = None, hints = None))]
pub fn explain_pair(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    tables: bool,
    progress: Option<Py<PyAny>>,
    filter: Option<&str>,
    hints: Option<Hints>,
) -> PyResult<Analysis> {
    let open = selecting(filter, None, None)?;
    run(
        py,
        &paths,
        tables,
        progress,
        open,
        hinted(hints),
        explain_several,
    )
}

/// Matches the packets of two captures of one path: the document has `captures` and `pair`, and of the tables only
/// `crossings` has rows. Without `tables` only the document is kept.
#[pyfunction]
#[pyo3(signature = (paths, *, tables = true, progress = None, hints = None))]
pub fn match_pair(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    tables: bool,
    progress: Option<Py<PyAny>>,
    hints: Option<Hints>,
) -> PyResult<Analysis> {
    run(
        py,
        &paths,
        tables,
        progress,
        OpenOptions::default(),
        hinted(hints),
        match_two,
    )
}

/// Knowledge of the user on the path between two captures.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Hints {
    same_sequence_numbers: bool,
    client_side: Option<usize>,
    longest_bytes: Option<u32>,
}

fn hinted(hints: Option<Hints>) -> PairHints {
    hints.map_or_else(PairHints::default, |hints| PairHints {
        same_sequence_numbers: hints.same_sequence_numbers,
        client_side: hints.client_side,
        longest_bytes: hints.longest_bytes,
    })
}

/// A time in a capture: seconds since its first packet, or nanoseconds since the epoch.
#[derive(FromPyObject)]
pub enum Time {
    At(i64),
    SinceStart(f64),
}

impl From<Time> for Moment {
    fn from(time: Time) -> Self {
        match time {
            Time::At(time_ns) => Self::At(time_ns),
            Time::SinceStart(seconds) => Self::SinceStart((seconds * 1e9).round() as i64),
        }
    }
}

pub fn selecting(
    filter: Option<&str>,
    begin: Option<Time>,
    end: Option<Time>,
) -> PyResult<OpenOptions> {
    let filter = filter
        .map(Filter::parse)
        .transpose()
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    let selection = Selection {
        filter,
        from: begin.map(Moment::from),
        to: end.map(Moment::from),
    };
    let is_needed = selection != Selection::default();
    Ok(OpenOptions {
        selection: is_needed.then(|| Arc::new(selection)),
        ..OpenOptions::default()
    })
}

fn run(
    py: Python<'_>,
    paths: &[PathBuf],
    tables: bool,
    progress: Option<Py<PyAny>>,
    open: OpenOptions,
    hints: PairHints,
    analyse: fn(&[PathBuf], Options) -> Result<Explanation, ExplainError>,
) -> PyResult<Analysis> {
    let watch = Watch::new(progress);
    let mut reporting = watch.clone();
    let outcome = py.detach(|| {
        let options = Options {
            keep_tables: tables,
            progress: Some(Box::new(move |done, total| reporting.report(done, total))),
            open,
            hints,
        };
        contain(|| analyse(paths, options))
    });
    if let Some(raised) = watch.raised() {
        return Err(raised);
    }
    let outcome = outcome.map_err(|defect| {
        let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
        CaptureError::new_err(format!(
            "{}: no explanation: {defect}. Please report it, with the capture if you may share it",
            paths.join(", ")
        ))
    })?;
    let Explanation { document, tables } = outcome.map_err(|error| match error {
        error @ (ExplainError::Capture(_) | ExplainError::Pair(_)) => {
            CaptureError::new_err(error.to_string())
        }
        // Python raised an exception, which the caller raises again.
        ExplainError::Stopped => PyKeyboardInterrupt::new_err("stopped"),
    })?;
    let batches = columns::batches(tables).map_err(|error| {
        PyRuntimeError::new_err(format!("the tables could not be passed to Python: {error}"))
    })?;
    Ok(Analysis { document, batches })
}
