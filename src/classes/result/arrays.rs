//! Converts pages to columns for NumPy. Numbers become bytes in NumPy's layout, and texts become
//! lists.

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
    /// A column without gathered values. Either its values are neither numbers of fixed width nor
    /// texts, so this module does not read them. Or `take` has already returned its values.
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
    /// Locks the columns. The thread that holds the lock makes Python objects, so it may lose the
    /// GIL or start the GC. Therefore a thread that waits for the lock detaches from the
    /// interpreter. This releases the GIL. In a build without the GIL, it allows the GC to run.
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
        // The page is checked first, so that no memory is allocated for the rows of an invalid
        // page.
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

    /// Returns the values of a column, and forgets them. For numbers, returns a pair: a bytearray
    /// of the values, and a bytearray with one byte per row, which is 1 for a null and 0 for a
    /// value. If there are no nulls, the second item is None. For texts, returns a list. For other
    /// columns, returns None.
    fn take<'py>(&self, py: Python<'py>, column: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut state = self.lock(py);
        let rows = state.rows;
        let Some(column) = state.columns.get_mut(column) else { return Ok(None) };
        // The caller owns the bytes from now on. They must not be lengthened again, so the column
        // is replaced.
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
    /// Makes the sink to which a page's cells of this column are written. `tails` yields the memory
    /// for the page's numbers: one slice for each column of numbers, in the order of the columns.
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
