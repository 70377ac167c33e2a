//! The stand-in for `recv_results_rows` of the driver's RESULT messages.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyType};
use turbocql_codec::message::result::{Description, Head};
use turbocql_codec::page;

use super::counts::Counts;
use super::lazy::{LazyRows, OriginalCall};
use super::result_plan::{PlanKey, Plans, ResultPlan};
use crate::arrays;
use crate::ffi::call::{self, StandIn};
use crate::python;
use crate::reader::ValueReader;
use crate::reading::{Column, Columns, Reading};
use crate::scalars::{ReadWays, Scalars};
use turbocql_values::ffi::bytes;
use turbocql_values::ffi::rows::{Stopped, tuples};

/// The maximum number of buckets in the cache of plans. A bucket has the plans for one fingerprint
/// of a result's description, or for one of the driver's lists of columns. A cache with 16,384
/// buckets is full: it learns no new plan before it is cleared.
const MAX_BUCKETS: usize = 16_384;
/// When 65,536 pages have found no plan in a full cache, the next such page clears the cache.
const MAX_UNKNOWN: u64 = 4 * MAX_BUCKETS as u64;
/// The maximum number of plans in one bucket. The plans are ordered, the most recently used first.
const MAX_IN_BUCKET: usize = 16;

/// The maximum number of addresses in `ResultStandIn::seen`. A full set is cleared before the next
/// address is added.
const MAX_SEEN: usize = 1024;

/// The form in which rows are returned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    List,
    /// An iterator that decodes one row at a time.
    Lazy,
    /// One array or list per column.
    Arrays,
}

/// Stands in for `recv_results_rows` of one message class.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ResultStandIn {
    original: Py<PyAny>,
    /// Only instances of exactly this class are handled natively: a subclass may read pages
    /// differently.
    class: Py<PyType>,
    /// A function that makes the `ResultPlan` of a list of columns.
    compile: Py<PyAny>,
    /// A function with two parameters, an encryption policy and a list of columns. It returns a
    /// sequence: for each column, None or (description, `decrypt`, reader). The function returns
    /// None instead of a sequence if the driver's function must read the page.
    encrypted: Py<PyAny>,
    properties: Py<ReadWays>,
    /// Whether pages with a null in a collection are left to the driver's function.
    strict_nulls: bool,
    shape: Shape,
    /// A function that turns the native result into the object that the driver returns. It is
    /// not called for `Shape::List`.
    finish: Py<PyAny>,
    cache: Mutex<Plans>,
    counts: Counts,
    learned: AtomicU64,
    /// Addresses of the driver's column lists that were used since the set was last cleared.
    seen: Mutex<HashSet<u64>>,
    /// The number of pages that found no plan since the cache became full.
    unknown: AtomicU64,
}

#[pymethods]
impl ResultStandIn {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the arguments of a Python call")]
    fn new(
        original: Py<PyAny>,
        owner: Py<PyType>,
        compile: Py<PyAny>,
        encrypted: Py<PyAny>,
        ways: Py<ReadWays>,
        strict_nulls: bool,
        shape: &str,
        finish: Py<PyAny>,
    ) -> PyResult<ResultStandIn> {
        let shape = match shape {
            "list" => Shape::List,
            "lazy" => Shape::Lazy,
            "arrays" => Shape::Arrays,
            _ => return Err(PyValueError::new_err(format!("unknown shape: {shape:?}"))),
        };
        Ok(ResultStandIn {
            original,
            class: owner,
            compile,
            encrypted,
            properties: ways,
            strict_nulls,
            shape,
            finish,
            cache: Mutex::default(),
            counts: Counts::default(),
            learned: AtomicU64::new(0),
            seen: Mutex::default(),
            unknown: AtomicU64::new(0),
        })
    }

    /// Returns the function that replaces the driver's.
    fn function<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        call::function(this, &this.get().original)
    }

    /// The numbers of native calls and of fallbacks.
    fn counts(&self) -> (u64, u64) {
        self.counts.get()
    }

    /// Returns the number of calls of the driver's function that were made to learn a plan.
    fn learned(&self) -> u64 {
        self.learned.load(Ordering::Relaxed)
    }
}

