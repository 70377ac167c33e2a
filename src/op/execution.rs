//! The data with which an operation executes a prepared statement.

use std::sync::Arc;
use std::time::Instant;

use turbocql_codec::RowBuffer;
use turbocql_engine::{PageSource, Prepared, Runtime, Session};

use crate::options::Options;

/// The parts of a session that an operation needs.
pub trait Origin: Send + Sync {
    fn engine(&self) -> &Session;

    fn runtime(&self) -> &Runtime;
}

/// The execution of a prepared statement with a row of bind values.
pub struct Execution {
    pub session: Arc<dyn Origin>,
    pub prepared: Arc<Prepared>,
    pub row: Row,
    pub options: Options,
    /// The time when the call began, from which its time limit counts. `None` if the call has
    /// neither waited in a full session nor prepared its statement. The time limit then counts from
    /// the time when the request is sent.
    pub began: Option<Instant>,
}

pub enum Row {
    Own(RowBuffer),
    Shared(Arc<RowBuffer>),
}

impl Row {
    pub(super) fn get(&self) -> &RowBuffer {
        match self {
            Row::Own(row) => row,
            Row::Shared(row) => row,
        }
    }
}

impl Execution {
    /// Returns the statement and values with which the pages after the first are requested.
    pub fn source(&self) -> PageSource {
        let row = match &self.row {
            Row::Own(row) => Arc::new(row.clone()),
            Row::Shared(row) => row.clone(),
        };
        PageSource::Prepared(self.prepared.clone(), row)
    }
}
