//! A page's cells to rows.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use turbocql_codec::{Column, Page, Segment};

use crate::classes::options::config_error;
use crate::error;
use crate::ffi::make;
use crate::value::decode::{Choices, Decoder};
use crate::value::record::{compile, record_class};
use crate::value::{Failure, HostPlan, Outcome};

/// The plan and the name of each column.
pub fn compile_all(
    py: Python<'_>,
    columns: &[Column],
) -> Outcome<(Vec<HostPlan>, Vec<Py<PyString>>)> {
    let plans =
        columns.iter().map(|column| compile(py, &column.cql_type)).collect::<Outcome<_>>()?;
    let names = columns.iter().map(|column| PyString::new(py, &column.name).unbind()).collect();
    Ok((plans, names))
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
            rows.append(self.row(py, &mut row, kind)?)?;
        }
        if limit >= page.row_count {
            cells.finish().map_err(malformed)?;
        }
        Ok(rows)
    }

    fn row<'py>(
        &self,
        py: Python<'py>,
        values: &mut Vec<Bound<'py, PyAny>>,
        kind: RowKind,
    ) -> PyResult<Bound<'py, PyAny>> {
        match kind {
            RowKind::Named => make::record(self.class.bind(py), values),
            RowKind::Tuple => Ok(PyTuple::new(py, values.drain(..))?.into_any()),
            RowKind::Dict => {
                let row = PyDict::new(py);
                for (name, value) in self.names.iter().zip(values.drain(..)) {
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
