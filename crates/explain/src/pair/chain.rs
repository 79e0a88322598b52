//! More than two captures, sorted along the path: each two neighbours form a hop.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::path::PathBuf;

use whydrop_pair::{Direction, Pair};

use super::groups::between;
use super::timeline::Timeline;
use super::{explain_two, matched_only, read};
use crate::document::{FlowInfo, Verdict};
use crate::tables::{CrossingTable, ModelTable};
use crate::tabulate::append_model;
use crate::{ExplainError, Explanation, Options};

/// Explains captures given in any order.
pub fn explain(paths: &[PathBuf], mut options: Options) -> Result<Explanation, ExplainError> {
    if options.hints.client_side.is_some() {
        return Err(ExplainError::Pair(format!(
            "the capture nearer to the clients can be named for two captures; {} were given",
            paths.len()
        )));
    }
    let steps = 2 * paths.len() as u64 - 1;
    let watch = RefCell::new((0, options.progress.take()));
    // every analysis of two captures is one step, and all take about as long
    let step = |keep_tables: bool| Options {
        keep_tables,
        open: options.open.clone(),
        hints: options.hints,
        progress: Some(Box::new(|done, total| {
            let (step, progress) = &mut *watch.borrow_mut();
            progress
                .as_mut()
                .is_none_or(|progress| progress(*step * total + done, steps * total))
        })),
    };
    let finish_step = || watch.borrow_mut().0 += 1;
    let ordered = in_order(paths, || step(false), finish_step)?;
    let (first, last) = (&ordered[0], &ordered[ordered.len() - 1]);
    let mut whole = explain_two(
        [first, last],
        [0, ordered.len() - 1],
        step(options.keep_tables),
    )?;
    finish_step();
    let mut hops = Vec::new();
    for (place, neighbours) in ordered.windows(2).enumerate() {
        let places = [place, place + 1];
        hops.push(explain_two(
            [&neighbours[0], &neighbours[1]],
            places,
            step(options.keep_tables),
        )?);
        finish_step();
    }
    compose(&mut whole, hops);
    Ok(whole)
}

/// The captures in the order in which most of the data passes them.
fn in_order<'a>(
    paths: &[PathBuf],
    options: impl Fn() -> Options<'a>,
    finish_step: impl Fn(),
) -> Result<Vec<PathBuf>, ExplainError> {
    let mut distances = vec![(0i64, paths[0].clone())];
    for path in &paths[1..] {
        let pair = read([&paths[0], path], options(), matched_only())?;
        finish_step();
        distances.push((distance_ns(&pair), path.clone()));
    }
    distances.sort_by_key(|(distance_ns, _)| *distance_ns);
    Ok(distances.into_iter().map(|(_, path)| path).collect())
}

/// Distance of point 2 behind point 1 for the data, as the shortest transit time; negative if it is before.
fn distance_ns(pair: &Pair) -> i64 {
    let timeline = Timeline::of(pair);
    let shortest = |direction: usize| {
        timeline
            .transits_ns(direction, |_| true)
            .into_iter()
            .min()
            .unwrap_or(0)
            .max(1)
    };
    let bytes = |direction: Direction| -> u64 {
        let of = |flow: u32| pair.flows[flow as usize].direction == direction;
        pair.packets
            .iter()
            .filter(|packet| of(packet.flow))
            .map(|packet| u64::from(packet.payload_bytes))
            .sum()
    };
    if bytes(Direction::FirstToSecond) >= bytes(Direction::SecondToFirst) {
        shortest(0)
    } else {
        -shortest(1)
    }
}

