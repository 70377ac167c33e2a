//! The only `unsafe` code of this crate. It makes the function objects that replace the driver's
//! functions. It also serializes and makes values as the driver does, but through CPython's C
//! layouts.
#![allow(unsafe_code, reason = "the only module of this crate that may have it")]

pub mod address;
pub mod attribute;
pub mod batch_body;
pub mod call;
pub mod cassandra_util;
pub mod dialect;
pub mod instance;
pub mod operators;
pub mod record;
pub mod socket;
pub mod version;

use pyo3::prelude::*;
use turbocql_values::ffi::quick_path::QuickPath;

/// Decides which of the accelerator's own quick paths are on. A quick path uses C layouts or
/// private functions of CPython, so it is on only if its probe finds them as expected.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    QuickPath::Attributes.decide(py, record::probe_attributes)?;
    QuickPath::Lookups.decide(py, attribute::probe_lookups)?;
    QuickPath::Versions.decide(py, version::probe_versions)?;
    Ok(())
}
