//! Reads class versions, which show whether a class has changed.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use turbocql_values::ffi::probe;
use turbocql_values::ffi::quick_path::QuickPath;

/// Returns the version of a class. CPython assigns a version when an attribute of the class is
/// looked up, and clears it when the class or one of its bases changes. No two classes have the
/// same version, and after a change a class never gets a version that it had before.
///
/// Returns 0 if the class has no version: because no attribute was looked up since the class was
/// made or changed, or because the class was changed so often that CPython assigns it no more
/// versions. Also returns 0 if the quick path is off.
pub fn of(class: &Bound<'_, PyType>) -> u32 {
    if QuickPath::Versions.is_on() { number(class) } else { 0 }
}

fn number(class: &Bound<'_, PyType>) -> u32 {
    // SAFETY: the `Bound` keeps `class` alive and shows that the GIL is held, so the field can be
    // read.
    // Tests: accel/test_bodies.py (versions_replaced_again_and_again), unit/test_quick_paths.py
    // (versions).
    unsafe { (*class.as_ptr().cast::<ffi::PyTypeObject>()).tp_version_tag }
}

/// Probes whether a change of a class, or of a base of it, changes the class's version.
pub fn probe_versions(py: Python<'_>) -> PyResult<Option<String>> {
    let base = py.eval(c"type('Base', (), {'one': 1})", None, None)?.cast_into::<PyType>()?;
    let class = py.get_type::<PyType>().call1(("Sample", (&base,), PyDict::new(py)))?;
    let class = class.cast_into::<PyType>()?;
    let mut versions = Vec::new();
    for changed in [&base, &class, &base] {
        class.getattr("one")?;
        let before = number(&class);
        if before == 0 || versions.contains(&before) {
            return Ok(Some("a class has no version of its own".to_owned()));
        }
        versions.push(before);
        changed.setattr("one", versions.len())?;
        let wrong =
            probe::check_value(QuickPath::Versions, "a class", number(&class) != before, true);
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    Ok(None)
}
