use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::{
    Arrival, Chain, CoDel, Delay, Fifo, FqCoDel, Jitter, Limit, LinuxPolice, PathElement, Pie,
    Policer, Red, Shaper, replay,
};

/// A setting of each field of an element, from its name and type.
fn setting(field: &Field) -> BoxedStrategy<Value> {
    let number = |numbers: BoxedStrategy<f64>| numbers.prop_map(Value::from).boxed();
    match (field.name, field.kind) {
        (_, "bool") => Just(Value::Bool(true)).boxed(),
        (_, "InService") => Just(Value::from("counted")).boxed(),
        (_, "Colour") => prop_oneof![Just(Value::from("green")), Just(Value::from("red"))].boxed(),
        ("seed", _) => any::<u64>().prop_map(Value::from).boxed(),
        ("high_ns" | "until_ns", _) => (2_000_000_000u64..1 << 62).prop_map(Value::from).boxed(),
        ("period_ns", _) => (1_000_000u64..1_000_000_000).prop_map(Value::from).boxed(),
        ("max_packets", _) => number((200.0..1e4).boxed()),
        (name, _) if name.ends_with("_ns") => (1u64..1_000_000_000).prop_map(Value::from).boxed(),
        (_, kind) if kind.contains("u32") => (64u32..9_000).prop_map(Value::from).boxed(),
        (name, _) if name.ends_with("_bps") => {
            number(prop_oneof![(1.0..1e12), (1u64..400_000).prop_map(|k| k as f64 * 1e6)].boxed())
        }
        (name, _) if name.ends_with("_bytes") => {
            number(prop_oneof![(64.0..1e9), (1u64..4_000).prop_map(|k| k as f64 * 100.0)].boxed())
        }
        (name, _) if name.ends_with("_packets") => number((1.0..200.0).boxed()),
        _ => number((1e-9..0.999).boxed()),
    }
}

/// Any element with sensible values, its optional fields given or not (a second bucket in whole).
fn element() -> impl Strategy<Value = ElementSpec> {
    prop::sample::select(ElementSpec::NAMES).prop_flat_map(|name| {
        let fields = ElementSpec::fields(name).unwrap();
        let values: Vec<_> = fields
            .iter()
            .map(|field| (setting(field), any::<bool>()))
            .collect();
        (values, any::<bool>()).prop_map(move |(values, both)| {
            let given = fields.iter().zip(values).filter(|(field, (_, given))| {
                let second = field.name.starts_with("peak_") && name != "linux-police";
                field.required || if second { both } else { *given }
            });
            let fields = given.map(|(field, (value, _))| (field.name.to_owned(), value));
            let name = ("element".to_owned(), Value::from(name));
            serde_json::from_value(Value::Object(fields.chain([name]).collect())).unwrap()
        })
    })
}

fn path() -> impl Strategy<Value = PathSpec> {
    prop::collection::vec(element(), 1..4).prop_map(|elements| PathSpec { elements })
}

fn arrivals() -> Vec<Arrival> {
    let arrival = |place: i64| Arrival {
        time_ns: place / 10 * 7_000_000 + place % 10 * 90_000,
        bytes: 64 + (place * 613 % 1_437) as u32,
    };
    (0..600).map(arrival).collect()
}

proptest! {
    #[test]
    fn what_is_written_is_read_again_as_text_and_as_json(path in path()) {
        let text = path.to_string();
        prop_assert_eq!(&text.parse::<PathSpec>().map_err(|error| format!("{text}: {error}")), &Ok(path.clone()));
        let json = serde_json::to_string(&path).unwrap();
        prop_assert_eq!(serde_json::from_str::<PathSpec>(&json).unwrap(), path);
    }

    #[test]
    fn every_sensible_path_is_built_and_repeats_itself(path in path(), seed in any::<u64>()) {
        let mut chain = path.build(seed).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let first = replay(&mut chain, &arrivals());
        prop_assert_eq!(&replay(&mut path.build(seed).unwrap(), &arrivals()), &first);
        prop_assert_eq!(replay(&mut chain, &arrivals()), first);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z:=,+.0-9%kMB-]{0,40}|policer:\\PC*") {
        let _ = text.parse::<PathSpec>().map(|path| path.build(0));
    }
}

#[track_caller]
fn same(text: &str, mut by_hand: impl PathElement) {
    let mut built = text.parse::<PathSpec>().unwrap().build(7).unwrap();
    let expected = replay(&mut by_hand, &arrivals());
    assert!(
        expected
            .iter()
            .any(|outcome| outcome.departure_ns().is_some()),
        "{text}"
    );
    assert_eq!(replay(&mut built, &arrivals()), expected, "{text}");
}

