//! The bodies of RESULT frames to rows, without a server.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use turbocql_codec::Column;
use turbocql_codec::message::result::{Description, Head, ResultError};

use super::codec::with_bytes;
use super::row_encoder::known_columns;
use crate::ending::Inside;
use crate::error::{self, Direction};
use crate::ffi::bytes;
use crate::row::{Block, RowKind, Shape};
use crate::value::decode::Choices;
use crate::value::record::Classes;
use crate::value::{Failure, interned};

/// Descriptions of columns that are kept, the last used first.
const KEPT: usize = 64;

/// Decodes the bodies of RESULT frames that hold rows.
///
/// `rows` is what each row becomes: `named` for named tuples, `tuple` or `dict`. `columns` are
/// those of results that come without a description of theirs, as a prepared statement's can; they
/// are given as `RowEncoder` takes them. A description that comes again is not read again.
/// `naive_timestamps` and `numpy_vectors` are as in `find_deserializer`.
///
/// Threads may share it.
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
    known: Option<Arc<Shape>>,
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
        let known = match columns {
            Some(columns) => {
                let columns: Arc<[Column]> = known_columns(columns)?.into();
                Some(error::guarded(|| shape(py, columns))?)
            }
            None => None,
        };
        Ok(RowsDecoder { kind, choices, known, described: Mutex::default() })
    }

    /// Decodes the body of a RESULT frame, without the frame's header, decompressed.
    ///
    /// Raises: `DecodeError` for bytes that are no result with rows, or that are no values of the
    ///     columns' types, with the column's name.
    fn decode(&self, py: Python<'_>, body: &Bound<'_, PyAny>) -> PyResult<ResultRows> {
        let _inside = Inside::nested(py)?;
        with_bytes(body, "body", |body| error::guarded(|| self.rows(py, body)))
    }

    fn __repr__(&self) -> String {
        let columns = match &self.known {
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
            let columns = self.known.as_ref().map(|shape| &shape.columns);
            (head.rows(None, columns), self.known.clone())
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
        // Without columns that are known there are no rows of them.
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
    /// What is known of columns described as in this body; the last used come first.
    fn find(&self, head: &Head<'_>) -> Option<(Description, Arc<Shape>)> {
        let mut described = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        let at = described.iter().position(|(description, _)| head.is(description))?;
        described[..=at].rotate_right(1);
        described.first().cloned()
    }

    fn keep(&self, description: Description, shape: Arc<Shape>) {
        let mut described = self.described.lock().unwrap_or_else(PoisonError::into_inner);
        // Python objects go with what is dropped, when the lock is gone.
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

/// The rows of a RESULT, decoded, and what came with them.
#[pyclass(frozen, module = "turbocql.protocol")]
pub struct ResultRows {
    rows: Py<PyList>,
    paging_state: Option<Py<PyBytes>>,
    metadata_id: Option<Py<PyBytes>>,
    shape: Arc<Shape>,
}

#[pymethods]
impl ResultRows {
    /// The rows: always the same list.
    #[getter]
    fn rows(&self) -> &Py<PyList> {
        &self.rows
    }

    /// A `turbocql.Column` for each column.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let class = interned::column(py)?;
        let columns = self.shape.columns.iter().map(|column| {
            let cql_type = column.cql_type.to_string();
            class.call1((&*column.keyspace, &*column.table, &column.name, cql_type))
        });
        PyTuple::new(py, columns.collect::<PyResult<Vec<_>>>()?)
    }

    /// Where the next page begins; None after the last.
    #[getter]
    fn paging_state(&self) -> Option<&Py<PyBytes>> {
        self.paging_state.as_ref()
    }

    /// The id of the columns, where the server says that they are not those that the client knew;
    /// version 5 of the protocol only.
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

    /// The rows may refer to anything that their user puts there.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.rows)
    }
}
