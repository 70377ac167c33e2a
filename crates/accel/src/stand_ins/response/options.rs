//! The options of a request: its statement's, or those of an execution profile or of the session.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::creating::{Call, FutureMaker};

/// What a request takes from its statement, or from the execution profile, or, without execution
/// profiles, from the session and the cluster.
pub(super) struct Options<'py> {
    pub timeout: Bound<'py, PyAny>,
    pub consistency: Bound<'py, PyAny>,
    pub serial_consistency: Bound<'py, PyAny>,
    pub paging: Bound<'py, PyAny>,
    pub retry_policy: Bound<'py, PyAny>,
    pub row_factory: Bound<'py, PyAny>,
    pub load_balancer: Bound<'py, PyAny>,
    pub speculation: Bound<'py, PyAny>,
}

impl FutureMaker {
    /// Returns the options of a cluster that has execution profiles; `None` if the profile is not
    /// known.
    pub(super) fn options<'py>(
        &self,
        cluster: &Bound<'py, PyAny>,
        query: &Bound<'py, PyAny>,
        call: &Call<'_, 'py>,
    ) -> PyResult<Option<Options<'py>>> {
        let py = query.py();
        let name = call.profile.unwrap_or(self.values.default_profile.bind(py));
        let profile = if name.get_type().is(&self.classes.profile) {
            name.clone()
        } else {
            if !name.is(&self.values.default_profile) && !name.is_exact_instance_of::<PyString>() {
                return Ok(None);
            }
            let manager = cluster.getattr(pyo3::intern!(py, "profile_manager"))?;
            let profiles = manager.getattr(pyo3::intern!(py, "profiles"))?;
            let Ok(profiles) = profiles.cast_into_exact::<PyDict>() else { return Ok(None) };
            match profiles.get_item(name)? {
                Some(profile) if profile.get_type().is(&self.classes.profile) => profile,
                _ => return Ok(None),
            }
        };
        let timeout = if call.timeout.is(&self.values.not_set) {
            profile.getattr(pyo3::intern!(py, "request_timeout"))?
        } else {
            call.timeout.clone()
        };
        let or_of_profile = |name| set_or(query.getattr(name)?, || profile.getattr(name));
        let mut retry_policy = query.getattr(pyo3::intern!(py, "retry_policy"))?;
        if !retry_policy.is_truthy()? {
            retry_policy = profile.getattr(pyo3::intern!(py, "retry_policy"))?;
        }
        Ok(Some(Options {
            timeout,
            consistency: or_of_profile(pyo3::intern!(py, "consistency_level"))?,
            serial_consistency: or_of_profile(pyo3::intern!(py, "serial_consistency_level"))?,
            paging: profile.getattr(pyo3::intern!(py, "continuous_paging_options"))?,
            retry_policy,
            row_factory: profile.getattr(pyo3::intern!(py, "row_factory"))?,
            load_balancer: profile.getattr(pyo3::intern!(py, "load_balancing_policy"))?,
            speculation: profile.getattr(pyo3::intern!(py, "speculative_execution_policy"))?,
        }))
    }

    /// Returns the options of a cluster without execution profiles; `None` if the call names a
    /// profile, which the driver refuses.
    pub(super) fn legacy_options<'py>(
        &self,
        session: &Bound<'py, PyAny>,
        cluster: &Bound<'py, PyAny>,
        query: &Bound<'py, PyAny>,
        call: &Call<'_, 'py>,
    ) -> PyResult<Option<Options<'py>>> {
        let py = query.py();
        if call.profile.is_some_and(|profile| !profile.is(&self.values.default_profile)) {
            return Ok(None);
        }
        let timeout = if call.timeout.is(&self.values.not_set) {
            session.getattr(pyo3::intern!(py, "default_timeout"))?
        } else {
            call.timeout.clone()
        };
        let consistency = set_or(query.getattr(pyo3::intern!(py, "consistency_level"))?, || {
            session.getattr(pyo3::intern!(py, "default_consistency_level"))
        })?;
        let serial_consistency =
            set_or(query.getattr(pyo3::intern!(py, "serial_consistency_level"))?, || {
                session.getattr(pyo3::intern!(py, "default_serial_consistency_level"))
            })?;
        let mut retry_policy = query.getattr(pyo3::intern!(py, "retry_policy"))?;
        if !retry_policy.is_truthy()? {
            retry_policy = cluster.getattr(pyo3::intern!(py, "default_retry_policy"))?;
        }
        let none = py.None().into_bound(py);
        Ok(Some(Options {
            timeout,
            consistency,
            serial_consistency,
            paging: none.clone(),
            retry_policy,
            row_factory: session.getattr(pyo3::intern!(py, "row_factory"))?,
            load_balancer: cluster.getattr(pyo3::intern!(py, "load_balancing_policy"))?,
            speculation: none,
        }))
    }
}

/// Returns `value`, or, if it is Python's None, the other value.
fn set_or<'py>(
    value: Bound<'py, PyAny>,
    other: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if value.is_none() { other() } else { Ok(value) }
}
