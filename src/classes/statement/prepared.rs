//! Prepared statements, bound statements, and statement texts with options.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use turbocql_codec::{Column, RowBuffer, token};
use turbocql_engine::{EngineError, ErrorKind, shown};

use crate::error::raise_engine;
use crate::options::{self, OptionScope, Options, under};
use turbocql_values::bind::RowPlan;
use turbocql_values::classes::encoded_rows;
use turbocql_values::ending::Inside;
use turbocql_values::error::{self, Direction};
use turbocql_values::failure::{Failure, Outcome};
use turbocql_values::value::describe::describe;

/// A statement that the server has prepared.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Prepared {
    pub engine: Arc<turbocql_engine::Prepared>,
    pub plan: Arc<RowPlan>,
    /// The options for executions of this statement. The options of a call take precedence.
    pub options: Options,
    /// Whether error messages must not contain bind values.
    hides: bool,
    prepared_at: Instant,
}

/// If the values for a text cannot be encoded, the text is prepared again, because the types of its
/// bind markers may have changed. But a text is not prepared again within this time after its last
/// preparation. So an application that passes wrong values causes at most one additional request
/// per second for each text.
const RENEWAL: Duration = Duration::from_secs(1);

impl Prepared {
    pub fn new(
        py: Python<'_>,
        engine: Arc<turbocql_engine::Prepared>,
        hides: bool,
    ) -> PyResult<Prepared> {
        let plan = RowPlan::new(py, engine.markers().clone(), engine.partition_key())
            .map_err(|failure| error::raise(py, *failure, Direction::Encode))?;
        let prepared_at = Instant::now();
        Ok(Prepared { engine, plan: Arc::new(plan), options: None, hides, prepared_at })
    }

    /// Whether the types of the bind markers may have changed since the statement was prepared.
    /// This is true when `RENEWAL` has passed since then.
    pub fn may_be_outdated(&self) -> bool {
        self.prepared_at.elapsed() >= RENEWAL
    }

    /// Encodes one row of bind values and appends the row. If the encoding fails, the buffer is
    /// unchanged.
    pub fn append(
        &self,
        py: Python<'_>,
        values: Option<&Bound<'_, PyAny>>,
        rows: &mut RowBuffer,
    ) -> PyResult<()> {
        self.try_append(py, values, rows)?.map_err(|failure| self.unfit(py, failure))
    }

    /// Does the same as `append`. But if the values cannot be encoded, returns the failure instead
    /// of an exception.
    pub fn try_append(
        &self,
        py: Python<'_>,
        values: Option<&Bound<'_, PyAny>>,
        rows: &mut RowBuffer,
    ) -> PyResult<Outcome<()>> {
        let _inside = Inside::nested(py)?;
        Ok(self.plan.encode(values, rows))
    }

    /// Makes the exception for values that cannot be encoded.
    pub fn unfit(&self, py: Python<'_>, failure: Box<Failure>) -> PyErr {
        let failure = if self.hides { failure.without_values() } else { failure };
        let mut about = format!("; statement: {}", shown(self.engine.text()));
        if let Failure::Refused(error, None) = &*failure
            && error.reason.contains(" has no field ")
            && self.may_be_outdated()
        {
            about.push_str("; if the type has gained the field since the statement was prepared, ");
            about.push_str("call forget_prepared() and prepare it again");
        }
        error::raise_about(py, *failure, Direction::Encode, &about)
    }
}

/// Returns a list with `(keyspace, table, name, type)` for each column.
pub fn describe_columns<'py>(py: Python<'py>, columns: &[Column]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for c in columns {
        list.append((&*c.keyspace, &*c.table, &c.name, c.cql_type.to_string()))?;
    }
    Ok(list)
}

#[pymethods]
impl Prepared {
    /// The text of the statement.
    #[getter]
    fn text(&self) -> &str {
        self.engine.text()
    }

    fn __repr__(&self) -> String {
        format!("<turbocql.Prepared {:?}>", self.engine.text())
    }

    /// The keyspace, table, name and type of each bind marker.
    #[getter]
    fn markers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        describe_columns(py, self.engine.markers())
    }

    /// The keyspace, table, name and type of each result column.
    #[getter]
    fn result_columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        describe_columns(py, &self.engine.result_columns())
    }

    /// The positions of the bind markers for the columns of the partition key, in the order of the
    /// key. Empty if the positions are unknown, for example because a column of the key has no bind
    /// marker.
    #[getter]
    fn partition_key(&self) -> Vec<usize> {
        self.engine.partition_key().to_vec()
    }

    /// The option `timestamp`, or None if it is not set.
    #[getter]
    fn _timestamp(&self) -> Option<i64> {
        self.options.as_ref().and_then(|options| options.timestamp)
    }

    /// Encodes bind values, by position or by name. Returns the statement with its values, ready to
    /// be executed.
    #[pyo3(signature = (values=None))]
    fn bind(this: &Bound<'_, Self>, values: Option<&Bound<'_, PyAny>>) -> PyResult<Bound_> {
        let mut row = RowBuffer::with_capacity(64, 1);
        this.get().append(this.py(), values, &mut row)?;
        let options = this.get().options.clone();
        Ok(Bound_ { prepared: this.clone().unbind(), row: Arc::new(row), options })
    }

    /// Returns a copy of the statement with these options. The options of a call take precedence.
    #[pyo3(signature = (**options), text_signature = "($self, /, *, consistency=None, \
        serial_consistency=None, timeout_s=None, timestamp=None, idempotent=None, tracing=None, \
        profile=None, custom_payload=None, page_size=None)")]
    fn with_options(&self, options: Option<&Bound<'_, PyDict>>) -> PyResult<Prepared> {
        let options = under(options::parse(options, OptionScope::Statement)?, &self.options);
        let (engine, plan) = (self.engine.clone(), self.plan.clone());
        let (hides, prepared_at) = (self.hides, self.prepared_at);
        Ok(Prepared { engine, plan, options, hides, prepared_at })
    }
}

