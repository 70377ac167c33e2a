//! Converts values as the methods of the object mapper's columns do, and copies values.

use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDate, PyDateTime, PyDict, PyFloat, PyInt, PyList, PySet, PyString, PyTime,
    PyTimeAccess, PyTuple, PyTzInfoAccess,
};

use super::super::literals::seconds;
use super::plan::{Column, Conversion, Null};

/// The classes `UUID` and `Decimal`, and the function `copy.deepcopy`, extracted from a tuple.
#[derive(FromPyObject)]
pub struct Values {
    #[pyo3(item(0))]
    pub uuid: Py<PyAny>,
    #[pyo3(item(1))]
    pub decimal: Py<PyAny>,
    #[pyo3(item(2))]
    pub deepcopy: Py<PyAny>,
}

/// A method of a column.
#[derive(Clone, Copy)]
pub enum Method {
    Validate,
    ToPython,
    ToDatabase,
}

/// The maximum number of elements of a collection. The driver's validation refuses a longer one.
const MAX_ELEMENTS: usize = 65_535;

impl Values {
    /// Returns what a method of a column returns for a value.
    pub fn convert<'py>(
        &self,
        column: &Column,
        method: Method,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        if let Some(converted) = self.natively(column, method, value)? {
            return Ok(converted);
        }
        let name = match method {
            Method::Validate => pyo3::intern!(py, "validate"),
            Method::ToPython => pyo3::intern!(py, "to_python"),
            Method::ToDatabase => pyo3::intern!(py, "to_database"),
        };
        column.column.bind(py).call_method1(name, (value,))
    }

    /// Returns what the column's method returns, without calling it. Returns `None` if the method
    /// must be called. Runs no code of the application, except the `__hash__` and `__eq__` of
    /// elements. These methods could change a set or a map, so the elements of sets and maps are
    /// copied first.
    fn natively<'py>(
        &self,
        column: &Column,
        method: Method,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = value.py();
        let conversion = match method {
            Method::Validate => column.validate,
            Method::ToPython => column.to_python,
            Method::ToDatabase => column.to_database,
        };
        let may_be_none = || -> PyResult<bool> {
            let required = column.attribute(pyo3::intern!(py, "required"))?;
            Ok(required.is_some_and(|required| {
                required.is_exact_instance_of::<PyBool>() && !required.is(is_true(py))
            }))
        };
        let is_as_it_is = match conversion {
            Conversion::Call => false,
            Conversion::Same => true,
            Conversion::Checked => !value.is_none() || may_be_none()?,
            Conversion::Set(null) | Conversion::List(null) | Conversion::Map(null) => {
                if !value.is_none() {
                    return self.collection(column, method, conversion, value);
                }
                match (null, conversion) {
                    (Null::None, _) => true,
                    (Null::Checked, _) => may_be_none()?,
                    (Null::Empty, Conversion::Set(_)) => {
                        return Ok(Some(PySet::empty(py)?.into_any()));
                    }
                    (Null::Empty, Conversion::List(_)) => {
                        return Ok(Some(PyList::empty(py).into_any()));
                    }
                    (Null::Empty, _) => return Ok(Some(PyDict::new(py).into_any())),
                }
            }
            Conversion::DateTime => value.is_none() || value.is_exact_instance_of::<PyDateTime>(),
            Conversion::Millis => return Ok(millis(value)),
            Conversion::Text => {
                let minimum = column.attribute(pyo3::intern!(py, "min_length"))?;
                let maximum = column.attribute(pyo3::intern!(py, "max_length"))?;
                let text = value.cast_exact::<PyString>();
                match (minimum, maximum, text) {
                    (Some(minimum), Some(maximum), _) if value.is_none() => {
                        (minimum.is_none() || minimum.eq(0)?) && maximum.is_none() && may_be_none()?
                    }
                    (Some(minimum), Some(maximum), Ok(text)) => {
                        let length = text.len()?;
                        let bound = |limit: &Bound<'py, PyAny>| -> Option<usize> {
                            limit.cast_exact::<PyInt>().ok()?.extract().ok()
                        };
                        (minimum.is_none()
                            || bound(&minimum).is_some_and(|minimum| length >= minimum))
                            && (maximum.is_none()
                                || bound(&maximum).is_some_and(|maximum| length <= maximum))
                    }
                    _ => false,
                }
            }
            _ if value.is_none() => may_be_none()?,
            Conversion::Int => value.is_exact_instance_of::<PyInt>(),
            Conversion::Uuid => value.get_type().is(&self.uuid),
            Conversion::Bool => value.is_exact_instance_of::<PyBool>(),
            Conversion::Float => value.is_exact_instance_of::<PyFloat>(),
            Conversion::Decimal => value.get_type().is(&self.decimal),
        };
        Ok(is_as_it_is.then(|| value.clone()))
    }

    fn collection<'py>(
        &self,
        column: &Column,
        method: Method,
        conversion: Conversion,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = value.py();
        let is_validated = matches!(method, Method::Validate);
        let element_value = |column: &Column, value: &Bound<'py, PyAny>| {
            // For a null, the driver's method must be called: it looks for nulls with `None in
            // value`, which may call the `__eq__` of an element.
            if is_validated && value.is_none() {
                return Ok(None);
            }
            self.natively(column, method, value)
        };
        match (conversion, &column.inner[..]) {
            (Conversion::Set(_), [element]) => {
                let Ok(elements) = value.cast_exact::<PySet>() else { return Ok(None) };
                if is_validated && elements.len() > MAX_ELEMENTS {
                    return Ok(None);
                }
                let converted = PySet::empty(py)?;
                for value in elements.iter().collect::<Vec<_>>() {
                    let Some(value) = element_value(element, &value)? else { return Ok(None) };
                    converted.add(value)?;
                }
                Ok(Some(converted.into_any()))
            }
            (Conversion::List(_), [element]) => {
                let Ok(elements) = value.cast_exact::<PyList>() else { return Ok(None) };
                if is_validated && elements.len() > MAX_ELEMENTS {
                    return Ok(None);
                }
                let converted = PyList::empty(py);
                for value in elements.iter() {
                    let Some(value) = element_value(element, &value)? else { return Ok(None) };
                    converted.append(value)?;
                }
                Ok(Some(converted.into_any()))
            }
            (Conversion::Map(_), [key, element]) => {
                let Ok(elements) = value.cast_exact::<PyDict>() else { return Ok(None) };
                if is_validated && elements.len() > MAX_ELEMENTS {
                    return Ok(None);
                }
                let converted = PyDict::new(py);
                for (name, value) in elements.iter().collect::<Vec<_>>() {
                    let Some(name) = element_value(key, &name)? else { return Ok(None) };
                    // The driver's validation accepts a null as the value of an entry.
                    let Some(value) = self.natively(element, method, &value)? else {
                        return Ok(None);
                    };
                    converted.set_item(name, value)?;
                }
                Ok(Some(converted.into_any()))
            }
            _ => Ok(None),
        }
    }

    /// Returns a copy of a value, as `copy.deepcopy` makes it. An immutable value is not copied.
    pub fn copied<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        if self.is_immutable(value) {
            return Ok(value.clone());
        }
        if let Ok(set) = value.cast_exact::<PySet>() {
            // All items are collected before any is added to the copy. Adding an item may call a
            // `__hash__` that is Python code. Meanwhile another thread may change the set.
            let items: Vec<_> = set.iter().collect();
            if items.iter().all(|item| self.is_immutable(item)) {
                let copy = PySet::empty(py)?;
                for item in items {
                    copy.add(item)?;
                }
                return Ok(copy.into_any());
            }
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            if list.iter().all(|item| self.is_immutable(&item)) {
                return Ok(list.get_slice(0, list.len()).into_any());
            }
        } else if let Ok(dict) = value.cast_exact::<PyDict>()
            && dict.iter().all(|(key, value)| self.is_immutable(&key) && self.is_immutable(&value))
        {
            return Ok(dict.copy()?.into_any());
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>()
            && tuple.iter().all(|item| self.is_immutable(&item))
        {
            return Ok(value.clone());
        }
        self.deepcopy.bind(py).call1((value,))
    }

    pub fn is_immutable(&self, value: &Bound<'_, PyAny>) -> bool {
        let class = value.get_type();
        value.is_none()
            || value.is_exact_instance_of::<PyString>()
            || value.is_exact_instance_of::<PyInt>()
            || value.is_exact_instance_of::<PyFloat>()
            || value.is_exact_instance_of::<PyBool>()
            || value.is_exact_instance_of::<PyBytes>()
            || class.is(&self.uuid)
            || class.is(&self.decimal)
            || value.cast_exact::<PyDateTime>().is_ok_and(|time| time.get_tzinfo().is_none())
            || value.is_exact_instance_of::<PyDate>()
            || value.cast_exact::<PyTime>().is_ok_and(|time| time.get_tzinfo().is_none())
    }
}

fn is_true(py: Python<'_>) -> Bound<'_, PyAny> {
    PyBool::new(py, true).to_owned().into_any()
}

/// Converts a datetime without a time zone to the milliseconds since 1970, computed in binary64 as
/// the driver does. Returns Python's None as it is. Returns `None` if the driver must convert the
/// value.
fn millis<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    /// Binary64 represents all integers up to this one exactly. A larger number of microseconds
    /// would be rounded once before the division and once after it.
    const EXACT: i64 = 1 << 53;
    if value.is_none() {
        return Some(value.clone());
    }
    let moment = value.cast_exact::<PyDateTime>().ok()?;
    if moment.get_tzinfo().is_some() {
        return None;
    }
    let micros = seconds(moment) * 1_000_000 + i64::from(moment.get_microsecond());
    if micros.abs() >= EXACT {
        return None;
    }
    let millis = (micros as f64 / 1e6 * 1000.0) as i64;
    Some(millis.into_pyobject(value.py()).ok()?.into_any())
}
