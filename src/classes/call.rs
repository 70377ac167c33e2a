//! A call of `execute`: kept until it is made, then encoded and sent.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyDict;
use turbocql_engine::{BatchKind, RequestOptions};

use super::options::CallOptions;
use super::prepared::{Bound_, Prepared, Query};
use super::send_batch::{BatchStep, Statement};
use super::session::{ExecuteStep, Options, Plain, Session, SessionState, Then, given, text_of};
use crate::op::{Arrival, Execution, Next, OpState, Row};
use turbocql_values::error::config_error;
use turbocql_values::row::{RowKind, RowsAs};
use turbocql_values::value::describe::describe;
use turbocql_values::value::interned;

/// A call of `execute`, as it was given.
pub struct Call {
    pub session: Py<Session>,
    pub statement: Py<PyAny>,
    pub values: Option<Py<PyAny>>,
    pub options: Option<Box<GivenOptions>>,
}

/// Options that are not all left to the session.
#[derive(Default)]
pub struct GivenOptions {
    consistency: Option<Py<PyAny>>,
    serial_consistency: Option<Py<PyAny>>,
    timeout_s: Option<Py<PyAny>>,
    page_size: Option<Py<PyAny>>,
    timestamp: Option<Py<PyAny>>,
    idempotent: Option<Py<PyAny>>,
    tracing: Option<Py<PyAny>>,
    profile: Option<Py<PyAny>>,
    paging_state: Option<Py<PyAny>>,
    rows: Option<Py<PyAny>>,
    /// What each row is made into.
    row: Option<Py<PyAny>>,
}

impl GivenOptions {
    /// Keyword arguments; `None` where there are none. `None` as an option leaves it to the session.
    pub fn of(keywords: &Bound<'_, PyDict>) -> PyResult<Option<Box<GivenOptions>>> {
        if keywords.is_empty() {
            return Ok(None);
        }
        let mut given = Box::<GivenOptions>::default();
        for (name, value) in keywords.iter() {
            let known = name.extract::<PyBackedStr>().ok();
            let Some(place) = known.and_then(|name| given.place(&name)) else {
                let said = name
                    .repr()
                    .map_or_else(|_| describe(&name), |said| said.to_string_lossy().into_owned());
                let names = GivenOptions::NAMES.join(", ");
                let reason = format!("unknown option {said}; the options are {names}");
                return Err(PyTypeError::new_err(reason));
            };
            *place = if value.is_none() { None } else { Some(value.unbind()) };
        }
        Ok(Some(given))
    }

    const NAMES: [&str; 11] = [
        "consistency",
        "serial_consistency",
        "timeout_s",
        "page_size",
        "timestamp",
        "idempotent",
        "tracing",
        "profile",
        "paging_state",
        "rows",
        "row",
    ];

    fn place(&mut self, name: &str) -> Option<&mut Option<Py<PyAny>>> {
        Some(match name {
            "consistency" => &mut self.consistency,
            "serial_consistency" => &mut self.serial_consistency,
            "timeout_s" => &mut self.timeout_s,
            "page_size" => &mut self.page_size,
            "timestamp" => &mut self.timestamp,
            "idempotent" => &mut self.idempotent,
            "tracing" => &mut self.tracing,
            "profile" => &mut self.profile,
            "paging_state" => &mut self.paging_state,
            "rows" => &mut self.rows,
            "row" => &mut self.row,
            _ => return None,
        })
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.consistency)?;
        visit.call(&self.serial_consistency)?;
        visit.call(&self.timeout_s)?;
        visit.call(&self.page_size)?;
        visit.call(&self.timestamp)?;
        visit.call(&self.idempotent)?;
        visit.call(&self.tracing)?;
        visit.call(&self.profile)?;
        visit.call(&self.paging_state)?;
        visit.call(&self.rows)?;
        visit.call(&self.row)
    }

    /// Those of the request; `None` where all are the session's.
    fn parse(&self, py: Python<'_>) -> PyResult<Options> {
        let bind = |option: &Option<Py<PyAny>>| option.as_ref().map(|it| it.bind(py).clone());
        let options = CallOptions {
            consistency: bind(&self.consistency),
            serial_consistency: bind(&self.serial_consistency),
            timeout_s: bind(&self.timeout_s),
            page_size: bind(&self.page_size),
            timestamp: bind(&self.timestamp),
            idempotent: bind(&self.idempotent),
            tracing: bind(&self.tracing),
            profile: bind(&self.profile),
            paging_state: bind(&self.paging_state),
        }
        .parse()?;
        Ok((options != RequestOptions::default()).then(|| Arc::new(options)))
    }
}

