//! Stand-ins for `make_query_plan` of the driver's load balancing policies.
//!
//! Like the driver's generators, a plan does nothing before its first host is requested. Only then
//! does it decide whether it is native. If it is not, it yields the hosts of the driver's
//! generator.

mod distance;
mod replicas;
mod shuffle;
pub mod tablets;
mod token_aware;

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyIterator, PyType};

use super::counts::Counts;
use super::usual::Usual;
use crate::ffi::call::{self, StandIn};
use crate::switch::is_on;
use distance::Distances;
use replicas::Ring;
pub use shuffle::Shuffle;
use token_aware::{Flavor, Walk};

/// Stands in for `make_query_plan(working_keyspace, query)` of one class of policies.
#[pyclass(frozen, module = "turbocql._core")]
pub struct PlanStandIn {
    original: Py<PyAny>,
    /// Only policies of exactly this class are handled natively.
    class: Py<PyType>,
    kind: Kind,
    usual: Py<Usual>,
    /// The driver's classes of statements. Reading their attributes has no side effects.
    statements: Vec<Py<PyType>>,
    counts: Counts,
}

enum Kind {
    TokenAware { flavor: Flavor, distances: Distances, ring: Ring },
    Default,
}

/// The classes of child policies: DC-aware, rack-aware if the driver has it, and round robin.
type Children = (Py<PyType>, Option<Py<PyType>>, Py<PyType>);

/// The classes of metadata: `Metadata`, `TokenMap`, `Murmur3Token`. If the driver supports tablets,
/// also `Tablets`, the consistency mode of tablets without leaders, and `UUID`.
type MetadataClasses =
    (Py<PyType>, Py<PyType>, Py<PyType>, Option<(Py<PyType>, Py<PyAny>, Py<PyType>)>);

/// What the plans of a token-aware policy need, as `PlanStandIn::new` describes it.
type TokenAware = (Children, Vec<i64>, MetadataClasses, Py<Shuffle>, (bool, bool));

#[pymethods]
impl PlanStandIn {
    /// `token_aware` is None for `DefaultLoadBalancingPolicy`, which targets the host that a
    /// statement names. Otherwise it has the classes of child policies, the distances in the order
    /// of a plan, the classes of metadata, the driver's `shuffle`, and two booleans: whether the
    /// policy orders all hosts by distance, and whether the driver supports leaders of tablets.
    #[new]
    fn new(
        original: Py<PyAny>,
        owner: Py<PyType>,
        usual: Py<Usual>,
        statements: Vec<Py<PyType>>,
        token_aware: Option<TokenAware>,
    ) -> PyResult<PlanStandIn> {
        let kind = match token_aware {
            None => Kind::Default,
            Some((children, order, metadata, shuffle, (by_distance, has_leaders))) => {
                Kind::TokenAware {
                    flavor: Flavor { shuffle, by_distance, has_leaders },
                    distances: Distances::new(children, &order)?,
                    ring: Ring::new(metadata),
                }
            }
        };
        let counts = Counts::default();
        Ok(PlanStandIn { original, class: owner, kind, usual, statements, counts })
    }

    /// Returns the function that replaces the driver's.
    fn function<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, &this.get().original)
    }

    /// The numbers of native plans and of fallbacks.
    fn counts(&self) -> (u64, u64) {
        self.counts.get()
    }
}

impl StandIn for PlanStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = this.py();
        let (policy, keyspace, query) = match arguments {
            [policy] => (policy, None, None),
            [policy, keyspace] => (policy, Some(keyspace), None),
            [policy, keyspace, query] => (policy, Some(keyspace), Some(query)),
            _ => return Ok(None),
        };
        if !policy.get_type().is(&this.get().class) {
            return Ok(None);
        }
        let or_none = |value: Option<&Borrowed<'_, 'py, PyAny>>| {
            value.map_or(py.None(), |v| (**v).clone().unbind())
        };
        let request = Request {
            policy: (**policy).clone().unbind(),
            keyspace: or_none(keyspace),
            query: or_none(query),
        };
        let state = Mutex::new(Some(State::Unused(request)));
        let plan = QueryPlan { stand_in: this.clone().unbind(), state };
        Ok(Some(Bound::new(py, plan)?.into_any()))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}

/// The arguments of `make_query_plan`.
struct Request {
    policy: Py<PyAny>,
    keyspace: Py<PyAny>,
    query: Py<PyAny>,
}

/// An iterator over the hosts of a plan.
#[pyclass(frozen, module = "turbocql._core")]
pub struct QueryPlan {
    stand_in: Py<PlanStandIn>,
    /// None while a call determines the next host.
    state: Mutex<Option<State>>,
}

enum State {
    /// No host was requested yet.
    Unused(Request),
    Walk(Walk),
    /// The hosts are those of another plan, which the child policy or the driver made.
    Other(Py<PyIterator>),
    Ended,
}

