//! Failures of encoding a Python value and of decoding bytes.

use std::fmt::Display;

use pyo3::exceptions::{
    PyException, PyMemoryError, PyOverflowError, PyRecursionError, PyRuntimeError,
    PyStopAsyncIteration, PyStopIteration,
};
use pyo3::prelude::*;
use turbocql_codec::{CodecError, Malformed, Segment};

/// A `Result` whose failure is boxed, so that the `Result` is small.
pub type Outcome<T> = Result<T, Box<Failure>>;

pub enum Failure {
    /// The value or the bytes were refused. The exception is the cause, if there is one.
    Refused(Box<CodecError>, Option<PyErr>),
    /// An exception that is not about the value, such as `KeyboardInterrupt`. It is raised
    /// unchanged.
    Raised(PyErr),
}

impl Failure {
    pub fn refused(cql_type: impl Display, reason: impl Into<String>) -> Box<Failure> {
        Box::new(Failure::Refused(CodecError::new(cql_type, reason), None))
    }

    /// Makes the failure for a value that is out of the range of its type.
    pub fn out_of_range(cql_type: impl Display, reason: impl Into<String>) -> Box<Failure> {
        let error = CodecError::new(cql_type, reason).beyond_range();
        Box::new(Failure::Refused(error, None))
    }

    /// Makes a failure with the reason `expected {expected}, got {got}`.
    pub fn expected(
        cql_type: impl Display,
        expected: impl Display,
        got: impl Display,
    ) -> Box<Self> {
        Self::refused(cql_type, format!("expected {expected}, got {got}"))
    }

    /// Makes the failure for bytes that are not a valid value of the type.
    pub fn malformed(cql_type: impl Display, malformed: Malformed) -> Box<Failure> {
        let reason = format!("malformed {cql_type}: {malformed}");
        Self::refused(cql_type, reason)
    }

    /// Makes the failure for a value if user code raised `cause` while the value was read. If
    /// `cause` is not about the value (`KeyboardInterrupt`, `MemoryError`, `RecursionError`, ...),
    /// the failure is the unchanged exception.
    pub fn caused(
        py: Python<'_>,
        cql_type: impl Display,
        reason: impl Into<String>,
        cause: PyErr,
    ) -> Box<Failure> {
        let about_the_value = cause.is_instance_of::<PyException>(py)
            && !cause.is_instance_of::<PyMemoryError>(py)
            && !cause.is_instance_of::<PyRecursionError>(py);
        Box::new(if about_the_value {
            Failure::Refused(CodecError::new(cql_type, reason), Some(cause))
        } else {
            Failure::Raised(cause)
        })
    }

    /// Returns the same failure, marked as out of range if an `OverflowError` caused it.
    pub fn beyond_range_if_overflowed(mut self: Box<Self>, py: Python<'_>) -> Box<Self> {
        if let Failure::Refused(error, Some(cause)) = &mut *self
            && cause.is_instance_of::<PyOverflowError>(py)
        {
            error.out_of_range = true;
        }
        self
    }

    /// Returns the same failure without any text from the value: the path has no keys of maps, the
    /// reason names only the type, and the cause is dropped. A failure about a whole row, such as a
    /// wrong number of values, is not changed, because it quotes no value.
    pub fn without_values(mut self: Box<Self>) -> Box<Self> {
        if let Failure::Refused(error, cause) = &mut *self
            && error.cql_type != "row"
        {
            error.path.hide_keys();
            let cql_type = &error.cql_type;
            let expectation = if error.out_of_range {
                format!("the value is out of the range of {cql_type}")
            } else {
                format!("expected a value of {cql_type}, got one that it does not take")
            };
            error.reason = format!("{expectation} (values_in_errors is off)");
            *cause = None;
        }
        self
    }

    /// Returns the same failure, with `segment` added as the outermost step of its path. The path
    /// says where in the value the failure is.
    pub fn at(self: Box<Self>, segment: impl FnOnce() -> Segment) -> Box<Self> {
        match *self {
            Failure::Refused(error, cause) => {
                Box::new(Failure::Refused(error.at(segment()), cause))
            }
            Failure::Raised(_) => self,
        }
    }
}

impl From<PyErr> for Box<Failure> {
    fn from(error: PyErr) -> Self {
        Box::new(Failure::Raised(error))
    }
}

impl From<Box<CodecError>> for Box<Failure> {
    fn from(error: Box<CodecError>) -> Self {
        Box::new(Failure::Refused(error, None))
    }
}

/// Turns a `StopIteration` or `StopAsyncIteration` raised by a user's class into a `RuntimeError`.
/// Unchanged, the user's exception would end the iteration over the rows. Other exceptions are
/// returned unchanged.
pub fn not_the_end(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyStopIteration>(py)
        && !error.is_instance_of::<PyStopAsyncIteration>(py)
    {
        return error;
    }
    let name = error.get_type(py).name().map(|name| name.to_string()).unwrap_or_default();
    let reason = format!("the class or factory that makes rows or values raised {name}");
    let runtime_error = PyRuntimeError::new_err(reason);
    runtime_error.set_cause(py, Some(error));
    runtime_error
}
