//! The stand-in for `deserialize` of the driver's types.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::counts::Counts;
use super::entries::Entries;
use super::entries::Entry;
use super::serialize::plan_of_class;
use super::writes::is_known_version;
use crate::ffi::call::{self, StandIn};
use crate::reader::ValueReader;
use crate::reading::{Reading, Refused};
use crate::scalars::{ReadWays, Scalars};

/// Stands in for `deserialize(bytes, protocol_version)`, a class method or a static method.
#[pyclass(frozen, module = "turbocql._core")]
pub struct DeserializeStandIn {
    original: Py<PyAny>,
    properties: Py<ReadWays>,
    source: ReaderSource,
    counts: Counts,
}

enum ReaderSource {
    /// For a static method: the reader of its only type, and entries of the dicts of the driver's
    /// modules or classes. If a program has replaced an entry's value, the driver's method is
    /// called.
    Fixed(Py<ValueReader>, Entries),
    /// For a class method: a Python function that makes the `TypePlan` of a class. It is called if
    /// the class has no current `TypePlan`.
    ByClass(Py<PyAny>),
}

#[pymethods]
impl DeserializeStandIn {
    /// For a static method, `known` is a reader. For a class method, it is a function that makes
    /// the `TypePlan` of a class.
    #[new]
    #[pyo3(signature = (original, ways, known, entries = Vec::new()))]
    fn new(
        original: Py<PyAny>,
        ways: Py<ReadWays>,
        known: Bound<'_, PyAny>,
        entries: Vec<Entry<'_>>,
    ) -> Self {
        let source = match known.cast_into::<ValueReader>() {
            Ok(reader) => ReaderSource::Fixed(reader.unbind(), Entries::new(entries)),
            Err(error) => ReaderSource::ByClass(error.into_inner().unbind()),
        };
        DeserializeStandIn { original, properties: ways, source, counts: Counts::default() }
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

impl DeserializeStandIn {
    fn read<'py>(
        &self,
        reader: &ValueReader,
        bytes: &Bound<'py, PyAny>,
        version: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = bytes.py();
        let Ok(bytes) = bytes.cast_exact::<PyBytes>() else { return Ok(None) };
        let Some(reference) = Scalars::new(py, self.properties.get()) else { return Ok(None) };
        let reading = Reading::new(reference, false, version.extract()?);
        match reading.object(reader, bytes.as_bytes()) {
            Ok(value) => Ok(Some(value)),
            Err(Refused::Raised(error)) if !error.is_instance_of::<PyException>(py) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

impl StandIn for DeserializeStandIn {
    #[inline]
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let stand_in = this.get();
        let value = match (&stand_in.source, arguments) {
            (ReaderSource::Fixed(reader, entries), [bytes, version])
                if is_known_version(version) && entries.are_current(this.py()) =>
            {
                stand_in.read(reader.get(), bytes, version)?
            }
            (ReaderSource::ByClass(compile), [class, bytes, version])
                if is_known_version(version) =>
            {
                let plan = plan_of_class(class, compile)?;
                match plan.get().reader(this.py()) {
                    Some(reader) => stand_in.read(reader, bytes, version)?,
                    None => None,
                }
            }
            _ => None,
        };
        if value.is_some() {
            stand_in.counts.native();
        }
        Ok(value)
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
