//! Records which of the driver's classes and module entries (global names of its modules) a
//! stand-in imitates or uses, and checks whether they are still the driver's own.

use pyo3::prelude::*;
use pyo3::types::PyType;

use super::dependence::Dependence;
use super::entries::{Entries, Entry};

/// Classes whose methods a stand-in imitates, each with a Python function that checks the class,
/// and the module entries that the methods use.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Usual {
    classes: Vec<Dependence>,
    entries: Entries,
}

#[pymethods]
impl Usual {
    #[new]
    fn new(classes: Vec<(Py<PyType>, Py<PyAny>)>, entries: Vec<Entry<'_>>) -> Usual {
        let dependence = |(class, is_usual)| Dependence::new(class, is_usual);
        Usual {
            classes: classes.into_iter().map(dependence).collect(),
            entries: Entries::new(entries),
        }
    }

    /// Whether all methods and entries that the stand-in imitates or uses are the driver's own.
    pub fn holds(&self, py: Python<'_>) -> PyResult<bool> {
        for class in &self.classes {
            if !class.is_as_usual(py)? {
                return Ok(false);
            }
        }
        Ok(self.entries.are_current(py))
    }
}
