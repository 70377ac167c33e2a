//! Lets the interpreter end while other threads are in native calls, without an abort.
//!
//! When the interpreter ends, some daemon threads still ask for the GIL. CPython before 3.14 ends
//! such a thread: it unwinds the thread's stack. If the stack has native frames, the unwinding
//! aborts the process. So an exit handler lets threads finish the native call that they are in. If
//! a thread begins a new native call while the handler runs or later, the call is delayed. Most
//! processes have ended before the delay is over.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;

/// The number of threads inside native calls that may run Python code.
static INSIDE: Count = Count::new();
/// The number of other libraries' threads that read from turbocql: see `Foreign`.
static FOREIGN: AtomicUsize = AtomicUsize::new(0);
static ENDING: AtomicBool = AtomicBool::new(false);

/// How long the exit handler waits for threads that are inside native calls.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the exit handler waits for the threads of other libraries. Such a thread returns to its
/// library when it next calls `must_leave`. The limit is longer than `PATIENCE`, because the
/// library itself may wait for the thread without a time limit.
const FOREIGN_PATIENCE: Duration = Duration::from_secs(30);

/// How long to delay a thread that enters a native call after the exit has begun. The delay is
/// bounded, because a later exit handler may wait for the thread's work.
const HOLD_UP: Duration = Duration::from_millis(200);

/// A count that each thread changes at every native call. Without the GIL, threads that change one
/// number at the same time slow each other down, so there are several numbers, each in a cache line
/// of its own.
struct Count([Part; PARTS]);

#[repr(align(128))]
struct Part(AtomicUsize);

const PARTS: usize = if cfg!(Py_GIL_DISABLED) { 64 } else { 1 };

impl Count {
    const fn new() -> Count {
        Count([const { Part(AtomicUsize::new(0)) }; PARTS])
    }

    /// Returns the number that this thread changes. A thread always changes the same number.
    #[inline(always)]
    fn part(&self) -> &AtomicUsize {
        #[cfg(Py_GIL_DISABLED)]
        {
            static THREADS: AtomicUsize = AtomicUsize::new(0);
            thread_local! {
                static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed) % PARTS;
            }
            &self.0[NUMBER.with(|number| *number)].0
        }
        #[cfg(not(Py_GIL_DISABLED))]
        &self.0[0].0
    }

    #[inline(always)]
    fn add(&self, calls: usize) {
        self.part().fetch_add(calls, Ordering::SeqCst);
    }

    #[inline(always)]
    fn subtract(&self, calls: usize) {
        self.part().fetch_sub(calls, Ordering::AcqRel);
    }

    fn total(&self) -> usize {
        self.0.iter().map(|part| part.0.load(Ordering::SeqCst)).sum()
    }

    /// Sets the count of this thread to `calls`, and the counts of all other threads to 0.
    fn reset(&self, calls: usize) {
        self.0.iter().for_each(|part| part.0.store(0, Ordering::Release));
        self.part().store(calls, Ordering::Release);
    }
}

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Set in the thread that ends the interpreter. This thread is not delayed, because later exit
    /// handlers may still call turbocql.
    static IS_ENDING: Cell<bool> = const { Cell::new(false) };
    /// Set in a thread of another library while it reads from turbocql: see `Foreign`.
    static IS_FOREIGN: Cell<bool> = const { Cell::new(false) };
}

/// Held while a native call may run Python code.
pub struct Inside(());

/// The maximum depth of nested native calls. Calls nest because encoding a value may run user code,
/// which may encode another value. Each call takes up to 64 levels of native frames, which Python's
/// recursion limit does not count.
const DEEPEST: usize = 32;

impl Inside {
    /// Enters a native call that user code may make from within another native call. Raises a
    /// `RecursionError` if more than `DEEPEST` calls are nested.
    pub fn nested(py: Python<'_>) -> PyResult<Inside> {
        if DEPTH.get() >= DEEPEST {
            let reason = format!("native calls are nested more than {DEEPEST} deep");
            return Err(PyRecursionError::new_err(reason));
        }
        Ok(Inside::enter(py))
    }

