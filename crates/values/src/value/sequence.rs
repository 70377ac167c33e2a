//! Encodes Python sequences and other collections to lists, sets and vectors.

use pyo3::buffer::{PyBuffer, PyUntypedBuffer};
use pyo3::prelude::*;
use pyo3::types::{
    PyByteArray, PyBytes, PyFrozenSet, PyList, PyMemoryView, PySet, PyString, PyTuple,
};
use turbocql_codec::plan::VectorPlan;
use turbocql_codec::{Segment, types};

use super::describe::type_name;
use super::encode::{encode, encode_cell, mismatch, raised, unfit};
use super::typed_buffer::{Framing, Numbers, buffer_of};
use crate::failure::{Failure, Outcome};
use crate::memory::{SMALL, copied, room};
use crate::plan::HostPlan;
use crate::plan::Record;
use crate::python;
use crate::traits::traits;

const SEQUENCES: &str = "a list, tuple, array or another sequence";

/// The parts of a value: the value itself if it is a list or tuple, otherwise a list of its parts.
pub enum Parts<'py> {
    List(Bound<'py, PyList>),
    Tuple(Bound<'py, PyTuple>),
}

impl<'py> Parts<'py> {
    #[expect(clippy::len_without_is_empty, reason = "no caller needs it")]
    pub fn len(&self) -> usize {
        match self {
            Parts::List(list) => list.len(),
            Parts::Tuple(tuple) => tuple.len(),
        }
    }

    /// The part at `i`; `None` if the list has become shorter since its length was read.
    #[inline]
    pub fn get(&self, i: usize) -> Option<Bound<'py, PyAny>> {
        match self {
            Parts::List(list) => list.get_item(i).ok(),
            Parts::Tuple(tuple) => tuple.get_item(i).ok(),
        }
    }
}

/// A function that is called with the number of parts, before the parts are read. It returns a
/// failure if a value of the type cannot have this number of parts.
pub type Check<'a> = &'a dyn Fn(usize) -> Outcome<()>;

/// Returns the parts of a list, tuple or other indexable sequence.
pub fn fixed<'py>(
    plan: &HostPlan,
    value: &Bound<'py, PyAny>,
    check: Check<'_>,
) -> Outcome<Parts<'py>> {
    let expected = "a tuple or list";
    let indexed = value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PyList>()
        || value.hasattr(pyo3::intern!(value.py(), "__getitem__"))?;
    if !indexed {
        return Err(mismatch(plan, expected, value));
    }
    parts(plan, value, false, expected, check)
}

fn is_text_or_bytes(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>()
        || is_view_of_bytes(value)
}

/// Whether the value is a memoryview of bytes and not of numbers. Items of one byte are bytes,
/// unless their format is `b` (signed) or `?` (bool).
pub fn is_view_of_bytes(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyMemoryView>()
        && PyUntypedBuffer::get(value).is_ok_and(|buffer| {
            buffer.item_size() == 1 && !matches!(buffer.format().to_bytes(), b"b" | b"?")
        })
}

/// Returns at most `length` + 1 items of an iterable whose `len()` is `length`. The extra item
/// shows that this length is wrong. Not all items are read, because the iterable may never end.
fn take<'py>(iterable: &Bound<'py, PyAny>, length: usize) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(iterable.py());
    for (i, part) in iterable.try_iter()?.take(length.saturating_add(1)).enumerate() {
        list.append(part?)?;
        // An iterator written in C does not check for signals, so this loop does: Ctrl-C must be
        // able to stop it.
        if i % 4096 == 4095 {
            iterable.py().check_signals()?;
        }
    }
    Ok(list)
}

/// Returns the items of `iterable`. Refuses `value` if there are not exactly `length` items.
pub fn bounded_list<'py>(
    plan: &HostPlan,
    value: &Bound<'py, PyAny>,
    iterable: &Bound<'py, PyAny>,
    length: usize,
) -> Outcome<Bound<'py, PyList>> {
    let list = take(iterable, length).map_err(|error| raised(plan, value, error))?;
    if list.len() == length { Ok(list) } else { Err(changed(plan, value)) }
}

