//! Checks the options and statements of calls on a session.

use std::sync::atomic::Ordering;

use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::types::PyString;
use turbocql_values::error::config_error;
use turbocql_values::value::describe::nearest_and_all;

use crate::classes::session::state::SessionState;
use crate::options::Options;

impl SessionState {
    /// Raises if the options name a profile that the session does not have.
    pub fn check_profile(&self, py: Python<'_>, options: &Options) -> PyResult<()> {
        let named = options.as_ref().and_then(|options| options.profile.as_ref());
        match named {
            Some(name) if !self.engine.has_profile(name) => {
                let names = self.engine.profile_names();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let names = nearest_and_all(&PyString::new(py, name), &names, "its profiles are");
                let reason = format!("there is no profile {name:?} in this session{names}");
                Err(config_error(py, &reason))
            }
            _ => Ok(()),
        }
    }

    /// Warns about a conditional statement if the session takes write times from the client's
    /// clock. Warns only once per session.
    pub fn warn_of(&self, py: Python<'_>, has_condition: impl FnOnce() -> bool) -> PyResult<()> {
        let is_due = self.engine.sets_timestamps() && !self.has_warned.load(Ordering::Relaxed);
        if !is_due || !has_condition() || self.has_warned.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let category = py.get_type::<PyRuntimeWarning>();
        PyErr::warn(
            py,
            &category,
            c"this session writes with the client's time (client_timestamps=True), and a condition (IF) is \
              written with the server's: if the client's clock is ahead, a plain write hides a later \
              conditional update that was applied, and if it is behind, a plain write after a condition \
              is lost. Leave client_timestamps off where rows are written both ways",
            2,
        )
    }
}
