//! Ends a request: its result goes into the future and to the callbacks.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::Responses;
use super::callbacks::after;
use crate::ffi::attribute;
use crate::stand_ins::fields::State;

const VOID: i64 = 1;
const ROWS: i64 = 2;

impl Responses {
    /// Does what the driver's `_set_result` does for results of the kinds `VOID` and `ROWS`.
    /// Returns false if that method must be called.
    pub fn set_result<'py>(
        &self,
        future: &Bound<'py, PyAny>,
        host: &Bound<'py, PyAny>,
        connection: &Bound<'py, PyAny>,
        pool: &Bound<'py, PyAny>,
        response: &Bound<'py, PyAny>,
    ) -> PyResult<bool> {
        let py = future.py();
        // Only the driver's messages are handled, because reading their attributes has no side
        // effects.
        if !response.get_type().is_subclass(self.result_message.bind(py))? {
            return Ok(false);
        }
        let kind: Option<i64> = response.getattr(pyo3::intern!(py, "kind"))?.extract().ok();
        let is_rows = match kind {
            Some(VOID) => false,
            Some(ROWS) => true,
            _ => return Ok(false),
        };
        for name in [pyo3::intern!(py, "trace_id"), pyo3::intern!(py, "custom_payload")] {
            if let Some(value) = attribute::optional(response, name)?
                && value.is_truthy()?
            {
                return Ok(false);
            }
        }
        if is_rows && self.is_special(future, response)? {
            return Ok(false);
        }
        let ended = self.end(future, (host, connection, pool), response, is_rows);
        match ended {
            Err(error) if error.is_instance_of::<PyException>(py) => {
                let options = PyDict::new(py);
                options.set_item(pyo3::intern!(py, "exc_info"), error.value(py))?;
                self.log.bind(py).call_method(
                    pyo3::intern!(py, "exception"),
                    ("Unexpected exception while handling result in ResponseFuture:",),
                    Some(&options),
                )?;
                let name = pyo3::intern!(py, "_set_final_exception");
                future.call_method1(name, (error.value(py),))?;
            }
            ended => ended?,
        }
        Ok(true)
    }

    /// Whether the driver handles these rows in a way that native code does not: it takes changed
    /// columns from the response, or uses continuous paging.
    fn is_special(&self, future: &Bound<'_, PyAny>, response: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = future.py();
        let message = future.getattr(pyo3::intern!(py, "message"))?;
        let options = pyo3::intern!(py, "continuous_paging_options");
        if let Some(options) = attribute::optional(&message, options)?
            && options.is_truthy()?
        {
            return Ok(true);
        }
        let id = pyo3::intern!(py, "result_metadata_id");
        let id = attribute::optional(response, id)?.filter(|id| !id.is_none());
        Ok(self.is_scylla && id.is_some())
    }

    fn end<'py>(
        &self,
        future: &Bound<'py, PyAny>,
        (host, connection, pool): (&Bound<'py, PyAny>, &Bound<'py, PyAny>, &Bound<'py, PyAny>),
        response: &Bound<'py, PyAny>,
        is_rows: bool,
    ) -> PyResult<()> {
        let py = future.py();
        let state = State::of(future, self.is_scylla);
        state.set(pyo3::intern!(py, "coordinator_host"), host)?;
        if pool.is_truthy()?
            && !(self.is_scylla && pool.getattr(pyo3::intern!(py, "is_shutdown"))?.is_truthy()?)
        {
            pool.call_method1(pyo3::intern!(py, "return_connection"), (connection,))?;
        }
        for (own, name) in [
            (pyo3::intern!(py, "_warnings"), pyo3::intern!(py, "warnings")),
            (pyo3::intern!(py, "_custom_payload"), pyo3::intern!(py, "custom_payload")),
        ] {
            state.set(own, attribute::optional(response, name)?)?;
        }
        let set_final_result = pyo3::intern!(py, "_set_final_result");
        if !is_rows {
            return future.call_method1(set_final_result, (py.None(),)).map(drop);
        }
        let names = response.getattr(pyo3::intern!(py, "column_names"))?;
        let paging_state = response.getattr(pyo3::intern!(py, "paging_state"))?;
        state.set(pyo3::intern!(py, "_paging_state"), paging_state)?;
        state.set(pyo3::intern!(py, "_col_names"), &names)?;
        let types = response.getattr(pyo3::intern!(py, "column_types"))?;
        state.set(pyo3::intern!(py, "_col_types"), types)?;
        let rows = response.getattr(pyo3::intern!(py, "parsed_rows"))?;
        let row_factory = pyo3::intern!(py, "row_factory");
        let rows = future.call_method1(row_factory, (names, rows))?;
        future.call_method1(set_final_result, (rows,)).map(drop)
    }

    /// Does what the driver's `result` does for a request that succeeds. Returns `None` if that
    /// method must be called.
    pub fn result<'py>(&self, future: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = future.py();
        let event = future.getattr(pyo3::intern!(py, "_event"))?;
        if !self.events.get().wait(&event)? {
            return Ok(None);
        }
        let rows = future.getattr(pyo3::intern!(py, "_final_result"))?;
        if rows.is(&self.not_set) {
            return Ok(None);
        }
        self.result_sets.get().make(future, &rows).map(Some)
    }

    /// Does what the driver's `_cancel_timer` does. Always returns true.
    pub fn cancel_timer(&self, future: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = future.py();
        let timer = future.getattr(pyo3::intern!(py, "_timer"))?;
        if timer.is_truthy()? {
            timer.call_method0(pyo3::intern!(py, "cancel"))?;
        }
        Ok(true)
    }

    /// Does what the driver's `_set_final_result` does. Returns false if that method must be
    /// called.
    pub fn set_final_result<'py>(
        &self,
        future: &Bound<'py, PyAny>,
        response: &Bound<'py, PyAny>,
    ) -> PyResult<bool> {
        let py = future.py();
        let state = State::of(future, self.is_scylla);
        let events = self.events.get();
        if !state.get(pyo3::intern!(py, "_metrics"))?.is_none() {
            return Ok(false);
        }
        future.call_method0(pyo3::intern!(py, "_cancel_timer"))?;
        let event = state.get(pyo3::intern!(py, "_event"))?;
        // If false is returned, the driver's method cancels the timer again, which has no effect.
        let lock = state.get(pyo3::intern!(py, "_callback_lock"))?;
        if !events.is_free(&lock)? {
            return Ok(false);
        }
        let callbacks = pyo3::intern!(py, "_callbacks");
        let Some(earlier) = calls(&state.get(callbacks)?)? else { return Ok(false) };
        if self.is_scylla && state.get(pyo3::intern!(py, "_retry_aborted"))?.is_truthy()? {
            return Ok(true);
        }
        state.set(pyo3::intern!(py, "_final_result"), response)?;
        // Since the list was read, Python code may have run and added callbacks. They are in the
        // list now. Whoever adds a callback from now on sees the result, and calls the callback.
        let calls = calls(&state.get(callbacks)?)?.unwrap_or(earlier);
        events.set(&event)?;
        for call in calls {
            let call = call.bind(py);
            let function = call.get_borrowed_item(0)?;
            let (further, named) = (call.get_item(1)?, call.get_item(2)?);
            let further = further.cast_into_exact::<PyTuple>()?;
            let named = named.cast_into_exact::<PyDict>()?;
            match (further.is_empty(), named.is_empty()) {
                (true, true) => function.call1((response,))?,
                (_, is_unnamed) => {
                    let arguments = after(response, further)?;
                    function.call(arguments, (!is_unnamed).then_some(&named))?
                }
            };
        }
        Ok(true)
    }
}

/// Returns the entries of a list of callbacks. Returns None if an entry is not as `add_callback`
/// makes it, or if its function cannot be called: the driver then raises an error before it sets
/// the result.
fn calls(callbacks: &Bound<'_, PyAny>) -> PyResult<Option<Vec<Py<PyTuple>>>> {
    let Ok(callbacks) = callbacks.cast_exact::<PyList>() else { return Ok(None) };
    let mut calls = Vec::with_capacity(callbacks.len());
    for entry in callbacks {
        let Ok(entry) = entry.cast_into_exact::<PyTuple>() else { return Ok(None) };
        let is_usual = entry.len() == 3
            && entry.get_borrowed_item(0)?.is_callable()
            && entry.get_borrowed_item(1)?.is_exact_instance_of::<PyTuple>()
            && entry.get_borrowed_item(2)?.is_exact_instance_of::<PyDict>();
        if !is_usual {
            return Ok(None);
        }
        calls.push(entry.unbind());
    }
    Ok(Some(calls))
}
