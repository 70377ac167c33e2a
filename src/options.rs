//! Converts request options, and some settings of a session, from Python values.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBool, PyDict, PyMapping};
use turbocql_engine::{
    Consistency, CustomPayload, Entries, Near, PagingState, RequestOptions, SerialConsistency,
    UnknownName,
};

use crate::python;
use turbocql_values::error::config_error;
use turbocql_values::value::describe::{describe, did_you_mean, nearest_and_all, type_name};

/// The options of a request. `None` means that no option is set, so the session's settings apply.
pub type Options = Option<Arc<RequestOptions>>;

/// Returns the options, or the defaults for `None`.
pub fn or_default(options: &Options) -> &RequestOptions {
    static NOTHING: LazyLock<RequestOptions> = LazyLock::new(RequestOptions::default);
    options.as_deref().unwrap_or_else(|| &NOTHING)
}

/// The place where an option may be set. Each scope also accepts the options of the scopes above it
/// in this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionScope {
    Batch,
    Statement,
    Execute,
}

type ReadOption = fn(&mut RequestOptions, &Bound<'_, PyAny>) -> PyResult<()>;

struct CallOption {
    name: &'static str,
    scope: OptionScope,
    read: ReadOption,
}

/// All options, in the order in which error messages list them. `turbocql._options` defines the
/// types of their values.
static OPTIONS: [CallOption; 13] = [
    option("consistency", OptionScope::Batch, |request, value| {
        request.consistency = Some(consistency(value)?);
        Ok(())
    }),
    option("serial_consistency", OptionScope::Batch, |request, value| {
        request.serial_consistency = Some(serial_consistency(value)?);
        Ok(())
    }),
    option("timeout_s", OptionScope::Batch, |request, value| {
        request.timeout = Some(timeout(value)?);
        Ok(())
    }),
    option("page_size", OptionScope::Statement, |request, value| {
        request.page_size = Some(page_size(value)?);
        Ok(())
    }),
    option("timestamp", OptionScope::Batch, |request, value| {
        request.timestamp = Some(timestamp(value)?);
        Ok(())
    }),
    option("idempotent", OptionScope::Batch, |request, value| {
        request.idempotent = Some(flag("idempotent", value)?);
        Ok(())
    }),
    option("tracing", OptionScope::Batch, |request, value| {
        request.tracing = Some(flag("tracing", value)?);
        Ok(())
    }),
    option("profile", OptionScope::Batch, |request, value| {
        request.profile = Some(profile(value)?);
        Ok(())
    }),
    option("custom_payload", OptionScope::Batch, |request, value| {
        request.custom_payload = Some(Arc::new(custom_payload(value)?));
        Ok(())
    }),
    option("paging_state", OptionScope::Execute, |request, value| {
        request.paging = Some(paging_state(value)?);
        Ok(())
    }),
    option("target", OptionScope::Execute, |request, value| {
        request.near = Some(target(value)?);
        Ok(())
    }),
    // The options `rows` and `row` apply to the result, not to the request: `rows_as` in `how.rs`
    // reads them.
    option("rows", OptionScope::Execute, |_, _| Ok(())),
    option("row", OptionScope::Execute, |_, _| Ok(())),
];

const fn option(name: &'static str, scope: OptionScope, read: ReadOption) -> CallOption {
    CallOption { name, scope, read }
}

/// Finds the option with this name. Returns a TypeError if `scope` does not accept this option.
fn find(name: &Bound<'_, PyAny>, scope: OptionScope) -> PyResult<&'static CallOption> {
    let option = name.extract::<PyBackedStr>().ok();
    let option = option.and_then(|name| OPTIONS.iter().find(|option| option.name == &*name));
    option.filter(|option| option.scope <= scope).ok_or_else(|| {
        let got = name.repr().map_or_else(|_| describe(name), |text| text.to_string_lossy().into());
        let names = OPTIONS.iter().filter(|option| option.scope <= scope).map(|option| option.name);
        let names = nearest_and_all(name, &names.collect::<Vec<_>>(), "the options are");
        PyTypeError::new_err(format!("unknown option {got}{names}"))
    })
}

/// Checks the names of keyword arguments, and returns the arguments. Returns `None` if there are no
/// arguments.
pub fn named(keywords: &Bound<'_, PyDict>, scope: OptionScope) -> PyResult<Option<Py<PyDict>>> {
    if keywords.is_empty() {
        return Ok(None);
    }
    for name in keywords.keys() {
        find(&name, scope)?;
    }
    Ok(Some(keywords.clone().unbind()))
}

/// Converts keyword arguments to request options. If the value of an option is None, the option is
/// not set. Then the value from the statement or the session applies.
pub fn parse(keywords: Option<&Bound<'_, PyDict>>, scope: OptionScope) -> PyResult<Options> {
    let mut request = RequestOptions::default();
    for (name, value) in keywords.into_iter().flatten() {
        let option = find(&name, scope)?;
        if !value.is_none() {
            (option.read)(&mut request, &value)?;
        }
    }
    Ok((request != RequestOptions::default()).then(|| Arc::new(request)))
}

/// Merges the options of a call with the options of its statement. The options of the call take
/// precedence.
pub fn under(call: Options, statement: &Options) -> Options {
    match (call, statement) {
        (call, None) => call,
        (None, Some(statement)) => Some(statement.clone()),
        (Some(call), Some(statement)) => Some(Arc::new(call.over(statement))),
    }
}

/// Checks the options of a batch. Raises `TypeError` for an unknown name or a value of a wrong
/// type, and `ConfigError` for any other invalid value.
#[pyfunction]
pub fn check_batch_options(options: &Bound<'_, PyDict>) -> PyResult<()> {
    parse(Some(options), OptionScope::Batch).map(drop)
}

pub fn consistency(value: &Bound<'_, PyAny>) -> PyResult<Consistency> {
    let expected = "consistency must be a turbocql.Consistency or its name";
    let name: String = value.extract().map_err(|_| mismatch(expected, value))?;
    name.parse().map_err(|unknown| unknown_level(unknown, value, Consistency::ALL))
}

/// Makes the error for a value of a wrong type.
fn mismatch(expected: &str, value: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("{expected}, got {}", describe(value)))
}

/// Makes the error for a name that is not among `levels`. Its message suggests the most similar
/// levels.
fn unknown_level(
    UnknownName(message): UnknownName,
    name: &Bound<'_, PyAny>,
    levels: &[impl ToString],
) -> PyErr {
    let names: Vec<String> = levels.iter().map(ToString::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    config_error(name.py(), &(message + &did_you_mean(name, &names)))
}

pub fn serial_consistency(value: &Bound<'_, PyAny>) -> PyResult<SerialConsistency> {
    let expected = "serial_consistency must be a turbocql.Consistency or its name";
    let name: String = value.extract().map_err(|_| mismatch(expected, value))?;
    name.parse().map_err(|unknown| unknown_level(unknown, value, SerialConsistency::ALL))
}

/// Timeouts longer than this, about 30 years, mean no limit.
const FOREVER_S: f64 = 1e9;

/// Converts a timeout to a duration. The timeout must be a number of seconds above 0. If it is
/// longer than `FOREVER_S`, or infinite, returns `None`, which means no limit.
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
        Err(_) => return Err(mismatch("timeout_s must be a number of seconds", value)),
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
    let expected = "timestamp must be an int of microseconds since 1970";
    if value.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err(format!("{expected}, got a bool")));
    }
    let time: i64 = value.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            config_error(value.py(), "timestamp must fit 64 bits")
        } else {
            mismatch(expected, value)
        }
    })?;
    if time == i64::MIN {
        return Err(config_error(value.py(), "timestamp must be above -2**63, got -2**63"));
    }
    Ok(time)
}

