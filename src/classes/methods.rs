//! The Python methods of [`Session`].

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use turbocql_engine::EngineError;

use crate::classes::bulk::execute_many::{
    BulkLimits, BulkOptions, BulkProgress, Many, PaceOptions, RowsOf,
};
use crate::classes::bulk::feeding::Columns;
use crate::classes::request::how::rows_as;
use crate::classes::request::preparing::{AfterPreparing, ReturnPrepared};
use crate::classes::scan::ScanOf;
use crate::classes::session::cluster;
use crate::classes::session::state::{Session, SessionState};
use crate::classes::session::telemetry;
use crate::classes::statement::prepared::{Bound_, Prepared, Query, text_of};
use crate::op::{Arrival, Next, Op, OpState, Step};
use crate::options::{self, OptionScope, Options, timeout, under};

impl Session {
    /// Removes the prepared statement of a text from the cache, unless it was prepared a moment
    /// ago. This is called before the text is executed with many rows. The text is then prepared
    /// again, because another client may have changed the types of its bind markers.
    fn forget_outdated(&self, py: Python<'_>, text: &str) {
        if let Some(prepared) = self.0.cached(py, text) {
            self.0.forget_outdated(prepared.get());
        }
    }
}

#[pymethods]
impl Session {
    fn prepare(&self, py: Python<'_>, statement: &Bound<'_, PyAny>) -> PyResult<Op> {
        let _inside = self.0.enter(py)?;
        let op = OpState::empty();
        op.begin(self.0.with_prepared(py, text_of(statement)?, ReturnPrepared, None, &op)?);
        Ok(Op(op))
    }

