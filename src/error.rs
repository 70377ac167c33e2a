//! Errors of the codec and the engine as Python exceptions. The classes are written in Python.

use std::panic::AssertUnwindSafe;

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use turbocql_engine::{Detail, EngineError, ErrorKind};

use crate::value::{Failure, interned};

/// Which way a value was going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Encode,
    Decode,
}

/// Calls what makes Python objects. pyo3 panics where Python has no memory for one: that is a
/// `MemoryError` here.
pub fn guarded<T>(call: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    std::panic::catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        let said = payload.downcast_ref::<&str>().copied();
        let said = said.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        if said.is_some_and(|said| OUT_OF_MEMORY.iter().any(|words| said.contains(words))) {
            return Err(PyMemoryError::new_err(()));
        }
        std::panic::resume_unwind(payload)
    })
}

/// What pyo3 says when a new object is null.
const OUT_OF_MEMORY: [&str; 2] = ["PyObject pointer is null", "Python API call failed"];

/// The exception for a value that does not fit.
pub fn raise(py: Python<'_>, failure: Failure, way: Way) -> PyErr {
    let (error, cause) = match failure {
        Failure::Raised(error) => return error,
        Failure::Refused(error, cause) => (error, cause),
    };
    let kind = match way {
        Way::Encode if error.out_of_range => "range",
        Way::Encode => "encode",
        Way::Decode => "decode",
    };
    let arguments = (kind, error.to_string(), error.path.to_string(), error.cql_type.as_str());
    let made = interned::error_from_codec(py).and_then(|make| make.call1(arguments));
    let raised = made.map_or_else(|error| error, PyErr::from_value);
    raised.set_cause(py, cause);
    raised
}

/// The exception for a failure of the engine.
pub fn raise_engine(py: Python<'_>, error: &EngineError) -> PyErr {
    let details = pyo3::types::PyDict::new(py);
    let filled: PyResult<()> = error.details.iter().try_for_each(|(key, detail)| match detail {
        Detail::Int(number) => details.set_item(key, number),
        Detail::Bool(boolean) => details.set_item(key, boolean),
        Detail::Text(text) => details.set_item(key, text),
        Detail::Texts(texts) => details.set_item(key, texts),
    });
    let arguments = (
        name(error.kind),
        error.message.as_str(),
        error.code,
        error.coordinator.as_deref(),
        error.attempts,
        error.may_have_applied,
        details,
    );
    let made = filled
        .and_then(|()| interned::error_from_engine(py))
        .and_then(|make| make.call1(arguments));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// The kinds by the names that `turbocql.errors` knows them by.
fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Config => "config",
        ErrorKind::Connect => "connect",
        ErrorKind::Authentication => "authentication",
        ErrorKind::Timeout => "timeout",
        ErrorKind::Server => "server",
        ErrorKind::Broken => "broken",
        ErrorKind::Unavailable => "no_hosts",
        ErrorKind::Encode => "encode",
        ErrorKind::Decode => "decode",
        ErrorKind::Closed => "closed",
        ErrorKind::Internal => "internal",
    }
}

/// An operation whose task ended without a result: the session was closed under it.
pub fn interrupted() -> EngineError {
    EngineError::new(ErrorKind::Closed, "the session was closed while the request was under way")
}
