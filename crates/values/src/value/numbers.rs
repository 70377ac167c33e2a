//! Encodes Python numbers.

use pyo3::exceptions::{PyMemoryError, PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyTuple};
use turbocql_codec::types::{decimal, varint};

use super::describe::{SHOWN, cut, describe};
use super::encode::{mismatch, raised};
use crate::binary32::narrow;
use crate::failure::{Failure, Outcome};
use crate::plan::HostPlan;
use crate::python;

const INTEGERS: &str = "int or an object with __index__";

/// Returns an integer of the width of `T`, from an `int` or from the result of `__index__`.
#[inline]
pub fn integer<T: TryFrom<i64>>(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Outcome<T> {
    let wide = value.extract::<i64>().map_err(|error| unread(plan, value, INTEGERS, error))?;
    T::try_from(wide).map_err(|_| out_of_range(plan, value))
}

#[cold]
fn unread(plan: &HostPlan, value: &Bound<'_, PyAny>, expected: &str, error: PyErr) -> Box<Failure> {
    let py = value.py();
    if error.is_instance_of::<PyOverflowError>(py) {
        out_of_range(plan, value)
    } else if error.is_instance_of::<PyTypeError>(py) {
        mismatch(plan, expected, value)
    } else {
        raised(plan, value, error)
    }
}

#[cold]
pub fn out_of_range(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Box<Failure> {
    let cql_type = plan.cql_type();
    let reason = format!("{} is out of the range of {cql_type}", describe(value));
    Failure::out_of_range(cql_type, reason)
}

/// Returns the failure for a value whose part raised `error` while it was read. An `OverflowError`
/// means that the part is out of range.
#[cold]
pub fn unread_part(plan: &HostPlan, value: &Bound<'_, PyAny>, error: PyErr) -> Box<Failure> {
    raised(plan, value, error).beyond_range_if_overflowed(value.py())
}

/// Returns a Python `int` of any size: the value itself, or the result of its `__index__`.
fn exact_int<'py>(
    plan: &HostPlan,
    value: &Bound<'py, PyAny>,
    expected: &str,
) -> Outcome<Bound<'py, PyAny>> {
    if value.is_instance_of::<PyInt>() {
        return Ok(value.clone());
    }
    let index = pyo3::intern!(value.py(), "__index__");
    match value.getattr_opt(index).map_err(|error| raised(plan, value, error))? {
        Some(index) if !value.is_instance_of::<pyo3::types::PyType>() => {
            // An exception of `__index__` is never about the range, because the `int` may have any
            // size.
            let number = index.call0().map_err(|error| {
                if error.is_instance_of::<PyTypeError>(value.py()) {
                    mismatch(plan, expected, value)
                } else {
                    raised(plan, value, error)
                }
            })?;
            if number.is_instance_of::<PyInt>() {
                Ok(number)
            } else {
                Err(mismatch(plan, expected, value))
            }
        }
        _ => Err(mismatch(plan, expected, value)),
    }
}

