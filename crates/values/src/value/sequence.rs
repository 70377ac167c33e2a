//! Lists, sets and vectors: from Python sequences, and from typed buffers without an object per
//! element.

use pyo3::buffer::{Element, PyBuffer, PyUntypedBuffer};
use pyo3::prelude::*;
use pyo3::types::{
    PyByteArray, PyBytes, PyFrozenSet, PyList, PyMemoryView, PySet, PyString, PyTuple,
};
use turbocql_codec::plan::VectorPlan;
use turbocql_codec::types;
use turbocql_codec::{Plan, Segment, wire};

use super::describe::{describe, type_name};
use super::encode::{encode, encode_cell, mismatch, raised, unfit, unless_serious};
use super::numbers::narrow;
use super::record::Record;
use super::{Failure, HostPlan, Outcome, SMALL, copied, interned, room};

const SEQUENCES: &str = "a list, tuple, array or another sequence";

/// The parts of a list or tuple; of anything else of a known length, a list of them.
pub enum Parts<'py> {
    List(Bound<'py, PyList>),
    Tuple(Bound<'py, PyTuple>),
}

impl<'py> Parts<'py> {
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        match self {
            Parts::List(list) => list.len(),
            Parts::Tuple(tuple) => tuple.len(),
        }
    }

    /// The part at `i`, unless the list has shrunk since its length was asked.
    #[inline]
    pub fn get(&self, i: usize) -> Option<Bound<'py, PyAny>> {
        match self {
            Parts::List(list) => list.get_item(i).ok(),
            Parts::Tuple(tuple) => tuple.get_item(i).ok(),
        }
    }
}

/// Says of a number of parts whether a value can have so many: asked before they are read.
pub type Check<'a> = &'a dyn Fn(usize) -> Outcome<()>;

/// The parts of a list, tuple or other indexable sequence.
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

/// A memoryview of bytes, not of numbers: unless its format says otherwise, single bytes are that.
fn is_view_of_bytes(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyMemoryView>()
        && PyUntypedBuffer::get(value).is_ok_and(|buffer| {
            buffer.item_size() == 1 && !matches!(buffer.format().to_bytes(), b"b" | b"?")
        })
}

/// At most `length` + 1 of what an iteration gives: an iterable that lies about its length must
/// not keep us for ever.
fn take<'py>(iterable: &Bound<'py, PyAny>, length: usize) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(iterable.py());
    for (i, part) in iterable.try_iter()?.take(length.saturating_add(1)).enumerate() {
        list.append(part?)?;
        // Native iterators do not look for signals.
        if i % 4096 == 4095 {
            iterable.py().check_signals()?;
        }
    }
    Ok(list)
}

/// What `iterable` gives, which must be `length` parts.
pub fn bounded_list<'py>(
    plan: &HostPlan,
    value: &Bound<'py, PyAny>,
    iterable: &Bound<'py, PyAny>,
    length: usize,
) -> Outcome<Bound<'py, PyList>> {
    let list = take(iterable, length).map_err(|error| raised(plan, value, error))?;
    if list.len() == length { Ok(list) } else { Err(changed(plan, value)) }
}

/// The user's own code changed the value while it was read, or its length is a lie.
pub fn changed(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Box<Failure> {
    let cql_type = plan.cql_type();
    let got = format!("{} that does not have the length that it gives", type_name(value));
    Failure::expected(&cql_type, &cql_type, got)
}

/// The parts of any ordered or unordered collection of a known length. Text, bytes and mappings
/// are none; sets only where order means nothing.
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
        || value.is_instance(interned::mapping(py)?)?
        || is_masked(value)?
        || is_frame(value)?;
    if refused || !value.hasattr(pyo3::intern!(py, "__iter__"))? {
        return Err(mismatch(plan, expected, value));
    }
    let length = match value.len() {
        Ok(length) => length,
        // Iterators and generators: how many parts there are cannot be known before they are used up.
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => {
            return Err(mismatch(plan, expected, value));
        }
        Err(error) => return Err(raised(plan, value, error)),
    };
    check(length)?;
    bounded_list(plan, value, value, length).map(Parts::List)
}

