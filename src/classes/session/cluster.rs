//! Returns nodes, replicas and traces as Python objects, and starts operations such as `refresh`.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use turbocql_engine::{EngineError, Session, Trace};

use crate::classes::session::state::{SessionState, out_of_turn};
use crate::error::raise_engine;
use crate::op::{Arrival, Next, OpState, Step};
use crate::python;

/// Returns a list with `(host id, address, port, datacenter, rack, connected, silent, enabled,
/// shards, extensions, tokens)` for each node.
pub fn nodes<'py>(py: Python<'py>, engine: &Session) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for node in py.detach(|| engine.nodes()) {
        list.append((
            PyBytes::new(py, &node.host_id),
            node.address.ip().to_canonical(),
            node.address.port(),
            node.datacenter,
            node.rack,
            node.connected,
            node.silent,
            node.enabled,
            node.shards,
            PyTuple::new(py, node.extensions)?,
            PyTuple::new(py, node.tokens)?,
        ))?;
    }
    Ok(list)
}

/// Returns a list with `(host id, shard)` for each replica.
pub fn replicas<'py>(
    py: Python<'py>,
    engine: &Session,
    keyspace: &str,
    table: &str,
    token: i64,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for (host_id, shard) in py.detach(|| engine.replicas(keyspace, table, token)) {
        list.append((PyBytes::new(py, &host_id), shard))?;
    }
    Ok(list)
}

pub fn refresh(session: &Arc<SessionState>) -> Arc<OpState> {
    let op = OpState::new(Box::new(Ask));
    let engine = session.engine.clone();
    op.run(&session.runtime, async move { engine.refresh().await.map(|()| Arrival::Done) });
    op
}

pub fn agreement(session: &Arc<SessionState>, limit: Option<Duration>) -> Arc<OpState> {
    let op = OpState::new(Box::new(Ask));
    let engine = session.engine.clone();
    op.run(&session.runtime, async move { engine.agreement(limit).await.map(Arrival::Version) });
    op
}

pub fn trace(session: &Arc<SessionState>, id: Option<[u8; 16]>) -> Arc<OpState> {
    let op = OpState::new(Box::new(Ask));
    let engine = session.engine.clone();
    op.run(&session.runtime, async move {
        match id {
            Some(id) => engine.trace(id).await.map(|trace| Arrival::Trace(trace.map(Box::new))),
            None => Ok(Arrival::Trace(None)),
        }
    });
    op
}

/// The step of `refresh`, `agreement` and `trace`: converts the engine's answer to a Python object.
struct Ask;

impl Step for Ask {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        _: &Arc<OpState>,
    ) -> PyResult<Next> {
        Ok(Next::Done(match arrival.map_err(|error| raise_engine(py, &error))? {
            Arrival::Done | Arrival::Trace(None) => py.None(),
            Arrival::Version(version) => PyBytes::new(py, &version).into_any().unbind(),
            Arrival::Trace(Some(trace)) => traced(py, *trace)?.unbind(),
            _ => return Err(out_of_turn()),
        }))
    }
}

fn traced(py: Python<'_>, trace: Trace) -> PyResult<Bound<'_, PyAny>> {
    let events = PyList::empty(py);
    for event in trace.events {
        events.append((
            PyBytes::new(py, &event.id),
            event.activity,
            event.source,
            event.source_elapsed_us,
            event.thread,
        ))?;
    }
    python::trace(py)?.call1((
        trace.request,
        trace.command,
        trace.client,
        trace.coordinator,
        trace.started_at,
        trace.duration_us,
        trace.parameters,
        events,
    ))
}
