//! Bytes to values of Python's own classes, each made by the shortest way that its class has.
//!
//! Whatever is not as usual is turned down by a null pointer, without an exception: the caller then
//! goes the safe way, which has the message. Making a value here runs no Python code, but a
//! collection of garbage may, which sees nothing unfinished: what is being filled is not tracked.

use std::ffi::CStr;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDate, PyDateTime, PyDict, PyTzInfo};
use turbocql_codec::{Plan, types};

use super::int::from_u128;
use super::quick_path::QuickPath;
use super::{probe, slots};
use crate::value::decode::{Choices, MILLISECONDS_PER_DAY, PYTHON_DAYS};
use crate::value::numbers::widen;
use crate::value::temporal::civil_from_days;
use crate::value::{HostPlan, interned, is_atomic};

type Object = *mut ffi::PyObject;

/// What values are made of, beside their bytes.
#[derive(Clone, Copy)]
pub struct Maker {
    naive_timestamps: bool,
    datetime: *mut ffi::PyDateTime_CAPI,
    /// `UUID.is_safe`, and so on, borrowed from where they live for ever.
    safe_uuid_unknown: Object,
}

impl Maker {
    /// `None` where what is needed here is not there.
    pub fn new(py: Python<'_>, choices: Choices) -> Option<Maker> {
        if QuickPath::Decode.is_on() { Maker::of(py, choices) } else { None }
    }

    fn of(py: Python<'_>, choices: Choices) -> Option<Maker> {
        let safe_uuid_unknown = interned::safe_uuid_unknown(py).ok()?.as_ptr();
        // SAFETY: the lock is held; null where the module cannot be imported.
        let datetime = unsafe { ffi::PyDateTimeAPI() };
        let known = !datetime.is_null();
        let naive_timestamps = choices.naive_timestamps;
        known.then_some(Maker { naive_timestamps, datetime, safe_uuid_unknown })
    }

