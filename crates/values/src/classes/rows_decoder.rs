//! Decodes the bodies of RESULT frames to rows, without a server.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use turbocql_codec::Column;
use turbocql_codec::message::result::{Description, Head, ResultError};

use super::codec::with_bytes;
use super::described::known_columns;
use crate::ending::Inside;
use crate::error::{self, Direction};
use crate::failure::Failure;
use crate::ffi::bytes;
use crate::plan::Choices;
use crate::plan::Classes;
use crate::python;
use crate::row::{Block, RowKind, Shape};

/// How many descriptions a decoder caches. A description lists all columns of a result. The least
/// recently used description is dropped first.
const KEPT: usize = 64;

/// Decodes the bodies of RESULT frames that hold rows.
///
/// `rows` is the kind of each row: `named` for named tuples, `tuple` or `dict`. `columns` describes
/// the columns of results that do not describe them. The result of an EXECUTE with `skip_metadata`
/// may be such a result. `columns` takes the same forms as in `RowEncoder`, but only types that
/// `CqlType` takes. A decoder caches the last 64 descriptions of columns that it has used, and does
/// not parse these again. `naive_timestamps` and `numpy_vectors` mean the same as in
/// `find_deserializer`.
///
/// Threads may share a decoder.
///
/// Source: native_protocol_v5.spec, section 4.2.5.2, and the same section for versions 3 and 4.
///
/// Example:
///     >>> from turbocql.protocol import RowsDecoder
///     >>> decoder = RowsDecoder(columns=[("id", "int"), ("name", "text")])
///     >>> head = "00000002 00000004 00000002 00000001"  # rows, no description, 2 columns, 1 row
///     >>> result = decoder.decode(bytes.fromhex(head + "00000004 00000007 00000001 61"))
///     >>> result.rows
///     [Row(id=7, name='a')]
#[pyclass(frozen, module = "turbocql.protocol")]
pub struct RowsDecoder {
    kind: RowKind,
    choices: Choices,
    fallback_shape: Option<Arc<Shape>>,
    described: Mutex<Vec<(Description, Arc<Shape>)>>,
}

#[pymethods]
impl RowsDecoder {
    #[new]
    #[pyo3(signature = (rows="named", *, columns=None, naive_timestamps=false, numpy_vectors=false))]
    fn new(
        py: Python<'_>,
        rows: &str,
        columns: Option<&Bound<'_, PyAny>>,
        naive_timestamps: bool,
        numpy_vectors: bool,
    ) -> PyResult<RowsDecoder> {
        let _inside = Inside::nested(py)?;
        let kind = RowKind::parse(py, rows)?;
        let choices = Choices { naive_timestamps, numpy_vectors };
        let fallback_shape = match columns {
            Some(columns) => {
                let columns: Arc<[Column]> = known_columns(columns)?.into();
                Some(error::guarded(|| shape(py, columns))?)
            }
            None => None,
        };
        Ok(RowsDecoder { kind, choices, fallback_shape, described: Mutex::default() })
    }

    /// Decodes the body of a RESULT frame. The body must be decompressed, and begin after the
    /// frame's header.
    ///
    /// Raises: `DecodeError` for bytes that are not a result with rows. If a cell is not a value of
    ///     its column's type, the error has the column's name.
    fn decode(&self, py: Python<'_>, body: &Bound<'_, PyAny>) -> PyResult<ResultRows> {
        let _inside = Inside::nested(py)?;
        with_bytes(body, "body", |body| error::guarded(|| self.rows(py, body)))
    }

    fn __repr__(&self) -> String {
        let columns = match &self.fallback_shape {
            Some(shape) => format!(" of {} columns", shape.columns.len()),
            None => String::new(),
        };
        format!("<RowsDecoder {}{columns}>", self.kind.name())
    }
}

