//! Bodies of BATCH requests.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use turbocql_codec::Cell;
use turbocql_codec::message::{AsCell, Batch, BatchKind, Statement, StatementText};

use super::arguments::{
    self, At, body, check_count, exact_bytes, for_each_element, refused, unexpected, version,
};
use super::common::{Common, Level, SerialLevel};
use super::hash;
use super::values::{Value, append_values, tuple_of};
use crate::ending::Inside;
use crate::ffi::held::Held;
use crate::python;
use crate::value::describe::describe;

/// The maximum number of values for which memory is reserved in advance.
const LIKELY_VALUES: usize = 4096;

/// A statement's CQL text, or the id of a prepared statement.
enum Text {
    Query(Py<PyString>),
    Prepared(Held),
}

/// A statement of the batch. One list holds the values of all statements; `end` is the index after
/// the last value of this statement.
struct Entry {
    text: Text,
    end: usize,
}

/// The body of a BATCH request: several statements, prepared or not, in one request.
///
/// Immutable; threads may share it. Each argument can be read as an attribute of the same name. An
/// argument that `QueryMessage` also has means the same in both classes.
///
/// Shapes: `statements` is a sequence of pairs `(statement, values)`. An item may also be a
///     statement alone, which then has no values. A statement is a `str` of CQL text, or the
///     `bytes` of a prepared statement's id. `values` are by position, as `QueryMessage` takes
///     them. A batch has at most 65,535 statements, and a statement at most 65,535 values. `kind`
///     is `logged`, `unlogged` or `counter`. Values by name are refused: the protocol's form for
///     them in batches does not work (CASSANDRA-10246).
///
/// Raises: `EncodeError` for an argument that no version of the protocol can carry.
///
/// Source: native_protocol_v5.spec, section 4.1.7, and the same section for versions 3 and 4.
///
/// Example:
///     >>> from turbocql.protocol import BatchMessage
///     >>> insert, delete = bytes(16), "DELETE FROM t WHERE k = 1"
///     >>> batch = BatchMessage([(insert, [b"k", None]), delete], kind="unlogged")
///     >>> batch
///     <BatchMessage unlogged of 2>
///     >>> batch.encode(4)[22:37].hex(" ")
///     '00 02 00 00 00 01 6b ff ff ff ff 00 00 00 00'
#[pyclass(frozen, module = "turbocql.protocol")]
pub struct BatchMessage {
    kind: BatchKind,
    entries: Vec<Entry>,
    values: Vec<Value>,
    common: Common,
}

#[pymethods]
impl BatchMessage {
    #[new]
    #[pyo3(signature = (
        statements, *, kind=None, consistency=None, serial_consistency=None, timestamp=None,
        keyspace=None, now_in_seconds=None
    ))]
    #[pyo3(text_signature = "(statements, *, kind='logged', consistency='ONE', \
                             serial_consistency=None, timestamp=None, keyspace=None, \
                             now_in_seconds=None)")]
    fn new(
        statements: &Bound<'_, PyAny>,
        kind: Option<&Bound<'_, PyAny>>,
        consistency: Option<&Bound<'_, PyAny>>,
        serial_consistency: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        keyspace: Option<&Bound<'_, PyAny>>,
        now_in_seconds: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<BatchMessage> {
        let py = statements.py();
        let _inside = Inside::nested(py)?;
        let common =
            Common::take(consistency, serial_consistency, timestamp, keyspace, now_in_seconds)?;
        let kind = kind.map_or(Ok(BatchKind::Logged), batch_kind)?;
        let is_sized = statements.is_exact_instance_of::<PyList>()
            || statements.is_exact_instance_of::<PyTuple>();
        let count = if is_sized { statements.len()?.min(arguments::MAX_SHORT) } else { 0 };
        let (mut entries, mut values) = (Vec::with_capacity(count), Vec::new());
        let expected = "a sequence of (statement, values)";
        for_each_element(
            statements,
            || unexpected(At::argument("statements"), expected, statements),
            |index, statement| {
                let text = take(statement, index, &mut values)?;
                entries.push(Entry { text, end: values.len() });
                if index == 0 {
                    // Memory is reserved for all statements, because the other statements of a
                    // batch usually have as many values as the first.
                    values.reserve((values.len() * count).min(LIKELY_VALUES));
                }
                Ok(())
            },
        )?;
        check_count(py, At::MESSAGE, "statements", entries.len())?;
        Ok(BatchMessage { kind, entries, values, common })
    }

    /// Writes the body for protocol version 3, 4 or 5.
    ///
    /// Raises: `EncodeError` for a part that the version cannot express: `UNSET` before version 4,
    ///     `keyspace` and `now_in_seconds` before version 5.
    fn encode<'py>(&self, protocol_version: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let version = version(protocol_version)?;
        let py = protocol_version.py();
        self.with(py, |batch| body(py, &batch, version))
    }

    /// The kind of batch: `logged`, `unlogged` or `counter`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.kind.name()
    }

    /// A tuple of pairs. Each pair is a statement and a tuple of its values.
    #[getter]
    fn statements<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let mut start = 0;
        let pairs = self.entries.iter().map(|entry| {
            let values = tuple_of(py, &self.values[start..entry.end])?;
            start = entry.end;
            let text = match &entry.text {
                Text::Query(text) => text.bind(py).clone().into_any(),
                Text::Prepared(id) => id.object(py).into_any(),
            };
            (text, values).into_pyobject(py)
        });
        PyTuple::new(py, pairs.collect::<PyResult<Vec<_>>>()?)
    }

    /// The consistency level: how many replicas must answer.
    #[getter]
    fn consistency(&self) -> &Level {
        &self.common.consistency
    }

    /// The consistency level for the serial phase of a conditional update, or None.
    #[getter]
    fn serial_consistency(&self) -> Option<&SerialLevel> {
        self.common.serial_consistency.as_ref()
    }

    /// The write timestamp in microseconds since 1970, or None.
    #[getter]
    fn timestamp(&self) -> Option<i64> {
        self.common.timestamp
    }

    /// The keyspace of the tables that the statements name without a keyspace, or None.
    #[getter]
    fn keyspace(&self) -> Option<&Py<PyString>> {
        self.common.keyspace.as_ref()
    }

    /// The time that the server uses as the current time, in seconds since 1970, or None.
    ///
    /// The server reads a negative number as that number plus 2^32.
    #[getter]
    fn now_in_seconds(&self) -> Option<i32> {
        self.common.now_in_seconds
    }

    fn __eq__(&self, other: PyRef<'_, Self>, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |batch| other.with(py, |other| Ok(batch == other)))
    }

    fn __hash__(&self, _py: Python<'_>) -> u64 {
        let cells: Vec<Cell<'_>> = self.values.iter().map(|value| value.as_cell()).collect();
        hash(self.kind.name().as_bytes(), &cells)
    }

    fn __repr__(&self) -> String {
        format!("<BatchMessage {} of {}>", self.kind.name(), self.entries.len())
    }
}

