//! Does what the executors of `execute_concurrent` do with the result of each request: they store
//! the result in their list `_results_queue`, and send the next request.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyTuple};

use super::Executors;
use super::execute::add;

impl Executors {
    /// Does what the driver's `_on_success` does. Always returns true.
    pub(super) fn on_success<'py>(
        &self,
        executor: &Bound<'py, PyAny>,
        rows: &Bound<'py, PyAny>,
        future: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<bool> {
        let py = executor.py();
        future.call_method0(pyo3::intern!(py, "clear_callbacks"))?;
        let result_set = self.result_sets.get().make(future, rows)?;
        let arguments = (result_set, index, PyBool::new(py, true));
        executor.call_method1(pyo3::intern!(py, "_put_result"), arguments)?;
        Ok(true)
    }

    /// Does what the driver's `_put_result` does for the result of a request that succeeded.
    /// Returns false if that method must be called. `is_list` says whether the executor returns its
    /// results as a list, and not as a generator.
    pub(super) fn put_result<'py>(
        &self,
        executor: &Bound<'py, PyAny>,
        result: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
        success: &Bound<'py, PyAny>,
        is_list: bool,
    ) -> PyResult<bool> {
        let py = executor.py();
        let condition = executor.getattr(pyo3::intern!(py, "_condition"))?;
        let Some(lock) = self.events.get().lock_of(&condition)? else { return Ok(false) };
        let queue = executor.getattr(pyo3::intern!(py, "_results_queue"))?;
        let Ok(queue) = queue.cast_into_exact::<PyList>() else { return Ok(false) };
        if !success.is(PyBool::new(py, true).as_any()) {
            return Ok(false);
        }
        let values = PyTuple::new(py, [success, result])?;
        let result = self.new_tuple.bind(py).call1((&self.result, values))?;
        let entry = PyTuple::new(py, [index, &result])?;
        if is_list {
            queue.append(&entry)?;
        }
        lock.call_method0(pyo3::intern!(py, "acquire"))?;
        let put = if is_list {
            self.count(executor)
        } else {
            let pushed = self.heappush.bind(py).call1((queue, entry));
            pushed.and_then(|_| self.execute_next(executor)).map(|_| true)
        };
        let notified = put.and_then(|notifies| match notifies {
            true => self.events.get().notify_owned(&condition),
            false => Ok(()),
        });
        lock.call_method0(pyo3::intern!(py, "release"))?;
        notified?;
        Ok(true)
    }

    /// Counts a result, and sends the next request. Returns whether this was the last result.
    fn count(&self, executor: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = executor.py();
        let current = pyo3::intern!(py, "_current");
        add(executor, current, 1)?;
        if self.execute_next(executor)? {
            return Ok(false);
        }
        let sent = executor.getattr(pyo3::intern!(py, "_exec_count"))?;
        executor.getattr(current)?.eq(sent)
    }
}
