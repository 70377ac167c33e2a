//! The stand-ins for functions of the driver's module `cassandra.marshal`.

use std::convert::Infallible;

use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyList, PyTuple};
use turbocql_codec::types::varint;
use turbocql_codec::wire::{self, Reader};
use turbocql_values::binary32::widen;
use turbocql_values::ffi::bytes;
use turbocql_values::memory::{tuple_of, with_scratch};
use turbocql_values::plan::HostPlan;
use turbocql_values::value::decode_numbers;

use super::counts::Counts;
use super::writes::Writes;
use crate::ffi::call::{self, StandIn};

/// The maximum size in bytes of a vint that encodes a number of 64 bits.
const LONGEST_VINT: usize = 9;

/// Stands in for a function that packs or unpacks one number or several numbers.
#[pyclass(frozen, module = "turbocql._core")]
pub struct MarshalStandIn {
    original: Py<PyAny>,
    work: Work,
    counts: Counts,
}

#[derive(Clone, Copy)]
enum Work {
    PackVarint,
    PackVints,
    PackUvint,
    Unpack(Unpack),
}

#[derive(Clone, Copy)]
enum Unpack {
    Varint,
    Vints,
    Uvint,
    /// A number of a fixed width.
    Number(Number),
}

#[derive(Clone, Copy)]
enum Number {
    Int64,
    Int32,
    Int16,
    Int8,
    Uint64,
    Uint32,
    Uint32Le,
    Uint16,
    Uint8,
    Float,
    Double,
}

const NAMES: [(&str, Work); 17] = [
    ("varint_pack", Work::PackVarint),
    ("varint_unpack", Work::Unpack(Unpack::Varint)),
    ("vints_pack", Work::PackVints),
    ("vints_unpack", Work::Unpack(Unpack::Vints)),
    ("uvint_pack", Work::PackUvint),
    ("uvint_unpack", Work::Unpack(Unpack::Uvint)),
    ("int64_unpack", Work::Unpack(Unpack::Number(Number::Int64))),
    ("int32_unpack", Work::Unpack(Unpack::Number(Number::Int32))),
    ("int16_unpack", Work::Unpack(Unpack::Number(Number::Int16))),
    ("int8_unpack", Work::Unpack(Unpack::Number(Number::Int8))),
    ("uint64_unpack", Work::Unpack(Unpack::Number(Number::Uint64))),
    ("uint32_unpack", Work::Unpack(Unpack::Number(Number::Uint32))),
    ("uint32_le_unpack", Work::Unpack(Unpack::Number(Number::Uint32Le))),
    ("uint16_unpack", Work::Unpack(Unpack::Number(Number::Uint16))),
    ("uint8_unpack", Work::Unpack(Unpack::Number(Number::Uint8))),
    ("float_unpack", Work::Unpack(Unpack::Number(Number::Float))),
    ("double_unpack", Work::Unpack(Unpack::Number(Number::Double))),
];

#[pymethods]
impl MarshalStandIn {
    /// `name` is the name of the driver's function in its module.
    #[new]
    fn new(original: Py<PyAny>, name: &str) -> PyResult<MarshalStandIn> {
        let Some((_, work)) = NAMES.iter().find(|(known, _)| *known == name) else {
            return Err(PyValueError::new_err(format!("no stand-in for {name}")));
        };
        Ok(MarshalStandIn { original, work: *work, counts: Counts::default() })
    }

    /// Returns the function that replaces the driver's.
    fn function<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, &this.get().original)
    }

    /// The numbers of native calls and of fallbacks.
    fn counts(&self) -> (u64, u64) {
        self.counts.get()
    }
}

impl StandIn for MarshalStandIn {
    #[inline]
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let stand_in = this.get();
        let [argument] = arguments else { return Ok(None) };
        let result = match stand_in.work {
            Work::PackVarint => pack_varint(argument)?,
            Work::PackVints => pack_vints(argument)?,
            Work::PackUvint => pack_uvint(argument)?,
            Work::Unpack(unpack) => {
                let Ok(bytes) = argument.cast_exact::<PyBytes>() else { return Ok(None) };
                let (py, bytes) = (this.py(), bytes.as_bytes());
                match unpack {
                    Unpack::Varint => unpack_varint(py, bytes)?,
                    Unpack::Vints => unpack_vints(py, bytes)?,
                    Unpack::Uvint => unpack_uvint(py, bytes)?,
                    Unpack::Number(number) => unpack_number(py, number, bytes)?,
                }
            }
        };
        if result.is_some() {
            stand_in.counts.native();
        }
        Ok(result)
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}

/// The result of one of the functions below. It is None if the driver's function must be called.
type Answer<'py> = PyResult<Option<Bound<'py, PyAny>>>;