#[pymethods]
impl QueryPlan {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(state) = self.lock().take() else {
            return Err(PyValueError::new_err("generator already executing"));
        };
        // Like a generator, a plan ends when it raises an error.
        let (state, host) = match self.advance(py, state) {
            Ok((state, Some(host))) => (state, Ok(Some(host))),
            Ok((_, None)) => (State::Ended, Ok(None)),
            Err(error) => (State::Ended, Err(error)),
        };
        *self.lock() = Some(state);
        host
    }

    /// Ends the plan, as `close` of a generator does.
    fn close(&self) -> PyResult<()> {
        let Some(state) = self.lock().replace(State::Ended) else {
            *self.lock() = None;
            return Err(PyValueError::new_err("generator already executing"));
        };
        drop(state);
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.stand_in)?;
        // The GC must not wait for the mutex. If another call holds it, the state is not visited.
        match self.state.try_lock().as_deref() {
            Ok(Some(State::Unused(request))) => {
                visit.call(&request.policy)?;
                visit.call(&request.keyspace)?;
                visit.call(&request.query)
            }
            Ok(Some(State::Walk(walk))) => walk.traverse(&visit),
            Ok(Some(State::Other(hosts))) => visit.call(hosts),
            _ => Ok(()),
        }
    }
}

type Advanced<'py> = (State, Option<Bound<'py, PyAny>>);

impl QueryPlan {
    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn advance<'py>(&self, py: Python<'py>, mut state: State) -> PyResult<Advanced<'py>> {
        if let State::Unused(request) = state {
            state = self.begin(py, request)?;
        }
        let host = match &mut state {
            State::Walk(walk) => match &self.stand_in.get().kind {
                Kind::TokenAware { distances, .. } => walk.next(py, distances)?,
                Kind::Default => None,
            },
            State::Other(hosts) => hosts.bind(py).clone().next().transpose()?,
            State::Unused(_) | State::Ended => None,
        };
        Ok((state, host))
    }

    /// Decides whether the plan is native.
    fn begin(&self, py: Python<'_>, request: Request) -> PyResult<State> {
        let stand_in = self.stand_in.get();
        let query = request.query.bind(py);
        let is_known = query.is_none() || {
            let class = query.get_type();
            stand_in.statements.iter().any(|known| class.is(known))
        };
        if is_on() && is_known && stand_in.usual.get().holds(py)? {
            let state = match &stand_in.kind {
                Kind::TokenAware { flavor, distances, ring } => {
                    Walk::begin(py, &request, flavor, distances, ring)?
                }
                Kind::Default => child_of_default(py, &request)?,
            };
            if let Some(state) = state {
                stand_in.counts.native();
                return Ok(state);
            }
        }
        stand_in.counts.fallback();
        let Request { policy, keyspace, query } = request;
        let hosts = stand_in.original.bind(py).call1((policy, keyspace, query))?;
        Ok(State::Other(hosts.try_iter()?.unbind()))
    }
}

/// Returns the keyspace of a request: the statement's, or the session's if the statement has none.
fn keyspace_of<'py>(py: Python<'py>, request: &Request) -> PyResult<Bound<'py, PyAny>> {
    let query = request.query.bind(py);
    // As in the driver, the keyspace of a batch without statements is not used, because such a
    // batch is falsy.
    if !query.is_none() && query.is_truthy()? {
        let keyspace = query.getattr(pyo3::intern!(py, "keyspace"))?;
        if keyspace.is_truthy()? {
            return Ok(keyspace);
        }
    }
    Ok(request.keyspace.bind(py).clone())
}

/// Returns the plan of the child policy, unchanged.
fn child_plan<'py>(
    policy: &Bound<'py, PyAny>,
    keyspace: &Bound<'py, PyAny>,
    query: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyIterator>> {
    let py = policy.py();
    let hosts = policy.call_method1(pyo3::intern!(py, "make_query_plan"), (keyspace, query))?;
    hosts.try_iter()
}

/// Returns the plan of `DefaultLoadBalancingPolicy`. Returns None if the statement targets a host
/// that is up: the driver then makes the plan.
fn child_of_default(py: Python<'_>, request: &Request) -> PyResult<Option<State>> {
    let (policy, query) = (request.policy.bind(py), request.query.bind(py));
    let keyspace = keyspace_of(py, request)?;
    let address = if !query.is_none() && query.is_truthy()? {
        query.getattr_opt(pyo3::intern!(py, "target_host"))?
    } else {
        None
    };
    let metadata = policy.getattr(pyo3::intern!(py, "_cluster_metadata"))?;
    let target = metadata.call_method1(pyo3::intern!(py, "get_host"), (address,))?;
    let child = policy.getattr(pyo3::intern!(py, "_child_policy"))?;
    if target.is_truthy()? && target.getattr(pyo3::intern!(py, "is_up"))?.is_truthy()? {
        return Ok(None);
    }
    Ok(Some(State::Other(child_plan(&child, &keyspace, query)?.unbind())))
}
