//! The stand-in for `BoundStatement.bind`.

use std::sync::Arc;

use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

use super::counts::Counts;
use super::serialize::{self, TypePlan};
use super::writes::Writes;
use crate::ffi::call::{self, StandIn};
use crate::ffi::record::is_plain_tuple;
use crate::switch::epoch;
use turbocql_values::plan::HostPlan;

/// How the values of a row become cells, for one prepared statement.
#[pyclass(frozen, module = "turbocql._core")]
pub struct BindPlan {
    epoch: u64,
    /// The statement's list of columns when the plan was made.
    metadata: Py<PyAny>,
    /// The items of that list when the plan was made.
    specifications: Vec<Py<PyAny>>,
    version: i64,
    /// `None` if the driver's method must bind every row.
    columns: Option<Vec<Column>>,
}

struct Column {
    name: Py<PyString>,
    cql_type: Py<PyAny>,
    plan: Option<Arc<HostPlan>>,
}

type ColumnDescription<'py> =
    (Bound<'py, PyString>, Bound<'py, PyAny>, Option<Bound<'py, TypePlan>>);

#[pymethods]
impl BindPlan {
    /// `columns` are the name, type and plan of each column; None if the driver's method must bind
    /// every row.
    #[new]
    fn new(
        metadata: &Bound<'_, PyAny>,
        version: i64,
        columns: Option<Vec<ColumnDescription<'_>>>,
    ) -> PyResult<BindPlan> {
        let specifications = match metadata.cast::<PyList>() {
            Ok(list) => list.iter().map(Bound::unbind).collect(),
            Err(_) => Vec::new(),
        };
        let columns = columns.map(|columns| {
            let column = |(name, cql_type, type_plan): ColumnDescription<'_>| Column {
                name: name.unbind(),
                cql_type: cql_type.unbind(),
                plan: type_plan.and_then(|type_plan| type_plan.get().plan().cloned()),
            };
            columns.into_iter().map(column).collect()
        });
        let metadata = metadata.clone().unbind();
        Ok(BindPlan { epoch: epoch(), metadata, specifications, version, columns })
    }

    /// Returns the plan itself, so that a copied statement shares it with the statement that was
    /// copied. This is safe, because `is_current` compares the columns of the statement with those
    /// of the plan before each use.
    fn __deepcopy__<'py>(this: &Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        this.clone()
    }

    /// Pickles a plan as None. A new plan is made after the statement is unpickled.
    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, Bound<'py, PyTuple>) {
        (py.None().bind(py).get_type().into_any(), PyTuple::empty(py))
    }
}

