//! `Timer.cancel`, after which a timer need not keep what it would have called.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyType};

use super::Counts;
use super::method::StandInMethod;
use crate::ffi::call::{self, StandIn};

/// Stands in for `cancel()`: does what it does, and lets go of the callback.
///
/// By it a timer refers to its request, which refers to the timer: a request that was answered is
/// work for the garbage collector, and the driver's queue of timers may keep it besides. With the
/// callback gone it is freed when nobody else has it.
#[pyclass(frozen, module = "turbocql._core")]
pub struct TimerStandIn {
    original: Py<PyAny>,
    /// The class itself; those derived from it may need their callback.
    class: Py<PyType>,
    /// What stands in the callback's place: somebody may be about to call it.
    nothing: Py<PyAny>,
    counts: Counts,
}

#[pymethods]
impl TimerStandIn {
    #[new]
    fn new(original: Py<PyAny>, owner: Py<PyType>, nothing: Py<PyAny>) -> TimerStandIn {
        TimerStandIn { original, class: owner, nothing, counts: Counts::default() }
    }

    /// What takes the method's place; `doc` begins with its parameters.
    fn function<'py>(this: &Bound<'py, Self>, doc: &str) -> PyResult<Bound<'py, PyAny>> {
        StandInMethod::make(&call::function(this, c"cancel", doc)?, &this.get().original)
    }

    /// How often it was native, and how often the original's.
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
