//! Reads and sets attributes of the driver's objects in the objects' dicts, at half the cost of
//! `getattr` and `setattr`.
//!
//! The class of an object must look attributes up as `object` does, and it must not have data
//! descriptors, such as properties, with the names that are read or set. `has_fields` in
//! `python/turbocql/accel/_frames.py` checks this.
//!
//! This is for objects that live long, such as connections. CPython up to 3.12 makes the dict of an
//! object when it is read for the first time, and the dict takes more memory than the attributes.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString};

use crate::ffi::instance;

/// The attributes of an object.
pub struct Fields<'a, 'py> {
    object: &'a Bound<'py, PyAny>,
    dict: Bound<'py, PyDict>,
}

impl<'a, 'py> Fields<'a, 'py> {
    /// Returns `None` if the object has no dict.
    pub fn of(object: &'a Bound<'py, PyAny>) -> Option<Fields<'a, 'py>> {
        Some(Fields { object, dict: instance::dict(object)? })
    }

    /// Returns an attribute that was set on the object; `None` if only its class has the attribute.
    pub fn own(&self, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.dict.get_item(name)
    }

    /// Returns an attribute of the object or of its class.
    pub fn get(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        match self.dict.get_item(name)? {
            Some(value) => Ok(value),
            None => self.object.getattr(name),
        }
    }

    /// Whether a true value was set on the object. This is for attributes that are false in the
    /// class.
    pub fn is_true(&self, name: &Bound<'py, PyString>) -> PyResult<bool> {
        self.dict.get_item(name)?.map_or(Ok(false), |value| value.is_truthy())
    }

    /// Whether an attribute with this name was set on the object. Such an attribute shadows a
    /// method of the object's class.
    pub fn has(&self, name: &Bound<'py, PyString>) -> PyResult<bool> {
        self.dict.contains(name)
    }

    pub fn set(&self, name: &Bound<'py, PyString>, value: impl IntoPyObject<'py>) -> PyResult<()> {
        self.dict.set_item(name, value)
    }
}

/// The attributes of an object, which are read in its dict only if that is quicker.
///
/// The futures of scylla-driver have more attributes than CPython stores without a dict, so each of
/// them has a dict when its request is sent. Their attributes are read in this dict. The futures of
/// cassandra-driver need no dict, which would take more memory.
pub struct State<'a, 'py> {
    object: &'a Bound<'py, PyAny>,
    fields: Option<Fields<'a, 'py>>,
}

impl<'a, 'py> State<'a, 'py> {
    pub fn of(object: &'a Bound<'py, PyAny>, in_dict: bool) -> State<'a, 'py> {
        State { object, fields: in_dict.then(|| Fields::of(object)).flatten() }
    }

    pub fn object(&self) -> &'a Bound<'py, PyAny> {
        self.object
    }

    pub fn get(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        match &self.fields {
            Some(fields) => fields.get(name),
            None => self.object.getattr(name),
        }
    }

    /// Whether an attribute is true. If attributes are read in the dict, this is only for those
    /// that are false in the class.
    pub fn is_true(&self, name: &Bound<'py, PyString>) -> PyResult<bool> {
        match &self.fields {
            Some(fields) => fields.is_true(name),
            None => self.object.getattr(name)?.is_truthy(),
        }
    }

    pub fn set(&self, name: &Bound<'py, PyString>, value: impl IntoPyObject<'py>) -> PyResult<()> {
        match &self.fields {
            Some(fields) => fields.set(name, value),
            None => self.object.setattr(name, value),
        }
    }
}

/// Returns the value of an exact `int` of at most 64 bits.
pub fn integer(value: &Bound<'_, PyAny>) -> Option<i64> {
    value.cast_exact::<PyInt>().ok().and_then(|value| value.extract().ok())
}