impl BindPlan {
    /// Whether all that the plan depends on is still the same as when the plan was made.
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
    /// Only instances of exactly this class are handled natively, because a subclass may do more.
    class: Py<PyType>,
    unset: Py<PyAny>,
    /// The value of `BoundStatement._append_unset_value` when the stand-in was made.
    append_unset: Py<PyAny>,
    writes: Writes,
    /// A Python function that makes the `BindPlan` of a statement. Called if the statement has no
    /// current plan.
    compile: Py<PyAny>,
    /// The driver's message for a value that a type refuses: a format string with four fields. None
    /// if the message is unknown; the driver's method then binds the row again and raises its own
    /// error.
    refusal: Option<Py<PyString>>,
    /// The class `struct.error`.
    struct_error: Py<PyAny>,
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
        refusal: Option<Py<PyString>>,
    ) -> PyResult<BindStandIn> {
        let append_unset = owner.getattr(py, pyo3::intern!(py, "_append_unset_value"))?;
        let writes = Writes::from_name(writes)?;
        let counts = Counts::default();
        let struct_error = py.import("struct")?.getattr("error")?.unbind();
        Ok(BindStandIn {
            original,
            class: owner,
            unset,
            append_unset,
            writes,
            compile,
            refusal,
            struct_error,
            counts,
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
}

impl BindStandIn {
    fn plan<'py>(&self, prepared: &Bound<'py, PyAny>) -> PyResult<Bound<'py, BindPlan>> {
        let py = prepared.py();
        if let Ok(Some(plan)) = prepared.getattr_opt(pyo3::intern!(py, "_turbocql_plan"))
            && let Ok(plan) = plan.cast_into::<BindPlan>()
            && plan.get().is_current(prepared)?
        {
            return Ok(plan);
        }
        Ok(self.compile.bind(py).call1((prepared,))?.cast_into::<BindPlan>()?)
    }

    /// Whether native code may set a column to unset. False for a column of the routing key,
    /// because the driver's method raises an error for it. Also false if `_append_unset_value` was
    /// replaced, because the driver's method must call the replacement.
    fn may_be_unset(&self, prepared: &Bound<'_, PyAny>, index: usize) -> PyResult<bool> {
        let py = prepared.py();
        let append = self.class.bind(py).getattr(pyo3::intern!(py, "_append_unset_value"))?;
        if !append.is(&self.append_unset) {
            return Ok(false);
        }
        let is_key = pyo3::intern!(py, "is_routing_key_index");
        Ok(!prepared.call_method1(is_key, (index,))?.is_truthy()?)
    }

    /// Makes the error that the driver's method would raise when the `serialize` of a type has
    /// raised `error`.
    fn refused(
        py: Python<'_>,
        refusal: &Py<PyString>,
        struct_error: &Py<PyAny>,
        column: &Column,
        value: &Bound<'_, PyAny>,
        error: PyErr,
    ) -> PyResult<PyErr> {
        let is_of_kind = error.is_instance_of::<PyTypeError>(py)
            || error.matches(py, struct_error.bind(py)).unwrap_or(false);
        if !is_of_kind {
            return Ok(error);
        }
        let cause = error.into_value(py);
        let texts = (&column.name, &column.cql_type, value.get_type(), &cause);
        let message = refusal.bind(py).call_method1(pyo3::intern!(py, "__mod__"), (texts,))?;
        let refused = PyTypeError::new_err((message.unbind(),));
        refused.value(py).setattr(pyo3::intern!(py, "__context__"), cause)?;
        Ok(refused)
    }

    /// Appends the cells of a row. Returns false if the driver's method must bind the row.
    ///
    /// # Errors
    /// If the `serialize` of a type fails: the error that the driver's method would raise, or an
    /// exception that is not an instance of `Exception`, such as `KeyboardInterrupt`.
    fn put_cells<'py>(
        &self,
        columns: &[Column],
        version: i64,
        values: &[Bound<'py, PyAny>],
        prepared: &Bound<'py, PyAny>,
        cells: &Bound<'py, PyList>,
    ) -> PyResult<bool> {
        let py = cells.py();
        for (index, (value, column)) in values.iter().zip(columns).enumerate() {
            if value.is_none() {
                cells.append(value)?;
            } else if value.is(&self.unset) {
                if !self.may_be_unset(prepared, index)? {
                    return Ok(false);
                }
                cells.append(value)?;
            } else {
                if let Some(plan) = column.plan.as_deref() {
                    if let Some(bytes) = self.writes.bytes(plan, value)? {
                        cells.append(bytes)?;
                        continue;
                    }
                    serialize::was_refused(value);
                }
                let serialize = pyo3::intern!(py, "serialize");
                let cell = column.cql_type.bind(py).call_method1(serialize, (value, version));
                serialize::forget_refused();
                match (cell, &self.refusal) {
                    (Ok(cell), _) => cells.append(cell)?,
                    // The driver's method is not called, because the value may be an iterator,
                    // which cannot be serialized again.
                    (Err(error), Some(refusal)) => {
                        let struct_error = &self.struct_error;
                        let error = Self::refused(py, refusal, struct_error, column, value, error);
                        return Err(error?);
                    }
                    (Err(error), None) if error.is_instance_of::<PyException>(py) => {
                        return Ok(false);
                    }
                    (Err(interrupt), None) => return Err(interrupt),
                }
            }
        }
        for index in values.len()..columns.len() {
            if !self.may_be_unset(prepared, index)? {
                return Ok(false);
            }
            cells.append(&self.unset)?;
        }
        Ok(true)
    }
}

impl StandIn for BindStandIn {
    fn call<'py>(
        this: &Bound<'py, Self>,
        arguments: &[Borrowed<'_, 'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (stand_in, py) = (this.get(), this.py());
        let [statement, values] = arguments else { return Ok(None) };
        if !statement.get_type().is(&stand_in.class) {
            return Ok(None);
        }
        let prepared = statement.getattr(pyo3::intern!(py, "prepared_statement"))?;
        let plan = stand_in.plan(&prepared)?;
        let BindPlan { columns: Some(columns), version, .. } = plan.get() else { return Ok(None) };
        let (raw, values): (Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>) =
            if let Ok(list) = values.cast_exact::<PyList>() {
                ((**values).clone(), list.iter().collect())
            } else if let Ok(tuple) = values.cast::<PyTuple>()
                && is_plain_tuple(values)
            {
                ((**values).clone(), tuple.iter().collect())
            } else if let Ok(named) = values.cast_exact::<PyDict>() {
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
        // Protocol versions before 4 have no unset values.
        let old = *version < 4
            && (values.len() < columns.len()
                || values.iter().any(|value| value.is(&stand_in.unset)));
        if values.len() > columns.len() || old {
            return Ok(None);
        }
        let cells = PyList::empty(py);
        let result = stand_in.put_cells(columns, *version, &values, &prepared, &cells);
        if let Ok(false) = result {
            return Ok(None);
        }
        // Both attributes are set even after an error, because the driver's method also leaves the
        // cells before the refused value in the statement.
        statement.setattr(pyo3::intern!(py, "raw_values"), raw)?;
        statement.setattr(pyo3::intern!(py, "values"), cells)?;
        if result.is_err() {
            stand_in.counts.fallback();
        }
        result?;
        stand_in.counts.native();
        Ok(Some((**statement).clone()))
    }

    fn original<'a>(this: &'a Bound<'_, Self>) -> &'a Py<PyAny> {
        let stand_in = this.get();
        stand_in.counts.fallback();
        &stand_in.original
    }
}
