//! Iterates over the rows of a result, for `for` and `async for`. Moving to the next row runs only
//! native code. Python code runs once per page.

use pyo3::exceptions::{
    PyRuntimeError, PyStopAsyncIteration, PyStopIteration, PyTypeError, PyValueError,
};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::remaining::Remaining;
use crate::error;
use crate::ffi::gil_cell::GilCell;
use crate::ffi::send::{Sends, Sent};

/// Iterates over the rows of all pages. `pages.next_page()` returns the rows of the next page as a
/// list, or None at the end.
#[pyclass(frozen, module = "turbocql._core")]
pub struct RowIterator {
    pages: Py<PyAny>,
    remaining: Remaining,
}

#[pymethods]
impl RowIterator {
    #[new]
    fn new(pages: Py<PyAny>) -> RowIterator {
        RowIterator { pages, remaining: Remaining::default() }
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            if let Some(row) = self.remaining.next(py) {
                return Ok(Some(row));
            }
            let page = self.pages.bind(py).call_method0(pyo3::intern!(py, "next_page"))?;
            if page.is_none() {
                return Ok(None);
            }
            self.remaining.begin(py, page.cast_into::<PyList>()?);
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.pages)?;
        self.remaining.traverse(&visit)
    }

    fn __clear__(&self, py: Python<'_>) {
        self.remaining.clear(py);
    }
}

/// Iterates over the rows of all pages with `async for`. `pages.next_page` is a coroutine function.
/// Its coroutine returns the rows of the next page as a list, or None at the end.
#[pyclass(frozen, module = "turbocql._core")]
pub struct AsyncRowIterator {
    pages: Py<PyAny>,
    remaining: Remaining,
}

#[pymethods]
impl AsyncRowIterator {
    #[new]
    fn new(pages: Py<PyAny>) -> AsyncRowIterator {
        AsyncRowIterator { pages, remaining: Remaining::default() }
    }

    fn __aiter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __anext__(this: Py<Self>) -> RowStep {
        RowStep { iterator: this, stage: GilCell::new(Stage::New) }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.pages)?;
        self.remaining.traverse(&visit)
    }

    fn __clear__(&self, py: Python<'_>) {
        self.remaining.clear(py);
    }
}

/// The coroutine of one step of `async for`. It takes a row out of the iterator only when it is
/// awaited. So a coroutine that is never awaited loses no row.
#[pyclass(frozen, freelist = 16, module = "turbocql._core")]
pub struct RowStep {
    iterator: Py<AsyncRowIterator>,
    stage: GilCell<Stage>,
}

#[derive(Default)]
enum Stage {
    /// The step was not awaited yet.
    New,
    /// The step waits for this coroutine of `next_page`. The coroutine has yielded and can be
    /// resumed.
    Waiting(Py<PyAny>),
    /// The coroutine of `next_page` is running.
    Running,
    #[default]
    Ended,
}

impl RowStep {
    fn is_new(&self, py: Python<'_>) -> bool {
        let stage = self.stage.take(py);
        let new = matches!(stage, Stage::New);
        self.stage.replace(py, stage);
        new
    }

    /// Fetches a page and returns its first row. `waiting` is a coroutine of `next_page`, which is
    /// resumed by calling its method `method`. If `waiting` is `None`, a new coroutine is started.
    /// If the page is empty, the page after it is fetched.
    #[cold]
    fn fetch(
        &self,
        py: Python<'_>,
        mut waiting: Option<Py<PyAny>>,
        method: &str,
        arguments: &Bound<'_, PyTuple>,
    ) -> PyResult<Sent> {
        let (iterator, none) = (self.iterator.get(), PyTuple::new(py, [py.None()])?);
        loop {
            let resumed = waiting.is_some();
            let coroutine = match waiting.take() {
                Some(coroutine) => coroutine.into_bound(py),
                None => iterator.pages.bind(py).call_method0(pyo3::intern!(py, "next_page"))?,
            };
            self.stage.replace(py, Stage::Running);
            let sent = if resumed {
                coroutine.call_method1(method, arguments)
            } else {
                coroutine.call_method1(pyo3::intern!(py, "send"), &none)
            };
            self.stage.replace(py, Stage::Ended);
            let error = match sent {
                Ok(yielded) => {
                    self.stage.replace(py, Stage::Waiting(coroutine.unbind()));
                    return Ok(Sent::Yield(yielded.unbind()));
                }
                Err(error) => error,
            };
            if !error.is_instance_of::<PyStopIteration>(py) {
                return Err(error);
            }
            let page = error.value(py).getattr(pyo3::intern!(py, "value"))?;
            if page.is_none() {
                return Err(PyStopAsyncIteration::new_err(()));
            }
            iterator.remaining.begin(py, page.cast_into::<PyList>()?);
            if let Some(row) = iterator.remaining.next(py) {
                return Ok(Sent::Return(row.unbind()));
            }
        }
    }

