//! Converts the metrics and events of a session to Python objects.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use turbocql_engine::{
    EVERY, Event, Field, HistogramCounts, KindMetrics, NodeMetrics, Origin, RequestOptions,
    Session, UNUSUAL, bounds_us,
};

use crate::classes::session::state::SessionState;
use crate::options::{Options, custom_payload, or_default};
use crate::python;

/// Returns the upper bounds of the buckets of histograms, in microseconds. The last bucket has no
/// upper bound, so there is one bucket more than bounds.
#[pyfunction]
pub fn latency_bounds_us() -> Vec<u64> {
    bounds_us().to_vec()
}

/// Returns the metrics of a session, as a dict for `turbocql.telemetry`.
pub fn metrics<'py>(py: Python<'py>, engine: &Session) -> PyResult<Bound<'py, PyDict>> {
    let metrics = py.detach(|| engine.metrics());
    let (totals, timeouts) = (&metrics.totals, &metrics.totals.timeouts);
    let kinds = PyDict::new(py);
    for KindMetrics { kind, requests, failed, latency } in &totals.kinds {
        kinds.set_item(kind.name(), (requests, failed, histogram(latency)))?;
    }
    let errors: Vec<_> =
        totals.errors.iter().map(|((kind, code), count)| (kind, code, count)).collect();
    let nodes = PyDict::new(py);
    for (at, node) in &metrics.nodes {
        nodes.set_item(at.to_string(), node_metrics(py, node)?)?;
    }
    let figures = PyDict::new(py);
    figures.set_item("uptime_s", totals.uptime.as_secs_f64())?;
    figures.set_item("kinds", kinds)?;
    figures.set_item("errors", errors)?;
    figures.set_item(
        "timeouts",
        [
            ("queue", timeouts.queue),
            ("prepare", timeouts.prepare),
            ("answer", timeouts.answer),
            ("agreement", timeouts.agreement),
        ],
    )?;
    figures.set_item("nodes", nodes)?;
    let counts = [
        ("canceled", totals.canceled),
        ("retries", totals.retries),
        ("speculative", totals.speculative),
        ("rows", totals.rows),
        ("pages", totals.pages),
        ("prepared", totals.prepared),
        ("prepared_again", totals.prepared_again),
        ("cache_hits", totals.cache_hits),
        ("connection_timeouts", metrics.connection_timeouts),
        ("dropped_events", totals.dropped_events),
        ("in_flight", metrics.in_flight.0 as u64),
        ("in_flight_bytes", metrics.in_flight.1 as u64),
        ("waiting", metrics.waiting as u64),
    ];
    for (name, count) in counts {
        figures.set_item(name, count)?;
    }
    Ok(figures)
}

fn node_metrics<'py>(py: Python<'py>, node: &NodeMetrics) -> PyResult<Bound<'py, PyDict>> {
    let latencies = PyDict::new(py);
    for (kind, latency) in &node.latencies {
        latencies.set_item(kind.name(), histogram(latency))?;
    }
    let figures = PyDict::new(py);
    for (name, count) in [
        ("attempts", node.attempts),
        ("failed", node.failed),
        ("abandoned", node.abandoned),
        ("opened", node.opened),
        ("refused", node.refused),
        ("lost", node.lost),
        ("sent_bytes", node.sent_bytes),
        ("received_bytes", node.received_bytes),
    ] {
        figures.set_item(name, count)?;
    }
    figures.set_item("in_flight", node.in_flight)?;
    figures.set_item("connections", node.connections)?;
    figures.set_item("latencies", latencies)?;
    Ok(figures)
}

/// Returns the counts of a histogram, and the sum of its durations in microseconds.
fn histogram(counts: &HistogramCounts) -> (Vec<u64>, u64) {
    (counts.counts.to_vec(), counts.sum_us)
}

/// A Python object that describes the call to which a request belongs.
struct CallOrigin(Py<PyAny>);

impl SessionState {
    /// If the session reports requests as events, adds a description of the program's call to the
    /// options. If there is a current trace, also adds the context of the trace as a custom
    /// payload. If the session reports no requests, returns the options unchanged.
    pub fn with_origin(&self, py: Python<'_>, options: Options) -> PyResult<Options> {
        if !self.engine.telemetry().events.wants_requests() {
            return Ok(options);
        }
        let origin = Origin(Arc::new(CallOrigin(python::call_origin(py)?.call0()?.unbind())));
        let options = RequestOptions { origin: Some(origin), ..or_default(&options).clone() };
        let Some(trace_context) = self.hooks.trace_context.get(py) else {
            return Ok(Some(Arc::new(options)));
        };
        let context = trace_context.bind(py).call0()?;
        if context.is_none() {
            return Ok(Some(Arc::new(options)));
        }
        let traced = RequestOptions {
            custom_payload: Some(Arc::new(custom_payload(&context)?)),
            ..RequestOptions::default()
        };
        Ok(Some(Arc::new(options.over(&traced))))
    }

