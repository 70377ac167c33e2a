//! An operation that is already running, with two endings: `wait()` blocks, `await` does not.
//!
//! The engine's thread only leaves an arrival and wakes whoever waits. What the arrival means in
//! Python, including any next request it calls for, is worked out in the waiting thread or on the
//! event loop: by the operation's [`Step`].

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use turbocql_codec::RowBuffer;
use turbocql_engine::{
    BulkOutcome, EngineError, PageSource, Prepared, Request, Response, Runtime, Sending, Session,
    TaskHandle, Ticket, Trace,
};

use crate::awaiting::OpAwait;
use crate::bridge::LoopQueue;
use crate::classes::session::{Options, SessionState, given};
use crate::error::interrupted;
use crate::ready::Burst;
use turbocql_values::ending::Inside;

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
    /// Of the schema.
    Version([u8; 16]),
    Trace(Option<Box<Trace>>),
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
    /// Who awaits the operation, and the queue of the event loop where. The awaiting one is held,
    /// and with it its task, which may have nobody else; the queue is the loop's own, and gone when
    /// the loop is closed.
    awaiting: Option<(Weak<LoopQueue>, Py<OpAwait>)>,
}

pub struct OpState {
    inner: Mutex<Inner>,
    arrived: Condvar,
    /// What is sent, when that is a row of values for a statement.
    execution: OnceLock<Execution>,
    ticket: Ticket,
}

/// A row of values for a prepared statement.
pub struct Execution {
    pub session: Arc<SessionState>,
    pub prepared: Arc<Prepared>,
    pub row: Row,
    pub options: Options,
}

pub enum Row {
    Own(RowBuffer),
    Shared(Arc<RowBuffer>),
}

impl Execution {
    /// What the pages after the first are asked for with.
    pub fn source(&self) -> PageSource {
        let row = match &self.row {
            Row::Own(row) => Arc::new(row.clone()),
            Row::Shared(row) => row.clone(),
        };
        PageSource::Prepared(self.prepared.clone(), row)
    }
}

impl Sending for OpState {
    fn request(&self) -> Request<'_> {
        // It is there before the operation is submitted.
        let execution = self.execution.get().expect("an operation that executes");
        Request {
            session: &execution.session.engine,
            prepared: &execution.prepared,
            row: match &execution.row {
                Row::Own(row) => row,
                Row::Shared(row) => row,
            },
            options: given(&execution.options),
        }
    }

    fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    fn answered(self: Arc<Self>, answer: Option<Result<Response, EngineError>>) {
        let answer = answer.unwrap_or_else(|| Err(interrupted()));
        if let Some(queue) = self.note(answer.map(Arrival::Response)) {
            queue.push(self);
        }
    }
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
            execution: OnceLock::new(),
            ticket: Ticket::default(),
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

    /// Sends a row of values for a statement; the answer is the next arrival.
    pub fn execute(self: &Arc<Self>, execution: Execution) {
        // An operation executes once: nothing was there.
        let execution = self.execution.get_or_init(|| execution);
        execution.session.runtime.send(self.clone());
    }

    pub fn execution(&self) -> Option<&Execution> {
        self.execution.get()
    }

    /// Leaves an arrival and wakes whoever waits. Never touches the interpreter.
    pub fn arrive(self: &Arc<Self>, arrival: Result<Arrival, EngineError>) {
        if let Some(queue) = self.note(arrival) {
            queue.push(self.clone());
        }
    }

    /// Leaves an arrival and wakes a thread that waits. Where a loop does, its queue is to be told.
    fn note(&self, arrival: Result<Arrival, EngineError>) -> Option<Arc<LoopQueue>> {
        let mut inner = self.lock();
        match &inner.phase {
            Phase::Abandoned | Phase::Finished(_) => return None,
            // The end of a bulk must not be hidden by what its window still says.
            Phase::Arrived(Ok(Arrival::Bulk(_))) => return None,
            Phase::Running | Phase::Arrived(_) => {}
        }
        inner.phase = Phase::Arrived(arrival);
        let queue = inner.awaiting.as_ref().map(|(queue, _)| queue.upgrade());
        drop(inner);
        match queue {
            Some(Some(queue)) => return Some(queue),
            // The loop is gone, and with it whoever awaited.
            Some(None) => self.abandon(),
            None => self.arrived.notify_all(),
        }
        None
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
        self.ticket.cancel();
        // A step may own more that is running.
        drop(step);
    }

    /// Works on what has arrived, if anything has. True when finished.
    ///
    /// One arrival at a time: an event loop has other things to do between two.
    pub fn advance(self: &Arc<Self>, py: Python<'_>) -> bool {
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
    pub fn outcome(&self) -> PyResult<Py<PyAny>> {
        match std::mem::replace(&mut self.lock().phase, Phase::Abandoned) {
            Phase::Finished(result) => result,
            _ => Err(PyRuntimeError::new_err("the operation was abandoned or awaited before")),
        }
    }

    /// Called on the event loop, once for each burst that the operation was part of.
    /// True when somebody runs on.
    pub fn resolve<'py>(
        self: &Arc<Self>,
        py: Python<'py>,
        burst: &mut Burst<'_, 'py>,
    ) -> PyResult<bool> {
        if !self.advance(py) {
            return Ok(false);
        }
        let awaiting = self.lock().awaiting.take();
        match awaiting {
            Some((_, awaiting)) => OpAwait::finish(awaiting.bind(py), burst),
            None => Ok(false),
        }
    }

    /// Has the queue tell of what arrives, and what has, to who awaits it.
    pub fn await_by(self: &Arc<Self>, queue: &Arc<LoopQueue>, awaiting: Py<OpAwait>) {
        let mut inner = self.lock();
        let replaced = inner.awaiting.replace((Arc::downgrade(queue), awaiting));
        let arrived = matches!(inner.phase, Phase::Arrived(_));
        drop(inner);
        drop(replaced);
        if arrived {
            // It came when nobody was there to be told.
            queue.push(self.clone());
        }
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
            op.arrive(Err(interrupted()));
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
        Runtime::release();
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

    fn __await__(&self) -> OpAwait {
        OpAwait::of(self.0.clone())
    }
}
