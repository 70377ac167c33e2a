//! Sends the requests of an executor, the driver's object behind a call of `execute_concurrent`.

use pyo3::exceptions::{PyException, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyString, PyTuple};

use super::Executors;

impl Executors {
    /// Does what the driver's `_execute_next` does: executes the next statement. Returns false if
    /// there was none. The caller holds the executor's lock.
    pub(super) fn execute_next(&self, executor: &Bound<'_, PyAny>) -> PyResult<bool> {
        match self.next(executor) {
            // The driver takes a StopIteration for the end of the statements, whichever function
            // has raised it.
            Err(error) if error.is_instance_of::<PyStopIteration>(executor.py()) => Ok(false),
            has_next => has_next,
        }
    }

    fn next(&self, executor: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = executor.py();
        let statements = executor.getattr(pyo3::intern!(py, "_enum_statements"))?;
        if !statements.get_type().is(&self.enumerate) {
            let next = executor.call_method0(pyo3::intern!(py, "_execute_next"))?;
            return next.is_truthy();
        }
        let Some(item) = statements.cast_into::<pyo3::types::PyIterator>()?.next() else {
            return Ok(false);
        };
        let item = item?.cast_into_exact::<PyTuple>()?;
        let (index, pair) = (item.get_item(0)?, item.get_item(1)?);
        // `enumerate` can reuse its tuple only if there is no other reference to it.
        drop(item);
        let pair = match pair.cast_into_exact::<PyTuple>() {
            Ok(pair) if pair.len() == 2 => pair,
            Ok(pair) => self.unpacked(pair.as_any())?,
            Err(error) => self.unpacked(&error.into_inner())?,
        };
        let (statement, parameters) = (pair.get_item(0)?, pair.get_item(1)?);
        drop(pair);
        add(executor, pyo3::intern!(py, "_exec_count"), 1)?;
        let execute = pyo3::intern!(py, "_execute");
        executor.call_method1(execute, (index, statement, parameters))?;
        Ok(true)
    }

