//! `BoundStatement.bind`.

use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

use super::method::StandInMethod;
use super::serialize::TypePlan;
use super::{Counts, Writes, epoch};
use crate::ffi::call::{self, StandIn};
use crate::ffi::record::is_plain_tuple;
use turbocql_values::value::HostPlan;

/// How rows for a prepared statement become cells, if that is usual.
#[pyclass(frozen, module = "turbocql._core")]
pub struct BindPlan {
    epoch: u64,
    /// The statement's list of columns as it was, and the columns in it.
    metadata: Py<PyAny>,
    specifications: Vec<Py<PyAny>>,
    version: i64,
    columns: Option<Vec<Column>>,
}

struct Column {
    name: Py<PyString>,
    cql_type: Py<PyAny>,
    plan: Option<Arc<HostPlan>>,
}

type GivenColumn<'py> = (Bound<'py, PyString>, Bound<'py, PyAny>, Option<Bound<'py, TypePlan>>);

#[pymethods]
impl BindPlan {
    /// `columns` are names, types, and what is known of them; None has every row bound by the driver.
    #[new]
    fn new(
        metadata: &Bound<'_, PyAny>,
        version: i64,
        columns: Option<Vec<GivenColumn<'_>>>,
    ) -> PyResult<BindPlan> {
        let specifications = match metadata.cast::<PyList>() {
            Ok(list) => list.iter().map(Bound::unbind).collect(),
            Err(_) => Vec::new(),
        };
        let columns = columns.map(|columns| {
            let column = |(name, cql_type, known): GivenColumn<'_>| Column {
                name: name.unbind(),
                cql_type: cql_type.unbind(),
                plan: known.and_then(|known| known.get().plan().cloned()),
            };
            columns.into_iter().map(column).collect()
        });
        let metadata = metadata.clone().unbind();
        Ok(BindPlan { epoch: epoch(), metadata, specifications, version, columns })
    }

    /// A copy of a statement has other columns, or the same: its plan is looked at again.
    fn __deepcopy__<'py>(this: &Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        this.clone()
    }

    /// Nothing of it is pickled.
    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, Bound<'py, PyTuple>) {
        (py.None().bind(py).get_type().into_any(), PyTuple::empty(py))
    }
}

impl BindPlan {
    /// Whether nothing has changed since it was made.
    fn is_current(&self, prepared: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = prepared.py();
        let metadata = prepared.getattr(pyo3::intern!(py, "column_metadata"))?;
        let version = prepared.getattr(pyo3::intern!(py, "protocol_version"))?;
        let policy = prepared.getattr(pyo3::intern!(py, "column_encryption_policy"))?;
        if self.epoch != epoch()
            || !metadata.is(&self.metadata)
            || version.extract::<i64>().ok() != Some(self.version)
            || (self.columns.is_some() && !policy.is_none())
        {
            return Ok(false);
        }
        let same = match metadata.cast::<PyList>() {
            Ok(list) => {
                list.len() == self.specifications.len()
                    && list.iter().zip(&self.specifications).all(|(now, then)| now.is(then))
            }
            Err(_) => false,
        };
        Ok(same)
    }
}

/// Stands in for `BoundStatement.bind(values)`.
#[pyclass(frozen, module = "turbocql._core")]
pub struct BindStandIn {
    original: Py<PyAny>,
    /// The class itself; those derived from it may do more.
    class: Py<PyType>,
    unset: Py<PyAny>,
    /// `BoundStatement._append_unset_value` as it was.
    append_unset: Py<PyAny>,
    writes: Writes,
    /// Makes the `BindPlan` of a statement that has none.
    compile: Py<PyAny>,
    counts: Counts,
}

#[pymethods]
impl BindStandIn {
    #[new]
    fn new(
        py: Python<'_>,
        original: Py<PyAny>,
        owner: Py<PyType>,
        unset: Py<PyAny>,
        writes: &str,
        compile: Py<PyAny>,
    ) -> PyResult<BindStandIn> {
        let append_unset = owner.getattr(py, pyo3::intern!(py, "_append_unset_value"))?;
        let writes = Writes::from_name(writes)?;
        let counts = Counts::default();
        Ok(BindStandIn { original, class: owner, unset, append_unset, writes, compile, counts })
    }

    /// What takes the method's place; `doc` begins with its parameters.
    fn function<'py>(this: &Bound<'py, Self>, doc: &str) -> PyResult<Bound<'py, PyAny>> {
        StandInMethod::make(&call::function(this, c"bind", doc)?, &this.get().original)
    }

    /// How often it was native, and how often the original's.
    fn counts(&self) -> (u64, u64) {
        self.counts.get()
    }
}

