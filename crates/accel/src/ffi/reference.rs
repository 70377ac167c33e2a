//! Bytes to the values that the package `cassandra` makes of them, where those are others than ours.
//!
//! Whatever is unusual, or an error there, is turned down by a null pointer, without an exception.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::net::Ipv4Addr;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyString};
use turbocql_codec::plan::VectorPlan;
use turbocql_codec::{Plan, types};

use turbocql_values::ffi::decode::{Maker, or_none};
use turbocql_values::ffi::make;
use turbocql_values::ffi::quick_path::QuickPath;
use turbocql_values::value::decode::Choices;
use turbocql_values::value::numbers::KEEPS_SIGNALLING;
use turbocql_values::value::record::Record;
use turbocql_values::value::{HostPlan, interned};

type Object = *mut ffi::PyObject;

/// Below and above, drivers that compute in binary64 give other microseconds.
const EXACT_FLOAT_MS: i64 = (1 << 33) * 1000;

const NANOSECONDS_PER_DAY: i64 = 86_400_000_000_000;

/// Of a scale and at most 640 digits, to which Python can be told to limit itself.
const MOST_DECIMAL_BYTES: usize = 4 + 265;

/// What a driver makes of bytes.
pub struct Reference<'a, 'py> {
    pub py: Python<'py>,
    maker: Maker,
    ways: &'a ReadWays,
}

/// In what drivers differ.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ReadWays {
    float_time: bool,
    date: Py<PyAny>,
    time: Py<PyAny>,
    duration: Py<PyAny>,
}

#[pymethods]
impl ReadWays {
    /// Whether timestamps are computed in binary64, and `cassandra.util.Date`, `.Time` and
    /// `.Duration`, whose instances have a dict.
    #[new]
    fn new(float_time: bool, date: Py<PyAny>, time: Py<PyAny>, duration: Py<PyAny>) -> ReadWays {
        ReadWays { float_time, date, time, duration }
    }
}

/// Whether values of a plan can be made here.
pub fn makes(plan: &HostPlan) -> bool {
    match plan {
        Plan::Text
        | Plan::Ascii
        | Plan::Blob
        | Plan::Int
        | Plan::BigInt
        | Plan::Counter
        | Plan::SmallInt
        | Plan::TinyInt
        | Plan::Float
        | Plan::Double
        | Plan::Boolean
        | Plan::Uuid
        | Plan::TimeUuid
        | Plan::Timestamp
        | Plan::Date
        | Plan::Time
        | Plan::VarInt
        | Plan::Decimal
        | Plan::Duration
        | Plan::Inet => true,
        Plan::Vector(vector) => vector.width.is_some() && bare(&vector.element),
        _ => false,
    }
}

/// Whether elements of a vector are numbers that stand bare.
fn bare(element: &HostPlan) -> bool {
    matches!(element, Plan::Float | Plan::Double | Plan::Int | Plan::BigInt)
}

impl<'a, 'py> Reference<'a, 'py> {
    /// `None` where what is needed here is not there.
    pub fn new(py: Python<'py>, ways: &'a ReadWays) -> Option<Self> {
        let choices = Choices { naive_timestamps: true, numpy_vectors: false };
        // Compound values are rows and records too.
        if !QuickPath::Records.is_on() || !QuickPath::Rows.is_on() {
            return None;
        }
        Some(Reference { py, maker: Maker::new(py, choices)?, ways })
    }

    /// A new reference, or null.
    ///
    /// # Safety
    /// The interpreter's lock is held.
    #[inline(always)]
    pub unsafe fn value(&self, plan: &HostPlan, bytes: &[u8]) -> Object {
        // SAFETY: the caller's word, handed on.
        unsafe {
            match plan {
                Plan::Text | Plan::Blob => self.maker.value(plan, bytes),
                Plan::Ascii if bytes.is_ascii() => self.maker.value(plan, bytes),
                Plan::Ascii => ptr::null_mut(),
                Plan::Timestamp if self.ways.float_time => match bytes.try_into() {
                    Ok(number) if i64::from_be_bytes(number).abs() < EXACT_FLOAT_MS => {
                        self.maker.value(plan, bytes)
                    }
                    _ => ptr::null_mut(),
                },
                Plan::Float if is_signalling(bytes) => ptr::null_mut(),
                Plan::Inet => address(bytes),
                Plan::VarInt => owned(self.varint(bytes)),
                Plan::Decimal => owned(self.decimal(bytes)),
                Plan::Duration => owned(self.duration(bytes)),
                Plan::Date => match types::date::decode(bytes) {
                    Ok(days) => self.instance(
                        &self.ways.date,
                        pyo3::intern!(self.py, "days_from_epoch"),
                        days.into(),
                    ),
                    Err(_) => ptr::null_mut(),
                },
                Plan::Time => match types::time::decode(bytes) {
                    Ok(time) if (0..NANOSECONDS_PER_DAY).contains(&time) => self.instance(
                        &self.ways.time,
                        pyo3::intern!(self.py, "nanosecond_time"),
                        time,
                    ),
                    _ => ptr::null_mut(),
                },
                Plan::Vector(vector) => self.vector(vector, bytes),
                _ => self.maker.value(plan, bytes),
            }
        }
    }

    /// What `__init__` would set, set.
    fn instance(&self, class: &Py<PyAny>, name: &Bound<'py, PyString>, number: i64) -> Object {
        let py = self.py;
        let Ok(number) = number.into_pyobject(py);
        let made = make::instance(class.bind(py))
            .and_then(|object| make::set(&object, name, number.as_any()).map(|()| object));
        made.map_or(ptr::null_mut(), Bound::into_ptr)
    }

