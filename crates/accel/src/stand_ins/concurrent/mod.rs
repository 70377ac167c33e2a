//! Stand-ins for the methods of the executors behind `execute_concurrent`.
//!
//! Executors, their results and the futures stay objects of the driver's classes.

mod execute;
mod results;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::counts::Counts;
use super::response::events::ThreadEvents;
use super::result_set::ResultSets;
use super::usual::Usual;
use crate::ffi::call::{self, StandIn};

/// The classes and values of the driver that the stand-ins use.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Executors {
    /// The class of executors that return a list.
    of_lists: Py<PyType>,
    /// The class of executors that return a generator.
    of_generators: Py<PyType>,
    usual: Py<Usual>,
    events: Py<ThreadEvents>,
    result_sets: Py<ResultSets>,
    /// The named tuple class of a request's result: `ExecutionResult`.
    result: Py<PyType>,
    /// `tuple.__new__`.
    new_tuple: Py<PyAny>,
    heappush: Py<PyAny>,
    enumerate: Py<PyType>,
    /// A Python function that unpacks a statement and its parameters.
    unpack: Py<PyAny>,
    /// Whether executors have the list `_pending_executions`. A request that comes while the
    /// executor sends another request waits there.
    has_pending: bool,
    /// Whether the driver's executors call `execute_async` with `timeout=None`.
    is_without_timeout: bool,
}

#[pymethods]
impl Executors {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "Python code passes each by name")]
    fn new(
        of_lists: Py<PyType>,
        of_generators: Py<PyType>,
        usual: Py<Usual>,
        events: Py<ThreadEvents>,
        result_sets: Py<ResultSets>,
        result: Py<PyType>,
        new_tuple: Py<PyAny>,
        heappush: Py<PyAny>,
        enumerate: Py<PyType>,
        unpack: Py<PyAny>,
        has_pending: bool,
        is_without_timeout: bool,
    ) -> Executors {
        Executors {
            of_lists,
            of_generators,
            usual,
            events,
            result_sets,
            result,
            new_tuple,
            heappush,
            enumerate,
            unpack,
            has_pending,
            is_without_timeout,
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Execute,
    OnSuccess,
    PutResult,
}

/// Stands in for one method of the executors.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ExecutorStandIn {
    original: Py<PyAny>,
    executors: Py<Executors>,
    kind: Kind,
    counts: Counts,
}

#[pymethods]
impl ExecutorStandIn {
    #[new]
    fn new(original: Py<PyAny>, executors: Py<Executors>, name: &str) -> PyResult<ExecutorStandIn> {
        let kind = match name {
            "_execute" => Kind::Execute,
            "_on_success" => Kind::OnSuccess,
            "_put_result" => Kind::PutResult,
            _ => return Err(PyValueError::new_err(format!("unknown function: {name:?}"))),
        };
        Ok(ExecutorStandIn { original, executors, kind, counts: Counts::default() })
    }

    /// Returns the function that replaces the driver's.
    fn function<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, &this.get().original)
    }

    /// The numbers of native calls and of fallbacks.
    fn counts(&self) -> (u64, u64) {
        self.counts.get()
    }
}

impl StandIn for ExecutorStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        let executors = stand_in.executors.get();
        let [executor, first, second, third] = arguments else { return Ok(None) };
        let class = executor.get_type();
        let is_list = class.is(&executors.of_lists);
        if !is_list && !class.is(&executors.of_generators) || !executors.usual.get().holds(py)? {
            return Ok(None);
        }
        let done = match stand_in.kind {
            Kind::Execute => executors.execute(executor, first, second, third)?,
            Kind::OnSuccess => executors.on_success(executor, first, second, third)?,
            Kind::PutResult => executors.put_result(executor, first, second, third, is_list)?,
        };
        if !done {
            return Ok(None);
        }
        stand_in.counts.native();
        Ok(Some(py.None().into_bound(py)))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