    /// Executes a statement once for each row of bind values.
    #[expect(clippy::too_many_arguments, reason = "the arguments of a Python call")]
    fn execute_many(
        &self,
        py: Python<'_>,
        statement: &Bound<'_, PyAny>,
        rows: &Bound<'_, PyAny>,
        concurrency: usize,
        max_failures: usize,
        keep_results: bool,
        progress: Option<&Bound<'_, BulkProgress>>,
        pace: PaceOptions,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Op> {
        let _inside = self.0.enter(py)?;
        let request = options::parse(options, OptionScope::Statement)?;
        let request = self.0.with_origin(py, request)?;
        let rows = match rows.cast::<Columns>() {
            Ok(columns) => RowsOf::Columns(columns.clone().unbind()),
            Err(_) => RowsOf::Iterator(rows.try_iter()?.unbind()),
        };
        let limits = BulkLimits { concurrency, max_failures, keep_results };
        let many = |request: Options| {
            self.0.check_profile(py, &request)?;
            let options = BulkOptions::new(request, &limits, progress, &pace);
            Ok::<_, PyErr>(Many { rows, options })
        };
        let op = OpState::empty();
        if let Ok(prepared) = statement.cast::<Prepared>() {
            let then = many(under(request, &prepared.get().options))?;
            op.begin(then.run(py, &self.0, prepared.clone().unbind(), None, &op)?);
            return Ok(Op(op));
        }
        if let Ok(query) = statement.cast::<Query>() {
            let then = many(under(request, &query.get().options))?;
            let text = query.get().text.clone();
            self.forget_outdated(py, &text);
            op.begin(self.0.with_prepared(py, text, then, None, &op)?);
            return Ok(Op(op));
        }
        if statement.cast::<Bound_>().is_ok() {
            let reason = "execute_many takes a str, a Query or a Prepared: a Bound has its values";
            return Err(PyTypeError::new_err(reason));
        }
        let text = text_of(statement)?;
        self.forget_outdated(py, &text);
        op.begin(self.0.with_prepared(py, text, many(request)?, None, &op)?);
        Ok(Op(op))
    }

    /// Reads token ranges of a table. `place` is the keyspace and the name of the table. The
    /// statement is executed for each range: its first two values are the bounds of the range, and
    /// `values` are its other values. If `node` is a host id, `ranges` is empty. The statement is
    /// then sent to this node once, with only `values`.
    #[expect(clippy::too_many_arguments, reason = "the arguments of a Python call")]
    fn scan(
        &self,
        py: Python<'_>,
        statement: String,
        place: (String, String),
        ranges: Vec<(i64, i64)>,
        values: Py<PyTuple>,
        node: Option<[u8; 16]>,
        concurrency: usize,
        patience_s: f64,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Op> {
        let _inside = self.0.enter(py)?;
        let rows = rows_as(py, &self.0, options)?;
        let options = options::parse(options, OptionScope::Execute)?;
        let options = self.0.with_origin(py, options)?;
        let scan =
            ScanOf { table: place, ranges, values, node, concurrency, patience_s, options, rows };
        self.0.scan(py, statement, scan)
    }

    #[getter]
    fn closed(&self) -> bool {
        self.0.was_closed()
    }

    #[getter]
    fn keyspace(&self) -> Option<String> {
        self.0.engine.keyspace()
    }

    /// The cached prepared statements, the most recently used first.
    #[getter]
    fn prepared(&self, py: Python<'_>) -> Vec<Py<Prepared>> {
        self.0.statements(py)
    }

    /// Empties the cache of prepared statements.
    fn forget_prepared(&self) {
        self.0.clear_cache();
    }

    /// Registers the class for the values of a user-defined type. With None, removes the registered
    /// class.
    #[pyo3(signature = (keyspace, name, made))]
    fn register_type(
        &self,
        py: Python<'_>,
        keyspace: &str,
        name: &str,
        made: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        self.0.check_open()?;
        self.0.shapes.register(py, keyspace, name, made);
        // A program may register a class because a field was added to the type. The statements in
        // the cache still have the type without this field, so the cache is emptied.
        self.0.clear_cache();
        Ok(())
    }

    /// Returns the nodes of the cluster. Each node is a tuple of the arguments of
    /// `turbocql.cluster.Node`.
    fn nodes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.0.check_open()?;
        cluster::nodes(py, &self.0.engine)
    }

    #[getter]
    fn cluster_name(&self) -> String {
        self.0.engine.cluster_name()
    }

    /// Returns the host id and the shard of each replica of a token.
    fn replicas<'py>(
        &self,
        py: Python<'py>,
        keyspace: &str,
        table: &str,
        token: i64,
    ) -> PyResult<Bound<'py, PyList>> {
        self.0.check_open()?;
        cluster::replicas(py, &self.0.engine, keyspace, table, token)
    }

    /// Returns the session's metrics, for `turbocql.telemetry`.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        telemetry::metrics(py, &self.0.engine)
    }

    /// Returns the queue of the session's events.
    fn events(&self) -> telemetry::Events {
        telemetry::Events(self.0.engine.telemetry().events.clone())
    }

    /// Returns the queue of the events about nodes and the schema. Events are queued only after the
    /// first call of this method.
    fn cluster_events(&self) -> telemetry::Events {
        let events = self.0.engine.telemetry().cluster_events.clone();
        events.want(turbocql_engine::EVERY);
        telemetry::Events(events)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.hooks.traverse(&visit)
    }

    fn __clear__(&self) {
        self.0.hooks.clear();
    }

    /// Sets the ranks of nodes, which are named by their host ids. Nodes with a lower rank are
    /// tried first. A node with the rank None is not used. With `ranks=None`, no node has a rank,
    /// and only the load balancing orders the nodes.
    #[pyo3(signature = (ranks))]
    fn rank(&self, ranks: Option<Vec<([u8; 16], Option<u32>)>>) -> PyResult<()> {
        self.0.check_open()?;
        self.0.engine.rank(ranks);
        Ok(())
    }

    /// Sets the application's function that decides whether a failed request is sent again.
    #[pyo3(signature = (function))]
    fn retry_when(&self, function: Option<Py<PyAny>>) -> PyResult<()> {
        self.0.check_open()?;
        self.0.hooks.retry_when.set(function);
        Ok(())
    }

    /// Sets the function that returns the context of the current trace. The context is a dict of
    /// str to bytes.
    #[pyo3(signature = (function))]
    fn trace_context(&self, function: Option<Py<PyAny>>) {
        self.0.hooks.trace_context.set(function);
    }

    /// Reads the nodes and the keyspaces of the cluster again.
    fn refresh(&self) -> PyResult<Op> {
        self.0.check_open()?;
        Ok(Op(cluster::refresh(&self.0)))
    }

    /// Waits until all nodes that are up have the same schema. The operation's result is the
    /// version of the schema, as 16 bytes.
    fn agreement(&self, timeout_s: &Bound<'_, PyAny>) -> PyResult<Op> {
        self.0.check_open()?;
        Ok(Op(cluster::agreement(&self.0, timeout(timeout_s)?)))
    }

    /// The number of requests in flight.
    #[getter]
    fn in_flight(&self) -> usize {
        self.0.runtime.in_flight()
    }

    /// Closes the session, so that new requests are refused. The operation waits up to `timeout_s`
    /// seconds for the requests in flight. Then it cancels the requests that have not ended.
    fn close(&self, timeout_s: &Bound<'_, PyAny>) -> PyResult<Op> {
        // `timeout` refuses zero, but here zero is allowed: the requests in flight are canceled at
        // once.
        let limit = match timeout_s.extract::<f64>() {
            Ok(0.0) => Some(std::time::Duration::ZERO),
            _ => timeout(timeout_s)?,
        };
        let limit = limit.unwrap_or(std::time::Duration::MAX);
        let op = OpState::new(Box::new(CloseStep { session: self.0.clone() }));
        if !self.0.close() {
            op.arrive(Ok(Arrival::Done));
            return Ok(Op(op));
        }
        let runtime = self.0.runtime.clone();
        op.run(&self.0.runtime, async move {
            runtime.drain(limit).await;
            Ok(Arrival::Done)
        });
        Ok(Op(op))
    }
}

struct CloseStep {
    session: Arc<SessionState>,
}

impl Drop for CloseStep {
    /// Shuts the runtime down. This also happens if the wait for the requests in flight was
    /// interrupted.
    fn drop(&mut self) {
        self.session.runtime.shutdown();
    }
}

impl Step for CloseStep {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        _: Result<Arrival, EngineError>,
        _: &Arc<OpState>,
    ) -> PyResult<Next> {
        py.detach(|| self.session.runtime.shutdown());
        self.session.clear_cache();
        // The registered classes and the hooks may refer to the session, so they are dropped.
        self.session.shapes.clear();
        self.session.hooks.clear();
        Ok(Next::Done(py.None()))
    }
}
