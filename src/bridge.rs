//! The way back to an event loop: completions come home in bursts.
//!
//! The engine's thread pushes onto a queue and wakes the loop only when the queue was empty, so
//! that many completions cost one wake. It never takes the interpreter's lock.

use std::cell::RefCell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};
use rustix::event::EventfdFlags;
use turbocql_engine::{Runtime, Wake};

use crate::op::OpState;
use crate::ready::{Burst, Fast, call_release_soon};
use turbocql_values::ending::Inside;
use turbocql_values::value::interned;

/// How many are told in one round of a loop; the rest has the rounds after it. A larger burst of
/// tasks costs more than its rounds: `asyncio.Semaphore` of CPython 3.11 passes over all that it
/// woke for each that it wakes, and what the tasks touch outgrows the processor's nearest caches.
const MOST_TOLD: usize = 64;

/// What has completed for one event loop.
pub struct LoopQueue {
    completed: Mutex<Vec<Arc<OpState>>>,
    waker: Waker,
    /// How its tasks are told, where there is a way of ours.
    fast: Option<Fast>,
}

/// How the loop is woken.
enum Waker {
    /// The loop watches it.
    EventFd(OwnedFd),
    /// For loops that cannot watch a file descriptor: a thread of its own asks the loop.
    Notifier(Arc<Notifier>),
}

thread_local! {
    /// The queue of the loop that this thread ran last, with a weak reference to that loop.
    static LAST: RefCell<Option<(Py<PyWeakrefReference>, Weak<LoopQueue>)>> =
        const { RefCell::new(None) };
}

/// The event loop that runs.
pub fn event_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static GET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    GET.import(py, "asyncio", "get_running_loop")?.call0()
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
        let event_loop = event_loop(py)?;
        if let Some((queue, last)) = Self::last(py)
            && last.is(&event_loop)
        {
            return Ok((queue, event_loop));
        }
        let queue = Self::of(py, &event_loop)?;
        let reference = PyWeakrefReference::new(&event_loop)?.unbind();
        let replaced = LAST.replace(Some((reference, Arc::downgrade(&queue))));
        drop(replaced);
        Ok((queue, event_loop))
    }

    /// The loop that this thread ran last and its queue, if they are still there.
    fn last(py: Python<'_>) -> Option<(Arc<LoopQueue>, Bound<'_, PyAny>)> {
        LAST.with_borrow(|last| {
            let (reference, queue) = last.as_ref()?;
            Some((queue.upgrade()?, reference.bind(py).upgrade()?))
        })
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
            let queue = LoopQueue {
                completed: Mutex::default(),
                waker: Waker::EventFd(fd),
                fast: Fast::of(event_loop),
            };
            let drain = Bound::new(py, Drain(Arc::new(queue)))?;
            // Loops without watchable descriptors raise NotImplementedError.
            if event_loop.call_method1("add_reader", (number, &drain)).is_ok() {
                return Ok((drain, true));
            }
        }
        let notifier = Arc::new(Notifier::default());
        let queue = LoopQueue {
            completed: Mutex::default(),
            waker: Waker::Notifier(notifier.clone()),
            fast: Fast::of(event_loop),
        };
        let drain = Bound::new(py, Drain(Arc::new(queue)))?;
        let requests = Requests { notifier, queue: Arc::downgrade(&drain.get().0) };
        interned::start_notifying(py)?.call1((event_loop, requests))?;
        Ok((drain, false))
    }

    /// Adds a completion; has the loop woken when it is the first of a burst.
    pub fn push(self: &Arc<Self>, op: Arc<OpState>) {
        let mut completed = self.completed();
        let first = completed.is_empty();
        completed.push(op);
        drop(completed);
        if first {
            turbocql_engine::wake_soon(self.clone());
        }
    }

    fn completed(&self) -> MutexGuard<'_, Vec<Arc<OpState>>> {
        self.completed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<Arc<OpState>> {
        std::mem::take(&mut *self.completed())
    }

    /// Works on what has completed: whoever awaits it runs on in the loop's next round. Not here: a
    /// task may run for as long as it likes, may run a loop of its own, and may be what the
    /// interpreter waits for when it ends, none of which native frames below it should see.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        if let Waker::EventFd(fd) = &self.waker {
            // Before the swap: a push after it makes the descriptor readable again.
            let _ = rustix::io::read(fd, &mut [0; 8]);
        }
        let mut burst = self.take().into_iter();
        let mut failed = Ok(());
        let (mut told, mut tasks) = (0_usize, Burst::new(self.fast.as_ref()));
        while let Some(op) = burst.next() {
            if told == MOST_TOLD {
                self.put_back(std::iter::once(op).chain(burst));
                break;
            }
            match op.resolve(py, &mut tasks) {
                Ok(somebody) => told += usize::from(somebody),
                // One that fails must not leave the rest of the burst waiting.
                Err(error) => {
                    let interrupt = !error.is_instance_of::<PyException>(py);
                    failed = Err(error);
                    if interrupt {
                        // The rest has its turn when the loop runs again, if it does.
                        self.put_back(burst);
                        break;
                    }
                }
            }
        }
        let failed = failed.and(tasks.tell(py));
        if told > 1 {
            // What they send goes out together, when all have run.
            call_release_soon(py)?;
            Runtime::hold();
        }
        failed
    }

    fn put_back(&self, rest: impl Iterator<Item = Arc<OpState>>) {
        let mut completed = self.completed();
        let later = std::mem::take(&mut *completed);
        completed.extend(rest.chain(later));
        let any = !completed.is_empty();
        drop(completed);
        if any {
            self.wake();
        }
    }
}

impl Wake for LoopQueue {
    fn wake(&self) {
        match &self.waker {
            // The counter cannot overflow, and a closed loop's descriptor is ours to the end.
            Waker::EventFd(fd) => drop(rustix::io::write(fd, &1u64.to_ne_bytes())),
            Waker::Notifier(notifier) => notifier.ask(),
        }
    }
}

impl Drop for LoopQueue {
    /// The loop has let go: nobody will drain what still waits here.
    fn drop(&mut self) {
        self.take().iter().for_each(|op| op.abandon());
        if let Waker::Notifier(notifier) = &self.waker {
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
