//! Gathering item by item: an item that cannot be read does not cost the others.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Map, Value};

/// Longer reasons are cut.
const LONGEST_REASON: usize = 200;

/// The items that were found, and the reasons for those that were not.
#[derive(Default)]
pub struct Items {
    pub found: Map<String, Value>,
    pub missing: Vec<String>,
}

impl Items {
    /// Puts an item under its name; notes the reason if there is none.
    pub fn add(&mut self, name: &str, item: io::Result<Value>) {
        if let Some(value) = self.noted(name, item).filter(|value| !value.is_null()) {
            self.found.insert(name.to_owned(), value);
        }
    }

    /// Returns the result of a step; notes the reason if it failed.
    pub fn noted<T>(&mut self, name: &str, result: io::Result<T>) -> Option<T> {
        result
            .map_err(|error| self.missing.push(format!("{name}: {}", reason(&error))))
            .ok()
    }

    pub fn into_document(self) -> Map<String, Value> {
        let mut document = self.found;
        document.insert("not_gathered".to_owned(), Value::from(self.missing));
        document
    }
}

/// The words of an error, on one line; of the system's errors without their number.
fn reason(error: &io::Error) -> String {
    let words = error.to_string();
    let words = match error.raw_os_error() {
        Some(number) => words
            .strip_suffix(&format!(" (os error {number})"))
            .unwrap_or(&words),
        None => &words,
    };
    let line: Vec<_> = words.split_whitespace().collect();
    line.join(" ").chars().take(LONGEST_REASON).collect()
}

/// Reads a file of one line.
///
/// # Errors
/// The file cannot be read.
pub fn line(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = fs::read(path)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Returns a number where the text is one.
pub fn whole_number(text: String) -> Value {
    if let Ok(number) = text.parse::<i64>() {
        return Value::from(number);
    }
    text.parse::<u64>()
        .map_or_else(|_| Value::from(text), Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_that_cannot_be_read_leaves_its_reason_and_the_others() {
        let mut items = Items::default();
        items.add("one", line("/no/such/file").map(Value::from));
        items.add("two", Err(io::Error::other("out of\n order")));
        items.add("three", Ok(Value::from(3)));
        items.add("four", Ok(Value::Null));
        let document = Value::Object(items.into_document());
        let reasons = ["one: No such file or directory", "two: out of order"];
        assert_eq!(document["not_gathered"], serde_json::json!(reasons));
        assert_eq!(document["three"], 3);
        assert_eq!(document.get("four"), None);
    }

    #[test]
    fn whole_numbers_are_numbers_and_the_rest_is_text() {
        for (text, expected) in [
            ("212992", serde_json::json!(212_992)),
            ("-1", serde_json::json!(-1)),
            ("18446744073709551615", serde_json::json!(u64::MAX)),
            ("4096\t131072", serde_json::json!("4096\t131072")),
        ] {
            assert_eq!(whole_number(text.to_owned()), expected);
        }
    }
}
