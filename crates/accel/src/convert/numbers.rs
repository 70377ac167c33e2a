//! Serializes numbers that `struct.pack` or the drivers' `varint_pack` would take.

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};
use turbocql_codec::types::varint;
use turbocql_values::ffi::append::room;
use turbocql_values::ffi::dialect::Dialect;
use turbocql_values::ffi::encode;
use turbocql_values::ffi::numpy::{self, Number};
use turbocql_values::plan::HostPlan;
use turbocql_values::python as classes;

use super::refused::python;
use super::{has_usual, is_of};
use crate::ffi::operators::is_plain_int;

/// Returns the value of a NumPy number; `None` for any other object. For the first object that is
/// neither a `float` nor an `int`, the function looks up NumPy's classes.
fn of_numpy(object: &Bound<'_, PyAny>) -> Option<Number> {
    numpy::number(object).or_else(|| {
        if object.is_instance_of::<PyFloat>() || object.is_instance_of::<PyInt>() {
            return None;
        }
        numpy::learn(object);
        numpy::number(object)
    })
}

/// Whether converting the object to a number runs no Python code. If the conversion ran such code
/// and then refused the value, the driver's function would run the code a second time.
///
/// True for an instance of `float`, for an `int` that [`is_plain_int`] accepts, and for an instance
/// of a class that NumPy or `decimal` implements in C.
fn is_number(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyFloat>()
        || is_plain_int(object)
        || is_of(object, &["numpy", "decimal"])
}

/// Converts an object to a binary64 number.
pub fn float(object: &Bound<'_, PyAny>) -> Option<f64> {
    match of_numpy(object) {
        Some(Number::Float(number)) => Some(number),
        Some(Number::Int(number)) => Some(number as f64),
        Some(Number::Unsigned(number)) => Some(number as f64),
        None if is_number(object) => python(object.extract::<f64>()),
        None => None,
    }
}

/// Converts an object with `__index__` to a 64-bit integer.
pub fn integer(object: &Bound<'_, PyAny>) -> Option<i64> {
    match of_numpy(object) {
        Some(Number::Int(number)) => Some(number),
        Some(Number::Unsigned(number)) => i64::try_from(number).ok(),
        Some(Number::Float(_)) => None,
        None if object.is_instance_of::<PyInt>() || is_number(object) => {
            python(object.extract::<i64>())
        }
        None => None,
    }
}

/// Converts an object with `__index__` to a narrower integer; `None` if the number is out of range.
pub fn narrowed<T: TryFrom<i64>>(object: &Bound<'_, PyAny>) -> Option<T> {
    T::try_from(integer(object)?).ok()
}

/// Appends an instance of a subclass of `int`, such as a member of an `IntEnum`, as a `varint`.
/// Returns false if it has more than 128 bits.
pub fn varint(object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    if !is_plain_int(object) || !room(out, 24) {
        return false;
    }
    let number = python(object.extract::<i128>());
    number.map(|number| varint::encode_i128(number, out)).is_some()
}

/// Appends a `Decimal` that the quick path does not take, an instance of a subclass of `Decimal`,
/// or an exact `int`, `float` or `str`.
pub fn decimal<D: Dialect>(plan: &HostPlan, object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    let Some(decimal) = python(classes::decimal(object.py())) else { return false };
    if object.get_type().is(decimal) {
        return long_decimal::<D>(object, out);
    }
    let is_taken = object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyString>()
        || object.is_instance(decimal).unwrap_or(false)
            && has_usual(object, decimal, &["as_tuple"]);
    let exact = is_taken.then(|| python(decimal.call1((object,)))).flatten();
    exact.is_some_and(|exact| encode::value::<D>(plan, &exact, out))
}

/// Appends an exact `Decimal` of any number of digits. The digits are taken from its text.
fn long_decimal<D: Dialect>(decimal: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> bool {
    let Some(text) = python(decimal.str()) else { return false };
    let Some(text) = python(text.to_str()) else { return false };
    let (number, exponent) = match text.split_once('E') {
        Some((number, exponent)) => (number, exponent.parse::<i64>().ok()),
        None => (text, Some(0)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // The texts of NaN and infinity are refused, because they contain letters.
    let digits = format!("{whole}{fraction}");
    let is_number = digits.strip_prefix('-').unwrap_or(&digits).bytes().all(|c| c.is_ascii_digit());
    let scale = exponent.and_then(|exponent| i32::try_from(fraction.len() as i64 - exponent).ok());
    let (true, Some(scale)) = (is_number, scale) else { return false };
    let unscaled = python(decimal.py().get_type::<PyInt>().call1((digits,)));
    room(out, 4) && {
        out.extend_from_slice(&scale.to_be_bytes());
        unscaled.is_some_and(|unscaled| encode::value::<D>(&HostPlan::VarInt, &unscaled, out))
    }
}
