//! Looks up the Python classes and functions that the native core uses, each once per process.
//!
//! `turbocql._native.imports` has a table with the name, module and attribute of each class and
//! function. Each crate passes the names that it uses to `imports!`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Defines a function for each name. The function imports the name's object at its first call.
#[macro_export]
macro_rules! imports {
    ($($name:ident,)*) => {
        $(
            pub fn $name<'py>(
                py: ::pyo3::Python<'py>,
            ) -> ::pyo3::PyResult<&'py ::pyo3::Bound<'py, ::pyo3::PyAny>> {
                static CELL: ::pyo3::sync::PyOnceLock<::pyo3::Py<::pyo3::PyAny>> =
                    ::pyo3::sync::PyOnceLock::new();
                let load = || $crate::python::load(py, stringify!($name));
                CELL.get_or_try_init(py, load).map(|object| object.bind(py))
            }
        )*
    };
}

/// Imports the table of names. Called when the core is imported, so that the first use of a name
/// does not import the table.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    table(py).map(drop)
}

fn table(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static LOAD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let import =
        || Ok::<_, PyErr>(py.import("turbocql._native.imports")?.getattr("load")?.unbind());
    LOAD.get_or_try_init(py, import).map(|load| load.bind(py))
}

/// Imports the object for a name of the table. Only functions that `imports!` defines call it.
#[cold]
pub fn load(py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
    Ok(table(py)?.call1((name,))?.unbind())
}

/// NumPy dtypes, cached because NumPy is slow to look one up by name.
macro_rules! dtypes {
    ($($name:ident = $dtype:literal;)*) => {
        $(
            pub fn $name<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
                static CELL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                let make = || Ok::<_, PyErr>(numpy_dtype(py)?.call1(($dtype,))?.unbind());
                CELL.get_or_try_init(py, make).map(|object| object.bind(py))
            }
        )*
    };
}

dtypes! {
    numpy_float32 = "float32";
    numpy_float64 = "float64";
    numpy_int32 = "int32";
    numpy_int64 = "int64";
}

imports! {
    column,
    column_description,
    config_error,
    cql_date,
    cql_duration,
    cql_time,
    cql_timestamp,
    dataclass_field,
    decimal,
    did_you_mean,
    encode_error,
    error_from_codec,
    field_names,
    from_cassandra,
    frozen_map,
    ipv4_address,
    ipv6_address,
    is_stock,
    mapping,
    number,
    numpy_dtype,
    numpy_empty,
    real,
    record_class,
    row_maker,
    safe_uuid_unknown,
    unset,
    uuid,
}
