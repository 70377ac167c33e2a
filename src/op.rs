//! An operation that is already running, with two endings: `wait()` blocks, `await` does not.
//!
//! The engine's thread only leaves an arrival and wakes whoever waits. What the arrival means in
//! Python, including any next request it calls for, is worked out in the waiting thread or on the
//! event loop: by the operation's [`Step`].

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use turbocql_engine::{BulkOutcome, EngineError, Prepared, Response, Runtime, Session, TaskHandle};

use crate::bridge::LoopQueue;
use crate::ending::Inside;
use crate::error;

/// What the engine hands over.
pub enum Arrival {
    Connected(Session),
    Prepared(Vec<Arc<Prepared>>),
    Response(Response),
    /// The next page of a result; none at its end.
    Page(Option<Response>),
    /// `execute_many` has room for more rows.
    WantsMore,
    Bulk(BulkOutcome),
    Done,
}

/// What to do with the next arrival.
pub trait Step: Send + Sync {
    /// Runs with the interpreter held.
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        op: &Arc<OpState>,
    ) -> PyResult<Next>;
}

pub enum Next {
    Done(Py<PyAny>),
    /// Something further was submitted; this step awaits it.
    Again(Box<dyn Step>),
}

enum Phase {
    Running,
    Arrived(Result<Arrival, EngineError>),
    Finished(PyResult<Py<PyAny>>),
    /// Given up: what still arrives is dropped.
    Abandoned,
}

struct Inner {
    phase: Phase,
    step: Option<Box<dyn Step>>,
    task: Option<TaskHandle>,
    /// The event loop and future that await the operation. The future is held, and with it the
    /// task that awaits it, which may have nobody else; the queue is the loop's own, and gone when
    /// the loop is closed.
    awaiting: Option<(Weak<LoopQueue>, Py<PyAny>)>,
}

pub struct OpState {
    inner: Mutex<Inner>,
    arrived: Condvar,
}

/// How often a blocked main thread looks for signals. The first look comes after this long, so a
/// usual request never pays for one.
const SIGNAL_POLL: Duration = Duration::from_millis(20);

impl OpState {
    pub fn new(step: Box<dyn Step>) -> Arc<OpState> {
        let op = OpState::empty();
        op.begin(Next::Again(step));
        op
    }

    /// An operation whose first step is still to be made, by [`OpState::begin`].
    pub fn empty() -> Arc<OpState> {
        Arc::new(OpState {
            inner: Mutex::new(Inner {
                phase: Phase::Running,
                step: None,
                task: None,
                awaiting: None,
            }),
            arrived: Condvar::new(),
        })
    }

