//! A function whose calls are counted, and that is all.

use pyo3::prelude::*;

use super::Counts;
use crate::ffi::call::{self, StandIn};

/// Stands in for `bind_params`: each call is the driver's, with the same arguments.
#[pyclass(frozen, module = "turbocql._core")]
pub struct CountedStandIn {
    original: Py<PyAny>,
    counts: Counts,
}

#[pymethods]
impl CountedStandIn {
    #[new]
    fn new(original: Py<PyAny>) -> CountedStandIn {
        CountedStandIn { original, counts: Counts::default() }
    }

    /// What takes the function's place; `doc` begins with its parameters.
    fn function<'py>(this: &Bound<'py, Self>, doc: &str) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, c"bind_params", doc)
    }

    /// How often it was native, which is never, and how often the original's.
    fn counts(&self) -> (u64, u64) {
        self.counts.get()
    }
}

impl StandIn for CountedStandIn {
    fn call<'py>(
        _this: &Bound<'py, Self>,
        _arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(None)
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
