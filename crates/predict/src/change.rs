//! Changes of a setting, as a user writes them: `policer.burst=200kB`, `aqm=fq-codel`, `cc=bbr`.

use std::fmt;

use whydrop_path::{ElementSpec, PathSpec, SpecError};

use crate::pace;
use crate::setting::{Control, Setting};

/// A change that cannot be made: the change as written, and what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeError {
    pub change: String,
    pub message: String,
    /// The path has nothing that could be changed so; another path may.
    pub is_missing: bool,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.change, self.message)
    }
}

impl std::error::Error for ChangeError {}

/// The reason why a change cannot be made.
enum Refusal {
    /// The path has no such element.
    Missing(String),
    Wrong(String),
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Refusal::Wrong(message)
    }
}

impl From<&str> for Refusal {
    fn from(message: &str) -> Self {
        Refusal::Wrong(message.to_owned())
    }
}

/// RFC 791: what every host takes; and the largest IP packet.
const LEAST_MTU_BYTES: f64 = 576.0;
const MOST_MTU_BYTES: f64 = 65_535.0;
/// Below, a full packet leaves once in a second or less often.
const LEAST_PACE_BPS: f64 = 10_000.0;

/// Applies one change.
///
/// # Errors
/// It is not understood, or the path has no such element.
pub fn change(setting: &mut Setting, text: &str) -> Result<(), ChangeError> {
    apply(setting, text).map_err(|refusal| {
        let (message, is_missing) = match refusal {
            Refusal::Missing(message) => (message, true),
            Refusal::Wrong(message) => (message, false),
        };
        ChangeError {
            change: text.to_owned(),
            message,
            is_missing,
        }
    })
}

fn apply(setting: &mut Setting, text: &str) -> Result<(), Refusal> {
    let (name, value) = text
        .split_once('=')
        .map(|(name, value)| (name.trim(), value.trim()))
        .ok_or("expected NAME=VALUE, such as cc=bbr or policer.burst=200kB")?;
    match name {
        "cc" => {
            let control = control(value)?;
            setting
                .flows
                .iter_mut()
                .for_each(|flow| flow.control = control);
        }
        "pace" => {
            let rate_bps = number("line", "rate", value)?;
            if rate_bps < LEAST_PACE_BPS {
                return Err("expected at least 10 kbit/s, such as 9M".into());
            }
            pace::share(setting, rate_bps);
        }
        "rtt" => setting.round_trip_ns = number("delay", "time", value)? as i64,
        "mtu" => change_mtu(setting, value)?,
        "aqm" => put_in(&mut setting.path, value)?,
        "path" => {
            setting.path = value
                .parse()
                .map_err(|error: SpecError| error.to_string())?;
        }
        _ => {
            let (element, field) = name.split_once('.').ok_or_else(|| unknown(&setting.path))?;
            set(&mut setting.path, element, field, value)?;
        }
    }
    setting.path.build(0).map_err(|error| error.to_string())?;
    Ok(())
}

fn unknown(path: &PathSpec) -> String {
    let elements: Vec<&str> = path.elements.iter().map(ElementSpec::name).collect();
    format!(
        "expected cc, pace, rtt, mtu, aqm, path or ELEMENT.FIELD with an element of the path ({})",
        elements.join(", ")
    )
}

fn control(value: &str) -> Result<Control, String> {
    let names = || Control::ALL.map(|(_, name)| name).join(", ");
    (Control::ALL.iter())
        .find(|(_, name)| *name == value)
        .map(|&(control, _)| control)
        .ok_or_else(|| format!("{value:?} is not simulated: expected one of {}", names()))
}

/// A number with its unit, read as a field of an element.
fn number(element: &str, field: &str, value: &str) -> Result<f64, String> {
    let read: ElementSpec = format!("{element}:{field}={value}")
        .parse()
        .map_err(|error: SpecError| error.message)?;
    match read {
        ElementSpec::Line { rate_bps, .. } => Ok(rate_bps),
        ElementSpec::Delay { time_ns } => Ok(time_ns as f64),
        _ => Err("no number".to_owned()),
    }
}

fn change_mtu(setting: &mut Setting, value: &str) -> Result<(), String> {
    let bytes: f64 = (value.trim_end_matches('B').parse())
        .ok()
        .filter(|bytes| (LEAST_MTU_BYTES..=MOST_MTU_BYTES).contains(bytes))
        .ok_or("expected bytes from 576 to 65535, such as 9000")?;
    for flow in &mut setting.flows {
        flow.mss_bytes = bytes as u64 - u64::from(flow.header_bytes);
    }
    Ok(())
}

/// Sets a field of the first element of this name; `queue` is the first that has a limit.
fn set(path: &mut PathSpec, name: &str, field: &str, value: &str) -> Result<(), Refusal> {
    let fits = |element: &ElementSpec| match name {
        "queue" => element.has_limit(),
        _ => element.name() == name.replace('_', "-"),
    };
    let place = path.elements.iter().position(fits);
    let missing = || Refusal::Missing(format!("the path has no {name}; {}", unknown(path)));
    let place = place.ok_or_else(missing)?;
    let changed = path.elements[place].with(field, value);
    path.elements[place] = changed.map_err(|error| match error.field.is_empty() {
        true => error.message,
        false => format!("{}: {}", error.field, error.message),
    })?;
    Ok(())
}

