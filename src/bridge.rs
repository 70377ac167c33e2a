//! The way back to an event loop: completions come home in bursts.
//!
//! The engine's thread pushes onto a queue and wakes the loop only when the queue was empty, so
//! that many completions cost one wake. It never takes the interpreter's lock.

use std::cell::RefCell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use rustix::event::EventfdFlags;

use crate::ending::Inside;
use crate::op::OpState;
use crate::value::interned;

/// What has completed for one event loop.
pub struct LoopQueue {
    completed: Mutex<Vec<Arc<OpState>>>,
    wake: Wake,
}

enum Wake {
    /// The loop watches it.
    EventFd(OwnedFd),
    /// For loops that cannot watch a file descriptor: a thread of its own asks the loop.
    Notifier(Arc<Notifier>),
}

thread_local! {
    /// The queue of the loop that this thread ran last, with a weak reference to that loop.
    static LAST: RefCell<Option<(Py<PyAny>, Weak<LoopQueue>)>> = const { RefCell::new(None) };
}

/// Set when the environment asks for the way without an eventfd.
static FORCE_NOTIFIER: AtomicBool = AtomicBool::new(false);

/// Makes new event loops be woken by `call_soon_threadsafe` instead of an eventfd.
#[pyfunction]
pub fn force_notifier(force: bool) {
    FORCE_NOTIFIER.store(force, Ordering::Relaxed);
}

impl LoopQueue {
    /// The queue of the running event loop, and that loop.
    pub fn running(py: Python<'_>) -> PyResult<(Arc<LoopQueue>, Bound<'_, PyAny>)> {
        static GET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let event_loop = GET.import(py, "asyncio", "get_running_loop")?.call0()?;
        let last = LAST.with_borrow(|last| {
            let (reference, queue) = last.as_ref()?;
            let same = reference.bind(py).call0().is_ok_and(|last| last.is(&event_loop));
            same.then(|| queue.upgrade()).flatten()
        });
        if let Some(queue) = last {
            return Ok((queue, event_loop));
        }
        let queue = Self::of(py, &event_loop)?;
        let reference = py.import("weakref")?.getattr("ref")?.call1((&event_loop,))?.unbind();
        let replaced = LAST.replace(Some((reference, Arc::downgrade(&queue))));
        drop(replaced);
        Ok((queue, event_loop))
    }

    /// The queue of a loop, made and connected to it on first use.
    fn of(py: Python<'_>, event_loop: &Bound<'_, PyAny>) -> PyResult<Arc<LoopQueue>> {
        static QUEUES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let queues = QUEUES
            .get_or_try_init(py, || {
                let class = py.import("weakref")?.getattr("WeakKeyDictionary")?;
                Ok::<_, PyErr>(class.call0()?.unbind())
            })?
            .bind(py);
        let known = queues.call_method1("get", (event_loop,))?;
        if let Ok(known) = known.cast::<Known>()
            && let Some(queue) = known.get().queue.upgrade()
        {
            return Ok(queue);
        }
        let (drain, watched) = Self::connect(py, event_loop)?;
        let queue = drain.get().0.clone();
        let keep = if watched { None } else { Some(drain.unbind()) };
        queues.set_item(event_loop, Known { queue: Arc::downgrade(&queue), _keep: keep })?;
        Ok(queue)
    }