    /// Unpacks a statement and its parameters from an object that is not a tuple of two items.
    fn unpacked<'py>(&self, pair: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        Ok(self.unpack.bind(pair.py()).call1((pair,))?.cast_into_exact()?)
    }

    /// Does what the driver's `_execute` does. Always returns true: the caller need not call the
    /// driver's method.
    pub(super) fn execute<'py>(
        &self,
        executor: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
        statement: &Bound<'py, PyAny>,
        parameters: &Bound<'py, PyAny>,
    ) -> PyResult<bool> {
        if self.has_pending {
            return self.execute_pending(executor, index, statement, parameters);
        }
        let py = executor.py();
        let depth = pyo3::intern!(py, "_exec_depth");
        add(executor, depth, 1)?;
        match self.send(executor, index, statement, parameters) {
            Err(error) if error.is_instance_of::<PyException>(py) => {
                let most = executor.getattr(pyo3::intern!(py, "max_error_recursion"))?;
                let arguments = (error.value(py), index, PyBool::new(py, false));
                if executor.getattr(depth)?.lt(most)? {
                    executor.call_method1(pyo3::intern!(py, "_put_result"), arguments)?;
                } else {
                    let put_result = executor.getattr(pyo3::intern!(py, "_put_result"))?;
                    let session = executor.getattr(pyo3::intern!(py, "session"))?;
                    let (error, index, success) = arguments;
                    let arguments = (put_result, error, index, success);
                    session.call_method1(pyo3::intern!(py, "submit"), arguments)?;
                }
            }
            sent => sent?,
        }
        add(executor, depth, -1)?;
        Ok(true)
    }

    /// Sends a request. If the executor is sending one already, only adds the request to the list
    /// `_pending_executions`; the call that is sending then sends it afterwards. This happens if a
    /// request ends while it is being sent, because its callback then calls this function. Nested
    /// sends would make the stack deeper.
    fn execute_pending<'py>(
        &self,
        executor: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
        statement: &Bound<'py, PyAny>,
        parameters: &Bound<'py, PyAny>,
    ) -> PyResult<bool> {
        let py = executor.py();
        let executing = pyo3::intern!(py, "_executing");
        let name = pyo3::intern!(py, "_pending_executions");
        if executor.getattr(executing)?.is_truthy()? {
            let entry = PyTuple::new(py, [index, statement, parameters])?;
            let pending = executor.getattr(name)?;
            pending.call_method1(pyo3::intern!(py, "append"), (entry,))?;
            return Ok(true);
        }
        executor.setattr(executing, PyBool::new(py, true))?;
        let sent = executor.setattr(name, PyList::empty(py)).and_then(|()| {
            self.send_or_fail(executor, index, statement, parameters)?;
            self.send_rest(executor, name)
        });
        executor.setattr(executing, PyBool::new(py, false))?;
        sent?;
        Ok(true)
    }

    fn send_rest<'py>(
        &self,
        executor: &Bound<'py, PyAny>,
        name: &Bound<'py, PyString>,
    ) -> PyResult<()> {
        let py = executor.py();
        loop {
            let pending = executor.getattr(name)?;
            if !pending.is_truthy()? {
                return Ok(());
            }
            let next = pending.call_method1(pyo3::intern!(py, "pop"), (0,))?;
            let next = next.cast_into_exact::<PyTuple>()?;
            let (index, statement) = (next.get_item(0)?, next.get_item(1)?);
            self.send_or_fail(executor, &index, &statement, &next.get_item(2)?)?;
        }
    }

    fn send_or_fail<'py>(
        &self,
        executor: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
        statement: &Bound<'py, PyAny>,
        parameters: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let py = executor.py();
        match self.send(executor, index, statement, parameters) {
            Err(error) if error.is_instance_of::<PyException>(py) => {
                let arguments = (error.value(py), index, PyBool::new(py, false));
                executor.call_method1(pyo3::intern!(py, "_put_result"), arguments).map(drop)
            }
            sent => sent,
        }
    }

    /// Sends a request and adds the executor's callbacks to its future.
    fn send<'py>(
        &self,
        executor: &Bound<'py, PyAny>,
        index: &Bound<'py, PyAny>,
        statement: &Bound<'py, PyAny>,
        parameters: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let py = executor.py();
        let options = PyDict::new(py);
        if self.is_without_timeout {
            options.set_item(pyo3::intern!(py, "timeout"), py.None())?;
        }
        let profile = executor.getattr(pyo3::intern!(py, "_execution_profile"))?;
        options.set_item(pyo3::intern!(py, "execution_profile"), profile)?;
        let future = executor.getattr(pyo3::intern!(py, "session"))?.call_method(
            pyo3::intern!(py, "execute_async"),
            (statement, parameters),
            Some(&options),
        )?;
        let further = PyTuple::new(py, [&future, index])?;
        let callback = executor.getattr(pyo3::intern!(py, "_on_success"))?;
        let errback = executor.getattr(pyo3::intern!(py, "_on_error"))?;
        let add_callbacks = pyo3::intern!(py, "add_callbacks");
        let options = PyDict::new(py);
        options.set_item(pyo3::intern!(py, "callback"), callback)?;
        options.set_item(pyo3::intern!(py, "callback_args"), &further)?;
        options.set_item(pyo3::intern!(py, "errback"), errback)?;
        options.set_item(pyo3::intern!(py, "errback_args"), &further)?;
        future.call_method(add_callbacks, (), Some(&options)).map(drop)
    }
}

/// Adds `more` to the attribute `name`, a number.
pub(super) fn add(
    object: &Bound<'_, PyAny>,
    name: &Bound<'_, PyString>,
    more: i64,
) -> PyResult<()> {
    let before = object.getattr(name)?;
    match before.cast_exact::<PyInt>().ok().and_then(|before| before.extract::<i64>().ok()) {
        Some(before) => object.setattr(name, before + more),
        None => object.setattr(name, before.add(more)?),
    }
}
