//! The text form: `fifo:rate=100M,limit=64packets+policer:rate=280M,burst=80kB`.
//!
//! Elements are joined by `+`, in the order in which packets meet them. A field is written without the unit
//! at the end of its name: `rate_bps` is `rate`, and `limit_packets` and `limit_bytes` are both `limit`, which the
//! unit of the value distinguishes. Rates are in bit/s, with `k`, `M` or `G`; sizes in `B`, `kB`, `MB`, `GB` or
//! `KiB`, `MiB`; times in `ns`, `us`, `ms` or `s`; shares are numbers or per cent. Flags need no value.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::{ElementSpec, Field, PathSpec, SpecError};

const JOINED_BY: char = '+';

/// A unit: its name, and the power of ten and the factor that it stands for.
pub(super) type Unit = (&'static str, i32, f64);

// The largest first. Those with a factor are read but not written.
const RATES: &[Unit] = &[("G", 9, 1.0), ("M", 6, 1.0), ("k", 3, 1.0), ("", 0, 1.0)];
const SIZES: &[Unit] = &[
    ("GB", 9, 1.0),
    ("MB", 6, 1.0),
    ("kB", 3, 1.0),
    ("B", 0, 1.0),
    ("MiB", 0, 1_048_576.0),
    ("KiB", 0, 1_024.0),
];
const TIMES: &[Unit] = &[
    ("s", 9, 1.0),
    ("ms", 6, 1.0),
    ("us", 3, 1.0),
    ("ns", 0, 1.0),
];
const PACKETS: &[Unit] = &[("packets", 0, 1.0), ("packet", 0, 1.0), ("", 0, 1.0)];
const SHARES: &[Unit] = &[("", 0, 1.0), ("%", -2, 1.0)];
const COUNTS: &[Unit] = &[("", 0, 1.0)];

/// The end of a field's name, its units and the values expected.
const UNITS: &[(&str, &[Unit], &str)] = &[
    ("_bps", RATES, "a rate in bit/s, such as 280M"),
    ("_bytes", SIZES, "a size with its unit, such as 80kB"),
    (
        "_packets",
        PACKETS,
        "a number of packets, such as 100packets",
    ),
    ("_ns", TIMES, "a time with its unit, such as 5ms"),
];

/// The units of a field and the values that it expects.
fn units(field: &str) -> Option<(&'static [Unit], &'static str)> {
    let of_name = UNITS.iter().find(|(suffix, ..)| field.ends_with(suffix));
    of_name.map(|&(_, units, expected)| (units, expected))
}

/// The same of a field that may have no unit in its name.
pub(super) fn units_of(field: &Field) -> (&'static [Unit], &'static str) {
    let plain = match is_fraction(field) {
        true => (SHARES, "a number from 0 to 1, or per cent"),
        false => (COUNTS, "a whole number"),
    };
    units(field.name).unwrap_or(plain)
}

fn is_fraction(field: &Field) -> bool {
    field.kind.contains("f64")
}

/// The words that a field takes, if it takes no number.
pub(super) fn choices(field: &Field) -> Option<(&'static [&'static str], &'static str)> {
    match field.kind {
        "InService" => Some((&["counted", "not-counted"], "counted or not-counted")),
        "Colour" => Some((&["green", "yellow", "red"], "green, yellow or red")),
        _ => None,
    }
}

/// The name of a field in the text form.
pub(super) fn key(field: &str) -> String {
    let suffix = UNITS
        .iter()
        .find_map(|(suffix, ..)| field.strip_suffix(suffix));
    suffix.unwrap_or(field).replace('_', "-")
}

/// A value as the text form has it: in the largest unit from which exactly the same number is read.
pub(super) fn written(field: &str, value: &Value) -> String {
    let Some(number) = value.as_f64() else {
        return value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
    };
    let whole = whole(number);
    let same = Some(if value.is_u64() { value } else { &whole });
    let digits = |exponent: i32| shifted(number, exponent);
    let units = units(field).map_or(COUNTS, |(units, _)| units);
    let fits = |&&(_, exponent, factor): &&Unit| {
        let in_unit = exponent > 0 && factor == 1.0 && number >= 10f64.powi(exponent);
        in_unit && number_in(&digits(exponent), exponent, 1.0).as_ref() == same
    };
    match units.iter().find(fits) {
        Some((unit, exponent, _)) => format!("{}{unit}", digits(*exponent)),
        None => {
            let plain = units
                .iter()
                .find(|unit| unit.1 == 0)
                .map_or("", |unit| unit.0);
            let digits = value
                .as_u64()
                .map_or_else(|| number.to_string(), |whole| whole.to_string());
            format!("{digits}{plain}")
        }
    }
}

/// The decimal digits of a number divided by a power of ten; no division rounds them.
fn shifted(number: f64, exponent: i32) -> String {
    let scientific = format!("{number:e}");
    let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power = power.parse::<i32>().unwrap_or(0) - exponent;
    let moved = format!("{digits}e{power}").parse::<f64>();
    moved.map_or_else(|_| number.to_string(), |moved| moved.to_string())
}

pub(super) fn time(time_ns: u64) -> String {
    written("_ns", &Value::from(time_ns))
}

/// A number as JSON has it: an integer if it is one.
fn whole(number: f64) -> Value {
    match number.fract() == 0.0 && (0.0..2f64.powi(53)).contains(&number) {
        true => Value::from(number as u64),
        false => Value::from(number),
    }
}

