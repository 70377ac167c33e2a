//! The fields of Python objects that are values of user-defined types.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyString, PyTuple};

use crate::python;

/// Returns the column or field names of a record whose class turbocql made. The record's attribute
/// names can differ from these. Returns `None` for other values.
pub fn fields_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let py = value.py();
    let Some(made_of) = value.get_type().getattr_opt(pyo3::intern!(py, "_turbocql_made_of"))?
    else {
        return Ok(None);
    };
    Ok(Some(made_of.extract::<(Bound<'py, PyAny>, Bound<'py, PyTuple>)>()?.1))
}

/// Returns the names of a named tuple's parts. If turbocql made the tuple's class, these are the
/// names of columns or fields.
pub fn names_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyTuple>>> {
    if let Some(names) = fields_of(value)? {
        return Ok(Some(names));
    }
    let names = value.getattr_opt(pyo3::intern!(value.py(), "_fields"))?;
    Ok(names.and_then(|names| names.cast_into::<PyTuple>().ok()))
}

/// Returns the names of the fields of a value whose class is a dataclass or a class of attrs,
/// msgspec or pydantic. Returns `None` for other values.
pub fn field_names<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyFrozenSet>>> {
    let py = value.py();
    let names = python::field_names(py)?.call1((value.get_type(),))?;
    Ok(names.cast_into::<PyFrozenSet>().ok())
}

/// Whether the value is an instance of a dataclass.
pub fn is_dataclass(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.get_type().hasattr(pyo3::intern!(value.py(), "__dataclass_fields__"))
}

/// Whether a dataclass has a field of this name. Class variables (`ClassVar`) and arguments of
/// `__init__` that are not stored (`InitVar`) are not fields.
pub fn is_field(value: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> PyResult<bool> {
    let py = value.py();
    let fields = value.get_type().getattr(pyo3::intern!(py, "__dataclass_fields__"))?;
    let Ok(fields) = fields.cast::<PyDict>() else { return Ok(false) };
    let Some(field) = fields.get_item(name)? else { return Ok(false) };
    let kind = field.getattr_opt(pyo3::intern!(py, "_field_type"))?;
    let real = python::dataclass_field(py)?;
    Ok(kind.is_some_and(|kind| kind.is(real)))
}