fn flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.extract().map_err(|_| mismatch(&format!("{name} must be a bool"), value))
}

fn profile(value: &Bound<'_, PyAny>) -> PyResult<Arc<str>> {
    let name: PyBackedStr = value
        .extract()
        .map_err(|_| mismatch("profile must be the name of one of Config.profiles", value))?;
    Ok(Arc::from(&*name))
}

/// Converts the option `target`, which is a `Node` or a `Replica`. A `Replica` may name a shard.
fn target(value: &Bound<'_, PyAny>) -> PyResult<Near> {
    let py = value.py();
    let (node, shard) = if value.is_instance(python::replica(py)?)? {
        (value.getattr("node")?, value.getattr("shard")?.extract()?)
    } else {
        (value.clone(), None)
    };
    if !node.is_instance(python::node(py)?)? {
        return Err(mismatch("target must be a Node, of session.nodes, or a Replica", value));
    }
    let host_id = node.getattr("host_id")?.getattr("bytes")?.extract()?;
    Ok(Near::Node { host_id, shard })
}

/// Converts a mapping of names to bytes.
pub fn custom_payload(value: &Bound<'_, PyAny>) -> PyResult<CustomPayload> {
    let expected = "custom_payload must be a mapping of str to bytes";
    let mapping = value.cast::<PyMapping>().map_err(|_| mismatch(expected, value))?;
    let mut entries = Entries::new();
    for item in mapping.items()? {
        let (name, bytes): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let name: PyBackedStr = name.extract().map_err(|_| mismatch(expected, &name))?;
        let bytes: PyBackedBytes = bytes.extract().map_err(|_| {
            // The message does not show the value, because the value may be a secret.
            let got = type_name(&bytes);
            let reason =
                format!("custom_payload: the value of {:?} must be bytes, got {got}", &*name);
            PyTypeError::new_err(reason)
        })?;
        entries.insert(name.to_string(), bytes.to_vec());
    }
    CustomPayload::new(entries)
        .map_err(|reason| config_error(value.py(), &format!("custom_payload has {reason}")))
}

fn paging_state(value: &Bound<'_, PyAny>) -> PyResult<PagingState> {
    let state: PyBackedBytes = value
        .extract()
        .map_err(|_| mismatch("paging_state must be the bytes of Rows.paging_state", value))?;
    Ok(PagingState::from_bytes(&*state))
}

pub fn page_size(value: &Bound<'_, PyAny>) -> PyResult<i32> {
    if value.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err("page_size must be a number of rows, got a bool"));
    }
    let rows = match value.extract::<i64>() {
        Ok(rows) => i32::try_from(rows).ok().filter(|&rows| rows > 0),
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => None,
        Err(_) => return Err(mismatch("page_size must be a number of rows", value)),
    };
    rows.ok_or_else(|| {
        let got = describe(value);
        let reason = format!("page_size must be from 1 to {}, got {got}", i32::MAX);
        config_error(value.py(), &reason)
    })
}
