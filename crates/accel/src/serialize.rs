//! `serialize` of the driver's types.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyType;

use super::{Counts, Entries, Entry, Writes, epoch, is_known_version};
use crate::ffi::call::{self, StandIn};
use crate::reader::ValueReader;
use turbocql_values::classes::cql_type::CqlType_;
use turbocql_values::value::HostPlan;

/// What is known of a class of the driver's: how its values become bytes, if that is usual.
#[pyclass(frozen, module = "turbocql._core")]
pub struct TypePlan {
    /// The class, by its address: the class itself has this object, which it outlives.
    class: usize,
    epoch: u64,
    plan: Option<Arc<HostPlan>>,
    /// How bytes become its values.
    reader: Option<Py<ValueReader>>,
    /// What the reader depends on.
    entries: Entries,
}

#[pymethods]
impl TypePlan {
    #[new]
    #[pyo3(signature = (owner, cql_type, reader = None, entries = Vec::new()))]
    fn new(
        owner: &Bound<'_, PyType>,
        cql_type: Option<&Bound<'_, CqlType_>>,
        reader: Option<Py<ValueReader>>,
        entries: Vec<Entry<'_>>,
    ) -> PyResult<TypePlan> {
        let plan = cql_type.map(|it| it.get().plan(it.py()).cloned()).transpose()?;
        let (class, entries) = (owner.as_ptr() as usize, Entries::new(entries));
        Ok(TypePlan { class, epoch: epoch(), plan, reader, entries })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.reader)?;
        self.entries.traverse(&visit)
    }

    /// The same for another class that is made of the same parts; None when it is out of date.
    fn for_class(&self, py: Python<'_>, owner: &Bound<'_, PyType>) -> Option<TypePlan> {
        (self.epoch == epoch() && self.entries.are_current(py)).then(|| TypePlan {
            class: owner.as_ptr() as usize,
            epoch: self.epoch,
            plan: self.plan.clone(),
            reader: self.reader.as_ref().map(|reader| reader.clone_ref(py)),
            entries: self.entries.clone_ref(py),
        })
    }
}

impl TypePlan {
    pub fn plan(&self) -> Option<&Arc<HostPlan>> {
        self.plan.as_ref()
    }

    /// None where the driver reads it, or what it is read by has been replaced.
    pub fn reader(&self, py: Python<'_>) -> Option<&ValueReader> {
        self.reader.as_ref().map(Py::get).filter(|_| self.entries.are_current(py))
    }
}

/// Stands in for `serialize(value, protocol_version)`, a class method or a static one.
#[pyclass(frozen, module = "turbocql._core")]
pub struct SerializeStandIn {
    original: Py<PyAny>,
    writes: Writes,
    source: PlanSource,
    counts: Counts,
}

enum PlanSource {
    /// Of a static method: one type.
    Fixed(Arc<HostPlan>),
    /// Of a class method: makes the `TypePlan` of a class that has none.
    ByClass(Py<PyAny>),
}

#[pymethods]
impl SerializeStandIn {
    /// `known` is a type, or what gives the `TypePlan` of a class.
    #[new]
    fn new(
        original: Py<PyAny>,
        writes: &str,
        known: &Bound<'_, PyAny>,
    ) -> PyResult<SerializeStandIn> {
        let writes = Writes::from_name(writes)?;
        let source = match known.cast::<CqlType_>() {
            Ok(cql_type) => PlanSource::Fixed(cql_type.get().plan(known.py())?.clone()),
            Err(_) => PlanSource::ByClass(known.clone().unbind()),
        };
        Ok(SerializeStandIn { original, writes, source, counts: Counts::default() })
    }

    /// What takes the function's place; `doc` begins with its parameters.
    fn function<'py>(this: &Bound<'py, Self>, doc: &str) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, c"serialize", doc)
    }

    /// How often it was native, and how often the original's.
    fn counts(&self) -> (u64, u64) {
        self.counts.get()
    }
}

impl StandIn for SerializeStandIn {
    #[inline]
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let stand_in = this.get();
        let bytes = match (&stand_in.source, arguments) {
            (PlanSource::Fixed(plan), [value, version]) if is_known_version(version) => {
                stand_in.writes.bytes(plan, value)
            }
            (PlanSource::ByClass(compile), [class, value, version])
                if is_known_version(version) =>
            {
                let known = known(class, compile)?;
                let plan = known.get().plan.as_ref();
                plan.and_then(|plan| stand_in.writes.bytes(plan, value))
            }
            _ => None,
        };
        if bytes.is_some() {
            stand_in.counts.native();
        }
        Ok(bytes.map(Bound::into_any))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}

/// What is known of a class.
pub fn known<'py>(
    class: &Bound<'py, PyAny>,
    compile: &Py<PyAny>,
) -> PyResult<Bound<'py, TypePlan>> {
    let py = class.py();
    if let Ok(Some(known)) = class.getattr_opt(pyo3::intern!(py, "_turbocql_plan"))
        && let Ok(known) = known.cast_into::<TypePlan>()
        && known.get().class == class.as_ptr() as usize
        && known.get().epoch == epoch()
    {
        return Ok(known);
    }
    Ok(compile.bind(py).call1((class,))?.cast_into::<TypePlan>()?)
}
