//! Checks the arguments of messages and keeps them as immutable objects: exact `bytes` and `str`.
//! An argument that already is an exact `bytes` or `str` is not copied: the message and the caller
//! share it.

use std::fmt;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{
    PyException, PyMemoryError, PyOverflowError, PyRuntimeError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFrozenSet, PyInt, PyList, PyMemoryView, PySet,
    PyString, PyTuple,
};
use turbocql_codec::message::{Message, MessageError, Reason, Version};

use crate::ffi::bytes;
use crate::python;
use crate::value::describe::describe;
use crate::value::encode::unless_serious;

/// The maximum number of values or statements of a message, and the maximum number of bytes of an
/// id or a name. A message holds each of these numbers in 16 bits.
pub const MAX_SHORT: usize = u16::MAX as usize;
/// The maximum number of bytes of a value or text. A message holds this length as a signed 32-bit
/// number.
pub const LONGEST: usize = i32::MAX as usize;

/// A place in a message. Errors name this place.
#[derive(Clone, Copy)]
pub struct At<'a> {
    /// The number of the batch's statement, counted from 0; `None` outside the statements of a
    /// batch.
    pub statement: Option<usize>,
    pub part: Part<'a>,
}

#[derive(Clone, Copy)]
pub enum Part<'a> {
    Whole,
    Argument(&'a str),
    Value(usize),
    Named(&'a str),
}

impl At<'static> {
    /// The place of an error about the whole message.
    pub const MESSAGE: At<'static> = At { statement: None, part: Part::Whole };

    pub fn statement(index: usize) -> At<'static> {
        At { statement: Some(index), part: Part::Whole }
    }
}

impl<'a> At<'a> {
    pub fn argument(name: &'a str) -> At<'a> {
        At { statement: None, part: Part::Argument(name) }
    }

    /// Returns the place of `part` in the same statement, or in the message if `self` is not in a
    /// statement.
    pub fn part(self, part: Part<'a>) -> At<'a> {
        At { part, ..self }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(index) = self.statement {
            let separator = if matches!(self.part, Part::Whole) { "" } else { ", " };
            write!(f, "statement [{index}]{separator}")?;
        }
        match self.part {
            Part::Whole => Ok(()),
            Part::Argument(name) => f.write_str(name),
            Part::Value(index) => write!(f, "value [{index}]"),
            Part::Named(name) => write!(f, "value [{name:?}]"),
        }
    }
}

/// Returns the `EncodeError` for a part of a message.
pub fn refused(py: Python<'_>, at: impl fmt::Display, reason: &str) -> PyErr {
    error_of(py, "encode", at, reason)
}

/// Returns the `RangeError` for a number that is out of range.
fn out_of_range(py: Python<'_>, at: impl fmt::Display, reason: &str) -> PyErr {
    error_of(py, "range", at, reason)
}

fn error_of(py: Python<'_>, kind: &str, at: impl fmt::Display, reason: &str) -> PyErr {
    let path = at.to_string();
    let message = if path.is_empty() { reason.to_owned() } else { format!("{path}: {reason}") };
    let instance =
        python::error_from_codec(py).and_then(|make| make.call1((kind, message, path, "")));
    instance.map_or_else(|error| error, PyErr::from_value)
}

/// Returns the `EncodeError` for a part that raised `cause` when it was read. A `MemoryError`, or
/// an exception that is not an `Exception` (such as `KeyboardInterrupt`), says nothing about the
/// part, so it is returned unchanged.
fn refused_for(py: Python<'_>, at: At<'_>, reason: &str, cause: PyErr) -> PyErr {
    if !cause.is_instance_of::<PyException>(py) || cause.is_instance_of::<PyMemoryError>(py) {
        return cause;
    }
    let raised = refused(py, at, reason);
    raised.set_cause(py, Some(cause));
    raised
}

pub fn unexpected(at: At<'_>, expected: &str, got: &Bound<'_, PyAny>) -> PyErr {
    refused(got.py(), at, &format!("expected {expected}, got {}", describe(got)))
}

/// Writes the body of a message.
pub fn body<'py>(
    py: Python<'py>,
    message: &impl Message,
    version: Version,
) -> PyResult<Bound<'py, PyBytes>> {
    let size = message.size(version).map_err(|error: MessageError| {
        let (path, reason) = (error.path(), error.reason.to_string());
        if let Reason::Range { .. } = error.reason {
            out_of_range(py, path, &reason)
        } else {
            refused(py, path, &reason)
        }
    })?;
    let body = bytes::build(py, size, |memory| {
        message.write(version, memory);
        true
    });
    body?.ok_or_else(|| PyRuntimeError::new_err("the body does not have the size computed before"))
}

/// Reads the `protocol_version` argument of `encode`.
pub fn version(argument: &Bound<'_, PyAny>) -> PyResult<Version> {
    let number = argument.cast::<PyInt>().ok().and_then(|number| number.extract::<u8>().ok());
    number.and_then(Version::from_number).ok_or_else(|| {
        let got = describe(argument);
        PyValueError::new_err(format!("protocol_version must be 3, 4 or 5, got {got}"))
    })
}

/// Copies the bytes of a bytes-like object to an exact `bytes`. Returns `None` for other objects.
pub fn exact_bytes<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let py = object.py();
    // This branch also takes instances of subclasses of `bytes`. It copies the bytes that they hold
    // and calls none of their methods.
    if let Ok(bytes) = object.cast::<PyBytes>() {
        let data = bytes.as_bytes();
        let copy = PyBytes::new_with(py, data.len(), |target| {
            target.copy_from_slice(data);
            Ok(())
        });
        return copy.map(Some);
    }
    let buffer = match PyBuffer::<u8>::get(object) {
        Ok(buffer) => buffer,
        // A `KeyboardInterrupt` or a `MemoryError` propagates.
        Err(error) => return unless_serious(py, error),
    };
    let copy = PyBytes::new_with(py, buffer.len_bytes(), |target| buffer.copy_to_slice(py, target));
    copy.map(Some)
}

