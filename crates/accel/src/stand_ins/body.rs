//! `send_body` of the driver's QUERY, EXECUTE and BATCH messages.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyList, PyString, PyType};
use turbocql_codec::message::{
    AsCell, BatchKind, Consistency, Execute, Message, Parameters, Query, SerialConsistency,
    Settings, Values, Version,
};

use super::counts::Counts;
use super::dependence::Dependence;
use super::method::StandInMethod;
use crate::ffi::attribute;
use crate::ffi::batch_body;
use crate::ffi::call::{self, StandIn};
use turbocql_values::ffi::bytes;
use turbocql_values::ffi::held::append_values;

/// Stands in for `send_body(f, protocol_version)`, which some drivers call with a third argument,
/// `protocol_features`.
#[pyclass(frozen, module = "turbocql._core")]
pub struct BodyStandIn {
    original: Py<PyAny>,
    /// Only instances of exactly this class are taken: a subclass may write more.
    class: Py<PyType>,
    unset: Py<PyAny>,
    kind: Kind,
    /// Whether the driver writes an empty result metadata id if the message has none.
    without_metadata_id: bool,
    /// `io.BytesIO`, the only class of buffers that is taken. A buffer of another class could
    /// observe that one write replaces many.
    buffer: Py<PyType>,
    /// `ProtocolVersion`. The driver calls its methods to decide which fields a version has.
    versions: Dependence,
    counts: Counts,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Query,
    Execute,
    Batch,
}

#[pymethods]
impl BodyStandIn {
    #[new]
    fn new(
        original: Py<PyAny>,
        owner: Py<PyType>,
        unset: Py<PyAny>,
        kind: &str,
        without_metadata_id: bool,
        buffer: Py<PyType>,
        versions: (Py<PyType>, Py<PyAny>),
    ) -> PyResult<BodyStandIn> {
        let kind = match kind {
            "query" => Kind::Query,
            "execute" => Kind::Execute,
            "batch" => Kind::Batch,
            _ => return Err(PyValueError::new_err(format!("unknown kind of message: {kind:?}"))),
        };
        let counts = Counts::default();
        Ok(BodyStandIn {
            original,
            class: owner,
            unset,
            kind,
            without_metadata_id,
            buffer,
            versions: Dependence::new(versions.0, versions.1),
            counts,
        })
    }

    /// The method that replaces the original. `doc` is its signature and docstring, in the form
    /// that CPython expects of built-in functions.
    fn function<'py>(this: &Bound<'py, Self>, doc: &str) -> PyResult<Bound<'py, PyAny>> {
        StandInMethod::make(&call::function(this, c"send_body", doc)?, &this.get().original)
    }

    /// Calls done natively, and calls handed to the original.
    fn counts(&self) -> (u64, u64) {
        self.counts.get()
    }
}

/// An optional field of a message: absent, or a value.
enum Said<T> {
    Nothing,
    This(T),
}

/// Reads the attributes of a message. Methods return `None` if the original must write the body.
struct Reader<'a, 'py>(&'a Bound<'py, PyAny>);

impl<'py> Reader<'_, 'py> {
    fn get(&self, name: &Bound<'py, PyString>) -> Option<Bound<'py, PyAny>> {
        attribute::optional(self.0, name).ok().flatten()
    }

    /// The keyspace, a field of version 5 only. An empty keyspace is not taken: drivers do not
    /// write it as the protocol requires.
    fn keyspace(&self, version: Version) -> Option<Option<Bound<'py, PyString>>> {
        let given = self.get(pyo3::intern!(self.0.py(), "keyspace"))?;
        if given.is_none() {
            return Some(None);
        }
        let given = given.cast_into_exact::<PyString>().ok()?;
        let usual = version >= Version::V5 && given.len().is_ok_and(|length| length > 0);
        usual.then_some(Some(given))
    }

    /// `Some` if the attribute is absent, None or False.
    fn off(&self, name: &Bound<'py, PyString>) -> Option<()> {
        match attribute::optional(self.0, name).ok()? {
            None => Some(()),
            Some(given) => {
                (given.is_none() || given.is(PyBool::new(given.py(), false))).then_some(())
            }
        }
    }

    fn settings<'k>(&self, keyspace: Option<&'k Bound<'py, PyString>>) -> Option<Settings<'k>> {
        let py = self.0.py();
        let level = number16(&self.get(pyo3::intern!(py, "consistency_level"))?)?;
        let mut settings = Settings::new(Consistency::from_number(level)?);
        settings.serial_consistency =
            match optional(&self.get(pyo3::intern!(py, "serial_consistency_level"))?)? {
                Said::Nothing | Said::This(0) => None,
                Said::This(8) => Some(SerialConsistency::Serial),
                Said::This(9) => Some(SerialConsistency::LocalSerial),
                Said::This(_) => return None,
            };
        settings.timestamp = match optional(&self.get(pyo3::intern!(py, "timestamp"))?)? {
            Said::Nothing => None,
            Said::This(time) if time >= 0 => Some(time),
            Said::This(_) => return None,
        };
        settings.keyspace = keyspace.map(|keyspace| keyspace.to_str()).transpose().ok()?;
        Some(settings)
    }
}

/// The value of an exact `int`, if it fits 16 unsigned bits.
fn number16(given: &Bound<'_, PyAny>) -> Option<u16> {
    u16::try_from(given.cast_exact::<PyInt>().ok()?.extract::<i64>().ok()?).ok()
}

