//! The native coroutine that awaits an operation.
//!
//! An `OpAwait` has two roles. It is the coroutine that the application awaits. It is also the
//! future for which this coroutine waits, and on which the asyncio task sets its callback. So
//! neither a Python coroutine nor a separate future is made.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::exceptions::{
    PyRuntimeError, PyRuntimeWarning, PyStopIteration, PyTypeError, PyValueError,
};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::error;
use crate::ffi::send::{Sends, Sent};
use crate::op::OpState;
use crate::op::bridge::LoopQueue;
use crate::op::callbacks::{Callback, Callbacks};
use crate::op::ready::Burst;
use crate::python;
use turbocql_values::ending::Inside;

/// A call whose request is sent when its coroutine is first awaited.
pub trait Call: Send + Sync {
    /// Sends the request, and returns its operation.
    fn begin(&self, py: Python<'_>) -> PyResult<Arc<OpState>>;

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError>;
}

/// The coroutine of an operation.
#[pyclass(frozen, module = "turbocql._core")]
pub struct OpAwait {
    stage: Mutex<Stage>,
    /// Whether `__await__` of this object or of its [`Op`](crate::op::Op) was called. Before that,
    /// `__iter__` raises.
    is_awaited: AtomicBool,
}

enum Stage {
    /// The request is sent when the coroutine is first awaited.
    New(Box<dyn Call>),
    Begun(Arc<OpState>),
    /// The call is beginning. This may run Python code, so the stage is not locked meanwhile.
    Beginning,
    Waiting(Waiting),
    Ended,
}

struct Waiting {
    op: Arc<OpState>,
    event_loop: Py<PyAny>,
    /// The attribute `_asyncio_future_blocking` of asyncio's future protocol. It is true when the
    /// object is yielded. The task sets it to false when the task accepts the object as its future.
    blocking: bool,
    over: Option<Over>,
    callbacks: Callbacks,
}

enum Over {
    Done,
    /// Holds the message of the `CancelledError`, if there is one.
    Cancelled(Option<Py<PyAny>>),
}

/// If the error is a `StopIteration`, wraps it in a `RuntimeError`, because Python would take a
/// `StopIteration` from a coroutine for the coroutine's result.
fn without_stop(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyStopIteration>(py) {
        return error;
    }
    let wrapped = PyRuntimeError::new_err("the rows raised StopIteration");
    wrapped.set_cause(py, Some(error));
    wrapped
}

fn cancelled(py: Python<'_>, message: Option<Py<PyAny>>) -> PyErr {
    let class = match python::cancelled_error(py) {
        Ok(class) => class,
        Err(error) => return error,
    };
    let instance = match message {
        Some(message) => class.call1((message,)),
        None => class.call0(),
    };
    instance.map_or_else(|error| error, PyErr::from_value)
}

impl OpAwait {
    /// Makes the coroutine of a call. The call begins when the coroutine is first awaited.
    pub fn call(call: impl Call + 'static) -> OpAwait {
        OpAwait::new(Stage::New(Box::new(call)), false)
    }

    /// Makes the coroutine of an operation that is already running.
    pub fn of(op: Arc<OpState>) -> OpAwait {
        OpAwait::new(Stage::Begun(op), true)
    }

    fn new(stage: Stage, is_awaited: bool) -> OpAwait {
        OpAwait { stage: Mutex::new(stage), is_awaited: AtomicBool::new(is_awaited) }
    }

    /// Locks the stage. The lock must not be held while Python code may run.
    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called when the operation is finished. Adds the callbacks that wake tasks to `burst`, the
    /// completion batch, and schedules all other callbacks for the next round of the event loop.
    /// Returns whether there are callbacks.
    pub fn finish<'py>(this: &Bound<'py, Self>, burst: &mut Burst<'_, 'py>) -> PyResult<bool> {
        let (callbacks, event_loop) = match &mut *this.get().lock() {
            Stage::Waiting(waiting) if waiting.over.is_none() => {
                waiting.over = Some(Over::Done);
                let callbacks = std::mem::take(&mut waiting.callbacks);
                (callbacks, waiting.event_loop.clone_ref(this.py()))
            }
            _ => return Ok(false),
        };
        let event_loop = event_loop.bind(this.py());
        let mut schedule = |callback: &Callback| {
            if burst.add(this.py(), &callback.call, callback.context.as_ref()) {
                return Ok(());
            }
            // This callback is not in the batch. To keep the order of completions, the tasks in the
            // batch are scheduled before it.
            burst.schedule(this.py()).and(callback.run_soon(event_loop, this))
        };
        // If scheduling one callback fails, the other callbacks must still be scheduled.
        callbacks.iter().map(&mut schedule).fold(Ok(()), Result::and)?;
        Ok(callbacks.first.is_some())
    }

    /// Begins the operation. Returns `Ok` with the operation if it is still running, or `Err` with
    /// its result if it is finished already.
    fn begin(py: Python<'_>, stage: Stage) -> PyResult<Result<Arc<OpState>, Py<PyAny>>> {
        match stage {
            Stage::New(call) => call.begin(py).map(Ok),
            Stage::Begun(op) if op.advance(py) => op.outcome().map(Err),
            Stage::Begun(op) => Ok(Ok(op)),
            _ => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
        }
    }

