//! JSON as Python objects and back, equivalent to `json.loads` and `json.dumps`: importing Python's `json`
//! takes longer than the analysis of a small capture.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufWriter};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};

/// Reads one JSON value. Objects keep the order of their keys.
pub fn loads<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let texts = Texts::default();
    Read { py, texts: &texts }
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// JSON text of a value made of dictionaries with string keys, lists, tuples, strings, numbers, booleans and
/// `None`. A number that is not finite becomes `null`, since JSON has none (RFC 8259, section 6).
#[pyfunction]
#[pyo3(signature = (value, *, pretty = false))]
pub fn dumps(value: &Bound<'_, PyAny>, pretty: bool) -> PyResult<String> {
    let text = if pretty {
        serde_json::to_string_pretty(&Write(value))
    } else {
        serde_json::to_string(&Write(value))
    };
    text.map_err(|error| PyTypeError::new_err(error.to_string()))
}

/// Writes the text of [`dumps`] to a binary file in pieces: the document of a flood is large and need not be
/// in memory as a whole. An exception that the file raises is raised here.
#[pyfunction]
#[pyo3(signature = (value, file, *, pretty = false))]
pub fn dump(value: &Bound<'_, PyAny>, file: &Bound<'_, PyAny>, pretty: bool) -> PyResult<()> {
    let mut raised = None;
    let to = Pieces {
        file,
        raised: &mut raised,
    };
    let mut to = BufWriter::with_capacity(PIECE_BYTES, to);
    let written = if pretty {
        serde_json::to_writer_pretty(&mut to, &Write(value))
    } else {
        serde_json::to_writer(&mut to, &Write(value))
    };
    let written = written.map_err(|error| PyTypeError::new_err(error.to_string()));
    let flushed = written.and_then(|()| Ok(io::Write::flush(&mut to)?));
    // dropping the writer would try to write the rest to the file that just refused it
    drop(to.into_parts());
    raised.map_or(flushed, Err)
}

const PIECE_BYTES: usize = 1 << 16;

/// A binary file of Python's, and the exception that it raised.
struct Pieces<'a, 'py> {
    file: &'a Bound<'py, PyAny>,
    raised: &'a mut Option<PyErr>,
}

impl io::Write for Pieces<'_, '_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let bytes = PyBytes::new(self.file.py(), piece);
        match self.file.call_method1("write", (bytes,)) {
            Ok(_) => Ok(piece.len()),
            Err(error) => {
                *self.raised = Some(error);
                Err(io::Error::other("the file accepts no more data"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Each string that was read, stored once: objects of a list repeat the keys of the one before, and separate
/// key objects would take more memory than the values.
type Texts<'py> = RefCell<HashMap<Box<str>, Bound<'py, PyString>>>;

#[derive(Clone, Copy)]
struct Read<'a, 'py> {
    py: Python<'py>,
    texts: &'a Texts<'py>,
}

impl<'py> Read<'_, 'py> {
    fn object<T: IntoPyObject<'py>, E: serde::de::Error>(
        self,
        value: T,
    ) -> Result<Bound<'py, PyAny>, E> {
        value
            .into_bound_py_any(self.py)
            .map_err(|error| E::custom(error))
    }

    fn text(self, text: &str) -> Bound<'py, PyAny> {
        let mut texts = self.texts.borrow_mut();
        if let Some(known) = texts.get(text) {
            return known.clone().into_any();
        }
        let new = PyString::new(self.py, text);
        texts.insert(text.into(), new.clone());
        new.into_any()
    }
}

impl<'de, 'py> DeserializeSeed<'de> for Read<'_, 'py> {
    type Value = Bound<'py, PyAny>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de, 'py> Visitor<'de> for Read<'_, 'py> {
    type Value = Bound<'py, PyAny>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(self.py.None().into_bound(self.py))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Self::Value, E> {
        self.object(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Self::Value, E> {
        self.object(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
        self.object(value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
        self.object(value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(self.text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let list = PyList::empty(self.py);
        while let Some(entry) = entries.next_element_seed(self)? {
            list.append(entry).map_err(A::Error::custom)?;
        }
        Ok(list.into_any())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let dict = PyDict::new(self.py);
        while let Some(name) = entries.next_key_seed(self)? {
            dict.set_item(name, entries.next_value_seed(self)?)
                .map_err(A::Error::custom)?;
        }
        Ok(dict.into_any())
    }
}

struct Write<'a, 'py>(&'a Bound<'py, PyAny>);

impl Serialize for Write<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let value = self.0;
        if value.is_none() {
            to.serialize_unit()
        } else if let Ok(text) = value.cast::<PyString>() {
            to.serialize_str(&text.to_string_lossy())
        } else if let Ok(truth) = value.cast::<PyBool>() {
            to.serialize_bool(truth.is_true())
        } else if value.is_instance_of::<PyInt>() {
            match value.extract::<i64>() {
                Ok(number) => to.serialize_i64(number),
                Err(_) => to.serialize_u64(value.extract().map_err(S::Error::custom)?),
            }
        } else if let Ok(number) = value.cast::<PyFloat>() {
            to.serialize_f64(number.value())
        } else if let Ok(dict) = value.cast::<PyDict>() {
            to.collect_map(dict.iter().map(|(name, entry)| (Text(name), Owned(entry))))
        } else if let Ok(list) = value.cast::<PyList>() {
            to.collect_seq(list.iter().map(Owned))
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            to.collect_seq(tuple.iter().map(Owned))
        } else {
            Err(S::Error::custom(format!("no JSON for {value}")))
        }
    }
}

struct Owned<'py>(Bound<'py, PyAny>);

impl Serialize for Owned<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Write(&self.0).serialize(to)
    }
}

/// The key of an entry, which is a string.
struct Text<'py>(Bound<'py, PyAny>);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let text = self.0.cast::<PyString>().map_err(S::Error::custom)?;
        to.serialize_str(&text.to_string_lossy())
    }
}
