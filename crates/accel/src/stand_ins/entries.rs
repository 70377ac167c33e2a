//! Entries of dicts of the driver, such as the dict of a module, on which a plan depends. A plan
//! also depends on the classes that `TypeWatcher` watches.

use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

/// The entries of dicts on which a plan depends. If one of them is not current, the plan is out of
/// date.
pub struct Entries(Vec<DictEntry>);

/// An entry of a dict. If the dict had the key when the plan was made, the entry is current while
/// the key has the same value object. If not, it is current while the dict still lacks the key.
struct DictEntry {
    dict: Py<PyDict>,
    key: Py<PyAny>,
    /// The value when the plan was made; `None` if the dict lacked the key.
    value: Option<Py<PyAny>>,
}

/// A dict, a key, and the value, as Python code passes them. A value of None stands for a missing
/// key.
pub type Entry<'py> = (Bound<'py, PyDict>, Py<PyAny>, Option<Py<PyAny>>);

impl Entries {
    pub fn new(entries: Vec<Entry<'_>>) -> Entries {
        let entry = |(dict, key, value): Entry<'_>| DictEntry { dict: dict.unbind(), key, value };
        Entries(entries.into_iter().map(entry).collect())
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Entries {
        let cloned = self.0.iter().map(|entry| DictEntry {
            dict: entry.dict.clone_ref(py),
            key: entry.key.clone_ref(py),
            value: entry.value.as_ref().map(|value| value.clone_ref(py)),
        });
        Entries(cloned.collect())
    }

    pub fn are_current(&self, py: Python<'_>) -> bool {
        self.0.iter().all(|entry| match (entry.dict.bind(py).get_item(&entry.key), &entry.value) {
            (Ok(Some(now)), Some(value)) => now.is(value),
            (Ok(None), None) => true,
            _ => false,
        })
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        for entry in &self.0 {
            visit.call(&entry.dict)?;
            visit.call(&entry.key)?;
            visit.call(&entry.value)?;
        }
        Ok(())
    }
}
