//! Bodies of QUERY, EXECUTE and BATCH requests, for programs that send their own frames.

mod arguments;
pub mod batch_message;
mod common;
mod values;

use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use turbocql_codec::Cell;
use turbocql_codec::message::{Execute, Extensions, Query, Values as CodecValues};

use crate::ending::Inside;
use crate::value::describe::describe;
use arguments::{At, body, version};
use common::{Common, Ending, Level, SerialLevel};
use values::Values;

/// The body of a QUERY request: a statement's text and its values.
///
/// Immutable; threads may share it. Each argument can be read as an attribute of the same name.
///
/// Shapes: `values` is a sequence of serialized values for markers by position, or a mapping for
///     markers by name; at most 65,535 values. Each value is `bytes` or bytes-like, None or
///     `UNSET`. `paging_state` is the paging state that came with the previous page.
///
/// Units: `page_size` is in rows, `timestamp` in microseconds since 1970 (it may be negative), and
///     `now_in_seconds` in seconds since 1970.
///
/// Nulls: None is null, a length of -1. `UNSET`, a length of -2, leaves the column as it is. With
///     `values=None` no values are sent, not even their number.
///
/// Copies: `bytes` are shared; `encode` copies them once, into the body. Other bytes-like objects
///     are copied when the message is made.
///
/// Raises: `EncodeError` (a `ValueError` and a `TypeError`) for an argument that no version of the
///     protocol can carry.
///
/// Source: native_protocol_v5.spec, section 4.1.4, and the same section for versions 3 and 4.
///
/// Example:
///     >>> from turbocql.protocol import QueryMessage
///     >>> message = QueryMessage("SELECT v FROM t WHERE k = ?", [b"key"], page_size=100)
///     >>> message
///     <QueryMessage "SELECT v FROM t WHERE k = ?", 1 value>
///     >>> message.encode(4)[31:].hex(" ")
///     '00 01 05 00 01 00 00 00 03 6b 65 79 00 00 00 64'
#[pyclass(frozen, module = "turbocql.protocol")]
pub struct QueryMessage {
    query: Py<PyString>,
    ending: Ending,
}

#[pymethods]
impl QueryMessage {
    #[new]
    #[pyo3(signature = (
        query, values=None, *, consistency=None, serial_consistency=None, page_size=None,
        paging_state=None, timestamp=None, keyspace=None, now_in_seconds=None, skip_metadata=false
    ))]
    #[pyo3(text_signature = "(query, values=None, *, consistency='ONE', serial_consistency=None, \
                             page_size=None, paging_state=None, timestamp=None, keyspace=None, \
                             now_in_seconds=None, skip_metadata=False)")]
    #[expect(clippy::too_many_arguments, reason = "they are named in Python")]
    fn new(
        query: &Bound<'_, PyAny>,
        values: Option<&Bound<'_, PyAny>>,
        consistency: Option<&Bound<'_, PyAny>>,
        serial_consistency: Option<&Bound<'_, PyAny>>,
        page_size: Option<&Bound<'_, PyAny>>,
        paging_state: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        keyspace: Option<&Bound<'_, PyAny>>,
        now_in_seconds: Option<&Bound<'_, PyAny>>,
        skip_metadata: bool,
    ) -> PyResult<QueryMessage> {
        let _inside = Inside::nested(query.py())?;
        let common =
            Common::take(consistency, serial_consistency, timestamp, keyspace, now_in_seconds)?;
        Ok(QueryMessage {
            query: arguments::text(query, At::argument("query"), arguments::LONGEST)?,
            ending: Ending::take(values, skip_metadata, page_size, paging_state, common)?,
        })
    }

    /// Writes the body for protocol version 3, 4 or 5.
    ///
    /// Raises: `EncodeError` for a part that the version cannot express: `UNSET` before 4,
    ///     `keyspace` and `now_in_seconds` before 5.
    fn encode<'py>(&self, protocol_version: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let version = version(protocol_version)?;
        let py = protocol_version.py();
        self.with(py, |query| body(py, &query, version))
    }

    /// The statement's CQL text.
    #[getter]
    fn query(&self) -> &Py<PyString> {
        &self.query
    }

    /// The values: a tuple (by position), a dict (by name) or None.
    #[getter]
    fn values(&self) -> &Values {
        &self.ending.values
    }

    /// The consistency level: how many replicas must answer.
    #[getter]
    fn consistency(&self) -> &Level {
        &self.ending.common.consistency
    }

    /// The consistency level for the serial phase of a conditional update, or None.
    #[getter]
    fn serial_consistency(&self) -> Option<&SerialLevel> {
        self.ending.common.serial_consistency.as_ref()
    }

    /// The number of rows per page, or None.
    #[getter]
    fn page_size(&self) -> Option<i32> {
        self.ending.page_size
    }

    /// The paging state of the previous page, or None. It says where the requested page begins.
    #[getter]
    fn paging_state(&self) -> Option<&Py<PyBytes>> {
        self.ending.paging_state.as_ref()
    }

    /// The write timestamp in microseconds since 1970, or None.
    #[getter]
    fn timestamp(&self) -> Option<i64> {
        self.ending.common.timestamp
    }

    /// The keyspace of tables that the statement does not qualify, or None.
    #[getter]
    fn keyspace(&self) -> Option<&Py<PyString>> {
        self.ending.common.keyspace.as_ref()
    }

    /// The time that the server uses as the current time, in seconds since 1970, or None.
    ///
    /// The server reads a negative number as that number plus 2^32.
    #[getter]
    fn now_in_seconds(&self) -> Option<i32> {
        self.ending.common.now_in_seconds
    }

    /// Whether the server may leave out the description of the result's columns.
    #[getter]
    fn skip_metadata(&self) -> bool {
        self.ending.skip_metadata
    }

    fn __eq__(&self, other: PyRef<'_, Self>, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |query| other.with(py, |other| Ok(query == other)))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |query| Ok(hash_values(query.query.as_bytes(), query.parameters.values)))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let text = describe(self.query.bind(py));
        let text = text.strip_prefix("str ").unwrap_or(&text);
        format!("<QueryMessage {text}, {}>", counted(&self.ending.values))
    }
}

