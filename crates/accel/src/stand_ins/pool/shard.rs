//! Selects the connection of a pool that leads to the shard of a partition.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use super::Target;
use crate::stand_ins::fields::{Fields, integer};
use crate::stand_ins::frames::UsualClasses;
use crate::stand_ins::query_plan::tablets::{self, Tablet};

/// The driver's classes of tokens, of tablets, and of the description of a host's shards. The last
/// item is a Python function that tells whether the attributes of a cluster's or a host's class can
/// be read with `Fields`.
pub type ShardClasses = (Py<PyType>, Py<PyType>, Py<PyType>, Py<PyAny>);

/// The driver's classes whose objects are read to find a shard.
pub struct Shards {
    token: Py<PyType>,
    tablets: Py<PyType>,
    sharding: Py<PyType>,
    /// The classes of clusters and hosts.
    plain: UsualClasses,
}

impl Shards {
    pub fn new((token, tablets, sharding, is_plain): ShardClasses) -> Shards {
        Shards { token, tablets, sharding, plain: UsualClasses::new(is_plain) }
    }

    /// Does what the driver's `_get_connection_for_routing_key` does if the pool has a connection
    /// to the shard. If not, returns `None`, and that method must be called.
    pub fn connection<'py>(
        &self,
        pool: &Fields<'_, 'py>,
        target: &Target<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = target.table.py();
        if pool.has(pyo3::intern!(py, "_get_connection_for_routing_key"))?
            || !target.routing_key.is_truthy()?
            || !target.routing_token.get_type().is(&self.token)
        {
            return Ok(None);
        }
        let (Some(connections), Some(session), Some(host)) = (
            pool.own(pyo3::intern!(py, "_connections"))?,
            pool.own(pyo3::intern!(py, "_session"))?,
            pool.own(pyo3::intern!(py, "host"))?,
        ) else {
            return Ok(None);
        };
        let Ok(connections) = connections.cast_into_exact::<PyDict>() else { return Ok(None) };
        let cluster = session.getattr(pyo3::intern!(py, "cluster"))?;
        if !self.plain.has(&cluster.get_type())? || !self.plain.has(&host.get_type())? {
            return Ok(None);
        }
        let (Some(cluster), Some(host)) = (Fields::of(&cluster), Fields::of(&host)) else {
            return Ok(None);
        };
        let options = cluster.get(pyo3::intern!(py, "shard_aware_options"))?;
        if options.getattr(pyo3::intern!(py, "disable"))?.is_truthy()? {
            return Ok(None);
        }
        let sharding = host.get(pyo3::intern!(py, "sharding_info"))?;
        let token = target.routing_token.getattr(pyo3::intern!(py, "value"))?;
        let Some(token) = integer(&token) else { return Ok(None) };
        if pool.is_true(pyo3::intern!(py, "supports_tablet_routing"))? && !target.table.is_none() {
            let metadata = cluster.get(pyo3::intern!(py, "metadata"))?;
            match self.shard_of_tablet(pool, &host, &metadata, target, token)? {
                InTablets::Shard(shard) => return connections.get_item(shard),
                InTablets::None => {}
                InTablets::Unknown => return Ok(None),
            }
        }
        match self.shard_of_token(&sharding, token)? {
            Some(shard) => connections.get_item(shard),
            None => Ok(None),
        }
    }

    fn shard_of_tablet<'py>(
        &self,
        pool: &Fields<'_, 'py>,
        host: &Fields<'_, 'py>,
        metadata: &Bound<'py, PyAny>,
        target: &Target<'_, 'py>,
        token: i64,
    ) -> PyResult<InTablets<'py>> {
        let py = metadata.py();
        let of_pool;
        let keyspace = if target.keyspace.is_none() {
            of_pool = pool.get(pyo3::intern!(py, "_keyspace"))?;
            &of_pool
        } else {
            target.keyspace
        };
        let table = || Ok(target.table.clone());
        let tablet = match tablets::tablet(metadata, &self.tablets, keyspace, table, token)? {
            Tablet::Of(tablet) => tablet,
            Tablet::None => return Ok(InTablets::None),
            Tablet::Unknown => return Ok(InTablets::Unknown),
        };
        let id = host.get(pyo3::intern!(py, "host_id"))?;
        for replica in tablet.getattr(pyo3::intern!(py, "replicas"))?.try_iter()? {
            let replica = replica?;
            if replica.get_item(0)?.eq(&id)? {
                let shard = replica.get_item(1)?;
                return Ok(if shard.is_none() { InTablets::None } else { InTablets::Shard(shard) });
            }
        }
        Ok(InTablets::None)
    }

    /// Does what the driver's `shard_id_from_token` does. Returns `None` if that method must be
    /// called.
    fn shard_of_token(&self, sharding: &Bound<'_, PyAny>, token: i64) -> PyResult<Option<u64>> {
        let py = sharding.py();
        if !sharding.get_type().is(&self.sharding) {
            return Ok(None);
        }
        let Some(sharding) = Fields::of(sharding) else { return Ok(None) };
        if sharding.has(pyo3::intern!(py, "shard_id_from_token"))? {
            return Ok(None);
        }
        let count = integer(&sharding.get(pyo3::intern!(py, "shards_count"))?);
        let ignored = integer(&sharding.get(pyo3::intern!(py, "sharding_ignore_msb"))?);
        let (Some(count @ 1..=0xffff), Some(ignored @ 0..=63)) = (count, ignored) else {
            return Ok(None);
        };
        // The tokens of a ring from its smallest, without the bits that the server ignores, are
        // divided evenly among the shards.
        let biased = (token.cast_unsigned() ^ (1 << 63)) << ignored;
        let product = u128::from(biased) * u128::from(count.cast_unsigned());
        Ok(Some((product >> 64) as u64))
    }
}

/// What the tablets of a table say about the shard of a partition.
enum InTablets<'py> {
    Shard(Bound<'py, PyAny>),
    /// The table has no tablets, or the host has no replica of the tablet.
    None,
    /// The driver must look the tablet up.
    Unknown,
}