    /// Makes the error for resuming a coroutine that is running or has ended.
    fn misused(stage: Stage) -> PyErr {
        if let Stage::Running = stage {
            return PyValueError::new_err("coroutine already executing");
        }
        PyRuntimeError::new_err("cannot reuse already awaited coroutine")
    }

    /// Converts the outcome of `send` to the outcome of `__next__`. If the coroutine returned a
    /// value, `__next__` raises `StopIteration` with this value.
    fn finish(sent: Sent) -> PyResult<Py<PyAny>> {
        match sent {
            Sent::Yield(yielded) => Ok(yielded),
            Sent::Return(value) => Err(PyStopIteration::new_err((value,))),
        }
    }
}

impl Sends for RowStep {
    #[inline(always)]
    fn send(this: &Bound<'_, Self>) -> PyResult<Sent> {
        let (py, step) = (this.py(), this.get());
        match step.stage.take(py) {
            Stage::New => match step.iterator.get().remaining.next(py) {
                Some(row) => Ok(Sent::Return(row.unbind())),
                None => step.fetch(py, None, "send", &PyTuple::empty(py)),
            },
            Stage::Waiting(coroutine) => {
                step.fetch(py, Some(coroutine), "send", &PyTuple::new(py, [py.None()])?)
            }
            stage @ (Stage::Running | Stage::Ended) => {
                let misused = RowStep::misused(match stage {
                    Stage::Running => Stage::Running,
                    _ => Stage::Ended,
                });
                step.stage.replace(py, stage);
                Err(misused)
            }
        }
    }
}

#[pymethods]
impl RowStep {
    fn __await__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(this: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        RowStep::finish(<RowStep as Sends>::send(this)?)
    }

    fn send(this: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if !value.is_none() && this.get().is_new(this.py()) {
            let reason = "can't send non-None value to a just-started coroutine";
            return Err(PyTypeError::new_err(reason));
        }
        RowStep::finish(<RowStep as Sends>::send(this)?)
    }

    /// If the step waits for a coroutine of `next_page`, throws the exception into this coroutine.
    /// Its `throw` is called with the exception as the only argument, because CPython has
    /// deprecated calls of `throw` with a class, a value and a traceback.
    #[pyo3(signature = (thrown, value=None, traceback=None, /))]
    fn throw(
        &self,
        thrown: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let py = thrown.py();
        let error = error::thrown(thrown, value, traceback)?;
        match self.stage.take(py) {
            Stage::Waiting(coroutine) => {
                let thrown = PyTuple::new(py, [error.value(py)])?;
                RowStep::finish(self.fetch(py, Some(coroutine), "throw", &thrown)?)
            }
            Stage::New => Err(error),
            Stage::Running => {
                self.stage.replace(py, Stage::Running);
                Err(RowStep::misused(Stage::Running))
            }
            Stage::Ended => Err(RowStep::misused(Stage::Ended)),
        }
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.stage.take(py) {
            Stage::Waiting(coroutine) => {
                coroutine.call_method0(py, pyo3::intern!(py, "close")).map(drop)
            }
            Stage::Running => {
                self.stage.replace(py, Stage::Running);
                Err(RowStep::misused(Stage::Running))
            }
            Stage::New | Stage::Ended => Ok(()),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.iterator)?;
        let look = |stage: &Stage| match stage {
            Stage::Waiting(coroutine) => visit.call(coroutine),
            Stage::New | Stage::Running | Stage::Ended => Ok(()),
        };
        self.stage.traverse(&visit, look).unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.stage.take(py));
    }
}
