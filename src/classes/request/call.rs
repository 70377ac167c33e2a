//! Calls of `execute`. A call keeps its arguments until the session has room for its request. Then
//! it encodes the bind values and sends the request.

use std::sync::Arc;
use std::time::Instant;

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use turbocql_codec::RowBuffer;
use turbocql_engine::{EngineError, ErrorKind, has_condition};

use crate::classes::request::batch::{batch_options, execute_batch};
use crate::classes::request::how::{How, rows_as};
use crate::classes::request::preparing::AfterPreparing;
use crate::classes::request::retrying::Again;
use crate::classes::result::cursor::Cursor;
use crate::classes::result::first_page::{FirstPage, Plain};
use crate::classes::session::changing::SchemaChange;
use crate::classes::session::state::{Session, SessionState, out_of_turn};
use crate::classes::statement::prepared::{Bound_, Prepared, Query, text_of};
use crate::error::raise_engine;
use crate::op::awaiting::{Call, OpAwait};
use crate::op::execution::{Execution, Row};
use crate::op::{Arrival, Next, Op, OpState, Step};
use crate::options::{self, OptionScope, Options, or_default, under};
use crate::python;
use turbocql_values::failure::Failure;
use turbocql_values::row::RowsAs;

/// Executes a statement or a batch. The request is sent at once, unless the session is full or the
/// statement must be prepared first. `options` are the options of the call by name. If `waits` is
/// true, two settings of the session have no effect on the call: it waits in a full session even if
/// `raises_when_full` is set, and it does not call the `retry_when` function after a failed
/// request.
#[pyfunction]
#[pyo3(signature = (session, statement, values, options, waits=false))]
pub fn execute(
    py: Python<'_>,
    session: Py<Session>,
    statement: Py<PyAny>,
    values: Option<Py<PyAny>>,
    options: &Bound<'_, PyDict>,
    waits: bool,
) -> PyResult<Op> {
    let options = options::named(options, OptionScope::Execute)?;
    Execute { session, statement, values, options, waits }.begin(py).map(Op)
}

/// Returns a coroutine that executes a statement or a batch, as [`execute`] does. The call begins
/// when the coroutine is first awaited.
#[pyfunction]
pub fn execute_when_awaited(
    session: Py<Session>,
    statement: Py<PyAny>,
    values: Option<Py<PyAny>>,
    options: &Bound<'_, PyDict>,
) -> PyResult<OpAwait> {
    let options = options::named(options, OptionScope::Execute)?;
    Ok(OpAwait::call(Execute { session, statement, values, options, waits: false }))
}

/// The arguments of a call of [`execute`].
pub struct Execute {
    session: Py<Session>,
    statement: Py<PyAny>,
    values: Option<Py<PyAny>>,
    /// The options of the call by name. The names were checked.
    options: Option<Py<PyDict>>,
    /// The argument `waits` of [`execute`].
    waits: bool,
}

impl Call for Execute {
    /// Encodes the bind values and sends the request. If the session is full, waits until it has
    /// room for the request, or raises.
    fn begin(&self, py: Python<'_>) -> PyResult<Arc<OpState>> {
        let session = &self.session.get().0;
        let _inside = session.enter(py)?;
        let options = match &self.options {
            None => None,
            Some(options) => options::parse(Some(options.bind(py)), OptionScope::Execute)?,
        };
        let options = session.with_origin(py, options)?;
        let rows = rows_as(py, session, self.options.as_ref().map(|options| options.bind(py)))?;
        let how = How { options, rows, began: None };
        let op = OpState::empty();
        let again = session.hooks.retry_when.get(py).filter(|_| !self.waits).map(|decide| Again {
            execute: self.clone_ref(py),
            how: how.clone_ref(py),
            decide,
            began: Instant::now(),
            count: 0,
            in_doubt: false,
            last: None,
        });
        let next = self.admit(py, how, &op)?;
        op.begin(match again {
            Some(again) => again.watch(next),
            None => next,
        });
        Ok(op)
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.session)?;
        visit.call(&self.statement)?;
        visit.call(&self.values)?;
        visit.call(&self.options)
    }
}

/// A call that waits until the session has room for it.
struct AdmitStep {
    execute: Execute,
    how: How,
}

impl Step for AdmitStep {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        let arrival = arrival.map_err(|error| match error.kind {
            // The request was not sent yet. So the error must not say that the request may have
            // been applied.
            ErrorKind::Closed => raise_engine(py, &EngineError::closed()),
            _ => raise_engine(py, &error),
        })?;
        let Arrival::Admitted(permit) = arrival else {
            return Err(out_of_turn());
        };
        op.hold(permit);
        self.execute.session.get().0.check_open()?;
        self.execute.send(py, self.how, op)
    }

    fn is_unsent(&self) -> bool {
        true
    }
}

impl Execute {
    pub fn session(&self, py: Python<'_>) -> Arc<SessionState> {
        self.session.bind(py).get().0.clone()
    }