pub fn encode_varint(plan: &HostPlan, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Outcome<()> {
    let number = exact_int(plan, value, INTEGERS)?;
    put_int(&number, out).map_err(|error| raised(plan, value, error))
}

/// Appends the shortest two's complement form of an `int`.
fn put_int(number: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    let memory = |_| PyMemoryError::new_err(());
    if let Ok(small) = number.extract::<i64>() {
        varint::encode_i128(small.into(), out);
        return Ok(());
    }
    let py = number.py();
    // The methods of `int` itself are called, because a subclass may override them.
    let int = py.get_type::<PyInt>();
    let bits: usize = int.call_method1(pyo3::intern!(py, "bit_length"), (number,))?.extract()?;
    let signed = PyDict::new(py);
    signed.set_item(pyo3::intern!(py, "signed"), true)?;
    let bytes = int.call_method(
        pyo3::intern!(py, "to_bytes"),
        (number, bits / 8 + 1, pyo3::intern!(py, "big")),
        Some(&signed),
    )?;
    let bytes = varint::trim(bytes.cast::<PyBytes>()?.as_bytes());
    out.try_reserve(bytes.len()).map_err(memory)?;
    out.extend_from_slice(bytes);
    Ok(())
}

pub fn boolean(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Outcome<bool> {
    if let Ok(boolean) = value.cast_exact::<PyBool>() {
        return Ok(boolean.is_true());
    }
    let class = value.get_type();
    let numpy_bool = class.fully_qualified_name().is_ok_and(|name| {
        name.to_str().is_ok_and(|name| name == "numpy.bool" || name == "numpy.bool_")
    });
    if numpy_bool {
        return value.is_truthy().map_err(|error| raised(plan, value, error));
    }
    Err(mismatch(plan, "bool", value))
}

/// Returns a number as binary64: a `float`, an integer, or another real number such as a NumPy
/// scalar.
#[inline]
pub fn double(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Outcome<f64> {
    match value.cast_exact::<PyFloat>() {
        Ok(number) => Ok(number.value()),
        Err(_) => other_double(plan, value),
    }
}

fn other_double(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Outcome<f64> {
    let py = value.py();
    let real = value.is_instance_of::<PyFloat>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance(python::real(py)?)?;
    if real {
        let wide = value.extract::<f64>().map_err(|error| {
            if error.is_instance_of::<PyOverflowError>(py) {
                out_of_range(plan, value)
            } else {
                raised(plan, value, error)
            }
        })?;
        // A float wider than binary64 can become infinity without an exception. If the value itself
        // is finite, it is refused.
        if wide.is_infinite() && !value.is_instance_of::<PyFloat>() && !value.eq(wide)? {
            return Err(out_of_range(plan, value));
        }
        return Ok(wide);
    }
    let number = exact_int(plan, value, "float, int or another real number")?;
    number.extract::<f64>().map_err(|error| {
        if error.is_instance_of::<PyOverflowError>(py) {
            out_of_range(plan, value)
        } else {
            raised(plan, value, error)
        }
    })
}

#[inline]
pub fn float(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Outcome<f32> {
    let wide = double(plan, value)?;
    narrow(wide).ok_or_else(|| out_of_range(plan, value))
}

pub fn encode_decimal(plan: &HostPlan, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Outcome<()> {
    let py = value.py();
    if !value.is_instance(python::decimal(py)?)? {
        let number = exact_int(plan, value, "decimal.Decimal or int")?;
        out.extend_from_slice(&0i32.to_be_bytes());
        return put_int(&number, out).map_err(|error| raised(plan, value, error));
    }
    let parts = python::decimal(py)?
        .call_method1(pyo3::intern!(py, "as_tuple"), (value,))
        .and_then(|parts| parts.extract::<(u8, Bound<'_, PyTuple>, Bound<'_, PyAny>)>())
        .map_err(|error| raised(plan, value, error))?;
    let (sign, digits, exponent) = parts;
    // The exponent of an infinity or a NaN is a letter; such a value is refused.
    let Ok(exponent) = exponent.extract::<i64>() else {
        // `Decimal.__str__` itself is called, because a subclass may override it.
        let text = python::decimal(py)?.call_method1(pyo3::intern!(py, "__str__"), (value,))?;
        let text = cut(&text.to_string(), SHOWN);
        return Err(Failure::expected("decimal", "a finite decimal", text));
    };
    let scale = i32::try_from(-exponent).map_err(|_| {
        let reason = format!("a decimal's exponent of {exponent} is beyond 32 bits");
        Failure::out_of_range("decimal", reason)
    })?;
    let digits = digits
        .iter()
        .map(|digit| digit.extract::<u8>())
        .collect::<PyResult<Vec<u8>>>()
        .map_err(|error| raised(plan, value, error))?;
    // A decimal digit becomes less than half a byte of the binary number, so this is enough room.
    crate::memory::room(out, digits.len() / 2 + crate::memory::SMALL)?;
    decimal::encode(sign != 0, &digits, scale, out)
        .map_err(|m| super::encode::unfit(plan, value, m))
}
