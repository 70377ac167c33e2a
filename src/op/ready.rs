//! Schedules the wakes of tasks for the next round of an event loop. This costs less than
//! `call_soon`.
//!
//! The quick path is only for the callbacks that wake tasks, because these are many and never
//! raise. One call of a Python function wakes all tasks of a completion batch. On asyncio's own
//! event loop, a native handle ([`handle::ready`]) replaces the handle that `call_soon` makes. All
//! other callbacks are scheduled with `call_soon`.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use turbocql_engine::Runtime;

use crate::ffi::handle;
use crate::op::bridge::event_loop;
use crate::python;
use turbocql_values::ffi::make;

/// The quick path around `call_soon`, for event loops that support it.
pub struct ReadyQueue {
    /// The function that appends to the ready queue of the event loop.
    append: Py<PyAny>,
    /// The function `contextvars.Context.run`.
    run: Py<PyAny>,
    /// A completed future of asyncio, whose result is None. It is the argument of the wakeup
    /// callbacks of tasks. A task that wakes reads the outcome of its argument. If the argument is
    /// a future of asyncio's own class, this takes no method call. The future does not have the
    /// result of the request. The awaited object of turbocql returns this result when the task
    /// continues.
    completed_future: Py<PyAny>,
}

impl ReadyQueue {
    /// Returns the quick path for an event loop. There are two conditions: the event loop has the
    /// ready queue, the `_run_once` and the `call_soon` of asyncio's own event loop, and the probe
    /// of native handles has succeeded. Otherwise, returns `None`.
    pub fn of(event_loop: &Bound<'_, PyAny>) -> Option<ReadyQueue> {
        let py = event_loop.py();
        let append = python::append_ready(py).ok()?.call1((event_loop,)).ok()?;
        if append.is_none() || !handle::probe_ready(py).ok()? {
            return None;
        }
        let run = python::context(py).ok()?.getattr("run").ok()?;
        let completed_future = python::done_future(py).ok()?.clone();
        Some(ReadyQueue {
            append: append.unbind(),
            run: run.unbind(),
            completed_future: completed_future.unbind(),
        })
    }

    /// Schedules a call of `function` for the next round of the event loop. Returns false if no
    /// handle could be made. The caller then uses the event loop's `call_soon`.
    fn call_soon(
        &self,
        function: &Bound<'_, PyAny>,
        callback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let Some(ready) = handle::ready(function, callback) else { return Ok(false) };
        self.append.bind(function.py()).call1((ready,))?;
        Ok(true)
    }

    /// Schedules the wake of a task. Returns false if no handle could be made.
    ///
    /// The event loop calls a bound method without arguments. This call has the effect of
    /// `context.run(call, completed_future)`. The bound method consists only of bound methods and
    /// functions of CPython. So no native frame of turbocql is below the task on the stack.
    fn wake(&self, task: &TaskWake<'_>) -> PyResult<bool> {
        let py = task.call.py();
        let run = make::method(self.run.bind(py), &task.context)?;
        let wakeup = make::method(&task.call, self.completed_future.bind(py))?;
        self.call_soon(&make::method(&run, &wakeup)?, &task.call)
    }
}

/// A task to wake: its wakeup callback, and the context in which the callback runs.
struct TaskWake<'py> {
    call: Bound<'py, PyAny>,
    context: Bound<'py, PyAny>,
}

/// A completion batch: tasks to wake in the next round of the event loop, one after another.
pub struct Burst<'a, 'py> {
    tasks: Vec<TaskWake<'py>>,
    ready_queue: Option<&'a ReadyQueue>,
}

impl<'a, 'py> Burst<'a, 'py> {
    pub fn new(ready_queue: Option<&'a ReadyQueue>) -> Burst<'a, 'py> {
        Burst { tasks: Vec::new(), ready_queue }
    }

    /// Adds the task whose wakeup is `call`. If the callback is not the wakeup of a task, adds
    /// nothing and returns false.
    pub fn add(&mut self, py: Python<'py>, call: &Py<PyAny>, context: Option<&Py<PyAny>>) -> bool {
        let Some(context) = context else { return false };
        let call = call.bind(py);
        let wakeup = is_wakeup(call);
        if wakeup {
            let context = context.bind(py).clone();
            self.tasks.push(TaskWake { call: call.clone(), context });
        }
        wakeup
    }

