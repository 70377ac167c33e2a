//! Iterates over the rows of a page, and decodes each row only when the row is requested.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyIterator, PyType};
use turbocql_codec::page;

use super::result_plan::ResultPlan;
use crate::reading::{Column, Columns, Reading};
use crate::scalars::{ReadWays, Scalars};
use turbocql_values::ffi::rows::{Stopped, tuple};

/// The driver's `recv_results_rows`, and the arguments for calling it. [`LazyRows`] makes this call
/// when it falls back.
pub struct OriginalCall {
    pub original: Py<PyAny>,
    /// The class of the driver's RESULT message.
    pub message: Py<PyType>,
    /// The position in the body at which the driver's function starts to read.
    pub before: usize,
    pub types: Py<PyAny>,
    pub metadata: Py<PyAny>,
}

/// An iterator over the rows of a page. At the first row that it does not decode natively, it falls
/// back: it lets the driver's function read the page, and returns the driver's rows from that row
/// on.
#[pyclass(frozen, module = "turbocql._core")]
pub struct LazyRows {
    original_call: OriginalCall,
    plan: Py<ResultPlan>,
    properties: Py<ReadWays>,
    version: i64,
    body: Py<PyBytes>,
    count: usize,
    /// None while a row is being decoded.
    at: Mutex<Option<At>>,
}

enum At {
    /// The number of rows returned so far, and the offset of the next row in the body.
    Native(usize, usize),
    Driver(Py<PyIterator>),
}

#[pymethods]
impl LazyRows {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let OriginalCall { original, message, types, metadata, .. } = &self.original_call;
        visit.call(original)?;
        visit.call(message)?;
        visit.call(types)?;
        visit.call(metadata)?;
        visit.call(&self.plan)?;
        visit.call(&self.properties)?;
        // The GC must not wait for the mutex. If another call has locked the mutex, the driver's
        // rows are not visited.
        match self.at.try_lock().as_deref() {
            Ok(Some(At::Driver(rows))) => visit.call(rows),
            _ => Ok(()),
        }
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(at) = self.lock().take() else {
            return Err(PyValueError::new_err("another call is reading a row already"));
        };
        let (at, row) = match at {
            At::Driver(rows) => {
                let row = rows.bind(py).clone().next();
                (At::Driver(rows), row.transpose())
            }
            At::Native(returned, _) if returned == self.count => (at, Ok(None)),
            At::Native(returned, from) => match self.native(py, returned, from) {
                Ok(Some((row, next))) => (At::Native(returned + 1, next), Ok(Some(row))),
                Ok(None) => match self.by_driver(py, returned) {
                    Ok(rows) => {
                        let row = rows.bind(py).clone().next();
                        (At::Driver(rows), row.transpose())
                    }
                    Err(error) => (at, Err(error)),
                },
                Err(error) => (at, Err(error)),
            },
        };
        *self.lock() = Some(at);
        row
    }
}

impl LazyRows {
    pub fn new(
        original_call: OriginalCall,
        plan: Py<ResultPlan>,
        properties: Py<ReadWays>,
        version: i64,
        body: Py<PyBytes>,
        from: usize,
        count: usize,
    ) -> LazyRows {
        let at = Mutex::new(Some(At::Native(0, from)));
        LazyRows { original_call, plan, properties, version, body, count, at }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<At>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a row, and the offset of the next row; `None` if the driver must decode the row.
    fn native<'py>(
        &self,
        py: Python<'py>,
        returned: usize,
        from: usize,
    ) -> PyResult<Option<(Bound<'py, PyAny>, usize)>> {
        let Some(reference) = Scalars::new(py, self.properties.get()) else { return Ok(None) };
        let reading = Reading::new(reference, true, self.version);
        let (plan, readers) = (self.plan.get(), self.plan.get().readers());
        if !plan.is_current(py) {
            return Ok(None);
        }
        let columns = readers.iter().map(|reader| Column::Clear(reader.get())).collect();
        let columns = Columns::new(reading, columns);
        let unread = &self.body.as_bytes(py)[from..];
        let Ok(mut cells) = page::cells(readers.len(), self.count - returned, unread) else {
            return Ok(None);
        };
        match tuple(py, &columns, &mut cells) {
            Ok(row) => Ok(Some((row, from + unread.len() - cells.remaining()))),
            Err(Stopped::Raised(error)) if !error.is_instance_of::<PyException>(py) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Returns an iterator over the driver's rows of the page, after the first `returned` rows.
    fn by_driver(&self, py: Python<'_>, returned: usize) -> PyResult<Py<PyIterator>> {
        let OriginalCall { original, message, before, types, metadata } = &self.original_call;
        let message = message.bind(py).call1((2,))?;
        let reader = py.import("io")?.call_method1("BytesIO", (&self.body,))?;
        reader.call_method1("seek", (*before,))?;
        original.bind(py).call1((&message, reader, self.version, types, metadata, py.None()))?;
        let rows = message.getattr("parsed_rows")?.try_iter()?;
        for row in rows.clone().take(returned) {
            row?;
        }
        Ok(rows.unbind())
    }
}
