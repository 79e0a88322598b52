//! Display filters, parsed: `or` binds least, then `and`, then `not`; parentheses group.

use std::fmt;
use std::net::IpAddr;

use super::filter::{End, Expression, Field, Layer, Value};

/// Nesting that no person writes; it keeps the recursion bounded.
const MOST_LEVELS: usize = 64;

/// A filter that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    /// Byte offset in the filter.
    pub at: usize,
    pub message: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: {}", self.at + 1, self.message)
    }
}

impl std::error::Error for FilterError {}

pub(super) fn parse(text: &str) -> Result<Expression, FilterError> {
    let mut parser = Parser {
        tokens: tokens(text),
        next: 0,
        end: text.len(),
    };
    let found = parser.alternatives(0)?;
    match parser.peek() {
        None => Ok(found),
        Some(other) => Err(parser.expected(&format!("'and', 'or' or the end, not {other:?}"))),
    }
}

/// Words, and each of the characters that stand alone or in pairs, with the offsets where they begin.
fn tokens(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let pair = ["==", "!=", "&&", "||", ".."]
            .into_iter()
            .find(|pair| rest.starts_with(pair));
        let length = match first {
            _ if first.is_whitespace() => {
                at += first.len_utf8();
                continue;
            }
            _ if pair.is_some() => 2,
            '(' | ')' | '{' | '}' | ',' | '!' => 1,
            _ => word_length(rest),
        };
        found.push((at, &rest[..length]));
        at += length;
    }
    found
}

fn word_length(rest: &str) -> usize {
    let ends = |offset: usize, character: char| {
        character.is_whitespace()
            || "(){},!=&|".contains(character)
            || rest[offset..].starts_with("..")
    };
    let length = rest
        .char_indices()
        .find(|&(offset, character)| ends(offset, character))
        .map_or(rest.len(), |(offset, _)| offset);
    // A lone '=', '&' or '|' is a word that no field has.
    match length {
        0 => rest.chars().next().map_or(0, char::len_utf8),
        length => length,
    }
}

