//! The driver's `ResultSet`, made without the Python code of its `__init__`.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyType};

/// Makes result sets with the attributes that the driver sets.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ResultSets {
    class: Py<PyType>,
    /// `object.__new__`.
    new_object: Py<PyAny>,
}

#[pymethods]
impl ResultSets {
    #[new]
    fn new(result_set: Py<PyType>, new_object: Py<PyAny>) -> ResultSets {
        ResultSets { class: result_set, new_object }
    }

    /// Makes the result set of a future, as the class `ResultSet` does.
    pub fn make<'py>(
        &self,
        future: &Bound<'py, PyAny>,
        rows: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = future.py();
        let current = if rows.is_exact_instance_of::<PyList>() {
            rows.clone()
        } else if rows.is_none() {
            PyList::empty(py).into_any()
        } else {
            return self.class.bind(py).call1((future, rows));
        };
        let made = self.new_object.bind(py).call1((&self.class,))?;
        made.setattr(pyo3::intern!(py, "response_future"), future)?;
        let names = future.getattr(pyo3::intern!(py, "_col_names"))?;
        made.setattr(pyo3::intern!(py, "column_names"), names)?;
        let types = future.getattr(pyo3::intern!(py, "_col_types"))?;
        made.setattr(pyo3::intern!(py, "column_types"), types)?;
        made.setattr(pyo3::intern!(py, "_current_rows"), current)?;
        made.setattr(pyo3::intern!(py, "_page_iter"), py.None())?;
        made.setattr(pyo3::intern!(py, "_list_mode"), PyBool::new(py, false))?;
        Ok(made)
    }
}
