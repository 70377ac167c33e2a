//! Decodes scalars, and vectors of numbers, to the objects that the package `cassandra` makes from
//! them.
//!
//! The functions return `None`, without an exception, for bytes that the driver must decode itself
//! or refuses with an error. The caller then calls the driver's function.

use std::net::Ipv4Addr;

use pyo3::prelude::*;
use pyo3::types::PyString;
use turbocql_codec::plan::VectorPlan;
use turbocql_codec::{Plan, types};
use turbocql_values::binary32::KEEPS_SIGNALLING;
use turbocql_values::ffi::decode::Maker;
use turbocql_values::ffi::make;
use turbocql_values::ffi::quick_path::QuickPath;
use turbocql_values::plan::{Choices, HostPlan, Record};
use turbocql_values::traits::{Numeric, traits};
use turbocql_values::value::decode_numbers;

use crate::ffi::address;

/// For a timestamp at least this many milliseconds before or after 1970, drivers that compute
/// timestamps in binary64 can return microseconds that differ from the exact ones.
const EXACT_FLOAT_MS: i64 = (1 << 33) * 1000;

const NANOSECONDS_PER_DAY: i64 = 86_400_000_000_000;

/// The maximum size in bytes of a decimal that is decoded natively: a scale, and at most 640
/// digits. Python limits how many digits it converts to an `int`, and 640 is the smallest limit
/// that an application can set.
const MAX_DECIMAL_BYTES: usize = 4 + 265;

/// Decodes bytes to the objects that a driver makes.
pub struct Scalars<'a, 'py> {
    pub py: Python<'py>,
    maker: Maker,
    properties: &'a ReadWays,
}

/// The properties of a driver that affect decoding.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ReadWays {
    float_time: bool,
    date: Py<PyAny>,
    time: Py<PyAny>,
    duration: Py<PyAny>,
}

#[pymethods]
impl ReadWays {
    /// `float_time`: whether the driver computes timestamps in binary64. `date`, `time` and
    /// `duration`: the classes `Date`, `Time` and `Duration` of `cassandra.util`, whose instances
    /// have a dict.
    #[new]
    fn new(float_time: bool, date: Py<PyAny>, time: Py<PyAny>, duration: Py<PyAny>) -> ReadWays {
        ReadWays { float_time, date, time, duration }
    }
}

impl<'a, 'py> Scalars<'a, 'py> {
    /// Returns `None` if one of the quick paths that decoding needs is off. These use CPython's C
    /// layouts.
    pub fn new(py: Python<'py>, properties: &'a ReadWays) -> Option<Self> {
        let choices = Choices { naive_timestamps: true, numpy_vectors: false };
        // `reading` makes compound values with the functions of these two quick paths.
        if !QuickPath::Records.is_on() || !QuickPath::Rows.is_on() {
            return None;
        }
        Some(Scalars { py, maker: Maker::new(py, choices)?, properties })
    }