/// The size in bytes of a result's kind. The driver reads it before `recv_results_rows` is called.
const KIND: usize = 4;

/// The arguments of a call, the body in the buffer `reader`, and the position of the buffer.
struct Call<'a, 'py> {
    message: &'a Bound<'py, PyAny>,
    reader: &'a Bound<'py, PyAny>,
    version: i64,
    types: &'a Bound<'py, PyAny>,
    metadata: &'a Bound<'py, PyAny>,
    policy: &'a Bound<'py, PyAny>,
    body: Bound<'py, PyBytes>,
    /// The position of `reader` in the body.
    position: usize,
}

impl ResultStandIn {
    /// Returns the result's description (None if the result has none), and the plan for its rows.
    /// Returns None if no current plan is cached.
    fn find<'py>(
        &self,
        head: &Head<'_>,
        call: &Call<'_, 'py>,
        bucket: u64,
    ) -> Option<(Option<Description>, Bound<'py, ResultPlan>)> {
        let py = call.message.py();
        let cached = {
            let mut cache = self.cache();
            let plans = cache.get_mut(&bucket)?;
            let at = plans.iter().position(|(key, plan)| match key {
                PlanKey::Described(description) => head.is(description),
                PlanKey::ColumnList(list) => {
                    !head.is_described()
                        && call.metadata.is(list)
                        && plan.get().is_of(list.bind(py))
                        && plan.get().metadata.bind(py).len() == head.width()
                }
            })?;
            plans[..=at].rotate_right(1);
            let (key, plan) = plans.first()?;
            let description = match key {
                PlanKey::Described(description) => Some(description.clone()),
                PlanKey::ColumnList(_) => None,
            };
            (description, plan.bind(py).clone())
        };
        // The mutex is not held here: the check may run Python code, which may switch threads.
        if cached.1.get().is_current(py) {
            return Some(cached);
        }
        let dropped = {
            let mut cache = self.cache();
            let plans = cache.get_mut(&bucket)?;
            let at = plans.iter().position(|(_, plan)| plan.is(&cached.1))?;
            plans.remove(at)
        };
        drop(dropped);
        None
    }

    fn cache(&self) -> MutexGuard<'_, Plans> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, bucket: u64, key: PlanKey, plan: Py<ResultPlan>) {
        let mut cache = self.cache();
        let plans = cache.entry(bucket).or_default();
        // The dropped plan owns Python objects. They are released after the mutex is unlocked,
        // because their release may run Python code.
        let last = if plans.len() < MAX_IN_BUCKET { None } else { plans.pop() };
        plans.insert(0, (key, plan));
        drop(cache);
        drop(last);
    }

    /// Whether to learn a plan from this page. For a result without a description, the driver's
    /// list of columns must have been used before. If the cache is full, no plan is learned, but
    /// the cache is cleared after `MAX_UNKNOWN` pages that found no plan.
    fn is_worth_it(&self, head: &Head<'_>, bucket: u64) -> bool {
        if !head.is_described() {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if !seen.contains(&bucket) {
                if seen.len() >= MAX_SEEN {
                    seen.clear();
                }
                seen.insert(bucket);
                return false;
            }
        }
        let mut cache = self.cache();
        if cache.len() < MAX_BUCKETS {
            return true;
        }
        if self.unknown.fetch_add(1, Ordering::Relaxed) < MAX_UNKNOWN {
            return false;
        }
        self.unknown.store(0, Ordering::Relaxed);
        let all = std::mem::take(&mut *cache);
        drop(cache);
        drop(all);
        true
    }

    /// Calls the driver's function to read the page, then caches a plan for the page's columns.
    fn learn<'py>(
        &self,
        call: &Call<'_, 'py>,
        head: &Head<'_>,
        bucket: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Call { message, reader, version, types, metadata, policy, .. } = call;
        let py = message.py();
        self.learned.fetch_add(1, Ordering::Relaxed);
        let read = self.original.bind(py);
        let result = read.call1((message, reader, version, types, metadata, policy))?;
        let (key, columns) = if head.is_described() {
            let Ok(description) = head.describe() else { return Ok(result) };
            let columns = message.getattr(pyo3::intern!(py, "column_metadata"))?;
            (PlanKey::Described(description), columns)
        } else {
            let Ok(list) = metadata.cast_exact::<PyList>() else { return Ok(result) };
            (PlanKey::ColumnList(list.clone().unbind()), (*metadata).clone())
        };
        // The page has been read, so an `Exception` of `compile` is ignored, and no plan is cached.
        match self.compile.bind(py).call1((columns,)) {
            Ok(plan) => self.keep(bucket, key, plan.cast_into::<ResultPlan>()?.unbind()),
            Err(error) if error.is_instance_of::<PyException>(py) => {}
            Err(error) => return Err(error),
        }
        Ok(result)
    }

    /// Reads the page natively; None if the driver's function must read it, or raise an error.
    fn read<'py>(
        &self,
        call: &Call<'_, 'py>,
        head: &Head<'_>,
        description: Option<&Description>,
        cached_plan: &Bound<'py, ResultPlan>,
    ) -> PyResult<Option<()>> {
        let plan = cached_plan.get();
        let (message, py) = (call.message, call.message.py());
        let Some(readers) = &plan.columns else { return Ok(None) };
        let Ok((count, rows)) = head.only_rows(description) else { return Ok(None) };
        // For the driver, a paging state of negative length is an error.
        if head.has_more_pages() && head.paging_state().is_none() {
            return Ok(None);
        }
        let metadata = plan.metadata.bind(py);
        if description.is_some() && plan.has_udts {
            for reader in readers {
                if let Err(error) = reader.get().register(call.types) {
                    return usual(py, error);
                }
            }
        }
        let mut columns: Vec<_> =
            readers.iter().map(|reader| Column::Clear(reader.get())).collect();
        if !call.policy.is_none() {
            if self.shape != Shape::List {
                return Ok(None);
            }
            let secrets = match self.encrypted.bind(py).call1((call.policy, metadata)) {
                Ok(secrets) => secrets,
                Err(error) => return usual(py, error),
            };
            if secrets.is_none() {
                return Ok(None);
            }
            for (column, secret) in columns.iter_mut().zip(secrets.try_iter()?) {
                let secret = secret?;
                if !secret.is_none() {
                    let (described, decrypt, reader): (_, _, Bound<'_, ValueReader>) =
                        secret.extract()?;
                    *column = Column::Encrypted(reader.unbind(), described, decrypt);
                }
            }
        }
        let Some(reference) = Scalars::new(py, self.properties.get()) else { return Ok(None) };
        let reading = Reading::new(reference, self.strict_nulls, call.version);
        let columns = Columns::new(reading, columns);
        let Ok(mut cells) = page::cells(readers.len(), count, rows) else { return Ok(None) };
        let (names, classes) = (PyList::empty(py), PyList::empty(py));
        for column in metadata {
            names.append(column.get_item(2)?)?;
            classes.append(column.get_item(3)?)?;
        }
        let rows = match self.shape {
            Shape::List => {
                tuples(py, &columns, &mut cells, count, plan.atomic && call.policy.is_none())
                    .map(|rows| Some(rows.into_any()))
            }
            Shape::Arrays => arrays::columns(py, &columns, &mut cells, count, &plan.widths)
                .and_then(|rows| {
                    let finish = self.finish.bind(py);
                    Ok(rows.map(|rows| finish.call1((&names, &classes, rows))).transpose()?)
                }),
            Shape::Lazy => {
                let original_call = OriginalCall {
                    original: self.original.clone_ref(py),
                    message: message.get_type().unbind(),
                    before: call.position,
                    types: call.types.clone().unbind(),
                    metadata: call.metadata.clone().unbind(),
                };
                let at = call.body.as_bytes().len() - rows.len();
                let body = call.body.clone().unbind();
                let properties = self.properties.clone_ref(py);
                let rows = LazyRows::new(
                    original_call,
                    cached_plan.clone().unbind(),
                    properties,
                    call.version,
                    body,
                    at,
                    count,
                );
                let finish = self.finish.bind(py);
                Bound::new(py, rows)
                    .and_then(|rows| finish.call1((rows,)))
                    .map(Some)
                    .map_err(Stopped::Raised)
            }
        };
        let rows = match rows {
            Ok(Some(rows)) => rows,
            Err(Stopped::Raised(error)) => return usual(py, error),
            Ok(None) | Err(_) => return Ok(None),
        };
        if self.shape != Shape::Lazy && cells.finish().is_err() {
            return Ok(None);
        }
        if let Some(state) = head.paging_state() {
            message.setattr(pyo3::intern!(py, "paging_state"), bytes::copy(py, state)?)?;
        }
        if let Some(id) = head.metadata_id() {
            message.setattr(pyo3::intern!(py, "result_metadata_id"), bytes::copy(py, id)?)?;
        }
        if description.is_some() {
            let columns = metadata.get_slice(0, metadata.len());
            message.setattr(pyo3::intern!(py, "column_metadata"), columns)?;
        }
        message.setattr(pyo3::intern!(py, "column_names"), names)?;
        message.setattr(pyo3::intern!(py, "column_types"), classes)?;
        message.setattr(pyo3::intern!(py, "parsed_rows"), rows)?;
        Ok(Some(()))
    }
}

