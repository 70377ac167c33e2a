//! Stands in for tokio's runtime of one thread. Wherever the engine depends on the behavior of the
//! runtime, this module behaves like `runtime/scheduler/current_thread/mod.rs` of tokio 1.54
//! (`block_on`, `Core::next_task`, `Context::park` and `Handle::schedule`).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Wake, Waker};

use crate::clock::pass;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Condvar, LocalRefCell, Mutex};

/// The state that other threads use: the queue of tasks that they have woken, and the unpark token.
#[derive(Default)]
pub struct Executor {
    remote: Mutex<Remote>,
    unparked: Condvar,
}

#[derive(Default)]
struct Remote {
    woken: VecDeque<usize>,
    /// The token of tokio's driver. If it is set, the next park returns at once.
    unpark: bool,
}

/// The state that only the executor's own thread uses.
struct Core {
    executor: Arc<Executor>,
    ready: RefCell<VecDeque<usize>>,
    tasks: RefCell<Vec<Slot>>,
    timers: RefCell<Vec<(u64, Waker)>>,
}

struct Slot {
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    waker: Arc<TaskWaker>,
}

struct TaskWaker {
    executor: Arc<Executor>,
    task: usize,
    /// Whether the task was woken and has not run since. As in tokio, a task that is woken twice
    /// before it runs is run once: an additional run could hide that another wake was lost.
    notified: AtomicBool,
}

loom::thread_local! {
    static CORE: RefCell<Option<Rc<Core>>> = RefCell::new(None);
}

fn core() -> Rc<Core> {
    CORE.with_borrow(|core| core.clone()).expect("called on the executor's thread")
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if self.notified.swap(true, Ordering::AcqRel) {
            return;
        }
        let core = CORE.with_borrow(|core| core.clone());
        match core.filter(|core| Arc::ptr_eq(&core.executor, &self.executor)) {
            Some(core) => core.ready.borrow_mut().push_back(self.task),
            None => {
                let mut remote = self.executor.remote.lock().unwrap();
                remote.woken.push_back(self.task);
                remote.unpark = true;
                drop(remote);
                self.executor.unparked.notify_one();
            }
        }
    }
}

/// Wakes `waker` when the clock has reached `then`.
pub fn at(then: u64, waker: Waker) {
    let core = core();
    let mut timers = core.timers.borrow_mut();
    timers.retain(|(_, other)| !other.will_wake(&waker));
    timers.push((then, waker));
}

/// Stands in for `tokio::spawn`.
pub fn spawn(future: impl Future<Output = ()> + 'static) -> JoinHandle {
    let joined = Rc::new(RefCell::new(Joined::default()));
    let ends = Ends(Rc::clone(&joined));
    core().add(Box::pin(async move {
        future.await;
        drop(ends);
    }));
    JoinHandle(joined)
}

#[derive(Default)]
struct Joined {
    ended: bool,
    waker: Option<Waker>,
}

/// Dropped when a spawned task ends or is dropped. Wakes the task that waits for the spawned task.
struct Ends(Rc<RefCell<Joined>>);

impl Drop for Ends {
    fn drop(&mut self) {
        let mut joined = self.0.borrow_mut();
        joined.ended = true;
        let waker = joined.waker.take();
        drop(joined);
        waker.into_iter().for_each(Waker::wake);
    }
}

pub struct JoinHandle(Rc<RefCell<Joined>>);

impl Future for JoinHandle {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut joined = self.0.borrow_mut();
        if joined.ended {
            return Poll::Ready(());
        }
        joined.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Core {
    fn add(&self, future: Pin<Box<dyn Future<Output = ()>>>) {
        let mut tasks = self.tasks.borrow_mut();
        let (executor, task) = (Arc::clone(&self.executor), tasks.len());
        let waker = Arc::new(TaskWaker { executor, task, notified: AtomicBool::new(true) });
        tasks.push(Slot { future: Some(future), waker });
        self.ready.borrow_mut().push_back(task);
    }

    /// Polls a task once. Returns whether it has ended.
    fn run(&self, task: usize) -> bool {
        let (future, waker) = {
            let slot = &mut self.tasks.borrow_mut()[task];
            (slot.future.take(), Arc::clone(&slot.waker))
        };
        let Some(mut future) = future else { return true };
        waker.notified.swap(false, Ordering::AcqRel);
        let waker = Waker::from(waker);
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            return true;
        }
        self.tasks.borrow_mut()[task].future = Some(future);
        false
    }

    fn next(&self) -> Option<usize> {
        if let Some(task) = self.ready.borrow_mut().pop_front() {
            return Some(task);
        }
        self.executor.remote.lock().unwrap().woken.pop_front()
    }

    /// Returns at once if the unpark token is set. Otherwise, if `time_passes` is true and a timer
    /// is set, moves the clock to the time of the earliest timer and wakes the wakers that are due.
    /// Otherwise blocks until the thread is unparked.
    fn park(&self, time_passes: bool) {
        let mut remote = self.executor.remote.lock().unwrap();
        let due = self.timers.borrow().iter().map(|(then, _)| *then).min();
        if let Some(due) = due.filter(|_| time_passes && !remote.unpark) {
            drop(remote);
            pass(due);
            let mut timers = self.timers.borrow_mut();
            let (now, later) = timers.drain(..).partition(|(then, _)| *then <= due);
            *timers = later;
            drop(timers);
            let now: Vec<(u64, Waker)> = now;
            now.into_iter().for_each(|(_, waker)| waker.wake());
            return;
        }
        while !remote.unpark {
            remote = self.executor.unparked.wait(remote).unwrap();
        }
        remote.unpark = false;
    }
}

/// Runs `main`, and the tasks that are spawned, on this thread until `main` ends. Then drops the
/// other tasks. Whenever no task can run, calls `before_park`, parks the thread and calls
/// `after_unpark`. If `before_park` wakes a task, the thread is not parked, and `after_unpark` is
/// called all the same.
pub fn block_on(
    main: impl Future<Output = ()> + 'static,
    time_passes: bool,
    before_park: impl Fn(),
    after_unpark: impl Fn(),
) {
    let core = Rc::new(Core {
        executor: Arc::default(),
        ready: RefCell::default(),
        tasks: RefCell::default(),
        timers: RefCell::default(),
    });
    CORE.set(Some(Rc::clone(&core)));
    core.add(Box::pin(main));
    'main: loop {
        while let Some(task) = core.next() {
            if core.run(task) && task == 0 {
                break 'main;
            }
        }
        before_park();
        if core.ready.borrow().is_empty() {
            core.park(time_passes);
        }
        after_unpark();
    }
    let tasks = std::mem::take(&mut *core.tasks.borrow_mut());
    tasks.into_iter().for_each(|slot| drop(slot.future));
    CORE.set(None);
}