fn pack_varint<'py>(number: &Bound<'py, PyAny>) -> Answer<'py> {
    if !number.is_exact_instance_of::<PyInt>() {
        return Ok(None);
    }
    Ok(Writes::Protocol.bytes(&HostPlan::VarInt, number)?.map(Bound::into_any))
}

fn unpack_varint<'py>(py: Python<'py>, bytes: &[u8]) -> Answer<'py> {
    let Ok(small) = varint::decode_i128(bytes) else { return Ok(None) };
    decode_numbers::varint(py, small, bytes).map(Some)
}

fn pack_vints<'py>(numbers: &Bound<'py, PyAny>) -> Answer<'py> {
    let py = numbers.py();
    let numbers: Vec<Bound<'py, PyAny>> = if let Ok(list) = numbers.cast_exact::<PyList>() {
        list.iter().collect()
    } else if let Ok(tuple) = numbers.cast_exact::<PyTuple>() {
        tuple.iter().collect()
    } else {
        return Ok(None);
    };
    let packed = with_scratch(|out| {
        for number in &numbers {
            let number = number.cast_exact::<PyInt>().ok()?.extract::<i64>().ok()?;
            out.try_reserve(LONGEST_VINT).ok()?;
            wire::put_vint(out, number);
        }
        Some(bytes::copy(py, out))
    });
    Ok(packed.transpose()?.map(Bound::into_any))
}

fn unpack_vints<'py>(py: Python<'py>, bytes: &[u8]) -> Answer<'py> {
    let (mut reader, mut numbers) = (Reader::new(bytes), Vec::new());
    while !reader.is_empty() {
        let Ok(number) = reader.vint() else { return Ok(None) };
        numbers.try_reserve(1).map_err(|_| PyMemoryError::new_err(()))?;
        numbers.push(object(py, number));
    }
    Ok(Some(tuple_of(py, numbers)?.into_any()))
}

fn pack_uvint<'py>(number: &Bound<'py, PyAny>) -> Answer<'py> {
    let Ok(exact) = number.cast_exact::<PyInt>() else { return Ok(None) };
    let Ok(value) = exact.extract::<u64>() else { return Ok(None) };
    let packed = with_scratch(|out| {
        wire::put_unsigned_vint(out, value);
        bytes::copy(number.py(), out)
    });
    packed.map(|packed| Some(packed.into_any()))
}

/// Returns a tuple of the number, and of how many bytes encode it.
fn unpack_uvint<'py>(py: Python<'py>, bytes: &[u8]) -> Answer<'py> {
    let mut reader = Reader::new(bytes);
    let Ok(number) = reader.unsigned_vint() else { return Ok(None) };
    let length = bytes.len() - reader.remaining();
    Ok(Some((number, length).into_pyobject(py)?.into_any()))
}

/// Unpacks a number of a fixed width; returns None if `bytes` does not have the number's width.
#[inline]
fn unpack_number<'py>(py: Python<'py>, number: Number, bytes: &[u8]) -> Answer<'py> {
    let unpacked = match number {
        Number::Int64 => bytes.try_into().map(|n| object(py, i64::from_be_bytes(n))),
        Number::Int32 => bytes.try_into().map(|n| object(py, i32::from_be_bytes(n))),
        Number::Int16 => bytes.try_into().map(|n| object(py, i16::from_be_bytes(n))),
        Number::Int8 => bytes.try_into().map(|n| object(py, i8::from_be_bytes(n))),
        Number::Uint64 => bytes.try_into().map(|n| object(py, u64::from_be_bytes(n))),
        Number::Uint32 => bytes.try_into().map(|n| object(py, u32::from_be_bytes(n))),
        Number::Uint32Le => bytes.try_into().map(|n| object(py, u32::from_le_bytes(n))),
        Number::Uint16 => bytes.try_into().map(|n| object(py, u16::from_be_bytes(n))),
        Number::Uint8 => bytes.try_into().map(|n| object(py, u8::from_be_bytes(n))),
        Number::Float => {
            bytes.try_into().map(|n| PyFloat::new(py, widen(f32::from_be_bytes(n))).into_any())
        }
        Number::Double => {
            bytes.try_into().map(|n| PyFloat::new(py, f64::from_be_bytes(n)).into_any())
        }
    };
    Ok(unpacked.ok())
}

fn object<'py, N>(py: Python<'py>, number: N) -> Bound<'py, PyAny>
where
    N: IntoPyObject<'py, Target = PyInt, Output = Bound<'py, PyInt>, Error = Infallible>,
{
    let Ok(int) = number.into_pyobject(py);
    int.into_any()
}
