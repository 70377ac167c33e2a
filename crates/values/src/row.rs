//! Decodes the cells of a page to rows.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};
use turbocql_codec::{Column, Page, Segment, page};

use crate::error::{self, config_error};
use crate::failure::not_the_end;
use crate::failure::{Failure, Outcome};
use crate::ffi::rows::{self, Stopped, Values};
use crate::plan::Choices;
use crate::plan::HostPlan;
use crate::plan::{Classes, compile, record_class};
use crate::python;
use crate::traits::traits;
use crate::value::decode::Decoder;
use crate::value::describe::did_you_mean;

/// Returns the plan and the name of each column.
pub fn compile_all(
    py: Python<'_>,
    columns: &[Column],
    classes: &Classes,
) -> Outcome<(Vec<HostPlan>, Vec<Py<PyString>>)> {
    let plans = columns.iter().map(|column| compile(py, &column.cql_type, classes));
    let plans = plans.collect::<Outcome<_>>()?;
    let names = columns.iter().map(|column| PyString::new(py, &column.name).unbind()).collect();
    Ok((plans, names))
}

/// The kind of object that a row becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowKind {
    #[default]
    Named,
    Tuple,
    Dict,
}

impl RowKind {
    pub fn name(self) -> &'static str {
        match self {
            RowKind::Named => "named",
            RowKind::Tuple => "tuple",
            RowKind::Dict => "dict",
        }
    }

    pub fn parse(py: Python<'_>, name: &str) -> PyResult<RowKind> {
        match name {
            "named" => Ok(RowKind::Named),
            "tuple" => Ok(RowKind::Tuple),
            "dict" => Ok(RowKind::Dict),
            _ => {
                let hint = did_you_mean(&PyString::new(py, name), &["named", "tuple", "dict"]);
                let reason = format!("rows must be 'named', 'tuple' or 'dict', got {name:?}{hint}");
                Err(config_error(py, &reason))
            }
        }
    }
}

/// How rows are returned: the kind of object that a row becomes, and the user's class or factory,
/// if there is one.
#[derive(Default)]
pub struct RowsAs {
    pub kind: RowKind,
    /// The user's class or factory, which is called with the values by name.
    pub factory: Option<Py<PyAny>>,
}

impl RowsAs {
    pub fn clone_ref(&self, py: Python<'_>) -> RowsAs {
        RowsAs {
            kind: self.kind,
            factory: self.factory.as_ref().map(|factory| factory.clone_ref(py)),
        }
    }
}

impl From<RowKind> for RowsAs {
    fn from(kind: RowKind) -> RowsAs {
        RowsAs { kind, factory: None }
    }
}

/// The columns of a result with their plans and names, and the classes of its rows. Results with
/// the same columns share one shape.
pub struct Shape {
    pub columns: Arc<[Column]>,
    plans: Vec<HostPlan>,
    names: Vec<Py<PyString>>,
    /// The named tuple class of the rows. It is created on first use.
    class: PyOnceLock<Py<PyType>>,
    /// A dict with the column names as keys and None as values. Dict rows are copies of it. It is
    /// created on first use.
    empty: PyOnceLock<Py<PyDict>>,
    /// Whether no value of a row can form reference cycles.
    atomic: bool,
}

/// The encoded rows of a frame.
#[derive(Clone, Copy)]
pub struct Block<'a> {
    pub rows: &'a [u8],
    pub row_count: usize,
}

impl<'a> From<&'a Page> for Block<'a> {
    fn from(page: &'a Page) -> Block<'a> {
        Block { rows: &page.rows, row_count: page.row_count }
    }
}

impl Shape {
    pub fn new(py: Python<'_>, columns: Arc<[Column]>, classes: &Classes) -> Outcome<Shape> {
        let (plans, names) = compile_all(py, &columns, classes)?;
        let atomic = plans.iter().all(|plan| traits(plan).atomic);
        let (class, empty) = (PyOnceLock::new(), PyOnceLock::new());
        Ok(Shape { columns, plans, names, class, empty, atomic })
    }

    fn class(&self, py: Python<'_>) -> PyResult<&Py<PyType>> {
        self.class.get_or_try_init(py, || {
            let class = record_class(py, "Row", &self.names)?.into_bound(py);
            Ok(class.cast_into::<PyType>()?.unbind())
        })
    }

    fn empty(&self, py: Python<'_>) -> PyResult<&Py<PyDict>> {
        self.empty.get_or_try_init(py, || {
            let empty = PyDict::new(py);
            for name in &self.names {
                empty.set_item(name, py.None())?;
            }
            Ok(empty.unbind())
        })
    }

