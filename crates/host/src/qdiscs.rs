//! The kernel's queueing disciplines and classes: their options and statistics, with units in the names.
//!
//! Unknown options are left out. Every discipline has the statistics that all of them share.

use std::io;

use serde_json::{Map, Value, json};
use whydrop_sockets::attributes::{Attributes, u32_at, u64_at};

use crate::layouts::{self, CAKE, CAKE_TIN, CAKE_TINS, OF_ALL};
use crate::rtnetlink::{ByType, Netlink, TrafficObject, by_type, handle, unsigned};

const OPTIONS: u16 = 2;
const XSTATS: u16 = 4;
const STATS2: u16 = 7;
/// Statistics of the discipline itself, in STATS2.
const OWN: u16 = 4;

/// A tick of the packet scheduler, the unit of bucket sizes and delays (`PSCHED_SHIFT`).
const TICK_NS: u64 = 64;

/// A statistic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    pub name: String,
    pub value: i128,
    /// Only grows, from the creation of the discipline on.
    pub is_cumulative: bool,
}

impl Counter {
    /// Returns nothing for a field without a name.
    fn of(field: &str, value: i128, prefix: &str) -> Option<Counter> {
        (field != "-").then(|| Counter {
            name: format!("{prefix}{}", field.trim_end_matches('+')),
            value,
            is_cumulative: field.ends_with('+'),
        })
    }

    fn json(&self) -> Value {
        i64::try_from(self.value).map_or_else(|_| json!(self.value as u64), Value::from)
    }
}

/// Describes the disciplines and classes of an interface with their options and statistics.
///
/// # Errors
/// The kernel does not answer.
pub fn describe(interface: u32) -> io::Result<(Value, Value)> {
    let mut netlink = Netlink::open(None)?;
    let all = |found: io::Result<Vec<TrafficObject>>| -> io::Result<Value> {
        Ok(found?.iter().map(described).collect())
    };
    Ok((
        all(netlink.qdiscs(interface))?,
        all(netlink.classes(interface))?,
    ))
}

fn described(object: &TrafficObject) -> Value {
    let statistics: Map<String, Value> = counters(object)
        .into_iter()
        .map(|counter| {
            let value = counter.json();
            (counter.name, value)
        })
        .collect();
    json!({
        "kind": object.kind(),
        "handle": handle(object.handle),
        "parent": handle(object.parent),
        "options": options(object),
        "statistics": statistics,
    })
}

/// Reads every statistic of a discipline or class.
pub fn counters(object: &TrafficObject) -> Vec<Counter> {
    let attributes = by_type(&object.attributes);
    let stats = by_type(attributes.get(&STATS2).copied().unwrap_or_default());
    let mut found = Vec::new();
    for (kind, layout) in OF_ALL {
        found.extend(unpacked(
            layout,
            stats.get(&kind).copied().unwrap_or_default(),
        ));
    }
    let own = stats.get(&OWN).filter(|bytes| !bytes.is_empty());
    let own = own
        .or_else(|| attributes.get(&XSTATS))
        .copied()
        .unwrap_or_default();
    found.extend(own_counters(&object.kind(), own));
    found
}

fn own_counters(kind: &str, bytes: &[u8]) -> Vec<Counter> {
    match kind {
        "cake" => cake(&by_type(bytes)),
        // Those of a class of fq_codel have another layout.
        "fq_codel" if u32_at(bytes, 0) != Some(0) => Vec::new(),
        _ => unpacked(layouts::of(&layouts::STATISTICS, kind), bytes),
    }
}

