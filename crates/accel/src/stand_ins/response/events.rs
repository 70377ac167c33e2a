//! `threading.Event`, `threading.Condition` and locks, without the Python code of their methods.
//!
//! A lock that is free stays free until Python code runs, because other threads need the GIL. So
//! native code can do a few steps without taking the lock. But none of these steps may allocate an
//! object with GC support, such as a lock, a tuple or a list, because up to CPython 3.11 such an
//! allocation may start the GC, which runs Python code.
//!
//! The events that this module makes have the same attributes as those that Python code makes.
//! Before this module is used, one of its events is compared with an event of Python code.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyType};

/// The classes and functions of `threading`.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ThreadEvents {
    event: Py<PyType>,
    condition: Py<PyType>,
    deque: Py<PyType>,
    lock: Py<PyType>,
    reentrant_lock: Py<PyType>,
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
        reentrant_lock: Py<PyType>,
        allocate_lock: Py<PyAny>,
        new_object: Py<PyAny>,
    ) -> ThreadEvents {
        ThreadEvents { event, condition, deque, lock, reentrant_lock, allocate_lock, new_object }
    }

    /// Makes an `Event`.
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

    /// Makes a lock.
    pub fn lock<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.allocate_lock.bind(py).call0()
    }

    /// Sets an event.
    pub fn set(&self, event: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = event.py();
        if event.get_type().is(&self.event) {
            let condition = event.getattr(pyo3::intern!(py, "_cond"))?;
            if let Some(waiters) = self.waiters(&condition)? {
                event.setattr(pyo3::intern!(py, "_flag"), PyBool::new(py, true))?;
                return self.wake(&waiters, usize::MAX);
            }
        }
        event.call_method0(pyo3::intern!(py, "set")).map(drop)
    }

    /// Notifies one thread that waits for a condition.
    pub fn notify(&self, condition: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = condition.py();
        if let Some(waiters) = self.waiters(condition)? {
            return self.wake(&waiters, 1);
        }
        condition.call_method0(pyo3::intern!(py, "__enter__"))?;
        let notified = condition.call_method0(pyo3::intern!(py, "notify"));
        let none = py.None();
        condition.call_method1(pyo3::intern!(py, "__exit__"), (&none, &none, &none))?;
        notified.map(drop)
    }
}

impl ThreadEvents {
    /// Waits for an event. Returns false if the event's own method must be called.
    pub fn wait(&self, event: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = event.py();
        if !event.get_type().is(&self.event) {
            return Ok(false);
        }
        let flag = pyo3::intern!(py, "_flag");
        if event.getattr(flag)?.is_truthy()? {
            return Ok(true);
        }
        let condition = event.getattr(pyo3::intern!(py, "_cond"))?;
        let (waiter, acquire) = (self.lock(py)?, pyo3::intern!(py, "acquire"));
        waiter.call_method0(acquire)?;
        let Some(waiters) = self.waiters(&condition)? else { return Ok(false) };
        waiters.call_method1(pyo3::intern!(py, "append"), (&waiter,))?;
        // The event may have been set while `waiter` was made: then nobody would release `waiter`.
        if event.getattr(flag)?.is_truthy()? {
            return remove(&waiters, &waiter).map(|()| true);
        }
        // Another thread releases `waiter` when it sets the event. Meanwhile, a signal handler may
        // raise an exception.
        if let Err(interrupt) = waiter.call_method0(acquire) {
            remove(&waiters, &waiter)?;
            return Err(interrupt);
        }
        Ok(true)
    }

    /// Returns the lock of a condition, if it is a reentrant lock.
    pub fn lock_of<'py>(
        &self,
        condition: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !condition.get_type().is(&self.condition) {
            return Ok(None);
        }
        let lock = condition.getattr(pyo3::intern!(condition.py(), "_lock"))?;
        Ok(lock.get_type().is(&self.reentrant_lock).then_some(lock))
    }

    /// Notifies one thread that waits for a condition. The caller must hold the condition's lock.
    pub fn notify_owned(&self, condition: &Bound<'_, PyAny>) -> PyResult<()> {
        let waiters = condition.getattr(pyo3::intern!(condition.py(), "_waiters"))?;
        if !waiters.get_type().is(&self.deque) {
            return condition.call_method0(pyo3::intern!(condition.py(), "notify")).map(drop);
        }
        self.wake(&waiters, 1)
    }

    /// Returns the locks of the threads that wait for a condition, if no thread holds the
    /// condition's own lock.
    fn waiters<'py>(&self, condition: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = condition.py();
        if !condition.get_type().is(&self.condition) {
            return Ok(None);
        }
        let waiters = condition.getattr(pyo3::intern!(py, "_waiters"))?;
        let lock = condition.getattr(pyo3::intern!(py, "_lock"))?;
        let is_usual = waiters.get_type().is(&self.deque) && self.is_free(&lock)?;
        Ok(is_usual.then_some(waiters))
    }

    /// Wakes threads that wait for a condition, in the order of `Condition.notify`.
    fn wake(&self, waiters: &Bound<'_, PyAny>, most: usize) -> PyResult<()> {
        let py = waiters.py();
        let mut woken = 0;
        while woken < most && waiters.len()? != 0 {
            let waiter = waiters.call_method0(pyo3::intern!(py, "popleft"))?;
            match waiter.call_method0(pyo3::intern!(py, "release")) {
                // A call of Python's `notify` has released the lock already, but was interrupted
                // before it removed the lock from the queue.
                Err(error) if error.is_instance_of::<PyRuntimeError>(py) => {}
                released => {
                    released?;
                    woken += 1;
                }
            }
        }
        Ok(())
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

/// Removes the lock of a waiting thread, unless another thread has removed the lock to wake it.
fn remove(waiters: &Bound<'_, PyAny>, waiter: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = waiters.py();
    match waiters.call_method1(pyo3::intern!(py, "remove"), (waiter,)) {
        Err(error) if !error.is_instance_of::<PyValueError>(py) => Err(error),
        _ => Ok(()),
    }
}
