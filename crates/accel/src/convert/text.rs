//! Serializes text, bytes, UUIDs and addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyInt, PyString};
use turbocql_values::ffi::append::append;
use turbocql_values::plan::HostPlan;
use turbocql_values::python as classes;

use super::refused::{self, python};
use super::{has_usual, has_usual_descriptors, is_of};
use crate::ffi::operators::has_buffer;

/// Appends an instance of a subclass of `str`.
pub fn text(object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    let Ok(text) = object.cast::<PyString>() else { return false };
    let str_class = object.py().get_type::<PyString>();
    if !has_usual(object, &str_class, &["encode"]) {
        return false;
    }
    python(text.to_str()).is_some_and(|text| append(out, text.as_bytes()))
}

/// Appends an instance of a subclass of `str`. Returns false if its text is not ASCII.
pub fn ascii(object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    text(object, out) && out[start..].is_ascii()
}

/// Returns what `bytes()` makes from an object with a buffer, of a class of `builtins`, `array` or
/// NumPy. Returns `None` for any other object, because the driver might have to read it again, and
/// an iterator, for example, can be read only once.
#[inline]
fn bytes<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    if !is_of(object, &["builtins", "array", "numpy"]) || !has_buffer(object) {
        return None;
    }
    let bytes = python(object.py().get_type::<PyBytes>().call1((object,)));
    bytes.and_then(|bytes| bytes.cast_into_exact::<PyBytes>().ok())
}

/// Returns the bytes of a value of type `blob`. A value for which it returns `None` is counted.
pub fn bytes_of<'py>(plan: &HostPlan, object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    let bytes = bytes(object);
    if bytes.is_none() {
        refused::note(plan, object);
    }
    bytes
}

/// Appends what `bytes()` makes from an object with a buffer.
pub fn blob(object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    if let Ok(array) = object.cast_exact::<PyByteArray>() {
        return append(out, &array.to_vec());
    }
    bytes(object).is_some_and(|bytes| append(out, bytes.as_bytes()))
}

/// Appends an instance of a subclass of `UUID`.
pub fn uuid(object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    let py = object.py();
    let Some(uuid_class) = python(classes::uuid(py)) else { return false };
    // In the class `UUID`, `int` is a slot, and `bytes` a property that is computed from `int`.
    if !has_usual_descriptors(object, uuid_class, &["bytes", "int"]) {
        return false;
    }
    let number = python(object.getattr(pyo3::intern!(py, "int")));
    let number = number.filter(|number| number.is_exact_instance_of::<PyInt>());
    let number = number.and_then(|number| python(number.extract::<u128>()));
    number.is_some_and(|number| append(out, &number.to_be_bytes()))
}

/// Appends the bytes of an address.
pub fn inet(object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    match address(object) {
        Some(IpAddr::V4(address)) => append(out, &address.octets()),
        Some(IpAddr::V6(address)) => append(out, &address.octets()),
        None => false,
    }
}

/// Returns the address of an exact `str`, `IPv4Address` or `IPv6Address`. Returns `None` for any
/// other object, and for spellings that only the C library accepts, such as 127.1.
fn address(object: &Bound<'_, PyAny>) -> Option<IpAddr> {
    let py = object.py();
    if let Ok(text) = object.cast_exact::<PyString>() {
        let text = python(text.to_str())?;
        return if text.contains(':') {
            text.parse::<Ipv6Addr>().ok().map(IpAddr::from)
        } else {
            text.parse::<Ipv4Addr>().ok().map(IpAddr::from)
        };
    }
    let class = object.get_type();
    let is_v4 = class.is(python(classes::ipv4_address(py))?);
    if !is_v4 && !class.is(python(classes::ipv6_address(py))?) {
        return None;
    }
    // `int()` of an address is a number with the address's bytes. An IPv6 zone is not part of the
    // number.
    let number = python(object.call_method0(pyo3::intern!(py, "__int__")))?;
    if is_v4 {
        python(number.extract::<u32>()).map(|number| IpAddr::from(Ipv4Addr::from(number)))
    } else {
        python(number.extract::<u128>()).map(|number| IpAddr::from(Ipv6Addr::from(number)))
    }
}
