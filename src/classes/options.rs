//! Per-request options, and a session's configuration, from Python values.

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::PyBool;
use turbocql_engine::{Consistency, PagingState, RequestOptions, SerialConsistency};

use crate::error::raise_engine;
use turbocql_values::error::config_error;
use turbocql_values::value::describe::describe;

/// What a call may say about its request; absent means the session's setting.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CallOptions<'py> {
    pub consistency: Option<Bound<'py, PyAny>>,
    pub serial_consistency: Option<Bound<'py, PyAny>>,
    pub timeout_s: Option<Bound<'py, PyAny>>,
    pub page_size: Option<Bound<'py, PyAny>>,
    pub timestamp: Option<Bound<'py, PyAny>>,
    pub idempotent: Option<Bound<'py, PyAny>>,
    pub tracing: Option<Bound<'py, PyAny>>,
    pub profile: Option<Bound<'py, PyAny>>,
    pub paging_state: Option<Bound<'py, PyAny>>,
}

impl CallOptions<'_> {
    pub fn parse(&self) -> PyResult<RequestOptions> {
        Ok(RequestOptions {
            consistency: self.consistency.as_ref().map(consistency).transpose()?,
            serial_consistency: self
                .serial_consistency
                .as_ref()
                .map(serial_consistency)
                .transpose()?,
            timeout: self.timeout_s.as_ref().map(timeout).transpose()?,
            page_size: self.page_size.as_ref().map(page_size).transpose()?,
            timestamp: self.timestamp.as_ref().map(timestamp).transpose()?,
            idempotent: self.idempotent.as_ref().map(|it| flag("idempotent", it)).transpose()?,
            tracing: self.tracing.as_ref().map(|it| flag("tracing", it)).transpose()?,
            profile: self.profile.as_ref().map(profile).transpose()?,
            paging: self.paging_state.as_ref().map(paging_state).transpose()?,
        })
    }
}

pub fn consistency(value: &Bound<'_, PyAny>) -> PyResult<Consistency> {
    let name: String = value.extract().map_err(|_| {
        PyTypeError::new_err("consistency must be a turbocql.Consistency or its name")
    })?;
    name.parse().map_err(|error| raise_engine(value.py(), &error))
}

pub fn serial_consistency(value: &Bound<'_, PyAny>) -> PyResult<SerialConsistency> {
    let name: String = value.extract().map_err(|_| {
        PyTypeError::new_err("serial_consistency must be a turbocql.Consistency or its name")
    })?;
    name.parse().map_err(|error| raise_engine(value.py(), &error))
}

/// Longer timeouts than this, some thirty years, are none.
const FOREVER_S: f64 = 1e9;

/// Seconds above zero; infinity for no limit.
pub fn timeout(value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    if value.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err("timeout_s must be a number of seconds, got a bool"));
    }
    let seconds: f64 = match value.extract() {
        Ok(seconds) => seconds,
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => {
            if value.lt(0)? {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            }
        }
        Err(_) => return Err(PyTypeError::new_err("timeout_s must be a number of seconds")),
    };
    if seconds > FOREVER_S {
        return Ok(None);
    }
    if seconds.is_nan() || seconds <= 0.0 {
        let reason = format!("timeout_s must be above 0, got {seconds:?}");
        return Err(config_error(value.py(), &reason));
    }
    Ok(Some(Duration::from_secs_f64(seconds).max(Duration::from_nanos(1))))
}

fn timestamp(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let what = "timestamp must be an int of microseconds since 1970";
    if value.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err(format!("{what}, got a bool")));
    }
    let time: i64 = value.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            config_error(value.py(), "timestamp must fit 64 bits")
        } else {
            PyTypeError::new_err(what)
        }
    })?;
    if time == i64::MIN {
        return Err(config_error(value.py(), "timestamp must be above -2**63, got -2**63"));
    }
    Ok(time)
}

fn flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.extract().map_err(|_| PyTypeError::new_err(format!("{name} must be a bool")))
}

fn profile(value: &Bound<'_, PyAny>) -> PyResult<Arc<str>> {
    let name: PyBackedStr = value
        .extract()
        .map_err(|_| PyTypeError::new_err("profile must be the name of one of Config.profiles"))?;
    Ok(Arc::from(&*name))
}

fn paging_state(value: &Bound<'_, PyAny>) -> PyResult<PagingState> {
    let state: PyBackedBytes = value
        .extract()
        .map_err(|_| PyTypeError::new_err("paging_state must be the bytes of Rows.paging_state"))?;
    Ok(PagingState::from_bytes(&*state))
}

pub fn page_size(value: &Bound<'_, PyAny>) -> PyResult<i32> {
    if value.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err("page_size must be a number of rows, got a bool"));
    }
    let rows = match value.extract::<i64>() {
        Ok(rows) => i32::try_from(rows).ok().filter(|&rows| rows > 0),
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => None,
        Err(_) => return Err(PyTypeError::new_err("page_size must be a number of rows")),
    };
    rows.ok_or_else(|| {
        let got = describe(value);
        let reason = format!("page_size must be from 1 to {}, got {got}", i32::MAX);
        config_error(value.py(), &reason)
    })
}
