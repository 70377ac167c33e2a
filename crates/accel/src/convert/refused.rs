//! Counts the values that neither the codec nor the conversions could serialize. Keeps exceptions
//! that conversions have raised and that must reach the application.

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyType;
use turbocql_codec::Plan;
use turbocql_values::plan::HostPlan;

/// The maximum number of counts. There is one count for each pair of a class and a CQL type. Once
/// there are so many counts, values of a new pair are not counted. Otherwise an application that
/// keeps making classes could fill the memory.
const MOST_CLASSES: usize = 64;

/// How many values of one class were left to the driver for one CQL type.
struct Count {
    cql_type: &'static str,
    /// The reference keeps the class alive, so that no other class gets its address.
    class: Py<PyType>,
    values: u64,
}

static COUNTS: Mutex<Vec<Count>> = Mutex::new(Vec::new());

thread_local! {
    /// An exception that a conversion raised and that must reach the application, such as
    /// `KeyboardInterrupt`.
    static INTERRUPT: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

fn counts() -> MutexGuard<'static, Vec<Count>> {
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a value that is left to the driver. Always returns false, so that the caller can return
/// the result.
#[cold]
pub fn note(plan: &HostPlan, object: &Bound<'_, PyAny>) -> bool {
    let (cql_type, class) = (kind(plan), object.get_type());
    let mut counts = counts();
    let same = |count: &&mut Count| count.cql_type == cql_type && count.class.is(&class);
    if let Some(count) = counts.iter_mut().find(same) {
        count.values += 1;
    } else if counts.len() < MOST_CLASSES {
        counts.push(Count { cql_type, class: class.unbind(), values: 1 });
    }
    false
}

/// Returns the value of a call of Python code; `None` if the call raised. An exception that is not
/// an instance of `Exception` is kept for [`interrupt`].
pub fn python<T>(result: PyResult<T>) -> Option<T> {
    result.map_err(|error| Python::attach(|py| keep(py, error))).ok()
}

#[cold]
fn keep(py: Python<'_>, error: PyErr) {
    if !error.is_instance_of::<PyException>(py) {
        // An exception that was kept before is dropped after the borrow of `INTERRUPT`, because
        // dropping it may run Python code that converts a value.
        let replaced = INTERRUPT.replace(Some(error));
        drop(replaced);
    }
}

/// Calls `convert`. If [`python`] has kept an exception meanwhile, returns it as an error. An
/// exception that was kept before stays kept: `convert` may run in a finalizer, in the middle of
/// another conversion of this thread.
pub fn uninterrupted<T>(convert: impl FnOnce() -> T) -> PyResult<T> {
    let earlier = INTERRUPT.take();
    let value = convert();
    INTERRUPT.replace(earlier).map_or(Ok(value), Err)
}

/// Returns how many values were left to the driver, for each CQL type and Python class. The largest
/// counts are first.
#[pyfunction]
pub fn accel_refused(py: Python<'_>) -> Vec<(&'static str, String, u64)> {
    let mut classes: Vec<_> = {
        let counts = counts();
        let entry = |count: &Count| (count.cql_type, count.class.clone_ref(py), count.values);
        counts.iter().map(entry).collect()
    };
    classes.sort_by_key(|&(.., values)| std::cmp::Reverse(values));
    let named = |(cql_type, class, values): (_, Py<PyType>, _)| {
        // The `__module__` of a class can be any object, so there may be no fully qualified name
        // that is a `str`.
        let name = class.bind(py).fully_qualified_name().and_then(|name| name.extract());
        let name = name.or_else(|_| class.bind(py).name().and_then(|name| name.extract()));
        (cql_type, name.unwrap_or_else(|_| "a class without a name".to_owned()), values)
    };
    classes.into_iter().map(named).collect()
}

/// Forgets all counts.
#[pyfunction]
pub fn accel_forget_refused() {
    // The classes are dropped after the lock is released, because dropping a class may run Python
    // code.
    let forgotten = std::mem::take(&mut *counts());
    drop(forgotten);
}

/// Returns the name of a CQL type, without its parameters.
fn kind(plan: &HostPlan) -> &'static str {
    match plan {
        Plan::Ascii => "ascii",
        Plan::Text => "text",
        Plan::TinyInt => "tinyint",
        Plan::SmallInt => "smallint",
        Plan::Int => "int",
        Plan::BigInt => "bigint",
        Plan::Counter => "counter",
        Plan::VarInt => "varint",
        Plan::Float => "float",
        Plan::Double => "double",
        Plan::Decimal => "decimal",
        Plan::Boolean => "boolean",
        Plan::Blob => "blob",
        Plan::Uuid => "uuid",
        Plan::TimeUuid => "timeuuid",
        Plan::Inet => "inet",
        Plan::Timestamp => "timestamp",
        Plan::Date => "date",
        Plan::Time => "time",
        Plan::Duration => "duration",
        Plan::List(_) => "list",
        Plan::Set(_) => "set",
        Plan::Map(_) => "map",
        Plan::Tuple(_) => "tuple",
        Plan::Udt(_) => "a user-defined type",
        Plan::Vector(_) => "vector",
        Plan::Composite(_) => "composite",
        Plan::Custom(_) => "custom",
    }
}