/// Returns the text of a statement that is a `str`. Any other object is an error.
pub fn text_of(statement: &Bound<'_, PyAny>) -> PyResult<String> {
    match statement.cast::<PyString>() {
        Ok(text) => match text.to_str() {
            Ok(text) => Ok(text.to_owned()),
            Err(why) => {
                let reason = format!("a statement must be UTF-8: {}", why.value(statement.py()));
                let error = EngineError::new(ErrorKind::Encode, reason);
                Err(raise_engine(statement.py(), &error))
            }
        },
        Err(_) => Err(PyTypeError::new_err(no_text(statement))),
    }
}

/// Returns the message for an object that is not the text of a statement.
fn no_text(statement: &Bound<'_, PyAny>) -> String {
    let text = "expected the text of a statement, a str, got";
    if statement.is_instance_of::<Query>() {
        return format!("{text} a Query: pass its text");
    }
    if statement.is_instance_of::<Prepared>() {
        return format!("{text} a Prepared, which needs no preparation");
    }
    let got = if statement.get_type().hasattr("__await__").unwrap_or(false) {
        "a coroutine: await it first".to_owned()
    } else if statement.is_instance_of::<PyList>() {
        "a list: several statements are a Batch".to_owned()
    } else {
        describe(statement)
    };
    format!("a statement is a str, a Query, a Prepared or a Bound, got {got}")
}

/// A statement text with options for its execution.
///
/// Example:
///     >>> from turbocql import Query
///     >>> Query("SELECT v FROM t WHERE k = ?", consistency="ONE", idempotent=True)
///     Query('SELECT v FROM t WHERE k = ?')
#[pyclass(frozen, module = "turbocql._core")]
pub struct Query {
    pub text: String,
    pub options: Options,
}

#[pymethods]
impl Query {
    #[new]
    #[pyo3(signature = (text, /, **options), text_signature = "(text, /, *, consistency=None, \
        serial_consistency=None, timeout_s=None, timestamp=None, idempotent=None, tracing=None, \
        profile=None, custom_payload=None, page_size=None)")]
    fn new(text: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Query> {
        let options = options::parse(options, OptionScope::Statement)?;
        Ok(Query { text: text_of(text)?, options })
    }

    /// The text of the statement.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// The option `timestamp`, or None if it is not set.
    #[getter]
    fn _timestamp(&self) -> Option<i64> {
        self.options.as_ref().and_then(|options| options.timestamp)
    }

    fn __repr__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let text = PyString::new(py, &self.text).repr()?;
        Ok(PyString::new(py, &format!("Query({})", text.to_str()?)))
    }
}

/// A prepared statement with its encoded bind values.
#[pyclass(frozen, name = "Bound", module = "turbocql._core")]
pub struct Bound_ {
    pub prepared: Py<Prepared>,
    /// The buffer has exactly one row.
    pub row: Arc<RowBuffer>,
    pub options: Options,
}

#[pymethods]
impl Bound_ {
    /// The prepared statement.
    #[getter]
    fn prepared(&self, py: Python<'_>) -> Py<Prepared> {
        self.prepared.clone_ref(py)
    }

    fn __repr__(&self) -> String {
        format!("<turbocql.Bound {:?}>", self.prepared.get().engine.text())
    }

    /// Returns a copy of the bound statement with these options. The options of a call take
    /// precedence.
    #[pyo3(signature = (**options), text_signature = "($self, /, *, consistency=None, \
        serial_consistency=None, timeout_s=None, timestamp=None, idempotent=None, tracing=None, \
        profile=None, custom_payload=None, page_size=None)")]
    fn with_options(
        &self,
        py: Python<'_>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Bound_> {
        let options = under(options::parse(options, OptionScope::Statement)?, &self.options);
        Ok(Bound_ { prepared: self.prepared.clone_ref(py), row: self.row.clone(), options })
    }

    /// The option `timestamp`, or None if it is not set.
    #[getter]
    fn _timestamp(&self) -> Option<i64> {
        self.options.as_ref().and_then(|options| options.timestamp)
    }

    /// The serialized partition key, from which the token is computed. None if a column of the
    /// partition key has no bind marker.
    ///
    /// Raises: `ValueError` if a part of the key is null or unset.
    #[getter]
    fn routing_key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        match self.row.row(0) {
            Some(row) => encoded_rows::routing_key(py, &self.prepared.get().plan, row),
            None => Ok(None),
        }
    }

    /// The Murmur3 token of the partition key. The token determines the replicas of the rows. None
    /// if a column of the partition key has no bind marker.
    #[getter]
    fn token(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        Ok(self.routing_key(py)?.map(|key| token::murmur3(key.as_bytes())))
    }

    /// The cells: a `bytes` object for each value, None for a null, and `UNSET` for an unset value.
    #[getter]
    fn cells<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match self.row.row(0) {
            Some(row) => encoded_rows::cells(py, row),
            None => Ok(PyList::empty(py)),
        }
    }
}
