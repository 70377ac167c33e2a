//! Serializers, deserializers, routing keys and tokens, without a server.

use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use turbocql_codec::token;

use super::cql_type::{CqlType_, object_of};
use crate::ending::Inside;
use crate::error::{self, Direction};
use crate::failure::Failure;
use crate::ffi;
use crate::ffi::dialect::Protocol;
use crate::ffi::method::Serializes;
use crate::memory::with_scratch;
use crate::memory::{SMALL, copied, room};
use crate::plan::Choices;
use crate::plan::HostPlan;
use crate::value::decode::Decoder;
use crate::value::describe::describe;
use crate::value::encode::{bytes_of, encode};

/// The native protocol versions that the codec writes and reads.
const VERSIONS: std::ops::RangeInclusive<i64> = 3..=5;

/// Checks a protocol version. Values have the same bytes in all supported versions.
pub fn check_version(version: i64) -> PyResult<u8> {
    if VERSIONS.contains(&version) {
        return Ok(version as u8);
    }
    let reason = format!("protocol_version must be 3, 4 or 5, got {version}");
    Err(PyValueError::new_err(reason))
}

/// Calls `call` with the bytes of a bytes-like object. For any other object, returns an error whose
/// message has `role` as the object's name.
pub fn with_bytes<T>(
    object: &Bound<'_, PyAny>,
    role: &str,
    call: impl FnOnce(&[u8]) -> PyResult<T>,
) -> PyResult<T> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return call(bytes.as_bytes());
    }
    // The bytes are copied, because the buffer's owner may change them while `call` runs Python
    // code.
    let buffer = bytes_of(object)?.ok_or_else(|| {
        PyTypeError::new_err(format!("{role} must be bytes-like, got {}", describe(object)))
    })?;
    call(&copied(object.py(), &buffer)?)
}

/// Serializes Python values of one CQL type to bytes.
///
/// `find_serializer` makes serializers. A serializer is immutable, and threads may share it.
#[pyclass(frozen, module = "turbocql.codec")]
pub struct Serializer {
    cql_type: Py<CqlType_>,
    plan: Arc<HostPlan>,
}

impl Serializes for Serializer {
    fn plan(&self) -> &HostPlan {
        &self.plan
    }
}

#[pymethods]
impl Serializer {
    #[new]
    fn new(cql_type: &Bound<'_, PyAny>) -> PyResult<Serializer> {
        let _inside = Inside::nested(cql_type.py())?;
        let cql_type = object_of(cql_type)?;
        let plan = cql_type.get().plan(cql_type.py())?.clone();
        Ok(Serializer { cql_type: cql_type.unbind(), plan })
    }

    /// The CQL type of the values.
    #[getter]
    pub fn cql_type(&self, py: Python<'_>) -> Py<CqlType_> {
        self.cql_type.clone_ref(py)
    }

    /// Returns the bytes of a value that is not None, as on the wire, without the length prefix.
    ///
    /// The bytes are the same in protocol versions 3, 4 and 5.
    ///
    /// Raises: `EncodeError` for None, and for a value that the type cannot take; `ValueError` for
    ///     a protocol version other than 3, 4 and 5.
    #[pyo3(signature = (value, protocol_version=4))]
    fn serialize<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        protocol_version: i64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let py = value.py();
        check_version(protocol_version)?;
        if let Some(bytes) = ffi::encode::bytes_unbuffered::<Protocol>(&self.plan, value)? {
            return Ok(bytes);
        }
        with_scratch(|out| {
            if !ffi::encode::value::<Protocol>(&self.plan, value, out) {
                let _inside = Inside::nested(py)?;
                error::guarded(|| {
                    room(out, SMALL)
                        .and_then(|()| encode(&self.plan, value, out))
                        .map_err(|failure| error::raise(py, *failure, Direction::Encode))
                })?;
            }
            ffi::bytes::copy(py, out)
        })
    }

    fn __repr__<'py>(&self, py: Python<'py>) -> PyResult<String> {
        let definition = PyString::new(py, &self.cql_type.get().cql_type.definition());
        Ok(format!("find_serializer({})", definition.repr()?.to_str()?))
    }

    fn __getnewargs__(&self, py: Python<'_>) -> (Py<CqlType_>,) {
        (self.cql_type(py),)
    }
}

/// Deserializes bytes to Python values of one CQL type.
///
/// `find_deserializer` makes deserializers. A deserializer is immutable, and threads may share it.
#[pyclass(frozen, module = "turbocql.codec")]
pub struct Deserializer {
    cql_type: Py<CqlType_>,
    plan: Arc<HostPlan>,
    choices: Choices,
}

