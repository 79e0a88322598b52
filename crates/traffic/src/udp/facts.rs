//! Facts: values recorded once for a flow.

use crate::sample::Sink;

/// Records facts of a flow, each a key and a value.
pub(crate) fn record(
    flow: u32,
    facts: impl IntoIterator<Item = (&'static str, String)>,
    sink: &Sink,
) {
    let rows = facts
        .into_iter()
        .map(|(key, value)| (flow, key.into(), value));
    sink.with(|samples| samples.facts.extend(rows));
}