/// Returns the failure for a value that user code changed while it was read, or whose `len()` is
/// wrong.
pub fn changed(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Box<Failure> {
    let cql_type = plan.cql_type();
    let got = format!("{} that does not have the length that its len() returned", type_name(value));
    Failure::expected(&cql_type, &cql_type, got)
}

/// Returns the parts of a collection that has a length. Text, bytes, mappings, masked arrays and
/// tables are refused. Sets are refused unless `sets` is true, because their arbitrary order would
/// be stored.
fn parts<'py>(
    plan: &HostPlan,
    value: &Bound<'py, PyAny>,
    sets: bool,
    expected: &str,
    check: Check<'_>,
) -> Outcome<Parts<'py>> {
    if let Ok(list) = value.cast::<PyList>() {
        check(list.len())?;
        return Ok(Parts::List(list.clone()));
    }
    if let Ok(tuple) = value.cast::<PyTuple>() {
        check(tuple.len())?;
        return Ok(Parts::Tuple(tuple.clone()));
    }
    let py = value.py();
    let set = value.is_instance_of::<PySet>() || value.is_instance_of::<PyFrozenSet>();
    let refused = is_text_or_bytes(value)
        || (set && !sets)
        || value.is_instance(python::mapping(py)?)?
        || is_masked(value)?
        || is_frame(value)?;
    if refused || !value.hasattr(pyo3::intern!(py, "__iter__"))? {
        return Err(mismatch(plan, expected, value));
    }
    let length = match value.len() {
        Ok(length) => length,
        // Iterators and generators have no length.
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => {
            return Err(mismatch(plan, expected, value));
        }
        Err(error) => return Err(raised(plan, value, error)),
    };
    check(length)?;
    bounded_list(plan, value, value, length).map(Parts::List)
}

/// Whether the value is a NumPy masked array, whose hidden values must not be stored.
pub fn is_masked(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    Ok(value.hasattr(pyo3::intern!(py, "mask"))?
        && value.hasattr(pyo3::intern!(py, "_baseclass"))?)
}

/// Whether the value is a table, such as a pandas or polars DataFrame. The iterator of a table does
/// not return its rows.
pub fn is_frame(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    Ok(value.hasattr(pyo3::intern!(py, "columns"))?
        && value.hasattr(pyo3::intern!(py, "dtypes"))?)
}

/// Whether the parts of a value have names as well as positions, as in a pandas Series or a row of
/// a structured NumPy array. Such a value is ambiguous as a row of bind values: it could be bound
/// by name or by position.
pub fn has_labels(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    if is_frame(value)? || value.hasattr(pyo3::intern!(py, "iloc"))? {
        return Ok(true);
    }
    let Some(dtype) = value.getattr_opt(pyo3::intern!(py, "dtype"))? else { return Ok(false) };
    let names = dtype.getattr_opt(pyo3::intern!(py, "names"))?;
    Ok(names.is_some_and(|names| !names.is_none()))
}

fn encode_parts(
    plan: &HostPlan,
    element: &HostPlan,
    parts: &Parts<'_>,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let count = parts.len();
    room(out, SMALL)?;
    let start = types::list::begin(out);
    for i in 0..count {
        let part = parts.get(i).ok_or_else(|| changed(plan, value))?;
        encode_cell(element, &part, out).map_err(|failure| failure.at(|| Segment::Index(i)))?;
    }
    if parts.len() != count {
        return Err(changed(plan, value));
    }
    types::list::end(out, start, count).map_err(|m| unfit(plan, value, m))
}

pub fn encode_list(
    plan: &HostPlan,
    element: &HostPlan,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    if let Some(numeric) = traits(element).numeric
        && let Some(buffer) = buffer_of(value)?
    {
        let (width, count) = (numeric.width(), buffer.item_count());
        room(out, count.saturating_mul(4 + width) + SMALL)?;
        let start = types::list::begin(out);
        let numbers = Numbers { plan, element, numeric, framing: Framing::Sized, value };
        numbers.encode(&buffer, out)?;
        return types::list::end(out, start, count).map_err(|m| unfit(plan, value, m));
    }
    let parts = parts(plan, value, false, SEQUENCES, &|count| countable(plan, count))?;
    encode_parts(plan, element, &parts, value, out)
}

