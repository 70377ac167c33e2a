//! Starts and ends the I/O thread, which drives all connections.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::io::queue::Shared;

/// How long a shutdown waits for the remaining tasks to be dropped, and for blocking work (name
/// look-ups) to return.
const GRACE: Duration = Duration::from_secs(1);

/// The interval at which [`Runtime::drain`] checks whether all other work has ended.
const DRAIN_POLL: Duration = Duration::from_millis(2);

/// The I/O thread, `turbocql-io`. Every connection, timer and request lives on it. In a runtime
/// with several workers, they live on the threads `turbocql-worker` instead. Clones share the
/// threads; dropping the last clone ends them.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    thread: Mutex<Option<Thread>>,
    /// The id of the process that started the thread. The child process of a fork does not have the
    /// thread.
    process: u32,
    /// Whether the runtime is draining.
    draining: watch::Sender<bool>,
}

struct Thread {
    handle: JoinHandle<()>,
    ended: mpsc::Receiver<()>,
}

impl Runtime {
    /// Starts a runtime of `workers` threads, which share the connections, timers and requests. One
    /// thread is the fastest for most programs.
    pub fn start(workers: usize) -> std::io::Result<Runtime> {
        let several = workers > 1;
        if several {
            try_threads(workers)?;
        }
        let shared = Arc::new(Shared::new(several));
        let mut builder;
        if several {
            builder = Builder::new_multi_thread();
            builder.worker_threads(workers).thread_name("turbocql-worker");
        } else {
            builder = Builder::new_current_thread();
            let (parks, unparks) = (Arc::clone(&shared), Arc::clone(&shared));
            builder.on_thread_park(move || parks.before_park());
            builder.on_thread_unpark(move || unparks.after_unpark());
        }
        let runtime = builder.enable_all().build()?;
        let (end, ended) = mpsc::channel();
        let handle = thread::Builder::new().name("turbocql-io".into()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                runtime.block_on(Arc::clone(&shared).live());
                // A plain drop of the runtime would wait for a name look-up that never returns.
                runtime.shutdown_timeout(GRACE);
                // This breaks a cycle of references: an idle lane's waker refers to the runtime,
                // the runtime's park hooks refer to `shared`, and `shared` refers to the lanes.
                shared.end();
                drop(end);
            }
        })?;
        let thread = Mutex::new(Some(Thread { handle, ended }));
        let (process, draining) = (std::process::id(), watch::Sender::new(false));
        Ok(Runtime(Arc::new(Inner { shared, thread, process, draining })))
    }

    /// Makes a runtime without a thread, and the tokio runtime that drives it. Tokio's clock stands
    /// still while there is work. When there is none, the clock moves to the next timer, and
    /// `advanced` is called before any task runs.
    #[cfg(feature = "simulation")]
    pub fn simulated(
        advanced: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<(tokio::runtime::Runtime, Runtime)> {
        let shared = Arc::new(Shared::new(false));
        let (parks, unparks) = (Arc::clone(&shared), Arc::clone(&shared));
        let driver = Builder::new_current_thread()
            .on_thread_park(move || parks.before_park())
            .on_thread_unpark(move || {
                advanced();
                unparks.after_unpark();
            })
            .enable_time()
            .start_paused(true)
            .build()?;
        driver.spawn(Arc::clone(&shared).live());
        let (process, draining) = (std::process::id(), watch::Sender::new(false));
        let inner = Inner { shared, thread: Mutex::new(None), process, draining };
        Ok((driver, Runtime(Arc::new(inner))))
    }

    /// The state through which submitting threads reach the I/O thread.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// The number of tasks and requests that are submitted and not finished.
    pub fn in_flight(&self) -> usize {
        self.0.shared.in_flight()
    }

    /// Tells all receivers of `Runtime::draining` that the runtime is draining. Then waits until
    /// the calling task is the only one in flight, for `limit` at most. The future must run on the
    /// I/O thread.
    pub async fn drain(&self, limit: Duration) {
        self.0.draining.send_replace(true);
        let _ = tokio::time::timeout(limit, async {
            while self.in_flight() > 1 {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        })
        .await;
    }

    /// A receiver whose value becomes true when the runtime begins to drain. Work that waits for a
    /// caller, and not for a server, must end then.
    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.0.draining.subscribe()
    }

    /// Ends the thread and drops the tasks that are left on it. Waits at most 2 s for this. A
    /// second call does nothing.
    ///
    /// In a forked child process the thread does not exist, and a lock may be held for ever. There,
    /// this function only makes the runtime refuse further tasks.
    pub fn shutdown(&self) {
        self.0.shutdown();
    }
}

/// Checks that `count + 1` threads can exist at the same time. If tokio cannot make one of its
/// workers, it panics, and then waits for the other workers for ever.
fn try_threads(count: usize) -> std::io::Result<()> {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let mut threads = Vec::new();
    let mut tried = Ok(());
    for _ in 0..=count {
        let wait = Arc::clone(&wait);
        let wait = move || drop(wait.lock().map(|wait| wait.recv()));
        match thread::Builder::new().spawn(wait) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                tried = Err(error);
                break;
            }
        }
    }
    drop(go);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    tried
}

impl Inner {
    fn shutdown(&self) {
        self.shared.close();
        if std::process::id() != self.process {
            return;
        }
        self.shared.wake();
        let thread = self.thread.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let Some(Thread { handle, ended }) = thread else { return };
        if handle.thread().id() == thread::current().id() {
            // A task dropped the last clone. The thread ends by itself after that task.
            return;
        }
        // Nothing is ever sent: the thread drops the sender when it ends.
        if ended.recv_timeout(GRACE * 2) == Err(mpsc::RecvTimeoutError::Disconnected) {
            let _ = handle.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shutdown();
        if std::process::id() != self.process {
            // Dropping the handle would detach a thread that this process does not have.
            let thread = self.thread.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
            std::mem::forget(thread.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::time::Instant;

    const SOON: Duration = Duration::from_secs(5);

    /// Sends a message when it is dropped.
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
    fn submitted_tasks_run() {
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
    fn a_round_without_submissions_is_followed_by_one_more() {
        let runtime = Runtime::start(1).unwrap();
        assert!(!Runtime::end_round(), "nothing is held");
        Runtime::hold();
        assert!(Runtime::end_round());
        assert!(!Runtime::end_round(), "once");
        for first_round in [true, false] {
            Runtime::hold();
            if !first_round {
                assert!(Runtime::end_round());
            }
            let (sender, receiver) = mpsc::channel();
            runtime.submit(async move { sender.send(()).unwrap() });
            assert!(!Runtime::end_round(), "there was a submission");
            receiver.recv_timeout(SOON).unwrap();
        }
    }

    #[test]
    fn a_panic_ends_only_its_own_task() {
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
    fn shutdown_drops_unfinished_tasks_and_refuses_later_ones() {
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
    fn the_last_clone_may_be_dropped_on_the_thread_itself() {
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
