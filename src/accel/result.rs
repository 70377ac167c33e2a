//! `recv_results_rows` of the driver's RESULT messages.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyType};
use turbocql_codec::message::result::{Description, Head};
use turbocql_codec::{Plan, page};

use super::{Counts, epoch};
use crate::classes::cql_type::CqlType_;
use crate::ffi::bytes;
use crate::ffi::call::{self, StandIn};
use crate::ffi::columns::{Column, Columns};
use crate::ffi::decode::is_atomic;
use crate::ffi::reference::{Ways, makes};
use crate::ffi::rows::{Stopped, tuples};

/// Descriptions of columns that are kept, the last used first.
const KEPT: usize = 64;

/// How rows of columns that a result has described become values, if that is usual.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ResultPlan {
    epoch: u64,
    /// As the driver reads the description: (keyspace, table, name, class).
    metadata: Py<PyList>,
    columns: Option<Vec<Column>>,
    atomic: bool,
    /// What it depends on.
    entries: Vec<Kept>,
}

/// An entry of a module, as it was.
type Kept = (Py<PyDict>, Py<PyString>, Option<Py<PyAny>>);

type Entry<'py> = (Bound<'py, PyDict>, Bound<'py, PyString>, Option<Bound<'py, PyAny>>);

#[pymethods]
impl ResultPlan {
    /// A column is a type, or a type and a function of bytes and protocol version; None has every
    /// page read by the driver.
    #[new]
    fn new(
        metadata: &Bound<'_, PyList>,
        columns: Option<Vec<Bound<'_, PyAny>>>,
        entries: Vec<Entry<'_>>,
    ) -> PyResult<ResultPlan> {
        let column = |given: Bound<'_, PyAny>| -> PyResult<Column> {
            if let Ok(cql_type) = given.cast::<CqlType_>() {
                return Ok(Column::Native(cql_type.get().plan(given.py())?.clone()));
            }
            let (cql_type, read): (Bound<'_, CqlType_>, Py<PyAny>) = given.extract()?;
            let decimal = matches!(**cql_type.get().plan(cql_type.py())?, Plan::Decimal);
            Ok(if decimal { Column::Decimal(read) } else { Column::Python(read) })
        };
        let columns: Option<Vec<Column>> = columns
            .map(|columns| columns.into_iter().map(column).collect::<PyResult<_>>())
            .transpose()?;
        let entries = entries
            .into_iter()
            .map(|(dict, name, value)| (dict.unbind(), name.unbind(), value.map(Bound::unbind)))
            .collect();
        let atomic = columns.iter().flatten().all(|column| match column {
            // Dates and times of the driver's have a dict.
            Column::Native(plan) => is_atomic(plan) && !matches!(**plan, Plan::Date | Plan::Time),
            Column::Python(_) | Column::Decimal(_) => false,
        });
        // The message keeps the list that it has.
        let metadata = metadata.get_slice(0, metadata.len()).unbind();
        Ok(ResultPlan { epoch: epoch(), metadata, columns, atomic, entries })
    }

    /// Whether values of a type can be read natively.
    #[staticmethod]
    fn reads(cql_type: &Bound<'_, CqlType_>) -> PyResult<bool> {
        Ok(makes(cql_type.get().plan(cql_type.py())?))
    }

    #[getter]
    fn is_native(&self) -> bool {
        self.columns.is_some()
    }
}

impl ResultPlan {
    fn is_current(&self, py: Python<'_>) -> bool {
        self.epoch == epoch()
            && self.entries.iter().all(|(dict, name, then)| {
                match (dict.bind(py).get_item(name), then) {
                    (Ok(Some(now)), Some(then)) => now.is(then),
                    (Ok(None), None) => true,
                    _ => false,
                }
            })
    }
}

/// Stands in for `recv_results_rows` of one class of messages.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ResultStandIn {
    original: Py<PyAny>,
    /// The class itself; those derived from it may read otherwise.
    class: Py<PyType>,
    /// Makes the `ResultPlan` of a message that the driver has read.
    compile: Py<PyAny>,
    ways: Ways,
    known: Mutex<Vec<(Description, Arc<Py<ResultPlan>>)>>,
    counts: Counts,
}

#[pymethods]
impl ResultStandIn {
    #[new]
    fn new(
        original: Py<PyAny>,
        owner: Py<PyType>,
        compile: Py<PyAny>,
        float_time: bool,
        strict_nulls: bool,
        date: Py<PyAny>,
        time: Py<PyAny>,
    ) -> ResultStandIn {
        let ways = Ways { float_time, strict_nulls, date, time };
        let (known, counts) = (Mutex::default(), Counts::default());
        ResultStandIn { original, class: owner, compile, ways, known, counts }
    }

    /// What takes the method's place.
    fn function<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        call::method(&call::function(this, c"recv_results_rows")?)
    }

    /// How often it was native, and how often the original's.
    fn counts(&self) -> (u64, u64) {
        self.counts.get()
    }
}

