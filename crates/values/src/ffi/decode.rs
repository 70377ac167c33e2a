//! Decodes bytes to values of exact built-in classes, and of a few classes with slots, in the
//! fastest way for each class.
//!
//! If a function here does not make a value, it returns null or `None`, without an exception. The
//! caller then takes the safe path (`crate::value`), which raises the errors. Making a value runs
//! no Python code, unless an allocation starts a GC. The GC sees no incomplete object, because
//! objects are not tracked while they are filled.

use std::ffi::CStr;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDate, PyDateTime, PyDict, PyTzInfo};
use turbocql_codec::{Plan, types};

use super::int::from_u128;
use super::quick_path::QuickPath;
use super::{probe, slots};
use crate::binary32::widen;
use crate::calendar::civil_from_days;
use crate::calendar::{MILLISECONDS_PER_DAY, PYTHON_DAYS};
use crate::plan::Choices;
use crate::plan::HostPlan;
use crate::python;

type Object = *mut ffi::PyObject;

/// Makes values from bytes. The fields are the settings and objects that its methods need.
#[derive(Clone, Copy)]
pub struct Maker {
    naive_timestamps: bool,
    datetime: *mut ffi::PyDateTime_CAPI,
    /// The value of `is_safe` in each UUID that is made. The reference is borrowed: the module
    /// `python` keeps the object for the life of the process.
    safe_uuid_unknown: Object,
}

impl Maker {
    /// Returns `None` if the quick path is off, or if an object that it needs cannot be looked up.
    pub fn new(py: Python<'_>, choices: Choices) -> Option<Maker> {
        if QuickPath::Decode.is_on() { Maker::of(py, choices) } else { None }
    }

    fn of(py: Python<'_>, choices: Choices) -> Option<Maker> {
        let safe_uuid_unknown = python::safe_uuid_unknown(py).ok()?.as_ptr();
        // SAFETY: the function needs the GIL, which `py` shows is held. It returns null if the
        // module `datetime` cannot be imported, and otherwise a struct that is never freed. Tests:
        // unit/test_quick_paths.py (decode).
        let datetime = unsafe { ffi::PyDateTimeAPI() };
        let is_imported = !datetime.is_null();
        let naive_timestamps = choices.naive_timestamps;
        is_imported.then_some(Maker { naive_timestamps, datetime, safe_uuid_unknown })
    }

