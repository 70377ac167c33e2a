//! Converts pages to columns for NumPy: numbers to bytes in NumPy's layout, and texts to lists.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyByteArray, PyList, PyString};
use turbocql_codec::{Column, CqlType};
use turbocql_columns::flat::{Layout, Reader, Sink};

use turbocql_values::error::guarded;

use crate::classes::result::columns::{RawPage, failed};
use crate::ffi::tail::{self, Growing};

/// The values of a column from all pages so far.
enum Gathered {
    Numbers {
        bytes: Growing,
        width: usize,
        nulls: Vec<usize>,
    },
    Texts(Py<PyList>),
    /// The column is not read here, because its values are neither numbers of fixed width nor
    /// texts; or `take` has returned its values already.
    Objects,
}

struct State {
    reader: Reader,
    columns: Vec<Gathered>,
    rows: usize,
}

/// Reads the pages of a result into arrays.
#[pyclass(frozen, module = "turbocql._core")]
pub struct PageArrays(Mutex<State>);

impl PageArrays {
    /// Locks the columns. The holder of the lock makes Python objects, so it may lose the GIL or
    /// start the GC. A thread that waits for the lock therefore detaches from the interpreter: it
    /// releases the GIL, and in a build without the GIL it does not delay the GC.
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, State> {
        self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    fn gathered(py: Python<'_>, column: &Column, layout: Option<&Layout>) -> Gathered {
        if let Some(layout) = layout {
            let (bytes, width) = (Growing::new(py), layout.width());
            return Gathered::Numbers { bytes, width, nulls: Vec::new() };
        }
        match matches!(column.cql_type.thawed(), CqlType::Text | CqlType::Ascii) {
            true => Gathered::Texts(PyList::empty(py).unbind()),
            false => Gathered::Objects,
        }
    }
}

#[pymethods]
impl PageArrays {
    /// Makes an empty array for each column of `page`. The rows of `page` are not appended.
    #[new]
    fn new(py: Python<'_>, page: &RawPage) -> PageArrays {
        let none: Arc<[Column]> = Arc::new([]);
        let reader = Reader::new(page.0.as_ref().map_or(&none, |page| &page.columns));
        let columns = reader.columns().iter().zip(reader.layouts());
        let columns =
            columns.map(|(column, layout)| PageArrays::gathered(py, column, layout.as_ref()));
        let columns = columns.collect();
        PageArrays(Mutex::new(State { reader, columns, rows: 0 }))
    }

    /// Appends a page.
    fn append(&self, py: Python<'_>, page: &RawPage) -> PyResult<()> {
        let Some(page) = &page.0 else { return Ok(()) };
        let mut state = self.lock(py);
        let State { reader, columns, rows } = &mut *state;
        // The page is checked before memory is allocated for its rows.
        reader.check(page).map_err(|error| failed(py, error))?;
        let raised = RefCell::new(None);
        let (mut grown, mut targets) = (Vec::new(), Vec::new());
        for column in columns {
            targets.push(match column {
                Gathered::Numbers { bytes, width, nulls } => {
                    grown.push((bytes, width.saturating_mul(page.row_count)));
                    Target::Nulls(nulls)
                }
                Gathered::Texts(list) => Target::Texts(list),
                Gathered::Objects => Target::Nothing,
            });
        }
        let appended = guarded(|| {
            tail::lengthen(py, grown, |tails| {
                let mut tails = tails.into_iter();
                let mut sinks: Vec<_> = targets
                    .into_iter()
                    .map(|target| target.sink(py, tails.by_ref(), &raised))
                    .collect();
                reader.append(page, &mut sinks)
            })
        });
        appended?.map_err(|error| failed(py, error))?;
        *rows += page.row_count;
        raised.into_inner().map_or(Ok(()), Err)
    }

    /// Returns the values of a column, and forgets them. For numbers, returns a bytearray, and one
    /// byte per row: 1 for null, else 0 (or None if there are no nulls). For texts, returns a list.
    /// Returns None for other columns.
    fn take<'py>(&self, py: Python<'py>, column: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut state = self.lock(py);
        let rows = state.rows;
        let Some(column) = state.columns.get_mut(column) else { return Ok(None) };
        // The caller owns the bytes from now on, so they must not be lengthened again.
        Ok(match std::mem::replace(column, Gathered::Objects) {
            Gathered::Numbers { bytes, nulls, .. } => {
                let mut flags = vec![0u8; if nulls.is_empty() { 0 } else { rows }];
                nulls.iter().for_each(|&row| flags[row] = 1);
                let flags = (!nulls.is_empty()).then(|| PyByteArray::new(py, &flags));
                Some((bytes.into_array(py)?, flags).into_pyobject(py)?.into_any())
            }
            Gathered::Texts(list) => Some(list.into_bound(py).into_any()),
            Gathered::Objects => None,
        })
    }

    /// Returns the indexes of the columns for which `take` returns values.
    fn places(&self, py: Python<'_>) -> Vec<usize> {
        let state = self.lock(py);
        let columns = state.columns.iter().enumerate();
        let read = columns.filter(|(_, column)| !matches!(column, Gathered::Objects));
        read.map(|(place, _)| place).collect()
    }
}

/// The destination of a column's nulls or texts while a page is appended.
enum Target<'a> {
    Nulls(&'a mut Vec<usize>),
    Texts(&'a Py<PyList>),
    Nothing,
}

impl<'a> Target<'a> {
    /// Makes the sink for the column's cells of a page. `tails` yields, for each column of numbers
    /// in order, the memory into which the page's numbers are written.
    fn sink(
        self,
        py: Python<'a>,
        mut tails: impl Iterator<Item = &'a mut [u8]>,
        raised: &'a RefCell<Option<PyErr>>,
    ) -> Sink<'a> {
        match self {
            Target::Nulls(nulls) => Sink::Numbers(tails.next().unwrap_or_default(), nulls),
            Target::Texts(list) => {
                let list = list.bind(py);
                Sink::Texts(Box::new(move |text| {
                    if let Err(error) = list.append(text.map(|text| PyString::new(py, text))) {
                        raised.replace(Some(error));
                    }
                }))
            }
            Target::Nothing => Sink::Nowhere,
        }
    }
}