    fn wait_for(this: &Bound<'_, Self>, stage: Stage) -> PyResult<Sent> {
        let py = this.py();
        let (queue, event_loop) = LoopQueue::running(py)?;
        let op = match Self::begin(py, stage)? {
            Ok(op) => op,
            Err(result) => {
                *this.get().lock() = Stage::Ended;
                return Ok(Sent::Return(result));
            }
        };
        *this.get().lock() = Stage::Waiting(Waiting {
            op: op.clone(),
            event_loop: event_loop.unbind(),
            blocking: true,
            over: None,
            callbacks: Callbacks::default(),
        });
        op.await_by(&queue, this.clone().unbind());
        // This object is also the future that the task waits for.
        Ok(Sent::Yield(this.clone().into_any().unbind()))
    }

    /// Ends the coroutine and abandons its operation. Fails while the call is beginning.
    fn give_up(&self) -> PyResult<()> {
        let mut stage = self.lock();
        if matches!(*stage, Stage::Beginning) {
            return Err(PyValueError::new_err("coroutine already executing"));
        }
        let was = std::mem::replace(&mut *stage, Stage::Ended);
        drop(stage);
        match &was {
            Stage::Begun(op) | Stage::Waiting(Waiting { op, .. }) => op.abandon(),
            _ => {}
        }
        Ok(())
    }
}

impl Sends for OpAwait {
    fn send(this: &Bound<'_, Self>) -> PyResult<Sent> {
        let py = this.py();
        let _inside = Inside::enter(py);
        let mut stage = this.get().lock();
        match &*stage {
            Stage::New(_) | Stage::Begun(_) => {
                let was = std::mem::replace(&mut *stage, Stage::Beginning);
                drop(stage);
                Self::wait_for(this, was).inspect_err(|_| *this.get().lock() = Stage::Ended)
            }
            Stage::Waiting(Waiting { over: Some(_), .. }) => {
                let was = std::mem::replace(&mut *stage, Stage::Ended);
                drop(stage);
                let Stage::Waiting(Waiting { op, over, .. }) = was else { unreachable!() };
                match over {
                    Some(Over::Cancelled(message)) => Err(cancelled(py, message)),
                    _ => op.outcome().map(Sent::Return).map_err(|error| without_stop(py, error)),
                }
            }
            Stage::Waiting(_) => Err(PyRuntimeError::new_err("coroutine is being awaited already")),
            Stage::Beginning => Err(PyValueError::new_err("coroutine already executing")),
            Stage::Ended => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
        }
    }
}

#[pymethods]
impl OpAwait {
    fn __await__(this: Py<Self>) -> Py<Self> {
        this.get().is_awaited.store(true, Ordering::Relaxed);
        this
    }

