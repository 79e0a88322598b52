//! The account of all time in the document.

use whydrop_tcp::{Account, Limiter};

use crate::assemble::seconds;
use crate::document::LimitsInfo;

/// Spans that a document shows of a flow at most: more than a chart is wide.
const MOST_SPANS: usize = 500;

pub(crate) fn of_flow(account: &Account) -> Option<LimitsInfo> {
    let (from_ns, until_ns) = account.bounds()?;
    Some(LimitsInfo {
        spans: spans(account),
        ..within(account, from_ns, until_ns)
    })
}

pub(crate) fn of_transfer(account: &Account, number: usize) -> Option<LimitsInfo> {
    let &(from_ns, until_ns) = account.transfers.get(number)?;
    (until_ns > from_ns).then(|| within(account, from_ns, until_ns))
}

fn within(account: &Account, from_ns: i64, until_ns: i64) -> LimitsInfo {
    let times_ns = account.times_ns(from_ns, until_ns);
    let total_ns = times_ns.iter().sum::<i64>().max(1);
    LimitsInfo {
        from: seconds(from_ns),
        until: seconds(until_ns),
        shares: Limiter::ALL
            .iter()
            .zip(times_ns)
            .filter(|(_, time_ns)| *time_ns > 0)
            .map(|(limiter, time_ns)| (limiter.name(), time_ns as f64 / total_ns as f64))
            .collect(),
        spans: Vec::new(),
    }
}

/// All spans, or, where they are too many, even stretches with the limiter that has most of each.
fn spans(account: &Account) -> Vec<(f64, f64, &'static str)> {
    let named = |from_ns, until_ns, limiter: Limiter| {
        (seconds(from_ns), seconds(until_ns), limiter.name())
    };
    if account.spans.len() <= MOST_SPANS {
        let spans = account.spans.iter();
        return spans
            .map(|span| named(span.from_ns, span.until_ns, span.limiter))
            .collect();
    }
    let Some((from_ns, until_ns)) = account.bounds() else {
        return Vec::new();
    };
    let edge = |number: usize| {
        from_ns + ((until_ns - from_ns) as i128 * number as i128 / MOST_SPANS as i128) as i64
    };
    (0..MOST_SPANS)
        .map(|number| {
            let (from_ns, until_ns) = (edge(number), edge(number + 1));
            let times_ns = account.times_ns(from_ns, until_ns);
            let most = Limiter::ALL
                .into_iter()
                .max_by_key(|limiter| times_ns[*limiter as usize]);
            named(from_ns, until_ns, most.unwrap_or(Limiter::Application))
        })
        .collect()
}
