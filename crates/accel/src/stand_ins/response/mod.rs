//! Stand-ins for methods of the driver's `ResponseFuture`.
//!
//! Futures stay objects of the driver's class, with all the attributes that the driver sets.

mod callbacks;
mod creating;
mod ending;
pub mod events;
mod making;
mod message;
mod options;
mod querying;
mod token;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use super::counts::Counts;
use super::result_set::ResultSets;
use super::usual::Usual;
use crate::ffi::call::{self, StandIn};
pub use creating::{CreateStandIn, FutureMaker};
use events::ThreadEvents;
pub use querying::{QueryStandIn, RequestSender};

/// The driver's classes and values that the stand-ins use.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Responses {
    class: Py<PyType>,
    events: Py<ThreadEvents>,
    /// The driver's value for a result that has not arrived yet.
    not_set: Py<PyAny>,
    /// The module `time`, whose `time` the driver calls.
    time: Py<PyAny>,
    /// The class of the speculative execution plan that never sends an additional request.
    no_plan: Py<PyType>,
    result_message: Py<PyType>,
    log: Py<PyAny>,
    result_sets: Py<ResultSets>,
    /// Whether futures have the attributes that only scylla-driver has.
    is_scylla: bool,
}

#[pymethods]
impl Responses {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "Python code passes each by name")]
    fn new(
        owner: Py<PyType>,
        events: Py<ThreadEvents>,
        not_set: Py<PyAny>,
        time: Py<PyAny>,
        no_plan: Py<PyType>,
        result_message: Py<PyType>,
        log: Py<PyAny>,
        result_sets: Py<ResultSets>,
        is_scylla: bool,
    ) -> Responses {
        Responses {
            class: owner,
            events,
            not_set,
            time,
            no_plan,
            result_message,
            log,
            result_sets,
            is_scylla,
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Make,
    StartTimer,
    CancelTimer,
    SetResult,
    SetFinalResult,
    AddCallback,
    AddErrback,
    AddCallbacks,
    ClearCallbacks,
    Result,
}

/// Stands in for one method of `ResponseFuture`.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ResponseStandIn {
    original: Py<PyAny>,
    responses: Py<Responses>,
    /// Checks that the classes and functions of the driver that this method uses are still the
    /// driver's own. This includes those that native code imitates without calling them.
    usual: Py<Usual>,
    kind: Kind,
    counts: Counts,
}

#[pymethods]
impl ResponseStandIn {
    #[new]
    fn new(
        original: Py<PyAny>,
        responses: Py<Responses>,
        usual: Py<Usual>,
        name: &str,
    ) -> PyResult<ResponseStandIn> {
        let kind = match name {
            "__init__" => Kind::Make,
            "_start_timer" => Kind::StartTimer,
            "_cancel_timer" => Kind::CancelTimer,
            "_set_result" => Kind::SetResult,
            "_set_final_result" => Kind::SetFinalResult,
            "add_callback" => Kind::AddCallback,
            "add_errback" => Kind::AddErrback,
            "add_callbacks" => Kind::AddCallbacks,
            "clear_callbacks" => Kind::ClearCallbacks,
            "result" => Kind::Result,
            _ => return Err(PyValueError::new_err(format!("unknown function: {name:?}"))),
        };
        Ok(ResponseStandIn { original, responses, usual, kind, counts: Counts::default() })
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

impl ResponseStandIn {
    fn run<'py>(
        &self,
        py: Python<'py>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let responses = self.responses.get();
        let Some(future) = arguments.first() else { return Ok(None) };
        if !future.get_type().is(&responses.class) || !self.usual.get().holds(py)? {
            return Ok(None);
        }
        if matches!(self.kind, Kind::Result) {
            let [future] = arguments else { return Ok(None) };
            let result = responses.result(future)?;
            if result.is_some() {
                self.counts.native();
            }
            return Ok(result);
        }
        let done = match (self.kind, arguments) {
            (Kind::Make, _) => responses.make(arguments, names)?,
            (Kind::StartTimer, [future]) if names.is_none() => responses.start_timer(future)?,
            (Kind::CancelTimer, [future]) if names.is_none() => responses.cancel_timer(future)?,
            (Kind::SetResult, [future, host, connection, pool, response]) if names.is_none() => {
                responses.set_result(future, host, connection, pool, response)?
            }
            (Kind::SetFinalResult, [future, response]) if names.is_none() => {
                responses.set_final_result(future, response)?
            }
            (Kind::AddCallback, _) => responses.add_callback(arguments, names)?,
            (Kind::AddErrback, _) => responses.add_errback(arguments, names)?,
            (Kind::AddCallbacks, _) => responses.add_callbacks(arguments, names)?,
            (Kind::ClearCallbacks, [future]) if names.is_none() => {
                responses.clear_callbacks(future)?
            }
            _ => false,
        };
        if !done {
            return Ok(None);
        }
        self.counts.native();
        Ok(Some(match self.kind {
            Kind::AddCallback | Kind::AddErrback => (**future).clone(),
            Kind::Make
            | Kind::StartTimer
            | Kind::CancelTimer
            | Kind::SetResult
            | Kind::SetFinalResult
            | Kind::AddCallbacks
            | Kind::ClearCallbacks
            | Kind::Result => py.None().into_bound(py),
        }))
    }
}

impl StandIn for ResponseStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        this.get().run(this.py(), arguments, None)
    }

    fn call_named<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        this.get().run(this.py(), arguments, Some(names))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
