//! Encodes rows of bind values as cells, without a server.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use turbocql_codec::{Column, RowBuffer, Segment};

use super::codec::check_version;
use super::cql_type::CqlType_;
use super::described::{check_policy, key_positions, marker};
use super::encoded_rows::{EncodedRow, EncodedRows};
use crate::bind::RowPlan;
use crate::ending::Inside;
use crate::error::{self, Direction};
use crate::failure::{Failure, Outcome};
use crate::python;
use crate::value::describe::{describe, describe_key, nearest_and_all};
use crate::value::encode::first_unknown;
use crate::value::sequence::{is_frame, is_masked};

/// The maximum number of columns of a row. The protocol writes the number of a row's values in 16
/// bits.
pub const MAX_COLUMNS: usize = u16::MAX as usize;

/// Binds rows of values to a statement's columns.
///
/// `columns` are tuples `(name, type)` or `(keyspace, table, name, type)`, or objects with the
/// attributes `keyspace`, `table`, `name` and `cql_type`, such as `Column`. A type is anything that
/// `CqlType` takes, or an object of your own with `serialize(value, protocol_version) -> bytes`.
/// `key_columns` are the names or the positions of the partition key's columns, in the order of the
/// key. `encryption_policy` encrypts the values of some columns. It is an object with
/// `contains_column(column)`, `column_type(column)` and `encrypt(column, data) -> bytes`, where
/// `column` is a named tuple `(ks, table, col)`.
///
/// A row is a sequence, a mapping, a dataclass, or an object of a class of attrs, msgspec or
/// pydantic. A column is unset, that is, keeps its stored value, if its value is `UNSET`, if a
/// mapping lacks its name, or if a sequence ends before its value. Protocol version 3 cannot
/// express unset values. Columns of the partition key need a value.
///
/// Immutable; threads may share it.
#[pyclass(frozen, module = "turbocql.codec")]
pub struct RowEncoder {
    plan: Arc<RowPlan>,
}

#[pymethods]
impl RowEncoder {
    #[new]
    #[pyo3(signature = (columns, *, key_columns=None, encryption_policy=None, protocol_version=4))]
    fn new(
        columns: &Bound<'_, PyAny>,
        key_columns: Option<&Bound<'_, PyAny>>,
        encryption_policy: Option<&Bound<'_, PyAny>>,
        protocol_version: i64,
    ) -> PyResult<RowEncoder> {
        let py = columns.py();
        let _inside = Inside::nested(py)?;
        let version = check_version(protocol_version)?;
        if let Some(policy) = encryption_policy {
            check_policy(policy)?;
        }
        let mut described = Vec::new();
        let mut markers = Vec::new();
        for description in columns.try_iter()? {
            if described.len() == MAX_COLUMNS {
                return Err(PyValueError::new_err("a row has at most 65535 columns"));
            }
            let (column, marker) = marker(&description?, encryption_policy)?;
            described.push(column);
            markers.push(marker);
        }
        let key = match key_columns {
            Some(key_columns) => key_positions(key_columns, &described)?,
            None => Vec::new(),
        };
        let plan = RowPlan::with_markers(py, described.into(), markers, &key, version);
        Ok(RowEncoder { plan: Arc::new(plan) })
    }

