//! Completion queues: they pass completions from the I/O thread to event loops, in batches.
//!
//! Each event loop has one queue, to which the I/O thread pushes completions. The I/O thread wakes
//! the event loop only if the queue was empty. So one wake is enough for many completions. The I/O
//! thread never takes the GIL.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};
use turbocql_engine::{Runtime, Wake};

use crate::op::OpState;
use crate::op::descriptor::Descriptor;
use crate::op::ready::{Burst, ReadyQueue, call_release_soon};
use crate::python;
use turbocql_values::ending::Inside;

/// The maximum size of a completion batch. Tasks of at most this many operations are woken in one
/// round of an event loop. The rest of the queue is left for the following rounds. Larger batches
/// would need fewer rounds, but they would be slower, for two reasons. First, each time that
/// `asyncio.Semaphore` of CPython 3.11 wakes a task, it walks over all tasks that it has woken
/// before. Second, the memory that the tasks use exceeds the processor's nearest caches.
const MAX_WOKEN: usize = 64;

/// The completion queue of an event loop.
pub struct LoopQueue {
    completed: Mutex<Vec<Arc<OpState>>>,
    waker: Waker,
    /// The quick path that wakes tasks, or `None` if the event loop does not support it.
    ready_queue: Option<ReadyQueue>,
}

/// How the I/O thread wakes the event loop.
enum Waker {
    /// The event loop watches the file descriptor.
    Descriptor(Descriptor),
    /// A separate thread wakes the event loop. It is used if the event loop cannot watch a file
    /// descriptor.
    Notifier(Arc<Notifier>),
}

thread_local! {
    /// The event loop that this thread ran last, and its queue. Both references are weak.
    static LAST: RefCell<Option<(Py<PyWeakrefReference>, Weak<LoopQueue>)>> =
        const { RefCell::new(None) };
}

/// Returns the running event loop of this thread.
pub fn event_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static GET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    GET.import(py, "asyncio", "get_running_loop")?.call0()
}

impl LoopQueue {
    /// Returns the queue of the running event loop, and the event loop.
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

    /// Returns the queue of the event loop that this thread ran last, and the event loop, if both
    /// are alive.
    fn last(py: Python<'_>) -> Option<(Arc<LoopQueue>, Bound<'_, PyAny>)> {
        let (reference, queue) = LAST.with_borrow(|last| {
            let (reference, queue) = last.as_ref()?;
            Some((reference.clone_ref(py), queue.clone()))
        })?;
        // If the event loop is gone, the last reference to the queue may be dropped here. This may
        // run Python code, so `LAST` must not be borrowed at this point.
        let queue = queue.upgrade()?;
        Some((queue, reference.bind(py).upgrade()?))
    }

    /// Returns the queue of an event loop. On first use, makes the queue and connects it to the
    /// loop.
    fn of(py: Python<'_>, event_loop: &Bound<'_, PyAny>) -> PyResult<Arc<LoopQueue>> {
        static QUEUES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let queues = QUEUES
            .get_or_try_init(py, || {
                let class = py.import("weakref")?.getattr("WeakKeyDictionary")?;
                Ok::<_, PyErr>(class.call0()?.unbind())
            })?
            .bind(py);
        let entry = queues.call_method1("get", (event_loop,))?;
        if let Ok(entry) = entry.cast::<Known>()
            && let Some(queue) = entry.get().queue.upgrade()
        {
            return Ok(queue);
        }
        let (drain, watched) = Self::connect(py, event_loop)?;
        let queue = drain.get().0.clone();
        let keep = if watched { None } else { Some(drain.unbind()) };
        queues.set_item(event_loop, Known { queue: Arc::downgrade(&queue), _keep: keep })?;
        Ok(queue)
    }