impl RowsDecoder {
    fn rows(&self, py: Python<'_>, body: &[u8]) -> PyResult<ResultRows> {
        let refused = |error: ResultError| {
            let failure = Failure::refused("a RESULT with rows", error.to_string());
            error::raise(py, *failure, Direction::Decode)
        };
        let head = Head::parse(body).map_err(refused)?;
        let (rows, shape) = if !head.is_described() {
            let columns = self.fallback_shape.as_ref().map(|shape| &shape.columns);
            (head.rows(None, columns), self.fallback_shape.clone())
        } else if let Some((description, shape)) = self.find(&head) {
            (head.rows(Some(&description), None), Some(shape))
        } else {
            let description = head.describe().map_err(refused)?;
            let shape = shape(py, description.columns.clone())?;
            let rows = head.rows(Some(&description), None);
            self.keep(description, shape.clone());
            (rows, Some(shape))
        };
        let rows = rows.map_err(refused)?;
        // There is a shape here: if neither the body nor the decoder has columns, `rows` was an
        // error, which was returned above.
        let Some(shape) = shape else { unreachable!() };
        let block = Block { rows: rows.rows, row_count: rows.row_count };
        let list = shape.decode_as(py, block, usize::MAX, self.kind, self.choices)?;
        let bytes = |part: Option<&[u8]>| {
            part.map(|part| bytes::copy(py, part).map(Bound::unbind)).transpose()
        };
        Ok(ResultRows {
            rows: list.unbind(),
            paging_state: bytes(rows.paging_state)?,
            metadata_id: bytes(rows.metadata_id)?,
            shape,
        })
    }
}

impl RowsDecoder {
    /// Finds the cached description that equals the body's description, and moves it to the front.
    fn find(&self, head: &Head<'_>) -> Option<(Description, Arc<Shape>)> {
        let mut described = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        let at = described.iter().position(|(description, _)| head.is(description))?;
        described[..=at].rotate_right(1);
        described.first().cloned()
    }

    fn keep(&self, description: Description, shape: Arc<Shape>) {
        let mut described = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        // A shape holds Python objects, and dropping them may run Python code. So the shape is
        // dropped after the lock is released.
        let dropped = if described.len() < KEPT { None } else { described.pop() };
        described.insert(0, (description, shape));
        drop(described);
        drop(dropped);
    }
}

fn shape(py: Python<'_>, columns: Arc<[Column]>) -> PyResult<Arc<Shape>> {
    let shape = Shape::new(py, columns, &Classes::default());
    shape.map(Arc::new).map_err(|failure| error::raise(py, *failure, Direction::Decode))
}

/// The decoded rows of a RESULT, with its columns and paging state.
#[pyclass(frozen, module = "turbocql.protocol")]
pub struct ResultRows {
    rows: Py<PyList>,
    paging_state: Option<Py<PyBytes>>,
    metadata_id: Option<Py<PyBytes>>,
    shape: Arc<Shape>,
}

#[pymethods]
impl ResultRows {
    /// The rows. Each access returns the same list.
    #[getter]
    fn rows(&self) -> &Py<PyList> {
        &self.rows
    }

    /// A `turbocql.Column` for each column.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let class = python::column(py)?;
        let columns = self.shape.columns.iter().map(|column| {
            let cql_type = column.cql_type.to_string();
            class.call1((&*column.keyspace, &*column.table, &column.name, cql_type))
        });
        PyTuple::new(py, columns.collect::<PyResult<Vec<_>>>()?)
    }

    /// The `paging_state` for the next request, which says where the next page begins. None after
    /// the last page.
    #[getter]
    fn paging_state(&self) -> Option<&Py<PyBytes>> {
        self.paging_state.as_ref()
    }

    /// The new id of the result's columns; None if the server did not report a change.
    ///
    /// Only protocol version 5 has this id. If there is an id, the columns of this result differ
    /// from the columns that the request's `result_metadata_id` identifies.
    #[getter]
    fn metadata_id(&self) -> Option<&Py<PyBytes>> {
        self.metadata_id.as_ref()
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.rows.bind(py).len()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let columns = self.shape.columns.len();
        format!("<ResultRows of {} rows, {columns} columns>", self.rows.bind(py).len())
    }

    /// Users may put any object into the list, so reference cycles are possible.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.rows)
    }
}
