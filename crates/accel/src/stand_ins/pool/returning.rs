//! The stand-in for `return_connection` of the driver's connection pools.

use pyo3::prelude::*;
use pyo3::types::{PySet, PyType};

use crate::ffi::call::{self, StandIn};
use crate::stand_ins::counts::Counts;
use crate::stand_ins::fields::{State, integer};
use crate::stand_ins::frames::UsualClasses;
use crate::stand_ins::response::events::ThreadEvents;
use crate::stand_ins::usual::Usual;

/// Stands in for a pool's `return_connection(connection)`, if the connection stays open.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ReturnStandIn {
    original: Py<PyAny>,
    /// Only pools of exactly this class are handled natively.
    class: Py<PyType>,
    usual: Py<Usual>,
    /// Tells for which classes of connections the attributes may be read in dicts.
    connections: UsualClasses,
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
        has_fields: Py<PyAny>,
        events: Py<ThreadEvents>,
    ) -> ReturnStandIn {
        let connections = UsualClasses::new(has_fields);
        ReturnStandIn {
            original,
            class: owner,
            usual,
            connections,
            events,
            counts: Counts::default(),
        }
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
        let in_dict = stand_in.connections.has(&connection.get_type())?;
        let states = (State::of(pool, true), State::of(connection, in_dict));
        if !is_usual(&states)? {
            return Ok(None);
        }
        let lock = states.1.get(pyo3::intern!(py, "lock"))?;
        lock.call_method0(pyo3::intern!(py, "acquire"))?;
        let changed = one_less(&states.1);
        lock.call_method0(pyo3::intern!(py, "release"))?;
        changed?;
        let condition = states.0.get(pyo3::intern!(py, "_stream_available_condition"))?;
        stand_in.events.get().notify(&condition)?;
        // Another thread may have changed the connection while this one waited for the lock. If so,
        // the driver's method does the rest. Its argument `stream_was_orphaned` is true, so that it
        // does not lower `in_flight` a second time.
        if !is_usual(&states)? {
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
fn is_usual((pool, connection): &(State<'_, '_>, State<'_, '_>)) -> PyResult<bool> {
    let py = pool.object().py();
    for name in [pyo3::intern!(py, "is_defunct"), pyo3::intern!(py, "is_closed")] {
        if connection.is_true(name)? {
            return Ok(false);
        }
    }
    let trash = pool.get(pyo3::intern!(py, "_trash"))?;
    Ok(trash.is_exact_instance_of::<PySet>() && !trash.is_truthy()?)
}

fn one_less(connection: &State<'_, '_>) -> PyResult<()> {
    let name = pyo3::intern!(connection.object().py(), "in_flight");
    let in_flight = connection.get(name)?;
    match integer(&in_flight) {
        Some(count @ 0..) => connection.set(name, count - 1),
        _ => connection.set(name, in_flight.sub(1)?),
    }
}
