//! Findings of a producer: a cause, its place, its flows, its likelihood, and the facts behind it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cause::Cause;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlaceKind {
    Before,
    Between,
    Beyond,
    Path,
    Sender,
    Receiver,
    ThisHost,
    /// The other end of one of whydrop's own tests, in either direction of its data: the responder.
    FarEnd,
    SwitchPort,
}

/// A place on the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub kind: PlaceKind,
    /// Numbers of captures, from 1: the capture that the place is before or beyond, or the two that it is
    /// between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Name of a host, switch or port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Place {
    pub fn of(kind: PlaceKind, points: &[usize]) -> Self {
        Self {
            kind,
            points: points.to_vec(),
            direction: None,
            name: None,
        }
    }
}

/// A measured value; its name carries the unit. `low` and `high` bound a 95 % interval; an open end is
/// `None`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl Quantity {
    /// The quantity with infinite bounds opened; `None` if the value is not finite.
    pub fn finite(self) -> Option<Self> {
        let bound = |bound: Option<f64>| bound.filter(|bound| bound.is_finite());
        self.value.is_finite().then(|| Self {
            low: bound(self.low),
            high: bound(self.high),
            ..self
        })
    }
}

/// The subject of a finding. Findings with equal subjects compete and add up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Subject {
    pub flows: Vec<String>,
    /// Positions of the captures at both ends of the hop.
    pub hop: Option<[usize; 2]>,
    /// The time span in seconds since the Unix epoch; `None` for the whole record.
    pub start_s: Option<f64>,
    pub end_s: Option<f64>,
}

/// A value in a fact: a number, a name, or a list of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Null,
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(Cow<'static, str>),
    List(Vec<Value>),
}

impl From<f64> for Value {
    /// Convert a number; one that is not finite becomes unknown.
    fn from(number: f64) -> Self {
        if number.is_finite() {
            Self::Number(number)
        } else {
            Self::Null
        }
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or(Self::Number(number as f64), Self::Integer)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        (number as u64).into()
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// One line of evidence as data: a code, numbers with the unit in their names, and the packets that show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    pub code: Cow<'static, str>,
    #[serde(default)]
    pub values: BTreeMap<Cow<'static, str>, Value>,
    /// Numbers of packets in the capture, from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<u64>,
}

impl Fact {
    pub fn new(code: &'static str) -> Self {
        Self {
            code: code.into(),
            values: BTreeMap::new(),
            packets: Vec::new(),
        }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.values.insert(name.into(), value.into());
        self
    }

    /// The number of this name.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.values.get(name)? {
            Value::Integer(number) => Some(*number as f64),
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// `fact!("code", rate_bps = 1e6, lost = 7_u64)`
#[macro_export]
macro_rules! fact {
    ($code:expr $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::Fact::new($code)$(.with(stringify!($name), $value))*
    };
}

/// The account that one producer gives of one cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub subject: Subject,
    #[serde(default)]
    pub place: Option<Place>,
    pub cause: Cause,
    /// The kind of the cause: a family of queue management, or what limited the sender.
    #[serde(default)]
    pub detail: Option<String>,
    /// Log-likelihood of the evidence against the background in nats, less the cost of fitted parameters.
    #[serde(default)]
    pub nats: f64,
    /// The reason that rules the cause out, if one does.
    #[serde(default)]
    pub veto: Option<Fact>,
    /// Losses of the subject, the share of them that the cause accounts for, and the share of the time that
    /// it limits.
    #[serde(default)]
    pub lost: u64,
    #[serde(default)]
    pub explained: f64,
    #[serde(default)]
    pub limited_share: f64,
    #[serde(default)]
    pub quantities: BTreeMap<String, Quantity>,
    #[serde(default)]
    pub facts: Vec<Fact>,
    /// `capture`, `pair`, `recording` ...
    pub source: Cow<'static, str>,
}

impl Finding {
    /// A finding without evidence yet.
    pub fn new(source: &'static str, subject: Subject, place: Option<Place>, cause: Cause) -> Self {
        Self {
            subject,
            place,
            cause,
            detail: None,
            nats: 0.0,
            veto: None,
            lost: 0,
            explained: 0.0,
            limited_share: 0.0,
            quantities: BTreeMap::new(),
            facts: Vec::new(),
            source: source.into(),
        }
    }
}