impl Call {
    /// Encodes the values and sends the request.
    pub fn begin(&self, py: Python<'_>) -> PyResult<Arc<OpState>> {
        let session = &self.session.get().0;
        let _inside = session.enter(py)?;
        let options = match &self.options {
            None => None,
            Some(options) => options.parse(py)?,
        };
        let rows = self.rows_as(py)?;
        let statement = self.statement.bind(py);
        if let Ok(prepared) = statement.cast::<Prepared>() {
            let options = under(options, &prepared.get().options);
            session.check_profile(py, &options)?;
            let values = self.values.as_ref().map(|values| values.bind(py));
            let op = OpState::empty();
            op.begin(execute(py, session, prepared.get(), values, options, rows, &op)?);
            return Ok(op);
        }
        if let Ok(bound) = statement.cast::<Bound_>() {
            if self.values.is_some() {
                return Err(PyTypeError::new_err("a bound statement has its values already"));
            }
            let bound = bound.get();
            let options = under(options, &bound.options);
            session.check_profile(py, &options)?;
            let (engine, row) = (bound.prepared.get().engine.clone(), bound.row.clone());
            let op = OpState::empty();
            op.begin(send(session, engine, Row::Shared(row), options, rows, &op));
            return Ok(op);
        }
        session.check_profile(py, &options)?;
        if statement.is_instance(interned::batch(py)?)? {
            if self.values.is_some() {
                return Err(PyTypeError::new_err("a batch has its values already"));
            }
            return execute_batch(session, py, statement, options, rows);
        }
        let (text, options) = match statement.cast::<Query>() {
            Ok(query) => {
                let options = under(options, &query.get().options);
                session.check_profile(py, &options)?;
                (query.get().text.clone(), options)
            }
            Err(_) => (text_of(statement)?, options),
        };
        if let Some(values) = &self.values {
            let then = Then::Execute { values: Some(values.clone_ref(py)), options, rows };
            return session.with_prepared(py, text, then);
        }
        let text: Arc<str> = text.into();
        let plain = Plain {
            text: text.clone(),
            options: options.clone(),
            keyspace: session.engine.keyspace(),
        };
        let op = OpState::new(Box::new(ExecuteStep {
            session: session.clone(),
            plain: Some(plain),
            schema: session.changing(&text),
            rows,
        }));
        let engine = session.engine.clone();
        op.run(&session.runtime, async move {
            Box::pin(engine.query(&text, given(&options), None)).await.map(Arrival::Response)
        });
        Ok(op)
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.session)?;
        visit.call(&self.statement)?;
        visit.call(&self.values)?;
        self.options.as_ref().map_or(Ok(()), |options| options.traverse(visit))
    }

    fn rows_as(&self, py: Python<'_>) -> PyResult<RowsAs> {
        let (rows, row) = match &self.options {
            None => (&None, &None),
            Some(options) => (&options.rows, &options.row),
        };
        let Some(row) = row else {
            return Ok(match rows {
                None => self.session.get().0.row_kind,
                Some(rows) => {
                    let rows = rows.bind(py);
                    let name = rows.extract::<PyBackedStr>().map_err(|_| {
                        let got = describe(rows);
                        let reason = format!("rows must be the name of a kind of rows, got {got}");
                        PyTypeError::new_err(reason)
                    })?;
                    RowKind::parse(py, &name)?
                }
            }
            .into());
        };
        if rows.is_some() {
            return Err(config_error(py, "give rows or row, not both"));
        }
        if !row.bind(py).is_callable() {
            let got = describe(row.bind(py));
            let reason = format!("row must be a class or another callable, got {got}");
            return Err(PyTypeError::new_err(reason));
        }
        Ok(RowsAs { kind: RowKind::Tuple, made: Some(row.clone_ref(py)) })
    }
}