    fn varint(&self, bytes: &[u8]) -> Option<Bound<'py, PyAny>> {
        if let Some(number) = types::varint::decode_i128(bytes).ok()? {
            return number.into_pyobject(self.py).map(Bound::into_any).ok();
        }
        let signed = PyDict::new(self.py);
        signed.set_item(pyo3::intern!(self.py, "signed"), true).ok()?;
        let (from_bytes, big) =
            (pyo3::intern!(self.py, "from_bytes"), pyo3::intern!(self.py, "big"));
        let arguments = (PyBytes::new(self.py, bytes), big);
        self.py.get_type::<PyInt>().call_method(from_bytes, arguments, Some(&signed)).ok()
    }

    fn decimal(&self, bytes: &[u8]) -> Option<Bound<'py, PyAny>> {
        // Drivers read no number of no bytes, nor one of more digits than Python takes for an int;
        // compiled ones cannot negate the least scale.
        if !(5..=MOST_DECIMAL_BYTES).contains(&bytes.len()) {
            return None;
        }
        let parts = types::decimal::decode(bytes).ok().filter(|it| it.scale != i32::MIN)?;
        let (sign, exponent) = (if parts.negative { "-" } else { "" }, -i64::from(parts.scale));
        let text = format!("{sign}{}e{exponent}", parts.digits);
        interned::decimal(self.py).ok()?.call1((text,)).ok()
    }

    fn duration(&self, bytes: &[u8]) -> Option<Bound<'py, PyAny>> {
        let py = self.py;
        let found = types::duration::decode(bytes).ok()?;
        let object = make::instance(self.ways.duration.bind(py)).ok()?;
        for (name, number) in [
            (pyo3::intern!(py, "months"), i64::from(found.months)),
            (pyo3::intern!(py, "days"), i64::from(found.days)),
            (pyo3::intern!(py, "nanoseconds"), found.nanoseconds),
        ] {
            let Ok(number) = number.into_pyobject(py);
            make::set(&object, name, &number).ok()?;
        }
        Some(object)
    }

    fn vector(&self, vector: &VectorPlan<Record>, bytes: &[u8]) -> Object {
        let (py, count) = (self.py, vector.dimension);
        let whole = vector.width.and_then(|width| width.checked_mul(count));
        if whole != Some(bytes.len()) {
            return ptr::null_mut();
        }
        let (fours, eights) = (bytes.as_chunks::<4>().0, bytes.as_chunks::<8>().0);
        let made = match &vector.element {
            Plan::Float if fours.iter().any(|number| is_signalling(number)) => {
                return ptr::null_mut();
            }
            Plan::Float => make::floats(py, count, |i| f32::from_be_bytes(fours[i]).into()),
            Plan::Double => make::floats(py, count, |i| f64::from_be_bytes(eights[i])),
            Plan::Int => make::ints(py, count, |i| i32::from_be_bytes(fours[i]).into()),
            Plan::BigInt => make::ints(py, count, |i| i64::from_be_bytes(eights[i])),
            _ => return ptr::null_mut(),
        };
        made.map_or(ptr::null_mut(), |list| list.into_any().into_ptr())
    }
}

/// Whether a number of binary32 is a NaN of which drivers may make another one.
fn is_signalling(bytes: &[u8]) -> bool {
    let Ok(bytes) = bytes.try_into() else { return false };
    let bits = u32::from_be_bytes(bytes);
    KEEPS_SIGNALLING && bits & 0x7fc0_0000 == 0x7f80_0000 && bits & 0x003f_ffff != 0
}

/// Errors, of which an allocation's is the only one, are seen again by who looks next.
fn owned(made: Option<Bound<'_, PyAny>>) -> Object {
    made.map_or(ptr::null_mut(), Bound::into_ptr)
}

/// # Safety
/// The interpreter's lock is held.
#[inline(always)]
pub unsafe fn none() -> Object {
    // SAFETY: the address of a singleton.
    unsafe {
        ffi::Py_INCREF(ffi::Py_None());
        ffi::Py_None()
    }
}

unsafe extern "C" {
    /// The C library's: of addresses that stand for others, libraries have several spellings.
    fn inet_ntop(
        family: c_int,
        address: *const c_void,
        text: *mut c_char,
        size: u32,
    ) -> *const c_char;
}

#[cfg(target_os = "linux")]
const AF_INET6: c_int = 10;
#[cfg(not(target_os = "linux"))]
const AF_INET6: c_int = 30;

/// An address as text.
///
/// # Safety
/// The interpreter's lock is held.
unsafe fn address(bytes: &[u8]) -> Object {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        let text = Ipv4Addr::from(four).to_string();
        // SAFETY: so many bytes of ASCII; a new object, or null with an exception.
        return unsafe {
            or_none(ffi::PyUnicode_FromStringAndSize(text.as_ptr().cast(), text.len() as isize))
        };
    }
    if bytes.len() != 16 {
        return ptr::null_mut();
    }
    let mut text = [0; 64];
    // SAFETY: 16 bytes of an address, and room for the longest text and its end, of which the
    // function is told.
    unsafe {
        let size = text.len() as u32;
        if inet_ntop(AF_INET6, bytes.as_ptr().cast(), text.as_mut_ptr(), size).is_null() {
            return ptr::null_mut();
        }
        let text = CStr::from_ptr(text.as_ptr()).to_bytes();
        or_none(ffi::PyUnicode_FromStringAndSize(text.as_ptr().cast(), text.len() as isize))
    }
}
