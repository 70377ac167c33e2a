//! The stand-in for `borrow_connection` of the driver's connection pools.

use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use super::shard::{ShardClasses, Shards};
use crate::ffi::call::{self, StandIn};
use crate::stand_ins::arguments::sorted;
use crate::stand_ins::counts::Counts;
use crate::stand_ins::fields::{Fields, integer};
use crate::stand_ins::frames::UsualClasses;
use crate::stand_ins::usual::Usual;

const PARAMETERS: [&str; 6] =
    ["self", "timeout", "routing_key", "keyspace", "table", "routing_token"];
/// The number of parameters that only scylla-driver has. They are the last ones.
const OF_SCYLLA: usize = 4;

/// The driver's classes and functions that native code uses when it lends connections.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Pools {
    /// Only pools of exactly this class are handled natively.
    class: Py<PyType>,
    usual: Py<Usual>,
    /// Tells which classes of connections have the driver's own `get_request_id`.
    connections: UsualClasses,
    deque: Py<PyType>,
    reentrant_lock: Py<PyType>,
    /// `None` in cassandra-driver, whose pools have one connection each.
    shards: Option<Shards>,
    counts: Counts,
}

#[pymethods]
impl Pools {
    #[new]
    fn new(
        owner: Py<PyType>,
        usual: Py<Usual>,
        is_usual_connection: Py<PyAny>,
        deque: Py<PyType>,
        reentrant_lock: Py<PyType>,
        shards: Option<ShardClasses>,
    ) -> Pools {
        Pools {
            class: owner,
            usual,
            connections: UsualClasses::new(is_usual_connection),
            deque,
            reentrant_lock,
            shards: shards.map(Shards::new),
            counts: Counts::default(),
        }
    }
}

/// A connection that a pool has lent, and the id of the stream for the request.
pub struct Loan<'py> {
    pub connection: Bound<'py, PyAny>,
    pub stream: Bound<'py, PyAny>,
}

/// The partition of a request, by which scylla-driver selects a connection.
pub struct Target<'a, 'py> {
    pub routing_key: &'a Bound<'py, PyAny>,
    pub keyspace: &'a Bound<'py, PyAny>,
    pub table: &'a Bound<'py, PyAny>,
    pub routing_token: &'a Bound<'py, PyAny>,
}