    /// Gives an empty operation its first step, or its result.
    pub fn begin(&self, next: Next) {
        let mut inner = self.lock();
        match next {
            Next::Again(step) => inner.step = Some(step),
            Next::Done(value) => inner.phase = Phase::Finished(Ok(value)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a future on the engine; its output is the next arrival.
    pub fn run(
        self: &Arc<Self>,
        runtime: &Runtime,
        future: impl Future<Output = Result<Arrival, EngineError>> + Send + 'static,
    ) {
        let sink = Sink(Some(self.clone()));
        let task = runtime.submit(async move { sink.complete(future.await) });
        self.lock().task = Some(task);
    }

    /// Leaves an arrival and wakes whoever waits. Never touches the interpreter.
    pub fn arrive(self: &Arc<Self>, arrival: Result<Arrival, EngineError>) {
        let mut inner = self.lock();
        match &inner.phase {
            Phase::Abandoned | Phase::Finished(_) => return,
            // The end of a bulk must not be hidden by what its window still says.
            Phase::Arrived(Ok(Arrival::Bulk(_))) => return,
            Phase::Running | Phase::Arrived(_) => {}
        }
        inner.phase = Phase::Arrived(arrival);
        let queue = inner.awaiting.as_ref().map(|(queue, _)| queue.upgrade());
        drop(inner);
        match queue {
            Some(Some(queue)) => queue.push(self.clone()),
            // The loop is gone, and with it whoever awaited.
            Some(None) => self.abandon(),
            None => self.arrived.notify_all(),
        }
    }

    /// Gives the operation up and stops what it has running.
    pub fn abandon(&self) {
        let mut inner = self.lock();
        if matches!(inner.phase, Phase::Finished(_)) {
            return;
        }
        inner.phase = Phase::Abandoned;
        let (task, step) = (inner.task.take(), inner.step.take());
        let awaiting = inner.awaiting.take();
        drop(inner);
        drop(awaiting);
        if let Some(task) = task {
            task.abort();
        }
        // A step may own more that is running.
        drop(step);
    }

    /// Works on what has arrived, if anything has. True when finished.
    ///
    /// One arrival at a time: an event loop has other things to do between two.
    fn advance(self: &Arc<Self>, py: Python<'_>) -> bool {
        let _inside = Inside::enter(py);
        let mut inner = self.lock();
        if matches!(inner.phase, Phase::Finished(_) | Phase::Abandoned) {
            return true;
        }
        let Some(step) = inner.step.take() else { return false };
        let arrival = match std::mem::replace(&mut inner.phase, Phase::Running) {
            Phase::Arrived(arrival) => arrival,
            phase => {
                inner.phase = phase;
                inner.step = Some(step);
                return false;
            }
        };
        drop(inner);
        let next = step.arrived(py, arrival, self);
        let mut inner = self.lock();
        match next {
            Ok(Next::Again(step)) => {
                inner.step = Some(step);
                return false;
            }
            Ok(Next::Done(value)) => inner.phase = Phase::Finished(Ok(value)),
            Err(error) => inner.phase = Phase::Finished(Err(error)),
        }
        true
    }

    /// The result, once: kept here, an exception would keep alive the frames of its traceback,
    /// which keep the operation.
    fn outcome(&self) -> PyResult<Py<PyAny>> {
        match std::mem::replace(&mut self.lock().phase, Phase::Abandoned) {
            Phase::Finished(result) => result,
            _ => Err(PyRuntimeError::new_err("the operation was abandoned or awaited before")),
        }
    }

    /// Called on the event loop, once for each burst that the operation was part of.
    pub fn resolve(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let awaited = self.lock().awaiting.as_ref().map(|(_, future)| future.clone_ref(py));
        let Some(future) = awaited else { return Ok(()) };
        let future = future.bind(py);
        // Cancelled in the meantime: its late result is nobody's.
        if future.call_method0(pyo3::intern!(py, "done"))?.is_truthy()? {
            self.abandon();
            return Ok(());
        }
        if !self.advance(py) {
            return Ok(());
        }
        match self.outcome() {
            Ok(value) => future.call_method1(pyo3::intern!(py, "set_result"), (value,))?,
            Err(error) => {
                // A future cannot carry a StopIteration.
                let error = if error.is_instance_of::<PyStopIteration>(py) {
                    let wrapped = PyRuntimeError::new_err("the rows raised StopIteration");
                    wrapped.set_cause(py, Some(error));
                    wrapped
                } else {
                    error
                };
                future.call_method1(pyo3::intern!(py, "set_exception"), (error,))?
            }
        };
        Ok(())
    }
}

/// Where a future on the engine leaves its output. One that is dropped unused, because its future
/// panicked or the engine ended, still completes: with an error.
struct Sink(Option<Arc<OpState>>);

impl Sink {
    fn complete(mut self, arrival: Result<Arrival, EngineError>) {
        if let Some(op) = self.0.take() {
            op.arrive(arrival);
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Some(op) = self.0.take() {
            op.arrive(Err(error::interrupted()));
        }
    }
}

/// A running operation.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Op(pub Arc<OpState>);

#[pymethods]
impl Op {
    /// Blocks, with the interpreter released, until the result is there.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        loop {
            if self.0.advance(py) {
                return self.0.outcome();
            }
            py.detach(|| {
                let inner = self.0.lock();
                if matches!(inner.phase, Phase::Running) {
                    // Whoever wakes us, or nobody: the loop looks again.
                    drop(self.0.arrived.wait_timeout(inner, SIGNAL_POLL));
                }
            });
            if let Err(interrupt) = py.check_signals() {
                self.0.abandon();
                return Err(interrupt);
            }
        }
    }

    /// Gives the operation up; its result will not come.
    fn abandon(&self) {
        self.0.abandon();
    }

    fn __await__(&self, py: Python<'_>) -> PyResult<OpAwait> {
        let _inside = Inside::enter(py);
        if self.0.advance(py) {
            return Ok(OpAwait { op: self.0.clone(), future: None });
        }
        let (queue, event_loop) = LoopQueue::running(py)?;
        let future = event_loop.call_method0(pyo3::intern!(py, "create_future"))?;
        let iterator = future.call_method0(pyo3::intern!(py, "__await__"))?;
        let mut inner = self.0.lock();
        inner.awaiting = Some((Arc::downgrade(&queue), future.unbind()));
        let arrived = matches!(inner.phase, Phase::Arrived(_));
        drop(inner);
        if arrived {
            // It came between the look above and now, when nobody was there to be woken.
            queue.push(self.0.clone());
        }
        Ok(OpAwait { op: self.0.clone(), future: Some(iterator.unbind()) })
    }
}

/// The iterator behind `await op`: the future's own, which on cancellation also gives the
/// operation up.
#[pyclass(module = "turbocql._core")]
pub struct OpAwait {
    op: Arc<OpState>,
    future: Option<Py<PyAny>>,
}

#[pymethods]
impl OpAwait {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let _inside = Inside::enter(py);
        match &self.future {
            Some(future) => future.call_method0(py, pyo3::intern!(py, "__next__")),
            None => Err(PyStopIteration::new_err((self.op.outcome()?,))),
        }
    }

    fn send(&self, py: Python<'_>, _value: Py<PyAny>) -> PyResult<Py<PyAny>> {
        self.__next__(py)
    }

    #[pyo3(signature = (*arguments))]
    fn throw(&self, py: Python<'_>, arguments: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        self.op.abandon();
        match &self.future {
            Some(future) => future
                .bind(py)
                .call_method1(pyo3::intern!(py, "throw"), arguments)
                .map(Bound::unbind),
            None => Err(PyErr::from_value(arguments.get_item(0)?)),
        }
    }

    fn close(&self) {
        self.op.abandon();
    }

    /// The future, its task and this make a circle, which the collector must see when a loop is
    /// closed under them.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.future)
    }

    fn __clear__(&mut self) {
        self.future = None;
    }
}
