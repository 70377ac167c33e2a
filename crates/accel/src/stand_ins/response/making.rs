//! Makes futures and starts their timers.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyTuple};

use super::Responses;
use crate::stand_ins::arguments::sorted;
use crate::stand_ins::fields::State;

const PARAMETERS: [&str; 16] = [
    "self",
    "session",
    "message",
    "query",
    "timeout",
    "metrics",
    "prepared_statement",
    "retry_policy",
    "row_factory",
    "load_balancer",
    "start_time",
    "speculative_execution_plan",
    "continuous_paging_state",
    "host",
    "bound_result_metadata",
    "routing_token",
];
/// The number of parameters that only scylla-driver has. They are the last ones.
const OF_SCYLLA: usize = 2;

impl Responses {
    /// Does what `ResponseFuture.__init__` does. Returns false if that method must be called.
    pub fn make<'py>(
        &self,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<bool> {
        let Some(values) = sorted(arguments, names, &PARAMETERS) else { return Ok(false) };
        self.initialize(&values.map(|value| value.map(|value| &**value)))
    }

    /// Does what `ResponseFuture.__init__` does with the values of `PARAMETERS`, the future first.
    /// Returns false if that method must be called; nothing has happened then.
    pub fn initialize<'py>(&self, values: &[Option<&Bound<'py, PyAny>>; 16]) -> PyResult<bool> {
        // The driver passes a retry policy. If a caller passes none, the driver's method is called:
        // the parameter's default is an object that only the driver has.
        let &[Some(future), Some(session), Some(message), Some(query), Some(timeout), ..] = values
        else {
            return Ok(false);
        };
        let Some(retry_policy) = values[7] else { return Ok(false) };
        let of_scylla = &values[PARAMETERS.len() - OF_SCYLLA..];
        if !self.is_scylla && of_scylla.iter().any(Option::is_some) {
            return Ok(false);
        }
        let py = future.py();
        let none = py.None().into_bound(py);
        let or_none = |position: usize| values[position].unwrap_or(&none);
        // As in the driver, a falsy argument counts as missing.
        let chosen = |position: usize| -> PyResult<Option<&Bound<'py, PyAny>>> {
            let value = or_none(position);
            Ok(value.is_truthy()?.then_some(value))
        };
        let state = State::of(future, self.is_scylla);
        state.set(pyo3::intern!(py, "session"), session)?;
        let row_factory = match chosen(8)? {
            Some(row_factory) => row_factory.clone(),
            None => session.getattr(pyo3::intern!(py, "row_factory"))?,
        };
        state.set(pyo3::intern!(py, "row_factory"), row_factory)?;
        let load_balancer = match chosen(9)? {
            Some(load_balancer) => load_balancer.clone(),
            None => session
                .getattr(pyo3::intern!(py, "cluster"))?
                .getattr(pyo3::intern!(py, "_default_load_balancing_policy"))?,
        };
        state.set(pyo3::intern!(py, "_load_balancer"), load_balancer)?;
        state.set(pyo3::intern!(py, "message"), message)?;
        state.set(pyo3::intern!(py, "query"), query)?;
        state.set(pyo3::intern!(py, "timeout"), timeout)?;
        state.set(pyo3::intern!(py, "_retry_policy"), retry_policy)?;
        state.set(pyo3::intern!(py, "_metrics"), or_none(5))?;
        state.set(pyo3::intern!(py, "prepared_statement"), or_none(6))?;
        if self.is_scylla {
            let metadata = match values[14] {
                Some(metadata) if !metadata.is(&self.not_set) => metadata.clone(),
                _ => PyList::empty(py).into_any(),
            };
            state.set(pyo3::intern!(py, "_bound_result_metadata"), metadata)?;
        }
        let events = self.events.get();
        state.set(pyo3::intern!(py, "_callback_lock"), events.lock(py)?)?;
        let start = match chosen(10)? {
            Some(start) => start.clone(),
            None => self.now(py)?,
        };
        state.set(pyo3::intern!(py, "_start_time"), start)?;
        state.set(pyo3::intern!(py, "_host"), or_none(13))?;
        if self.is_scylla {
            state.set(pyo3::intern!(py, "_routing_token"), or_none(15))?;
            let not_yet = PyBool::new(py, false);
            state.set(pyo3::intern!(py, "_control_connection_query_attempted"), not_yet)?;
            state.set(pyo3::intern!(py, "_page_generation"), 0)?;
            state.set(pyo3::intern!(py, "_retry_aborted"), not_yet)?;
        }
        let plan_name = pyo3::intern!(py, "_spec_execution_plan");
        let plan = match chosen(11)? {
            Some(plan) => plan.clone(),
            None => future.getattr(plan_name)?,
        };
        state.set(plan_name, plan)?;
        future.call_method0(pyo3::intern!(py, "_make_query_plan"))?;
        state.set(pyo3::intern!(py, "_event"), events.event(py)?)?;
        state.set(pyo3::intern!(py, "_errors"), PyDict::new(py))?;
        state.set(pyo3::intern!(py, "_callbacks"), PyList::empty(py))?;
        state.set(pyo3::intern!(py, "_errbacks"), PyList::empty(py))?;
        if self.is_scylla {
            let name = pyo3::intern!(py, "_control_connection_requests");
            state.set(name, PyDict::new(py))?;
        }
        state.set(pyo3::intern!(py, "attempted_hosts"), PyList::empty(py))?;
        future.call_method0(pyo3::intern!(py, "_start_timer"))?;
        state.set(pyo3::intern!(py, "_continuous_paging_state"), or_none(12))?;
        Ok(true)
    }

    /// Does what the driver's `_start_timer` does. Returns false if that method must be called.
    pub fn start_timer(&self, future: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = future.py();
        let timer = pyo3::intern!(py, "_timer");
        if !future.getattr(timer)?.is_none() {
            return Ok(true);
        }
        let state = State::of(future, self.is_scylla);
        let plan = state.get(pyo3::intern!(py, "_spec_execution_plan"))?;
        if !plan.get_type().is(&self.no_plan) || has_attributes(&plan)? {
            return Ok(false);
        }
        let timeout = state.get(pyo3::intern!(py, "timeout"))?;
        if timeout.is_none() {
            return Ok(true);
        }
        let end = state.get(pyo3::intern!(py, "_start_time"))?.add(timeout)?;
        let remaining = end.sub(self.now(py)?)?;
        let create = state
            .get(pyo3::intern!(py, "session"))?
            .getattr(pyo3::intern!(py, "cluster"))?
            .getattr(pyo3::intern!(py, "connection_class"))?;
        let callback = future.getattr(pyo3::intern!(py, "_on_timeout"))?;
        let created =
            create.call_method1(pyo3::intern!(py, "create_timer"), (remaining, callback))?;
        state.set(timer, created)?;
        Ok(true)
    }

    pub fn now<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.time.bind(py).call_method0(pyo3::intern!(py, "time"))
    }
}

/// Whether an object has instance attributes, which may shadow methods of its class.
fn has_attributes(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    object.getattr(pyo3::intern!(object.py(), "__dict__"))?.is_truthy()
}