    pub fn enter(py: Python<'_>) -> Inside {
        if ENDING.load(Ordering::Acquire) && !IS_ENDING.get() && !IS_FOREIGN.get() {
            // A thread that sleeps here is not counted as inside a native call, so that the exit
            // handler does not wait for it.
            let inside = usize::from(DEPTH.get() > 0);
            INSIDE.subtract(inside);
            // `detach` takes the GIL again after the sleep. It does not return if the interpreter
            // has ended by then.
            py.detach(|| std::thread::sleep(HOLD_UP));
            INSIDE.add(inside);
        }
        Inside::count()
    }

    /// Counts this thread as inside a native call. May be called with or without the GIL.
    fn count() -> Inside {
        if DEPTH.replace(DEPTH.get() + 1) == 0 {
            INSIDE.add(1);
        }
        Inside(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            INSIDE.subtract(1);
        }
    }
}

/// If the interpreter is ending, blocks the calling thread for ever, unless this is the thread that
/// ends the interpreter. A blocked thread must not ask for the GIL again, because CPython before
/// 3.14 would unwind its native frames. Called without the GIL.
pub fn stay_away() {
    while ENDING.load(Ordering::Acquire) && !IS_ENDING.get() {
        std::thread::sleep(HOLD_UP);
    }
}

/// Held while another library's thread reads from turbocql. The library may wait for this thread
/// after the interpreter has ended, so the thread must return to the library before the interpreter
/// ends. The thread is counted before it asks for the GIL, because a thread that still waits for
/// the GIL when the interpreter ends never returns.
pub struct Foreign {
    before: bool,
    _inside: Inside,
}

impl Foreign {
    /// Counts the calling thread until the result is dropped. `is_foreign` is true for a thread
    /// that has no Python thread state. Returns `None` for such a thread if the interpreter is
    /// ending, because the thread must not ask for the GIL then. May be called with or without the
    /// GIL.
    pub fn enter(is_foreign: bool) -> Option<Foreign> {
        FOREIGN.fetch_add(usize::from(is_foreign), Ordering::SeqCst);
        let foreign = Foreign { before: IS_FOREIGN.replace(is_foreign), _inside: Inside::count() };
        // This thread counts itself and then reads `ENDING`. The exit handler sets `ENDING` and
        // then reads the count. So at least one of the two threads sees what the other has written.
        let is_late = is_foreign && ENDING.load(Ordering::SeqCst);
        (!is_late).then_some(foreign)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        FOREIGN.fetch_sub(usize::from(IS_FOREIGN.replace(self.before)), Ordering::SeqCst);
    }
}

/// Whether this thread must return to the library that it belongs to, because the interpreter is
/// ending.
pub fn must_leave() -> bool {
    ENDING.load(Ordering::Acquire) && IS_FOREIGN.get() && !IS_ENDING.get()
}

/// Called in a forked child. Resets the count of threads inside native calls, because this thread
/// is the only thread of the child.
pub fn forked() {
    INSIDE.reset(usize::from(DEPTH.get() > 0));
}

/// The exit handler, which `atexit` calls. Waits for the native calls of other threads, at most
/// `PATIENCE`, and for the threads of other libraries, at most `FOREIGN_PATIENCE`.
#[pyfunction]
pub fn ending(py: Python<'_>) {
    IS_ENDING.set(true);
    ENDING.store(true, Ordering::SeqCst);
    let own_calls = usize::from(DEPTH.get() > 0);
    let must_wait = |waited: Duration| {
        (INSIDE.total() > own_calls && waited < PATIENCE)
            || (FOREIGN.load(Ordering::SeqCst) > 0 && waited < FOREIGN_PATIENCE)
    };
    if !must_wait(Duration::ZERO) {
        return;
    }
    py.detach(|| {
        let begun = Instant::now();
        while must_wait(begun.elapsed()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}
