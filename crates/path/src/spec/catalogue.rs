//! The elements with their fields and units as data: from it, a form for a path can be made.

use serde_json::{Value, json};

use super::{ElementSpec, Field, text};

impl ElementSpec {
    /// The elements in JSON values: each has a `name` and `fields`. A field has its `name` in the text form, says
    /// whether it is `required`, and has `units`, each with its factor, `choices`, or neither if it is a flag.
    pub fn catalogue() -> Value {
        let element = |name: &&str| {
            let fields = Self::fields(name).unwrap_or_default();
            json!({ "name": name, "fields": fields.iter().map(described).collect::<Vec<_>>() })
        };
        Self::NAMES.iter().map(element).collect()
    }
}

fn described(field: &Field) -> Value {
    let mut described = json!({ "name": text::key(field.name), "required": field.required });
    if let Some((choices, _)) = text::choices(field) {
        described["choices"] = json!(choices);
    } else if field.kind != "bool" {
        let units = text::units_of(field).0.iter();
        described["units"] = units
            .map(|(name, exponent, factor)| json!([name, 10f64.powi(*exponent) * factor]))
            .collect();
    }
    described
}