pub fn encode_set(
    plan: &HostPlan,
    element: &HostPlan,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let expected = "a set, frozenset, list, tuple or another collection";
    let parts = parts(plan, value, true, expected, &|count| countable(plan, count))?;
    encode_parts(plan, element, &parts, value, out)
}

pub fn encode_vector(
    plan: &HostPlan,
    vector: &VectorPlan<Record>,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    if let Some(width) = vector.width {
        let (element, size) = (&vector.element, width.saturating_mul(vector.dimension));
        let numeric = traits(element).numeric;
        // The value may be a `bytes` that has the elements in encoded form. The bytes need no
        // check, because every bit pattern is a valid number.
        if numeric.is_some() && put_ready_bytes(value, size, out)? {
            return Ok(());
        }
        if let Some(numeric) = numeric
            && let Some(buffer) = buffer_of(value)?
        {
            check_dimension(plan, vector, buffer.item_count())?;
            room(out, size)?;
            let numbers = Numbers { plan, element, numeric, framing: Framing::Bare, value };
            return numbers.encode(&buffer, out);
        }
    }
    let check = |count| check_dimension(plan, vector, count);
    let parts = parts(plan, value, false, SEQUENCES, &check)?;
    for i in 0..vector.dimension {
        let part = parts.get(i).ok_or_else(|| changed(plan, value))?;
        encode_element(vector, &part, out).map_err(|failure| failure.at(|| Segment::Index(i)))?;
    }
    if parts.len() == vector.dimension { Ok(()) } else { Err(changed(plan, value)) }
}

fn encode_element(
    vector: &VectorPlan<Record>,
    part: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    if part.is_none() {
        return Err(mismatch(&vector.element, "an element of a vector cannot be null", part));
    }
    room(out, SMALL)?;
    if vector.width.is_some() {
        return encode(&vector.element, part, out);
    }
    let mut sized = Vec::new();
    encode(&vector.element, part, &mut sized)?;
    room(out, sized.len() + SMALL)?;
    types::vector::put_sized(&sized, out);
    Ok(())
}

/// Refuses more elements than the signed 32-bit count on the wire can express.
fn countable(plan: &HostPlan, count: usize) -> Outcome<()> {
    if i32::try_from(count).is_ok() {
        return Ok(());
    }
    let cql_type = plan.cql_type();
    let reason = format!("expected at most {} elements for {cql_type}, got {count}", i32::MAX);
    Err(Failure::refused(cql_type, reason))
}

fn check_dimension(plan: &HostPlan, vector: &VectorPlan<Record>, got: usize) -> Outcome<()> {
    if got == vector.dimension {
        return Ok(());
    }
    let cql_type = plan.cql_type();
    let reason = format!("expected {} elements for {cql_type}, got {got}", vector.dimension);
    Err(Failure::refused(cql_type, reason))
}

/// If the value is a `bytes` or `bytearray` of exactly `size` bytes, appends its contents, which
/// are the elements in encoded form. Returns false for any other value.
fn put_ready_bytes(value: &Bound<'_, PyAny>, size: usize, out: &mut Vec<u8>) -> Outcome<bool> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        let ready = bytes.as_bytes().len() == size;
        if ready {
            room(out, size)?;
            out.extend_from_slice(bytes.as_bytes());
        }
        return Ok(ready);
    }
    if !value.is_instance_of::<PyByteArray>() {
        return Ok(false);
    }
    let buffer = PyBuffer::<u8>::get(value)?;
    let ready = buffer.item_count() == size;
    if ready {
        let bytes = copied(value.py(), &buffer)?;
        room(out, size)?;
        out.extend_from_slice(&bytes);
    }
    Ok(ready)
}
