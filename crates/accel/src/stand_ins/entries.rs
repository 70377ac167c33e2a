//! Entries of dicts of the driver, such as the dict of a module, on which a plan depends. A plan
//! also depends on the classes that `TypeWatcher` watches.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

use crate::ffi::version;

/// The entries of dicts on which a plan depends. If one of them is not current, the plan is out of
/// date.
pub struct Entries {
    entries: Vec<DictEntry>,
    seen: Vec<Seen>,
}

/// A dict of the entries, and its version when the entries were last found to be current. While the
/// version is the same, its entries need not be looked up. 0 stands for no version.
struct Seen {
    dict: Py<PyDict>,
    version: AtomicU64,
}

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
        let mut seen: Vec<Seen> = Vec::new();
        for (dict, ..) in &entries {
            if !seen.iter().any(|known| known.dict.is(dict)) {
                seen.push(Seen { dict: dict.clone().unbind(), version: AtomicU64::new(0) });
            }
        }
        let entry = |(dict, key, value): Entry<'_>| DictEntry { dict: dict.unbind(), key, value };
        Entries { entries: entries.into_iter().map(entry).collect(), seen }
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Entries {
        let entries = self.entries.iter().map(|entry| DictEntry {
            dict: entry.dict.clone_ref(py),
            key: entry.key.clone_ref(py),
            value: entry.value.as_ref().map(|value| value.clone_ref(py)),
        });
        let seen = self.seen.iter().map(|seen| Seen {
            dict: seen.dict.clone_ref(py),
            version: AtomicU64::new(seen.version.load(Ordering::Relaxed)),
        });
        Entries { entries: entries.collect(), seen: seen.collect() }
    }

    #[inline]
    pub fn are_current(&self, py: Python<'_>) -> bool {
        let is_seen = |seen: &Seen| {
            let version = version::of_dict(seen.dict.bind(py));
            version != 0 && version == seen.version.load(Ordering::Relaxed)
        };
        (version::DICTS_HAVE_VERSIONS && self.seen.iter().all(is_seen)) || self.are_found(py)
    }

    /// Looks each entry up. If all are current, keeps the versions of the dicts.
    #[cfg_attr(not(Py_3_13), cold)]
    fn are_found(&self, py: Python<'_>) -> bool {
        // The versions are read first: a comparison of keys may run code that changes a dict.
        let with_versions = self.seen.iter().filter(|_| version::DICTS_HAVE_VERSIONS);
        let versions: Vec<u64> =
            with_versions.map(|seen| version::of_dict(seen.dict.bind(py))).collect();
        let is_current =
            |entry: &DictEntry| match (entry.dict.bind(py).get_item(&entry.key), &entry.value) {
                (Ok(Some(now)), Some(value)) => now.is(value),
                (Ok(None), None) => true,
                _ => false,
            };
        if !self.entries.iter().all(is_current) {
            return false;
        }
        for (seen, version) in self.seen.iter().zip(versions) {
            seen.version.store(version, Ordering::Relaxed);
        }
        true
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        for seen in &self.seen {
            visit.call(&seen.dict)?;
        }
        for entry in &self.entries {
            visit.call(&entry.dict)?;
            visit.call(&entry.key)?;
            visit.call(&entry.value)?;
        }
        Ok(())
    }
}
