//! The thread that drives all connections.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures::future::{AbortHandle, abortable};
use tokio::runtime::Builder;
use tokio::sync::Notify;

/// How long the thread gets to drop what is left, and blocking work (name look-ups) to return.
const GRACE: Duration = Duration::from_secs(1);

/// How often a drain looks whether everything has ended.
const DRAIN_POLL: Duration = Duration::from_millis(2);

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One thread, `turbocql-io`, on which every connection, timer and request lives; more threads
/// beside it when asked for. Clones share it; the last one to go ends it.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    thread: Mutex<Option<Thread>>,
    /// The process that has the thread: after a fork, the child has none.
    process: u32,
}

struct Thread {
    handle: JoinHandle<()>,
    ended: mpsc::Receiver<()>,
}

struct Shared {
    /// Submitted and not yet begun.
    queue: Mutex<Vec<Task>>,
    /// Rung when the queue stops being empty: one wake of the thread per burst.
    bell: Notify,
    closed: AtomicBool,
    in_flight: AtomicUsize,
}

/// Stops a submitted task.
pub struct TaskHandle(AbortHandle);

impl TaskHandle {
    /// Drops the future as soon as the I/O thread gets to it; no effect once it has finished.
    pub fn abort(&self) {
        self.0.abort();
    }
}

impl Runtime {
    /// `workers` threads share the load; one is the fastest for most programs.
    pub fn start(workers: usize) -> std::io::Result<Runtime> {
        let mut builder = match workers {
            0 | 1 => Builder::new_current_thread(),
            _ => {
                let mut builder = Builder::new_multi_thread();
                builder.worker_threads(workers).thread_name("turbocql-worker");
                builder
            }
        };
        let runtime = builder.enable_all().build()?;
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            bell: Notify::new(),
            closed: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
        });
        let (end, ended) = mpsc::channel();
        let handle = thread::Builder::new().name("turbocql-io".into()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                runtime.block_on(shared.serve());
                // Not a plain drop: that would wait for a name look-up that never returns.
                runtime.shutdown_timeout(GRACE);
                drop(end);
            }
        })?;
        let thread = Mutex::new(Some(Thread { handle, ended }));
        Ok(Runtime(Arc::new(Inner { shared, thread, process: std::process::id() })))
    }

    /// Starts `future` on the I/O thread. Once the runtime is shut down, the future is dropped at
    /// once, unpolled.
    ///
    /// When it panics, it is dropped and nothing else suffers: whoever waits for it must take
    /// notice of its sink being dropped.
    pub fn submit(&self, future: impl Future<Output = ()> + Send + 'static) -> TaskHandle {
        let shared = &self.0.shared;
        let (future, abort) = abortable(future);
        let counted = InFlight::begin(shared);
        let task: Task = Box::pin(async move {
            // Aborted or done: either way the future is gone before it stops counting.
            let _ = future.await;
            drop(counted);
        });
        if !shared.closed.load(Ordering::Acquire) {
            let mut queue = shared.queue();
            // Again, under the lock: the thread empties the queue for good after closing it.
            if !shared.closed.load(Ordering::Acquire) {
                let was_empty = queue.is_empty();
                queue.push(task);
                drop(queue);
                if was_empty {
                    shared.bell.notify_one();
                }
            }
        }
        TaskHandle(abort)
    }

    /// Tasks submitted and not finished.
    pub fn in_flight(&self) -> usize {
        self.0.shared.in_flight.load(Ordering::Acquire)
    }

    /// Waits on the I/O thread until the task that calls it is the only one left, `limit` at most.
    pub async fn drain(&self, limit: Duration) {
        let _ = tokio::time::timeout(limit, async {
            while self.in_flight() > 1 {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        })
        .await;
    }

    /// Ends the thread and drops what is left on it. Waits for that a few seconds at most; does
    /// nothing the second time.
    ///
    /// In a forked child there is no thread to end and a lock may be held for ever: there this
    /// only refuses further tasks.
    pub fn shutdown(&self) {
        self.0.shutdown();
    }
}

