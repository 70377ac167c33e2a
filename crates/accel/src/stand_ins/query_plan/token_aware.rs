//! The plan of a token-aware policy: the replicas first, then the other hosts.

use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyInt, PyIterator, PyList, PySet, PyType};

use super::distance::{Distances, Measure};
use super::replicas::{Ring, Source, TabletClasses};
use super::{Request, Shuffle, State, child_plan, keyspace_of};

/// How a driver's token-aware policy orders hosts.
pub struct Flavor {
    pub shuffle: Py<Shuffle>,
    /// Whether the policy orders all hosts by distance, as scylla-driver's does. The policy of
    /// cassandra-driver yields the local replicas first, and then the other hosts in the child
    /// policy's order. A policy that orders all hosts does not shuffle the replicas of lightweight
    /// transactions.
    pub by_distance: bool,
    /// Whether the driver supports leaders of tablets. If it does, a policy that orders all hosts
    /// does not shuffle the replicas of statements with a serial consistency level either.
    pub has_leaders: bool,
}

/// A native plan whose first host was requested.
pub struct Walk {
    child: Py<PyAny>,
    measure: Measure,
    keyspace: Py<PyAny>,
    query: Py<PyAny>,
    replicas: Py<PyList>,
    by_distance: bool,
    rest: Rest,
    /// The position in the order of distances, and the position in the list of hosts.
    at: (usize, usize),
}

/// The hosts that a plan yields after the replicas.
enum Rest {
    /// Not all replicas were yielded yet.
    Unused,
    /// The hosts of the child policy's plan that are not replicas.
    Listed(Py<PyList>),
    /// The child policy's plan. Replicas in it are skipped unless they are remote: the local
    /// replicas were yielded before.
    Plan(Py<PyIterator>),
}

/// The consistency levels SERIAL and LOCAL_SERIAL, which lightweight transactions use.
const SERIAL: [i64; 2] = [8, 9];

impl Walk {
    /// Returns the state of a new plan; None if the driver must make the plan.
    pub fn begin(
        py: Python<'_>,
        request: &Request,
        flavor: &Flavor,
        distances: &Distances,
        ring: &Ring,
    ) -> PyResult<Option<State>> {
        let (policy, query) = (request.policy.bind(py), request.query.bind(py));
        let keyspace = keyspace_of(py, request)?;
        let child = policy.getattr(pyo3::intern!(py, "_child_policy"))?;
        let key = match query.is_none() {
            true => None,
            false => {
                let key = query.getattr(pyo3::intern!(py, "routing_key"))?;
                (!key.is_none() && !keyspace.is_none()).then_some(key)
            }
        };
        let Some(key) = key else {
            let hosts = child_plan(&child, &keyspace, query)?;
            return Ok(Some(State::Other(hosts.unbind())));
        };
        let metadata = policy.getattr(pyo3::intern!(py, "_cluster_metadata"))?;
        let replicas = match ring.source(&metadata, &keyspace, query, &key)? {
            None => return Ok(None),
            Some(Source::TokenMap(replicas)) => replicas,
            Some(Source::Tablet(tablet)) => {
                let Some(classes) = &ring.tablets else { return Ok(None) };
                if flavor.has_leaders && has_leader(&metadata, &keyspace, &tablet, classes)? {
                    return Ok(None);
                }
                let uuid = classes.uuid.bind(py);
                let ids = Ids::of(&tablet.getattr(pyo3::intern!(py, "replicas"))?, uuid)?;
                replicas_of(&ids, child_plan(&child, &keyspace, query)?, uuid)?
            }
        };
        if is_shuffled(policy, query, flavor)? && replicas.len() > 1 {
            flavor.shuffle.get().shuffle(&replicas)?;
        }
        Ok(Some(State::Walk(Walk {
            measure: distances.measure(&child)?,
            child: child.unbind(),
            keyspace: keyspace.unbind(),
            query: query.clone().unbind(),
            replicas: replicas.unbind(),
            by_distance: flavor.by_distance,
            rest: Rest::Unused,
            at: (0, 0),
        })))
    }

    pub fn next<'py>(
        &mut self,
        py: Python<'py>,
        distances: &Distances,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.by_distance {
            return self.next_by_distance(py, distances);
        }
        let child = self.child.bind(py).clone();
        let [local, remote] = distances.order[..] else { return Ok(None) };
        if matches!(self.rest, Rest::Unused) {
            while let Ok(replica) = self.replicas.bind(py).get_item(self.at.1) {
                self.at.1 += 1;
                if is_up(&replica)? && distances.is_at(local, &replica, &child, self.measure)? {
                    return Ok(Some(replica));
                }
            }
            let plan = child_plan(&child, self.keyspace.bind(py), self.query.bind(py))?;
            self.rest = Rest::Plan(plan.unbind());
        }
        let Rest::Plan(plan) = &self.rest else { return Ok(None) };
        let replicas = self.replicas.bind(py);
        for host in plan.bind(py).clone() {
            let host = host?;
            if !replicas.contains(&host)? || distances.is_at(remote, &host, &child, self.measure)? {
                return Ok(Some(host));
            }
        }
        Ok(None)
    }

    fn next_by_distance<'py>(
        &mut self,
        py: Python<'py>,
        distances: &Distances,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let child = self.child.bind(py).clone();
        loop {
            let hosts = match &self.rest {
                Rest::Listed(hosts) => hosts.bind(py).clone(),
                Rest::Unused | Rest::Plan(_) => self.replicas.bind(py).clone(),
            };
            while let Some(&distance) = distances.order.get(self.at.0) {
                while distances.can_be_at(distance, self.measure)
                    && let Ok(host) = hosts.get_item(self.at.1)
                {
                    self.at.1 += 1;
                    if is_up(&host)? && distances.is_at(distance, &host, &child, self.measure)? {
                        return Ok(Some(host));
                    }
                }
                self.at = (self.at.0 + 1, 0);
            }
            if matches!(self.rest, Rest::Listed(_)) {
                return Ok(None);
            }
            let others = PyList::empty(py);
            for host in child_plan(&child, self.keyspace.bind(py), self.query.bind(py))? {
                let host = host?;
                if !self.replicas.bind(py).contains(&host)? {
                    others.append(host)?;
                }
            }
            self.rest = Rest::Listed(others.unbind());
            self.at = (0, 0);
        }
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.child)?;
        visit.call(&self.keyspace)?;
        visit.call(&self.query)?;
        visit.call(&self.replicas)?;
        match &self.rest {
            Rest::Unused => Ok(()),
            Rest::Listed(hosts) => visit.call(hosts),
            Rest::Plan(hosts) => visit.call(hosts),
        }
    }
}

