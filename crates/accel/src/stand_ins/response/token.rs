//! The token of a request's partition, and what scylla-driver sends of the tablet of the token.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyString, PyType};
use turbocql_codec::token::murmur3;

use super::creating::{Source, keyspace};
use crate::stand_ins::fields::Fields;
use crate::stand_ins::query_plan::tablets::{self, Tablet};

/// What native code uses of the driver to compute tokens and to find tablets.
pub struct Tokens {
    /// The driver's class of metadata.
    pub metadata: Py<PyType>,
    /// The driver's class of tokens of the Murmur3 partitioner.
    pub token: Py<PyType>,
    /// The driver's class of tablets.
    pub tablets: Py<PyType>,
    /// The global names of `cassandra.cluster`.
    pub names: Py<PyDict>,
}

/// The routing key of a statement and its token.
pub struct RoutingToken<'py> {
    key: Bound<'py, PyAny>,
    /// An object of the driver's class, or Python's None.
    pub token: Bound<'py, PyAny>,
    /// The value of the token, if it was computed natively.
    value: Option<i64>,
}

impl Tokens {
    /// Computes the token of a statement, as the driver's `_create_response_future` does.
    pub fn routing<'py>(
        &self,
        source: &Source<'_, 'py>,
        new_object: &Py<PyAny>,
    ) -> PyResult<RoutingToken<'py>> {
        let (query, py) = (source.query, source.query.py());
        let none = || py.None().into_bound(py);
        let key = query.getattr(pyo3::intern!(py, "routing_key"))?;
        if key.is_none() {
            return Ok(RoutingToken { key, token: none(), value: None });
        }
        let metadata = source.cluster.getattr(pyo3::intern!(py, "metadata"))?;
        let map = metadata.getattr(pyo3::intern!(py, "token_map"))?;
        if map.is_none() || !self.can_support_partitioner(&metadata)? {
            return Ok(RoutingToken { key, token: none(), value: None });
        }
        let class = map.getattr(pyo3::intern!(py, "token_class"))?;
        let bytes = key.cast_exact::<PyBytes>().ok().filter(|_| class.is(&self.token));
        let Some(bytes) = bytes else {
            let token = class.call_method1(pyo3::intern!(py, "from_key"), (&key,))?;
            return Ok(RoutingToken { key, token, value: None });
        };
        // As in the driver, the minimum of an `i64` is not a token, so the maximum is used instead.
        let value = match murmur3(bytes.as_bytes()) {
            i64::MIN => i64::MAX,
            value => value,
        };
        let token = new_object.bind(py).call1((class,))?;
        token.setattr(pyo3::intern!(py, "value"), value)?;
        Ok(RoutingToken { key, token, value: Some(value) })
    }

    /// Does what the driver's `Metadata.can_support_partitioner` does if the driver can compute
    /// tokens of the Murmur3 partitioner.
    fn can_support_partitioner(&self, metadata: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = metadata.py();
        let method = pyo3::intern!(py, "can_support_partitioner");
        if metadata.get_type().is(&self.metadata)
            && let Some(fields) = Fields::of(metadata)
            && !fields.has(method)?
            && let Some(partitioner) = fields.own(pyo3::intern!(py, "partitioner"))?
            && partitioner.is_exact_instance_of::<PyString>()
        {
            return Ok(true);
        }
        metadata.call_method0(method)?.is_truthy()
    }

    /// Does what the driver's `Session._compute_tablet_version_block` does.
    pub fn version_block<'py>(
        &self,
        source: &Source<'_, 'py>,
        routing: &RoutingToken<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (query, py) = (source.query, source.query.py());
        let zero = || Ok(PyInt::new(py, 0).into_any());
        if routing.key.is_none() {
            return zero();
        }
        let keyspace = keyspace(source.of_session, query)?;
        let table = query.getattr(pyo3::intern!(py, "table"))?;
        if !keyspace.is_truthy()? || !table.is_truthy()? {
            return zero();
        }
        let names = self.names.bind(py).as_any();
        let random = || names.get_item(pyo3::intern!(py, "random_tablet_version_block"))?.call0();
        if routing.token.is_none() {
            return random();
        }
        let tablet_of_token = match routing.value {
            Some(token) => {
                let metadata = source.cluster.getattr(pyo3::intern!(py, "metadata"))?;
                tablets::tablet(&metadata, &self.tablets, &keyspace, || Ok(table), token)?
            }
            None => Tablet::Unknown,
        };
        match tablet_of_token {
            Tablet::Unknown => {
                let name = pyo3::intern!(py, "_compute_tablet_version_block");
                source.session.call_method1(name, (query, &routing.key, &routing.token))
            }
            Tablet::None => random(),
            Tablet::Of(tablet) => {
                let version = tablet.getattr(pyo3::intern!(py, "tablet_version"))?;
                if version.is_none() {
                    return random();
                }
                names.get_item(pyo3::intern!(py, "choose_tablet_version_block"))?.call1((version,))
            }
        }
    }
}