fn optional(given: &Bound<'_, PyAny>) -> Option<Said<i64>> {
    if given.is_none() {
        return Some(Said::Nothing);
    }
    given.cast_exact::<PyInt>().ok()?.extract::<i64>().ok().map(Said::This)
}

impl BodyStandIn {
    fn body<'py>(
        &self,
        message: &Bound<'py, PyAny>,
        version: Version,
    ) -> Option<Bound<'py, PyBytes>> {
        match self.kind {
            Kind::Batch => self.batch(message, version),
            Kind::Query | Kind::Execute => self.request(message, version),
        }
    }

    fn request<'py>(
        &self,
        message: &Bound<'py, PyAny>,
        version: Version,
    ) -> Option<Bound<'py, PyBytes>> {
        let (py, read) = (message.py(), Reader(message));
        let keyspace = read.keyspace(version)?;
        let settings = read.settings(keyspace.as_ref())?;
        read.off(pyo3::intern!(py, "continuous_paging_options"))?;
        let page_size = match optional(&read.get(pyo3::intern!(py, "fetch_size"))?)? {
            Said::Nothing | Said::This(0) => None,
            Said::This(size) => Some(i32::try_from(size).ok()?),
        };
        let paging_state = read.get(pyo3::intern!(py, "paging_state"))?;
        let paging_state = if paging_state.is_none() {
            None
        } else {
            Some(paging_state.cast_into_exact::<PyBytes>().ok()?)
        };
        let paging_state = paging_state.as_ref().map(|state| state.as_bytes());
        let given = read.get(pyo3::intern!(py, "query_params"))?;
        let mut values = Vec::new();
        if !given.is_none() && !append_values(&given, self.unset.bind(py), &mut values, MOST) {
            return None;
        }
        let cells: Vec<_> = values.iter().map(AsCell::as_cell).collect();
        let parameters = Parameters {
            values: if given.is_none() { Values::Absent } else { Values::Positional(&cells) },
            skip_metadata: false,
            page_size,
            paging_state: paging_state.filter(|state| !state.is_empty()),
            settings,
        };
        if self.kind == Kind::Query {
            read.off(pyo3::intern!(py, "skip_meta"))?;
            let query = read.get(pyo3::intern!(py, "query"))?.cast_into_exact::<PyString>().ok()?;
            return written(py, &Query { query: query.to_str().ok()?, parameters }, version);
        }
        let id = read.get(pyo3::intern!(py, "query_id"))?.cast_into_exact::<PyBytes>().ok()?;
        let metadata_id = if version < Version::V5 {
            None
        } else {
            let given = read.get(pyo3::intern!(py, "result_metadata_id"))?;
            if given.is_none() && self.without_metadata_id {
                Some(PyBytes::new(py, b""))
            } else {
                Some(given.cast_into_exact::<PyBytes>().ok()?)
            }
        };
        let result_metadata_id = metadata_id.as_ref().map(|id| id.as_bytes());
        let execute = Execute { query_id: id.as_bytes(), result_metadata_id, parameters };
        written(py, &execute, version)
    }

    fn batch<'py>(
        &self,
        message: &Bound<'py, PyAny>,
        version: Version,
    ) -> Option<Bound<'py, PyBytes>> {
        let (py, read) = (message.py(), Reader(message));
        let keyspace = read.keyspace(version)?;
        let settings = read.settings(keyspace.as_ref())?;
        let kind = read.get(pyo3::intern!(py, "batch_type"))?;
        let kind = match number16(&kind.getattr(pyo3::intern!(py, "value")).ok()?)? {
            0 => BatchKind::Logged,
            1 => BatchKind::Unlogged,
            2 => BatchKind::Counter,
            _ => return None,
        };
        let queries = read.get(pyo3::intern!(py, "queries"))?.cast_into_exact::<PyList>().ok()?;
        batch_body::body(&queries, self.unset.bind(py), kind, settings, version)
    }
}

/// The maximum number of values of a statement.
const MOST: usize = u16::MAX as usize;

fn written<'py>(
    py: Python<'py>,
    message: &impl Message,
    version: Version,
) -> Option<Bound<'py, PyBytes>> {
    let size = message.size(version).ok()?;
    let write = |body: &mut bytes::Filled<'_>| {
        message.write(version, body);
        true
    };
    bytes::build(py, size, write).ok().flatten()
}

/// Whether the features of a connection leave the body of a message unchanged.
fn are_plain(features: &Bound<'_, PyAny>) -> bool {
    let py = features.py();
    features.is_none()
        || [pyo3::intern!(py, "use_metadata_id"), pyo3::intern!(py, "tablets_routing_v2")]
            .into_iter()
            .all(|name| Reader(features).off(name).is_some())
}

impl StandIn for BodyStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        let (message, f, version) = match arguments {
            [message, f, version] => (message, f, version),
            [message, f, version, features] if are_plain(features) => (message, f, version),
            _ => return Ok(None),
        };
        if !message.get_type().is(&stand_in.class)
            || !f.get_type().is(&stand_in.buffer)
            // An instance attribute could replace `write`.
            || !attribute::are_none(f)
            || !stand_in.versions.is_as_usual(py)?
        {
            return Ok(None);
        }
        let number = number16(version).and_then(|number| u8::try_from(number).ok());
        let Some(version) = number.and_then(Version::from_number) else { return Ok(None) };
        let Some(body) = stand_in.body(message, version) else { return Ok(None) };
        f.call_method1(pyo3::intern!(py, "write"), (body,))?;
        stand_in.counts.native();
        Ok(Some(py.None().into_bound(py)))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
