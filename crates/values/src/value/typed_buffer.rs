//! Encodes typed buffers, such as NumPy arrays, to lists and vectors without an object per element.

use pyo3::buffer::{Element, PyUntypedBuffer};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyTuple};
use turbocql_codec::{Segment, types, wire};

use super::describe::describe;
use super::encode::{encode, encode_cell, raised, unless_serious};
use super::sequence::{bounded_list, is_masked, is_view_of_bytes};
use crate::binary32::narrow;
use crate::failure::{Failure, Outcome};
use crate::memory::copied;
use crate::plan::HostPlan;
use crate::traits::Numeric;

/// How numbers are written on the wire.
#[derive(Clone, Copy)]
pub enum Framing {
    /// The numbers follow one another without lengths.
    Bare,
    /// Each number follows its length in bytes.
    Sized,
}

/// Returns the one-dimensional buffer of an object such as an array of numbers. Returns `None` for
/// lists, tuples, bytes, bytearrays, views of bytes and masked arrays, and for objects without a
/// one-dimensional buffer. The caller reads the elements of these values one by one, or refuses
/// them.
pub fn buffer_of(value: &Bound<'_, PyAny>) -> PyResult<Option<PyUntypedBuffer>> {
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

/// Whether the buffer's numbers are in the machine's byte order. [`PyUntypedBuffer::as_typed`] does
/// not check the byte order: it would read numbers in the opposite order as if they were in the
/// machine's order.
fn is_native(buffer: &PyUntypedBuffer) -> bool {
    let foreign = if cfg!(target_endian = "little") { *b">!" } else { [b'<'; 2] };
    buffer.item_size() == 1
        || !buffer.format().to_bytes().first().is_some_and(|mark| foreign.contains(mark))
}

/// Encodes the numbers of a buffer as numbers of a CQL type.
pub struct Numbers<'a, 'py> {
    /// The type of the whole value.
    pub plan: &'a HostPlan,
    pub element: &'a HostPlan,
    pub numeric: Numeric,
    pub framing: Framing,
    /// The object that has the buffer.
    pub value: &'a Bound<'py, PyAny>,
}

impl Numbers<'_, '_> {
    /// Appends all numbers of the buffer. Refuses numbers that the CQL type cannot hold.
    pub fn encode(&self, buffer: &PyUntypedBuffer, out: &mut Vec<u8>) -> Outcome<()> {
        macro_rules! first_of {
            ($($kind:ty),*) => {
                $(if let Some(encoded) = self.append::<$kind>(buffer, out) { return encoded; })*
            };
        }
        if is_native(buffer) {
            first_of!(f32, f64, i32, i64, u8, i8, i16, u16, u32, u64);
        }
        // All other items, such as half floats, records and numbers in the opposite byte order, are
        // converted through Python objects.
        let parts = bounded_list(self.plan, self.value, self.value, buffer.item_count())?;
        for (i, part) in parts.iter().enumerate() {
            let encoded = match self.framing {
                Framing::Sized => encode_cell(self.element, &part, out),
                Framing::Bare => encode(self.element, &part, out),
            };
            encoded.map_err(|failure| failure.at(|| Segment::Index(i)))?;
        }
        Ok(())
    }

    /// Appends the buffer's numbers if they are of kind `T`. Otherwise returns `None`.
    fn append<T: TypedNumber + Default>(
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
            if let Framing::Sized = self.framing {
                wire::put_i32(out, self.numeric.width() as i32);
            }
            if !number.encode_as(self.numeric, out) {
                let cql_type = self.element.cql_type();
                let array = describe(self.value);
                let reason = format!("{number:?} in {array} cannot be stored as {cql_type}");
                let failure = if T::INTEGER || self.numeric == Numeric::Float {
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
trait TypedNumber: Element + std::fmt::Debug {
    /// Whether all numeric CQL types take numbers of this kind. If so, such a number is refused
    /// only if it is out of range.
    const INTEGER: bool;

    /// Appends the number as a value of a CQL type. Returns false if the type cannot hold the
    /// number.
    fn encode_as(self, numeric: Numeric, out: &mut Vec<u8>) -> bool;
}

macro_rules! integers {
    ($($kind:ty),*) => {
        $(impl TypedNumber for $kind {
            const INTEGER: bool = true;

            #[inline]
            fn encode_as(self, numeric: Numeric, out: &mut Vec<u8>) -> bool {
                fn fits<T, U>(number: T, encode: fn(U, &mut Vec<u8>), out: &mut Vec<u8>) -> bool
                where
                    U: TryFrom<T>,
                {
                    U::try_from(number).map(|number| encode(number, out)).is_ok()
                }
                match numeric {
                    Numeric::TinyInt => fits(self, types::tinyint::encode, out),
                    Numeric::SmallInt => fits(self, types::smallint::encode, out),
                    Numeric::Int => fits(self, types::int::encode, out),
                    Numeric::BigInt => fits(self, types::bigint::encode, out),
                    // The number is converted to binary64 first, because a number outside an array
                    // is converted in the same way.
                    Numeric::Float => {
                        types::float::encode(self as f64 as f32, out);
                        true
                    }
                    Numeric::Double => {
                        types::double::encode(self as f64, out);
                        true
                    }
                }
            }
        })*
    };
}
integers!(i8, u8, i16, u16, i32, u32, i64, u64);

macro_rules! floats {
    ($($kind:ty),*) => {
        $(impl TypedNumber for $kind {
            const INTEGER: bool = false;

            #[inline]
            fn encode_as(self, numeric: Numeric, out: &mut Vec<u8>) -> bool {
                match numeric {
                    Numeric::Float => narrow(self.into())
                        .map(|number| types::float::encode(number, out))
                        .is_some(),
                    Numeric::Double => {
                        types::double::encode(self.into(), out);
                        true
                    }
                    Numeric::TinyInt | Numeric::SmallInt | Numeric::Int | Numeric::BigInt => false,
                }
            }
        })*
    };
}
floats!(f32, f64);
