//! The end of the interpreter, survived by threads that are still at work.
//!
//! When the interpreter ends, CPython before 3.14 ends each daemon thread that wants to run Python
//! code by unwinding it. Native frames below that code do not survive this: the process aborts. So
//! an exit handler lets threads finish the native call that they are in, and holds up those that
//! would enter another: most programs have ended by then.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;

/// Threads inside native calls that may run Python code.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
static ENDING: AtomicBool = AtomicBool::new(false);

/// How long the exit waits for threads that are inside.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a thread is held up that would enter once the exit has begun. Not for ever: a later
/// exit handler may wait for what the thread does.
const HOLD_UP: Duration = Duration::from_millis(200);

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Set in the thread in which the interpreter ends: later exit handlers may still use us.
    static IS_ENDING: Cell<bool> = const { Cell::new(false) };
}

/// Held while a native call may run Python code.
pub struct Inside(());

/// How deep calls may stand in one another: encoding a value may run code of the user's, which may
/// encode a value. Each takes up to 64 levels of native frames, of which Python's own limit of
/// recursion knows nothing.
const DEEPEST: usize = 32;

impl Inside {
    /// For calls that user code may make from within another one.
    pub fn nested(py: Python<'_>) -> PyResult<Inside> {
        if DEPTH.get() >= DEEPEST {
            let reason = format!("native calls stand more than {DEEPEST} deep in one another");
            return Err(PyRecursionError::new_err(reason));
        }
        Ok(Inside::enter(py))
    }

    pub fn enter(py: Python<'_>) -> Inside {
        if ENDING.load(Ordering::Acquire) && !IS_ENDING.get() {
            let inside = usize::from(DEPTH.get() > 0);
            INSIDE.fetch_sub(inside, Ordering::AcqRel);
            // When the interpreter is gone by the end of this, it does not return.
            py.detach(|| std::thread::sleep(HOLD_UP));
            INSIDE.fetch_add(inside, Ordering::AcqRel);
        }
        if DEPTH.replace(DEPTH.get() + 1) == 0 {
            INSIDE.fetch_add(1, Ordering::AcqRel);
        }
        Inside(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            INSIDE.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// In a forked child: the other threads, and what they were in, are not there.
pub fn forked() {
    INSIDE.store(usize::from(DEPTH.get() > 0), Ordering::Release);
}

/// Called by `atexit`.
#[pyfunction]
pub fn ending(py: Python<'_>) {
    IS_ENDING.set(true);
    ENDING.store(true, Ordering::Release);
    let own = usize::from(DEPTH.get() > 0);
    if INSIDE.load(Ordering::Acquire) <= own {
        return;
    }
    py.detach(|| {
        let begun = Instant::now();
        while INSIDE.load(Ordering::Acquire) > own && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}
