//! Operations run in the background. `wait()` blocks the thread until the operation has a result.
//! `await` suspends only the task, and blocks no thread.
//!
//! The I/O thread only stores a completion ([`Arrival`]) in the operation and wakes the thread or
//! the event loop that waits for it. The operation's [`Step`] handles the completion in that thread
//! or event loop. The step makes Python objects, and may send another request.

pub mod awaiting;
pub mod bridge;
pub mod callbacks;
pub mod descriptor;
pub mod execution;
pub mod greenlets;
pub mod ready;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use turbocql_engine::{
    BulkOutcome, EngineError, Permit, Prepared, Request, Response, Runtime, Sending, Session,
    TaskHandle, Ticket, Trace,
};

use crate::error::{ended, interrupted};
use crate::op::awaiting::OpAwait;
use crate::op::bridge::LoopQueue;
use crate::op::execution::Execution;
use crate::op::greenlets::Sleeper;
use crate::op::ready::Burst;
use crate::options::or_default;
use turbocql_values::ending::{self, Inside};

/// A completion: the outcome of the engine's work for an operation.
pub enum Arrival {
    /// The session has room for the request.
    Admitted(Permit),
    Connected(Session),
    Prepared(Vec<Arc<Prepared>>),
    Response(Response),
    /// The next page of a result, or `None` at the end of the result.
    Page(Option<Response>),
    /// The window of `execute_many` has room for more rows.
    WantsMore,
    Bulk(BulkOutcome),
    /// The version of the schema.
    Version([u8; 16]),
    Trace(Option<Box<Trace>>),
    Done,
}

/// Handles the next completion of an operation.
pub trait Step: Send + Sync {
    /// Handles a completion. The caller holds the GIL.
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        op: &Arc<OpState>,
    ) -> PyResult<Next>;

    /// Whether the operation has not sent its request yet, because it waits for room in the
    /// session.
    fn is_unsent(&self) -> bool {
        false
    }
}

pub enum Next {
    Done(Py<PyAny>),
    /// More work was submitted to the engine. This step will handle the completion of that work.
    Again(Box<dyn Step>),
}

enum Phase {
    Running,
    Arrived(Result<Arrival, EngineError>),
    Finished(PyResult<Py<PyAny>>),
    /// The operation was abandoned. Completions that arrive later are dropped.
    Abandoned,
}

struct Inner {
    phase: Phase,
    step: Option<Box<dyn Step>>,
    task: Option<TaskHandle>,
    /// The request's place among the requests in flight. The place is released when the answer
    /// arrives.
    permit: Option<Permit>,
    /// The coroutine that awaits the operation, and the completion queue of its event loop. The
    /// reference to the coroutine is strong, because the coroutine keeps its task alive, and there
    /// may be no other strong reference to the task. The reference to the queue is weak, because
    /// the event loop owns the queue until the loop is closed or freed.
    awaiting: Option<(Weak<LoopQueue>, Py<OpAwait>)>,
    /// The greenlet that waits for the operation.
    sleeper: Option<Sleeper>,
}

pub struct OpState {
    inner: Mutex<Inner>,
    arrived: Condvar,
    /// Set when the operation executes a prepared statement for the first time.
    execution: OnceLock<Execution>,
    ticket: Ticket,
}