    /// The column names.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.plan.columns().iter().map(|column| &column.name))
    }

    /// The type of each column.
    ///
    /// If you passed a class or object of your own as a column's type, `types` has a custom type in
    /// its place. The custom type has the name of the class or of the object's class.
    #[getter]
    fn types<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let types = self.plan.columns().iter().map(|column| CqlType_::new_of(&column.cql_type));
        PyTuple::new(py, types.collect::<PyResult<Vec<_>>>()?)
    }

    /// The names of the partition key's columns, in the order of the key.
    #[getter]
    fn key_columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let columns = self.plan.columns();
        PyTuple::new(py, self.plan.partition_key().iter().map(|&i| &columns[i].name))
    }

    /// The protocol version that rows are bound for.
    #[getter]
    fn protocol_version(&self) -> u8 {
        self.plan.protocol_version()
    }

    /// Binds one row.
    ///
    /// Raises: `EncodeError`, which names the column and the place within its value.
    fn bind(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<EncodedRow> {
        let _inside = Inside::nested(py)?;
        let mut rows = RowBuffer::with_capacity(64, 1);
        error::guarded(|| {
            let encoded = self.plan.encode(Some(values), &mut rows);
            encoded.map_err(|failure| error::raise(py, *failure, Direction::Encode))
        })?;
        Ok(EncodedRow { plan: self.plan.clone(), rows: Arc::new(rows), index: 0 })
    }

    /// Binds the rows of an iterable.
    ///
    /// Raises: `EncodeError`, which names the row, counted from 0, and the column.
    fn bind_many(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<EncodedRows> {
        let _inside = Inside::nested(py)?;
        let mut encoded = RowBuffer::new();
        error::guarded(|| self.encode_many(py, rows, &mut encoded))?;
        Ok(EncodedRows { plan: self.plan.clone(), rows: Arc::new(encoded) })
    }

    /// Binds rows from columns: a sequence of columns, or a mapping from name to column.
    ///
    /// Shapes: a column is a sequence with one value per row, and all columns have the same length.
    ///     A 2-D array of n rows and d columns is a column of n vectors, for a `vector<..., d>`. A
    ///     column of this encoder is unset in all rows if `columns` is a sequence that ends before
    ///     it, or a mapping without its name.
    ///
    /// Raises: `EncodeError`, which names the row, counted from 0, and the column.
    fn bind_columns(&self, columns: &Bound<'_, PyAny>) -> PyResult<EncodedRows> {
        let py = columns.py();
        let _inside = Inside::nested(py)?;
        let rows = error::guarded(|| {
            let encoded = self.encode_columns(columns);
            encoded.map_err(|failure| error::raise(py, *failure, Direction::Encode))
        })?;
        Ok(EncodedRows { plan: self.plan.clone(), rows: Arc::new(rows) })
    }

    /// Visits the plan's objects only if no encoded rows share the plan. The GC does not track
    /// encoded rows, so it does not see that they use the plan's objects. If this function visited
    /// these objects, the GC could treat them as garbage while encoded rows still use them.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if Arc::strong_count(&self.plan) == 1 { self.plan.traverse(&visit) } else { Ok(()) }
    }

    fn __repr__(&self) -> String {
        let columns = self.plan.columns();
        let shown: Vec<String> =
            columns.iter().map(|c| format!("{} {}", c.name, c.cql_type)).collect();
        format!("<RowEncoder ({})>", shown.join(", "))
    }
}

impl RowEncoder {
    fn encode_many(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        encoded: &mut RowBuffer,
    ) -> PyResult<()> {
        for (number, row) in rows.try_iter()?.enumerate() {
            let row = row?;
            let encoded_row = self.plan.encode(Some(&row), encoded);
            encoded_row.and_then(|()| bounded(encoded)).map_err(|failure| {
                error::raise(py, *failure.at(|| Segment::Row(number)), Direction::Encode)
            })?;
            py.check_signals()?;
        }
        Ok(())
    }

