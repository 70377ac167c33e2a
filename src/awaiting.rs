//! A coroutine of our own: what is awaited when an operation is.
//!
//! To whoever drives it, it is a coroutine; to the task below, the future that the coroutine waits
//! for. One object instead of the four that Python would make of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::exceptions::{
    PyRuntimeError, PyRuntimeWarning, PyStopIteration, PyTypeError, PyValueError,
};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTraceback};

use crate::bridge::LoopQueue;
use crate::classes::call::Call;
use crate::ffi::send::{Sends, Sent};
use crate::op::OpState;
use crate::ready::Burst;
use turbocql_values::ending::Inside;
use turbocql_values::value::interned;

/// An operation that is awaited, or is going to be.
#[pyclass(frozen, module = "turbocql._core")]
pub struct OpAwait(Mutex<Stage>);

enum Stage {
    /// Nothing has been done yet: it is when first awaited.
    New(Box<Call>),
    Begun(Arc<OpState>),
    /// A call is being begun.
    Beginning,
    Waiting(Waiting),
    Ended,
}

struct Waiting {
    op: Arc<OpState>,
    event_loop: Py<PyAny>,
    /// Of asyncio's protocol of futures: set while we are yielded and nobody has taken notice.
    blocking: bool,
    over: Option<Over>,
    callbacks: Callbacks,
}

enum Over {
    Done,
    /// With the message for the exception.
    Cancelled(Option<Py<PyAny>>),
}

/// Whom to tell that it is over, and in which context. Most of the time there is one.
#[derive(Default)]
struct Callbacks {
    first: Option<Callback>,
    others: Vec<Callback>,
}

struct Callback {
    call: Py<PyAny>,
    context: Option<Py<PyAny>>,
}

impl Callbacks {
    fn add(&mut self, callback: Callback) {
        match self.first {
            None => self.first = Some(callback),
            Some(_) => self.others.push(callback),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Callback> {
        self.first.iter().chain(&self.others)
    }
}

impl Callback {
    /// On the loop's next round.
    fn run_soon(
        &self,
        event_loop: &Bound<'_, PyAny>,
        awaiting: &Bound<'_, OpAwait>,
    ) -> PyResult<()> {
        let py = awaiting.py();
        let options = PyDict::new(py);
        options.set_item(pyo3::intern!(py, "context"), &self.context)?;
        let arguments = (&self.call, awaiting);
        event_loop.call_method(pyo3::intern!(py, "call_soon"), arguments, Some(&options))?;
        Ok(())
    }
}

/// A coroutine cannot raise a `StopIteration`: that would be its result.
fn without_stop(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyStopIteration>(py) {
        return error;
    }
    let wrapped = PyRuntimeError::new_err("the rows raised StopIteration");
    wrapped.set_cause(py, Some(error));
    wrapped
}

fn cancelled(py: Python<'_>, message: Option<Py<PyAny>>) -> PyErr {
    let class = match interned::cancelled_error(py) {
        Ok(class) => class,
        Err(error) => return error,
    };
    let made = match message {
        Some(message) => class.call1((message,)),
        None => class.call0(),
    };
    made.map_or_else(|error| error, PyErr::from_value)
}

impl OpAwait {
    /// A call that is to be made when this is awaited.
    pub fn call(call: Call) -> OpAwait {
        OpAwait(Mutex::new(Stage::New(Box::new(call))))
    }

    pub fn of(op: Arc<OpState>) -> OpAwait {
        OpAwait(Mutex::new(Stage::Begun(op)))
    }

    /// Never held while Python code may run.
    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The operation is finished: whoever waits runs on, on the loop's next round; tasks with the
    /// burst. True when somebody does.
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
        let mut tell = |callback: &Callback| {
            if burst.add(this.py(), &callback.call, callback.context.as_ref()) {
                return Ok(());
            }
            // Behind those that came before it.
            burst.tell(this.py()).and(callback.run_soon(event_loop, this))
        };
        // All of them, whatever becomes of one.
        callbacks.iter().map(&mut tell).fold(Ok(()), Result::and)?;
        Ok(callbacks.first.is_some())
    }

    /// The operation, begun, or its result.
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
        Ok(Sent::Yield)
    }

    /// Ends it, whatever it was doing.
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
        this
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(this: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        match Self::send_(this)? {
            Sent::Yield => Ok(this.clone().into_any().unbind()),
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
        let error = match value {
            Some(value) if value.is_instance(thrown).unwrap_or(false) => value.clone(),
            Some(value) => thrown.call1((value,))?,
            None => thrown.clone(),
        };
        let error = PyErr::from_value(error);
        if let Some(traceback) = traceback {
            error.set_traceback(thrown.py(), Some(traceback.cast::<PyTraceback>()?.clone()));
        }
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

    // What a task asks of a future that it is to wait for.

    /// None as long as this is a coroutine only: it must not be taken for a future.
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

    /// A task asks for `get_loop()` first, which would take a method and a call.
    #[getter]
    fn _loop(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &*self.lock() {
            Stage::Waiting(waiting) => Ok(waiting.event_loop.clone_ref(py)),
            _ => Err(PyRuntimeError::new_err("nothing waits for this")),
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
            _ => return Err(PyRuntimeError::new_err("nothing waits for this")),
        };
        callback.run_soon(event_loop.bind(this.py()), this)
    }

    /// Gives the operation up, and has whoever waits told so on the loop's next round.
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
        callbacks.iter().try_for_each(|callback| callback.run_soon(event_loop, this))?;
        Ok(true)
    }

    /// Nothing: what came of it is for the coroutine to say.
    fn result(&self) {}

    /// Nothing either.
    fn exception(&self) {}

    fn done(&self) -> bool {
        !matches!(&*self.lock(), Stage::Waiting(waiting) if waiting.over.is_none())
    }

    fn cancelled(&self) -> bool {
        let stage = self.lock();
        matches!(&*stage, Stage::Waiting(Waiting { over: Some(Over::Cancelled(_)), .. }))
    }

    /// Python's own compare callbacks by what they are equal to; here an identical one goes.
    fn remove_done_callback(&self, callback: &Bound<'_, PyAny>) -> usize {
        let mut removed = Vec::new();
        if let Stage::Waiting(waiting) = &mut *self.lock() {
            let all = std::mem::take(&mut waiting.callbacks);
            for known in all.first.into_iter().chain(all.others) {
                if known.call.is(callback) {
                    removed.push(known);
                } else {
                    waiting.callbacks.add(known);
                }
            }
        }
        removed.len()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let stage = match self.0.try_lock() {
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
    /// Says so when it was never awaited, as coroutines do.
    fn drop(&mut self) {
        let stage = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !matches!(stage, Stage::New(_)) {
            return;
        }
        Python::attach(|py| {
            let pending = PyErr::take(py);
            let category = py.get_type::<PyRuntimeWarning>();
            let said = c"coroutine 'AsyncSession.execute' was never awaited";
            if let Err(error) = PyErr::warn(py, &category, said, 1) {
                error.write_unraisable(py, None);
            }
            if let Some(pending) = pending {
                pending.restore(py);
            }
        });
    }
}