    /// A value, unless it is turned down.
    #[inline]
    pub fn make<'py>(
        &self,
        py: Python<'py>,
        plan: &HostPlan,
        bytes: &[u8],
    ) -> Option<Bound<'py, PyAny>> {
        // SAFETY: the lock is held, as `py` shows; what comes is ours.
        unsafe { Bound::from_owned_ptr_or_opt(py, self.value(plan, bytes)) }
    }

    /// A new reference, or null.
    ///
    /// # Safety
    /// The interpreter's lock is held.
    #[inline(always)]
    pub unsafe fn value(&self, plan: &HostPlan, bytes: &[u8]) -> Object {
        // SAFETY: the caller's word. All that is called here gives a new reference, or null with
        // an exception, which `or_none` takes away.
        unsafe {
            match plan {
                Plan::Text | Plan::Ascii => text(bytes),
                Plan::Int => match bytes.try_into() {
                    Ok(bytes) => or_none(ffi::PyLong_FromLong(i32::from_be_bytes(bytes).into())),
                    Err(_) => ptr::null_mut(),
                },
                Plan::BigInt | Plan::Counter => match bytes.try_into() {
                    Ok(bytes) => or_none(ffi::PyLong_FromLongLong(i64::from_be_bytes(bytes))),
                    Err(_) => ptr::null_mut(),
                },
                Plan::Double => match bytes.try_into() {
                    Ok(bytes) => or_none(ffi::PyFloat_FromDouble(f64::from_be_bytes(bytes))),
                    Err(_) => ptr::null_mut(),
                },
                Plan::Float => match bytes.try_into() {
                    Ok(bytes) => or_none(ffi::PyFloat_FromDouble(widen(f32::from_be_bytes(bytes)))),
                    Err(_) => ptr::null_mut(),
                },
                Plan::Boolean => match bytes {
                    [0] => new(ffi::Py_False()),
                    [_] => new(ffi::Py_True()),
                    _ => ptr::null_mut(),
                },
                Plan::Timestamp => match bytes.try_into() {
                    Ok(bytes) => self.timestamp(i64::from_be_bytes(bytes)),
                    Err(_) => ptr::null_mut(),
                },
                Plan::Blob => or_none(ffi::PyBytes_FromStringAndSize(
                    bytes.as_ptr().cast(),
                    bytes.len() as isize,
                )),
                Plan::Uuid | Plan::TimeUuid => match bytes.try_into() {
                    Ok(bytes) => {
                        let number = from_u128(u128::from_be_bytes(bytes));
                        slots::UUID.make([number, new(self.safe_uuid_unknown)])
                    }
                    Err(_) => ptr::null_mut(),
                },
                Plan::Inet => match bytes.try_into() {
                    Ok(bytes) => {
                        let number = u32::from_be_bytes(bytes);
                        slots::IPV4_ADDRESS.make([or_none(ffi::PyLong_FromLongLong(number.into()))])
                    }
                    Err(_) => ptr::null_mut(),
                },
                Plan::List(element) if is_scalar(element) => self.list(element, bytes),
                Plan::SmallInt => match bytes.try_into() {
                    Ok(bytes) => or_none(ffi::PyLong_FromLong(i16::from_be_bytes(bytes).into())),
                    Err(_) => ptr::null_mut(),
                },
                Plan::TinyInt => match bytes {
                    [byte] => or_none(ffi::PyLong_FromLong((*byte as i8).into())),
                    _ => ptr::null_mut(),
                },
                Plan::Date => match types::date::decode(bytes) {
                    Ok(days) => self.date(days),
                    Err(_) => ptr::null_mut(),
                },
                Plan::Time => match types::time::decode(bytes) {
                    Ok(time) => slots::TIME.make([or_none(ffi::PyLong_FromLongLong(time))]),
                    Err(_) => ptr::null_mut(),
                },
                Plan::VarInt
                | Plan::Decimal
                | Plan::Duration
                | Plan::List(_)
                | Plan::Set(_)
                | Plan::Map(_)
                | Plan::Tuple(_)
                | Plan::Udt(_)
                | Plan::Vector(_)
                | Plan::Composite(_)
                | Plan::Custom(_) => ptr::null_mut(),
            }
        }
    }

    /// As `new_datetime_ex2` of CPython makes them, past its checks of numbers that are right.
    #[inline(always)]
    unsafe fn timestamp(&self, milliseconds: i64) -> Object {
        let days = milliseconds.div_euclid(MILLISECONDS_PER_DAY);
        if !PYTHON_DAYS.contains(&days) {
            return ptr::null_mut();
        }
        let rest = milliseconds.rem_euclid(MILLISECONDS_PER_DAY) as u32;
        let (year, month, day) = civil_from_days(days);
        let (seconds, microseconds) = (rest / 1000, rest % 1000 * 1000);
        let (year, micro) = ((year as u16).to_be_bytes(), microseconds.to_be_bytes());
        let aware = !self.naive_timestamps;
        // SAFETY: the class's own allocation, which makes room for `tzinfo` where it is asked to;
        // all fields are filled in, as the class has them.
        unsafe {
            let class = (*self.datetime).DateTimeType;
            let Some(allocate) = (*class).tp_alloc else { return ptr::null_mut() };
            let object = or_none(allocate(class, aware.into()));
            if object.is_null() {
                return object;
            }
            let made = object.cast::<ffi::PyDateTime_DateTime>();
            (*made).hashcode = -1;
            (*made).hastzinfo = aware.into();
            (*made).data = [
                year[0],
                year[1],
                month,
                day,
                (seconds / 3600) as u8,
                (seconds / 60 % 60) as u8,
                (seconds % 60) as u8,
                micro[1],
                micro[2],
                micro[3],
            ];
            (*made).fold = 0;
            if aware {
                (*made).tzinfo = new((*self.datetime).TimeZone_UTC);
            }
            object
        }
    }

    #[inline(always)]
    unsafe fn date(&self, days: i32) -> Object {
        if !PYTHON_DAYS.contains(&i64::from(days)) {
            return ptr::null_mut();
        }
        let (year, month, day) = civil_from_days(days.into());
        // SAFETY: what the C-API is there for.
        unsafe {
            let class = (*self.datetime).DateType;
            let make = (*self.datetime).Date_FromDate;
            or_none(make(year as i32, month.into(), day.into(), class))
        }
    }

    /// A list, unless one of its elements is turned down.
    unsafe fn list(&self, element: &HostPlan, bytes: &[u8]) -> Object {
        let Ok(mut elements) = types::list::decode(bytes) else { return ptr::null_mut() };
        let count = elements.count();
        // SAFETY: the list is new, and not tracked until it is full; places that are still empty
        // when it goes are passed over.
        unsafe {
            let list = or_none(ffi::PyList_New(count as isize));
            if list.is_null() {
                return list;
            }
            ffi::PyObject_GC_UnTrack(list.cast());
            for i in 0..count {
                let part = match elements.next_value() {
                    Ok(Some(bytes)) => self.value(element, bytes),
                    Ok(None) => new(ffi::Py_None()),
                    Err(_) => ptr::null_mut(),
                };
                if part.is_null() {
                    ffi::Py_DECREF(list);
                    return ptr::null_mut();
                }
                ffi::PyList_SET_ITEM(list, i as isize, part);
            }
            if elements.finish().is_err() {
                ffi::Py_DECREF(list);
                return ptr::null_mut();
            }
            ffi::PyObject_GC_Track(list.cast());
            list
        }
    }
}

/// Bytes of a type, and the same value as Python makes it.
type Sample<'a> = (&'a HostPlan, &'a [u8], &'a CStr);

