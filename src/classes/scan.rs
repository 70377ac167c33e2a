//! Scans read token ranges of a table, several at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use turbocql_codec::RowBuffer;
use turbocql_engine::{EngineError, Near, Scan, ScanPlan, ScanRange};

use crate::classes::request::preparing::AfterPreparing;
use crate::classes::result::cursor::Cursor;
use crate::classes::session::state::{SessionState, out_of_turn};
use crate::classes::statement::prepared::Prepared;
use crate::error::raise_engine;
use crate::op::{Arrival, Next, Op, OpState, Step};
use crate::options::{Options, or_default};
use turbocql_values::row::RowsAs;

/// The ranges that a scan reads, and its options.
pub struct ScanOf {
    /// The keyspace and the table.
    pub table: (String, String),
    /// The bounds of each range: the token before the range, and the last token of the range.
    pub ranges: Vec<(i64, i64)>,
    /// The bind values that follow the two bounds.
    pub values: Py<PyTuple>,
    /// The host id of the node to which the statement is sent once, without bounds. Set only if
    /// there are no ranges.
    pub node: Option<[u8; 16]>,
    pub concurrency: usize,
    pub patience_s: f64,
    pub options: Options,
    pub rows: RowsAs,
}

impl ScanOf {
    /// Encodes the values for each range, and begins to read the ranges.
    pub fn start(
        self,
        py: Python<'_>,
        session: &Arc<SessionState>,
        prepared: &Prepared,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        let (keyspace, table): (Arc<str>, Arc<str>) = (self.table.0.into(), self.table.1.into());
        let encoded = |bounds: &[i64]| -> PyResult<RowBuffer> {
            let bounds = bounds.iter().map(|token| Ok(token.into_pyobject(py)?.into_any()));
            let other_values = self.values.bind(py).iter().map(Ok);
            let row: Vec<_> = bounds.chain(other_values).collect::<PyResult<_>>()?;
            let mut values = RowBuffer::with_capacity(64, 1);
            prepared.append(py, Some(PyTuple::new(py, row)?.as_any()), &mut values)?;
            Ok(values)
        };
        let mut ranges = Vec::with_capacity(self.ranges.len());
        for (before, last) in self.ranges {
            let (keyspace, table) = (Arc::clone(&keyspace), Arc::clone(&table));
            let near = Near::Token { keyspace, table, token: last };
            ranges.push(ScanRange { values: encoded(&[before, last])?, near: Some(near) });
        }
        if let Some(node) = self.node {
            ranges.push(ScanRange {
                values: encoded(&[])?,
                near: Some(Near::Node { host_id: node, shard: None }),
            });
        }
        let plan = ScanPlan {
            prepared: Arc::clone(&prepared.engine),
            ranges,
            options: or_default(&self.options).clone(),
            concurrency: self.concurrency,
            patience: Duration::try_from_secs_f64(self.patience_s).unwrap_or(Duration::MAX),
        };
        let scan = Arc::new(Scan::start(&session.runtime, session.engine.clone(), plan));
        let reading = Arc::clone(&scan);
        op.run(&session.runtime, async move { reading.next().await.map(Arrival::Page) });
        Ok(Next::Again(Box::new(ScanStep { session: Arc::clone(session), rows: self.rows, scan })))
    }
}

impl AfterPreparing for ScanOf {
    fn options(&self) -> Options {
        self.options.clone()
    }

    fn run(
        self,
        py: Python<'_>,
        session: &Arc<SessionState>,
        prepared: Py<Prepared>,
        _: Option<Instant>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        self.start(py, session, prepared.get(), op)
    }
}

impl SessionState {
    /// Prepares the statement `text`, then begins the scan.
    pub fn scan(self: &Arc<Self>, py: Python<'_>, text: String, scan: ScanOf) -> PyResult<Op> {
        self.check_profile(py, &scan.options)?;
        let op = OpState::empty();
        op.begin(self.with_prepared(py, text, scan, None, &op)?);
        Ok(Op(op))
    }
}

/// Waits for the first page of a scan.
struct ScanStep {
    session: Arc<SessionState>,
    rows: RowsAs,
    scan: Arc<Scan>,
}

impl Step for ScanStep {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        _: &Arc<OpState>,
    ) -> PyResult<Next> {
        let arrival = arrival.map_err(|error| raise_engine(py, &error))?;
        // A scan has at least one range or a node. So at least one page arrives, and any other
        // arrival is an error.
        let Arrival::Page(Some(response)) = arrival else { return Err(out_of_turn()) };
        Cursor::of_scan(py, &self.session, self.rows, response, self.scan).map(Next::Done)
    }
}