/// The number with these digits in a unit.
fn number_in(digits: &str, exponent: i32, factor: f64) -> Option<Value> {
    let plain = |digit: char| digit.is_ascii_digit() || digit == '.';
    if !digits.chars().all(plain) {
        return None;
    }
    if exponent == 0
        && factor == 1.0
        && let Ok(integer) = digits.parse::<u64>()
    {
        return Some(Value::from(integer));
    }
    // the exponent as digits: rounded once
    let number: f64 = format!("{digits}e{exponent}").parse().ok()?;
    (number * factor)
        .is_finite()
        .then(|| whole(number * factor))
}

impl fmt::Display for PathSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        for (place, element) in self.elements.iter().enumerate() {
            if place > 0 {
                write!(formatter, "{JOINED_BY}")?;
            }
            element.fmt(formatter)?;
        }
        Ok(())
    }
}

impl fmt::Display for ElementSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(self.name())?;
        let values = self.values();
        let mut before = ':';
        for field in Self::fields(self.name()).unwrap_or_default() {
            if let Some(value) = values.get(field.name) {
                write!(formatter, "{before}{}", key(field.name))?;
                if *value != Value::Bool(true) {
                    write!(formatter, "={}", written(field.name, value))?;
                }
                before = ',';
            }
        }
        Ok(())
    }
}

impl FromStr for PathSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let elements = text.split(JOINED_BY).map(str::parse);
        Ok(Self {
            elements: elements.collect::<Result<_, _>>()?,
        })
    }
}

impl FromStr for ElementSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        let fault = |field: &str, message: String| SpecError {
            element: format!("{text:?}"),
            field: field.to_owned(),
            message,
        };
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let fields = Self::fields(name).ok_or_else(|| {
            fault(
                "",
                format!(
                    "{name:?} is no element: expected one of {}",
                    Self::NAMES.join(", ")
                ),
            )
        })?;
        let mut values = Map::from_iter([("element".to_owned(), Value::from(name))]);
        for setting in settings
            .split(',')
            .map(str::trim)
            .filter(|setting| !setting.is_empty())
        {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            let (field, value) = read(fields, key, value).map_err(|message| fault(key, message))?;
            if values.insert(field.to_owned(), value).is_some() {
                return Err(fault(key, "is given twice".to_owned()));
            }
        }
        let mut missing = fields
            .iter()
            .filter(|field| field.required && !values.contains_key(field.name));
        if let Some(field) = missing.next() {
            let expected = units(field.name).map_or("a number", |(_, expected)| expected);
            return Err(fault(
                &key(field.name),
                format!("is missing: expected {expected}"),
            ));
        }
        serde_json::from_value(Value::Object(values)).map_err(|error| fault("", error.to_string()))
    }
}

impl ElementSpec {
    /// The same element with one field set, both as the text form has them. Of several fields of that name, such as a
    /// limit in packets and one in bytes, it replaces all.
    ///
    /// # Errors
    /// It has no such field, or the value is not one of it.
    pub fn with(&self, key_of_field: &str, value: &str) -> Result<Self, SpecError> {
        let fault = |message| SpecError {
            element: self.name().to_owned(),
            field: key_of_field.to_owned(),
            message,
        };
        let fields = Self::fields(self.name()).unwrap_or_default();
        let (name, value) = read(fields, key_of_field, value).map_err(fault)?;
        let mut values = self.values();
        for field in fields
            .iter()
            .filter(|field| key(field.name) == key_of_field)
        {
            values.remove(field.name);
        }
        values.insert("element".to_owned(), Value::from(self.name()));
        values.insert(name.to_owned(), value);
        serde_json::from_value(Value::Object(values)).map_err(|error| fault(error.to_string()))
    }
}

/// The field that a setting concerns, and its value.
fn read(fields: &[Field], wanted: &str, value: &str) -> Result<(&'static str, Value), String> {
    let mut expected = Vec::new();
    for field in fields.iter().filter(|field| key(field.name) == wanted) {
        match read_value(field, value) {
            Ok(value) => return Ok((field.name, value)),
            Err(message) => expected.push(message),
        }
    }
    if expected.is_empty() {
        let mut keys: Vec<String> = fields.iter().map(|field| key(field.name)).collect();
        keys.dedup();
        return Err(format!(
            "is not a field of this element: expected one of {}",
            keys.join(", ")
        ));
    }
    Err(format!("{value:?}: expected {}", expected.join(", or ")))
}

fn read_value(field: &Field, value: &str) -> Result<Value, &'static str> {
    if field.kind == "bool" {
        return match value {
            "" | "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err("no value, or true or false"),
        };
    }
    if let Some((choices, expected)) = choices(field) {
        return choices
            .contains(&value)
            .then(|| Value::from(value))
            .ok_or(expected);
    }
    let (units, expected) = units_of(field);
    let split = value
        .trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.')
        .len();
    let (digits, unit) = value.split_at(split);
    let unit = match unit.trim() {
        "µs" => "us",
        unit if field.name.ends_with("_bps") => {
            unit.trim_end_matches("bit/s").trim_end_matches("bit")
        }
        unit => unit,
    };
    let named = units
        .iter()
        .find(|(name, ..)| *name == unit)
        .ok_or(expected)?;
    let number = number_in(digits, named.1, named.2).ok_or(expected)?;
    if is_fraction(field) || number.is_u64() {
        Ok(number)
    } else {
        Err(expected)
    }
}
