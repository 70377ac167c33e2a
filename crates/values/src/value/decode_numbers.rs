//! Makes Python numbers from bytes. This crate and the accelerator share these functions.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList};
use turbocql_codec::plan::VectorPlan;
use turbocql_codec::types::decimal::Parts;

use crate::binary32::widen;
use crate::ffi::make;
use crate::plan::Record;
use crate::python;
use crate::traits::{Numeric, traits};

/// Makes the `int` that the bytes of a varint encode. `small` is that number if it fits 128 bits.
pub fn varint<'py>(
    py: Python<'py>,
    small: Option<i128>,
    bytes: &[u8],
) -> PyResult<Bound<'py, PyAny>> {
    if let Some(small) = small {
        let Ok(int) = small.into_pyobject(py);
        return Ok(int.into_any());
    }
    let signed = PyDict::new(py);
    signed.set_item(pyo3::intern!(py, "signed"), true)?;
    let arguments = (PyBytes::new(py, bytes), pyo3::intern!(py, "big"));
    py.get_type::<PyInt>().call_method(pyo3::intern!(py, "from_bytes"), arguments, Some(&signed))
}

/// Makes a `Decimal` from the parts of a CQL decimal.
pub fn decimal<'py>(py: Python<'py>, parts: &Parts) -> PyResult<Bound<'py, PyAny>> {
    let (sign, exponent) = (if parts.negative { "-" } else { "" }, -i64::from(parts.scale));
    python::decimal(py)?.call1((format!("{sign}{}E{exponent}", parts.digits),))
}

/// Makes a list of the numbers of a vector whose elements are numbers written without lengths.
/// Returns `None` for other vectors. The caller has checked that `bytes` has the length that the
/// elements need.
pub fn numbers<'py>(
    py: Python<'py>,
    vector: &VectorPlan<Record>,
    bytes: &[u8],
) -> PyResult<Option<Bound<'py, PyList>>> {
    let Some(numeric) = traits(&vector.element).numeric else { return Ok(None) };
    let (fours, eights) = (bytes.as_chunks::<4>().0, bytes.as_chunks::<8>().0);
    Ok(Some(match numeric {
        Numeric::Float => make::floats(py, fours.len(), |i| widen(f32::from_be_bytes(fours[i])))?,
        Numeric::Double => make::floats(py, eights.len(), |i| f64::from_be_bytes(eights[i]))?,
        Numeric::Int => make::ints(py, fours.len(), |i| i32::from_be_bytes(fours[i]).into())?,
        Numeric::BigInt => make::ints(py, eights.len(), |i| i64::from_be_bytes(eights[i]))?,
        // In a vector, a length precedes each number of these types.
        Numeric::TinyInt | Numeric::SmallInt => return Ok(None),
    }))
}
