//! A CQL type compiled for Python values, and the user's choices of Python classes.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use turbocql_codec::{CqlType, Plan, UdtType};

use crate::failure::Outcome;
use crate::python;

/// A plan, that is a compiled CQL type, with the Python classes of each user-defined type.
pub type HostPlan = Plan<Record>;

/// The user's choices where a CQL type can be decoded to more than one Python class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// Whether a `timestamp` becomes a `datetime` without a time zone.
    pub naive_timestamps: bool,
    /// Whether vectors of numbers become NumPy arrays.
    pub numpy_vectors: bool,
}

/// The classes that the user registered for user-defined types, by keyspace and type name.
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

/// The Python classes for values of a user-defined type.
pub struct Record {
    /// A named tuple class with one attribute for each field of the type.
    pub class: Py<PyAny>,
    /// The names of the fields in CQL.
    pub names: Vec<Py<PyString>>,
    /// A function that makes an instance of the user's registered class from a record.
    pub make: Option<Py<PyAny>>,
}

impl Record {
    fn new(py: Python<'_>, udt: &UdtType, classes: &Classes) -> PyResult<Record> {
        let names: Vec<Py<PyString>> =
            udt.fields.iter().map(|(name, _)| PyString::new(py, name).unbind()).collect();
        let class = record_class(py, &udt.name, &names)?;
        let make = match classes.get(udt) {
            None => None,
            Some(class) => {
                let names = PyTuple::new(py, &names)?;
                Some(python::row_maker(py)?.call1((class, names))?.unbind())
            }
        };
        Ok(Record { class, names, make })
    }
}

/// Returns the named tuple class `name` with the fields `names`. Classes are cached by `name` and
/// `names`.
pub fn record_class(py: Python<'_>, name: &str, names: &[Py<PyString>]) -> PyResult<Py<PyAny>> {
    let names = PyTuple::new(py, names)?;
    Ok(python::record_class(py)?.call1((name, names))?.unbind())
}

/// Compiles a type for use with Python values.
pub fn compile(py: Python<'_>, cql_type: &CqlType, classes: &Classes) -> Outcome<HostPlan> {
    Plan::compile(cql_type, &mut |udt: &UdtType| Ok(Record::new(py, udt, classes)?))
}