/// Returns None for an `Exception`, so that the driver's function runs and raises its own error.
/// Raises any other error, such as a KeyboardInterrupt.
fn usual(py: Python<'_>, error: PyErr) -> PyResult<Option<()>> {
    if error.is_instance_of::<PyException>(py) { Ok(None) } else { Err(error) }
}

impl StandIn for ResultStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        let [message, reader, version, types, metadata, policy] = arguments else {
            return Ok(None);
        };
        if !message.get_type().is(&stand_in.class) {
            return Ok(None);
        }
        let Ok(version @ 3..=5) = version.extract::<i64>() else { return Ok(None) };
        // Any other class, including a subclass, may override the methods that are called below.
        if !reader.get_type().is(python::bytes_io(py)?) {
            return Ok(None);
        }
        let Ok(position) = reader.call_method0(pyo3::intern!(py, "tell")) else {
            return Ok(None);
        };
        // `BytesIO.getvalue` returns the `bytes` that the buffer was made from, without a copy.
        let Ok(body) = reader.call_method0(pyo3::intern!(py, "getvalue")) else {
            return Ok(None);
        };
        let Ok(body) = body.cast_into_exact::<PyBytes>() else { return Ok(None) };
        let Ok(position) = position.extract::<usize>() else { return Ok(None) };
        let call = Call { message, reader, version, types, metadata, policy, body, position };
        let body = call.body.clone();
        // The body may have fields before the result, such as warnings.
        let from = position.checked_sub(KIND);
        let Some(result) = from.and_then(|from| body.as_bytes().get(from..)) else {
            return Ok(None);
        };
        let Ok(head) = Head::parse(result) else { return Ok(None) };
        // Two kinds of unusual results are left to the driver's function. If a result without a
        // description has a metadata id, the driver does not read the id. If a result has no
        // columns, the driver uses the list `metadata`, even if the result has a description.
        if !head.is_described() && head.metadata_id().is_some() || head.width() == 0 {
            return Ok(None);
        }
        let bucket = match head.is_described() {
            true => head.fingerprint(),
            false => Some(call.metadata.as_ptr() as u64),
        };
        let Some(bucket) = bucket else { return Ok(None) };
        let Some((description, plan)) = stand_in.find(&head, &call, bucket) else {
            if !stand_in.is_worth_it(&head, bucket) {
                return Ok(None);
            }
            return stand_in.learn(&call, &head, bucket).map(Some);
        };
        if stand_in.read(&call, &head, description.as_ref(), &plan)?.is_none() {
            return Ok(None);
        }
        reader.call_method1(pyo3::intern!(py, "seek"), (body.as_bytes().len(),))?;
        stand_in.counts.native();
        Ok(Some(py.None().into_bound(py)))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