/// Reads fields of a fixed layout; none if the bytes are too few for all of them.
fn unpacked(layout: &str, bytes: &[u8]) -> Vec<Counter> {
    let mut found = Vec::new();
    let mut offset = 0;
    for field in layout.split_whitespace() {
        let Some((form, name)) = field.split_once(':') else {
            return Vec::new();
        };
        let (value, size) = match form {
            "4" => (u32_at(bytes, offset).map(i128::from), 4),
            "s4" => (
                u32_at(bytes, offset).map(|value| i128::from(value as i32)),
                4,
            ),
            "s8" => (
                u64_at(bytes, offset).map(|value| i128::from(value as i64)),
                8,
            ),
            _ => (u64_at(bytes, offset).map(i128::from), 8),
        };
        let Some(value) = value else {
            return Vec::new();
        };
        found.extend(Counter::of(name, value, ""));
        offset += size;
    }
    found
}

/// Reads attributes with one number each; their types are the places of the fields, from 1 on.
fn by_place(fields: &str, found: &ByType<'_>, prefix: &str) -> Vec<Counter> {
    (1..)
        .zip(fields.split_whitespace())
        .filter_map(|(place, field)| {
            let value = unsigned(found.get(&place)?)?;
            Counter::of(field, i128::from(value), prefix)
        })
        .collect()
}

fn cake(stats: &ByType<'_>) -> Vec<Counter> {
    let mut found = by_place(CAKE, stats, "");
    let tins = stats.get(&CAKE_TINS).copied().unwrap_or_default();
    for (tin, bytes) in by_type(tins) {
        found.extend(by_place(CAKE_TIN, &by_type(bytes), &format!("tin{tin}_")));
    }
    found
}

/// Reads the known options of a discipline or class.
fn options(object: &TrafficObject) -> Value {
    let attributes = by_type(&object.attributes);
    let bytes = attributes.get(&OPTIONS).copied().unwrap_or_default();
    let kind = object.kind();
    let special = match kind.as_str() {
        "pfifo" | "pfifo_head_drop" => fifo("limit_packets", bytes),
        "bfifo" => fifo("limit_bytes", bytes),
        "tbf" => tbf(bytes),
        "htb" => htb(bytes),
        "netem" => netem(bytes),
        "red" => red(bytes),
        "pfifo_fast" | "prio" => bands(bytes),
        _ => {
            let names = layouts::of(&layouts::OPTIONS, &kind);
            let known = by_place(names, &by_type(bytes), "");
            Some(
                known
                    .into_iter()
                    .map(|one| (one.name.clone(), one.json()))
                    .collect(),
            )
        }
    };
    special.unwrap_or_else(|| json!({}))
}

fn fifo(name: &str, bytes: &[u8]) -> Option<Value> {
    Some(json!({name: u32_at(bytes, 0)?}))
}

/// Reads a rate in bytes per second: `tc_ratespec` has at most 2^32 - 1, and larger rates are in an attribute.
fn rate(specification: &[u8], large: Option<&&[u8]>) -> Option<u64> {
    let large = large
        .and_then(|bytes| unsigned(bytes))
        .filter(|rate| *rate > 0);
    large.or_else(|| u32_at(specification, 8).map(u64::from))
}

fn bucket_bytes(ticks: u32, rate: u64) -> u64 {
    (u64::from(ticks) as f64 * TICK_NS as f64 * rate as f64 / 1e9).round_ties_even() as u64
}

fn bits(rate: u64) -> u64 {
    rate.saturating_mul(8)
}

fn tbf(bytes: &[u8]) -> Option<Value> {
    let found = by_type(bytes);
    let settings = found.get(&1).filter(|settings| settings.len() >= 36)?;
    let (sustained, peak) = (
        rate(settings, found.get(&4))?,
        rate(&settings[12..], found.get(&5))?,
    );
    let word = |place: usize| u32_at(settings, 24 + 4 * place);
    let mut options = json!({
        "rate_bps": bits(sustained),
        "burst_bytes": bucket_bytes(word(1)?, sustained),
        "limit_bytes": word(0)?,
    });
    if peak > 0 {
        options["peak_rate_bps"] = bits(peak).into();
        options["peak_burst_bytes"] = bucket_bytes(word(2)?, peak).into();
    }
    Some(options)
}

