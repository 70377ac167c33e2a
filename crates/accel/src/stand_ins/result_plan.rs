//! How a page of the driver's results becomes values.

use super::entries::Entries;
use super::entries::Entry;
use crate::reader::ValueReader;
use crate::switch::epoch;
use pyo3::exceptions::PyValueError;
use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyList;
use turbocql_codec::message::result::Description;

/// How rows that have one and the same list of columns become values.
#[pyclass(frozen, module = "turbocql._core")]
pub struct ResultPlan {
    pub epoch: u64,
    /// The description of each column as the driver reads it: (keyspace, table, name, class).
    pub metadata: Py<PyList>,
    /// The readers of the columns; None if the driver's function must read every page.
    pub columns: Option<Vec<Py<ValueReader>>>,
    /// The size of a number in bytes, for each column that becomes an array of numbers; None for
    /// other columns.
    pub widths: Vec<Option<usize>>,
    pub atomic: bool,
    pub has_udts: bool,
    pub entries: Entries,
}

#[pymethods]
impl ResultPlan {
    /// `columns` are the readers of the columns. If `columns` is None, the driver's function reads
    /// every page.
    #[new]
    fn new(
        metadata: &Bound<'_, PyList>,
        columns: Option<Vec<Bound<'_, ValueReader>>>,
        entries: Vec<Entry<'_>>,
        widths: Vec<Option<usize>>,
    ) -> PyResult<ResultPlan> {
        let all = || columns.iter().flatten().map(Bound::get);
        if columns.is_some() && widths.len() != all().count() {
            return Err(PyValueError::new_err("there must be one width per column"));
        }
        // The list is copied, because the driver's message owns it, and an application may change
        // it there.
        let metadata = metadata.get_slice(0, metadata.len()).unbind();
        let (atomic, has_udts) =
            (all().all(ValueReader::is_atomic), all().any(ValueReader::has_udts));
        let columns = columns.map(|columns| columns.into_iter().map(Bound::unbind).collect());
        let entries = Entries::new(entries);
        Ok(ResultPlan { epoch: epoch(), metadata, columns, widths, atomic, has_udts, entries })
    }

    /// Returns the reader of the first column; None if the plan has no readers.
    #[getter]
    fn reader(&self, py: Python<'_>) -> Option<Py<ValueReader>> {
        self.columns.as_ref()?.first().map(|reader| reader.clone_ref(py))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.metadata)?;
        for column in self.columns.iter().flatten() {
            visit.call(column)?;
        }
        self.entries.traverse(&visit)
    }

    /// Whether everything that the plan depends on is as it was when the plan was made.
    #[getter]
    pub fn is_current(&self, py: Python<'_>) -> bool {
        self.epoch == epoch() && self.entries.are_current(py)
    }
}

impl ResultPlan {
    pub fn readers(&self) -> &[Py<ValueReader>] {
        self.columns.as_deref().unwrap_or_default()
    }

    /// Whether `metadata` has the columns of this plan. `metadata` is the driver's list of columns,
    /// for a result without a description.
    pub fn is_of(&self, metadata: &Bound<'_, PyList>) -> bool {
        let plan_columns = self.metadata.bind(metadata.py());
        plan_columns.len() == metadata.len()
            && plan_columns
                .iter()
                .zip(metadata)
                .all(|(plan_column, column)| plan_column.is(&column))
    }
}

/// The key of a plan in its bucket. A bucket contains all plans that [`Plans`] has for one `u64`. A
/// search finds the bucket by this number. Then it compares the query's result with the keys in the
/// bucket.
pub enum PlanKey {
    Described(Description),
    /// The driver's list of columns, for a result without a description.
    ColumnList(Py<PyList>),
}

/// Buckets of plans, by the fingerprint of the columns' description, or by the address of the
/// driver's list of columns.
pub type Plans = HashMap<u64, Vec<(PlanKey, Py<ResultPlan>)>>;
