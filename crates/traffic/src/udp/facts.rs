//! Facts: what is told once of a flow.

use crate::sample::Sink;

/// Tells facts, each a key and a value, of a flow.
pub(crate) fn tell(
    flow: u32,
    facts: impl IntoIterator<Item = (&'static str, String)>,
    sink: &Sink,
) {
    let rows = facts
        .into_iter()
        .map(|(key, value)| (flow, key.into(), value));
    sink.with(|samples| samples.facts.extend(rows));
}