/// Tries how values are made.
pub fn probe_decode(py: Python<'_>) -> PyResult<Option<String>> {
    let wrong = probe::classes(py)?;
    if wrong.is_some() {
        return Ok(wrong);
    }
    let late = 253_402_300_799_999_i64.to_be_bytes();
    let list = Plan::List(Box::new(Plan::Text));
    let listed = b"\0\0\0\x03\0\0\0\x01a\xff\xff\xff\xff\0\0\0\x02\xc3\xa9";
    let samples: [Sample<'_>; 16] = [
        (&Plan::Text, b"seventeen letters", c"b'seventeen letters'.decode()"),
        (&Plan::Text, b"a", c"b'a'.decode()"),
        (&Plan::Text, b"\xc3\xa9\xe2\x82\xac", c"b'\\xc3\\xa9\\xe2\\x82\\xac'.decode()"),
        (&Plan::Int, &(-70_000_i32).to_be_bytes(), c"int('-70000')"),
        (&Plan::Int, &7_i32.to_be_bytes(), c"7"),
        (&Plan::BigInt, &i64::MIN.to_be_bytes(), c"int('-9223372036854775808')"),
        (&Plan::SmallInt, &i16::MIN.to_be_bytes(), c"int('-32768')"),
        (&Plan::TinyInt, &[0x80], c"int('-128')"),
        (&Plan::Double, &1e300_f64.to_be_bytes(), c"float('1e300')"),
        (&Plan::Float, &(-1.5_f32).to_be_bytes(), c"float('-1.5')"),
        (&Plan::Boolean, &[1], c"True"),
        (&Plan::Blob, &[1, 0, 2], c"bytes([1, 0, 2])"),
        (&Plan::Date, &0x8000_0001_u32.to_be_bytes(), c"date(1970, 1, 2)"),
        (&Plan::Timestamp, &late, c"datetime(9999, 12, 31, 23, 59, 59, 999000, zone)"),
        (&Plan::Timestamp, &[0xff; 8], c"datetime(1969, 12, 31, 23, 59, 59, 999000, zone)"),
        (&list, listed, c"['a', None, '\\xe9']"),
    ];
    let utc = PyTzInfo::utc(py)?.to_owned().into_any();
    for (zone, naive_timestamps) in [(utc, false), (py.None().into_bound(py), true)] {
        let choices = Choices { naive_timestamps, numpy_vectors: false };
        let Some(maker) = Maker::of(py, choices) else {
            return Ok(Some("the datetime module has no C interface".to_owned()));
        };
        let names = PyDict::new(py);
        names.set_item("datetime", py.get_type::<PyDateTime>())?;
        names.set_item("date", py.get_type::<PyDate>())?;
        names.set_item("zone", &zone)?;
        for (plan, bytes, expression) in samples {
            let (what, expected) =
                (plan.cql_type().to_string(), py.eval(expression, Some(&names), None)?);
            // SAFETY: the lock is held; what is made is ours.
            let made = unsafe { Bound::from_owned_ptr_or_opt(py, maker.value(plan, bytes)) };
            let Some(made) = made else { return Ok(Some(format!("no {what} was made"))) };
            let tracked = matches!(plan, Plan::List(_));
            let mut wrong = probe::made(QuickPath::Decode, &what, &made, &expected, tracked)?;
            if matches!(plan, Plan::Timestamp) && !made.getattr("tzinfo")?.is(&zone) {
                wrong = Some("a datetime was made with another time zone".to_owned());
            }
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
    }
    Ok(None)
}

/// A new reference to what lives.
#[inline(always)]
unsafe fn new(object: Object) -> Object {
    // SAFETY: the caller's word.
    unsafe { ffi::Py_INCREF(object) };
    object
}

/// Null without its exception.
///
/// # Safety
/// The interpreter's lock is held.
#[inline(always)]
pub unsafe fn or_none(object: Object) -> Object {
    if object.is_null() {
        // SAFETY: the lock is held.
        unsafe { ffi::PyErr_Clear() };
    }
    object
}

#[inline(always)]
unsafe fn text(bytes: &[u8]) -> Object {
    // SAFETY: a new str of as many ASCII characters, which stand behind the head of the object;
    // any other text is Python's own to read.
    unsafe {
        if bytes.is_empty() || !is_ascii(bytes) {
            let (start, length) = (bytes.as_ptr().cast(), bytes.len() as isize);
            return or_none(ffi::PyUnicode_DecodeUTF8(start, length, ptr::null()));
        }
        let object = or_none(ffi::PyUnicode_New(bytes.len() as isize, 127));
        if !object.is_null() {
            let characters = object.cast::<ffi::PyASCIIObject>().add(1).cast::<u8>();
            ptr::copy_nonoverlapping(bytes.as_ptr(), characters, bytes.len());
        }
        object
    }
}

/// The standard library's own is a call, which is long for short texts.
#[inline(always)]
fn is_ascii(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    if words.len() > 8 {
        return bytes.is_ascii();
    }
    let high = words.iter().fold(0, |all, word| all | u64::from_ne_bytes(*word));
    high & 0x8080_8080_8080_8080 == 0 && rest.iter().all(u8::is_ascii)
}

/// Types of which [`Maker::value`] makes values, but for lists: those it makes only of these, so that
/// what is turned down within a value is not begun at every level.
fn is_scalar(plan: &HostPlan) -> bool {
    is_atomic(plan) && !matches!(plan, Plan::Custom(_) | Plan::VarInt | Plan::Decimal)
}