/// A NumPy masked array, whose hidden values must not be stored.
pub fn is_masked(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    Ok(value.hasattr(pyo3::intern!(py, "mask"))?
        && value.hasattr(pyo3::intern!(py, "_baseclass"))?)
}

/// A table, such as a pandas or polars DataFrame: iterating it does not give its rows.
pub fn is_frame(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    Ok(value.hasattr(pyo3::intern!(py, "columns"))?
        && value.hasattr(pyo3::intern!(py, "dtypes"))?)
}

/// What has a name for each value besides its place, such as a pandas Series or a row of a
/// structured NumPy array: as a row, either could be meant.
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
    if let Some(width) = bare_width(element)
        && let Some(numbers) = buffer_of(value)?
    {
        let count = numbers.item_count();
        room(out, count.saturating_mul(4 + width) + SMALL)?;
        let start = types::list::begin(out);
        let each = Framing::Sized(width);
        encode_buffer(plan, element, &numbers, value, each, out)?;
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
        let size = width.saturating_mul(vector.dimension);
        let numeric = bare_width(&vector.element).is_some();
        // Only of numbers is every bit pattern a value.
        if numeric && put_ready_bytes(value, size, out)? {
            return Ok(());
        }
        if numeric && let Some(numbers) = buffer_of(value)? {
            check_dimension(plan, vector, numbers.item_count())?;
            room(out, size)?;
            return encode_buffer(plan, &vector.element, &numbers, value, Framing::Bare, out);
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
        return Err(mismatch(&vector.element, "no element of a vector is null", part));
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

/// Refuses more elements than a count of 32 bits tells.
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

/// Appends `bytes` or a `bytearray` of exactly the vector's size: already encoded.
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

/// Bytes of a number that typed buffers can hold.
fn bare_width(element: &HostPlan) -> Option<usize> {
    match element {
        Plan::TinyInt => Some(1),
        Plan::SmallInt => Some(2),
        Plan::Int | Plan::Float => Some(4),
        Plan::BigInt | Plan::Double => Some(8),
        _ => None,
    }
}

#[derive(Clone, Copy)]
enum Framing {
    /// One after another.
    Bare,
    /// Each with its length in bytes before it.
    Sized(usize),
}

/// A one-dimensional buffer of native numbers. `bytes` and the like hold no numbers, and objects
/// without a buffer have theirs read one by one.
fn buffer_of(value: &Bound<'_, PyAny>) -> PyResult<Option<PyUntypedBuffer>> {
    if value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>()
        || is_masked(value)?
    {
        return Ok(None);
    }
    let buffer = match PyUntypedBuffer::get(value) {
        Ok(buffer) => buffer,
        Err(error) => return unless_serious(value.py(), error),
    };
    Ok((buffer.dimensions() == 1 && !is_view_of_bytes(value)).then_some(buffer))
}

/// Whether the buffer's numbers are in the machine's byte order. Asked here because
/// [`PyUntypedBuffer::as_typed`] takes a foreign one for the machine's own.
fn is_native(buffer: &PyUntypedBuffer) -> bool {
    let foreign = if cfg!(target_endian = "little") { *b">!" } else { [b'<'; 2] };
    buffer.item_size() == 1
        || !buffer.format().to_bytes().first().is_some_and(|mark| foreign.contains(mark))
}

/// Appends a buffer's numbers as numbers of `element`'s type, each checked against its range.
fn encode_buffer(
    plan: &HostPlan,
    element: &HostPlan,
    buffer: &PyUntypedBuffer,
    value: &Bound<'_, PyAny>,
    framing: Framing,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let numbers = Numbers { element, framing, value };
    macro_rules! first_of {
        ($($kind:ty),*) => {
            $(if let Some(done) = numbers.append::<$kind>(buffer, out) { return done; })*
        };
    }
    if is_native(buffer) {
        first_of!(f32, f64, i32, i64, u8, i8, i16, u16, u32, u64);
    }
    // Half floats, foreign byte orders and records: by way of Python objects.
    let parts = bounded_list(plan, value, value, buffer.item_count())?;
    for (i, part) in parts.iter().enumerate() {
        let done = match framing {
            Framing::Sized(_) => encode_cell(element, &part, out),
            Framing::Bare => encode(element, &part, out),
        };
        done.map_err(|failure| failure.at(|| Segment::Index(i)))?;
    }
    Ok(())
}

struct Numbers<'a, 'py> {
    element: &'a HostPlan,
    framing: Framing,
    value: &'a Bound<'py, PyAny>,
}

impl Numbers<'_, '_> {
    /// Appends the buffer's numbers, when they are of kind `T`.
    fn append<T: Number + Default>(
        &self,
        buffer: &PyUntypedBuffer,
        out: &mut Vec<u8>,
    ) -> Option<Outcome<()>> {
        let typed = buffer.as_typed::<T>().ok()?;
        let numbers = match copied(self.value.py(), typed) {
            Ok(numbers) => numbers,
            Err(error) => return Some(Err(raised(self.element, self.value, error))),
        };
        for (i, &number) in numbers.iter().enumerate() {
            if let Framing::Sized(width) = self.framing {
                wire::put_i32(out, width as i32);
            }
            if !number.encode_as(self.element, out) {
                let cql_type = self.element.cql_type();
                let array = describe(self.value);
                let reason = format!("{number:?} in {array} cannot be stored as {cql_type}");
                let failure = if T::INTEGER || matches!(self.element, Plan::Float) {
                    Failure::out_of_range(cql_type, reason)
                } else {
                    Failure::refused(cql_type, reason)
                };
                return Some(Err(failure.at(|| Segment::Index(i))));
            }
        }
        Some(Ok(()))
    }
}

/// A number of a typed buffer.
trait Number: Element + std::fmt::Debug {
    /// Whether every column of numbers takes this kind, so that only the range can be at fault.
    const INTEGER: bool;

    /// Appends the number as `element` has it; false when it is not one of that type's.
    fn encode_as(self, element: &HostPlan, out: &mut Vec<u8>) -> bool;
}

macro_rules! integers {
    ($($kind:ty),*) => {
        $(impl Number for $kind {
            const INTEGER: bool = true;

            #[inline]
            fn encode_as(self, element: &HostPlan, out: &mut Vec<u8>) -> bool {
                fn fits<T, U>(number: T, encode: fn(U, &mut Vec<u8>), out: &mut Vec<u8>) -> bool
                where
                    U: TryFrom<T>,
                {
                    U::try_from(number).map(|number| encode(number, out)).is_ok()
                }
                match element {
                    Plan::TinyInt => fits(self, types::tinyint::encode, out),
                    Plan::SmallInt => fits(self, types::smallint::encode, out),
                    Plan::Int => fits(self, types::int::encode, out),
                    Plan::BigInt => fits(self, types::bigint::encode, out),
                    // By way of binary64, as the same number outside an array goes.
                    Plan::Float => {
                        types::float::encode(self as f64 as f32, out);
                        true
                    }
                    Plan::Double => {
                        types::double::encode(self as f64, out);
                        true
                    }
                    _ => false,
                }
            }
        })*
    };
}
integers!(i8, u8, i16, u16, i32, u32, i64, u64);

macro_rules! floats {
    ($($kind:ty),*) => {
        $(impl Number for $kind {
            const INTEGER: bool = false;

            #[inline]
            fn encode_as(self, element: &HostPlan, out: &mut Vec<u8>) -> bool {
                match element {
                    Plan::Float => narrow(self.into())
                        .map(|number| types::float::encode(number, out))
                        .is_some(),
                    Plan::Double => {
                        types::double::encode(self.into(), out);
                        true
                    }
                    _ => false,
                }
            }
        })*
    };
}
floats!(f32, f64);
