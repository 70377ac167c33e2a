//! `threading.Event`, `threading.Condition` and locks, without the Python code of their methods.
//!
//! The objects are those that Python would make. A group that uses this module compares one with
//! Python's own before.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyType};

/// The classes and functions of `threading`.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ThreadEvents {
    event: Py<PyType>,
    condition: Py<PyType>,
    deque: Py<PyType>,
    lock: Py<PyType>,
    allocate_lock: Py<PyAny>,
    /// `object.__new__`.
    new_object: Py<PyAny>,
}

#[pymethods]
impl ThreadEvents {
    #[new]
    fn new(
        event: Py<PyType>,
        condition: Py<PyType>,
        deque: Py<PyType>,
        lock: Py<PyType>,
        allocate_lock: Py<PyAny>,
        new_object: Py<PyAny>,
    ) -> ThreadEvents {
        ThreadEvents { event, condition, deque, lock, allocate_lock, new_object }
    }

    /// A new `Event`.
    pub fn event<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (lock, new_object) = (self.lock(py)?, self.new_object.bind(py));
        let condition = new_object.call1((&self.condition,))?;
        let (acquire, release) = (pyo3::intern!(py, "acquire"), pyo3::intern!(py, "release"));
        condition.setattr(pyo3::intern!(py, "_lock"), &lock)?;
        condition.setattr(acquire, lock.getattr(acquire)?)?;
        condition.setattr(release, lock.getattr(release)?)?;
        condition.setattr(pyo3::intern!(py, "_waiters"), self.deque.bind(py).call0()?)?;
        let event = new_object.call1((&self.event,))?;
        event.setattr(pyo3::intern!(py, "_cond"), condition)?;
        event.setattr(pyo3::intern!(py, "_flag"), PyBool::new(py, false))?;
        Ok(event)
    }

    /// A new lock.
    pub fn lock<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.allocate_lock.bind(py).call0()
    }

    /// Sets an event.
    pub fn set(&self, event: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = event.py();
        if event.get_type().is(&self.event) {
            let condition = event.getattr(pyo3::intern!(py, "_cond"))?;
            if self.is_idle(&condition)? {
                return event.setattr(pyo3::intern!(py, "_flag"), PyBool::new(py, true));
            }
        }
        event.call_method0(pyo3::intern!(py, "set")).map(drop)
    }

    /// Notifies one thread that waits for a condition.
    pub fn notify(&self, condition: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = condition.py();
        if self.is_idle(condition)? {
            return Ok(());
        }
        condition.call_method0(pyo3::intern!(py, "__enter__"))?;
        let notified = condition.call_method0(pyo3::intern!(py, "notify"));
        let none = py.None();
        condition.call_method1(pyo3::intern!(py, "__exit__"), (&none, &none, &none))?;
        notified.map(drop)
    }
}

impl ThreadEvents {
    /// Whether no thread waits for a condition or holds its lock. This remains so until the GIL is
    /// released, that is, until Python code runs.
    fn is_idle(&self, condition: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = condition.py();
        if !condition.get_type().is(&self.condition) {
            return Ok(false);
        }
        let waiters = condition.getattr(pyo3::intern!(py, "_waiters"))?;
        let lock = condition.getattr(pyo3::intern!(py, "_lock"))?;
        Ok(waiters.get_type().is(&self.deque) && waiters.len()? == 0 && self.is_free(&lock)?)
    }

    /// Whether an object is a lock that no thread holds.
    pub fn is_free(&self, lock: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = lock.py();
        if !lock.get_type().is(&self.lock) {
            return Ok(false);
        }
        Ok(!lock.call_method0(pyo3::intern!(py, "locked"))?.is_truthy()?)
    }
}
