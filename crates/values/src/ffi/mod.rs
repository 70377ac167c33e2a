//! The only `unsafe` code of this crate: it reads and makes CPython's objects through their C
//! layouts.
//!
//! Each quick path here has a safe path, usually in [`value`](crate::value). The safe path runs for
//! values that the quick path does not take, on interpreters that [`quick_path`] does not list as
//! tested, and after a failed probe. It also runs while [`quick_path::force_safe`] is on. The tests
//! run both paths.
#![allow(unsafe_code, reason = "the only module of this crate that may have it")]

pub mod append;
pub mod buffer;
pub mod bytes;
pub mod collections;
mod decimal;
pub mod decode;
pub mod dialect;
pub mod encode;
pub mod held;
pub mod int;
pub mod interpreter;
pub mod make;
pub mod method;
pub mod numpy;
pub mod object;
pub mod probe;
pub mod quick_path;
pub mod rows;
pub mod scalar;
mod sink;
pub mod slots;
pub mod symbol;
pub mod vector;

use pyo3::prelude::*;
use pyo3::types::PyTzInfo;
use quick_path::QuickPath;

/// Decides which quick paths are on. Also looks up the Python objects that this module needs, so
/// that no import runs Python code while borrowed objects are read.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    PyTzInfo::utc(py)?;
    QuickPath::Encode.decide(py, |py| {
        let wrong = int::probe_digits(py)?;
        if wrong.is_some() { Ok(wrong) } else { object::probe_objects(py) }
    })?;
    QuickPath::Sets.decide(py, collections::probe_sets)?;
    QuickPath::Decimals.decide(py, decimal::probe)?;
    // The probe of arrays runs later, at the first call of `numpy::learn` after NumPy was imported.
    QuickPath::Arrays.decide(py, |_| Ok(None))?;
    QuickPath::BigInts.decide(py, int::probe_large)?;
    QuickPath::Records.decide(py, make::probe_records)?;
    QuickPath::Rows.decide(py, rows::probe_rows)?;
    QuickPath::Decode.decide(py, decode::probe_decode)?;
    slots::probe(py)
}
