//! Serializes instances of the classes in `cassandra.util`, and objects with the same attributes.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use turbocql_codec::Plan;
use turbocql_codec::types::{self, duration::Duration};

use super::record::attribute;
use turbocql_values::ffi::append::room;
use turbocql_values::ffi::collections::put_items;
use turbocql_values::ffi::dialect::Dialect;
use turbocql_values::ffi::encode::{put_cell, put_part};
use turbocql_values::ffi::int::small;
use turbocql_values::ffi::object::items;
use turbocql_values::plan::HostPlan;

type Object = *mut ffi::PyObject;

/// The address of `SortedSet`. It is zero if the driver lacks the class, or if turbocql does not
/// know the driver's class. A reference to the class is leaked, so that no other class can get its
/// address.
static SORTED: AtomicUsize = AtomicUsize::new(0);
/// The address of `OrderedMapSerializedKey`; zero under the same conditions as `SORTED`. A
/// reference to this class is leaked too.
static MAP: AtomicUsize = AtomicUsize::new(0);

/// Sets the driver's classes of sets and maps. An argument is None if the driver lacks the class,
/// or if turbocql does not know the driver's class.
#[pyfunction]
pub fn accel_values(sorted: Option<Bound<'_, PyAny>>, map: Option<Bound<'_, PyAny>>) {
    let address =
        |class: Option<Bound<'_, PyAny>>| class.map_or(0, |class| class.into_ptr() as usize);
    SORTED.store(address(sorted), Ordering::Relaxed);
    MAP.store(address(map), Ordering::Relaxed);
}

/// Appends, as the package `cassandra` does, a value that is not of a built-in class. Returns false
/// if it does not support the value; `out` may then end with an incomplete value.
///
/// # Safety
/// The caller must own a reference to `object`, since Python code may run, and must hold the GIL.
#[cold]
pub unsafe fn put_util<D: Dialect>(plan: &HostPlan, object: Object, out: &mut Vec<u8>) -> bool {
    // SAFETY: the GIL is held, and `object` stays alive, both by this function's `# Safety`
    // section. `attribute` returns owned references, so `small`, `items` and `put_items` get live
    // objects; `put_items` itself handles a list that Python code changes. Tests:
    // accel/test_comparison.py (serialize_tasks), integration/test_accelerated.py.
    unsafe {
        let py = Python::assume_attached();
        let number = |name: &Bound<'_, PyString>| {
            attribute(object, name).and_then(|attribute_value| small(attribute_value.as_ptr()))
        };
        let is_a =
            |class: &AtomicUsize| ffi::Py_TYPE(object) as usize == class.load(Ordering::Relaxed);
        match plan {
            Plan::Date => {
                let days = number(pyo3::intern!(py, "days_from_epoch"));
                let days = days.and_then(|days| i32::try_from(days).ok());
                room(out, 4) && days.map(|days| types::date::encode(days, out)).is_some()
            }
            Plan::Time => {
                let time = number(pyo3::intern!(py, "nanosecond_time"));
                room(out, 8) && time.is_some_and(|time| types::time::encode(time, out).is_ok())
            }
            Plan::Duration => {
                let parts = (
                    number(pyo3::intern!(py, "months"))
                        .and_then(|number| i32::try_from(number).ok()),
                    number(pyo3::intern!(py, "days")).and_then(|number| i32::try_from(number).ok()),
                    number(pyo3::intern!(py, "nanoseconds")),
                );
                let (Some(months), Some(days), Some(nanoseconds)) = parts else { return false };
                let value = Duration { months, days, nanoseconds };
                room(out, 27) && types::duration::encode(value, out).is_ok()
            }
            Plan::List(element) | Plan::Set(element) if is_a(&SORTED) => {
                let Some(elements) = attribute(object, pyo3::intern!(py, "_items")) else {
                    return false;
                };
                let parts = if elements.bind(py).is_exact_instance_of::<PyList>() {
                    items(elements.as_ptr())
                } else {
                    None
                };
                parts.is_some_and(|parts| put_items::<D>(element, elements.as_ptr(), parts, out))
            }
            Plan::Map(entry) if is_a(&MAP) => put_map::<D>(&entry.0, &entry.1, object, out),
            Plan::List(_)
            | Plan::Set(_)
            | Plan::Map(_)
            | Plan::Ascii
            | Plan::Text
            | Plan::TinyInt
            | Plan::SmallInt
            | Plan::Int
            | Plan::BigInt
            | Plan::Counter
            | Plan::VarInt
            | Plan::Float
            | Plan::Double
            | Plan::Decimal
            | Plan::Boolean
            | Plan::Blob
            | Plan::Uuid
            | Plan::TimeUuid
            | Plan::Inet
            | Plan::Timestamp
            | Plan::Tuple(_)
            | Plan::Udt(_)
            | Plan::Vector(_)
            | Plan::Composite(_)
            | Plan::Custom(_) => false,
        }
    }
}

/// Appends an `OrderedMapSerializedKey`. Its `_index` maps the bytes of each key to the position of
/// the key's value. The driver looks up each key's bytes there to find the value. Returns false
/// unless the lookup finds, for each key, the key's own position.
///
/// # Safety
/// The caller must own a reference to `object`, since Python code may run, and must hold the GIL.
unsafe fn put_map<D: Dialect>(
    key: &HostPlan,
    value: &HostPlan,
    object: Object,
    out: &mut Vec<u8>,
) -> bool {
    // SAFETY: the GIL is held, and `object` stays alive, both by this function's `# Safety`
    // section. `pairs`, `index` and `pair` are owned references. `pair_key` and `pair_value` are
    // borrowed from `pair`, an exact tuple, which cannot change. So all of them outlive the Python
    // code that `put_cell` and `put_part` may run. Tests: accel/test_everyday_values.py, but only
    // with a map that is empty. `put_cell` and `put_part` are tested by accel/test_comparison.py.
    unsafe {
        let py = Python::assume_attached();
        let attributes = (
            attribute(object, pyo3::intern!(py, "_items")),
            attribute(object, pyo3::intern!(py, "_index")),
        );
        let (Some(pairs), Some(index)) = attributes else { return false };
        let (Ok(pairs), Ok(index)) =
            (pairs.bind(py).cast_exact::<PyList>(), index.bind(py).cast_exact::<PyDict>())
        else {
            return false;
        };
        let Ok(count) = i32::try_from(pairs.len()) else { return false };
        if index.len() != pairs.len() || !room(out, 4) {
            return false;
        }
        out.extend_from_slice(&count.to_be_bytes());
        for (number, pair) in pairs.iter().enumerate() {
            let Ok(pair) = pair.cast_exact::<PyTuple>() else { return false };
            let [pair_key, pair_value] = pair.as_slice() else { return false };
            let start = out.len();
            if pair_key.is_none() || !put_cell::<D>(key, pair_key.as_ptr(), out) {
                return false;
            }
            let flat = &out[start + 4..];
            let Ok(flat) = turbocql_values::ffi::bytes::copy(py, flat) else { return false };
            let position = index.get_item(flat).ok().flatten();
            if position.and_then(|position| small(position.as_ptr())) != Some(number as i64)
                || !put_part::<D>(value, pair_value.as_ptr(), out)
            {
                return false;
            }
        }
        true
    }
}
