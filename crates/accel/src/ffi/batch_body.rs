//! Makes bodies of BATCH requests from the list of statements in the driver's `BatchMessage`.

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

/// Makes the body of a batch. Each statement must be an exact tuple of three items: True (prepared)
/// or False, the id or the text, and an exact list or tuple of serialized values. Returns `None` if
/// a statement is anything else, if the body is too long, if there is no memory, or if
/// `QuickPath::Encode` is off.
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
    // SAFETY: `statements` is alive and the GIL is held, both by its `Bound`. The list owns the
    // statements, and these own their parts, so all borrowed pointers and slices are valid until
    // one of these containers changes. No container changes before the body is written: no Python
    // code runs here, and the allocation of a `bytes` does not start the GC, which does not track
    // `bytes`. The text is UTF-8, because CPython encoded it. The layouts were probed
    // (`QuickPath::Encode`). Tests: accel/test_comparison.py (body_tasks). Benchmark: "batch body".
    unsafe {
        let entries = items(statements.as_ptr())?;
        let mut cells = Vec::new();
        for &statement in entries {
            let Parts { values, .. } = parts(statement)?;
            if cells.capacity() == 0 {
                // Most batches have the same number of values in all statements.
                let room = values.len().saturating_mul(entries.len()).min(MAX_RESERVED);
                cells.try_reserve(room).ok()?;
            }
            cells.try_reserve(values.len()).ok()?;
            for &value in values {
                cells.push(cell(value, unset.as_ptr())?);
            }
        }
        let (mut batch_statements, mut unassigned) = (Vec::new(), cells.as_slice());
        batch_statements.try_reserve_exact(entries.len()).ok()?;
        for &statement in entries {
            let Parts { is_prepared, name, values } = parts(statement)?;
            let text = if is_prepared {
                StatementText::Prepared(bytes(name)?)
            } else {
                StatementText::Query(std::str::from_utf8_unchecked(text(name)?))
            };
            let (values, further) = unassigned.split_at_checked(values.len())?;
            unassigned = further;
            batch_statements.push(Statement { text, values });
        }
        let batch = Batch { kind, statements: &batch_statements, settings };
        let write = |body: &mut Filled<'_>| {
            batch.write(version, body);
            true
        };
        bytes::build(statements.py(), batch.size(version).ok()?, write).ok().flatten()
    }
}

/// The maximum number of values for which memory is reserved in advance.
const MAX_RESERVED: usize = 1 << 16;

/// The three items of a statement.
struct Parts<'a> {
    is_prepared: bool,
    /// The id of a prepared statement; the text of any other statement.
    name: *mut ffi::PyObject,
    values: &'a [*mut ffi::PyObject],
}

/// Returns the three items of a statement; `None` if it does not have the form that [`body`] takes.
///
/// # Safety
/// The caller must ensure that `statement` is a live object and that the GIL is held. The result is
/// borrowed: the caller must not use it after Python code may have run.
#[inline(always)]
unsafe fn parts<'a>(statement: *mut ffi::PyObject) -> Option<Parts<'a>> {
    // SAFETY: `statement` is alive and the GIL is held, by this function's `# Safety` section. An
    // exact tuple owns its items, so these are alive too. Tests: accel/test_comparison.py
    // (body_tasks).
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
        Some(Parts { is_prepared, name, values: items(values)? })
    }
}

/// Returns the cell of a serialized value, which is an exact `bytes`, None or the driver's unset
/// marker. Returns `None` for any other object.
///
/// # Safety
/// The caller must ensure that `value` is a live object and that the GIL is held. The cell borrows
/// the bytes: the caller must not use it after the last reference to `value` is gone.
#[inline(always)]
unsafe fn cell<'a>(value: *mut ffi::PyObject, unset: *mut ffi::PyObject) -> Option<Cell<'a>> {
    // SAFETY: `value` is alive and the GIL is held, by this function's `# Safety` section. `bytes`
    // checks for the exact class. Tests: accel/test_comparison.py (body_tasks).
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
