//! The I/O thread, which drives all connections.

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use futures::future::{AbortHandle, abortable};
use tokio::runtime::Builder;
use tokio::sync::Notify;

use crate::lanes::{Job, Lanes, Sending};

/// How long a shutdown waits for the remaining tasks to be dropped, and for blocking work (name
/// look-ups) to return.
const GRACE: Duration = Duration::from_secs(1);

/// The interval at which [`Runtime::drain`] checks whether everything has ended.
const DRAIN_POLL: Duration = Duration::from_millis(2);

enum Work {
    Task(Pin<Box<dyn Future<Output = ()> + Send>>),
    Request(Job),
}

/// The I/O thread, `turbocql-io`. Every connection, timer and request lives on it. A runtime with
/// several workers runs them on the threads `turbocql-worker` instead. Clones share the threads;
/// dropping the last clone ends them.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    thread: Mutex<Option<Thread>>,
    /// The id of the process that has the thread. After a fork, the child process does not have it.
    process: u32,
}

struct Thread {
    handle: JoinHandle<()>,
    ended: mpsc::Receiver<()>,
}

struct Shared {
    /// Work that is submitted and not yet begun.
    queue: Mutex<Vec<Work>>,
    lanes: Lanes,
    /// Whether the queue has entries. It is read without locking the queue.
    waiting: AtomicBool,
    /// Notified when the queue must be checked: one wake of the thread per burst.
    bell: Notify,
    /// Whether the thread must be woken to check the queue. While the thread works, it checks the
    /// queue by itself. With several threads, this is always true.
    asleep: AtomicBool,
    several: bool,
    closed: AtomicBool,
    in_flight: AtomicUsize,
    /// Until when submissions may be held back, in nanoseconds since `began`. 0 if they may not be.
    hold_until: AtomicU64,
    began: Instant,
}

/// Wakes a consumer of completions outside this crate, such as an event loop. One wake stands for
/// any number of completions.
pub trait Wake: Send + Sync {
    fn wake(&self);
}

thread_local! {
    /// The wakes that the I/O thread makes at the end of the current burst. Set only on the thread
    /// of a runtime that has one thread.
    static NEWS: RefCell<Option<Arc<News>>> = const { RefCell::new(None) };
}

/// The wakes that are collected during a burst.
#[derive(Default)]
struct News {
    of: Mutex<Vec<Arc<dyn Wake>>>,
    bell: Notify,
}