fn is_up(host: &Bound<'_, PyAny>) -> PyResult<bool> {
    host.getattr(pyo3::intern!(host.py(), "is_up"))?.is_truthy()
}

/// Whether the driver would shuffle the replicas.
fn is_shuffled(
    policy: &Bound<'_, PyAny>,
    query: &Bound<'_, PyAny>,
    flavor: &Flavor,
) -> PyResult<bool> {
    let py = policy.py();
    if !policy.getattr(pyo3::intern!(py, "shuffle_replicas"))?.is_truthy()? {
        return Ok(false);
    }
    if !flavor.by_distance {
        return Ok(true);
    }
    if query.call_method0(pyo3::intern!(py, "is_lwt"))?.is_truthy()? {
        return Ok(false);
    }
    if !flavor.has_leaders {
        return Ok(true);
    }
    let level = query.getattr(pyo3::intern!(py, "consistency_level"))?;
    for serial in SERIAL {
        if !level.is_none() && level.eq(serial)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the table of a tablet may be strongly consistent. If so, the driver looks for a leader.
fn has_leader(
    metadata: &Bound<'_, PyAny>,
    keyspace: &Bound<'_, PyAny>,
    tablet: &Bound<'_, PyAny>,
    classes: &TabletClasses,
) -> PyResult<bool> {
    let py = metadata.py();
    if tablet.getattr(pyo3::intern!(py, "tablet_version"))?.is_none() {
        return Ok(false);
    }
    let keyspaces = metadata.getattr(pyo3::intern!(py, "keyspaces"))?;
    let described = keyspaces.call_method1(pyo3::intern!(py, "get"), (keyspace,))?;
    if described.is_none() {
        return Ok(false);
    }
    let mode = described.getattr_opt(pyo3::intern!(py, "_consistency_mode"))?;
    Ok(!mode.is_some_and(|mode| mode.is(&classes.eventual)))
}

/// Returns the hosts of a plan that have a replica of a tablet.
fn replicas_of<'py>(
    ids: &Ids<'py>,
    hosts: Bound<'py, PyIterator>,
    uuid: &Bound<'py, PyType>,
) -> PyResult<Bound<'py, PyList>> {
    let py = hosts.py();
    let replicas = PyList::empty(py);
    for host in hosts {
        let host = host?;
        if ids.contains(&host.getattr(pyo3::intern!(py, "host_id"))?, uuid)? {
            replicas.append(host)?;
        }
    }
    Ok(replicas)
}

/// The ids of the hosts that have a replica. The driver puts them into a set. Hashing and comparing
/// UUIDs calls Python functions, so here the numbers of the UUIDs are compared.
struct Ids<'py> {
    numbers: Vec<Bound<'py, PyInt>>,
    /// The ids; None if all ids are UUIDs.
    set: Option<Bound<'py, PySet>>,
}

impl<'py> Ids<'py> {
    fn of(replicas: &Bound<'py, PyAny>, uuid: &Bound<'py, PyType>) -> PyResult<Ids<'py>> {
        let (mut numbers, mut ids) = (Vec::new(), Vec::new());
        for replica in replicas.try_iter()? {
            let id = replica?.get_item(0)?;
            numbers.extend(number(&id, uuid)?);
            ids.push(id);
        }
        let set = (numbers.len() != ids.len()).then(|| PySet::new(replicas.py(), ids));
        Ok(Ids { numbers, set: set.transpose()? })
    }

    fn contains(&self, id: &Bound<'py, PyAny>, uuid: &Bound<'py, PyType>) -> PyResult<bool> {
        if let Some(set) = &self.set {
            return set.contains(id);
        }
        let Some(number) = number(id, uuid)? else { return Ok(false) };
        for own in &self.numbers {
            if own.as_any().eq(&number)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the number of a UUID; None for an object of another class.
fn number<'py>(
    id: &Bound<'py, PyAny>,
    uuid: &Bound<'py, PyType>,
) -> PyResult<Option<Bound<'py, PyInt>>> {
    if !id.get_type().is(uuid) {
        return Ok(None);
    }
    Ok(id.getattr(pyo3::intern!(id.py(), "int"))?.cast_into_exact().ok())
}