    /// Decodes the first `limit` rows of a block in one pass, or all of its rows if it has fewer.
    pub fn decode<'py>(
        &self,
        py: Python<'py>,
        block: Block<'_>,
        limit: usize,
        rows_as: &RowsAs,
        choices: Choices,
    ) -> PyResult<Bound<'py, PyList>> {
        let Some(factory) = &rows_as.factory else {
            return self.decode_as(py, block, limit, rows_as.kind, choices);
        };
        let rows = self.decode_as(py, block, limit, RowKind::Tuple, choices)?;
        let names = PyTuple::new(py, &self.names)?;
        let make = python::row_maker(py)?.call1((factory, names))?;
        for (i, row) in rows.iter().enumerate() {
            // No other code has a reference to this list yet, so it can be changed in place.
            rows.set_item(i, make.call1((row,)).map_err(|error| not_the_end(py, error))?)?;
        }
        let conditional = self.columns.iter().any(|column| column.name == "[applied]");
        if conditional && rows.iter().any(|row| row.is_none()) {
            // If a row says that a lightweight transaction was applied, `make` returns None for it.
            // Such a row is left out.
            return PyList::new(py, rows.iter().filter(|row| !row.is_none()).collect::<Vec<_>>());
        }
        Ok(rows)
    }

    /// Like [`decode`](Shape::decode), but makes rows of the kind `kind`, and never calls
    /// [`RowsAs::factory`].
    pub fn decode_as<'py>(
        &self,
        py: Python<'py>,
        block: Block<'_>,
        limit: usize,
        kind: RowKind,
        choices: Choices,
    ) -> PyResult<Bound<'py, PyList>> {
        let malformed = |m| {
            error::raise(py, *Failure::malformed("a page of rows", m), error::Direction::Decode)
        };
        let mut cells =
            page::cells(self.plans.len(), block.row_count, block.rows).map_err(malformed)?;
        let kind = match kind {
            RowKind::Named => rows::Kind::Named(self.class(py)?.bind(py)),
            RowKind::Tuple => rows::Kind::Tuple,
            RowKind::Dict => rows::Kind::Dict(self.empty(py)?.bind(py), &self.names),
        };
        let count = block.row_count.min(limit);
        let values = Decoded { decoder: Decoder::new(py, choices), plans: &self.plans };
        let list = rows::rows(py, &values, &mut cells, count, &kind, self.atomic);
        let list = list.map_err(|stopped| match stopped {
            Stopped::Malformed(m) => malformed(m),
            Stopped::Raised(error) => error,
            Stopped::Cell(column, failure) => {
                let name = &self.columns[column].name;
                let failure = failure.at(|| Segment::Column(name.clone()));
                error::raise(py, *failure, error::Direction::Decode)
            }
        })?;
        if limit >= block.row_count {
            cells.finish().map_err(malformed)?;
        }
        Ok(list)
    }
}

/// Decodes each cell with the plan of its column: on the quick path if this path can make the
/// value, otherwise on the safe path.
struct Decoded<'a, 'py> {
    decoder: Decoder<'py>,
    plans: &'a [HostPlan],
}

impl<'py> Values<'py> for Decoded<'_, 'py> {
    #[inline(always)]
    fn width(&self) -> usize {
        self.plans.len()
    }

    #[inline(always)]
    fn value(&self, column: usize, cell: Option<&[u8]>) -> Result<Bound<'py, PyAny>, Stopped> {
        let plan = &self.plans[column];
        if let (Some(bytes), Some(maker)) = (cell, &self.decoder.maker)
            && let Some(value) = maker.make(self.decoder.py, plan, bytes)
        {
            return Ok(value);
        }
        let decoded = self.decoder.cell(plan, cell);
        decoded.map_err(|failure| Stopped::Cell(column, failure))
    }
}

/// A cache of shapes by columns, so that later results with the same columns use the same row
/// classes and plans.
#[derive(Default)]
pub struct Shapes {
    cached: std::sync::Mutex<HashMap<usize, Arc<Shape>>>,
    /// The user's classes for user-defined types.
    classes: std::sync::Mutex<Arc<Classes>>,
}

/// The maximum number of cached shapes. When it is reached, all shapes are dropped from the cache.
/// If a dropped shape is needed again, a new one is made and cached.
const SHAPES: usize = 512;

impl Shapes {
    /// Returns the shape of these columns. The engine shares one `Arc` among results with equal
    /// columns, so the address of the columns is the key. A cached shape holds the `Arc`, so the
    /// address cannot be reused while the shape is cached.
    pub fn get(&self, py: Python<'_>, columns: &Arc<[Column]>) -> Outcome<Arc<Shape>> {
        let key = Arc::as_ptr(columns).cast::<Column>() as usize;
        if let Some(shape) = self.lock().get(&key) {
            return Ok(shape.clone());
        }
        let classes = self.classes();
        let shape = Arc::new(Shape::new(py, columns.clone(), &classes)?);
        let mut shapes = self.lock();
        let full = shapes.len() >= SHAPES;
        let dropped = if full { std::mem::take(&mut *shapes) } else { HashMap::new() };
        if Arc::ptr_eq(&classes, &self.classes()) {
            shapes.insert(key, shape.clone());
        }
        // The lock is released first: dropping Python objects can run Python code.
        drop(shapes);
        drop(dropped);
        Ok(shape)
    }

    pub fn classes(&self) -> Arc<Classes> {
        self.classes.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Registers the class for values of a user-defined type. `None` removes the class; the values
    /// are then decoded to records.
    pub fn register(&self, py: Python<'_>, keyspace: &str, name: &str, class: Option<Py<PyAny>>) {
        let mut classes = self.classes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut updated = classes.clone_ref(py);
        updated.set(keyspace, name, class);
        let before = std::mem::replace(&mut *classes, Arc::new(updated));
        drop(classes);
        let dropped = std::mem::take(&mut *self.lock());
        drop((before, dropped));
    }

    /// Removes all registered classes and all cached shapes.
    pub fn clear(&self) {
        let mut classes = self.classes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = std::mem::take(&mut *classes);
        drop(classes);
        let dropped = std::mem::take(&mut *self.lock());
        drop((before, dropped));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<usize, Arc<Shape>>> {
        self.cached.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
