//! The stand-in for `send_body` of the driver's QUERY, EXECUTE and BATCH messages.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyType};
use turbocql_codec::message::{
    AsCell, BatchKind, Execute, Message, Parameters, Query, Values, Version,
};

use super::body_fields::{Features, FieldResult, Fields, extensions, field, number16};
use super::body_reason::{Reason, Reasons};
use super::counts::Counts;
use super::dependence::Dependence;
use crate::ffi::attribute;
use crate::ffi::batch_body;
use crate::ffi::call::{self, StandIn};
use turbocql_values::ffi::bytes;
use turbocql_values::ffi::held::append_values;

/// Stands in for `send_body(f, protocol_version)`, or `send_body(f, protocol_version,
/// protocol_features)` in some drivers.
#[pyclass(frozen, module = "turbocql._core")]
pub struct BodyStandIn {
    original: Py<PyAny>,
    /// Only instances of exactly this class are handled natively, because a subclass may write
    /// more.
    class: Py<PyType>,
    unset: Py<PyAny>,
    kind: Kind,
    /// Whether the driver writes an empty result metadata id if the message has none.
    without_metadata_id: bool,
    /// `io.BytesIO`, the only class of buffers that is handled natively. A buffer of another class
    /// could notice that the body is written by one call of `write`, not by several.
    buffer: Py<PyType>,
    /// The class `ProtocolVersion`. The driver calls methods of this class to decide which fields a
    /// body has.
    versions: Dependence,
    /// `ProtocolFeatures`, the driver's class for the features that a connection has negotiated.
    /// None if the driver has no such class, or does not pass features to its messages.
    features: Option<Features>,
    counts: Counts,
    reasons: Reasons,
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
    #[expect(clippy::too_many_arguments, reason = "the arguments of a Python call")]
    fn new(
        original: Py<PyAny>,
        owner: Py<PyType>,
        unset: Py<PyAny>,
        kind: &str,
        without_metadata_id: bool,
        buffer: Py<PyType>,
        versions: (Py<PyType>, Py<PyAny>),
        features: Option<(Py<PyType>, Vec<Py<PyString>>)>,
    ) -> PyResult<BodyStandIn> {
        let kind = match kind {
            "query" => Kind::Query,
            "execute" => Kind::Execute,
            "batch" => Kind::Batch,
            _ => return Err(PyValueError::new_err(format!("unknown kind of message: {kind:?}"))),
        };
        Ok(BodyStandIn {
            original,
            class: owner,
            unset,
            kind,
            without_metadata_id,
            buffer,
            versions: Dependence::new(versions.0, versions.1),
            features: features.map(|(class, unknown)| Features::new(class, unknown)),
            counts: Counts::default(),
            reasons: Reasons::default(),
        })
    }

    /// Returns the function that replaces the driver's.
    fn function<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, &this.get().original)
    }

    /// The numbers of native calls and of fallbacks.
    fn counts(&self) -> (u64, u64) {
        self.counts.get()
    }

    /// Returns the reasons why calls were passed to the driver's method, each with the number of
    /// calls.
    fn reasons(&self, py: Python<'_>) -> Vec<(String, u64)> {
        let unknown = self.features.as_ref().map(|features| features.unknown(py));
        self.reasons.get(&unknown.unwrap_or_default())
    }
}

