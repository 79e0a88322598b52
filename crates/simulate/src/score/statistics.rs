//! Numbers that the tables of every score have.

use std::collections::BTreeMap;

use serde_json::Value;

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Groups items by each of their names.
pub(super) fn grouped<'a, T>(
    items: &'a [T],
    names: impl Fn(&'a T) -> Vec<&'a str>,
) -> BTreeMap<&'a str, Vec<&'a T>> {
    let mut groups: BTreeMap<&str, Vec<&T>> = BTreeMap::new();
    for item in items {
        for name in names(item) {
            groups.entry(name).or_default().push(item);
        }
    }
    groups
}

/// Each of some causes with how often it occurs.
pub(super) fn counted<'a>(causes: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    causes.for_each(|cause| *counts.entry(cause).or_default() += 1);
    let counts: Vec<String> = counts
        .iter()
        .map(|(cause, n)| format!("{cause} {n}"))
        .collect();
    counts.join(", ")
}

/// The quantile of sorted values; `None` without values.
pub(super) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(last as f64 * share) as usize])
}

/// True if a stated interval contains the truth; an open end contains everything on that side. `None` if no value is
/// stated.
pub(super) fn covered(parameter: &Value, true_value: f64) -> Option<bool> {
    parameter["value"].as_f64()?;
    let low = parameter["low"].as_f64().unwrap_or(f64::NEG_INFINITY);
    let high = parameter["high"].as_f64().unwrap_or(f64::INFINITY);
    Some((low..=high).contains(&true_value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_open_end_contains_everything_on_that_side() {
        let stated = json!({"value": 5.0, "low": 4.0, "high": null});
        assert_eq!(covered(&stated, 1e9), Some(true));
        assert_eq!(covered(&stated, 3.0), Some(false));
        assert_eq!(covered(&json!({"low": 1.0}), 3.0), None);
    }

    #[test]
    fn quantiles_are_values_and_causes_are_counted_by_name() {
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 1.0), Some(3.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(counted(["b", "a", "b"].into_iter()), "a 1, b 2");
    }
}
