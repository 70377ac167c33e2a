//! Serialized values, by position and by name.

use pyo3::IntoPyObject;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use super::arguments::{
    At, LONGEST, MAX_SHORT, Part, check_count, exact_bytes, for_each_element, refused, short_text,
    unexpected,
};
pub use crate::ffi::held::Value;
use crate::ffi::held::{self, Held, Quick};
use crate::python;

impl Value {
    #[inline]
    fn take(argument: &Bound<'_, PyAny>, unset: &Bound<'_, PyAny>, at: At<'_>) -> PyResult<Value> {
        if argument.is_none() {
            return Ok(Value::Null);
        }
        if argument.is(unset) {
            return Ok(Value::Unset);
        }
        let bytes = match argument.cast_exact::<PyBytes>() {
            Ok(bytes) => bytes.clone(),
            Err(_) => match exact_bytes(argument)? {
                Some(bytes) => bytes,
                None => return Err(unexpected(at, "bytes, None or UNSET", argument)),
            },
        };
        let length = bytes.as_bytes().len();
        if length > LONGEST {
            let reason = format!("a value of {length} bytes: at most {LONGEST} can be sent");
            return Err(refused(argument.py(), at, &reason));
        }
        Ok(Value::of(Held::new(bytes)))
    }

    fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Value::Bytes(Quick(held)) | Value::Safe(held) => held.object(py).into_any(),
            Value::Null => py.None().into_bound(py),
            Value::Unset => python::unset(py)?.clone(),
        })
    }
}

/// Appends the values of a statement or message. `at` is the place that errors name.
pub fn append_values(
    sequence: &Bound<'_, PyAny>,
    at: At<'_>,
    values: &mut Vec<Value>,
) -> PyResult<()> {
    let py = sequence.py();
    let unset = python::unset(py)?;
    if held::append_values(sequence, unset, values, MAX_SHORT) {
        return Ok(());
    }
    let start = values.len();
    let expected = "a sequence of bytes, None and UNSET";
    let refuse = || unexpected(at.part(Part::Argument("values")), expected, sequence);
    for_each_element(sequence, refuse, |index, value| {
        values.try_reserve(1).map_err(|_| PyMemoryError::new_err(()))?;
        values.push(Value::take(value, unset, at.part(Part::Value(index)))?);
        Ok(())
    })?;
    check_count(py, at, "values", values.len() - start)
}

/// The values of a request: by position, by name, or none.
pub enum Values {
    Absent,
    Positional(Vec<Value>),
    Named(Vec<(Py<PyString>, Value)>),
}

impl Values {
    pub fn take(argument: Option<&Bound<'_, PyAny>>) -> PyResult<Values> {
        let Some(argument) = argument else { return Ok(Values::Absent) };
        if argument.is_exact_instance_of::<PyTuple>() || argument.is_exact_instance_of::<PyList>() {
            let mut values = Vec::with_capacity(argument.len()?.min(MAX_SHORT));
            append_values(argument, At::MESSAGE, &mut values)?;
            return Ok(Values::Positional(values));
        }
        let py = argument.py();
        // The items of a dict are copied first, because the dict may change while they are read.
        let items = match argument.cast_exact::<PyDict>() {
            Ok(dict) => dict.items().into_any(),
            Err(_) if argument.is_instance(python::mapping(py)?)? => {
                argument.call_method0("items")?
            }
            Err(_) => {
                let mut values = Vec::new();
                append_values(argument, At::MESSAGE, &mut values)?;
                return Ok(Values::Positional(values));
            }
        };
        let unset = python::unset(py)?;
        let mut values = Vec::new();
        let refuse =
            || unexpected(At::argument("values"), "a mapping with iterable items", argument);
        for_each_element(&items, refuse, |_, item| {
            let (name, value) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
            let name = short_text(&name, At::argument("the name of a value"))?;
            let at = At::MESSAGE.part(Part::Named(name.to_str(py)?));
            let value = Value::take(&value, unset, at)?;
            values.try_reserve(1).map_err(|_| PyMemoryError::new_err(()))?;
            values.push((name, value));
            Ok(())
        })?;
        check_count(py, At::MESSAGE, "values", values.len())?;
        Ok(Values::Named(values))
    }

    pub fn len(&self) -> usize {
        match self {
            Values::Absent => 0,
            Values::Positional(values) => values.len(),
            Values::Named(values) => values.len(),
        }
    }
}

/// Returns the values as a tuple of `bytes`, None and `UNSET`.
pub fn tuple_of<'py>(py: Python<'py>, values: &[Value]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, values.iter().map(|value| value.object(py)).collect::<PyResult<Vec<_>>>()?)
}

impl<'py> IntoPyObject<'py> for &Values {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Values::Absent => Ok(py.None().into_bound(py)),
            Values::Positional(values) => Ok(tuple_of(py, values)?.into_any()),
            Values::Named(values) => {
                let all = PyDict::new(py);
                for (name, value) in values {
                    all.set_item(name, value.object(py)?)?;
                }
                Ok(all.into_any())
            }
        }
    }
}
