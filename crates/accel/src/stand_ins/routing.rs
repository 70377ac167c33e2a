//! The stand-in for `BoundStatement.routing_key`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyType};

use super::counts::Counts;
use super::key_parts::{packed, packs_as_driver};
use crate::ffi::call::{self, StandIn};

/// Stands in for the getter of the property `BoundStatement.routing_key`.
#[pyclass(frozen, module = "turbocql._core")]
pub struct RoutingStandIn {
    original: Py<PyAny>,
    class: Py<PyType>,
    /// The driver's `_key_parts_packed`.
    packer: Py<PyAny>,
    counts: Counts,
}

#[pymethods]
impl RoutingStandIn {
    #[new]
    fn new(original: Py<PyAny>, owner: Py<PyType>, packer: Py<PyAny>) -> RoutingStandIn {
        RoutingStandIn { original, class: owner, packer, counts: Counts::default() }
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

impl StandIn for RoutingStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        let [statement] = arguments else { return Ok(None) };
        if !statement.get_type().is(&stand_in.class) {
            return Ok(None);
        }
        let prepared = statement.getattr(pyo3::intern!(py, "prepared_statement"))?;
        let indexes = prepared.getattr(pyo3::intern!(py, "routing_key_indexes"))?;
        if indexes.is_none() {
            stand_in.counts.native();
            return Ok(Some(indexes));
        }
        let Ok(indexes) = indexes.cast_exact::<PyList>() else { return Ok(None) };
        if indexes.is_empty() {
            stand_in.counts.native();
            return Ok(Some(py.None().into_bound(py)));
        }
        let attribute = pyo3::intern!(py, "_routing_key");
        let routing_key = statement.getattr(attribute)?;
        if !routing_key.is_none() {
            stand_in.counts.native();
            return Ok(Some(routing_key));
        }
        let values = statement.getattr(pyo3::intern!(py, "values"))?;
        let Ok(values) = values.cast_exact::<PyList>() else { return Ok(None) };
        if indexes.len() == 1 {
            let Ok(index) = indexes.get_item(0)?.extract::<usize>() else { return Ok(None) };
            let Ok(part) = values.get_item(index) else { return Ok(None) };
            statement.setattr(attribute, &part)?;
            stand_in.counts.native();
            return Ok(Some(part));
        }
        let mut parts = Vec::with_capacity(indexes.len());
        for index in indexes {
            let Ok(index) = index.extract::<usize>() else { return Ok(None) };
            let Ok(part) = values.get_item(index) else { return Ok(None) };
            let Ok(part) = part.cast_into_exact::<PyBytes>() else { return Ok(None) };
            parts.push(part);
        }
        if !packs_as_driver(&stand_in.packer, statement) {
            return Ok(None);
        }
        let Some(key) = packed(py, &parts)? else { return Ok(None) };
        statement.setattr(attribute, &key)?;
        stand_in.counts.native();
        Ok(Some(key.into_any()))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