impl BatchMessage {
    /// Calls `call` with the batch in the form that the codec takes.
    fn with<T>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(Batch<'_, Value>) -> PyResult<T>,
    ) -> PyResult<T> {
        let mut statements = Vec::with_capacity(self.entries.len());
        let mut start = 0;
        for entry in &self.entries {
            let text = match &entry.text {
                Text::Query(text) => StatementText::Query(text.to_str(py)?),
                Text::Prepared(id) => StatementText::Prepared(id.as_bytes()),
            };
            statements.push(Statement { text, values: &self.values[start..entry.end] });
            start = entry.end;
        }
        let settings = self.common.settings(py)?;
        call(Batch { kind: self.kind, statements: &statements, settings })
    }
}

/// Reads a statement of a batch, and appends its values to `values`.
fn take(statement: &Bound<'_, PyAny>, index: usize, values: &mut Vec<Value>) -> PyResult<Text> {
    if let Some(text) = text(statement, index)? {
        return Ok(text);
    }
    let at = At::statement(index);
    let refuse = || {
        let expected = "str, the bytes of an id, or (statement, values)";
        unexpected(at, expected, statement)
    };
    let pair = match statement.cast_exact::<PyTuple>() {
        Ok(pair) => pair.clone(),
        // If the object is an instance of a subclass, its items are read without calling methods of
        // the subclass.
        Err(_) => match (statement.cast::<PyTuple>(), statement.cast::<PyList>()) {
            (Ok(tuple), _) if tuple.len() == 2 => PyTuple::new(statement.py(), tuple.iter())?,
            (_, Ok(list)) if list.len() == 2 => {
                let parts = (list.get_item(0)?, list.get_item(1)?);
                parts.into_pyobject(statement.py())?
            }
            _ => return Err(refuse()),
        },
    };
    if pair.len() != 2 {
        return Err(refuse());
    }
    let (statement, of) = (pair.get_borrowed_item(0)?, pair.get_borrowed_item(1)?);
    let text = text(&statement, index)?
        .ok_or_else(|| unexpected(at, "str or the bytes of an id", &statement))?;
    let by_position = of.is_exact_instance_of::<PyTuple>() || of.is_exact_instance_of::<PyList>();
    if !by_position && of.is_instance(python::mapping(statement.py())?)? {
        let reason = "values by name do not work in batches (CASSANDRA-10246)";
        return Err(refused(statement.py(), at, reason));
    }
    append_values(&of, at, values)?;
    Ok(text)
}

/// Reads a statement's text or id. Returns `None` for an object that is neither.
#[inline]
fn text(statement: &Bound<'_, PyAny>, index: usize) -> PyResult<Option<Text>> {
    if let Ok(id) = statement.cast_exact::<PyBytes>()
        && id.as_bytes().len() <= arguments::MAX_SHORT
    {
        return Ok(Some(Text::Prepared(Held::new(id.clone()))));
    }
    if statement.is_instance_of::<PyString>() {
        return Ok(Some(Text::Query(arguments::text(
            statement,
            At::statement(index),
            arguments::LONGEST,
        )?)));
    }
    if statement.is_instance_of::<PyTuple>() {
        return Ok(None);
    }
    match exact_bytes(statement)? {
        Some(bytes) => {
            let id = arguments::id(&bytes, At::statement(index))?;
            Ok(Some(Text::Prepared(Held::new(id.into_bound(statement.py())))))
        }
        None => Ok(None),
    }
}

fn batch_kind(kind: &Bound<'_, PyAny>) -> PyResult<BatchKind> {
    let name = kind.cast::<PyString>().ok().and_then(|name| name.to_str().ok());
    name.and_then(BatchKind::from_name).ok_or_else(|| {
        let reason = format!("expected 'logged', 'unlogged' or 'counter', got {}", describe(kind));
        refused(kind.py(), At::argument("kind"), &reason)
    })
}
