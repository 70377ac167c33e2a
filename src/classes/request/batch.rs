//! Sends batches. A batch consists of statements with their values, and is one request.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyDict;
use turbocql_codec::RowBuffer;
use turbocql_engine::{BatchEntry, BatchKind, EngineError, has_condition};

use crate::classes::request::how::How;
use crate::classes::result::cursor::Cursor;
use crate::classes::session::state::{SessionState, out_of_turn};
use crate::classes::statement::prepared::{Bound_, Prepared};
use crate::error::raise_engine;
use crate::op::{Arrival, Next, OpState, Step};
use crate::options::{self, OptionScope, Options, or_default, under};
use crate::python;
use turbocql_values::error::config_error;
use turbocql_values::failure::Failure;
use turbocql_values::row::RowsAs;

/// A statement of a batch, with its bind values.
pub enum Statement {
    Bound(Py<Bound_>),
    Prepared(Py<Prepared>, Option<Py<PyAny>>),
    /// A text without values. It is sent without being prepared.
    Plain(String),
    /// A text with values, which must be prepared first.
    Text(String, Py<PyAny>),
}

impl Statement {
    pub fn parse(entry: &Bound<'_, PyAny>) -> PyResult<Statement> {
        let (statement, values): (Bound<'_, PyAny>, Option<Bound<'_, PyAny>>) = entry.extract()?;
        if let Ok(bound) = statement.cast::<Bound_>() {
            return Ok(Statement::Bound(bound.clone().unbind()));
        }
        if let Ok(prepared) = statement.cast::<Prepared>() {
            return Ok(Statement::Prepared(prepared.clone().unbind(), values.map(Bound::unbind)));
        }
        let Ok(text) = statement.extract::<String>() else {
            return Err(PyTypeError::new_err(format!(
                "a batch holds str, Query, Prepared and Bound, got {}",
                turbocql_values::value::describe::describe(&statement)
            )));
        };
        Ok(match values {
            Some(values) => Statement::Text(text, values.unbind()),
            None => Statement::Plain(text),
        })
    }
}

/// Sends a `turbocql.Batch`.
pub fn execute_batch(
    session: &Arc<SessionState>,
    py: Python<'_>,
    batch: &Bound<'_, PyAny>,
    How { options, rows, began }: How,
    op: &Arc<OpState>,
) -> PyResult<Next> {
    let options_of_batch = batch_options(batch)?;
    if options
        .as_ref()
        .is_some_and(|options| options.paging.is_some() || options.page_size.is_some())
    {
        return Err(config_error(py, "a batch has no pages: leave page_size and paging_state out"));
    }
    let options = under(options, &options_of_batch);
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
        began,
        sent: false,
    };
    let unprepared = step.unprepared(py);
    if unprepared.is_empty() {
        step.send(py, op)?;
    } else {
        step.prepare(unprepared, op);
    }
    Ok(Next::Again(Box::new(step)))
}

/// Returns the options of a `turbocql.Batch`.
pub fn batch_options(batch: &Bound<'_, PyAny>) -> PyResult<Options> {
    let options = batch.getattr(pyo3::intern!(batch.py(), "_options"))?;
    let options: Option<Bound<'_, PyDict>> = options.extract()?;
    options::parse(options.as_ref(), OptionScope::Batch)
}

/// Prepares the texts of a batch that have values, and then sends the batch.
pub struct BatchStep {
    pub session: Arc<SessionState>,
    pub kind: BatchKind,
    pub statements: Vec<Statement>,
    /// Maps texts of the batch to their prepared statements.
    pub prepared: HashMap<String, Py<Prepared>>,
    /// The value of [`SessionState::epoch`] before any text was prepared.
    pub epoch: u64,
    pub options: Options,
    pub rows: RowsAs,
    /// When the call began. `None` if the call has neither waited in a full session nor prepared
    /// statements.
    pub began: Option<Instant>,
    /// Whether the batch was sent.
    pub sent: bool,
}

impl BatchStep {
    /// Looks up the texts in the cache, and returns those that are not cached. Keeps the cached
    /// statements in `self.prepared`, because the cache may drop them at any time.
    pub fn unprepared(&mut self, py: Python<'_>) -> Vec<String> {
        let mut missing = Vec::new();
        for statement in &self.statements {
            let Statement::Text(text, _) = statement else { continue };
            if self.prepared.contains_key(text) || missing.contains(text) {
                continue;
            }
            match self.session.cached(py, text) {
                Some(prepared) => drop(self.prepared.insert(text.clone(), prepared)),
                None => missing.push(text.clone()),
            }
        }
        missing
    }

