//! A descriptor that makes a built-in function behave as a method. A built-in function alone does
//! not bind to an instance.

use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyDict, PyTuple};

use turbocql_values::ffi::make;

// In a class, this object behaves as a Python function does. A lookup on an instance returns a
// bound method. A lookup on the class returns the object itself, so that code that saves the
// attribute can put it back later. This struct has no doc comment, because its `__doc__` is that of
// the original.
#[pyclass(frozen, module = "turbocql._core")]
pub struct StandInMethod {
    function: Py<PyAny>,
    original: Py<PyAny>,
}

impl StandInMethod {
    pub fn make<'py>(
        function: &Bound<'py, PyAny>,
        original: &Py<PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = function.py();
        let method =
            StandInMethod { function: function.clone().unbind(), original: original.clone_ref(py) };
        Ok(Bound::new(py, method)?.into_any())
    }
}

#[pymethods]
impl StandInMethod {
    fn __get__<'py>(
        this: &Bound<'py, Self>,
        instance: &Bound<'py, PyAny>,
        owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = owner;
        if instance.is_none() {
            return Ok(this.clone().into_any());
        }
        make::method(this.get().function.bind(this.py()), instance)
    }

    #[pyo3(signature = (*arguments, **named))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.function.bind(py).call(arguments, named)
    }

    /// Other attributes are those of the original.
    fn __getattr__<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, pyo3::types::PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.original.bind(py).getattr(name)
    }

    #[getter]
    fn __wrapped__<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.original.bind(py).clone()
    }

    #[getter]
    fn __doc__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.original.bind(py).getattr("__doc__")
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name: String = self.original.bind(py).getattr("__qualname__")?.extract()?;
        Ok(format!("<native {name}>"))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)?;
        visit.call(&self.original)
    }
}