    fn encode_columns(&self, table: &Bound<'_, PyAny>) -> Outcome<RowBuffer> {
        let py = table.py();
        let columns = self.plan.columns();
        let table = ColumnValues::of(table, columns)?;
        let mut count = None;
        for (values, column) in table.iter().zip(columns) {
            let Some(values) = values else { continue };
            let at = || Segment::Column(column.name.clone());
            let length = values.len()?;
            match count {
                None => count = Some(length),
                Some(count) if count != length => {
                    let reason =
                        format!("expected {count} rows, as in the other columns, got {length}");
                    return Err(Failure::refused(&column.cql_type, reason).at(at));
                }
                Some(_) => {}
            }
        }
        let unset = python::unset(py)?;
        let mut rows = RowBuffer::new();
        // A column is iterated and not indexed, because `series[0]` of a pandas Series looks up the
        // label 0 and not the first value.
        let mut iterators = table
            .iter()
            .map(|values| values.as_ref().map(|values| values.try_iter()).transpose())
            .collect::<PyResult<Vec<_>>>()?;
        for number in 0..count.unwrap_or(0) {
            let values = iterators.iter_mut().zip(columns).map(|(values, column)| {
                let Some(values) = values else { return Ok(unset.clone()) };
                let at = || Segment::Column(column.name.clone());
                match values.next() {
                    Some(Ok(value)) => Ok(value),
                    Some(Err(error)) => {
                        let reason = "the column cannot be read";
                        Err(Failure::caused(py, &column.cql_type, reason, error).at(at))
                    }
                    None => {
                        let reason = "the column has fewer values than its len()";
                        Err(Failure::refused(&column.cql_type, reason).at(at))
                    }
                }
            });
            self.plan
                .encode_cells(values, &mut rows)
                .and_then(|()| bounded(&rows))
                .map_err(|failure| failure.at(|| Segment::Row(number)))?;
            py.check_signals()?;
        }
        for (values, column) in iterators.iter_mut().zip(columns) {
            if values.as_mut().is_some_and(|values| values.next().is_some()) {
                let reason = "the column has more values than its len()";
                let failure = Failure::refused(&column.cql_type, reason);
                return Err(failure.at(|| Segment::Column(column.name.clone())));
            }
        }
        Ok(rows)
    }
}

/// Refuses rows that take more than 2 GiB together. All rows share one buffer, which an endless
/// iterable of rows would otherwise grow without limit.
fn bounded(rows: &RowBuffer) -> Outcome<()> {
    if i32::try_from(rows.byte_len()).is_ok() {
        return Ok(());
    }
    Err(Failure::refused("row", "the rows take more than 2 GiB: bind them in several calls"))
}

/// Reads the argument of `bind_columns`: the values of each column, or `None` for a column without
/// values.
struct ColumnValues;

impl ColumnValues {
    fn of<'py>(
        table: &Bound<'py, PyAny>,
        described: &[Column],
    ) -> Outcome<Vec<Option<Bound<'py, PyAny>>>> {
        let py = table.py();
        let mut value_columns = Vec::with_capacity(described.len());
        if table.is_instance(python::mapping(py)?)? {
            let mut found_columns = 0;
            for column in described {
                let present = table.contains(&column.name)?;
                found_columns += usize::from(present);
                value_columns.push(present.then(|| table.get_item(&column.name)).transpose()?);
            }
            let distinct: std::collections::HashSet<&str> =
                described.iter().map(|column| column.name.as_str()).collect();
            if found_columns < described.len() || table.len()? != distinct.len() {
                check_names(table, described)?;
            }
        } else {
            value_columns.extend(
                table
                    .try_iter()?
                    .take(described.len() + 1)
                    .map(|c| c.map(Some))
                    .collect::<PyResult<Vec<_>>>()?,
            );
            if value_columns.len() > described.len() {
                let reason = format!("there are {} columns, got more", described.len());
                return Err(Failure::refused("row", reason));
            }
            value_columns.resize(described.len(), None);
        }
        for (values, column) in value_columns.iter().zip(described) {
            let Some(values) = values else { continue };
            let unordered = values.is_instance_of::<PyString>()
                || values.is_instance_of::<PyBytes>()
                || values.is_instance(python::mapping(py)?)?
                || is_masked(values)?
                || is_frame(values)?
                || !values.hasattr(pyo3::intern!(py, "__getitem__"))?
                || !values.hasattr(pyo3::intern!(py, "__len__"))?;
            if unordered {
                let (cql_type, got) = (&column.cql_type, describe(values));
                let reason =
                    format!("expected a sequence of {cql_type}, a value per row, got {got}");
                let failure = Failure::refused(cql_type, reason);
                return Err(failure.at(|| Segment::Column(column.name.clone())));
            }
        }
        Ok(value_columns)
    }
}

fn check_names(mapping: &Bound<'_, PyAny>, columns: &[Column]) -> Outcome<()> {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let Some(key) = first_unknown(mapping, &names)? else { return Ok(()) };
    let got = describe_key(&key);
    let names = nearest_and_all(&key, &names, "the columns are:");
    let reason = format!("there is no column {got}{names}");
    Err(Failure::refused("row", reason))
}