    fn clone_ref(&self, py: Python<'_>) -> Execute {
        Execute {
            session: self.session.clone_ref(py),
            statement: self.statement.clone_ref(py),
            values: self.values.as_ref().map(|values| values.clone_ref(py)),
            options: None,
            waits: self.waits,
        }
    }

    /// Sends the request if the session has room for it. If the session is full, waits or raises.
    pub fn admit(&self, py: Python<'_>, how: How, op: &Arc<OpState>) -> PyResult<Next> {
        let session = &self.session.get().0;
        match session.engine.gate().try_enter() {
            Some(permit) => {
                op.hold(permit);
                self.send(py, how, op)
            }
            None if session.raises_when_full && !self.waits => {
                let (text, prepared) = (self.text(py)?, self.prepared(py));
                let options = or_default(&how.options);
                let error = session.engine.session_full(&text, prepared.as_deref(), options);
                Err(raise_engine(py, &error))
            }
            None => self.wait(py, how, op),
        }
    }

    /// Starts to wait until the session has room. After the wait, the bind values are encoded and
    /// the request is sent.
    fn wait(&self, py: Python<'_>, how: How, op: &Arc<OpState>) -> PyResult<Next> {
        let session = &self.session.get().0;
        let began = how.began.unwrap_or_else(Instant::now);
        let (engine, options) = (session.engine.clone(), self.options_to_wait(py, &how)?);
        let (text, prepared) = (self.text(py)?, self.prepared(py));
        let position = engine.gate().join_queue();
        op.run(&session.runtime, async move {
            let options = or_default(&options);
            let admitted = engine.admitted(position, &text, options, began).await;
            admitted
                .inspect_err(|error| {
                    engine.report_unsent(&text, prepared.as_deref(), options, began, error);
                })
                .map(Arrival::Admitted)
        });
        let how = How { began: Some(began), ..how };
        Ok(Next::Again(Box::new(AdmitStep { execute: self.clone_ref(py), how })))
    }

    /// Returns the text of the statement for error messages. For a batch, returns an empty text.
    fn text(&self, py: Python<'_>) -> PyResult<String> {
        let statement = self.statement.bind(py);
        Ok(if let Ok(prepared) = statement.cast::<Prepared>() {
            prepared.get().engine.text().to_owned()
        } else if let Ok(bound) = statement.cast::<Bound_>() {
            bound.get().prepared.get().engine.text().to_owned()
        } else if let Ok(query) = statement.cast::<Query>() {
            query.get().text.clone()
        } else if statement.is_instance(python::batch(py)?)? {
            String::new()
        } else {
            text_of(statement)?
        })
    }

    /// Returns the prepared statement, if the call has one.
    fn prepared(&self, py: Python<'_>) -> Option<Arc<turbocql_engine::Prepared>> {
        let statement = self.statement.bind(py);
        if let Ok(bound) = statement.cast::<Bound_>() {
            return Some(bound.get().prepared.get().engine.clone());
        }
        statement.cast::<Prepared>().ok().map(|prepared| prepared.get().engine.clone())
    }

    /// Returns the options of the call, merged with the options of its statement. They are needed
    /// during the wait in a full session, because the time limit in them includes this wait.
    pub fn options_to_wait(&self, py: Python<'_>, how: &How) -> PyResult<Options> {
        let statement = self.statement.bind(py);
        let statement_options = if let Ok(prepared) = statement.cast::<Prepared>() {
            prepared.get().options.clone()
        } else if let Ok(bound) = statement.cast::<Bound_>() {
            bound.get().options.clone()
        } else if let Ok(query) = statement.cast::<Query>() {
            query.get().options.clone()
        } else if statement.is_instance(python::batch(py)?)? {
            batch_options(statement)?
        } else {
            None
        };
        let options = under(how.options.clone(), &statement_options);
        self.session.get().0.check_profile(py, &options)?;
        Ok(options)
    }

    /// Encodes the bind values and sends the request.
    fn send(&self, py: Python<'_>, how: How, op: &Arc<OpState>) -> PyResult<Next> {
        let session = &self.session.get().0;
        let How { options, rows, began } = how;
        let statement = self.statement.bind(py);
        if let Ok(prepared) = statement.cast::<Prepared>() {
            let options = under(options, &prepared.get().options);
            session.check_profile(py, &options)?;
            let values = self.values.as_ref().map(|values| values.bind(py));
            let how = How { options, rows, began };
            return execute_prepared(py, session, prepared.get(), values, how, op);
        }
        if let Ok(bound) = statement.cast::<Bound_>() {
            if self.values.is_some() {
                return Err(PyTypeError::new_err("a bound statement has its values already"));
            }
            let bound = bound.get();
            let options = under(options, &bound.options);
            session.check_profile(py, &options)?;
            let prepared = bound.prepared.get().engine.clone();
            session.warn_of(py, || prepared.has_condition)?;
            let next = result_step(session, &prepared, rows);
            let (session, row) = (session.clone(), Row::Shared(bound.row.clone()));
            op.execute(Execution { session, prepared, row, options, began });
            return Ok(next);
        }
        session.check_profile(py, &options)?;
        if statement.is_instance(python::batch(py)?)? {
            if self.values.is_some() {
                return Err(PyTypeError::new_err(
                    "values must be left out for a Batch: pass the values of each statement to Batch.add",
                ));
            }
            return execute_batch(session, py, statement, How { options, rows, began }, op);
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
            let then = WithValues { values: values.clone_ref(py), options, rows };
            return session.with_prepared(py, text, then, began, op);
        }
        session.warn_of(py, || has_condition(&text))?;
        op.weigh(text.len() + or_default(&options).payload_len());
        let text: Arc<str> = text.into();
        let plain = Plain {
            text: text.clone(),
            options: options.clone(),
            keyspace: session.engine.keyspace(),
        };
        let step = ExecuteStep {
            session: session.clone(),
            plain: Some(plain),
            schema: session.changing(&text),
            rows,
            began: began.unwrap_or_else(Instant::now),
        };
        let engine = session.engine.clone();
        op.run(&session.runtime, async move {
            Box::pin(engine.query(&text, or_default(&options), None, began))
                .await
                .map(Arrival::Response)
        });
        Ok(Next::Again(Box::new(step)))
    }
}

