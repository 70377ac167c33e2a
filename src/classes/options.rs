//! Per-request options, and a session's configuration, from Python values.

use std::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use turbocql_engine::{
    Config, Consistency, EngineError, ErrorKind, RequestOptions, SerialConsistency,
};

use crate::error;

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
            idempotent: self.idempotent.as_ref().map(idempotent).transpose()?,
            tracing: false,
        })
    }
}

/// An option that cannot be.
pub fn config_error(py: Python<'_>, reason: &str) -> PyErr {
    error::raise_engine(py, &EngineError::new(ErrorKind::Config, reason))
}

fn consistency(value: &Bound<'_, PyAny>) -> PyResult<Consistency> {
    let name: String = value.extract().map_err(|_| {
        PyTypeError::new_err("consistency must be a turbocql.Consistency or its name")
    })?;
    name.parse().map_err(|error| error::raise_engine(value.py(), &error))
}

fn serial_consistency(value: &Bound<'_, PyAny>) -> PyResult<SerialConsistency> {
    let name: String = value.extract().map_err(|_| {
        PyTypeError::new_err("serial_consistency must be a turbocql.Consistency or its name")
    })?;
    name.parse().map_err(|error| error::raise_engine(value.py(), &error))
}

/// Longer timeouts than this, some thirty years, are none.
const FOREVER_S: f64 = 1e9;

/// Seconds above zero; infinity for no limit.
pub fn timeout(value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    let seconds: f64 = match value.extract() {
        Ok(seconds) => seconds,
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => f64::INFINITY,
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
    value.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            config_error(value.py(), "timestamp must fit 64 bits")
        } else {
            PyTypeError::new_err("timestamp must be an int of microseconds since 1970")
        }
    })
}

fn idempotent(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.extract().map_err(|_| PyTypeError::new_err("idempotent must be a bool"))
}

fn page_size(value: &Bound<'_, PyAny>) -> PyResult<i32> {
    let rows: i64 =
        value.extract().map_err(|_| PyTypeError::new_err("page_size must be a number of rows"))?;
    i32::try_from(rows).ok().filter(|&rows| rows > 0).ok_or_else(|| {
        let reason = format!("page_size must be from 1 to {}, got {rows}", i32::MAX);
        config_error(value.py(), &reason)
    })
}

/// A session's configuration, checked already by `turbocql.config.Config`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ConnectOptions<'py> {
    contact_points: Vec<String>,
    keyspace: Option<String>,
    user: Option<String>,
    password: Option<String>,
    consistency: Bound<'py, PyAny>,
    serial_consistency: Option<Bound<'py, PyAny>>,
    timeout_s: Bound<'py, PyAny>,
    connect_timeout_s: f64,
    compression: Option<String>,
    page_size: Bound<'py, PyAny>,
    application_name: Option<String>,
    io_threads: usize,
    pub prepared_cache_size: usize,
    pub rows: String,
    pub naive_timestamps: bool,
    pub numpy_vectors: bool,
}

impl ConnectOptions<'_> {
    pub fn parse(&self) -> PyResult<Config> {
        let compression = match self.compression.as_deref() {
            None => None,
            Some(name) => Some(
                name.parse()
                    .map_err(|_| PyValueError::new_err(format!("unknown compression {name:?}")))?,
            ),
        };
        Ok(Config {
            contact_points: self.contact_points.clone(),
            keyspace: self.keyspace.clone(),
            user: self.user.clone(),
            password: self.password.clone(),
            consistency: consistency(&self.consistency)?,
            serial_consistency: self
                .serial_consistency
                .as_ref()
                .map(serial_consistency)
                .transpose()?,
            timeout: timeout(&self.timeout_s)?,
            connect_timeout: Duration::try_from_secs_f64(self.connect_timeout_s)
                .map_err(|error| PyValueError::new_err(format!("connect_timeout_s: {error}")))?,
            compression,
            page_size: page_size(&self.page_size)?,
            application_name: self.application_name.clone(),
            workers: self.io_threads,
        })
    }
}