    /// Returns the value that the bytes encode; `None` if the driver must decode them.
    #[inline(always)]
    pub fn value(&self, plan: &HostPlan, bytes: &[u8]) -> Option<Bound<'py, PyAny>> {
        match plan {
            Plan::Text
            | Plan::Blob
            | Plan::Int
            | Plan::BigInt
            | Plan::Counter
            | Plan::SmallInt
            | Plan::TinyInt
            | Plan::Double
            | Plan::Boolean
            | Plan::Uuid
            | Plan::TimeUuid => self.maker.make(self.py, plan, bytes),
            Plan::Ascii => self.maker.make(self.py, plan, bytes).filter(|_| bytes.is_ascii()),
            Plan::Timestamp => {
                let milliseconds = i64::from_be_bytes(bytes.try_into().ok()?);
                let exact = !self.properties.float_time || milliseconds.abs() < EXACT_FLOAT_MS;
                if exact { self.maker.make(self.py, plan, bytes) } else { None }
            }
            Plan::Float if is_signalling(bytes) => None,
            Plan::Float => self.maker.make(self.py, plan, bytes),
            Plan::Inet => self.address(bytes),
            Plan::VarInt => {
                let small = types::varint::decode_i128(bytes).ok()?;
                decode_numbers::varint(self.py, small, bytes).ok()
            }
            Plan::Decimal => self.decimal(bytes),
            Plan::Duration => self.duration(bytes),
            Plan::Date => {
                let days = types::date::decode(bytes).ok()?;
                let name = pyo3::intern!(self.py, "days_from_epoch");
                self.instance(&self.properties.date, name, days.into())
            }
            Plan::Time => {
                let time = types::time::decode(bytes).ok()?;
                let name = pyo3::intern!(self.py, "nanosecond_time");
                let in_a_day = (0..NANOSECONDS_PER_DAY).contains(&time);
                if in_a_day { self.instance(&self.properties.time, name, time) } else { None }
            }
            Plan::Vector(vector) => self.vector(vector, bytes),
            Plan::List(_)
            | Plan::Set(_)
            | Plan::Map(_)
            | Plan::Tuple(_)
            | Plan::Udt(_)
            | Plan::Composite(_)
            | Plan::Custom(_) => None,
        }
    }

    /// Makes a `str` from the bytes of an IP address.
    fn address(&self, bytes: &[u8]) -> Option<Bound<'py, PyAny>> {
        if let Ok(four) = <[u8; 4]>::try_from(bytes) {
            let text = Ipv4Addr::from(four).to_string();
            return Some(PyString::new(self.py, &text).into_any());
        }
        address::ipv6(self.py, bytes.try_into().ok()?).map(Bound::into_any)
    }

    /// Makes an instance of `class`, and sets its attribute `name` to `number`, as `__init__`
    /// would.
    fn instance(
        &self,
        class: &Py<PyAny>,
        name: &Bound<'py, PyString>,
        number: i64,
    ) -> Option<Bound<'py, PyAny>> {
        let py = self.py;
        let Ok(number) = number.into_pyobject(py);
        let object = make::instance(class.bind(py)).ok()?;
        make::set(&object, name, number.as_any()).ok()?;
        Some(object)
    }

    fn decimal(&self, bytes: &[u8]) -> Option<Bound<'py, PyAny>> {
        // The drivers raise an error if the number has zero bytes, or more digits than Python
        // converts to an `int`. The compiled drivers cannot negate the smallest scale.
        if !(5..=MAX_DECIMAL_BYTES).contains(&bytes.len()) {
            return None;
        }
        let parts = types::decimal::decode(bytes).ok().filter(|parts| parts.scale != i32::MIN)?;
        decode_numbers::decimal(self.py, &parts).ok()
    }

    fn duration(&self, bytes: &[u8]) -> Option<Bound<'py, PyAny>> {
        let py = self.py;
        let decoded = types::duration::decode(bytes).ok()?;
        let object = make::instance(self.properties.duration.bind(py)).ok()?;
        for (name, number) in [
            (pyo3::intern!(py, "months"), i64::from(decoded.months)),
            (pyo3::intern!(py, "days"), i64::from(decoded.days)),
            (pyo3::intern!(py, "nanoseconds"), decoded.nanoseconds),
        ] {
            let Ok(number) = number.into_pyobject(py);
            make::set(&object, name, &number).ok()?;
        }
        Some(object)
    }

    fn vector(&self, vector: &VectorPlan<Record>, bytes: &[u8]) -> Option<Bound<'py, PyAny>> {
        let expected_length = vector.width.and_then(|width| width.checked_mul(vector.dimension));
        let numeric = traits(&vector.element).numeric;
        let signalling = numeric == Some(Numeric::Float)
            && bytes.as_chunks::<4>().0.iter().any(|number| is_signalling(number));
        if expected_length != Some(bytes.len()) || signalling {
            return None;
        }
        decode_numbers::numbers(self.py, vector, bytes).ok().flatten().map(Bound::into_any)
    }
}

/// Whether a binary32 number is a signalling NaN, which drivers may change to another NaN. Always
/// false before CPython 3.14, where `KEEPS_SIGNALLING` is false.
fn is_signalling(bytes: &[u8]) -> bool {
    let Ok(bytes) = bytes.try_into() else { return false };
    let bits = u32::from_be_bytes(bytes);
    KEEPS_SIGNALLING && bits & 0x7fc0_0000 == 0x7f80_0000 && bits & 0x003f_ffff != 0
}
