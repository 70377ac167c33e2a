//! The Python classes and functions that the native core uses, each looked up once per process.
//!
//! `turbocql._native.imports` lists the module and attribute of each.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

macro_rules! imports {
    ($($name:ident,)*) => {
        $(
            pub fn $name<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
                static CELL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                CELL.get_or_try_init(py, || load(py, stringify!($name))).map(|it| it.bind(py))
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

#[cold]
fn load(py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
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
    apart,
    append_ready,
    batch,
    bulk_report,
    bytes_io,
    c_task,
    cancelled_error,
    column,
    column_description,
    config_error,
    context,
    cql_date,
    cql_duration,
    cql_time,
    cql_timestamp,
    dataclass_field,
    decimal,
    done_future,
    encode_error,
    error,
    error_from_codec,
    error_from_engine,
    error_in_batch,
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
    ready,
    real,
    record_class,
    release_held,
    row_maker,
    safe_uuid_unknown,
    start_notifying,
    tell,
    tell_rest,
    trace,
    unset,
    uuid,
}
