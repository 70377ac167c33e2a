//! Memory for values. A failed allocation raises `MemoryError` and does not abort the process.

use std::cell::Cell;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::failure::{Failure, Outcome};

/// The maximum number of bytes of a number of fixed width, a UUID, an address, a date, a time or a
/// duration, including the length before it. Callers also add this number as a margin when they
/// reserve room.
pub const SMALL: usize = 64;

/// The maximum number of bytes in a buffer. The largest value has `i32::MAX` bytes, because lengths
/// are signed 32-bit integers. `SMALL` is added because callers may reserve more than they write.
const LONGEST: usize = i32::MAX as usize + SMALL;

/// Reserves room for `count` more items. Returns a `MemoryError` if there is no memory. Refuses the
/// call if `out` is a buffer of bytes and would become longer than `LONGEST`. Without this call, a
/// `Vec` that cannot grow would abort the process.
#[inline]
pub fn room<T>(out: &mut Vec<T>, count: usize) -> Outcome<()> {
    if out.capacity() - out.len() >= count { Ok(()) } else { grow(out, count) }
}

#[cold]
fn grow<T>(out: &mut Vec<T>, count: usize) -> Outcome<()> {
    // A frame cannot carry a longer value. Without this limit, a value that contains one large part
    // many times could take any amount of memory.
    let bytes = size_of::<T>() == 1 && out.len().saturating_add(count) > LONGEST;
    if bytes {
        return Err(Failure::refused("a value", "the value is longer than 2 GiB"));
    }
    out.try_reserve(count).map_err(|_| PyMemoryError::new_err(()).into())
}

/// Copies the items of a one-dimensional buffer, which may have any strides.
pub fn copied<T: Element + Default>(py: Python<'_>, buffer: &PyBuffer<T>) -> PyResult<Vec<T>> {
    let count = buffer.item_count();
    let mut copy = Vec::new();
    copy.try_reserve_exact(count).map_err(|_| PyMemoryError::new_err(()))?;
    copy.resize(count, T::default());
    buffer.copy_to_slice(py, &mut copy)?;
    Ok(copy)
}

/// With this many items or more, CPython may lack the memory for a list or tuple. pyo3's
/// constructors would panic then, so they are used for fewer items only.
const MANY: usize = 1 << 16;

/// Makes a list of `parts`. Returns a `MemoryError` if there is no memory.
pub fn list_of<'py>(
    py: Python<'py>,
    parts: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    if parts.len() < MANY {
        return PyList::new(py, parts);
    }
    let list = PyList::empty(py);
    for part in parts {
        list.append(part)?;
    }
    Ok(list)
}

/// Makes a tuple of `parts`. Returns a `MemoryError` if there is no memory.
pub fn tuple_of<'py>(
    py: Python<'py>,
    parts: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTuple>> {
    if parts.len() < MANY {
        return PyTuple::new(py, parts);
    }
    let tuple = py.get_type::<PyTuple>().call1((list_of(py, parts)?,))?;
    Ok(tuple.cast_into::<PyTuple>()?)
}

/// Makes a list of the entries of a dict, as pairs. Returns a `MemoryError` if there is no memory.
pub fn items_of<'py>(dict: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyList>> {
    if dict.len() < MANY {
        return Ok(dict.items());
    }
    let py = dict.py();
    // `dict.items` itself is called, because a subclass may override it.
    let view = py.get_type::<PyDict>().call_method1(pyo3::intern!(py, "items"), (dict,))?;
    let list = py.get_type::<PyList>().call1((view,))?;
    Ok(list.cast_into::<PyList>()?)
}

/// The largest scratch buffer, in bytes, that a thread keeps. A larger one is freed after use.
const SCRATCH_KEPT: usize = 1 << 20;

/// Calls `call` with an empty buffer that the thread reuses, because an allocation would cost more
/// than the encoding of a small value. A nested call gets a buffer of its own.
#[inline(always)]
pub fn with_scratch<T>(call: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    thread_local! {
        static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    let mut out = SCRATCH.take();
    out.clear();
    let result = call(&mut out);
    if out.capacity() <= SCRATCH_KEPT {
        SCRATCH.set(out);
    }
    result
}