    /// Schedules the wakes of the added tasks on the running event loop.
    pub fn schedule(&mut self, py: Python<'py>) -> PyResult<()> {
        let tasks = std::mem::take(&mut self.tasks);
        if tasks.is_empty() {
            return Ok(());
        }
        let event_loop = event_loop(py)?;
        let one_by_one = || {
            // If scheduling one task fails, the other tasks must still be scheduled.
            tasks
                .iter()
                .map(|task| self.schedule_single(&event_loop, task))
                .fold(Ok(()), Result::and)
        };
        if tasks.len() == 1 {
            return one_by_one();
        }
        // In debug mode, the event loop reports slow callbacks with the names of their tasks, so
        // each task needs a separate callback. `get_debug` may raise, because a signal handler may
        // run during the call.
        let debug = event_loop.call_method0(pyo3::intern!(py, "get_debug"));
        match debug.and_then(|debug| debug.is_truthy()) {
            Ok(false) => {}
            Ok(true) => return one_by_one(),
            Err(error) => return one_by_one().and(Err(error)),
        }
        // The pairs are in reverse order, because `wake.wake_tasks` takes tasks from the end of the
        // list.
        let pairs = tasks.iter().rev().map(|task| (&task.call, &task.context));
        let burst = PyList::new(py, pairs)?;
        // A KeyboardInterrupt may end the first callback early. If a task runs a nested event loop,
        // the first callback may also not end for a long time. In both cases, a second callback
        // behind it wakes the remaining tasks. Both callbacks are queued before the first one runs,
        // so no task can be lost.
        let first = self.call_soon(&event_loop, python::wake_tasks(py)?, &burst);
        first.and(self.call_soon(&event_loop, python::wake_remaining(py)?, &burst))
    }

    /// Schedules the wake of a single task.
    fn schedule_single(
        &self,
        event_loop: &Bound<'py, PyAny>,
        task: &TaskWake<'py>,
    ) -> PyResult<()> {
        let py = event_loop.py();
        if let Some(ready_queue) = self.ready_queue
            && ready_queue.wake(task)?
        {
            return Ok(());
        }
        let options = PyDict::new(py);
        options.set_item(pyo3::intern!(py, "context"), &task.context)?;
        let arguments = (&task.call, python::done_future(py)?);
        event_loop.call_method(pyo3::intern!(py, "call_soon"), arguments, Some(&options))?;
        Ok(())
    }

    /// Schedules the call `wake_tasks(burst)` for the next round of the event loop.
    fn call_soon(
        &self,
        event_loop: &Bound<'py, PyAny>,
        wake_tasks: &Bound<'py, PyAny>,
        burst: &Bound<'py, PyList>,
    ) -> PyResult<()> {
        if let Some(ready_queue) = self.ready_queue
            && ready_queue.call_soon(&make::method(wake_tasks, burst.as_any())?, wake_tasks)?
        {
            return Ok(());
        }
        event_loop
            .call_method1(pyo3::intern!(event_loop.py(), "call_soon"), (wake_tasks, burst))?;
        Ok(())
    }
}

/// Whether a callback is the wakeup of a task of asyncio's own `Task` class, which is written in C.
/// Such a callback wakes its task and never raises.
fn is_wakeup(call: &Bound<'_, PyAny>) -> bool {
    /// The address of the C function behind such callbacks, or 0 before the first such callback.
    static WAKEUP: AtomicUsize = AtomicUsize::new(0);
    let py = call.py();
    let Some((function, task)) = handle::builtin(call) else { return false };
    if !python::c_task(py).is_ok_and(|class| task.get_type().is(class)) {
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

/// Ends a [`Runtime::hold`], which flushes the requests that were held back. The event loop calls
/// this function after the tasks of a completion batch have run. If these tasks have made no
/// request, the hold continues, because they may have woken other tasks that will make requests.
/// The event loop then calls this function again after it has run the other tasks.
#[pyfunction]
pub fn release_held(py: Python<'_>) -> PyResult<()> {
    if Runtime::end_round() { call_release_soon(py) } else { Ok(()) }
}

/// Schedules [`release_held`] on the running event loop, behind all callbacks that are ready now.
pub fn call_release_soon(py: Python<'_>) -> PyResult<()> {
    let release = (python::release_held(py)?,);
    event_loop(py)?.call_method1(pyo3::intern!(py, "call_soon"), release)?;
    Ok(())
}