    /// Makes the queue of a loop, and tells whether the loop itself watches, and keeps, it.
    fn connect<'py>(
        py: Python<'py>,
        event_loop: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, Drain>, bool)> {
        if !FORCE_NOTIFIER.load(Ordering::Relaxed)
            && let Ok(fd) =
                rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        {
            let number = fd.as_raw_fd();
            let queue = LoopQueue { completed: Mutex::default(), wake: Wake::EventFd(fd) };
            let drain = Bound::new(py, Drain(Arc::new(queue)))?;
            // Loops without watchable descriptors raise NotImplementedError.
            if event_loop.call_method1("add_reader", (number, &drain)).is_ok() {
                return Ok((drain, true));
            }
        }
        let notifier = Arc::new(Notifier::default());
        let queue =
            LoopQueue { completed: Mutex::default(), wake: Wake::Notifier(notifier.clone()) };
        let drain = Bound::new(py, Drain(Arc::new(queue)))?;
        let requests = Requests { notifier, queue: Arc::downgrade(&drain.get().0) };
        interned::start_notifying(py)?.call1((event_loop, requests))?;
        Ok((drain, false))
    }

    /// Adds a completion; wakes the loop when it is the first of a burst.
    pub fn push(&self, op: Arc<OpState>) {
        let mut completed = self.completed.lock().unwrap_or_else(PoisonError::into_inner);
        let first = completed.is_empty();
        completed.push(op);
        drop(completed);
        if first {
            match &self.wake {
                // The counter cannot overflow, and a closed loop's descriptor is ours to the end.
                Wake::EventFd(fd) => drop(rustix::io::write(fd, &1u64.to_ne_bytes())),
                Wake::Notifier(notifier) => notifier.ask(),
            }
        }
    }

    fn take(&self) -> Vec<Arc<OpState>> {
        let mut completed = self.completed.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *completed)
    }

    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        if let Wake::EventFd(fd) = &self.wake {
            // Before the swap: a push after it makes the descriptor readable again.
            let _ = rustix::io::read(fd, &mut [0; 8]);
        }
        let mut failed = Ok(());
        for op in self.take() {
            // One that fails must not leave the rest of the burst waiting.
            if let Err(error) = op.resolve(py) {
                failed = Err(error);
            }
        }
        failed
    }
}

impl Drop for LoopQueue {
    /// The loop has let go: nobody will drain what still waits here.
    fn drop(&mut self) {
        self.take().iter().for_each(|op| op.abandon());
        if let Wake::Notifier(notifier) = &self.wake {
            notifier.end();
        }
    }
}

/// What is known of a loop's queue. A loop that watches the queue's descriptor keeps the queue, and
/// lets go of it when it is closed, with all that still waits in it; kept from here, the queue would
/// keep futures and by them the loop.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Known {
    queue: Weak<LoopQueue>,
    /// For loops that are woken in another way.
    _keep: Option<Py<Drain>>,
}

/// What the loop calls when it is woken.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Drain(Arc<LoopQueue>);

#[pymethods]
impl Drain {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let _inside = Inside::enter(py);
        self.0.drain(py)
    }
}

/// Asks a thread of Python's own to call `call_soon_threadsafe`.
///
/// A thread of ours may not: when the interpreter ends while that call has released it for a
/// moment, CPython ends the thread by unwinding it, which native frames do not survive.
#[derive(Default)]
struct Notifier {
    state: Mutex<NotifierState>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum NotifierState {
    #[default]
    Idle,
    Asked,
    Ended,
}

impl Notifier {
    fn set(&self, state: NotifierState) {
        let mut current = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *current != NotifierState::Ended {
            *current = state;
        }
        drop(current);
        self.changed.notify_one();
    }

    fn ask(&self) {
        self.set(NotifierState::Asked);
    }

    fn end(&self) {
        self.set(NotifierState::Ended);
    }

    /// True when asked, false at the end.
    fn next(&self) -> bool {
        let mut current = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while *current == NotifierState::Idle {
            current = self.changed.wait(current).unwrap_or_else(PoisonError::into_inner);
        }
        if *current == NotifierState::Ended {
            return false;
        }
        *current = NotifierState::Idle;
        true
    }
}

/// What the notifying thread of a queue waits on.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Requests {
    notifier: Arc<Notifier>,
    queue: Weak<LoopQueue>,
}

#[pymethods]
impl Requests {
    /// Blocks, with the interpreter released, until the loop is to be woken: what it is to call
    /// then, or None at the end.
    fn wait(&self, py: Python<'_>) -> Option<Drain> {
        py.detach(|| self.notifier.next()).then(|| self.queue.upgrade().map(Drain)).flatten()
    }

    /// The loop is closed: what it awaited is nobody's any more.
    fn forget(&self) {
        if let Some(queue) = self.queue.upgrade() {
            queue.take().iter().for_each(|op| op.abandon());
        }
    }
}
