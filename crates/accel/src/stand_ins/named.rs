//! The stand-in for named tuple classes. It makes rows.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::ffi::call::{self, StandIn};
use turbocql_values::ffi::make;

/// Stands in for a named tuple class that is called with the values of a row.
#[pyclass(frozen, module = "turbocql._core")]
pub struct NamedStandIn {
    class: Py<PyAny>,
    width: usize,
}

#[pymethods]
impl NamedStandIn {
    #[new]
    fn new(owner: &Bound<'_, PyType>, width: usize) -> PyResult<NamedStandIn> {
        if !owner.is_subclass_of::<pyo3::types::PyTuple>()? {
            return Err(PyTypeError::new_err("the class of a record must be a subclass of tuple"));
        }
        Ok(NamedStandIn { class: owner.clone().into_any().unbind(), width })
    }

    /// The function that is called instead of the class.
    fn function<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, &this.get().class)
    }
}

impl StandIn for NamedStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let NamedStandIn { class, width } = this.get();
        if arguments.len() != *width {
            return Ok(None);
        }
        let mut values: Vec<_> = arguments.iter().map(|value| (**value).clone()).collect();
        make::record(class.bind(this.py()), &mut values).map(Some)
    }

    /// Returns the class itself. A call of the class accepts values by name, and raises the error
    /// for a wrong number of values.
    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        &this.get().class
    }
}
