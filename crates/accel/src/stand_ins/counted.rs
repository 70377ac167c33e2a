//! A stand-in that only counts calls and hands each of them to its original.

use pyo3::prelude::*;

use super::counts::Counts;
use crate::ffi::call::{self, StandIn};

/// Stands in for `bind_params`. Each call goes to the original, with the same arguments.
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

    /// The built-in function that replaces the original. `doc` is its signature and docstring, in
    /// the form that CPython expects of built-in functions.
    fn function<'py>(this: &Bound<'py, Self>, doc: &str) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, c"bind_params", doc)
    }

    /// Calls done natively (always 0), and calls handed to the original.
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
