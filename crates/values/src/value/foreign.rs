//! Values of classes of the package `cassandra` (scylla-driver, cassandra-driver). They are encoded
//! like values of turbocql's own classes.
//!
//! `cassandra.util` is looked up in `sys.modules` and never imported, because a value of its
//! classes can exist only after the module was loaded. All other supported classes are checked
//! first.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Whether the value is an instance of this class of `cassandra.util`.
pub fn is(value: &Bound<'_, PyAny>, class: &str) -> PyResult<bool> {
    let py = value.py();
    let modules = py.import(pyo3::intern!(py, "sys"))?.getattr(pyo3::intern!(py, "modules"))?;
    let module = match modules.cast::<PyDict>() {
        Ok(modules) => modules.get_item(pyo3::intern!(py, "cassandra.util"))?,
        Err(_) => None,
    };
    let class = match module {
        Some(module) => module.getattr_opt(class)?,
        None => None,
    };
    class.map_or(Ok(false), |class| value.is_instance(&class))
}

/// Returns an attribute of a value whose class is in `cassandra.util`.
pub fn part<'py, T>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    value.getattr(name)?.extract::<T>()
}