/// What the driver's reader stands before: the kind of the result.
const BEFORE: u64 = 4;

impl ResultStandIn {
    fn find(&self, py: Python<'_>, head: &Head<'_>) -> Option<(Description, Arc<Py<ResultPlan>>)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|(description, _)| head.is(description))?;
        known[..=at].rotate_right(1);
        let found = known.first().cloned()?;
        if found.1.get().is_current(py) {
            return Some(found);
        }
        let dropped = known.remove(0);
        drop(known);
        drop(dropped);
        None
    }

    fn keep(&self, description: Description, plan: Py<ResultPlan>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Python objects go with what is dropped, when the lock is gone.
        let dropped = if known.len() < KEPT { None } else { known.pop() };
        known.insert(0, (description, Arc::new(plan)));
        drop(known);
        drop(dropped);
    }

    /// Has the driver read it, and learns from that how to.
    fn learn<'py>(
        &self,
        arguments: &[Borrowed<'_, 'py, PyAny>],
        head: &Head<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let [message, reader, version, types, metadata, policy] = arguments else {
            return Err(PyException::new_err("six arguments"));
        };
        let py = message.py();
        self.counts.fallback();
        let read = self.original.bind(py);
        let done = read.call1((message, reader, version, types, metadata, policy))?;
        if let Ok(description) = head.describe() {
            let plan = self.compile.bind(py).call1((message,))?;
            self.keep(description, plan.cast_into::<ResultPlan>()?.unbind());
        }
        Ok(done)
    }

    /// None for whatever the driver is to read, or to refuse.
    fn read<'py>(
        &self,
        message: &Bound<'py, PyAny>,
        head: &Head<'_>,
        (description, plan): (&Description, &ResultPlan),
        version: i64,
    ) -> PyResult<Option<()>> {
        let py = message.py();
        let Some(columns) = &plan.columns else { return Ok(None) };
        let Ok(found) = head.rows(Some(description), None) else { return Ok(None) };
        let Ok(mut cells) = page::cells(columns.len(), found.row_count, found.rows) else {
            return Ok(None);
        };
        // A state of negative length is an error there.
        if head.has_more_pages() && found.paging_state.is_none() {
            return Ok(None);
        }
        let Some(values) = Columns::new(py, &self.ways, columns, version) else {
            return Ok(None);
        };
        let rows = match tuples(py, &values, &mut cells, found.row_count, plan.atomic) {
            Ok(rows) => rows,
            Err(Stopped::Raised(error)) if !error.is_instance_of::<PyException>(py) => {
                return Err(error);
            }
            Err(_) => return Ok(None),
        };
        if cells.finish().is_err() {
            return Ok(None);
        }
        let metadata = plan.metadata.bind(py);
        let (names, classes) = (PyList::empty(py), PyList::empty(py));
        for column in metadata {
            names.append(column.get_item(2)?)?;
            classes.append(column.get_item(3)?)?;
        }
        if let Some(state) = found.paging_state {
            message.setattr(pyo3::intern!(py, "paging_state"), bytes::copy(py, state)?)?;
        }
        if let Some(id) = found.metadata_id {
            message.setattr(pyo3::intern!(py, "result_metadata_id"), bytes::copy(py, id)?)?;
        }
        let columns = metadata.get_slice(0, metadata.len());
        message.setattr(pyo3::intern!(py, "column_metadata"), columns)?;
        message.setattr(pyo3::intern!(py, "column_names"), names)?;
        message.setattr(pyo3::intern!(py, "column_types"), classes)?;
        message.setattr(pyo3::intern!(py, "parsed_rows"), rows)?;
        Ok(Some(()))
    }
}

impl StandIn for ResultStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        let [message, reader, version, _, _, policy] = arguments else { return Ok(None) };
        if !policy.is_none() || !message.get_type().is(&stand_in.class) {
            return Ok(None);
        }
        let Ok(version @ 3..=5) = version.extract::<i64>() else { return Ok(None) };
        // A `BytesIO` hands out what it was made of without a copy.
        let Ok(position) = reader.call_method0(pyo3::intern!(py, "tell")) else {
            return Ok(None);
        };
        let Ok(body) = reader.call_method0(pyo3::intern!(py, "getvalue")) else {
            return Ok(None);
        };
        let Ok(body) = body.cast_into_exact::<PyBytes>() else { return Ok(None) };
        if position.extract::<u64>().ok() != Some(BEFORE) {
            return Ok(None);
        }
        let Ok(head) = Head::parse(body.as_bytes()) else { return Ok(None) };
        if !head.is_described() {
            return Ok(None);
        }
        let Some((description, plan)) = stand_in.find(py, &head) else {
            return stand_in.learn(arguments, &head).map(Some);
        };
        if stand_in.read(message, &head, (&description, plan.get()), version)?.is_none() {
            return Ok(None);
        }
        let end = body.as_bytes().len();
        reader.call_method1(pyo3::intern!(py, "seek"), (end,))?;
        stand_in.counts.native();
        Ok(Some(py.None().into_bound(py)))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