impl BindStandIn {
    fn plan<'py>(&self, prepared: &Bound<'py, PyAny>) -> PyResult<Bound<'py, BindPlan>> {
        let py = prepared.py();
        if let Ok(Some(known)) = prepared.getattr_opt(pyo3::intern!(py, "_turbocql_plan"))
            && let Ok(known) = known.cast_into::<BindPlan>()
            && known.get().is_current(prepared)?
        {
            return Ok(known);
        }
        Ok(self.compile.bind(py).call1((prepared,))?.cast_into::<BindPlan>()?)
    }

    /// Whether a column may be left out, as the statement says; not where the driver has been
    /// changed to do something else with those.
    fn may_be_unset(&self, prepared: &Bound<'_, PyAny>, index: usize) -> PyResult<bool> {
        let py = prepared.py();
        let append = self.class.bind(py).getattr(pyo3::intern!(py, "_append_unset_value"))?;
        if !append.is(&self.append_unset) {
            return Ok(false);
        }
        let is_key = pyo3::intern!(py, "is_routing_key_index");
        Ok(!prepared.call_method1(is_key, (index,))?.is_truthy()?)
    }

    /// The cells of a row, or none where the driver has to say what is wrong with it.
    fn cells<'py>(
        &self,
        py: Python<'py>,
        columns: &[Column],
        version: i64,
        values: &[Bound<'py, PyAny>],
        prepared: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let cells = PyList::empty(py);
        for (index, (value, column)) in values.iter().zip(columns).enumerate() {
            if value.is_none() {
                cells.append(value)?;
            } else if value.is(&self.unset) {
                if !self.may_be_unset(prepared, index)? {
                    return Ok(None);
                }
                cells.append(value)?;
            } else {
                let plan = column.plan.as_deref();
                if let Some(bytes) = plan.and_then(|plan| self.writes.bytes(plan, value)) {
                    cells.append(bytes)?;
                    continue;
                }
                let serialize = pyo3::intern!(py, "serialize");
                let cell = column.cql_type.bind(py).call_method1(serialize, (value, version));
                match cell {
                    Ok(cell) => cells.append(cell)?,
                    // The driver's own way has its own message, from the first value on.
                    Err(error) if error.is_instance_of::<PyException>(py) => return Ok(None),
                    Err(interrupt) => return Err(interrupt),
                }
            }
        }
        for index in values.len()..columns.len() {
            if !self.may_be_unset(prepared, index)? {
                return Ok(None);
            }
            cells.append(&self.unset)?;
        }
        Ok(Some(cells))
    }
}

impl StandIn for BindStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        let [statement, given] = arguments else { return Ok(None) };
        if !statement.get_type().is(&stand_in.class) {
            return Ok(None);
        }
        let prepared = statement.getattr(pyo3::intern!(py, "prepared_statement"))?;
        let plan = stand_in.plan(&prepared)?;
        let BindPlan { columns: Some(columns), version, .. } = plan.get() else { return Ok(None) };
        let (raw, values): (Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>) =
            if let Ok(list) = given.cast_exact::<PyList>() {
                ((**given).clone(), list.iter().collect())
            } else if let Ok(tuple) = given.cast::<PyTuple>()
                && is_plain_tuple(given)
            {
                ((**given).clone(), tuple.iter().collect())
            } else if let Ok(named) = given.cast_exact::<PyDict>() {
                let mut values = Vec::with_capacity(columns.len());
                for column in columns {
                    values.push(match named.get_item(&column.name)? {
                        Some(value) => value,
                        None if *version >= 4 => stand_in.unset.bind(py).clone(),
                        None => return Ok(None),
                    });
                }
                (PyList::new(py, &values)?.into_any(), values)
            } else {
                return Ok(None);
            };
        // Before version 4 nothing is left out, nor unset.
        let old = *version < 4
            && (values.len() < columns.len()
                || values.iter().any(|value| value.is(&stand_in.unset)));
        if values.len() > columns.len() || old {
            return Ok(None);
        }
        let Some(cells) = stand_in.cells(py, columns, *version, &values, &prepared)? else {
            return Ok(None);
        };
        statement.setattr(pyo3::intern!(py, "raw_values"), raw)?;
        statement.setattr(pyo3::intern!(py, "values"), cells)?;
        stand_in.counts.native();
        Ok(Some((**statement).clone()))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