impl News {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<dyn Wake>>> {
        self.of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Makes the wakes. Runs last in tokio's ready queue, so that one socket read causes one wake.
    ///
    /// [`LOOK`] later, it checks the queue once for submissions that another thread has held back
    /// and not released.
    async fn spread(self: Arc<Self>, shared: Arc<Shared>) {
        let mut whom = Vec::new();
        let mut look = pin!(tokio::time::sleep(Duration::ZERO));
        let mut armed = false;
        loop {
            tokio::select! {
                biased;
                () = self.bell.notified() => {
                    std::mem::swap(&mut *self.lock(), &mut whom);
                    shared.begin_hold();
                    for one in whom.drain(..) {
                        one.wake();
                    }
                    if !armed {
                        armed = true;
                        look.as_mut().reset(tokio::time::Instant::now() + LOOK);
                    }
                }
                () = &mut look, if armed => {
                    // More answers may have been handed over since, and submissions held back after
                    // them: then check again, `LOOK` later.
                    armed = shared.may_hold();
                    if armed {
                        look.as_mut().reset(tokio::time::Instant::now() + LOOK);
                    } else {
                        shared.look();
                    }
                }
            }
        }
    }
}

/// Calls `whom.wake()`. On the I/O thread of a runtime that has one thread, it does this at the end
/// of the burst, because more completions may follow. On any other thread it does this at once.
pub fn wake_soon(whom: Arc<dyn Wake>) {
    let now = NEWS.with_borrow(|news| {
        let Some(news) = news else { return Some(whom) };
        news.lock().push(whom);
        news.bell.notify_one();
        None
    });
    if let Some(whom) = now {
        whom.wake();
    }
}

/// Aborts a submitted task.
pub struct TaskHandle(AbortHandle);

impl TaskHandle {
    /// Makes the I/O thread drop the future when it next runs the task. Has no effect on a finished
    /// task.
    pub fn abort(&self) {
        self.0.abort();
    }
}

impl Runtime {
    /// Starts a runtime whose load `workers` threads share. One is the fastest for most programs.
    pub fn start(workers: usize) -> std::io::Result<Runtime> {
        let several = workers > 1;
        if several {
            try_threads(workers)?;
        }
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            lanes: Lanes::default(),
            waiting: AtomicBool::new(false),
            bell: Notify::new(),
            asleep: AtomicBool::new(several),
            several,
            closed: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            hold_until: AtomicU64::new(0),
            began: Instant::now(),
        });
        let mut builder;
        if several {
            builder = Builder::new_multi_thread();
            builder.worker_threads(workers).thread_name("turbocql-worker");
        } else {
            builder = Builder::new_current_thread();
            let (lies_down, gets_up) = (Arc::clone(&shared), Arc::clone(&shared));
            builder.on_thread_park(move || lies_down.lie_down());
            builder.on_thread_unpark(move || gets_up.asleep.store(false, Ordering::SeqCst));
        }
        let runtime = builder.enable_all().build()?;
        let (end, ended) = mpsc::channel();
        let handle = thread::Builder::new().name("turbocql-io".into()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                runtime.block_on(Arc::clone(&shared).live());
                // A plain drop of the runtime would wait for a name look-up that never returns.
                runtime.shutdown_timeout(GRACE);
                // Breaks a cycle of references: the waker of an idle lane refers to the runtime,
                // the runtime's park hooks refer to `shared`, and `shared` refers to the lanes.
                shared.lanes.clear();
                drop(end);
            }
        })?;
        let thread = Mutex::new(Some(Thread { handle, ended }));
        Ok(Runtime(Arc::new(Inner { shared, thread, process: std::process::id() })))
    }

    /// Starts `future` on the I/O thread. After a shutdown the future is dropped at once, unpolled.
    ///
    /// If the future panics, it is dropped, and other tasks are not affected. Code that waits for
    /// its result must notice that the future's sink was dropped.
    pub fn submit(&self, future: impl Future<Output = ()> + Send + 'static) -> TaskHandle {
        let shared = &self.0.shared;
        let (future, abort) = abortable(future);
        let counted = InFlight::begin(shared);
        self.push(Work::Task(Box::pin(async move {
            // Aborted or finished, the future is dropped before `counted` is.
            let _ = future.await;
            drop(counted);
        })));
        TaskHandle(abort)
    }

    /// Queues a request, which is sent from the I/O thread.
    pub fn send(&self, sending: Arc<dyn Sending>) {
        self.0.shared.in_flight.fetch_add(1, Ordering::AcqRel);
        self.push(Work::Request(Job::new(sending)));
    }

    fn push(&self, work: Work) {
        let shared = &self.0.shared;
        let mut queue = shared.queue();
        // Checked under the lock: after `closed` is set, the thread empties the queue for the last
        // time.
        if shared.closed.load(Ordering::Acquire) {
            drop(queue);
            shared.refuse(work);
            return;
        }
        queue.push(work);
        shared.waiting.store(true, Ordering::SeqCst);
        drop(queue);
        let rings =
            HELD.with_borrow_mut(|held| held.as_mut().is_none_or(|held| !held.keep(shared)));
        if rings {
            shared.ring();
        }
    }

    /// Holds back this thread's submissions until [`Runtime::release`]: they do not wake an I/O
    /// thread that has handed over answers within the last 500 us. Such an I/O thread checks the
    /// queue by itself, 1 ms after it has handed over answers. So no submission waits for long,
    /// even if this thread blocks before its release.
    pub fn hold() {
        HELD.with_borrow_mut(|held| {
            held.get_or_insert_default();
        });
    }

    /// Ends a [`Runtime::hold`]: wakes the I/O thread if submissions to it were held back.
    pub fn release() {
        if let Some(Held { of: Some(shared), .. }) = HELD.take() {
            shared.ring();
        }
    }

    /// Called at the end of a round of the event loop that began with a [`Runtime::hold`]. Returns
    /// true if it must be called once more, after the next round: if nothing was submitted, the
    /// tasks that ran may have let other tasks run, through a semaphore or a queue. Otherwise it
    /// releases.
    pub fn end_round() -> bool {
        let again = HELD.with_borrow_mut(|held| held.as_mut().is_some_and(Held::waits));
        if !again {
            Runtime::release();
        }
        again
    }

    /// The number of tasks and requests that are submitted and not finished.
    pub fn in_flight(&self) -> usize {
        self.0.shared.in_flight.load(Ordering::Acquire)
    }

    /// Waits until the calling task is the only one in flight, for `limit` at most. Must run on the
    /// I/O thread.
    pub async fn drain(&self, limit: Duration) {
        let _ = tokio::time::timeout(limit, async {
            while self.in_flight() > 1 {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        })
        .await;
    }

    /// Ends the thread and drops the tasks that are left on it. Waits for this for 2 s at most. A
    /// second call does nothing.
    ///
    /// In a forked child process the thread does not exist, and a lock may be held for ever. There,
    /// this function only makes the runtime refuse further tasks.
    pub fn shutdown(&self) {
        self.0.shutdown();
    }
}

