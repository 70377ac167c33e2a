//! The dict entries on which a plan depends, in addition to the watched classes.

use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

/// Entries of dicts that a plan depends on: the dict, the key, and the value when the plan was made
/// (`None` if the key was absent). The plan is valid while each dict still has that object under
/// the key, or still lacks the key.
pub struct Entries(Vec<Kept>);

type Kept = (Py<PyDict>, Py<PyAny>, Option<Py<PyAny>>);

pub type Entry<'py> = (Bound<'py, PyDict>, Py<PyAny>, Option<Py<PyAny>>);

impl Entries {
    pub fn new(entries: Vec<Entry<'_>>) -> Entries {
        Entries(entries.into_iter().map(|(dict, key, then)| (dict.unbind(), key, then)).collect())
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Entries {
        let cloned = self.0.iter().map(|(dict, key, then)| {
            let then = then.as_ref().map(|then| then.clone_ref(py));
            (dict.clone_ref(py), key.clone_ref(py), then)
        });
        Entries(cloned.collect())
    }

    pub fn are_current(&self, py: Python<'_>) -> bool {
        self.0.iter().all(|(dict, key, then)| match (dict.bind(py).get_item(key), then) {
            (Ok(Some(now)), Some(then)) => now.is(then),
            (Ok(None), None) => true,
            _ => false,
        })
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        for (dict, key, then) in &self.0 {
            visit.call(dict)?;
            visit.call(key)?;
            visit.call(then)?;
        }
        Ok(())
    }
}
