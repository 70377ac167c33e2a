//! Computes the distance of a host from the client, as the child policy of a token-aware policy
//! computes it.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use super::Children;

/// The classes of child policies whose `distance` is computed natively, and the numbers that the
/// driver uses for distances.
pub struct Distances {
    dc_aware: Py<PyType>,
    rack_aware: Option<Py<PyType>>,
    round_robin: Py<PyType>,
    /// The distances in the order of a plan: first the one for hosts in the client's own rack, if
    /// the driver has this distance, then local, then remote.
    pub order: Vec<i64>,
    own_rack: Option<i64>,
    local: i64,
}

/// The distance of a host that is not used. All drivers have the same number for it.
const IGNORED: i64 = -1;

/// How the `distance` of a child policy is computed.
#[derive(Clone, Copy)]
pub enum Measure {
    DcAware,
    RackAware,
    RoundRobin,
    /// By calling the policy's method.
    Method,
}

impl Distances {
    pub fn new(
        (dc_aware, rack_aware, round_robin): Children,
        order: &[i64],
    ) -> PyResult<Distances> {
        let (own_rack, local) = match *order {
            [own_rack, local, _] => (Some(own_rack), local),
            [local, _] => (None, local),
            _ => return Err(PyValueError::new_err("there must be two or three distances")),
        };
        let order = order.to_vec();
        Ok(Distances { dc_aware, rack_aware, round_robin, order, own_rack, local })
    }

    pub fn measure(&self, policy: &Bound<'_, PyAny>) -> PyResult<Measure> {
        let (py, class) = (policy.py(), policy.get_type());
        let measure = if class.is(&self.dc_aware) {
            Measure::DcAware
        } else if class.is(&self.round_robin) {
            Measure::RoundRobin
        } else if self.rack_aware.as_ref().is_some_and(|rack_aware| class.is(rack_aware)) {
            Measure::RackAware
        } else {
            return Ok(Measure::Method);
        };
        let attributes = policy.getattr(pyo3::intern!(py, "__dict__"))?;
        let Ok(attributes) = attributes.cast_into_exact::<PyDict>() else {
            return Ok(Measure::Method);
        };
        // An attribute of the instance may shadow a method of the class.
        for name in
            [pyo3::intern!(py, "distance"), pyo3::intern!(py, "_dc"), pyo3::intern!(py, "_rack")]
        {
            if attributes.contains(name)? {
                return Ok(Measure::Method);
            }
        }
        Ok(measure)
    }

    /// Whether a host has this distance.
    pub fn is_at(
        &self,
        distance: i64,
        host: &Bound<'_, PyAny>,
        policy: &Bound<'_, PyAny>,
        measure: Measure,
    ) -> PyResult<bool> {
        let native = match measure {
            Measure::RoundRobin => Some(self.local),
            Measure::DcAware => self.by_dc(host, policy)?,
            Measure::RackAware => self.by_rack(host, policy)?,
            Measure::Method => None,
        };
        if let Some(native) = native {
            return Ok(native == distance);
        }
        let own = policy.call_method1(pyo3::intern!(host.py(), "distance"), (host,))?;
        own.eq(distance)
    }

    /// Whether hosts of this distance can exist.
    pub fn can_be_at(&self, distance: i64, measure: Measure) -> bool {
        match measure {
            Measure::DcAware | Measure::RoundRobin => self.own_rack != Some(distance),
            Measure::RackAware | Measure::Method => true,
        }
    }

    /// Returns the distance that the host's datacenter decides. Returns None if the host is in
    /// another datacenter and the policy may use hosts there: the policy's method must then be
    /// called.
    fn by_dc(&self, host: &Bound<'_, PyAny>, policy: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
        let py = host.py();
        let local = policy.getattr(pyo3::intern!(py, "local_dc"))?;
        if is_there(host, pyo3::intern!(py, "datacenter"), &local)? {
            return Ok(Some(self.local));
        }
        let remote = policy.getattr(pyo3::intern!(py, "used_hosts_per_remote_dc"))?;
        Ok(if remote.is_truthy()? { None } else { Some(IGNORED) })
    }

    fn by_rack(&self, host: &Bound<'_, PyAny>, policy: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
        let py = host.py();
        let by_dc = self.by_dc(host, policy)?;
        if by_dc != Some(self.local) {
            return Ok(by_dc);
        }
        let rack = policy.getattr(pyo3::intern!(py, "local_rack"))?;
        let is_own = is_there(host, pyo3::intern!(py, "rack"), &rack)?;
        Ok(if is_own { self.own_rack } else { Some(self.local) })
    }
}

/// Whether a host is in the client's datacenter or rack; `name` is the attribute that is compared.
/// If the host's attribute is empty, the host counts as being there.
fn is_there(
    host: &Bound<'_, PyAny>,
    name: &Bound<'_, pyo3::types::PyString>,
    own: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let there = host.getattr(name)?;
    if !there.is_truthy()? {
        // For such a host the driver compares the policy's attribute with itself.
        return own.eq(own);
    }
    there.eq(own)
}