#[test]
fn a_description_makes_the_element_that_it_names() {
    same("line:rate=10M", Fifo::new(10_000_000, Limit::NONE));
    same(
        "fifo:rate=8M,limit=5packets,limit=6kB,in-service=counted,overhead=38B",
        Fifo::new(
            8_000_000,
            Limit {
                packets: Some(5),
                bytes: Some(6_000),
            },
        )
        .with_in_service(InService::Counted)
        .with_overhead(38),
    );
    same(
        "policer:rate=6M,burst=6kB,peak-rate=60M,peak-burst=2kB,initial=1500B",
        Policer::new(6_000_000, 6_000)
            .with_peak(60_000_000, 2_000)
            .with_initial_bytes(1_500),
    );
    let police = LinuxPolice::new(6_000_000, 6_144).with_mtu(1_000);
    same("linux-police:rate=6M,burst=6KiB,mtu=1000B", police);
    let shaper = Shaper::new(9_000_000, 3_000, Limit::bytes(9_000)).with_peak(20_000_000, 1_600);
    same(
        "shaper:rate=9M,burst=3kB,limit=9kB,peak-rate=20M,peak-burst=1.6kB",
        shaper,
    );
    let red = Red::new(8_000_000, Limit::packets(40), 2.0, 9.0, 0.1, 3)
        .with_weight(0.02)
        .gentle();
    same(
        "red:rate=8M,limit=40packets,min=2packets,max=9,max-probability=10%,weight=0.02,gentle,seed=3",
        red,
    );
    let pie = Pie::new(5_000_000, Limit::packets(60), 7).with_target(5_000_000);
    same("pie:rate=5M,limit=60,target=5ms", pie.clone());
    let pie = pie.with_period(20_000_000).like_linux();
    same("pie:rate=5M,limit=60,target=5ms,period=20ms,linux", pie);
    let codel = CoDel::new(5_000_000, Limit::NONE).with_target(2_000_000, 100_000_000);
    same("codel:rate=5M,target=2ms", codel.clone());
    same("codel:rate=5M,target=2ms,linux", codel.like_linux());
    same(
        "fq-codel:rate=5M,limit=30packets,marks",
        FqCoDel::new(5_000_000, 30, 7).marking(),
    );
    same(
        "jitter:low=1ms,high=3.5ms,reorders",
        Jitter::new(1_000_000, 3_500_000, 7).reordering(),
    );
    let elements: Vec<Box<dyn PathElement + Send>> = vec![
        Box::new(Delay::new(20_000)),
        Box::new(Jitter::new(0, 1_000_000, 8)),
        Box::new(Policer::new(6_000_000, 6_000)),
    ];
    same(
        "delay:time=20us+jitter:low=0ns,high=1ms+policer:rate=6M,burst=6kB",
        Chain::new(elements),
    );
}

#[test]
fn errors_say_what_is_wrong_and_what_was_expected() {
    let error = |text: &str| match text.parse::<PathSpec>() {
        Ok(path) => path.build(0).err().expect(text).to_string(),
        Err(error) => error.to_string(),
    };
    let of_policer =
        r#""policer:rate=280M,burst=80": burst: "80": expected a size with its unit, such as 80kB"#;
    assert_eq!(error("policer:rate=280M,burst=80"), of_policer);
    let zero = "policer: rate: 0: expected at least 1 bit/s and at most 10^15 bit/s";
    assert_eq!(error("policer:rate=0,burst=80kB"), zero);
    let small =
        "policer: burst: 50B: expected room for a packet: at least 64 bytes (1500B is a full one)";
    assert_eq!(error("line:rate=1G+policer:rate=1M,burst=50B"), small);
    let alone =
        "policer: peak-rate: expected peak-burst with it: the second bucket has a rate and a size";
    assert_eq!(error("policer:rate=1M,burst=50kB,peak-rate=2M"), alone);
    let short = "pie: period: 1us: expected at least 1ms between updates";
    assert_eq!(error("pie:rate=1M,period=1us"), short);
    assert!(
        error("polcer:rate=1M")
            .contains(r#""polcer" is no element: expected one of line, fifo, policer"#)
    );
    assert!(error("").contains("is no element"));
    assert!(
        error("policer:rate=1M,")
            .ends_with("burst: is missing: expected a size with its unit, such as 80kB")
    );
    let keys = "size: is not a field of this element: expected one of rate, burst, peak-rate";
    assert!(error("policer:size=1M").contains(keys));
    assert!(error("policer:rate=1M,rate=2M,burst=9kB").ends_with("rate: is given twice"));
    let either = r#""x": expected a number of packets, such as 100packets, or a size with its unit, such as 80kB"#;
    assert!(error("fifo:rate=1M,limit=x").ends_with(either));
    for text in [
        "policer:rate=-1M,burst=9kB",
        "policer:rate=NaN,burst=9kB",
        "policer:rate=infM,burst=9kB",
    ] {
        assert!(
            error(text).ends_with("expected a rate in bit/s, such as 280M"),
            "{text}"
        );
    }
    assert!(error("random-loss:probability=150%").ends_with("1.5: expected 0 to 1, or 0% to 100%"));
    assert!(
        error("jitter:low=3ms,high=2ms").ends_with("high: expected at least low, which is 3ms")
    );
    let nan = PathSpec::from(ElementSpec::policer(f64::NAN, 1e4));
    assert_eq!(
        nan.build(0).err().unwrap().to_string(),
        "policer: rate: expected a finite number"
    );
}

#[test]
fn numbers_are_written_in_the_largest_unit_that_is_exact() {
    for text in [
        "policer:rate=280M,burst=80kB",
        "policer:rate=283.4567891M,burst=51.2kB,overhead=14B",
        "fifo:rate=1.5G,limit=12.5packets,in-service=counted",
        "delay:time=1.5ms",
        "codel:rate=10k,marks",
    ] {
        assert_eq!(text.parse::<PathSpec>().unwrap().to_string(), text);
    }
}
