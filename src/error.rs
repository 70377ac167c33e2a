//! Converts errors of the engine to the exceptions of the Python module `turbocql.errors`.

use crate::python;
use pyo3::prelude::*;
use pyo3::types::PyTraceback;
use turbocql_engine::{Detail, EngineError, ErrorKind, Tried};

/// Converts an error of the engine to an exception. If the conversion itself raises an exception,
/// returns this exception instead.
pub fn raise_engine(py: Python<'_>, error: &EngineError) -> PyErr {
    let details = pyo3::types::PyDict::new(py);
    let filled: PyResult<()> = error.details.iter().try_for_each(|(key, detail)| match detail {
        Detail::Int(number) => details.set_item(key, number),
        Detail::Bool(boolean) => details.set_item(key, boolean),
        Detail::Text(text) => details.set_item(key, text),
        Detail::Texts(texts) => details.set_item(key, texts),
    });
    let history: Vec<_> = error.history.iter().map(tried).collect();
    let arguments = (
        error.kind.name(),
        error.message.as_str(),
        error.code,
        error.coordinator.as_deref(),
        error.attempts,
        error.may_have_applied,
        details,
        history,
    );
    let instance =
        filled.and_then(|()| python::error_from_engine(py)).and_then(|make| make.call1(arguments));
    instance.map_or_else(|error| error, PyErr::from_value)
}

/// Returns the arguments of `turbocql.errors.Attempt`.
fn tried(tried: &Tried) -> (String, Option<&str>, f64, Option<f64>) {
    let ended = tried.ended.map(|ended| ended.as_secs_f64());
    (tried.node.to_string(), tried.answer.as_deref(), tried.began.as_secs_f64(), ended)
}

/// Makes the error of an operation that ended without a result. Its message names the most common
/// cause: the session was closed.
pub fn interrupted() -> EngineError {
    EngineError::new(ErrorKind::Closed, "the session was closed while the request was in flight")
}

/// Makes the exception for a wait that ended without a result, because the interpreter is ending.
pub fn ended(py: Python<'_>) -> PyErr {
    let reason = "the interpreter ends, and nobody can wait for the answer";
    raise_engine(py, &EngineError::new(ErrorKind::Closed, reason))
}

/// Makes the exception from the arguments of a coroutine's `throw`. The arguments are either an
/// exception, or a class, a value and a traceback. CPython has deprecated the form with three
/// arguments since 3.12.
///
/// # Errors
/// If the constructor of the class raises, or an argument has a wrong type.
pub fn thrown<'py>(
    thrown: &Bound<'py, PyAny>,
    value: Option<&Bound<'py, PyAny>>,
    traceback: Option<&Bound<'py, PyAny>>,
) -> PyResult<PyErr> {
    let error = match value {
        Some(value) if value.is_instance(thrown).unwrap_or(false) => value.clone(),
        Some(value) => thrown.call1((value,))?,
        None => thrown.clone(),
    };
    let error = PyErr::from_value(error);
    if let Some(traceback) = traceback {
        error.set_traceback(thrown.py(), Some(traceback.cast::<PyTraceback>()?.clone()));
    }
    Ok(error)
}
