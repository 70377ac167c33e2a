//! Prepares a statement, then runs the action that needs it.

use super::call;
use super::execute_many::{BulkOptions, BulkStep};
use super::prepared::Prepared;
use super::session::{SessionState, changes_keyspace, out_of_turn};
use crate::error::raise_engine;
use crate::op::{Arrival, Next, OpState, Step};
use crate::options::{Options, given};
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use std::sync::Arc;
use turbocql_engine::EngineError;
use turbocql_values::error::config_error;
use turbocql_values::row::RowsAs;

/// The action that follows the preparation of a statement.
pub enum Then {
    Return,
    Execute { values: Option<Py<PyAny>>, options: Options, rows: RowsAs },
    Many { rows: Py<PyIterator>, options: BulkOptions },
}

struct PrepareStep {
    session: Arc<SessionState>,
    epoch: u64,
    then: Then,
}

impl Step for PrepareStep {
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
        self.then.run(py, &self.session, prepared, op)
    }
}

impl Then {
    fn options(&self) -> Options {
        match self {
            Then::Return => None,
            Then::Execute { options, .. } => options.clone(),
            Then::Many { options, .. } => options.request.clone(),
        }
    }

    fn run(
        self,
        py: Python<'_>,
        session: &Arc<SessionState>,
        prepared: Py<Prepared>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        Ok(match self {
            Then::Return => Next::Done(prepared.into_any()),
            Then::Execute { values, options, rows } => {
                let values = values.as_ref().map(|values| values.bind(py));
                call::execute_prepared(py, session, prepared.get(), values, options, rows, op)?
            }
            Then::Many { rows, options } => {
                let session = session.clone();
                Next::Again(Box::new(BulkStep::start(py, session, prepared, rows, &options, op)))
            }
        })
    }
}

impl SessionState {
    /// Runs `then` with the prepared statement: at once if it is cached, otherwise after it was
    /// prepared.
    pub fn with_prepared(
        self: &Arc<Self>,
        py: Python<'_>,
        text: String,
        then: Then,
    ) -> PyResult<Arc<OpState>> {
        if changes_keyspace(&text) {
            let reason = "USE cannot be prepared: execute it as a text without values";
            return Err(config_error(py, reason));
        }
        if let Some(prepared) = self.cached(py, &text) {
            return self.start(py, prepared, then);
        }
        let options = then.options();
        let step = PrepareStep { session: self.clone(), epoch: self.epoch(), then };
        let op = OpState::new(Box::new(step));
        let engine = self.engine.clone();
        op.run(&self.runtime, async move {
            let prepared = engine.prepare(&text, given(&options)).await?;
            Ok(Arrival::Prepared(vec![prepared]))
        });
        Ok(op)
    }

    /// Runs `then` with a prepared statement.
    pub fn start(
        self: &Arc<Self>,
        py: Python<'_>,
        prepared: Py<Prepared>,
        then: Then,
    ) -> PyResult<Arc<OpState>> {
        let op = OpState::empty();
        let next = then.run(py, self, prepared, &op)?;
        op.begin(next);
        Ok(op)
    }
}
