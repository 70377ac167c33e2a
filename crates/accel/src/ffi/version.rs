//! Whether a class has changed since it was looked at.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use turbocql_values::ffi::probe;
use turbocql_values::ffi::quick_path::QuickPath;

/// A number that CPython gives a class when it looks one of its attributes up, and takes away with
/// every change of the class or of its bases. No other state of a class has had the same number.
/// 0 where the class has none: changed since it was looked at, or too often.
pub fn of(class: &Bound<'_, PyType>) -> u32 {
    if QuickPath::Versions.is_on() { number(class) } else { 0 }
}

fn number(class: &Bound<'_, PyType>) -> u32 {
    // SAFETY: a class is alive as long as the reference to it, and the lock is held.
    unsafe { (*class.as_ptr().cast::<ffi::PyTypeObject>()).tp_version_tag }
}

/// Tries whether changes of a class, and of its base, take its number away.
pub fn probe_versions(py: Python<'_>) -> PyResult<Option<String>> {
    let base = py.eval(c"type('Base', (), {'one': 1})", None, None)?.cast_into::<PyType>()?;
    let class = py.get_type::<PyType>().call1(("Sample", (&base,), PyDict::new(py)))?;
    let class = class.cast_into::<PyType>()?;
    let mut known = Vec::new();
    for changed in [&base, &class, &base] {
        class.getattr("one")?;
        let before = number(&class);
        if before == 0 || known.contains(&before) {
            return Ok(Some("a class has no number of its own".to_owned()));
        }
        known.push(before);
        changed.setattr("one", known.len())?;
        let wrong = probe::read(QuickPath::Versions, "a class", number(&class) != before, true);
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    Ok(None)
}