impl Inner {
    fn shutdown(&self) {
        self.shared.closed.store(true, Ordering::Release);
        if std::process::id() != self.process {
            return;
        }
        self.shared.bell.notify_one();
        let thread = self.thread.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let Some(Thread { handle, ended }) = thread else { return };
        if handle.thread().id() == thread::current().id() {
            // The last clone was dropped by a task: the thread ends after it, by itself.
            return;
        }
        // The sender is dropped when the thread is through: nothing is ever received.
        if ended.recv_timeout(GRACE * 2) == Err(mpsc::RecvTimeoutError::Disconnected) {
            let _ = handle.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shutdown();
        if std::process::id() != self.process {
            // Detaching a thread that this process does not have is better not tried.
            let thread = self.thread.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
            std::mem::forget(thread.take());
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Vec<Task>> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Begins what is submitted until the runtime is closed.
    async fn serve(&self) {
        let mut burst = Vec::new();
        while !self.closed.load(Ordering::Acquire) {
            self.bell.notified().await;
            std::mem::swap(&mut *self.queue(), &mut burst);
            for task in burst.drain(..) {
                // A panic stays within the task.
                tokio::spawn(task);
            }
        }
        let never_begun = std::mem::take(&mut *self.queue());
        drop(never_begun);
    }
}

/// Counts a task for as long as it lives, however it ends.
struct InFlight(Arc<Shared>);

impl InFlight {
    fn begin(shared: &Arc<Shared>) -> InFlight {
        shared.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlight(Arc::clone(shared))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::time::Instant;

    const SOON: Duration = Duration::from_secs(5);

    /// Sends when dropped, as a completion sink would.
    struct Sink(mpsc::Sender<&'static str>);

    impl Drop for Sink {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }

    fn settles(runtime: &Runtime) -> bool {
        let began = Instant::now();
        while runtime.in_flight() > 0 && began.elapsed() < SOON {
            thread::yield_now();
        }
        runtime.in_flight() == 0
    }

    #[test]
    fn runs_what_is_submitted() {
        for workers in [1, 2] {
            let runtime = Runtime::start(workers).unwrap();
            let (sender, receiver) = mpsc::channel();
            for i in 0..1000 {
                let sender = sender.clone();
                runtime.submit(async move {
                    tokio::task::yield_now().await;
                    sender.send(i).unwrap();
                });
            }
            let mut seen: Vec<i32> = receiver.iter().take(1000).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..1000).collect::<Vec<_>>());
            assert!(settles(&runtime));
        }
    }

    #[test]
    fn an_aborted_future_is_dropped() {
        let runtime = Runtime::start(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        let sink = Sink(sender);
        let task = runtime.submit(async move {
            let _sink = sink;
            pending::<()>().await;
        });
        assert_eq!(runtime.in_flight(), 1);
        task.abort();
        assert_eq!(receiver.recv_timeout(SOON), Ok("dropped"));
        assert!(settles(&runtime));
    }

    #[test]
    fn a_panic_costs_one_task_only() {
        let runtime = Runtime::start(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        let sink = Sink(sender.clone());
        runtime.submit(async move {
            let _sink = sink;
            panic!("on purpose");
        });
        assert_eq!(receiver.recv_timeout(SOON), Ok("dropped"));
        runtime.submit(async move { sender.send("alive").unwrap() });
        assert_eq!(receiver.recv_timeout(SOON), Ok("alive"));
        assert!(settles(&runtime));
    }

    #[test]
    fn shutdown_drops_what_is_left_and_refuses_the_rest() {
        let runtime = Runtime::start(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        let (left, late) = (Sink(sender.clone()), Sink(sender));
        runtime.submit(async move {
            let _sink = left;
            pending::<()>().await;
        });
        runtime.shutdown();
        assert_eq!(receiver.recv_timeout(SOON), Ok("dropped"));
        runtime.shutdown();
        runtime.submit(async move {
            let _sink = late;
        });
        assert_eq!(receiver.try_recv(), Ok("dropped"));
        assert_eq!(runtime.in_flight(), 0);
    }

    #[test]
    fn shutdown_does_not_wait_for_a_task_that_never_yields() {
        let runtime = Runtime::start(1).unwrap();
        let (sender, receiver) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        runtime.submit(async move {
            begun.send(()).unwrap();
            let _ = receiver.recv();
        });
        begins.recv_timeout(SOON).unwrap();
        let began = Instant::now();
        runtime.shutdown();
        assert!(began.elapsed() < GRACE * 5);
        drop(sender);
    }

    #[test]
    fn the_last_clone_may_go_on_the_thread_itself() {
        let runtime = Runtime::start(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        let clone = runtime.clone();
        let (gone, is_gone) = mpsc::channel::<()>();
        runtime.submit(async move {
            let _ = is_gone.recv();
            drop(clone);
            sender.send(()).unwrap();
        });
        drop(runtime);
        gone.send(()).unwrap();
        receiver.recv_timeout(SOON).unwrap();
    }
}