/// Options of a call, over those of its statement.
pub fn under(call: Options, statement: &Options) -> Options {
    match (call, statement) {
        (call, None) => call,
        (None, Some(statement)) => Some(statement.clone()),
        (Some(call), Some(statement)) => Some(Arc::new(call.over(statement))),
    }
}

/// Encodes the values and sends the request.
pub fn execute(
    py: Python<'_>,
    session: &Arc<SessionState>,
    prepared: &Prepared,
    values: Option<&Bound<'_, PyAny>>,
    options: Options,
    rows: RowsAs,
    op: &Arc<OpState>,
) -> PyResult<Next> {
    let row = Row::Own(prepared.encode(py, values)?);
    Ok(send(session, prepared.engine.clone(), row, options, rows, op))
}

/// Sends a row for a statement.
fn send(
    session: &Arc<SessionState>,
    prepared: Arc<turbocql_engine::Prepared>,
    row: Row,
    options: Options,
    rows: RowsAs,
    op: &Arc<OpState>,
) -> Next {
    // A schema statement has no values.
    let schema =
        if prepared.markers().is_empty() { session.changing(prepared.text()) } else { None };
    op.execute(Execution { session: session.clone(), prepared, row, options });
    Next::Again(Box::new(ExecuteStep { session: session.clone(), plain: None, schema, rows }))
}

/// Sends a `turbocql.Batch`.
fn execute_batch(
    session: &Arc<SessionState>,
    py: Python<'_>,
    batch: &Bound<'_, PyAny>,
    options: Options,
    rows: RowsAs,
) -> PyResult<Arc<OpState>> {
    let own: Option<Bound<'_, PyDict>> = batch.getattr(pyo3::intern!(py, "_options"))?.extract()?;
    let own = match own {
        None => None,
        Some(own) => Some(Arc::new(own.extract::<CallOptions<'_>>()?.parse()?)),
    };
    if options.as_ref().is_some_and(|given| given.paging.is_some() || given.page_size.is_some()) {
        return Err(config_error(py, "a batch has no pages: leave page_size and paging_state out"));
    }
    let options = under(options, &own);
    session.check_profile(py, &options)?;
    let kind: PyBackedStr = batch.getattr(pyo3::intern!(py, "kind"))?.extract()?;
    let kind = match &*kind {
        "logged" => BatchKind::Logged,
        "unlogged" => BatchKind::Unlogged,
        "counter" => BatchKind::Counter,
        _ => return Err(config_error(py, &format!("unknown kind of batch {:?}", &*kind))),
    };
    let entries: Vec<Bound<'_, PyAny>> = batch.getattr(pyo3::intern!(py, "_entries"))?.extract()?;
    let mut step = BatchStep {
        session: session.clone(),
        kind,
        statements: entries.iter().map(Statement::parse).collect::<PyResult<_>>()?,
        prepared: HashMap::new(),
        epoch: session.epoch(),
        options,
        rows,
        sent: false,
    };
    let op = OpState::empty();
    let unprepared = step.unprepared(py);
    if unprepared.is_empty() {
        step.send(py, &op)?;
    } else {
        let (engine, options) = (session.engine.clone(), step.options.clone());
        op.run(&session.runtime, async move {
            let mut prepared = Vec::with_capacity(unprepared.len());
            for text in &unprepared {
                prepared.push(engine.prepare(text, given(&options)).await?);
            }
            Ok(Arrival::Prepared(prepared))
        });
    }
    op.begin(Next::Again(Box::new(step)));
    Ok(op)
}