    /// Prepares the texts.
    pub fn prepare(&mut self, texts: Vec<String>, op: &Arc<OpState>) {
        let (engine, options) = (self.session.engine.clone(), self.options.clone());
        let began = *self.began.get_or_insert_with(Instant::now);
        op.run(&self.session.runtime, async move {
            let mut prepared = Vec::with_capacity(texts.len());
            for text in &texts {
                prepared.push(engine.prepare(text, or_default(&options), began).await?);
            }
            Ok(Arrival::Prepared(prepared))
        });
    }

    /// Encodes all bind values and sends the batch. If the cached statement of a text refuses the
    /// values and may be outdated, does not send the batch yet. Instead, starts to prepare the text
    /// again, and this function is called again afterwards.
    pub fn send(&mut self, py: Python<'_>, op: &Arc<OpState>) -> PyResult<()> {
        let mut rows = RowBuffer::with_capacity(0, self.statements.len());
        let mut entries = Vec::with_capacity(self.statements.len());
        for (number, statement) in self.statements.iter().enumerate() {
            let whose = |error| in_batch(py, error, number);
            entries.push(match statement {
                Statement::Bound(bound) => {
                    let bound = bound.get();
                    bound.row.rows().for_each(|row| rows.push_row(row));
                    BatchEntry::Prepared(bound.prepared.get().engine.clone())
                }
                Statement::Prepared(prepared, values) => {
                    let values = values.as_ref().map(|values| values.bind(py));
                    prepared.get().append(py, values, &mut rows).map_err(whose)?;
                    BatchEntry::Prepared(prepared.get().engine.clone())
                }
                Statement::Plain(text) => {
                    rows.finish_row();
                    BatchEntry::Text(text.clone())
                }
                Statement::Text(text, values) => {
                    let prepared = self.prepared.get(text).ok_or_else(out_of_turn)?.get();
                    let values = Some(values.bind(py));
                    if let Err(failure) = prepared.try_append(py, values, &mut rows)? {
                        if matches!(*failure, Failure::Refused(..))
                            && self.session.forget_outdated(prepared)
                        {
                            // Another client may have changed the type of a bind marker. So the
                            // text is prepared again.
                            let text = text.clone();
                            self.prepared.remove(&text);
                            self.prepare(vec![text], op);
                            return Ok(());
                        }
                        return Err(whose(prepared.unfit(py, failure)));
                    }
                    BatchEntry::Prepared(prepared.engine.clone())
                }
            });
        }
        self.session.warn_of(py, || {
            entries.iter().any(|entry| match entry {
                BatchEntry::Prepared(prepared) => prepared.has_condition,
                BatchEntry::Text(text) => has_condition(text),
            })
        })?;
        self.sent = true;
        op.weigh(rows.byte_len() + or_default(&self.options).payload_len());
        let (engine, kind, options, began) =
            (self.session.engine.clone(), self.kind, self.options.clone(), self.began);
        op.run(&self.session.runtime, async move {
            let sent = engine.batch(kind, entries, rows, or_default(&options), began);
            sent.await.map(Arrival::Response)
        });
        Ok(())
    }
}

/// Adds to an error the number of the statement in its batch.
fn in_batch(py: Python<'_>, error: PyErr, number: usize) -> PyErr {
    let result = python::error_in_batch(py)
        .and_then(|add_number| add_number.call1((error.value(py), number)));
    result.err().unwrap_or(error)
}

impl Step for BatchStep {
    fn arrived(
        mut self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        match arrival.map_err(|error| raise_engine(py, &error))? {
            Arrival::Prepared(prepared) if !self.sent => {
                for prepared in prepared {
                    let prepared = self.session.remember(py, prepared, self.epoch)?;
                    let text = prepared.get().engine.text().to_owned();
                    self.prepared.insert(text, prepared);
                }
                self.send(py, op)?;
                Ok(Next::Again(self))
            }
            Arrival::Response(response) => {
                Cursor::make(py, &self.session, self.rows, response, None).map(Next::Done)
            }
            _ => Err(out_of_turn()),
        }
    }
}
