//! Bodies of BATCH requests, from what cassandra-driver holds of their statements.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use turbocql_codec::Cell;
use turbocql_codec::message::{
    Batch, BatchKind, Message, Settings, Statement, StatementText, Version,
};

use turbocql_values::ffi::bytes::{self, Filled};
use turbocql_values::ffi::object::{bytes, items, text};
use turbocql_values::ffi::quick_path::QuickPath;

/// The body, where each of the statements is an exact tuple of whether it is prepared, its id or
/// text, and an exact list or tuple of its serialized values; `None` where anything else is there.
pub fn body<'py>(
    statements: &Bound<'py, PyList>,
    unset: &Bound<'py, PyAny>,
    kind: BatchKind,
    settings: Settings<'_>,
    version: Version,
) -> Option<Bound<'py, PyBytes>> {
    if !QuickPath::Encode.is_on() {
        return None;
    }
    // SAFETY: the list is alive and the lock is held. Until the body is there nothing runs Python
    // code, an allocation of `bytes` not even the garbage collector: what is borrowed from the
    // objects stays where it is.
    unsafe {
        let given = items(statements.as_ptr())?;
        let mut cells = Vec::new();
        for &statement in given {
            let (_, _, values) = parts(statement)?;
            if cells.capacity() == 0 {
                // Mostly all have as many.
                let room = values.len().saturating_mul(given.len()).min(MOST_RESERVED);
                cells.try_reserve(room).ok()?;
            }
            cells.try_reserve(values.len()).ok()?;
            for &value in values {
                cells.push(cell(value, unset.as_ptr())?);
            }
        }
        let (mut known, mut rest) = (Vec::new(), cells.as_slice());
        known.try_reserve_exact(given.len()).ok()?;
        for &statement in given {
            let (is_prepared, name, values) = parts(statement)?;
            let text = if is_prepared {
                StatementText::Prepared(bytes(name)?)
            } else {
                StatementText::Query(std::str::from_utf8_unchecked(text(name)?))
            };
            let (values, others) = rest.split_at_checked(values.len())?;
            rest = others;
            known.push(Statement { text, values });
        }
        let batch = Batch { kind, statements: &known, settings };
        let write = |body: &mut Filled<'_>| {
            batch.write(version, body);
            true
        };
        bytes::build(statements.py(), batch.size(version).ok()?, write).ok().flatten()
    }
}

/// Room for values that is made at once.
const MOST_RESERVED: usize = 1 << 16;

type Parts<'a> = (bool, *mut ffi::PyObject, &'a [*mut ffi::PyObject]);

/// Whether a statement is prepared, what it is known by, and its values.
///
/// # Safety
/// As for [`items`].
#[inline(always)]
unsafe fn parts<'a>(statement: *mut ffi::PyObject) -> Option<Parts<'a>> {
    // SAFETY: the caller's.
    unsafe {
        if (*statement).ob_type != &raw mut ffi::PyTuple_Type {
            return None;
        }
        let &[is_prepared, name, values] = items(statement)? else { return None };
        let is_prepared = if is_prepared == ffi::Py_True() {
            true
        } else if is_prepared == ffi::Py_False() {
            false
        } else {
            return None;
        };
        Some((is_prepared, name, items(values)?))
    }
}

/// A serialized value: an exact `bytes`, None or what stands for unset.
///
/// # Safety
/// As for [`items`].
#[inline(always)]
unsafe fn cell<'a>(value: *mut ffi::PyObject, unset: *mut ffi::PyObject) -> Option<Cell<'a>> {
    // SAFETY: the caller's.
    unsafe {
        if let Some(bytes) = bytes(value) {
            Some(Cell::Value(bytes))
        } else if value == ffi::Py_None() {
            Some(Cell::Null)
        } else if value == unset {
            Some(Cell::Unset)
        } else {
            None
        }
    }
}