    /// Returns the options for a request that is sent again within one call of the program. The
    /// options contain a description of the call, to which this function adds the number of
    /// resends.
    pub fn with_origin_again(
        &self,
        py: Python<'_>,
        options: Options,
        resend_count: u32,
    ) -> PyResult<Options> {
        let origin = options.as_ref().and_then(|options| options.origin.as_ref());
        let origin = origin.and_then(|origin| origin.0.downcast_ref::<CallOrigin>());
        let Some(CallOrigin(origin)) = origin else { return Ok(options) };
        let again = origin.bind(py).call_method1(pyo3::intern!(py, "again"), (resend_count,))?;
        let origin = Some(Origin(Arc::new(CallOrigin(again.unbind()))));
        Ok(Some(Arc::new(RequestOptions { origin, ..or_default(&options).clone() })))
    }

    /// Counts a statement that was found in the cache.
    pub fn count_cache_hit(&self) {
        self.engine.telemetry().cache_hits.fetch_add(1, Ordering::Relaxed);
    }
}

/// An event of a session.
#[pyclass(frozen, get_all, module = "turbocql._core")]
pub struct SessionEvent {
    name: &'static str,
    /// The time of the event, in seconds since 1970.
    time_s: f64,
    /// The name of the thread on which the event happened.
    thread_name: String,
    /// The address of the node that the event is about.
    node: Option<String>,
    fields: Py<PyDict>,
    /// The `CallOrigin` of the call.
    origin: Option<Py<PyAny>>,
}

/// The queue of a session's events. A reference to the queue does not keep the session open.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Events(pub Arc<turbocql_engine::Events>);

#[pymethods]
impl Events {
    /// Takes all events out of the queue. If the queue is empty, waits at most `limit_s` seconds
    /// for an event. Returns `None` if the queue is empty and closed. When the session is dropped,
    /// its queues are closed.
    fn take<'py>(&self, py: Python<'py>, limit_s: f64) -> PyResult<Option<Bound<'py, PyList>>> {
        let limit = Duration::try_from_secs_f64(limit_s).unwrap_or_default();
        let Some(events) = py.detach(|| self.0.take(limit)) else { return Ok(None) };
        let list = PyList::empty(py);
        for event in events {
            list.append(SessionEvent::new(py, event)?)?;
        }
        Ok(Some(list))
    }

    /// Sets the requests whose events are queued. Events of slow requests are always queued. If
    /// `unusual` is true, events of requests that were sent more than once or have failed are also
    /// queued. If `every` is true, events of all requests are queued.
    fn want(&self, unusual: bool, every: bool) {
        self.0.want(if unusual { UNUSUAL } else { 0 } | if every { EVERY } else { 0 });
    }

    /// The number of events that were dropped because the queue was full.
    #[getter]
    fn dropped(&self) -> u64 {
        self.0.dropped()
    }

    /// Makes the queue refuse new events.
    fn close(&self) {
        self.0.close();
    }
}

impl SessionEvent {
    fn new(py: Python<'_>, event: Event) -> PyResult<SessionEvent> {
        let fields = PyDict::new(py);
        for (name, field) in event.fields {
            match field {
                Field::Bool(flag) => fields.set_item(name, flag)?,
                Field::Int(number) => fields.set_item(name, number)?,
                Field::Seconds(seconds) => fields.set_item(name, seconds)?,
                Field::Text(text) => fields.set_item(name, text)?,
                Field::Attempts(attempts) => {
                    if attempts.iter().any(|attempt| attempt.shard.is_some()) {
                        let shards: Vec<_> = attempts.iter().map(|attempt| attempt.shard).collect();
                        fields.set_item("shards", shards)?;
                    }
                    let attempts = attempts.into_iter().map(|attempt| {
                        (attempt.node.to_string(), attempt.began, attempt.ended, attempt.error)
                    });
                    fields.set_item(name, attempts.collect::<Vec<_>>())?;
                }
            }
        }
        let origin = event.origin.and_then(|origin| {
            origin.0.downcast_ref::<CallOrigin>().map(|CallOrigin(origin)| origin.clone_ref(py))
        });
        let time_s = event.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Ok(SessionEvent {
            name: event.name,
            time_s,
            thread_name: event.thread,
            node: event.node.map(|node| node.to_string()),
            fields: fields.unbind(),
            origin,
        })
    }
}