    /// Makes a value. Returns `None` if the safe path must make it.
    #[inline(always)]
    pub fn make<'py>(
        &self,
        py: Python<'py>,
        plan: &HostPlan,
        bytes: &[u8],
    ) -> Option<Bound<'py, PyAny>> {
        // SAFETY: `py` shows that the GIL is held. `value` returns an owned reference, or null.
        // Tests: property/test_safe_path_decode.py. Benchmark: "page: 5000x10 to tuples".
        unsafe { Bound::from_owned_ptr_or_opt(py, self.value(plan, bytes)) }
    }

    /// Makes a value. Returns an owned reference, or null without an exception if the safe path
    /// must make it.
    ///
    /// # Safety
    /// The caller must ensure that the GIL is held.
    #[inline(always)]
    pub unsafe fn value(&self, plan: &HostPlan, bytes: &[u8]) -> Object {
        // SAFETY: the GIL is held, as `# Safety` demands. Every function called here returns a new
        // reference, or null; an exception that comes with null is cleared by `or_none` or by the
        // function itself. `PyBytes_FromStringAndSize` gets the length of the slice. `new` gets
        // objects that are never freed. Each `Slotted` gets as many values as it has slots. Tests:
        // property/test_safe_path_decode.py, property/test_memory_growth.py. Benchmark:
        // "page: 5000x10 to tuples".
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

    /// Makes a `datetime` as CPython's `new_datetime_ex2` does, but without that function's checks,
    /// because the numbers are in range. Returns an owned reference, or null without an exception.
    ///
    /// # Safety
    /// The caller must ensure that the GIL is held.
    #[inline(always)]
    unsafe fn timestamp(&self, milliseconds: i64) -> Object {
        let days = milliseconds.div_euclid(MILLISECONDS_PER_DAY);
        if !PYTHON_DAYS.contains(&days) {
            return ptr::null_mut();
        }
        let millisecond_of_day = milliseconds.rem_euclid(MILLISECONDS_PER_DAY) as u32;
        let (year, month, day) = civil_from_days(days);
        let (seconds, microseconds) = (millisecond_of_day / 1000, millisecond_of_day % 1000 * 1000);
        let (year, micro) = ((year as u16).to_be_bytes(), microseconds.to_be_bytes());
        let aware = !self.naive_timestamps;
        // SAFETY: the GIL is held, as `# Safety` demands. `self.datetime` points to the C API of
        // the module `datetime`, which is never freed (`of`). The `tp_alloc` of the class allocates
        // the field `tzinfo` only if its second argument is not zero, and `tzinfo` is written only
        // then, with a new reference. All other fields are set before anything else sees the
        // object. `probe_decode` has checked the layout. Tests: unit/test_quick_paths.py (decode),
        // property/test_safe_path_decode.py (timestamp). Benchmark: "page: 5000x10 to tuples".
        unsafe {
            let class = (*self.datetime).DateTimeType;
            let Some(allocate) = (*class).tp_alloc else { return ptr::null_mut() };
            let object = or_none(allocate(class, aware.into()));
            if object.is_null() {
                return object;
            }
            let datetime = object.cast::<ffi::PyDateTime_DateTime>();
            (*datetime).hashcode = -1;
            (*datetime).hastzinfo = aware.into();
            (*datetime).data = [
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
            (*datetime).fold = 0;
            if aware {
                (*datetime).tzinfo = new((*self.datetime).TimeZone_UTC);
            }
            object
        }
    }

    /// Makes a `date`. Returns an owned reference, or null without an exception.
    ///
    /// # Safety
    /// The caller must ensure that the GIL is held.
    #[inline(always)]
    unsafe fn date(&self, days: i32) -> Object {
        if !PYTHON_DAYS.contains(&i64::from(days)) {
            return ptr::null_mut();
        }
        let (year, month, day) = civil_from_days(days.into());
        // SAFETY: the GIL is held, as `# Safety` demands. `self.datetime` points to the C API of
        // the module `datetime`, which is never freed (`of`). `Date_FromDate` checks the numbers
        // and returns a new reference, or null with an exception. Tests:
        // property/test_safe_path_decode.py (date).
        unsafe {
            let class = (*self.datetime).DateType;
            let make = (*self.datetime).Date_FromDate;
            or_none(make(year as i32, month.into(), day.into(), class))
        }
    }

    /// Makes a list of scalars. Returns an owned reference, or null without an exception if the
    /// safe path must make the list or one of its elements.
    ///
    /// # Safety
    /// The caller must ensure that the GIL is held.
    unsafe fn list(&self, element: &HostPlan, bytes: &[u8]) -> Object {
        let Ok(mut elements) = types::list::decode(bytes) else { return ptr::null_mut() };
        let count = elements.count();
        // SAFETY: the GIL is held, as `# Safety` demands. The list is new and has `count` empty
        // items; each is set once to an owned reference, which the list takes over. The list is
        // untracked until all items are set, so a GC that an allocation starts does not see it. If
        // an element fails, the list is freed with empty items, which its deallocation skips.
        // Tests: property/test_safe_path_decode.py, property/test_hostile_results.py
        // (test_the_collector_sees_nothing_unfinished). Benchmark: "page: 5000x10 to tuples".
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

/// A type, the bytes of a value, and the Python expression for the same value.
type Sample<'a> = (&'a HostPlan, &'a [u8], &'a CStr);

/// Probes whether [`Maker`] makes values correctly. If it does not, returns what is wrong.
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
            let (cql_type, expected) =
                (plan.cql_type().to_string(), py.eval(expression, Some(&names), None)?);
            // SAFETY: `py` shows that the GIL is held. `value` returns an owned reference, or null.
            // Tests: unit/test_quick_paths.py (decode).
            let value = unsafe { Bound::from_owned_ptr_or_opt(py, maker.value(plan, bytes)) };
            let Some(value) = value else { return Ok(Some(format!("no {cql_type} was made"))) };
            let tracked = matches!(plan, Plan::List(_));
            let mut wrong =
                probe::check_object(QuickPath::Decode, &cql_type, &value, &expected, tracked)?;
            if matches!(plan, Plan::Timestamp) && !value.getattr("tzinfo")?.is(&zone) {
                wrong = Some("a datetime was made with another time zone".to_owned());
            }
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
    }
    Ok(None)
}

