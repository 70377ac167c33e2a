//! Encodes the rows that a load would send, so that they can be compared with the rows of a table.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyTuple};
use turbocql_codec::row::Cell;
use turbocql_codec::{Column, Page, RowBuffer};
use turbocql_values::ending::Inside;
use turbocql_values::error;
use turbocql_values::failure::Failure;
use turbocql_values::row::RowKind;

use crate::classes::bulk::feeding::{ARENA_ROWS, Columns, Feed, State};
use crate::classes::session::state::{Session, SessionState};
use crate::classes::statement::prepared::Prepared;
use crate::op::OpState;

/// Encodes columns row by row. The values of a row become the cells for the bind markers of a
/// statement.
#[pyclass(frozen, module = "turbocql._core")]
pub struct EncodedColumns {
    session: Arc<SessionState>,
    feed: Mutex<Option<Feed>>,
    prepared: Py<Prepared>,
    markers: Arc<[Column]>,
}

#[pymethods]
impl EncodedColumns {
    #[new]
    fn new(
        py: Python<'_>,
        session: &Session,
        columns: &Columns,
        prepared: Py<Prepared>,
    ) -> PyResult<EncodedColumns> {
        let _inside = session.0.enter(py)?;
        let feed = Mutex::new(Some(Feed::start(py, columns, prepared.get(), &OpState::empty())?));
        let markers = Arc::clone(prepared.get().engine.markers());
        Ok(EncodedColumns { session: Arc::clone(&session.0), feed, prepared, markers })
    }

    /// Converts the cells of a row, one for each bind marker, to a tuple of Python objects.
    fn values<'py>(
        &self,
        py: Python<'py>,
        cells: Vec<Option<PyBackedBytes>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _inside = Inside::nested(py)?;
        let mut row = RowBuffer::new();
        for cell in &cells {
            match cell {
                Some(bytes) => row.push_value(bytes),
                None => row.push_null(),
            }
        }
        row.finish_row();
        let rows = row.row(0).map_or(&[][..], |row| row.bytes()).to_vec().into();
        let page = Page { columns: Arc::clone(&self.markers), rows, row_count: 1 };
        let (shape, choices) = (self.session.shape(py, &page.columns)?, self.session.choices);
        let block = (&page).into();
        error::guarded(|| shape.decode_as(py, block, 1, RowKind::Tuple, choices))?.get_item(0)
    }

    /// Encodes the next rows. Returns two lists: the first has `(number, cells)` for each encoded
    /// row, and the second has `(number, error)` for each row that cannot be encoded. `number` is
    /// the row's number in the data. A cell is a `bytes` object; None stands for null, and `...`
    /// for unset. Returns None at the end.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        // The feed is taken out of the mutex, so that the mutex is not locked while the feed runs
        // Python code to get the next piece.
        let feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut feed) = feed else { return Ok(None) };
        let mut arena = RowBuffer::with_capacity(16 * 1024, ARENA_ROWS);
        let filled = feed.fill(py, self.prepared.get(), &mut arena, usize::MAX);
        let rows = PyList::empty(py);
        for (row, number) in arena.rows().zip(&filled.numbers) {
            let cells = row.cells().map(|cell| match cell {
                Cell::Value(bytes) => PyBytes::new(py, bytes).into_any(),
                Cell::Null => py.None().into_bound(py),
                Cell::Unset => py.Ellipsis().into_bound(py),
            });
            rows.append((number, PyTuple::new(py, cells.collect::<Vec<_>>())?))?;
        }
        let unfit = PyList::empty(py);
        for (number, error) in filled.unfit {
            let failure = Box::new(Failure::Refused(error, None));
            unfit.append((number, self.prepared.get().unfit(py, failure).into_value(py)))?;
        }
        match filled.state {
            State::Failed(error) => return Err(error),
            State::Ended => {}
            State::More | State::Awaited => {
                *self.feed.lock().unwrap_or_else(PoisonError::into_inner) = Some(feed);
            }
        }
        PyTuple::new(py, [rows, unfit]).map(Some)
    }
}
