//! Python objects to CQL bytes and back, by plan.

pub mod decode;
pub mod describe;
pub mod encode;
pub mod failure;
mod foreign;
pub mod interned;
pub mod numbers;
pub mod record;
pub mod scratch;
pub mod sequence;
pub mod temporal;
mod traits;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

pub use failure::{Failure, Outcome};
pub use traits::is_atomic;

/// What a plan keeps ready for each user-defined type.
pub type HostPlan = turbocql_codec::Plan<record::Record>;

/// Bytes that any value of fixed width and any length before one take at most.
pub const SMALL: usize = 64;

/// Bytes that a value can have at most, and what its parts may be off by.
const LONGEST: usize = i32::MAX as usize + SMALL;

/// Makes room for `count` more; `MemoryError` where there is none, for which a `Vec` that grows by
/// itself would end the process.
#[inline]
pub fn room<T>(out: &mut Vec<T>, count: usize) -> Outcome<()> {
    if out.capacity() - out.len() >= count { Ok(()) } else { grow(out, count) }
}

#[cold]
fn grow<T>(out: &mut Vec<T>, count: usize) -> Outcome<()> {
    // No frame could carry it; and one large part may stand in a value any number of times.
    let bytes = size_of::<T>() == 1 && out.len().saturating_add(count) > LONGEST;
    if bytes {
        return Err(Failure::refused("a value", "the value is longer than 2 GiB"));
    }
    out.try_reserve(count).map_err(|_| PyMemoryError::new_err(()).into())
}

/// A copy of what a one-dimensional buffer holds, whatever its strides.
pub fn copied<T: Element + Default>(py: Python<'_>, buffer: &PyBuffer<T>) -> PyResult<Vec<T>> {
    let count = buffer.item_count();
    let mut copy = Vec::new();
    copy.try_reserve_exact(count).map_err(|_| PyMemoryError::new_err(()))?;
    copy.resize(count, T::default());
    buffer.copy_to_slice(py, &mut copy)?;
    Ok(copy)
}

/// From so many parts on, pyo3's own way to a list, which takes memory for granted, is not taken.
const MANY: usize = 1 << 16;

/// A list; `MemoryError` where there is no room for it.
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

/// A tuple; `MemoryError` where there is no room for it.
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

/// The entries of a dict, as pairs; `MemoryError` where there is no room for them.
pub fn items_of<'py>(dict: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyList>> {
    if dict.len() < MANY {
        return Ok(dict.items());
    }
    let py = dict.py();
    // The methods of `dict` itself: a subclass may have others.
    let view = py.get_type::<PyDict>().call_method1(pyo3::intern!(py, "items"), (dict,))?;
    let list = py.get_type::<PyList>().call1((view,))?;
    Ok(list.cast_into::<PyList>()?)
}
