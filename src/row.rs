//! Whole rows: the values of a statement's bind markers to cells, and a page's cells to rows.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyMemoryView, PyString, PyTuple};
use turbocql_codec::{Column, Page, RowBuffer, Segment};

use crate::classes::options::config_error;
use crate::error;
use crate::value::decode::{Choices, Decoder};
use crate::value::describe::describe;
use crate::value::encode::{encode_cell, is_unset};
use crate::value::record::{self, compile, record_class};
use crate::value::{Failure, HostPlan, Outcome, interned};

/// The plan and the name of each column.
fn compile_all(py: Python<'_>, columns: &[Column]) -> Outcome<(Vec<HostPlan>, Vec<Py<PyString>>)> {
    let plans =
        columns.iter().map(|column| compile(py, &column.cql_type)).collect::<Outcome<_>>()?;
    let names = columns.iter().map(|column| PyString::new(py, &column.name).unbind()).collect();
    Ok((plans, names))
}

/// How to encode the values of a statement's bind markers.
pub struct RowPlan {
    columns: Arc<[Column]>,
    plans: Vec<HostPlan>,
    names: Vec<Py<PyString>>,
    /// The number of different marker names: one name may stand at several markers.
    distinct: usize,
    /// Markers that make up the partition key.
    partition_key: Vec<usize>,
}

impl RowPlan {
    pub fn new(
        py: Python<'_>,
        columns: Arc<[Column]>,
        partition_key: &[usize],
    ) -> Outcome<RowPlan> {
        let (plans, names) = compile_all(py, &columns)?;
        let distinct: std::collections::HashSet<&str> =
            columns.iter().map(|column| column.name.as_str()).collect();
        let distinct = distinct.len();
        Ok(RowPlan { columns, plans, names, distinct, partition_key: partition_key.to_vec() })
    }

    /// Appends one row; on failure the buffer is as it was.
    pub fn encode(&self, values: Option<&Bound<'_, PyAny>>, rows: &mut RowBuffer) -> Outcome<()> {
        let encoded = match values {
            Some(values) => self.encode_values(values, rows),
            None => self.encode_positional(std::iter::empty(), rows),
        };
        match encoded {
            Ok(()) => rows.finish_row(),
            Err(_) => rows.abandon_row(),
        }
        encoded
    }

    fn encode_values(&self, values: &Bound<'_, PyAny>, rows: &mut RowBuffer) -> Outcome<()> {
        let py = values.py();
        if let Ok(tuple) = values.cast::<PyTuple>() {
            self.check_count(tuple.len())?;
            return self.encode_positional(tuple.iter(), rows);
        }
        if let Ok(list) = values.cast::<PyList>() {
            self.check_count(list.len())?;
            return self.encode_positional(list.iter(), rows);
        }
        if let Ok(dict) = values.cast::<PyDict>() {
            return self.encode_named(values, dict.len(), |name| dict.get_item(name), rows);
        }
        if values.is_instance(interned::mapping(py)?)? {
            return self.encode_named(values, values.len()?, |name| item_of(values, name), rows);
        }
        let sequence = !values.is_instance_of::<PyString>()
            && !values.is_instance_of::<PyBytes>()
            && !values.is_instance_of::<PyByteArray>()
            && !values.is_instance_of::<PyMemoryView>()
            && values.hasattr(pyo3::intern!(py, "__getitem__"))?
            && values.hasattr(pyo3::intern!(py, "__len__"))?;
        if !sequence {
            let error = PyTypeError::new_err(format!(
                "values must be a list, tuple, other sequence or mapping, got {}",
                describe(values)
            ));
            return Err(error.into());
        }
        let length = values.len()?;
        self.check_count(length)?;
        let items: Vec<_> = values.try_iter()?.take(length).collect::<PyResult<_>>()?;
        self.encode_positional(items.into_iter(), rows)
    }

    fn check_count(&self, got: usize) -> Outcome<()> {
        let markers = self.columns.len();
        if got <= markers {
            return Ok(());
        }
        let reason = format!("the statement has {markers} bind markers, got {got} values");
        Err(Failure::refused("row", reason))
    }

    fn encode_positional<'py>(
        &self,
        values: impl Iterator<Item = Bound<'py, PyAny>>,
        rows: &mut RowBuffer,
    ) -> Outcome<()> {
        let mut values = values.fuse();
        for i in 0..self.columns.len() {
            self.encode_marker(i, values.next(), rows)?;
        }
        Ok(())
    }

    fn encode_named<'py>(
        &self,
        values: &Bound<'py, PyAny>,
        count: usize,
        get: impl Fn(&Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>>,
        rows: &mut RowBuffer,
    ) -> Outcome<()> {
        let py = values.py();
        let mut missing = 0;
        for (i, name) in self.names.iter().enumerate() {
            let value = get(name.bind(py))?;
            missing += usize::from(value.is_none());
            if value.is_none() && self.partition_key.contains(&i) {
                // A misspelled name explains more than the value that is missing for it.
                self.check_names(values)?;
            }
            self.encode_marker(i, value, rows)?;
        }
        // Nearly always every marker has its value and nothing else is there.
        if missing == 0 && count == self.distinct {
            return Ok(());
        }
        self.check_names(values)
    }

    fn check_names(&self, values: &Bound<'_, PyAny>) -> Outcome<()> {
        for key in values.try_iter()? {
            let key = key?;
            let known = key.extract::<String>();
            if !known.is_ok_and(|key| self.columns.iter().any(|column| column.name == key)) {
                let names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
                let (got, names) = (describe(&key), names.join(", "));
                let reason = format!("the statement has no bind marker {got}; it has: {names}");
                return Err(Failure::refused("row", reason));
            }
        }
        Ok(())
    }

    /// Appends the cell of marker `i`: unset where there is no value.
    fn encode_marker(
        &self,
        i: usize,
        value: Option<Bound<'_, PyAny>>,
        rows: &mut RowBuffer,
    ) -> Outcome<()> {
        let column = || Segment::Column(self.columns[i].name.clone());
        let Some(value) = value.filter(|value| !is_unset(value)) else {
            if self.partition_key.contains(&i) {
                let reason = "a partition key column needs a value, got none";
                return Err(Failure::refused(&self.columns[i].cql_type, reason).at(column));
            }
            rows.push_unset();
            return Ok(());
        };
        if value.is_none() && self.partition_key.contains(&i) {
            let reason = "a partition key column needs a value, got None";
            return Err(Failure::refused(&self.columns[i].cql_type, reason).at(column));
        }
        let encoded = rows.push_with(|out| encode_cell(&self.plans[i], &value, out));
        encoded.map_err(|failure| failure.at(column))
    }
}

