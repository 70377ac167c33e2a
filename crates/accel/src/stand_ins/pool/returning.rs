//! The stand-in for `return_connection` of the driver's connection pools.

use pyo3::prelude::*;
use pyo3::types::{PySet, PyType};

use crate::ffi::call::{self, StandIn};
use crate::stand_ins::counts::Counts;
use crate::stand_ins::response::events::ThreadEvents;
use crate::stand_ins::usual::Usual;

/// Stands in for a pool's `return_connection(connection)`, if the connection stays open.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ReturnStandIn {
    original: Py<PyAny>,
    /// Only pools of exactly this class are handled natively.
    class: Py<PyType>,
    usual: Py<Usual>,
    events: Py<ThreadEvents>,
    counts: Counts,
}

#[pymethods]
impl ReturnStandIn {
    #[new]
    fn new(
        original: Py<PyAny>,
        owner: Py<PyType>,
        usual: Py<Usual>,
        events: Py<ThreadEvents>,
    ) -> ReturnStandIn {
        ReturnStandIn { original, class: owner, usual, events, counts: Counts::default() }
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

impl StandIn for ReturnStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        let [pool, connection] = arguments else { return Ok(None) };
        if !pool.get_type().is(&stand_in.class) || !stand_in.usual.get().holds(py)? {
            return Ok(None);
        }
        if !is_usual(pool, connection)? {
            return Ok(None);
        }
        let lock = connection.getattr(pyo3::intern!(py, "lock"))?;
        lock.call_method0(pyo3::intern!(py, "acquire"))?;
        let changed = one_less(connection);
        lock.call_method0(pyo3::intern!(py, "release"))?;
        changed?;
        let condition = pool.getattr(pyo3::intern!(py, "_stream_available_condition"))?;
        stand_in.events.get().notify(&condition)?;
        // Another thread may have changed the connection while this one waited for the lock. If so,
        // the driver's method does the rest. Its argument `stream_was_orphaned` is true, so that it
        // does not lower `in_flight` a second time.
        if !is_usual(pool, connection)? {
            let return_connection = stand_in.original.bind(py);
            return return_connection.call1((pool, connection, true)).map(Some);
        }
        stand_in.counts.native();
        Ok(Some(py.None().into_bound(py)))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}

/// Whether the driver would only lower `in_flight` of a returned connection, and notify a thread
/// that waits for a stream. It does more with a defunct or closed connection, or if the pool is
/// about to close one of its connections.
fn is_usual(pool: &Bound<'_, PyAny>, connection: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = pool.py();
    for name in [pyo3::intern!(py, "is_defunct"), pyo3::intern!(py, "is_closed")] {
        if connection.getattr(name)?.is_truthy()? {
            return Ok(false);
        }
    }
    let trash = pool.getattr(pyo3::intern!(py, "_trash"))?;
    Ok(trash.is_exact_instance_of::<PySet>() && !trash.is_truthy()?)
}

fn one_less(connection: &Bound<'_, PyAny>) -> PyResult<()> {
    let name = pyo3::intern!(connection.py(), "in_flight");
    let in_flight = connection.getattr(name)?.sub(1)?;
    connection.setattr(name, in_flight)
}
