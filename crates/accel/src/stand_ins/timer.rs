//! The stand-in for `Timer.cancel`. It also drops the timer's callback.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyType};

use super::counts::Counts;
use crate::ffi::call::{self, StandIn};

/// Stands in for `cancel()`: does what the driver's function does, and drops the timer's callback.
///
/// The callback refers to the request, and the request refers to the timer. Because of this cycle,
/// only the GC can free a request that was answered. The driver's queue of timers can keep the
/// request alive even longer. Without the callback, the request is freed when the last reference to
/// the request is dropped.
#[pyclass(frozen, module = "turbocql._core")]
pub struct TimerStandIn {
    original: Py<PyAny>,
    /// Only instances of exactly this class are handled natively: a subclass may need its callback.
    class: Py<PyType>,
    /// A function that does nothing. The callback is replaced with this function, not with None,
    /// because another thread may be about to call the callback.
    nothing: Py<PyAny>,
    counts: Counts,
}

#[pymethods]
impl TimerStandIn {
    #[new]
    fn new(original: Py<PyAny>, owner: Py<PyType>, nothing: Py<PyAny>) -> TimerStandIn {
        TimerStandIn { original, class: owner, nothing, counts: Counts::default() }
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

impl StandIn for TimerStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        let [timer] = arguments else { return Ok(None) };
        if !timer.get_type().is(&stand_in.class) {
            return Ok(None);
        }
        timer.setattr(pyo3::intern!(py, "canceled"), PyBool::new(py, true))?;
        timer.setattr(pyo3::intern!(py, "callback"), &stand_in.nothing)?;
        stand_in.counts.native();
        Ok(Some(py.None().into_bound(py)))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