/// Reads a bytes-like argument of at most `maximum` bytes, such as a prepared statement's id.
pub fn named_bytes(
    argument: &Bound<'_, PyAny>,
    at: At<'_>,
    maximum: usize,
) -> PyResult<Py<PyBytes>> {
    let bytes = match argument.cast_exact::<PyBytes>() {
        Ok(bytes) => bytes.clone(),
        Err(_) => exact_bytes(argument)?.ok_or_else(|| unexpected(at, "bytes", argument))?,
    };
    let length = bytes.as_bytes().len();
    if length > maximum {
        let reason = format!("{length} bytes: at most {maximum} can be sent");
        return Err(refused(argument.py(), at, &reason));
    }
    Ok(bytes.unbind())
}

/// Reads an id, which the protocol writes as `[short bytes]`.
pub fn id(argument: &Bound<'_, PyAny>, at: At<'_>) -> PyResult<Py<PyBytes>> {
    named_bytes(argument, at, MAX_SHORT)
}

/// Reads a text argument of at most `maximum` bytes in UTF-8.
pub fn text(argument: &Bound<'_, PyAny>, at: At<'_>, maximum: usize) -> PyResult<Py<PyString>> {
    let py = argument.py();
    let string = argument.cast::<PyString>().map_err(|_| unexpected(at, "str", argument))?;
    let utf8 = string.to_str().map_err(|cause| {
        refused_for(py, at, "text with a lone surrogate has no UTF-8 form", cause)
    })?;
    let length = utf8.len();
    if length > maximum {
        let reason = format!("{length} bytes of UTF-8: at most {maximum} can be sent");
        return Err(refused(py, at, &reason));
    }
    // An instance of a subclass may refer to any object, even to this message. The GC does not
    // track messages, so it could not free such a reference cycle. So the text of such an instance
    // is copied.
    let exact = match string.cast_exact::<PyString>() {
        Ok(exact) => exact.clone(),
        Err(_) => PyString::new(py, utf8),
    };
    Ok(exact.unbind())
}

/// Reads a keyspace or the name of a value, which the protocol writes as `[string]`.
pub fn short_text(argument: &Bound<'_, PyAny>, at: At<'_>) -> PyResult<Py<PyString>> {
    text(argument, at, MAX_SHORT)
}

/// Reads an `int` argument, which must be from `minimum` to `maximum`. `name` is the argument's
/// name in errors.
pub fn int(argument: &Bound<'_, PyAny>, name: &str, minimum: i64, maximum: i64) -> PyResult<i64> {
    let py = argument.py();
    if argument.is_instance_of::<PyBool>() {
        return Err(unexpected(At::argument(name), "int", argument));
    }
    let number = argument.extract::<i64>();
    if let Err(error) = &number
        && !error.is_instance_of::<PyOverflowError>(py)
    {
        let reason = format!("expected int, got {}", describe(argument));
        return Err(refused_for(py, At::argument(name), &reason, error.clone_ref(py)));
    }
    match number {
        Ok(number) if (minimum..=maximum).contains(&number) => Ok(number),
        _ => {
            let reason =
                format!("{name} must be from {minimum} to {maximum}, got {}", describe(argument));
            Err(out_of_range(py, At::MESSAGE, &reason))
        }
    }
}

/// Calls `take` with each element of a sequence or iterable. Stops after `MAX_SHORT` + 1 elements,
/// one more than a message can hold, because an iterable may be endless.
pub fn for_each_element<'py>(
    iterable: &Bound<'py, PyAny>,
    refuse: impl FnOnce() -> PyErr,
    mut take: impl FnMut(usize, &Bound<'py, PyAny>) -> PyResult<()>,
) -> PyResult<()> {
    if let Ok(tuple) = iterable.cast_exact::<PyTuple>() {
        let mut elements = tuple.iter_borrowed().take(MAX_SHORT + 1).enumerate();
        return elements.try_for_each(|(index, element)| take(index, &element));
    }
    if let Ok(list) = iterable.cast_exact::<PyList>() {
        let mut elements = list.iter().take(MAX_SHORT + 1).enumerate();
        return elements.try_for_each(|(index, element)| take(index, &element));
    }
    // Objects of the classes below are iterable, but are refused. A set has no order. The elements
    // of text, bytes or a dict are characters, single bytes or keys, which the caller did not mean.
    let never = iterable.is_instance_of::<PyString>()
        || iterable.is_instance_of::<PyBytes>()
        || iterable.is_instance_of::<PyByteArray>()
        || iterable.is_instance_of::<PyMemoryView>()
        || iterable.is_instance_of::<PySet>()
        || iterable.is_instance_of::<PyFrozenSet>()
        || iterable.is_instance_of::<PyDict>();
    if never {
        return Err(refuse());
    }
    let elements = iterable.try_iter().map_err(|error| {
        if error.is_instance_of::<PyTypeError>(iterable.py()) { refuse() } else { error }
    })?;
    for (index, element) in elements.take(MAX_SHORT + 1).enumerate() {
        take(index, &element?)?;
    }
    Ok(())
}

/// Refuses a count that is larger than a message can express; `parts` says what is counted.
pub fn check_count(py: Python<'_>, at: At<'_>, parts: &str, count: usize) -> PyResult<()> {
    if count <= MAX_SHORT {
        return Ok(());
    }
    Err(refused(py, at, &format!("more than {MAX_SHORT} {parts}: no more can be sent")))
}
