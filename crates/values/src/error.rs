//! Turns failures into the exceptions of `turbocql.errors`, which is written in Python.

use std::panic::AssertUnwindSafe;

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use crate::failure::Failure;
use crate::python;

/// Whether a value was being encoded or decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Encode,
    Decode,
}

/// Calls a closure that makes Python objects. pyo3 panics if Python has no memory for a new object;
/// this function turns that panic into a `MemoryError`.
pub fn guarded<T>(call: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    std::panic::catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<&str>().copied();
        let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        if message.is_some_and(|message| OUT_OF_MEMORY.iter().any(|words| message.contains(words)))
        {
            return Err(PyMemoryError::new_err(()));
        }
        std::panic::resume_unwind(payload)
    })
}

/// Parts of the messages with which pyo3 panics if CPython returns null in place of a new object.
const OUT_OF_MEMORY: [&str; 2] = ["PyObject pointer is null", "Python API call failed"];

/// Returns the exception for a failure. For a value that does not fit its type, this is an
/// `EncodeError`, `RangeError` or `DecodeError`. Otherwise, it is the exception that Python code
/// raised.
pub fn raise(py: Python<'_>, failure: Failure, direction: Direction) -> PyErr {
    raise_about(py, failure, direction, "")
}

/// Like [`raise`], with `about` at the end of the message.
pub fn raise_about(py: Python<'_>, failure: Failure, direction: Direction, about: &str) -> PyErr {
    let (error, cause) = match failure {
        Failure::Raised(error) => return error,
        Failure::Refused(error, cause) => (error, cause),
    };
    let kind = match direction {
        Direction::Encode if error.out_of_range => "range",
        Direction::Encode => "encode",
        Direction::Decode => "decode",
    };
    let arguments =
        (kind, format!("{error}{about}"), error.path.to_string(), error.cql_type.as_str());
    let instance = python::error_from_codec(py).and_then(|make| make.call1(arguments));
    let raised = instance.map_or_else(|error| error, PyErr::from_value);
    raised.set_cause(py, cause);
    raised
}

/// Returns a `ConfigError`, for an option or a setting that is not valid.
pub fn config_error(py: Python<'_>, reason: &str) -> PyErr {
    let instance = python::config_error(py).and_then(|class| class.call1((reason,)));
    instance.map_or_else(|error| error, PyErr::from_value)
}
