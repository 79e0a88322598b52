//! The boundary of the module: a panic in any of its functions and methods becomes one exception for users.
//!
//! PyO3 raises a `PanicException`, which `except Exception` does not catch, after the panic has printed its own lines.

use pyo3::ffi;
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use whydrop_capture::{contain, latest_defect};

use crate::errors::DefectError;

/// A function or method of the module, behind the boundary.
#[pyclass(frozen, module = "whydrop._core")]
pub struct Guarded {
    inner: Py<PyAny>,
}

#[pymethods]
impl Guarded {
    #[pyo3(signature = (*positional, **named))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        positional: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let named = named.map_or(std::ptr::null_mut(), |named| named.as_ptr());
        // SAFETY: a callable, a tuple, and a dictionary or null.
        let call =
            || unsafe { ffi::PyObject_Call(self.inner.as_ptr(), positional.as_ptr(), named) };
        let result = contain(call).map_err(|defect| DefectError::new_err(worded(&defect)))?;
        if result.is_null() {
            return Err(raised(py));
        }
        // SAFETY: a new reference to the result.
        Ok(unsafe { Bound::from_owned_ptr(py, result) })
    }

    /// Binds a method to its object.
    fn __get__<'py>(
        slf: Bound<'py, Self>,
        instance: Option<Bound<'py, PyAny>>,
        _owner: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match instance {
            None => Ok(slf.into_any()),
            Some(instance) => {
                let types = slf.py().import("types")?;
                types.call_method1("MethodType", (slf, instance))
            }
        }
    }

    /// Name, signature and documentation.
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.inner.bind(py).getattr(name)
    }
}

/// The exception of a call that failed. That of a panic is not fetched, as PyO3 would resume the panic.
fn raised(py: Python<'_>) -> PyErr {
    // SAFETY: an exception is set, and the type is an exception's.
    let is_panic =
        unsafe { ffi::PyErr_ExceptionMatches(py.get_type::<PanicException>().as_ptr()) } != 0;
    if !is_panic {
        return PyErr::fetch(py);
    }
    // SAFETY: this thread is attached to the interpreter.
    unsafe { ffi::PyErr_Clear() };
    let words = latest_defect().map(|defect| worded(&defect));
    DefectError::new_err(
        words.unwrap_or_else(|| "a defect of whydrop. Please report it".to_owned()),
    )
}

fn worded(defect: &whydrop_capture::Defect) -> String {
    format!("{defect}. Please report it, with this line and what you called")
}

/// Puts all functions of the module, and all methods of its classes, behind the boundary.
pub fn guard(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let types = py.import("types")?;
    let function = types.getattr("BuiltinFunctionType")?;
    let method = types.getattr("MethodDescriptorType")?;
    let guarded = |inner: Bound<'_, PyAny>| Guarded {
        inner: inner.unbind(),
    };
    for (name, member) in module.dict() {
        if member.is_instance(&function)? {
            module.setattr(name.cast::<PyString>()?, guarded(member))?;
        } else if let Ok(class) = member.cast::<PyType>() {
            // a mapping that follows the class
            let members = class.getattr("__dict__")?.call_method0("copy")?;
            for (name, member) in members.cast::<PyDict>()? {
                if member.is_instance(&method)? {
                    class.setattr(name.cast::<PyString>()?, guarded(member))?;
                }
            }
        }
    }
    Ok(())
}

/// Panics, in builds with assertions only: for the test of the boundary.
#[cfg(debug_assertions)]
#[pyfunction]
pub fn _panic(words: &str) -> PyResult<()> {
    panic!("{words}");
}

/// An object with a method that panics.
#[cfg(debug_assertions)]
#[pyclass(module = "whydrop._core")]
pub struct _Panicking;

#[cfg(debug_assertions)]
#[pymethods]
impl _Panicking {
    #[new]
    fn new() -> Self {
        Self
    }

    fn panics(&self, words: &str) {
        panic!("{words}");
    }
}