/// Replaces the first queue by queue management at the same rate.
fn put_in(path: &mut PathSpec, value: &str) -> Result<(), Refusal> {
    let missing = |message: &str| Refusal::Missing(message.to_owned());
    let place = (path.elements.iter())
        .position(ElementSpec::has_limit)
        .ok_or_else(|| missing("the path has no queue in which packets could be managed"))?;
    let element = &path.elements[place];
    let rate_bps = element
        .rate_bps()
        .ok_or_else(|| missing("the queue has no rate"))?;
    let name = value.replace('_', "-");
    let limit = match name.as_str() {
        "cake" => ",limit=4MB",
        "fq-codel" => ",limit=10240packets,linux",
        "fq-pie" => ",limit=10240packets,period=20ms,linux",
        "codel" => ",limit=1000packets,linux",
        // with 250 ticks a second, which most kernels have
        "pie" => ",limit=1000packets,period=20ms,linux",
        "dual-pi2" => ",limit=1000packets",
        _ => {
            return Err(format!(
                "{value:?} is no queue management that is simulated: expected fq_codel, codel, pie, fq_pie, cake or dual_pi2"
            )
            .into());
        }
    };
    let managed: ElementSpec = format!("{name}:rate={rate_bps}{limit}")
        .parse()
        .map_err(|error: SpecError| error.message)?;
    path.elements[place] = managed.with_overhead(path_overhead(element));
    Ok(())
}

fn path_overhead(element: &ElementSpec) -> u32 {
    PathSpec::from(element.clone()).overhead_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(path: &str, text: &str) -> Result<Setting, ChangeError> {
        let mut setting = Setting::one_flow(path.parse().unwrap(), 40_000_000);
        change(&mut setting, text).map(|()| setting)
    }

    fn path_after(path: &str, text: &str) -> String {
        changed(path, text).unwrap().path.to_string()
    }

    #[test]
    fn a_field_of_an_element_is_changed_and_the_others_stay() {
        let policer = "policer:rate=20M,burst=50kB";
        assert_eq!(
            path_after(policer, "policer.burst=200kB"),
            "policer:rate=20M,burst=200kB"
        );
        let queue = "line:rate=1G+fifo:rate=20M,limit=64packets";
        assert_eq!(
            path_after(queue, "queue.limit=300packets"),
            "line:rate=1G+fifo:rate=20M,limit=300packets"
        );
    }

    #[test]
    fn a_limit_in_bytes_replaces_one_in_packets() {
        assert_eq!(
            path_after("fifo:rate=20M,limit=64packets", "fifo.limit=90kB"),
            "fifo:rate=20M,limit=90kB"
        );
    }

    #[test]
    fn queue_management_takes_the_place_of_a_queue_at_its_rate() {
        assert_eq!(
            path_after("fifo:rate=20M,limit=64packets,overhead=14B", "aqm=fq_codel"),
            "fq-codel:rate=20M,limit=10240packets,linux,overhead=14B"
        );
        assert_eq!(
            path_after("fifo:rate=20M,limit=64packets", "aqm=pie"),
            "pie:rate=20M,limit=1000packets,period=20ms,linux"
        );
        assert!(changed("policer:rate=20M,burst=50kB", "aqm=fq_codel").is_err());
    }

    #[test]
    fn another_path_takes_the_place_of_the_whole_path() {
        let made = path_after(
            "policer:rate=20M,burst=50kB",
            "path=fifo:rate=20M,limit=64packets",
        );
        assert_eq!(made, "fifo:rate=20M,limit=64packets");
        assert!(changed("policer:rate=20M,burst=50kB", "path=nonsense").is_err());
    }

    #[test]
    fn senders_and_the_round_trip_are_changed() {
        let queue = "fifo:rate=20M,limit=64packets";
        assert_eq!(
            changed(queue, "cc=bbr").unwrap().flows[0].control,
            Control::Bbr
        );
        assert_eq!(
            changed(queue, "pace=9M").unwrap().flows[0].pace_bps,
            Some(9e6)
        );
        assert_eq!(
            changed(queue, "rtt=10ms").unwrap().round_trip_ns,
            10_000_000
        );
        assert_eq!(
            changed(queue, "mtu=9000").unwrap().flows[0].mss_bytes,
            8_948
        );
    }

    #[test]
    fn an_element_that_the_path_does_not_have_is_missing_and_a_value_is_wrong() {
        let is_missing = |text| {
            let error = changed("policer:rate=20M,burst=50kB", text).unwrap_err();
            error.is_missing
        };
        assert!(is_missing("fifo.rate=1M"));
        assert!(is_missing("queue.limit=3packets"));
        assert!(is_missing("aqm=fq_codel"));
        assert!(!is_missing("policer.rate=fast"));
        assert!(!is_missing("policer.rate=0"));
    }

    #[test]
    fn a_change_that_makes_no_sense_says_what_was_expected() {
        for (text, expected) in [
            ("nonsense", "NAME=VALUE"),
            ("cc=foo", "cubic, reno, bbr"),
            ("policer.rate=1M", "no policer"),
            ("fifo.length=3", "rate, limit"),
            ("fifo.rate=fast", "a rate in bit/s"),
            ("fifo.rate=0", "rate"),
            ("mtu=7", "576"),
            ("pace=0", "10 kbit/s"),
            ("aqm=magic", "fq_codel"),
            ("rtt=soon", "a time"),
            ("speed=3", "cc, pace, rtt"),
        ] {
            let error = changed("fifo:rate=20M,limit=64packets", text).unwrap_err();
            assert!(error.to_string().starts_with(text), "{error}");
            assert!(error.message.contains(expected), "{text}: {error}");
        }
    }
}