impl BodyStandIn {
    fn body<'py>(
        &self,
        message: &Bound<'py, PyAny>,
        version: Version,
        features: Option<&Bound<'py, PyAny>>,
    ) -> FieldResult<Bound<'py, PyBytes>> {
        if let Some(features) = features {
            self.features.as_ref().ok_or(Reason::Features)?.check(features)?;
        }
        match self.kind {
            Kind::Batch => self.batch(message, version),
            Kind::Query | Kind::Execute => self.request(message, version, features),
        }
    }

    fn request<'py>(
        &self,
        message: &Bound<'py, PyAny>,
        version: Version,
        features: Option<&Bound<'py, PyAny>>,
    ) -> FieldResult<Bound<'py, PyBytes>> {
        let (py, fields) = (message.py(), Fields(message));
        let keyspace = fields.keyspace(version)?;
        let settings = fields.settings(keyspace.as_ref())?;
        field!(fields, off "continuous_paging_options")?;
        let page_size = fields.page_size()?;
        let paging_state = fields.paging_state()?;
        let paging_state = paging_state.as_ref().map(|state| state.as_bytes());
        let query_params = field!(fields, "query_params")?;
        let mut values = Vec::new();
        if !query_params.is_none()
            && !append_values(&query_params, self.unset.bind(py), &mut values, MAX_VALUES)
        {
            return Err(Reason::Field("query_params"));
        }
        let cells: Vec<_> = values.iter().map(AsCell::as_cell).collect();
        let mut parameters = Parameters {
            values: if query_params.is_none() {
                Values::Absent
            } else {
                Values::Positional(&cells)
            },
            skip_metadata: false,
            page_size,
            paging_state: paging_state.filter(|state| !state.is_empty()),
            settings,
        };
        if self.kind == Kind::Query {
            field!(fields, off "skip_meta")?;
            let query = field!(fields, "query")?.cast_into_exact::<PyString>();
            let query = query.map_err(|_| Reason::Field("query"))?;
            let query = query.to_str().map_err(|_| Reason::Field("query"))?;
            return written(py, &Query { query, parameters }, version);
        }
        let id = field!(fields, "query_id")?.cast_into_exact::<PyBytes>();
        let id = id.map_err(|_| Reason::Field("query_id"))?;
        let extensions = extensions(features, &fields)?;
        if extensions.metadata_ids {
            // Without the extension for metadata ids, `skip_meta` has no effect: the driver ignores
            // it, and the server sends the metadata of the columns with each page.
            parameters.skip_metadata = field!(fields, flag "skip_meta")?;
        }
        let metadata_id = if version < Version::V5 && !extensions.metadata_ids {
            None
        } else {
            let id = field!(fields, "result_metadata_id")?;
            if id.is_none() && self.without_metadata_id {
                Some(PyBytes::new(py, b""))
            } else {
                let id = id.cast_into_exact::<PyBytes>();
                Some(id.map_err(|_| Reason::Field("result_metadata_id"))?)
            }
        };
        let result_metadata_id = metadata_id.as_ref().map(|id| id.as_bytes());
        let execute =
            Execute { query_id: id.as_bytes(), result_metadata_id, extensions, parameters };
        written(py, &execute, version)
    }

    fn batch<'py>(
        &self,
        message: &Bound<'py, PyAny>,
        version: Version,
    ) -> FieldResult<Bound<'py, PyBytes>> {
        let (py, fields) = (message.py(), Fields(message));
        let keyspace = fields.keyspace(version)?;
        let settings = fields.settings(keyspace.as_ref())?;
        let unusual = Reason::Field("batch_type");
        let kind = field!(fields, "batch_type")?;
        let kind = kind.getattr(pyo3::intern!(py, "value")).map_err(|_| unusual)?;
        let kind = match number16(&kind) {
            Some(0) => BatchKind::Logged,
            Some(1) => BatchKind::Unlogged,
            Some(2) => BatchKind::Counter,
            _ => return Err(unusual),
        };
        let unusual = Reason::Field("queries");
        let queries = field!(fields, "queries")?.cast_into_exact::<PyList>();
        let queries = queries.map_err(|_| unusual)?;
        batch_body::body(&queries, self.unset.bind(py), kind, settings, version).ok_or(unusual)
    }

    /// Writes the body natively. If the driver's method must write the body, returns the reason as
    /// the inner `Err`.
    fn write<'py>(
        &self,
        py: Python<'py>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<FieldResult<()>> {
        let (message, f, version, features) = match arguments {
            [message, f, version] => (message, f, version, None),
            [message, f, version, features] => {
                let features: &Bound<'_, PyAny> = features;
                (message, f, version, Some(features).filter(|features| !features.is_none()))
            }
            _ => return Ok(Err(Reason::Arguments)),
        };
        if !message.get_type().is(&self.class) {
            return Ok(Err(Reason::Class));
        }
        // An attribute in the dict of the buffer `f` could shadow the method `write`.
        if !f.get_type().is(&self.buffer) || !attribute::are_none(f) {
            return Ok(Err(Reason::Buffer));
        }
        if !self.versions.is_as_usual(py)? {
            return Ok(Err(Reason::Replaced));
        }
        let number = number16(version).and_then(|number| u8::try_from(number).ok());
        let Some(version) = number.and_then(Version::from_number) else {
            return Ok(Err(Reason::Version));
        };
        match self.body(message, version, features) {
            Ok(body) => f.call_method1(pyo3::intern!(py, "write"), (body,)).map(|_| Ok(())),
            Err(reason) => Ok(Err(reason)),
        }
    }
}

/// The maximum number of values of a statement.
const MAX_VALUES: usize = u16::MAX as usize;

fn written<'py>(
    py: Python<'py>,
    message: &impl Message,
    version: Version,
) -> FieldResult<Bound<'py, PyBytes>> {
    // The driver's method handles a message that cannot be encoded in this version.
    let size = message.size(version).map_err(|_| Reason::Size)?;
    let write = |body: &mut bytes::Filled<'_>| {
        message.write(version, body);
        true
    };
    bytes::build(py, size, write).ok().flatten().ok_or(Reason::Size)
}

impl StandIn for BodyStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        match stand_in.write(py, arguments)? {
            Ok(()) => {
                stand_in.counts.native();
                Ok(Some(py.None().into_bound(py)))
            }
            Err(reason) => {
                stand_in.reasons.count(reason);
                Ok(None)
            }
        }
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
