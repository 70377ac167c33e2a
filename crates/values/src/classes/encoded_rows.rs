//! Rows of encoded bind values.

use super::codec::pack;
use crate::bind::RowPlan;
use crate::error::{self};
use crate::ffi::bytes;
use crate::python;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use turbocql_codec::{Cell, RowBuffer, RowRef, token};

/// One bound row: its encoded cells.
#[pyclass(frozen, module = "turbocql.codec")]
pub struct EncodedRow {
    pub plan: Arc<RowPlan>,
    pub rows: Arc<RowBuffer>,
    pub index: usize,
}

impl EncodedRow {
    pub fn row(&self) -> PyResult<RowRef<'_>> {
        self.rows.row(self.index).ok_or_else(|| PyIndexError::new_err("no such row"))
    }
}

#[pymethods]
impl EncodedRow {
    /// The bytes of each cell; None for a null, `UNSET` for an unset value.
    #[getter]
    fn cells<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        cells(py, self.row()?)
    }

    /// The packed partition key; None if the encoder has no `key_columns`.
    #[getter]
    fn routing_key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        routing_key(py, &self.plan, self.row()?)
    }

    /// The Murmur3 token of the partition key; None if the encoder has no `key_columns`.
    #[getter]
    fn token(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        Ok(self.routing_key(py)?.map(|key| token::murmur3(key.as_bytes())))
    }

    /// Returns the cells as they are in a request, each after its length.
    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        bytes::copy(py, self.row()?.bytes())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.row()?.len())
    }

    /// Iterates over the cells, so that a row can be the `values` of a message.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.cells(py)?.try_iter()
    }

    fn __repr__(&self) -> PyResult<String> {
        let row = self.row()?;
        Ok(format!("<EncodedRow of {} cells, {} bytes>", row.len(), row.bytes().len()))
    }
}

/// A sequence of bound rows, which share one buffer. So each row keeps the memory of all rows
/// alive.
#[pyclass(frozen, sequence, module = "turbocql.codec")]
pub struct EncodedRows {
    pub plan: Arc<RowPlan>,
    pub rows: Arc<RowBuffer>,
}

#[pymethods]
impl EncodedRows {
    fn __len__(&self) -> usize {
        self.rows.len()
    }

    fn __getitem__(&self, index: isize) -> PyResult<EncodedRow> {
        let count = self.rows.len();
        let at = if index < 0 { index.checked_add_unsigned(count) } else { Some(index) };
        let index = at.and_then(|at| usize::try_from(at).ok()).filter(|&at| at < count);
        let index = index.ok_or_else(|| PyIndexError::new_err("no such row"))?;
        Ok(EncodedRow { plan: self.plan.clone(), rows: self.rows.clone(), index })
    }

    fn __iter__(this: &Bound<'_, Self>) -> RowIterator {
        RowIterator { rows: this.clone().unbind(), next: AtomicUsize::new(0) }
    }

    /// Returns a list that has the token of each row. If the encoder has no `key_columns`, the list
    /// has None for each row.
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for row in self.rows.rows() {
            let key = routing_key(py, &self.plan, row)?;
            list.append(key.map(|key| token::murmur3(key.as_bytes())))?;
        }
        Ok(list)
    }

    /// The number of bytes of all cells, with the length prefix of each.
    #[getter]
    fn byte_size(&self) -> usize {
        self.rows.byte_len()
    }

    fn __repr__(&self) -> String {
        format!("<EncodedRows of {} rows, {} bytes>", self.rows.len(), self.rows.byte_len())
    }
}

/// Iterates over the rows of `EncodedRows`.
#[pyclass(frozen)]
struct RowIterator {
    rows: Py<EncodedRows>,
    next: AtomicUsize,
}

#[pymethods]
impl RowIterator {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__(&self) -> Option<EncodedRow> {
        let rows = self.rows.get();
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let exists = index < rows.rows.len();
        exists.then(|| EncodedRow { plan: rows.plan.clone(), rows: rows.rows.clone(), index })
    }
}

/// Returns the cells of a row as a list of `bytes`, None and `UNSET`.
pub fn cells<'py>(py: Python<'py>, row: RowRef<'_>) -> PyResult<Bound<'py, PyList>> {
    error::guarded(|| {
        let list = PyList::empty(py);
        for cell in row.cells() {
            match cell {
                Cell::Value(bytes) => list.append(bytes::copy(py, bytes)?)?,
                Cell::Null => list.append(py.None())?,
                Cell::Unset => list.append(python::unset(py)?)?,
            }
        }
        Ok(list)
    })
}

pub fn routing_key<'py>(
    py: Python<'py>,
    plan: &RowPlan,
    row: RowRef<'_>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    if plan.partition_key().is_empty() {
        return Ok(None);
    }
    let cells: Vec<Cell<'_>> = row.cells().collect();
    let parts = plan.partition_key().iter().map(|&i| match cells.get(i) {
        Some(Cell::Value(bytes)) => Ok(*bytes),
        _ => Err(PyValueError::new_err("a partition key column has no value")),
    });
    pack(py, &parts.collect::<PyResult<Vec<_>>>()?).map(Some)
}
