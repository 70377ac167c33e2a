//! What stands in for functions of the package `cassandra` (cassandra-driver, scylla-driver).
//!
//! Each stand-in does what its function does for usual arguments, and hands all others to it before
//! anything has been consumed. What is usual is decided in Python, once per type or statement, by
//! `turbocql.accel`; here it is looked up and used.
#![deny(unsafe_code)]

pub mod bind;
pub mod body;
pub mod counted;
mod dependence;
pub mod deserialize;
pub mod ffi;
pub mod lazy;
pub mod method;
pub mod named;
pub mod reader;
pub mod result;
pub mod routing;
pub mod segment;
pub mod serialize;
pub mod timer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyDict};

use ffi::dialect::Driver;
use turbocql_values::ffi::encode;
use turbocql_values::value::HostPlan;

/// Counts what may have changed the meaning of a plan: one that is older is looked at again.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Whether stand-ins do anything by themselves: somebody may keep one after all have been taken out.
static ON: AtomicBool = AtomicBool::new(false);

/// Lets stand-ins work, or hand everything to their functions.
#[pyfunction]
pub fn accel_enable(on: bool) {
    ON.store(on, Ordering::Relaxed);
}

pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Somebody has changed a class of the driver's.
#[pyfunction]
pub fn accel_changed() {
    EPOCH.fetch_add(1, Ordering::Relaxed);
}

fn epoch() -> u64 {
    EPOCH.load(Ordering::Relaxed)
}

/// Entries of dicts, as they were: what a plan depends on.
struct Entries(Vec<Kept>);

type Kept = (Py<PyDict>, Py<PyAny>, Option<Py<PyAny>>);

type Entry<'py> = (Bound<'py, PyDict>, Py<PyAny>, Option<Py<PyAny>>);

impl Entries {
    fn new(entries: Vec<Entry<'_>>) -> Entries {
        Entries(entries.into_iter().map(|(dict, key, then)| (dict.unbind(), key, then)).collect())
    }

    fn clone_ref(&self, py: Python<'_>) -> Entries {
        let cloned = self.0.iter().map(|(dict, key, then)| {
            let then = then.as_ref().map(|then| then.clone_ref(py));
            (dict.clone_ref(py), key.clone_ref(py), then)
        });
        Entries(cloned.collect())
    }

    fn are_current(&self, py: Python<'_>) -> bool {
        self.0.iter().all(|(dict, key, then)| match (dict.bind(py).get_item(key), then) {
            (Ok(Some(now)), Some(then)) => now.is(then),
            (Ok(None), None) => true,
            _ => false,
        })
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        for (dict, key, then) in &self.0 {
            visit.call(dict)?;
            visit.call(key)?;
            visit.call(then)?;
        }
        Ok(())
    }
}

/// How often a stand-in did the work itself, and how often the function did.
#[derive(Default)]
struct Counts {
    native: AtomicU64,
    fallback: AtomicU64,
}

impl Counts {
    /// Under the interpreter's lock: a load and a store, not a locked addition.
    fn add(counter: &AtomicU64) {
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn native(&self) {
        Counts::add(&self.native);
    }

    fn fallback(&self) {
        Counts::add(&self.fallback);
    }

    fn get(&self) -> (u64, u64) {
        (self.native.load(Ordering::Relaxed), self.fallback.load(Ordering::Relaxed))
    }
}

/// How a driver writes what drivers write in several ways.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    Protocol,
    FloatTime,
    FloatTimeEmptyNull,
}

impl Writes {
    fn from_name(name: &str) -> PyResult<Writes> {
        match name {
            "protocol" => Ok(Writes::Protocol),
            "float time" => Ok(Writes::FloatTime),
            "float time, empty null" => Ok(Writes::FloatTimeEmptyNull),
            _ => Err(PyValueError::new_err(format!("unknown way to write: {name:?}"))),
        }
    }

    /// The bytes of a value, unless it is an unusual one.
    #[inline]
    fn bytes<'py>(self, plan: &HostPlan, value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
        match self {
            Writes::Protocol => encode::bytes_of::<Driver<false, false>>(plan, value),
            Writes::FloatTime => encode::bytes_of::<Driver<true, false>>(plan, value),
            Writes::FloatTimeEmptyNull => encode::bytes_of::<Driver<true, true>>(plan, value),
        }
    }
}

/// The protocol versions whose values the codec knows.
fn is_known_version(version: &Bound<'_, PyAny>) -> bool {
    version.extract::<u8>().is_ok_and(|version| (3..=5).contains(&version))
}