/// The value of a key of any mapping.
fn item_of<'py>(
    mapping: &Bound<'py, PyAny>,
    key: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match mapping.get_item(key) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_instance_of::<PyKeyError>(mapping.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// In what shape rows come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    Named,
    Tuple,
    Dict,
}

impl RowKind {
    pub fn parse(py: Python<'_>, name: &str) -> PyResult<RowKind> {
        match name {
            "named" => Ok(RowKind::Named),
            "tuple" => Ok(RowKind::Tuple),
            "dict" => Ok(RowKind::Dict),
            _ => {
                let reason = format!("rows must be 'named', 'tuple' or 'dict', got {name:?}");
                Err(config_error(py, &reason))
            }
        }
    }
}

/// What the rows of a result are made of; shared by all results with equal columns.
pub struct Shape {
    pub columns: Arc<[Column]>,
    plans: Vec<HostPlan>,
    names: Vec<Py<PyString>>,
    class: Py<PyAny>,
}

impl Shape {
    pub fn new(py: Python<'_>, columns: Arc<[Column]>) -> Outcome<Shape> {
        let (plans, names) = compile_all(py, &columns)?;
        let class = record_class(py, "Row", &names)?;
        Ok(Shape { columns, plans, names, class })
    }

    /// Decodes the first `limit` rows of a page, or all of them, in one pass.
    pub fn decode<'py>(
        &self,
        py: Python<'py>,
        page: &Page,
        limit: usize,
        kind: RowKind,
        choices: Choices,
    ) -> PyResult<Bound<'py, PyList>> {
        let malformed =
            |m| error::raise(py, *Failure::malformed("a page of rows", m), error::Way::Decode);
        let decoder = Decoder { py, choices };
        let mut cells = page.cells().map_err(malformed)?;
        let rows = PyList::empty(py);
        let mut row = Vec::with_capacity(self.plans.len());
        for _ in 0..page.row_count.min(limit) {
            row.clear();
            for (plan, column) in self.plans.iter().zip(self.columns.iter()) {
                let cell = cells.next_cell().map_err(malformed)?;
                let value = decoder.cell(plan, cell).map_err(|failure| {
                    let failure = failure.at(|| Segment::Column(column.name.clone()));
                    error::raise(py, *failure, error::Way::Decode)
                })?;
                row.push(value);
            }
            rows.append(self.row(py, &row, kind)?)?;
        }
        if limit >= page.row_count {
            cells.finish().map_err(malformed)?;
        }
        Ok(rows)
    }

    fn row<'py>(
        &self,
        py: Python<'py>,
        values: &[Bound<'py, PyAny>],
        kind: RowKind,
    ) -> PyResult<Bound<'py, PyAny>> {
        match kind {
            RowKind::Named => record::make(py, &self.class, PyTuple::new(py, values)?),
            RowKind::Tuple => Ok(PyTuple::new(py, values)?.into_any()),
            RowKind::Dict => {
                let row = PyDict::new(py);
                for (name, value) in self.names.iter().zip(values) {
                    row.set_item(name, value)?;
                }
                Ok(row.into_any())
            }
        }
    }
}

/// Shapes by columns, so that row classes and plans outlive single results.
#[derive(Default)]
pub struct Shapes(std::sync::Mutex<HashMap<usize, Arc<Shape>>>);

/// Shapes kept at most; beyond, all are dropped and the living ones come back by use.
const SHAPES: usize = 512;

impl Shapes {
    /// The shape of these columns. The engine shares one `Arc` among equal results, so the
    /// address of the columns is the key; the shape kept under it keeps that address taken.
    pub fn get(&self, py: Python<'_>, columns: &Arc<[Column]>) -> Outcome<Arc<Shape>> {
        let key = Arc::as_ptr(columns).cast::<Column>() as usize;
        if let Some(shape) = self.lock().get(&key) {
            return Ok(shape.clone());
        }
        let shape = Arc::new(Shape::new(py, columns.clone())?);
        let mut shapes = self.lock();
        let full = shapes.len() >= SHAPES;
        let dropped = if full { std::mem::take(&mut *shapes) } else { HashMap::new() };
        shapes.insert(key, shape.clone());
        // Not before: Python objects go with them.
        drop(shapes);
        drop(dropped);
        Ok(shape)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<usize, Arc<Shape>>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