struct Parser<'a> {
    tokens: Vec<(usize, &'a str)>,
    next: usize,
    end: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.next).map(|(_, token)| *token)
    }

    fn takes(&mut self, wanted: &[&str]) -> bool {
        let found = self.peek().is_some_and(|token| wanted.contains(&token));
        self.next += usize::from(found);
        found
    }

    fn expected(&self, what: &str) -> FilterError {
        FilterError {
            at: self.tokens.get(self.next).map_or(self.end, |(at, _)| *at),
            message: format!("expected {what}"),
        }
    }

    fn alternatives(&mut self, level: usize) -> Result<Expression, FilterError> {
        let mut found = self.conditions(level)?;
        while self.takes(&["or", "||"]) {
            let right = self.conditions(level)?;
            found = Expression::Or(Box::new(found), Box::new(right));
        }
        Ok(found)
    }

    fn conditions(&mut self, level: usize) -> Result<Expression, FilterError> {
        let mut found = self.condition(level)?;
        while self.takes(&["and", "&&"]) {
            let right = self.condition(level)?;
            found = Expression::And(Box::new(found), Box::new(right));
        }
        Ok(found)
    }

    fn condition(&mut self, level: usize) -> Result<Expression, FilterError> {
        if level > MOST_LEVELS {
            return Err(self.expected("fewer levels of parentheses and 'not'"));
        }
        if self.takes(&["not", "!"]) {
            return Ok(Expression::Not(Box::new(self.condition(level + 1)?)));
        }
        if self.takes(&["("]) {
            let inner = self.alternatives(level + 1)?;
            return match self.takes(&[")"]) {
                true => Ok(inner),
                false => Err(self.expected("')'")),
            };
        }
        self.test()
    }

    fn test(&mut self) -> Result<Expression, FilterError> {
        if let Some(layer) = self.peek().and_then(protocol) {
            self.next += 1;
            return Ok(Expression::Protocol(layer));
        }
        let Some(field) = self.peek().and_then(field) else {
            return Err(self.expected(
                "a field (ip.addr, ip.src, ip.dst, ipv6.addr, tcp.port, tcp.srcport, tcp.dstport, udp.port, ...) or a \
                 protocol (ip, ipv6, tcp, udp, icmp, icmpv6)",
            ));
        };
        self.next += 1;
        if self.takes(&["==", "eq"]) {
            return Ok(Expression::Any(field, vec![self.value(field)?]));
        }
        if self.takes(&["!=", "ne"]) {
            return Ok(Expression::None(field, vec![self.value(field)?]));
        }
        match self.takes(&["in"]) {
            true => Ok(Expression::Any(field, self.set(field)?)),
            false => Err(self.expected("'==', '!=' or 'in' behind the field")),
        }
    }

    fn set(&mut self, field: Field) -> Result<Vec<Value>, FilterError> {
        if !self.takes(&["{"]) {
            return Err(self.expected("'{' and values, such as {80, 443}"));
        }
        let mut values = vec![self.value(field)?];
        while !self.takes(&["}"]) {
            if !self.takes(&[","]) {
                return Err(self.expected("',' or '}'"));
            }
            values.push(self.value(field)?);
        }
        Ok(values)
    }

    fn value(&mut self, field: Field) -> Result<Value, FilterError> {
        if matches!(field.layer, Layer::Tcp | Layer::Udp) {
            let first = self.port()?;
            return match self.takes(&[".."]) {
                true => Ok(Value::Ports(first..=self.port()?)),
                false => Ok(Value::Ports(first..=first)),
            };
        }
        let is_ipv4 = field.layer == Layer::Ip;
        let Some(value) = self.peek().and_then(|text| prefix(text, is_ipv4)) else {
            return Err(self.expected(match is_ipv4 {
                true => "an IPv4 address or prefix, such as 10.0.0.0/8",
                false => "an IPv6 address or prefix, such as 2001:db8::/32",
            }));
        };
        self.next += 1;
        Ok(value)
    }

    fn port(&mut self) -> Result<u16, FilterError> {
        let port = self.peek().and_then(|text| text.parse().ok());
        match port {
            Some(port) => {
                self.next += 1;
                Ok(port)
            }
            None => Err(self.expected("a port from 0 to 65535")),
        }
    }
}

fn prefix(text: &str, is_ipv4: bool) -> Option<Value> {
    let (address, bits) = text.split_once('/').unwrap_or((text, ""));
    let address: IpAddr = address.parse().ok()?;
    let most: u8 = if is_ipv4 { 32 } else { 128 };
    let bits = match text.contains('/') {
        true => bits.parse().ok()?,
        false => most,
    };
    (address.is_ipv4() == is_ipv4 && bits <= most).then_some(Value::Prefix(address, bits))
}

fn protocol(word: &str) -> Option<Layer> {
    Some(match word {
        "ip" => Layer::Ip,
        "ipv6" => Layer::Ipv6,
        "tcp" => Layer::Tcp,
        "udp" => Layer::Udp,
        "icmp" => Layer::Icmp,
        "icmpv6" => Layer::Icmpv6,
        _ => return None,
    })
}

fn field(word: &str) -> Option<Field> {
    let (layer, name) = word.split_once('.')?;
    let layer = protocol(layer)?;
    let end = match (layer, name) {
        (Layer::Ip | Layer::Ipv6, "addr") | (Layer::Tcp | Layer::Udp, "port") => End::Either,
        (Layer::Ip | Layer::Ipv6, "src") | (Layer::Tcp | Layer::Udp, "srcport") => End::Source,
        (Layer::Ip | Layer::Ipv6, "dst") | (Layer::Tcp | Layer::Udp, "dstport") => End::Destination,
        _ => return None,
    };
    Some(Field { layer, end })
}
