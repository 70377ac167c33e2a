//! The stand-in for `serialize` of the driver's types.

use std::cell::Cell;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyType;

use super::counts::Counts;
use super::entries::Entries;
use super::entries::Entry;
use super::writes::Writes;
use super::writes::is_known_version;
use crate::ffi::call::{self, StandIn};
use crate::reader::ValueReader;
use crate::switch::epoch;
use turbocql_values::classes::cql_type::CqlType_;
use turbocql_values::plan::HostPlan;

/// Says how values of one of the driver's type classes become bytes, and how bytes become values.
#[pyclass(frozen, module = "turbocql._core")]
pub struct TypePlan {
    /// The address of the class that the plan is for. A subclass inherits the attribute that has
    /// the plan, so `plan_of_class` compares this address with that of the class.
    class: usize,
    epoch: u64,
    /// None if the driver's function must serialize all values.
    plan: Option<Arc<HostPlan>>,
    /// How bytes become values; None if the driver's function must deserialize all values.
    reader: Option<Py<ValueReader>>,
    /// The names in the driver's modules on which the reader depends, as entries of dicts.
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
        let plan =
            cql_type.map(|cql_type| cql_type.get().plan(cql_type.py()).cloned()).transpose()?;
        let (class, entries) = (owner.as_ptr() as usize, Entries::new(entries));
        Ok(TypePlan { class, epoch: epoch(), plan, reader, entries })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.reader)?;
        self.entries.traverse(&visit)
    }

    /// Returns a copy of this plan for another class, `owner`; None if this plan is not current.
    /// The caller has checked that `_shape` in `turbocql.accel._plans` returns the same key for
    /// both classes.
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

    /// Returns the reader; `None` if the driver's function must deserialize all values, or if an
    /// entry that the reader depends on is not current.
    pub fn reader(&self, py: Python<'_>) -> Option<&ValueReader> {
        self.reader.as_ref().map(Py::get).filter(|_| self.entries.are_current(py))
    }
}

/// Stands in for `serialize(value, protocol_version)`, a class method or a static method.
#[pyclass(frozen, module = "turbocql._core")]
pub struct SerializeStandIn {
    original: Py<PyAny>,
    writes: Writes,
    source: PlanSource,
    counts: Counts,
}

enum PlanSource {
    /// For a static method: the plan of its one type.
    Fixed(Arc<HostPlan>),
    /// For a class method: a function that makes the `TypePlan` of a class. It is called if
    /// the class has no current `TypePlan`.
    ByClass(Py<PyAny>),
}

#[pymethods]
impl SerializeStandIn {
    /// `known` is a CQL type, or a function that makes the `TypePlan` of a class.
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

    /// Returns the function that replaces the driver's.
    fn function<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, &this.get().original)
    }

    /// The numbers of native calls and of fallbacks.
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
                if is_refused(value) {
                    None
                } else {
                    stand_in.writes.bytes(plan, value)?
                }
            }
            (PlanSource::ByClass(compile), [class, value, version])
                if is_known_version(version) =>
            {
                let type_plan = plan_of_class(class, compile)?;
                match type_plan.get().plan.as_ref() {
                    Some(plan) if !is_refused(value) => stand_in.writes.bytes(plan, value)?,
                    _ => None,
                }
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

thread_local! {
    /// The address of the value that the codec has just refused; zero if there is none. The
    /// driver's `serialize` is then called for this value, and native code does not try again.
    static REFUSED: Cell<usize> = const { Cell::new(0) };
}

/// Records that the codec has refused a value. The caller calls `serialize` of the type next.
pub fn was_refused(value: &Bound<'_, PyAny>) {
    REFUSED.set(value.as_ptr() as usize);
}

/// Records that the call of `serialize` is over.
pub fn forget_refused() {
    REFUSED.set(0);
}

/// Whether the codec has just refused this value. Each call of this function forgets the refused
/// value: `serialize` may call itself for a part of a value, and the part may be the same object.
fn is_refused(value: &Bound<'_, PyAny>) -> bool {
    let refused = REFUSED.get();
    if refused != 0 {
        REFUSED.set(0);
    }
    refused == value.as_ptr() as usize
}

/// Returns the current plan of a class. If the class has none, `compile` makes it.
pub fn plan_of_class<'py>(
    class: &Bound<'py, PyAny>,
    compile: &Py<PyAny>,
) -> PyResult<Bound<'py, TypePlan>> {
    let py = class.py();
    if let Ok(Some(type_plan)) = class.getattr_opt(pyo3::intern!(py, "_turbocql_plan"))
        && let Ok(type_plan) = type_plan.cast_into::<TypePlan>()
        && type_plan.get().class == class.as_ptr() as usize
        && type_plan.get().epoch == epoch()
    {
        return Ok(type_plan);
    }
    Ok(compile.bind(py).call1((class,))?.cast_into::<TypePlan>()?)
}