impl QueryMessage {
    fn with<T>(&self, py: Python<'_>, call: impl FnOnce(Query<'_>) -> PyResult<T>) -> PyResult<T> {
        let query = self.query.to_str(py)?;
        self.ending.with(py, |parameters| call(Query { query, parameters }))
    }
}

/// The body of an EXECUTE request: a prepared statement's id and its values.
///
/// Immutable; threads may share it. Each argument can be read as an attribute of the same name.
/// Arguments with the same names as those of `QueryMessage` have the same meanings.
///
/// Shapes: `query_id` and `result_metadata_id` are the ids that the server sent when the statement
///     was prepared, at most 65,535 bytes each. Version 5 requires a `result_metadata_id` (`b""`
///     makes the server send the current one). Versions before 5 cannot carry one.
///
/// Raises: `EncodeError` for an argument that no version of the protocol can carry.
///
/// Source: native_protocol_v5.spec, section 4.1.6, and the same section for versions 3 and 4.
///
/// Example:
///     >>> from turbocql import UNSET
///     >>> from turbocql.protocol import ExecuteMessage
///     >>> message = ExecuteMessage(b"id", [b"v", None, UNSET], consistency="LOCAL_ONE")
///     >>> message.encode(4).hex(" ", -4)
///     '00026964 000a0100 03000000 0176ffff ffffffff fffe'
#[pyclass(frozen, module = "turbocql.protocol")]
pub struct ExecuteMessage {
    query_id: Py<PyBytes>,
    result_metadata_id: Option<Py<PyBytes>>,
    ending: Ending,
}

