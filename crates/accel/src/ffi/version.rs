//! Reads the versions of classes and of dicts, which show whether they have changed.

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

/// Whether this version of CPython has versions of dicts. Since 3.13, the field has another purpose.
pub const DICTS_HAVE_VERSIONS: bool = cfg!(not(Py_3_13));

/// Returns the version of a dict. CPython gives a dict a new version with each change, and never
/// gives two dicts, or one dict twice, the same version.
///
/// Returns 0 if the quick path is off, or if the interpreter has no versions of dicts.
pub fn of_dict(dict: &Bound<'_, PyDict>) -> u64 {
    if QuickPath::Versions.is_on() { dict_number(dict) } else { 0 }
}

#[cfg(not(Py_3_13))]
#[cfg_attr(Py_3_12, expect(deprecated, reason = "CPython 3.12 still has the versions"))]
fn dict_number(dict: &Bound<'_, PyDict>) -> u64 {
    // SAFETY: the `Bound` keeps `dict` alive, shows that it is a dict or of a subclass, which begins
    // with the same fields, and shows that the GIL is held, so the field can be read.
    // Tests: accel/test_bodies.py (versions_replaced_again_and_again), unit/test_quick_paths.py
    // (versions).
    unsafe { (*dict.as_ptr().cast::<ffi::PyDictObject>()).ma_version_tag }
}

#[cfg(Py_3_13)]
fn dict_number(_: &Bound<'_, PyDict>) -> u64 {
    0
}

/// Probes whether a change of a class, or of a base of it, changes the class's version, and whether
/// each change of a dict gives it a version that it did not have before.
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
    probe_dicts(py)
}

fn probe_dicts(py: Python<'_>) -> PyResult<Option<String>> {
    if !DICTS_HAVE_VERSIONS {
        return Ok(None);
    }
    let dict = PyDict::new(py);
    let mut versions = vec![0, dict_number(&PyDict::new(py))];
    dict.set_item("one", 1)?;
    let changes = [Some(2), None, Some(2), Some(3)];
    for value in changes {
        versions.push(dict_number(&dict));
        match value {
            Some(value) => dict.set_item("one", value)?,
            None => dict.del_item("one")?,
        }
        let is_new = !versions.contains(&dict_number(&dict));
        let wrong = probe::check_value(QuickPath::Versions, "a dict", is_new, true);
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    let before = dict_number(&dict);
    dict.get_item("one")?;
    Ok(probe::check_value(QuickPath::Versions, "a dict", dict_number(&dict) == before, true))
}
