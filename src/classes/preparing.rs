//! Prepares a statement, then runs the action that needs it.

use super::call::{self, How};
use super::changing::changes_keyspace;
use super::execute_many::{BulkOptions, BulkStep, RowsOf};
use super::prepared::Prepared;
use super::scanning::ScanOf;
use super::session::{SessionState, out_of_turn};
use crate::error::raise_engine;
use crate::op::{Arrival, Next, OpState, Step};
use crate::options::{Options, given};
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::Instant;
use turbocql_engine::EngineError;
use turbocql_values::error::config_error;
use turbocql_values::row::RowsAs;

/// The action that follows the preparation of a statement.
pub enum Then {
    Return,
    Execute { values: Option<Py<PyAny>>, options: Options, rows: RowsAs },
    Many { rows: RowsOf, options: BulkOptions },
    Scan(Box<ScanOf>),
}

struct PrepareStep {
    session: Arc<SessionState>,
    epoch: u64,
    began: Instant,
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
        self.then.run(py, &self.session, prepared, Some(self.began), op)
    }
}

impl Then {
    fn options(&self) -> Options {
        match self {
            Then::Return => None,
            Then::Execute { options, .. } => options.clone(),
            Then::Many { options, .. } => options.request.clone(),
            Then::Scan(scan) => scan.options.clone(),
        }
    }

    /// `began` is when the call began, if it has waited, or prepared the statement.
    pub fn run(
        self,
        py: Python<'_>,
        session: &Arc<SessionState>,
        prepared: Py<Prepared>,
        began: Option<Instant>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        Ok(match self {
            Then::Return => Next::Done(prepared.into_any()),
            Then::Execute { values, options, rows } => {
                let values = values.as_ref().map(|values| values.bind(py));
                let how = How { options, rows, began };
                call::execute_prepared(py, session, prepared.get(), values, how, op)?
            }
            Then::Many { rows, options } => {
                let session = session.clone();
                Next::Again(Box::new(BulkStep::start(py, session, prepared, rows, &options, op)?))
            }
            Then::Scan(scan) => scan.start(py, session, prepared.get(), op)?,
        })
    }
}

impl SessionState {
    /// Runs `then` with the prepared statement: at once if it is cached, otherwise after it was
    /// prepared. `began` is when the call began, if it has waited.
    pub fn with_prepared(
        self: &Arc<Self>,
        py: Python<'_>,
        text: String,
        then: Then,
        began: Option<Instant>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        if changes_keyspace(&text) {
            let reason = "USE cannot be prepared: execute it as a text without values";
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
            let prepared = engine.prepare(&text, given(&options), began).await?;
            Ok(Arrival::Prepared(vec![prepared]))
        });
        Ok(Next::Again(Box::new(step)))
    }
}