impl Sending for OpState {
    fn request(&self) -> Request<'_> {
        // `OpState::execute` sets the execution before it submits the operation.
        let execution = self.execution.get().expect("an operation that executes");
        Request {
            session: execution.session.engine(),
            prepared: &execution.prepared,
            row: execution.row.get(),
            options: or_default(&execution.options),
            began: execution.began,
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

/// The interval at which a blocked call wakes to check for signals. The first wake comes one
/// interval after the call has blocked. So a request that is answered sooner causes no such wake.
const SIGNAL_POLL: Duration = Duration::from_millis(20);

impl OpState {
    pub fn new(step: Box<dyn Step>) -> Arc<OpState> {
        let op = OpState::empty();
        op.begin(Next::Again(step));
        op
    }

    /// Makes an operation without a step; [`OpState::begin`] sets the step.
    pub fn empty() -> Arc<OpState> {
        Arc::new(OpState {
            inner: Mutex::new(Inner {
                phase: Phase::Running,
                step: None,
                task: None,
                permit: None,
                awaiting: None,
                sleeper: None,
            }),
            arrived: Condvar::new(),
            execution: OnceLock::new(),
            ticket: Ticket::default(),
        })
    }

    /// Sets the first step of an empty operation, or its result.
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

    /// Runs a future on the I/O thread. Its output is the next completion.
    pub fn run(
        self: &Arc<Self>,
        runtime: &Runtime,
        future: impl Future<Output = Result<Arrival, EngineError>> + Send + 'static,
    ) {
        let sink = Sink(Some(self.clone()));
        let task = runtime.submit(async move { sink.complete(future.await) });
        self.lock().task = Some(task);
    }

    /// Keeps the request's place among the requests in flight until the answer arrives.
    pub fn hold(&self, permit: Permit) {
        self.lock().permit = Some(permit);
    }

    /// Counts the bytes of the request's values or text among the bytes in flight.
    pub fn weigh(&self, bytes: usize) {
        if let Some(permit) = &mut self.lock().permit {
            permit.weigh(bytes);
        }
    }

    /// Executes a prepared statement. The response is the next completion.
    pub fn execute(self: &Arc<Self>, execution: Execution) {
        let payload = or_default(&execution.options).payload_len();
        self.weigh(execution.row.get().byte_len() + payload);
        if self.execution.get().is_some() {
            return self.execute_again(execution);
        }
        let execution = self.execution.get_or_init(|| execution);
        execution.session.runtime().send(self.clone());
    }

    /// Executes a statement again, after its first execution in this operation has failed.
    /// `Runtime::send` needs the unused fields `execution` and `ticket`, so it works only once.
    fn execute_again(self: &Arc<Self>, execution: Execution) {
        let runtime = execution.session.runtime().clone();
        self.run(&runtime, async move {
            let Execution { session, prepared, row, options, began } = &execution;
            let request = Request {
                session: session.engine(),
                prepared,
                row: row.get(),
                options: or_default(options),
                began: *began,
            };
            Session::send(&request).await.map(Arrival::Response)
        });
    }

    pub fn execution(&self) -> Option<&Execution> {
        self.execution.get()
    }

    /// Stores a completion, and wakes the thread or the event loop that waits for it. Does not take
    /// the GIL.
    pub fn arrive(self: &Arc<Self>, arrival: Result<Arrival, EngineError>) {
        if let Some(queue) = self.note(arrival) {
            queue.push(self.clone());
        }
    }

    /// Stores a completion, and wakes a thread that waits for it. If a coroutine awaits the
    /// operation, returns the queue of its event loop, to which the caller must push the operation.
    fn note(&self, arrival: Result<Arrival, EngineError>) -> Option<Arc<LoopQueue>> {
        let mut inner = self.lock();
        match &inner.phase {
            Phase::Abandoned | Phase::Finished(_) => return None,
            // A later completion of the window of `execute_many` must not replace the outcome.
            Phase::Arrived(Ok(Arrival::Bulk(_))) => return None,
            Phase::Running | Phase::Arrived(_) => {}
        }
        let permit = match arrival {
            // The request was not sent yet, so it keeps its place.
            Ok(Arrival::Prepared(_) | Arrival::Admitted(_)) => None,
            _ => inner.permit.take(),
        };
        inner.phase = Phase::Arrived(arrival);
        let queue = inner.awaiting.as_ref().map(|(queue, _)| queue.upgrade());
        let sleeper = inner.sleeper.take();
        drop(inner);
        drop(permit);
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
        match queue {
            Some(Some(queue)) => return Some(queue),
            // The event loop is gone, and no task can receive the result.
            Some(None) => self.abandon(),
            None => self.arrived.notify_all(),
        }
        None
    }

    pub fn is_abandoned(&self) -> bool {
        matches!(self.lock().phase, Phase::Abandoned)
    }

    /// Abandons the operation, and cancels its work on the I/O thread.
    pub fn abandon(&self) {
        let mut inner = self.lock();
        if matches!(inner.phase, Phase::Finished(_)) {
            return;
        }
        inner.phase = Phase::Abandoned;
        let (task, step) = (inner.task.take(), inner.step.take());
        let (awaiting, permit) = (inner.awaiting.take(), inner.permit.take());
        let sleeper = inner.sleeper.take();
        drop(inner);
        drop((awaiting, permit));
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
        if let Some(task) = task {
            task.abort();
        }
        self.ticket.cancel();
        // A step may own further work in flight. When the step is dropped, it cancels this work.
        drop(step);
    }

    /// Makes the next completion end the wait of a greenlet. Returns false if there is nothing to
    /// wait for, because a completion has arrived already or the operation is over.
    fn wake_greenlet(&self, sleeper: Sleeper) -> bool {
        let mut inner = self.lock();
        let is_running = matches!(inner.phase, Phase::Running);
        if is_running {
            inner.sleeper = Some(sleeper);
        }
        is_running
    }

    /// Handles the completion that has arrived, if any. Returns true if the operation is finished
    /// or abandoned.
    ///
    /// One call handles one completion, so that an event loop can run other callbacks between two
    /// completions.
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
        // If the request was not sent, it still has its place. The place is released here, because
        // an exception may keep this operation alive for a long time.
        let permit = inner.permit.take();
        drop(inner);
        drop(permit);
        true
    }

    /// Takes the result out of the operation. A second call returns an error. If the operation kept
    /// an exception, the frames of its traceback would stay alive, and these frames would keep the
    /// operation alive.
    pub fn outcome(&self) -> PyResult<Py<PyAny>> {
        match std::mem::replace(&mut self.lock().phase, Phase::Abandoned) {
            Phase::Finished(result) => result,
            _ => Err(PyRuntimeError::new_err("the operation was abandoned or awaited before")),
        }
    }

    /// Handles a completion on the event loop. This is called once for each push of the operation
    /// to the queue. Returns true if the awaiting coroutine has callbacks to run.
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

    /// Sets the coroutine that awaits the operation, and the queue to which completions are pushed.
    /// If a completion has arrived already, the operation is pushed at once.
    pub fn await_by(self: &Arc<Self>, queue: &Arc<LoopQueue>, awaiting: Py<OpAwait>) {
        let mut inner = self.lock();
        let replaced = inner.awaiting.replace((Arc::downgrade(queue), awaiting));
        let arrived = matches!(inner.phase, Phase::Arrived(_));
        drop(inner);
        drop(replaced);
        if arrived {
            // No coroutine was set when the completion arrived, so it did not push the operation.
            queue.push(self.clone());
        }
    }
}

/// Receives the output of a future on the I/O thread. If this object is dropped without an output,
/// because the future panicked or the engine ended, the operation completes with an error.
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
    /// Releases the GIL, blocks until the operation has a result, and returns the result.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Runtime::release();
        loop {
            if self.0.advance(py) {
                return self.0.outcome();
            }
            if greenlets::may_run() && greenlets::wait(py, &self.0)? {
                continue;
            }
            py.detach(|| {
                let inner = self.0.lock();
                if matches!(inner.phase, Phase::Running) {
                    // After a wake or a timeout, the loop checks the operation again.
                    drop(self.0.arrived.wait_timeout(inner, SIGNAL_POLL));
                }
            });
            if let Err(interrupt) = py.check_signals() {
                self.0.abandon();
                return Err(interrupt);
            }
            if ending::must_leave() {
                self.0.abandon();
                return Err(ended(py));
            }
        }
    }

    /// Abandons the operation. It will have no result.
    fn abandon(&self) {
        self.0.abandon();
    }

    fn __await__(&self) -> OpAwait {
        OpAwait::of(self.0.clone())
    }
}