/// Returns a new reference to an object.
///
/// # Safety
/// The caller must ensure that `object` is alive and that the GIL is held.
#[inline(always)]
unsafe fn new(object: Object) -> Object {
    // SAFETY: `object` is alive and the GIL is held, as `# Safety` demands. Tests:
    // property/test_memory_growth.py.
    unsafe { ffi::Py_INCREF(object) };
    object
}

/// Returns the object. If it is null, clears the exception.
///
/// # Safety
/// The caller must ensure that the GIL is held.
#[inline(always)]
pub unsafe fn or_none(object: Object) -> Object {
    if object.is_null() {
        // SAFETY: the GIL is held, as `# Safety` demands. Tests: property/test_hostile_results.py
        // (test_no_memory_for_one_large_value).
        unsafe { ffi::PyErr_Clear() };
    }
    object
}

/// Makes a `str`. Returns an owned reference, or null without an exception if the bytes are not
/// UTF-8 or there is no memory.
///
/// # Safety
/// The caller must ensure that the GIL is held.
#[inline(always)]
unsafe fn text(bytes: &[u8]) -> Object {
    // SAFETY: the GIL is held, as `# Safety` demands. With a highest character of 127,
    // `PyUnicode_New` returns null or a new `str` of ASCII, whose characters follow the head
    // `PyASCIIObject`, one byte each. There are `bytes.len()` of them, and all are written. CPython
    // would return a shared `str` for the length 0, but here the length is not 0. `probe_decode`
    // has checked the layout. Other text is decoded by CPython. Tests: unit/test_quick_paths.py
    // (decode), property/test_safe_path_decode.py (text). Benchmark: "page: 5000x10 to tuples".
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

/// Whether all bytes are ASCII. For short texts this is faster than `[u8]::is_ascii`, which is a
/// function call.
#[inline(always)]
fn is_ascii(bytes: &[u8]) -> bool {
    let (words, tail) = bytes.as_chunks::<8>();
    if words.len() > 8 {
        return bytes.is_ascii();
    }
    let high = words.iter().fold(0, |all, word| all | u64::from_ne_bytes(*word));
    high & 0x8080_8080_8080_8080 == 0 && tail.iter().all(u8::is_ascii)
}

/// Whether [`Maker::value`] makes values of this type, and the type is not a list. Only lists of
/// such types are made here. If nested lists were made here, an element that this path cannot make
/// would be tried again at every level.
fn is_scalar(plan: &HostPlan) -> bool {
    match plan {
        Plan::Ascii
        | Plan::Text
        | Plan::Blob
        | Plan::TinyInt
        | Plan::SmallInt
        | Plan::Int
        | Plan::BigInt
        | Plan::Counter
        | Plan::Float
        | Plan::Double
        | Plan::Boolean
        | Plan::Date
        | Plan::Timestamp
        | Plan::Uuid
        | Plan::TimeUuid
        | Plan::Inet
        | Plan::Time => true,
        Plan::VarInt
        | Plan::Decimal
        | Plan::Duration
        | Plan::List(_)
        | Plan::Set(_)
        | Plan::Map(_)
        | Plan::Tuple(_)
        | Plan::Composite(_)
        | Plan::Udt(_)
        | Plan::Vector(_)
        | Plan::Custom(_) => false,
    }
}
