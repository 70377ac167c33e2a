//! Sends a failed request again, if the application's `retry_when` function returns a delay.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBool;
use turbocql_engine::EngineError;
use turbocql_values::value::describe::describe;

use crate::classes::request::call::Execute;
use crate::classes::request::how::How;
use crate::op::{Arrival, Next, OpState, Step};
use crate::options::or_default;
use crate::python;

/// The data with which the request of a call can be sent again.
pub struct Again {
    pub execute: Execute,
    pub how: How,
    /// The application's function, set with `Session.retry_when`.
    pub decide: Py<PyAny>,
    pub began: Instant,
    /// How many times the request was sent again.
    pub count: u32,
    /// Whether an earlier request of the call may have been applied.
    pub in_doubt: bool,
    /// The error of the last request. It is raised if the request cannot be sent again.
    pub last: Option<PyErr>,
}

impl Again {
    /// Wraps the step of a request, so that the request can be sent again if the step fails.
    pub fn watch(self, next: Next) -> Next {
        match next {
            Next::Again(step) => Next::Again(Box::new(Watched { step, again: self })),
            done => done,
        }
    }

    /// Sets `may_have_applied` in an error, if an earlier request of the call may have been
    /// applied.
    fn note_doubt(&self, py: Python<'_>, error: &PyErr) {
        if self.in_doubt {
            drop(error.value(py).setattr("may_have_applied", true));
        }
    }

    /// Returns the error of a call whose request could not be sent again because of `error`. If the
    /// reason is that the session has no room or is closed, returns the error of the last request
    /// instead of `error`.
    fn refused(&mut self, py: Python<'_>, error: PyErr) -> PyResult<Next> {
        let is_of_session = error.value(py).is_instance(python::request_error(py)?)?
            || self.execute.session(py).check_open().is_err();
        let last = self.last.take().filter(|_| is_of_session);
        Err(last.unwrap_or_else(|| {
            self.note_doubt(py, &error);
            error
        }))
    }

    /// Decides whether a failed request is sent again. If it is safe to send the request again, the
    /// application's function decides. If the request is not sent again, returns its error.
    fn after(mut self, py: Python<'_>, error: PyErr, op: &Arc<OpState>) -> PyResult<Next> {
        let value = error.value(py);
        if !value.is_instance(python::request_error(py)?)? {
            return Err(error);
        }
        let session = self.execute.session(py);
        let options = self.execute.options_to_wait(py, &self.how)?;
        let is_idempotent = or_default(&options).idempotent == Some(true);
        let may_have_applied: bool = value.getattr("may_have_applied")?.extract()?;
        if may_have_applied && !is_idempotent {
            return Err(error);
        }
        let answer = match self.decide.bind(py).call1((value, self.count)) {
            Ok(answer) if answer.is_none() => return Err(error),
            Ok(answer) => delay(&answer),
            Err(raised) => Err(raised),
        };
        let delay = answer.inspect_err(|raised| {
            // The request's error becomes the context of the function's error, as if the function
            // had raised its error in an `except` block.
            let raised = raised.value(py);
            if !raised.is(value) {
                drop(raised.setattr("__context__", value));
            }
        })?;
        let remaining = session.engine.remaining_time(or_default(&options), self.began);
        // The application's function may have canceled the call, closed the session or forked the
        // process.
        if remaining.is_some_and(|left| left <= delay)
            || op.is_abandoned()
            || session.check_open().is_err()
        {
            return Err(error);
        }
        self.last = Some(error);
        self.count += 1;
        self.in_doubt |= may_have_applied;
        op.run(&session.runtime, async move {
            turbocql_engine::pause(delay).await;
            Ok(Arrival::Done)
        });
        Ok(Next::Again(Box::new(Pause(self))))
    }
}

/// Converts the answer of the application's function, a number of seconds, to a duration.
fn delay(answer: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let expected = "retry_when must return a number of seconds, or None";
    let seconds =
        if answer.is_instance_of::<PyBool>() { None } else { answer.extract::<f64>().ok() };
    let seconds = seconds
        .ok_or_else(|| PyTypeError::new_err(format!("{expected}, got {}", describe(answer))))?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{expected}, got {seconds:?}")))
}

/// The step of a request that may be sent again if the step fails.
struct Watched {
    step: Box<dyn Step>,
    again: Again,
}

impl Step for Watched {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        let Watched { step, mut again } = *self;
        let is_unsent = step.is_unsent();
        match step.arrived(py, arrival, op) {
            Ok(next) => Ok(again.watch(next)),
            Err(error) if is_unsent && again.last.is_some() => again.refused(py, error),
            Err(error) => {
                again.note_doubt(py, &error);
                again.after(py, error, op)
            }
        }
    }

    fn is_unsent(&self) -> bool {
        self.step.is_unsent()
    }
}

/// A request that waits for the delay before it is sent again.
struct Pause(Again);

impl Step for Pause {
    fn arrived(
        self: Box<Self>,
        py: Python<'_>,
        arrival: Result<Arrival, EngineError>,
        op: &Arc<OpState>,
    ) -> PyResult<Next> {
        let Pause(mut again) = *self;
        let session = again.execute.session(py);
        // If the session is closed during the wait, the arrival is an error. The call then ends
        // with the error of the last request.
        if (arrival.is_err() || session.check_open().is_err())
            && let Some(last) = again.last.take()
        {
            return Err(last);
        }
        let how = again.how.clone_ref(py);
        let options = session.with_origin_again(py, how.options, again.count)?;
        let how = How { options, began: Some(again.began), ..how };
        match again.execute.admit(py, how, op) {
            Ok(next) => Ok(again.watch(next)),
            Err(error) => again.refused(py, error),
        }
    }
}