    /// Makes the queue of an event loop, and connects the queue to the loop. Returns true if the
    /// loop watches the queue's file descriptor, and so keeps the queue alive.
    fn connect<'py>(
        py: Python<'py>,
        event_loop: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, Drain>, bool)> {
        if let Ok(descriptor) = Descriptor::new() {
            let number = descriptor.fileno();
            let queue = LoopQueue {
                completed: Mutex::default(),
                waker: Waker::Descriptor(descriptor),
                ready_queue: ReadyQueue::of(event_loop),
            };
            let drain = Bound::new(py, Drain(Arc::new(queue)))?;
            // Event loops that cannot watch a file descriptor raise NotImplementedError.
            if event_loop.call_method1("add_reader", (number, &drain)).is_ok() {
                return Ok((drain, true));
            }
        }
        let notifier = Arc::new(Notifier::default());
        let queue = LoopQueue {
            completed: Mutex::default(),
            waker: Waker::Notifier(notifier.clone()),
            ready_queue: ReadyQueue::of(event_loop),
        };
        let drain = Bound::new(py, Drain(Arc::new(queue)))?;
        let requests = Requests { notifier, queue: Arc::downgrade(&drain.get().0) };
        python::start_notifying(py)?.call1((event_loop, requests))?;
        Ok((drain, false))
    }

    /// Adds an operation that has a completion. Wakes the event loop if the queue was empty.
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

    /// Handles a batch of completions. The tasks that await the operations are woken in the next
    /// round of the event loop.
    ///
    /// Tasks do not run within this function, because a task must not have native frames below it
    /// on the stack. If the task runs a nested event loop, this loop can fail with such frames
    /// below it. At exit, the interpreter would also wait until the task returns to these frames,
    /// and a task may run for any length of time.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        if let Waker::Descriptor(descriptor) = &self.waker {
            // The descriptor is read before the queue is emptied, so a push to the emptied queue
            // makes the descriptor readable again. In the other order, the read could consume the
            // wake of such a push.
            descriptor.clear();
        }
        let mut burst = self.take().into_iter();
        let mut failed = Ok(());
        let (mut woken, mut tasks) = (0_usize, Burst::new(self.ready_queue.as_ref()));
        while let Some(op) = burst.next() {
            if woken == MAX_WOKEN {
                self.put_back(std::iter::once(op).chain(burst));
                break;
            }
            match op.resolve(py, &mut tasks) {
                Ok(wakes_tasks) => woken += usize::from(wakes_tasks),
                // After an error of one operation, the rest of the batch must still be handled.
                Err(error) => {
                    let interrupt = !error.is_instance_of::<PyException>(py);
                    failed = Err(error);
                    if interrupt {
                        // After an exception such as KeyboardInterrupt, the rest of the batch is
                        // handled only if the event loop runs again.
                        self.put_back(burst);
                        break;
                    }
                }
            }
        }
        let failed = failed.and(tasks.schedule(py));
        if woken > 1 {
            // The requests that these tasks make are held back and flushed together, after all
            // these tasks have run.
            call_release_soon(py)?;
            Runtime::hold();
        }
        failed
    }

    /// Puts operations back at the front of the queue, and wakes the event loop.
    fn put_back(&self, operations: impl Iterator<Item = Arc<OpState>>) {
        let mut completed = self.completed();
        let later = std::mem::take(&mut *completed);
        completed.extend(operations.chain(later));
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
            // The queue owns the descriptor, so it is valid even after the event loop was closed.
            Waker::Descriptor(descriptor) => descriptor.wake(),
            Waker::Notifier(notifier) => notifier.ask(),
        }
    }
}

impl Drop for LoopQueue {
    /// Abandons the operations that are still in the queue. Their completions will not be handled,
    /// because the event loop has released the queue.
    fn drop(&mut self) {
        self.take().iter().for_each(|op| op.abandon());
        if let Waker::Notifier(notifier) = &self.waker {
            notifier.end();
        }
    }
}

/// The entry of an event loop in the table of queues. An event loop that watches the queue's file
/// descriptor keeps the queue alive. When the loop is closed, it releases the queue with the
/// operations in it. The reference to the queue here is weak. If it were strong, the queue would
/// keep coroutines alive, the coroutines would keep the event loop alive, and the entry would never
/// be removed.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Known {
    queue: Weak<LoopQueue>,
    /// Keeps the queue alive if a separate thread wakes the event loop.
    _keep: Option<Py<Drain>>,
}

/// The callback that handles a completion batch. A woken event loop calls it.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Drain(Arc<LoopQueue>);

#[pymethods]
impl Drain {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let _inside = Inside::enter(py);
        self.0.drain(py)
    }
}

/// Wakes an event loop through a separate thread, which calls `call_soon_threadsafe`. Python code
/// has started this thread.
///
/// A native thread must not call `call_soon_threadsafe`. If the interpreter ends while this call
/// has released the GIL, CPython ends the thread by unwinding its stack. Unwinding through native
/// frames of Rust would abort the process.
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

    /// Blocks until the event loop must be woken, and returns true. Returns false once the queue
    /// is gone.
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

/// The requests to wake an event loop. The thread that wakes the loop waits for these requests.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Requests {
    notifier: Arc<Notifier>,
    queue: Weak<LoopQueue>,
}

#[pymethods]
impl Requests {
    /// Blocks, with the GIL released, until the event loop must be woken. Returns the callback for
    /// the loop, or None once the queue is gone.
    fn wait(&self, py: Python<'_>) -> Option<Drain> {
        py.detach(|| self.notifier.next()).then(|| self.queue.upgrade().map(Drain)).flatten()
    }

    /// Called when the event loop is closed. Abandons the operations in the queue, because no task
    /// can receive their results any more.
    fn forget(&self) {
        if let Some(queue) = self.queue.upgrade() {
            queue.take().iter().for_each(|op| op.abandon());
        }
    }
}