/// Checks that `count` threads and one more can exist at the same time. If tokio cannot make one of
/// its workers, it panics, and then waits for the other workers for ever.
fn try_threads(count: usize) -> std::io::Result<()> {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let mut made = Vec::new();
    let mut tried = Ok(());
    for _ in 0..=count {
        let wait = Arc::clone(&wait);
        let wait = move || drop(wait.lock().map(|wait| wait.recv()));
        match thread::Builder::new().spawn(wait) {
            Ok(thread) => made.push(thread),
            Err(error) => {
                tried = Err(error);
                break;
            }
        }
    }
    drop(go);
    made.into_iter().for_each(|thread| drop(thread.join()));
    tried
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
            // A task dropped the last clone. The thread ends by itself after that task.
            return;
        }
        // Nothing is ever sent: the thread drops the sender at its end.
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

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Vec<Work>> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Wakes the thread to check the queue, unless the thread will check it by itself.
    fn ring(&self) {
        if self.several || self.asleep.swap(false, Ordering::SeqCst) {
            self.bell.notify_one();
        }
    }

    fn nanoseconds(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn begin_hold(&self) {
        let until = self.nanoseconds() + HOLD.as_nanos() as u64;
        self.hold_until.store(until, Ordering::SeqCst);
    }

    /// Whether the thread will soon check the queue by itself.
    fn may_hold(&self) -> bool {
        self.nanoseconds() < self.hold_until.load(Ordering::SeqCst)
    }

    /// Called before the thread parks: from here on it must be woken. If the queue has entries, the
    /// thread does not park.
    fn lie_down(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        self.look();
    }

    /// Wakes [`Shared::serve`] if the queue has entries. Called on the thread itself.
    fn look(&self) {
        if self.waiting.load(Ordering::SeqCst) {
            self.bell.notify_one();
        }
    }

    async fn live(self: Arc<Self>) {
        if !self.several {
            let news = Arc::<News>::default();
            NEWS.set(Some(Arc::clone(&news)));
            tokio::spawn(news.spread(Arc::clone(&self)));
        }
        // `serve` is a task of its own: if `lie_down` wakes it, tokio runs it instead of parking
        // the thread.
        let _ = tokio::spawn(self.serve()).await;
        if let Some(news) = NEWS.take() {
            let unspread = std::mem::take(&mut *news.lock());
            unspread.iter().for_each(|one| one.wake());
        }
    }

    /// Begins submitted work, until the runtime is closed.
    async fn serve(self: Arc<Self>) {
        let mut burst = Vec::new();
        while !self.closed.load(Ordering::Acquire) {
            self.bell.notified().await;
            let mut queue = self.queue();
            self.waiting.store(false, Ordering::SeqCst);
            std::mem::swap(&mut *queue, &mut burst);
            drop(queue);
            for work in burst.drain(..) {
                // A panic stays within the task.
                match work {
                    Work::Task(task) => drop(tokio::spawn(task)),
                    Work::Request(job) => {
                        if let Some(job) = self.lanes.hand(job) {
                            tokio::spawn(Arc::clone(&self).lane(job));
                        }
                    }
                }
            }
        }
        let never_begun = std::mem::take(&mut *self.queue());
        never_begun.into_iter().for_each(|work| self.refuse(work));
    }

    async fn lane(self: Arc<Self>, first: Job) {
        self.lanes.lane(first, || self.ended()).await;
    }

    fn refuse(&self, work: Work) {
        let request = matches!(work, Work::Request(_));
        drop(work);
        if request {
            self.ended();
        }
    }

    /// One task or request is no longer in flight.
    fn ended(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
        // A thread that is always busy never parks, so it checks the queue here too.
        if !self.several {
            self.look();
        }
    }
}

thread_local! {
    /// What this thread has submitted since [`Runtime::hold`]. `None` if nothing is held back.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Submissions for which an I/O thread has not been woken yet.
#[derive(Default)]
struct Held {
    of: Option<Arc<Shared>>,
    submissions: usize,
    /// A round has passed without a submission.
    waited: bool,
}

/// Every 32nd submission of a burst wakes the I/O thread. The others may wait for the end of the
/// burst.
const MOST_HELD: usize = 32;

/// For this long after it has handed over answers, the I/O thread need not be woken.
const HOLD: Duration = Duration::from_micros(500);
/// This long after it has handed over answers, the I/O thread checks the queue for submissions that
/// did not wake it.
const LOOK: Duration = Duration::from_millis(1);

impl Held {
    /// Whether to wait one more round for the first submission. True at most once.
    fn waits(&mut self) -> bool {
        self.submissions == 0 && !std::mem::replace(&mut self.waited, true)
    }

    /// Counts a submission. Returns whether it may wait.
    fn keep(&mut self, shared: &Arc<Shared>) -> bool {
        self.submissions += 1;
        if self.submissions.is_multiple_of(MOST_HELD) || !shared.may_hold() {
            return false;
        }
        match &self.of {
            None => self.of = Some(Arc::clone(shared)),
            Some(of) => return Arc::ptr_eq(of, shared),
        }
        true
    }
}

/// Counts a task as in flight until it is dropped, however it ends.
struct InFlight(Arc<Shared>);

impl InFlight {
    fn begin(shared: &Arc<Shared>) -> InFlight {
        shared.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlight(Arc::clone(shared))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.ended();
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