#[pymethods]
impl ExecuteMessage {
    #[new]
    #[pyo3(signature = (
        query_id, values=None, *, result_metadata_id=None, consistency=None,
        serial_consistency=None, page_size=None, paging_state=None, timestamp=None, keyspace=None,
        now_in_seconds=None, skip_metadata=false
    ))]
    #[pyo3(text_signature = "(query_id, values=None, *, result_metadata_id=None, \
                             consistency='ONE', serial_consistency=None, page_size=None, \
                             paging_state=None, timestamp=None, keyspace=None, \
                             now_in_seconds=None, skip_metadata=False)")]
    #[expect(clippy::too_many_arguments, reason = "they are named in Python")]
    fn new(
        query_id: &Bound<'_, PyAny>,
        values: Option<&Bound<'_, PyAny>>,
        result_metadata_id: Option<&Bound<'_, PyAny>>,
        consistency: Option<&Bound<'_, PyAny>>,
        serial_consistency: Option<&Bound<'_, PyAny>>,
        page_size: Option<&Bound<'_, PyAny>>,
        paging_state: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        keyspace: Option<&Bound<'_, PyAny>>,
        now_in_seconds: Option<&Bound<'_, PyAny>>,
        skip_metadata: bool,
    ) -> PyResult<ExecuteMessage> {
        let _inside = Inside::nested(query_id.py())?;
        let common =
            Common::take(consistency, serial_consistency, timestamp, keyspace, now_in_seconds)?;
        Ok(ExecuteMessage {
            query_id: arguments::id(query_id, At::argument("query_id"))?,
            result_metadata_id: result_metadata_id
                .map(|id| arguments::id(id, At::argument("result_metadata_id")))
                .transpose()?,
            ending: Ending::take(values, skip_metadata, page_size, paging_state, common)?,
        })
    }

    /// Writes the body for protocol version 3, 4 or 5.
    ///
    /// Raises: `EncodeError` for a part that the version cannot express: `UNSET` before 4,
    ///     `keyspace`, `now_in_seconds` and `result_metadata_id` before 5. In version 5, a missing
    ///     `result_metadata_id` is an `EncodeError` too.
    fn encode<'py>(&self, protocol_version: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let version = version(protocol_version)?;
        let py = protocol_version.py();
        self.with(py, |execute| body(py, &execute, version))
    }

    /// The prepared statement's id.
    #[getter]
    fn query_id(&self) -> &Py<PyBytes> {
        &self.query_id
    }

    /// The values: a tuple (by position), a dict (by name) or None.
    #[getter]
    fn values(&self) -> &Values {
        &self.ending.values
    }

    /// The id of the result's columns as the client knows them, or None.
    #[getter]
    fn result_metadata_id(&self) -> Option<&Py<PyBytes>> {
        self.result_metadata_id.as_ref()
    }

    /// The consistency level: how many replicas must answer.
    #[getter]
    fn consistency(&self) -> &Level {
        &self.ending.common.consistency
    }

    /// The consistency level for the serial phase of a conditional update, or None.
    #[getter]
    fn serial_consistency(&self) -> Option<&SerialLevel> {
        self.ending.common.serial_consistency.as_ref()
    }

    /// The number of rows per page, or None.
    #[getter]
    fn page_size(&self) -> Option<i32> {
        self.ending.page_size
    }

    /// The paging state of the previous page, or None. It says where the requested page begins.
    #[getter]
    fn paging_state(&self) -> Option<&Py<PyBytes>> {
        self.ending.paging_state.as_ref()
    }

    /// The write timestamp in microseconds since 1970, or None.
    #[getter]
    fn timestamp(&self) -> Option<i64> {
        self.ending.common.timestamp
    }

    /// The keyspace of tables that the statement does not qualify, or None.
    #[getter]
    fn keyspace(&self) -> Option<&Py<PyString>> {
        self.ending.common.keyspace.as_ref()
    }

    /// The time that the server uses as the current time, in seconds since 1970, or None.
    ///
    /// The server reads a negative number as that number plus 2^32.
    #[getter]
    fn now_in_seconds(&self) -> Option<i32> {
        self.ending.common.now_in_seconds
    }

    /// Whether the server may leave out the description of the result's columns.
    #[getter]
    fn skip_metadata(&self) -> bool {
        self.ending.skip_metadata
    }

    fn __eq__(&self, other: PyRef<'_, Self>, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |execute| other.with(py, |other| Ok(execute == other)))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |execute| Ok(hash_values(execute.query_id, execute.parameters.values)))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let id = short_hex(self.query_id.as_bytes(py));
        format!("<ExecuteMessage {id}, {}>", counted(&self.ending.values))
    }
}

impl ExecuteMessage {
    fn with<T>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(Execute<'_>) -> PyResult<T>,
    ) -> PyResult<T> {
        let query_id = self.query_id.as_bytes(py);
        let result_metadata_id = self.result_metadata_id.as_ref().map(|id| id.as_bytes(py));
        let extensions = Extensions::default();
        self.ending.with(py, |parameters| {
            call(Execute { query_id, result_metadata_id, extensions, parameters })
        })
    }
}

/// Returns the hash of a message, computed from `text` and `cells`. `text` is the CQL text of a
/// QUERY, the statement's id of an EXECUTE, or the kind of a BATCH. Equal messages have equal texts
/// and cells, and so equal hashes.
fn hash(text: &[u8], cells: &[Cell<'_>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    for cell in cells {
        match cell {
            Cell::Value(bytes) => bytes.hash(&mut hasher),
            Cell::Null | Cell::Unset => 0.hash(&mut hasher),
        }
    }
    hasher.finish()
}

fn hash_values(text: &[u8], values: CodecValues<'_>) -> u64 {
    match values {
        CodecValues::Absent => hash(text, &[]),
        CodecValues::Positional(cells) => hash(text, cells),
        CodecValues::Named(named) => {
            hash(text, &named.iter().map(|&(_, cell)| cell).collect::<Vec<_>>())
        }
    }
}

fn counted(values: &Values) -> String {
    match values.len() {
        1 => "1 value".to_owned(),
        count => format!("{count} values"),
    }
}

/// Returns the first eight bytes of an id in hexadecimal, for a repr.
fn short_hex(id: &[u8]) -> String {
    let digits: String = id.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}{}", if id.len() > 8 { "…" } else { "" })
}
