//! What a plan keeps for each user-defined type: its Python record class and field names.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyString, PyTuple};
use turbocql_codec::{CqlType, Plan, UdtType};

use super::{HostPlan, Outcome, interned};

/// What values of user-defined types become where users have said so: by keyspace and name.
#[derive(Default)]
pub struct Classes(HashMap<(String, String), Py<PyAny>>);

impl Classes {
    pub fn clone_ref(&self, py: Python<'_>) -> Classes {
        let entries = self.0.iter();
        Classes(entries.map(|(name, class)| (name.clone(), class.clone_ref(py))).collect())
    }

    pub fn set(&mut self, keyspace: &str, name: &str, class: Option<Py<PyAny>>) {
        let key = (keyspace.to_owned(), name.to_owned());
        match class {
            Some(class) => drop(self.0.insert(key, class)),
            None => drop(self.0.remove(&key)),
        }
    }

    fn get(&self, udt: &UdtType) -> Option<&Py<PyAny>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(udt.keyspace.clone(), udt.name.clone()))
    }
}

pub struct Record {
    /// A named tuple class with a field per field of the type.
    pub class: Py<PyAny>,
    /// Field names as the type has them.
    pub names: Vec<Py<PyString>>,
    /// Makes a value of the user's class of a record.
    pub make: Option<Py<PyAny>>,
}

impl Record {
    fn new(py: Python<'_>, udt: &UdtType, classes: &Classes) -> PyResult<Record> {
        let names: Vec<Py<PyString>> =
            udt.fields.iter().map(|(name, _)| PyString::new(py, name).unbind()).collect();
        let class = record_class(py, &udt.name, &names)?;
        let make = match classes.get(udt) {
            None => None,
            Some(made) => {
                let names = PyTuple::new(py, &names)?;
                Some(interned::row_maker(py)?.call1((made, names))?.unbind())
            }
        };
        Ok(Record { class, names, make })
    }
}

/// The named tuple class for columns or fields of these names. Made once per list of names.
pub fn record_class(py: Python<'_>, name: &str, names: &[Py<PyString>]) -> PyResult<Py<PyAny>> {
    let names = PyTuple::new(py, names)?;
    Ok(interned::record_class(py)?.call1((name, names))?.unbind())
}

/// The names that a record made here has for its parts, before they were made attributes; `None`
/// for what is no such record.
pub fn fields_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let py = value.py();
    let Some(made_of) = value.get_type().getattr_opt(pyo3::intern!(py, "_turbocql_made_of"))?
    else {
        return Ok(None);
    };
    Ok(Some(made_of.extract::<(Bound<'py, PyAny>, Bound<'py, PyTuple>)>()?.1))
}

/// The names of a named tuple's parts: as its columns or fields are called, for one made here.
pub fn names_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyTuple>>> {
    if let Some(names) = fields_of(value)? {
        return Ok(Some(names));
    }
    let names = value.getattr_opt(pyo3::intern!(value.py(), "_fields"))?;
    Ok(names.and_then(|names| names.cast_into::<PyTuple>().ok()))
}

/// The names of the fields that a value has by its class: a dataclass, or one of attrs, msgspec or
/// pydantic; `None` for other values.
pub fn field_names<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyFrozenSet>>> {
    let py = value.py();
    let names = interned::field_names(py)?.call1((value.get_type(),))?;
    Ok(names.cast_into::<PyFrozenSet>().ok())
}

/// Whether instances of a class are dataclasses.
pub fn is_dataclass(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.get_type().hasattr(pyo3::intern!(value.py(), "__dataclass_fields__"))
}

/// Whether a dataclass has a field of this name: class variables and arguments of `__init__` that
/// are kept by no name are none.
pub fn is_field(value: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> PyResult<bool> {
    let py = value.py();
    let fields = value.get_type().getattr(pyo3::intern!(py, "__dataclass_fields__"))?;
    let Ok(fields) = fields.cast::<PyDict>() else { return Ok(false) };
    let Some(field) = fields.get_item(name)? else { return Ok(false) };
    let kind = field.getattr_opt(pyo3::intern!(py, "_field_type"))?;
    let real = interned::dataclass_field(py)?;
    Ok(kind.is_some_and(|kind| kind.is(real)))
}

/// Compiles a type for use with Python values.
pub fn compile(py: Python<'_>, cql_type: &CqlType, classes: &Classes) -> Outcome<HostPlan> {
    Plan::compile(cql_type, &mut |udt: &UdtType| Ok(Record::new(py, udt, classes)?))
}