    /// Returns the iterator for `yield from`. Raises if the object was not awaited, because a `for`
    /// loop over a call of an asynchronous session is a mistake.
    fn __iter__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        if this.get().is_awaited.load(Ordering::Relaxed) {
            return Ok(this.clone());
        }
        let error = python::not_iterable(this.py())?.call1(("session.execute(...)",))?;
        Err(PyErr::from_value(error))
    }

    /// Iterates over the rows of the result. The first step awaits the result.
    fn __aiter__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        python::rows_of_awaitable(this.py())?.call1((this,))
    }

    fn __next__(this: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        match Self::send_(this)? {
            Sent::Yield(yielded) => Ok(yielded),
            Sent::Return(value) => Err(PyStopIteration::new_err((value,))),
        }
    }

    fn send(this: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if !value.is_none() && matches!(*this.get().lock(), Stage::New(_) | Stage::Begun(_)) {
            let reason = "can't send non-None value to a just-started coroutine";
            return Err(PyTypeError::new_err(reason));
        }
        Self::__next__(this)
    }

    #[pyo3(signature = (thrown, value=None, traceback=None, /))]
    fn throw(
        &self,
        thrown: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        if matches!(*self.lock(), Stage::Ended) {
            return Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine"));
        }
        let error = error::thrown(thrown, value, traceback)?;
        self.give_up()?;
        Err(error)
    }

    #[getter]
    fn __name__(&self) -> &'static str {
        "execute"
    }

    #[getter]
    fn __qualname__(&self) -> &'static str {
        "AsyncSession.execute"
    }

    fn close(&self) -> PyResult<()> {
        self.give_up()
    }

    // Through the methods below, a task uses this object as the future that the task waits for.

    /// Returns None until the object is yielded. If `_asyncio_future_blocking` of an object is not
    /// None, asyncio takes the object for a future. Before this object is yielded, asyncio must
    /// take it for a coroutine.
    #[getter(_asyncio_future_blocking)]
    fn blocking(&self) -> Option<bool> {
        match &*self.lock() {
            Stage::Waiting(waiting) => Some(waiting.blocking),
            _ => None,
        }
    }

    #[setter(_asyncio_future_blocking)]
    fn set_blocking(&self, blocking: bool) {
        if let Stage::Waiting(waiting) = &mut *self.lock() {
            waiting.blocking = blocking;
        }
    }

    /// The event loop. A task calls the method `get_loop()` of a future, or reads this attribute if
    /// there is no such method. This class has no `get_loop()`, because the attribute costs less
    /// than a method object and a call.
    #[getter]
    fn _loop(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &*self.lock() {
            Stage::Waiting(waiting) => Ok(waiting.event_loop.clone_ref(py)),
            _ => Err(PyRuntimeError::new_err("the coroutine is not waiting")),
        }
    }

    #[pyo3(signature = (callback, *, context=None))]
    fn add_done_callback(
        this: &Bound<'_, Self>,
        callback: Py<PyAny>,
        context: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let callback = Callback { call: callback, context };
        let event_loop = match &mut *this.get().lock() {
            Stage::Waiting(waiting) if waiting.over.is_none() => {
                waiting.callbacks.add(callback);
                return Ok(());
            }
            Stage::Waiting(waiting) => waiting.event_loop.clone_ref(this.py()),
            _ => return Err(PyRuntimeError::new_err("the coroutine is not waiting")),
        };
        callback.run_soon(event_loop.bind(this.py()), this)
    }

    /// Abandons the operation, and schedules the callbacks for the next round of the event loop.
    /// Returns false if there is nothing to cancel.
    #[pyo3(signature = (msg=None))]
    fn cancel(this: &Bound<'_, Self>, msg: Option<Py<PyAny>>) -> PyResult<bool> {
        let py = this.py();
        let (callbacks, op, event_loop) = match &mut *this.get().lock() {
            Stage::Waiting(waiting) if waiting.over.is_none() => {
                waiting.over = Some(Over::Cancelled(msg));
                let callbacks = std::mem::take(&mut waiting.callbacks);
                (callbacks, waiting.op.clone(), waiting.event_loop.clone_ref(py))
            }
            _ => return Ok(false),
        };
        op.abandon();
        let event_loop = event_loop.bind(py);
        // If scheduling one callback fails, the other callbacks must still be scheduled.
        let scheduled = callbacks.iter().map(|callback| callback.run_soon(event_loop, this));
        scheduled.fold(Ok(()), Result::and).map(|()| true)
    }

    /// Returns None. The task does not need the result from here, because the coroutine itself
    /// returns the result or raises the error.
    fn result(&self) {}

    /// Returns None, for the same reason as `result`.
    fn exception(&self) {}

    fn done(&self) -> bool {
        !matches!(&*self.lock(), Stage::Waiting(waiting) if waiting.over.is_none())
    }

    fn cancelled(&self) -> bool {
        let stage = self.lock();
        matches!(&*stage, Stage::Waiting(Waiting { over: Some(Over::Cancelled(_)), .. }))
    }

    /// Removes the callbacks that are the same object as `callback`, and returns their number. In
    /// contrast, asyncio's own futures remove the callbacks that are equal to `callback`.
    fn remove_done_callback(&self, callback: &Bound<'_, PyAny>) -> usize {
        let mut removed = Vec::new();
        if let Stage::Waiting(waiting) = &mut *self.lock() {
            let all = std::mem::take(&mut waiting.callbacks);
            for registered in all.first.into_iter().chain(all.further) {
                if registered.call.is(callback) {
                    removed.push(registered);
                } else {
                    waiting.callbacks.add(registered);
                }
            }
        }
        removed.len()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let stage = match self.stage.try_lock() {
            Ok(stage) => stage,
            Err(TryLockError::Poisoned(stage)) => stage.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        match &*stage {
            Stage::New(call) => call.traverse(&visit),
            Stage::Waiting(waiting) => {
                visit.call(&waiting.event_loop)?;
                waiting.callbacks.iter().try_for_each(|callback| {
                    visit.call(&callback.call)?;
                    visit.call(&callback.context)
                })
            }
            _ => Ok(()),
        }
    }

    fn __clear__(&self) {
        let was = std::mem::replace(&mut *self.lock(), Stage::Ended);
        drop(was);
    }
}

impl OpAwait {
    fn send_(this: &Bound<'_, Self>) -> PyResult<Sent> {
        <Self as Sends>::send(this)
    }
}

impl Drop for OpAwait {
    /// Warns if the coroutine of a call was never awaited, as Python's own coroutines do.
    fn drop(&mut self) {
        let stage = self.stage.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !matches!(stage, Stage::New(_)) {
            return;
        }
        Python::attach(|py| {
            let pending = PyErr::take(py);
            let category = py.get_type::<PyRuntimeWarning>();
            let warning = c"coroutine 'AsyncSession.execute' was never awaited";
            if let Err(error) = PyErr::warn(py, &category, warning, 1) {
                error.write_unraisable(py, None);
            }
            if let Some(pending) = pending {
                pending.restore(py);
            }
        });
    }
}