fn htb(bytes: &[u8]) -> Option<Value> {
    let found = by_type(bytes);
    if let Some(of_all) = found.get(&2).filter(|of_all| of_all.len() >= 12) {
        let default = format!("{:x}", u32_at(of_all, 8)?);
        return Some(json!({"default_class": default, "rate_to_quantum": u32_at(of_all, 4)?}));
    }
    let settings = found.get(&1).filter(|settings| settings.len() >= 44)?;
    let (sustained, ceil) = (
        rate(settings, found.get(&6))?,
        rate(&settings[12..], found.get(&7))?,
    );
    let word = |place: usize| u32_at(settings, 24 + 4 * place);
    Some(json!({
        "rate_bps": bits(sustained),
        "ceil_bps": bits(ceil),
        "burst_bytes": bucket_bytes(word(0)?, sustained),
        "ceil_burst_bytes": bucket_bytes(word(1)?, ceil),
        "quantum_bytes": word(2)?,
        "priority": word(4)?,
    }))
}

fn netem(bytes: &[u8]) -> Option<Value> {
    let word = |place: usize| u32_at(bytes, 4 * place);
    let found = by_type(bytes.get(24..)?);
    let exact = |kind: u16, ticks: u32| {
        let attribute = found.get(&kind).and_then(|bytes| unsigned(bytes));
        attribute.unwrap_or(u64::from(ticks) * TICK_NS)
    };
    let percent = |share: u32| f64::from(share) / f64::from(u32::MAX) * 100.0;
    let mut options = json!({
        "delay_ns": exact(10, word(0)?),
        "jitter_ns": exact(11, word(5)?),
        "limit_packets": word(1)?,
        "loss_percent": percent(word(2)?),
        "duplicate_percent": percent(word(4)?),
        "reorder_gap": word(3)?,
    });
    if let Some(rate) = found.get(&6).and_then(|bytes| u32_at(bytes, 0)) {
        options["rate_bps"] = bits(rate.into()).into();
    }
    Some(options)
}

fn red(bytes: &[u8]) -> Option<Value> {
    let settings = Attributes::new(bytes)
        .filter(|(kind, _)| *kind == 1)
        .last()?
        .1;
    let (weight_log2, flags) = (*settings.get(12)?, *settings.get(15)?);
    Some(json!({
        "limit_bytes": u32_at(settings, 0)?,
        "min_bytes": u32_at(settings, 4)?,
        "max_bytes": u32_at(settings, 8)?,
        "weight_log2": weight_log2,
        "ecn": flags & 1,
        "harddrop": flags >> 1 & 1,
        "adaptive": flags >> 2 & 1,
    }))
}

