//! Finds the replicas of a partition key in the driver's token map or in its tablets.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyType};
use turbocql_codec::token::murmur3;

use super::MetadataClasses;
use super::tablets::{Tablet, bisect_left, integer, tablet};

/// The classes of the driver whose objects are read natively.
pub struct Ring {
    metadata: Py<PyType>,
    token_map: Py<PyType>,
    token: Py<PyType>,
    /// None if the driver does not support tablets.
    pub tablets: Option<TabletClasses>,
}

/// The driver's classes and values that a plan uses if the table has tablets.
pub struct TabletClasses {
    tablets: Py<PyType>,
    /// The consistency mode of keyspaces whose tablets have no leaders.
    pub eventual: Py<PyAny>,
    pub uuid: Py<PyType>,
}

/// The part of the metadata that lists the replicas of a key.
pub enum Source<'py> {
    /// The token map's list of replicas. It is the driver's own list, not a copy.
    TokenMap(Bound<'py, PyList>),
    Tablet(Bound<'py, PyAny>),
}

impl Ring {
    pub fn new((metadata, token_map, token, tablets): MetadataClasses) -> Ring {
        let tablets =
            tablets.map(|(tablets, eventual, uuid)| TabletClasses { tablets, eventual, uuid });
        Ring { metadata, token_map, token, tablets }
    }

    /// Returns the source of a key's replicas; None if the driver must find the replicas.
    pub fn source<'py>(
        &self,
        metadata: &Bound<'py, PyAny>,
        keyspace: &Bound<'py, PyAny>,
        query: &Bound<'py, PyAny>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Source<'py>>> {
        let py = metadata.py();
        let Ok(key) = key.cast_exact::<PyBytes>() else { return Ok(None) };
        if !metadata.get_type().is(&self.metadata) || has_own_method(metadata)? {
            return Ok(None);
        }
        let map = metadata.getattr(pyo3::intern!(py, "token_map"))?;
        if !map.get_type().is(&self.token_map)
            || !map.getattr(pyo3::intern!(py, "token_class"))?.is(&self.token)
            || has_own_method(&map)?
        {
            return Ok(None);
        }
        // As in the driver, the minimum of an `i64` is not a token, so the maximum is used instead.
        let token = match murmur3(key.as_bytes()) {
            i64::MIN => i64::MAX,
            token => token,
        };
        if let Some(classes) = &self.tablets {
            let table = || query.getattr(pyo3::intern!(py, "table"));
            match tablet(metadata, &classes.tablets, keyspace, table, token)? {
                Tablet::Of(tablet) => return Ok(Some(Source::Tablet(tablet))),
                Tablet::Unknown => return Ok(None),
                Tablet::None => {}
            }
        }
        let by_keyspace = map.getattr(pyo3::intern!(py, "tokens_to_hosts_by_ks"))?;
        let Ok(by_keyspace) = by_keyspace.cast_into_exact::<PyDict>() else { return Ok(None) };
        let hosts = match by_keyspace.get_item(keyspace)? {
            Some(hosts) if hosts.is_exact_instance_of::<PyDict>() => hosts,
            // The driver computes the replicas of a keyspace when they are needed for the first
            // time.
            _ => {
                let name = pyo3::intern!(py, "get_replicas");
                let replicas = metadata.call_method1(name, (keyspace, key))?;
                return Ok(replicas.cast_into_exact().ok().map(Source::TokenMap));
            }
        };
        if !hosts.is_truthy()? {
            return Ok(Some(Source::TokenMap(PyList::empty(py))));
        }
        let ring = map.getattr(pyo3::intern!(py, "ring"))?;
        let Ok(ring) = ring.cast_into_exact::<PyList>() else { return Ok(None) };
        let value = |object: &Bound<'py, PyAny>| -> PyResult<Option<i64>> {
            if !object.get_type().is(&self.token) {
                return Ok(None);
            }
            integer(object, pyo3::intern!(py, "value"))
        };
        let Some(point) = bisect_left(&ring, token, value)? else { return Ok(None) };
        let Ok(point) = ring.get_item(if point == ring.len() { 0 } else { point }) else {
            return Ok(None);
        };
        Ok(hosts.get_item(point)?.cast_into_exact().ok().map(Source::TokenMap))
    }
}

/// Whether an attribute of the object may shadow one of the methods `get_replicas` and
/// `get_tablet_for_key` of its class.
fn has_own_method(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    let attributes = object.getattr(pyo3::intern!(py, "__dict__"))?;
    let Ok(attributes) = attributes.cast_into_exact::<PyDict>() else { return Ok(true) };
    Ok(attributes.contains(pyo3::intern!(py, "get_replicas"))?
        || attributes.contains(pyo3::intern!(py, "get_tablet_for_key"))?)
}
