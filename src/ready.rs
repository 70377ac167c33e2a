//! What an event loop calls in its next round, made with less ado than `call_soon` does.
//!
//! Only for the one callback of which there are many: a task that is told that what it waits for is
//! there, which never raises. All of a burst are told by one call; a single one, on asyncio's own
//! loop, without the handle that `call_soon` makes. Everything else gets a `call_soon`.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use turbocql_engine::Runtime;

use crate::bridge::event_loop;
use crate::ffi::handle;
use turbocql_values::ffi::make;
use turbocql_values::value::interned;

/// The way past `call_soon`, for loops that have it.
pub struct Fast {
    /// Appends to what the loop runs in its next round.
    append: Py<PyAny>,
    /// `contextvars.Context.run`.
    run: Py<PyAny>,
    /// A future that is done. A task that wakes asks what it waited for how it went: of asyncio's
    /// own futures it knows without a call, and here there is nothing to tell.
    done: Py<PyAny>,
}

impl Fast {
    /// `None` for loops that are not asyncio's own in what matters here.
    pub fn of(event_loop: &Bound<'_, PyAny>) -> Option<Fast> {
        let py = event_loop.py();
        let append = interned::append_ready(py).ok()?.call1((event_loop,)).ok()?;
        if append.is_none() || !handle::probe_ready(py).ok()? {
            return None;
        }
        let run = interned::context(py).ok()?.getattr("run").ok()?;
        let done = interned::done_future(py).ok()?.clone();
        Some(Fast { append: append.unbind(), run: run.unbind(), done: done.unbind() })
    }

    /// Has the loop call something in its next round; false where that is not known to work.
    fn call_soon(&self, told: &Bound<'_, PyAny>, callback: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Some(ready) = handle::ready(told, callback) else { return Ok(false) };
        self.append.bind(told.py()).call1((ready,))?;
        Ok(true)
    }

    /// Has a task told.
    ///
    /// What the loop calls is `context.run(call, done)`, put together of bound methods: nothing of
    /// ours, so that no native frame of ours is below the task.
    fn tell(&self, task: &Told<'_>) -> PyResult<bool> {
        let py = task.call.py();
        let run = make::method(self.run.bind(py), &task.context)?;
        let told = make::method(&task.call, self.done.bind(py))?;
        self.call_soon(&make::method(&run, &told)?, &task.call)
    }
}

/// A task that is to be told: its callback, and the context for it.
struct Told<'py> {
    call: Bound<'py, PyAny>,
    context: Bound<'py, PyAny>,
}

/// Tasks that are to be told in the loop's next round, one after another.
pub struct Burst<'a, 'py> {
    tasks: Vec<Told<'py>>,
    fast: Option<&'a Fast>,
}

impl<'a, 'py> Burst<'a, 'py> {
    pub fn new(fast: Option<&'a Fast>) -> Burst<'a, 'py> {
        Burst { tasks: Vec::new(), fast }
    }

    /// Adds a task; false where the callback is none of a task.
    pub fn add(&mut self, py: Python<'py>, call: &Py<PyAny>, context: Option<&Py<PyAny>>) -> bool {
        let Some(context) = context else { return false };
        let call = call.bind(py);
        let wakeup = is_wakeup(call);
        if wakeup {
            let context = context.bind(py).clone();
            self.tasks.push(Told { call: call.clone(), context });
        }
        wakeup
    }

    /// Has those that were added told by the loop that runs.
    pub fn tell(&mut self, py: Python<'py>) -> PyResult<()> {
        let tasks = std::mem::take(&mut self.tasks);
        if tasks.is_empty() {
            return Ok(());
        }
        let event_loop = event_loop(py)?;
        let alone = || {
            // All of them, whatever becomes of one.
            tasks.iter().map(|one| self.alone(&event_loop, one)).fold(Ok(()), Result::and)
        };
        if tasks.len() == 1 {
            return alone();
        }
        // Where what is slow is said by the task's name. A signal may come as this is asked.
        let debug = event_loop.call_method0(pyo3::intern!(py, "get_debug"));
        match debug.and_then(|debug| debug.is_truthy()) {
            Ok(false) => {}
            Ok(true) => return alone(),
            Err(error) => return alone().and(Err(error)),
        }
        // From the last one on: they are taken from the end.
        let pairs = tasks.iter().rev().map(|told| (&told.call, &told.context));
        let burst = PyList::new(py, pairs)?;
        // Twice, before any of it runs: nothing that happens in the first call loses the others.
        let first = self.call_soon(&event_loop, interned::tell(py)?, &burst);
        first.and(self.call_soon(&event_loop, interned::tell_rest(py)?, &burst))
    }

    fn alone(&self, event_loop: &Bound<'py, PyAny>, task: &Told<'py>) -> PyResult<()> {
        let py = event_loop.py();
        if let Some(fast) = self.fast
            && fast.tell(task)?
        {
            return Ok(());
        }
        let options = PyDict::new(py);
        options.set_item(pyo3::intern!(py, "context"), &task.context)?;
        let arguments = (&task.call, interned::done_future(py)?);
        event_loop.call_method(pyo3::intern!(py, "call_soon"), arguments, Some(&options))?;
        Ok(())
    }

    fn call_soon(
        &self,
        event_loop: &Bound<'py, PyAny>,
        tell: &Bound<'py, PyAny>,
        burst: &Bound<'py, PyList>,
    ) -> PyResult<()> {
        if let Some(fast) = self.fast
            && fast.call_soon(&make::method(tell, burst.as_any())?, tell)?
        {
            return Ok(());
        }
        event_loop.call_method1(pyo3::intern!(event_loop.py(), "call_soon"), (tell, burst))?;
        Ok(())
    }
}

/// Whether a callback is that of a task of C's, which tells its task and raises nothing.
fn is_wakeup(call: &Bound<'_, PyAny>) -> bool {
    /// Where the function of C's is that such callbacks call, once it is known.
    static WAKEUP: AtomicUsize = AtomicUsize::new(0);
    let py = call.py();
    let Some((function, task)) = handle::builtin(call) else { return false };
    if !interned::c_task(py).is_ok_and(|class| task.get_type().is(class)) {
        return false;
    }
    if WAKEUP.load(Ordering::Relaxed) == function {
        return true;
    }
    let name = call.getattr(pyo3::intern!(py, "__name__"));
    let wakeup = name.is_ok_and(|name| name.eq("task_wakeup").unwrap_or(false));
    if wakeup {
        WAKEUP.store(function, Ordering::Relaxed);
    }
    wakeup
}

/// Ends what [`Runtime::hold`] began: called by the loop behind the tasks of a burst, and again
/// behind those that they let run.
#[pyfunction]
pub fn release_held(py: Python<'_>) -> PyResult<()> {
    if Runtime::end_round() { call_release_soon(py) } else { Ok(()) }
}

/// Has the running loop release what is held, behind all that it is to run by now.
pub fn call_release_soon(py: Python<'_>) -> PyResult<()> {
    let release = (interned::release_held(py)?,);
    event_loop(py)?.call_method1(pyo3::intern!(py, "call_soon"), release)?;
    Ok(())
}