/// A call with a text and bind values. It runs after the text was prepared or its prepared
/// statement was found in the cache. If the cached statement refuses the values, the text is
/// prepared again, because another client may have changed the type of a bind marker.
struct WithValues {
    values: Py<PyAny>,
    options: Options,
    rows: RowsAs,
}

impl AfterPreparing for WithValues {
    fn options(&self) -> Options {
        self.options.clone()
    }

    fn run(
        self,
        py: Python<'_>,
        session: &Arc<SessionState>,
        prepared: Py<Prepared>,
        began: Option<Instant>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        let mut row = RowBuffer::with_capacity(64, 1);
        let encoded = prepared.get().plan.encode(Some(self.values.bind(py)), &mut row);
        if let Err(failure) = encoded {
            if matches!(*failure, Failure::Refused(..)) && session.forget_outdated(prepared.get()) {
                let text = prepared.get().engine.text().to_owned();
                return session.with_prepared(py, text, self, began, op);
            }
            return Err(prepared.get().unfit(py, failure));
        }
        let WithValues { options, rows, .. } = self;
        send_row(py, session, prepared.get(), row, How { options, rows, began }, op)
    }
}

/// Encodes the bind values and sends the request.
pub fn execute_prepared(
    py: Python<'_>,
    session: &Arc<SessionState>,
    prepared: &Prepared,
    values: Option<&Bound<'_, PyAny>>,
    how: How,
    op: &Arc<OpState>,
) -> PyResult<Next> {
    let mut row = RowBuffer::with_capacity(64, 1);
    let encoded = prepared.plan.encode(values, &mut row);
    encoded.map_err(|failure| prepared.unfit(py, failure))?;
    send_row(py, session, prepared, row, how, op)
}

/// Sends the request with a row of encoded bind values.
fn send_row(
    py: Python<'_>,
    session: &Arc<SessionState>,
    prepared: &Prepared,
    row: RowBuffer,
    how: How,
    op: &Arc<OpState>,
) -> PyResult<Next> {
    session.warn_of(py, || prepared.engine.has_condition)?;
    let How { options, rows, began } = how;
    let next = result_step(session, &prepared.engine, rows);
    let (session, prepared) = (session.clone(), prepared.engine.clone());
    op.execute(Execution { session, prepared, row: Row::Own(row), options, began });
    Ok(next)
}

/// Returns the step that makes the result after the execution of a prepared statement.
fn result_step(
    session: &Arc<SessionState>,
    prepared: &turbocql_engine::Prepared,
    rows: RowsAs,
) -> Next {
    // Only a statement without bind markers can change the schema.
    let schema =
        if prepared.markers().is_empty() { session.changing(prepared.text()) } else { None };
    let (session, began) = (session.clone(), Instant::now());
    Next::Again(Box::new(ExecuteStep { session, plain: None, schema, rows, began }))
}

struct ExecuteStep {
    pub session: Arc<SessionState>,
    /// `Some` for a text that was sent without being prepared.
    pub plain: Option<Plain>,
    pub schema: Option<SchemaChange>,
    pub rows: RowsAs,
    pub began: Instant,
}

impl Step for ExecuteStep {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        let Self { session, plain, schema, rows, began } = *self;
        drop(schema);
        if plain.is_some() {
            session.follow_keyspace();
        }
        let Arrival::Response(response) = arrival.map_err(|error| raise_engine(py, &error))? else {
            return Err(out_of_turn());
        };
        if response.next.is_none() {
            return Cursor::make(py, &session, rows, response, None).map(Next::Done);
        }
        let (source, options) = match plain {
            Some(plain) => plain.source(&response),
            None => {
                let execution = op.execution().ok_or_else(out_of_turn)?;
                (execution.source(), execution.options.clone())
            }
        };
        FirstPage { session, rows, source, options }.of(py, response, began, op)
    }
}
