//! Prepared statements, and one bound to its values.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;
use turbocql_codec::{Column, RowBuffer};

use super::row_encoder;
use crate::bind::RowPlan;
use crate::ending::Inside;
use crate::error::{self, Way};

/// A statement that the server has prepared.
#[pyclass(frozen, module = "turbocql._core")]
pub struct Prepared {
    pub engine: Arc<turbocql_engine::Prepared>,
    pub plan: RowPlan,
}

impl Prepared {
    pub fn new(py: Python<'_>, engine: Arc<turbocql_engine::Prepared>) -> PyResult<Prepared> {
        let plan = RowPlan::new(py, engine.markers().clone(), engine.partition_key())
            .map_err(|failure| error::raise(py, *failure, Way::Encode))?;
        Ok(Prepared { engine, plan })
    }

    /// Encodes one row of values.
    pub fn encode(&self, py: Python<'_>, values: Option<&Bound<'_, PyAny>>) -> PyResult<RowBuffer> {
        let mut row = RowBuffer::with_capacity(64, 1);
        self.append(py, values, &mut row)?;
        Ok(row)
    }

    /// Appends one row of values; on failure the buffer is as it was.
    pub fn append(
        &self,
        py: Python<'_>,
        values: Option<&Bound<'_, PyAny>>,
        rows: &mut RowBuffer,
    ) -> PyResult<()> {
        let _inside = Inside::nested(py)?;
        self.plan.encode(values, rows).map_err(|failure| error::raise(py, *failure, Way::Encode))
    }
}

/// `(keyspace, table, name, type)` of each column.
pub fn describe_columns<'py>(py: Python<'py>, columns: &[Column]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for c in columns {
        list.append((&*c.keyspace, &*c.table, &c.name, c.cql_type.to_string()))?;
    }
    Ok(list)
}

#[pymethods]
impl Prepared {
    /// The statement's text.
    #[getter]
    fn text(&self) -> &str {
        self.engine.text()
    }

    fn __repr__(&self) -> String {
        format!("<turbocql.Prepared {:?}>", self.engine.text())
    }

    /// Keyspace, table, name and type of each bind marker.
    #[getter]
    fn markers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        describe_columns(py, self.engine.markers())
    }

    /// Keyspace, table, name and type of each column of the result.
    #[getter]
    fn result_columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        describe_columns(py, &self.engine.result_columns())
    }

    /// Which bind markers make up the partition key, in its order; none where that is not known.
    #[getter]
    fn partition_key(&self) -> Vec<usize> {
        self.engine.partition_key().to_vec()
    }

    /// Encodes the values, by position or by name: the statement with them, to be executed.
    #[pyo3(signature = (values=None))]
    fn bind(this: &Bound<'_, Self>, values: Option<&Bound<'_, PyAny>>) -> PyResult<Bound_> {
        let row = this.get().encode(this.py(), values)?;
        Ok(Bound_ { prepared: this.clone().unbind(), row: Arc::new(row) })
    }
}

/// A prepared statement with its values, already encoded.
#[pyclass(frozen, name = "Bound", module = "turbocql._core")]
pub struct Bound_ {
    pub prepared: Py<Prepared>,
    /// Exactly one row.
    pub row: Arc<RowBuffer>,
}

#[pymethods]
impl Bound_ {
    /// The statement.
    #[getter]
    fn prepared(&self, py: Python<'_>) -> Py<Prepared> {
        self.prepared.clone_ref(py)
    }

    fn __repr__(&self) -> String {
        format!("<turbocql.Bound {:?}>", self.prepared.get().engine.text())
    }

    /// The bytes of each cell; None for null, `UNSET` for unset.
    #[getter]
    fn cells<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match self.row.row(0) {
            Some(row) => row_encoder::cells(py, row),
            None => Ok(PyList::empty(py)),
        }
    }
}