fn bands(bytes: &[u8]) -> Option<Value> {
    let map = bytes.get(4..20)?;
    Some(json!({"bands": u32_at(bytes, 0)? as i32, "priority_map": map}))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use whydrop_sockets::attributes::put;

    use super::*;

    fn words(values: &[u32]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect()
    }

    fn attributes(all: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, value) in all {
            put(&mut bytes, *kind, value);
        }
        bytes
    }

    /// A discipline with the statistics of all, and its own.
    fn object(kind: &str, options: &[u8], own: &[u8]) -> TrafficObject {
        let basic = [&1000_u64.to_ne_bytes()[..], &10_u32.to_ne_bytes()].concat();
        let queue = words(&[1, 2, 3, 4, 5]);
        let stats = attributes(&[(1, &basic), (3, &queue), (OWN, own)]);
        let name = [kind.as_bytes(), b"\0"].concat();
        TrafficObject {
            interface: 2,
            handle: 0x8001_0000,
            parent: u32::MAX,
            attributes: attributes(&[(1, &name), (OPTIONS, options), (STATS2, &stats)]),
        }
    }

    fn value(found: &[Counter], name: &str) -> Option<i128> {
        found
            .iter()
            .find(|one| one.name == name)
            .map(|one| one.value)
    }

    #[test]
    fn the_statistics_of_each_discipline_are_read_by_the_kernel_s_layout() {
        let pie = [
            &9_u64.to_ne_bytes()[..],
            &words(&[15, 0, 0, 100, 3, 4, 50, 6]),
        ]
        .concat();
        let tin = attributes(&[(4, &words(&[3])), (18, &words(&[70]))]);
        let tins = attributes(&[(1, &tin)]);
        let cake = attributes(&[(4, &words(&[4096])), (CAKE_TINS, &tins)]);
        let codel = words(&[1514, 7, 6, 5000, (-3_i32) as u32, 1, 2, 1, 0]);
        let fq_pie = words(&[100, 3, 4, 5, 6, 7, 8, 9, 10]);
        let longs: Vec<u8> = (1..=8_u64).flat_map(u64::to_ne_bytes).collect();
        let fq = [longs, words(&[9, 10, 11, 12])].concat();
        let fq_codel = words(&[0, 1514, 1, 2, 3, 4, 5, 6, 7, 8]);
        for (kind, own, name, expected) in [
            ("fq_codel", &fq_codel, "ecn_marked_packets", 2),
            ("codel", &codel, "drop_next_us", -3),
            ("pie", &pie, "dropped_early_packets", 3),
            ("pie", &pie, "delay_ms", 15),
            ("fq_pie", &fq_pie, "ecn_marked_packets", 6),
            ("fq", &fq, "throttled_packets", 4),
            ("fq", &fq, "flows", 9),
            ("red", &words(&[3, 4, 5, 6]), "ecn_marked_packets", 6),
            ("cake", &cake, "memory_used_bytes", 4096),
            ("cake", &cake, "tin1_peak_delay_us", 70),
        ] {
            let found = counters(&object(kind, &[], own));
            assert_eq!(value(&found, name), Some(expected), "{kind}");
            for cut in 0..own.len() {
                let found = counters(&object(kind, &[], &own[..cut]));
                assert_eq!(value(&found, "dropped_packets"), Some(3));
            }
        }
    }

    #[test]
    fn a_statistic_that_only_grows_is_cumulative() {
        let found = counters(&object("noqueue", &[], &[]));
        let cumulative: Vec<_> = found.iter().filter(|one| one.is_cumulative).collect();
        let names: Vec<_> = cumulative.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "sent_bytes",
                "sent_packets",
                "dropped_packets",
                "requeues",
                "overlimits"
            ]
        );
    }

    #[test]
    fn the_options_of_a_token_bucket_are_in_bits_per_second_and_bytes() {
        // 2.5 MB/s, of which 1 ms are 2500 bytes: 15 625 ticks.
        let settings = words(&[0, 0, 2_500_000, 0, 0, 0, 100_000, 15_625, 0]);
        let found = options(&object("tbf", &attributes(&[(1, &settings)]), &[]));
        let expected = json!({"rate_bps": 20_000_000, "burst_bytes": 2500, "limit_bytes": 100_000});
        assert_eq!(found, expected);
        let large = 10_000_000_000_u64.to_ne_bytes();
        let found = options(&object(
            "tbf",
            &attributes(&[(1, &settings), (4, &large)]),
            &[],
        ));
        assert_eq!(found["rate_bps"], 80_000_000_000_u64);
    }

    #[test]
    fn the_options_of_an_active_queue_have_their_units() {
        let bytes = attributes(&[
            (1, &words(&[4999])),
            (2, &words(&[10_240])),
            (4, &words(&[1])),
        ]);
        let found = options(&object("fq_codel", &bytes, &[]));
        assert_eq!(
            found,
            json!({"target_us": 4999, "limit_packets": 10_240, "ecn": 1})
        );
        assert_eq!(options(&object("unknown", &bytes, &[])), json!({}));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            kind in prop::sample::select(vec!["tbf", "htb", "netem", "red", "prio", "pfifo", "cake", "fq", "pie"]),
            bytes in prop::collection::vec(any::<u8>(), 0..120)
        ) {
            described(&object(kind, &bytes, &bytes));
        }
    }
}