#[pymethods]
impl Deserializer {
    #[new]
    #[pyo3(signature = (cql_type, *, naive_timestamps=false, numpy_vectors=false))]
    fn new(
        cql_type: &Bound<'_, PyAny>,
        naive_timestamps: bool,
        numpy_vectors: bool,
    ) -> PyResult<Deserializer> {
        let _inside = Inside::nested(cql_type.py())?;
        let cql_type = object_of(cql_type)?;
        let plan = cql_type.get().plan(cql_type.py())?.clone();
        let choices = Choices { naive_timestamps, numpy_vectors };
        Ok(Deserializer { cql_type: cql_type.unbind(), plan, choices })
    }

    /// The CQL type of the values.
    #[getter]
    fn cql_type(&self, py: Python<'_>) -> Py<CqlType_> {
        self.cql_type.clone_ref(py)
    }

    /// Returns the value that `data` encodes. `data` is as on the wire, without the length prefix.
    ///
    /// Returns None for None. Also returns None for empty `data`, unless empty bytes are a value of
    /// the type.
    ///
    /// Raises: `DecodeError` for bytes that are not a value of the type; `ValueError` for a
    ///     protocol version other than 3, 4 and 5; `TypeError` for `data` that is not bytes-like.
    #[pyo3(signature = (data, protocol_version=4))]
    fn deserialize<'py>(
        &self,
        data: &Bound<'py, PyAny>,
        protocol_version: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = data.py();
        check_version(protocol_version)?;
        let _inside = Inside::nested(py)?;
        if data.is_none() {
            return Ok(data.clone());
        }
        let decoder = Decoder::new(py, self.choices);
        with_bytes(data, "data", |bytes| {
            error::guarded(|| {
                let decoded = decoder.cell(&self.plan, Some(bytes));
                decoded.map_err(|failure| error::raise(py, *failure, Direction::Decode))
            })
        })
    }

    fn __repr__<'py>(&self, py: Python<'py>) -> PyResult<String> {
        let definition = PyString::new(py, &self.cql_type.get().cql_type.definition());
        Ok(format!("find_deserializer({})", definition.repr()?.to_str()?))
    }

    fn __getnewargs_ex__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<((Py<CqlType_>,), Bound<'py, PyDict>)> {
        let options = PyDict::new(py);
        options.set_item("naive_timestamps", self.choices.naive_timestamps)?;
        options.set_item("numpy_vectors", self.choices.numpy_vectors)?;
        Ok(((self.cql_type(py),), options))
    }
}

/// The largest number of parts that `routing_key` packs.
const MAX_PARTS: usize = u16::MAX as usize;

/// Packs the encoded parts of a partition key into one key.
///
/// Raises: `EncodeError` for a part of more than 65,535 bytes in a key of several parts;
///     `ValueError` for no parts, or for more than 65,535 parts; `TypeError` if `parts` is not an
///     iterable of bytes-like objects.
#[pyfunction]
pub fn routing_key<'py>(
    py: Python<'py>,
    parts: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let wrong = |got: &Bound<'_, PyAny>| {
        PyTypeError::new_err(format!(
            "the parts of a key must be an iterable of bytes-like objects, got {}",
            describe(got)
        ))
    };
    if parts.is_instance_of::<PyBytes>() || parts.is_instance_of::<PyString>() {
        return Err(wrong(parts));
    }
    let parts = parts
        .try_iter()
        .map_err(|_| wrong(parts))?
        // An iterable may be endless. Reading stops at the first part that is one too many.
        .take(MAX_PARTS + 1)
        .map(|part| {
            let part = part?;
            with_bytes(&part, "a part of a key", |bytes| Ok(bytes.to_vec()))
        })
        .collect::<PyResult<Vec<Vec<u8>>>>()?;
    if parts.is_empty() || parts.len() > MAX_PARTS {
        return Err(PyValueError::new_err("a key needs 1 to 65535 parts"));
    }
    pack(py, &parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Packs the encoded parts of a partition key into new `bytes`.
pub fn pack<'py>(py: Python<'py>, parts: &[&[u8]]) -> PyResult<Bound<'py, PyBytes>> {
    with_scratch(|out| {
        token::routing_key(parts, out).map_err(|malformed| {
            let failure = Failure::refused("a partition key", malformed.to_string());
            error::raise(py, *failure, Direction::Encode)
        })?;
        ffi::bytes::copy(py, out)
    })
}

/// Returns the Murmur3 token of a packed key, as the server's `token()` computes it.
#[pyfunction]
#[pyo3(name = "token")]
pub fn token_of(key: &Bound<'_, PyAny>) -> PyResult<i64> {
    with_bytes(key, "a key", |bytes| Ok(token::murmur3(bytes)))
}