/// Inserts the results of each two neighbours into the document on the whole path.
fn compose(whole: &mut Explanation, hops: Vec<Explanation>) {
    let last = hops.len();
    let captures = |hop: &Explanation| hop.document.captures.clone();
    whole.document.captures = hops.iter().map(|hop| captures(hop)[0].clone()).collect();
    whole
        .document
        .captures
        .extend(hops.last().map(|hop| captures(hop)[1].clone()));
    if let Some(pair) = &mut whole.document.pair {
        [pair.from, pair.to] = [0, last];
    }
    // hops replace the verdict between the outermost points; losses outside, or of unknown place, stay
    let between_all = between([0, last]);
    let outside = std::mem::take(&mut whole.document.verdicts).into_iter();
    let mut verdicts: Vec<(Verdict, Option<(usize, u32)>)> = outside
        .filter(|verdict| verdict.place.as_ref() != Some(&between_all))
        .map(|verdict| (verdict, None))
        .collect();
    whole.tables.model = ModelTable::default();
    whole.tables.crossings = CrossingTable::default();
    let mut models = Vec::new();
    let names_of_all = names(&whole.document.flows);
    for (place, hop) in hops.into_iter().enumerate() {
        let Explanation {
            mut document,
            tables,
        } = hop;
        let between = between([place, place + 1]);
        verdicts.extend(
            document
                .verdicts
                .into_iter()
                .enumerate()
                .filter(|(_, verdict)| verdict.place.as_ref() == Some(&between))
                .map(|(index, verdict)| (verdict, Some((place, index as u32)))),
        );
        if let Some(pair) = &mut document.pair {
            [pair.from, pair.to] = [place, place + 1];
        }
        whole.document.hops.extend(document.pair);
        whole
            .tables
            .crossings
            .append(tables.crossings, place as u32);
        models.push((
            tables.model,
            renumbered(&names(&document.flows), &names_of_all),
        ));
    }
    let explained = |verdict: &Verdict| verdict.explained * verdict.lost as f64;
    verdicts.sort_by(|(a, _), (b, _)| {
        explained(b)
            .total_cmp(&explained(a))
            .then(b.lost.cmp(&a.lost))
    });
    for (index, (_, origin)) in verdicts.iter().enumerate() {
        let Some((place, verdict)) = *origin else {
            continue;
        };
        let (model, numbers) = &models[place];
        let rows = model.rows_of(verdict, |flow| {
            numbers.get(flow as usize).copied().unwrap_or(u32::MAX)
        });
        append_model(&mut whole.tables.model, rows, index as u32);
    }
    whole.document.verdicts = verdicts.into_iter().map(|(verdict, _)| verdict).collect();
}

fn names(flows: &[FlowInfo]) -> Vec<&str> {
    flows.iter().map(|flow| flow.flow.as_str()).collect()
}

/// Index of each flow of a hop among those of the whole path, `u32::MAX` if absent: by name; of flows with
/// the same name (reused ports) the first.
fn renumbered<Name: Hash + Eq>(flows: &[Name], whole: &[Name]) -> Vec<u32> {
    let mut places: HashMap<&Name, u32> = HashMap::with_capacity(whole.len());
    for (place, name) in (0..).zip(whole) {
        places.entry(name).or_insert(place);
    }
    let place = |name| places.get(name).copied().unwrap_or(u32::MAX);
    flows.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::Hasher;

    use super::*;

    #[test]
    fn a_flow_has_the_number_of_the_first_of_its_name() {
        let whole = ["one", "two", "one", "three"];
        assert_eq!(
            renumbered(&["three", "one", "four", "one"], &whole),
            [3, 0, u32::MAX, 0]
        );
    }

    /// Counts its comparisons.
    struct Counted<'a>(u32, &'a Cell<usize>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.1.set(self.1.get() + 1);
            self.0 == other.0
        }
    }

    impl Eq for Counted<'_> {}

    impl Hash for Counted<'_> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    #[test]
    fn each_flow_is_compared_with_few_of_many() {
        const FLOWS: u32 = 3_000;
        let compared = Cell::new(0);
        let names = |first: u32| -> Vec<Counted> {
            (first..first + FLOWS)
                .map(|name| Counted(name, &compared))
                .collect()
        };
        let numbers = renumbered(&names(FLOWS / 2), &names(0));
        assert_eq!(
            (numbers[0], numbers[FLOWS as usize - 1]),
            (FLOWS / 2, u32::MAX)
        );
        assert!(compared.get() < 10 * FLOWS as usize, "{compared:?}");
    }
}
