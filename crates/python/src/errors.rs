//! The base of the errors that users meet, which Python has too.

pyo3::import_exception!(whydrop.errors, Error);
