//! The errors that Python has too: the base of those that users meet, and that of defects.

pyo3::import_exception!(whydrop.errors, Error);
pyo3::import_exception!(whydrop.errors, DefectError);
