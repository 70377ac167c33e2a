//! Prepares a statement, then runs an action with the prepared statement.

use crate::classes::session::changing::changes_keyspace;
use crate::classes::session::state::{SessionState, out_of_turn};
use crate::classes::statement::prepared::Prepared;
use crate::error::raise_engine;
use crate::op::{Arrival, Next, OpState, Step};
use crate::options::{Options, or_default};
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::Instant;
use turbocql_engine::EngineError;
use turbocql_values::error::config_error;

/// The action that follows the preparation of a statement.
pub trait AfterPreparing: Send + Sync + Sized + 'static {
    /// Returns the options of the call. The call's time limit includes the preparation.
    fn options(&self) -> Options;

    /// Runs the action. `began` is the time when the call began. It is `None` if the call has
    /// neither waited in a full session nor prepared the statement; then the time of the call
    /// begins now.
    fn run(
        self,
        py: Python<'_>,
        session: &Arc<SessionState>,
        prepared: Py<Prepared>,
        began: Option<Instant>,
        op: &Arc<OpState>,
    ) -> PyResult<Next>;
}

/// The action that returns the prepared statement as the result.
pub struct ReturnPrepared;

impl AfterPreparing for ReturnPrepared {
    fn options(&self) -> Options {
        None
    }

    fn run(
        self,
        _: Python<'_>,
        _: &Arc<SessionState>,
        prepared: Py<Prepared>,
        _: Option<Instant>,
        _: &Arc<OpState>,
    ) -> PyResult<Next> {
        Ok(Next::Done(prepared.into_any()))
    }
}

struct PrepareStep<T> {
    session: Arc<SessionState>,
    epoch: u64,
    began: Instant,
    then: T,
}

impl<T: AfterPreparing> Step for PrepareStep<T> {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        let Arrival::Prepared(mut prepared) = arrival.map_err(|error| raise_engine(py, &error))?
        else {
            return Err(out_of_turn());
        };
        let engine = prepared.pop().ok_or_else(out_of_turn)?;
        let prepared = self.session.remember(py, engine, self.epoch)?;
        self.then.run(py, &self.session, prepared, Some(self.began), op)
    }
}

impl SessionState {
    /// Runs `then` with the prepared statement of `text`. If the statement is not cached, prepares
    /// it first. `began` is the time when the call began, or `None` if the call has not waited in a
    /// full session.
    pub fn with_prepared(
        self: &Arc<Self>,
        py: Python<'_>,
        text: String,
        then: impl AfterPreparing,
        began: Option<Instant>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        if changes_keyspace(&text) {
            let reason =
                "USE cannot be prepared: execute it as a text without values, or call use_keyspace";
            return Err(config_error(py, reason));
        }
        if let Some(prepared) = self.cached(py, &text) {
            return then.run(py, self, prepared, began, op);
        }
        let options = then.options();
        let (epoch, began) = (self.epoch(), began.unwrap_or_else(Instant::now));
        let step = PrepareStep { session: self.clone(), epoch, began, then };
        let engine = self.engine.clone();
        op.run(&self.runtime, async move {
            let prepared = engine.prepare(&text, or_default(&options), began).await?;
            Ok(Arrival::Prepared(vec![prepared]))
        });
        Ok(Next::Again(Box::new(step)))
    }
}