impl Pools {
    /// Does what the driver's `borrow_connection` does if the pool's connection is open and has a
    /// free stream. If not, returns `None` before anything has changed, and that method must be
    /// called. It waits for a stream, opens and replaces connections, and raises errors.
    pub fn borrow<'py>(
        &self,
        pool: &Bound<'py, PyAny>,
        target: &Target<'_, 'py>,
    ) -> PyResult<Option<Loan<'py>>> {
        let py = pool.py();
        if !pool.get_type().is(&self.class) || !self.usual.get().holds(py)? {
            return Ok(None);
        }
        let Some(pool) = Fields::of(pool) else { return Ok(None) };
        if pool.is_true(pyo3::intern!(py, "is_shutdown"))? {
            return Ok(None);
        }
        let connection = match &self.shards {
            Some(shards) => shards.connection(&pool, target)?,
            None if pool.has(pyo3::intern!(py, "_get_connection"))? => None,
            None => pool.own(pyo3::intern!(py, "_connection"))?,
        };
        let Some(connection) = connection else { return Ok(None) };
        let loan = self.lend(connection)?;
        if loan.is_some() {
            self.counts.native();
        }
        Ok(loan)
    }

    /// Does what a call of `pool.borrow_connection` does, as [`Pools::borrow`] says. Returns `None`
    /// if the pool object has a method of its own.
    pub fn borrow_by_method<'py>(
        &self,
        pool: &Bound<'py, PyAny>,
        target: &Target<'_, 'py>,
    ) -> PyResult<Option<Loan<'py>>> {
        if !pool.get_type().is(&self.class) {
            return Ok(None);
        }
        match Fields::of(pool) {
            Some(fields) if !fields.has(pyo3::intern!(pool.py(), "borrow_connection"))? => {
                self.borrow(pool, target)
            }
            _ => Ok(None),
        }
    }

    fn lend<'py>(&self, connection: Bound<'py, PyAny>) -> PyResult<Option<Loan<'py>>> {
        let py = connection.py();
        if !self.connections.has(&connection.get_type())? {
            return Ok(None);
        }
        let Some(fields) = Fields::of(&connection) else { return Ok(None) };
        // The driver replaces a connection that has too many orphaned streams.
        if fields.has(pyo3::intern!(py, "get_request_id"))?
            || fields.is_true(pyo3::intern!(py, "orphaned_threshold_reached"))?
        {
            return Ok(None);
        }
        let lock = fields.get(pyo3::intern!(py, "lock"))?;
        if !lock.get_type().is(&self.reentrant_lock) {
            return Ok(None);
        }
        lock.call_method0(pyo3::intern!(py, "acquire"))?;
        let stream = self.stream(&fields, &connection);
        lock.call_method0(pyo3::intern!(py, "release"))?;
        Ok(stream?.map(|stream| Loan { connection, stream }))
    }

    /// Takes a stream from an open connection. Returns `None` if no stream is free. The caller must
    /// hold the connection's lock.
    fn stream<'py>(
        &self,
        fields: &Fields<'_, 'py>,
        connection: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = connection.py();
        if fields.is_true(pyo3::intern!(py, "is_closed"))? {
            return Ok(None);
        }
        let in_flight = integer(&fields.get(pyo3::intern!(py, "in_flight"))?);
        let most = integer(&fields.get(pyo3::intern!(py, "max_request_id"))?);
        let (Some(in_flight), Some(most)) = (in_flight, most) else { return Ok(None) };
        if in_flight >= most {
            return Ok(None);
        }
        let free = fields.get(pyo3::intern!(py, "request_ids"))?;
        fields.set(pyo3::intern!(py, "in_flight"), in_flight + 1)?;
        if free.get_type().is(&self.deque) && free.len()? != 0 {
            return free.call_method0(pyo3::intern!(py, "popleft")).map(Some);
        }
        connection.call_method0(pyo3::intern!(py, "get_request_id")).map(Some)
    }
}

/// Stands in for a pool's `borrow_connection`.
#[pyclass(frozen, module = "turbocql._core")]
pub struct BorrowStandIn {
    original: Py<PyAny>,
    pools: Py<Pools>,
    counts: Counts,
}

#[pymethods]
impl BorrowStandIn {
    #[new]
    fn new(original: Py<PyAny>, pools: Py<Pools>) -> BorrowStandIn {
        BorrowStandIn { original, pools, counts: Counts::default() }
    }

    /// Returns the function that replaces the driver's.
    fn function<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, &this.get().original)
    }

    /// The numbers of native calls and of fallbacks. A connection that native code borrows without
    /// calling `borrow_connection` counts as a native call.
    fn counts(&self) -> (u64, u64) {
        (self.pools.get().counts.get().0, self.counts.get().1)
    }
}

impl BorrowStandIn {
    fn run<'py>(
        &self,
        py: Python<'py>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let pools = self.pools.get();
        let Some(values) = sorted(arguments, names, &PARAMETERS) else { return Ok(None) };
        let [Some(pool), Some(_), routing_key, keyspace, table, routing_token] = values else {
            return Ok(None);
        };
        let of_scylla = &values[PARAMETERS.len() - OF_SCYLLA..];
        if pools.shards.is_none() && of_scylla.iter().any(Option::is_some) {
            return Ok(None);
        }
        let none = py.None().into_bound(py);
        let or_none = |value: Option<&'_ Borrowed<'_, 'py, PyAny>>| {
            value.map_or_else(|| none.clone(), |value| (**value).clone())
        };
        let target = Target {
            routing_key: &or_none(routing_key),
            keyspace: &or_none(keyspace),
            table: &or_none(table),
            routing_token: &or_none(routing_token),
        };
        let Some(loan) = pools.borrow(pool, &target)? else { return Ok(None) };
        Ok(Some(PyTuple::new(py, [loan.connection, loan.stream])?.into_any()))
    }
}

impl StandIn for BorrowStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        this.get().run(this.py(), arguments, None)
    }

    fn call_named<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        names: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        this.get().run(this.py(), arguments, Some(names))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
