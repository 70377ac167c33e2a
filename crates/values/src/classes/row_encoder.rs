//! Encodes rows of bind values as cells, without a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyString, PyTuple, PyType};
use turbocql_codec::{Cell, Column, CqlType, RowBuffer, RowRef, Segment, token};

use super::codec::{Serializer, check_version, pack};
use super::cql_type::{CqlType_, compiled, object_of};
use crate::bind::{Marker, RowPlan};
use crate::ending::Inside;
use crate::error::{self, Direction};
use crate::failure::{Failure, Outcome};
use crate::ffi::bytes;
use crate::python;
use crate::value::describe::{cut, describe, describe_key, type_name};
use crate::value::encode::{first_unknown, unless_serious};
use crate::value::sequence::{is_frame, is_masked};

/// The protocol counts the values of a row in 16 bits.
const MOST_COLUMNS: usize = u16::MAX as usize;

/// Binds rows of values to a statement's columns.
///
/// `columns` are tuples `(name, type)` or `(keyspace, table, name, type)`, or objects with the
/// attributes `keyspace`, `table`, `name` and `cql_type`, such as `Column`. A type is anything that
/// `CqlType` takes, or an object of your own with `serialize(value, protocol_version) -> bytes`.
/// `key_columns` are the names or the positions of the partition key's columns, in the order of the
/// key. `encryption_policy` is an object with `contains_column(column)`, `column_type(column)` and
/// `encrypt(column, data) -> bytes`, where `column` is a named tuple `(ks, table, col)`.
///
/// A row is a sequence, a mapping or a dataclass. A column is left as it is (unset) if its value is
/// `UNSET`, if a mapping lacks its name, or if a sequence ends before it. Protocol version 3 cannot
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
        let mut known = Vec::new();
        let mut markers = Vec::new();
        for given in columns.try_iter()? {
            if known.len() == MOST_COLUMNS {
                return Err(PyValueError::new_err("a row has at most 65535 columns"));
            }
            let (column, marker) = marker(&given?, encryption_policy)?;
            known.push(column);
            markers.push(marker);
        }
        let key = match key_columns {
            Some(key_columns) => key_positions(key_columns, &known)?,
            None => Vec::new(),
        };
        let plan = RowPlan::with_markers(py, known.into(), markers, &key, version);
        Ok(RowEncoder { plan: Arc::new(plan) })
    }

    /// The column names.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.plan.columns().iter().map(|column| &column.name))
    }

    /// The type of each column.
    ///
    /// If you passed an object of your own as a column's type, it is a custom type here, with the
    /// name of the object's class.
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
    ///     A 2-D array of n rows and d columns is a column of n vectors, for a `vector<..., d>`.
    ///     Columns after the end of the sequence, and columns that the mapping lacks, are unset.
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
    /// encoded rows, so it would take objects that only these rows still use for garbage.
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
            let done = self.plan.encode(Some(&row), encoded);
            done.and_then(|()| bounded(encoded)).map_err(|failure| {
                error::raise(py, *failure.at(|| Segment::Row(number)), Direction::Encode)
            })?;
            py.check_signals()?;
        }
        Ok(())
    }

    fn encode_columns(&self, given: &Bound<'_, PyAny>) -> Outcome<RowBuffer> {
        let py = given.py();
        let known = self.plan.columns();
        let given = ColumnValues::of(given, known)?;
        let mut count = None;
        for (values, column) in given.iter().zip(known) {
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
        // Columns are iterated, not indexed: an index into a pandas Series looks for a label.
        let mut given = given
            .iter()
            .map(|values| values.as_ref().map(|values| values.try_iter()).transpose())
            .collect::<PyResult<Vec<_>>>()?;
        for number in 0..count.unwrap_or(0) {
            let values = given.iter_mut().zip(known).map(|(values, column)| {
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
        for (values, column) in given.iter_mut().zip(known) {
            if values.as_mut().is_some_and(|values| values.next().is_some()) {
                let reason = "the column has more values than its len()";
                let failure = Failure::refused(&column.cql_type, reason);
                return Err(failure.at(|| Segment::Column(column.name.clone())));
            }
        }
        Ok(rows)
    }
}

/// Refuses rows of more than 2 GiB. All rows share one buffer, which an endless iterable would grow
/// without bound.
fn bounded(rows: &RowBuffer) -> Outcome<()> {
    if i32::try_from(rows.byte_len()).is_ok() {
        return Ok(());
    }
    Err(Failure::refused("row", "the rows take more than 2 GiB: bind them in several calls"))
}

/// Reads the values of each column; `None` for a column without values.
struct ColumnValues;

impl ColumnValues {
    fn of<'py>(
        given: &Bound<'py, PyAny>,
        known: &[Column],
    ) -> Outcome<Vec<Option<Bound<'py, PyAny>>>> {
        let py = given.py();
        let mut columns = Vec::with_capacity(known.len());
        if given.is_instance(python::mapping(py)?)? {
            let mut found = 0;
            for column in known {
                let present = given.contains(&column.name)?;
                found += usize::from(present);
                columns.push(present.then(|| given.get_item(&column.name)).transpose()?);
            }
            let distinct: std::collections::HashSet<&str> =
                known.iter().map(|column| column.name.as_str()).collect();
            if found < known.len() || given.len()? != distinct.len() {
                check_names(given, known)?;
            }
        } else {
            columns.extend(
                given
                    .try_iter()?
                    .take(known.len() + 1)
                    .map(|c| c.map(Some))
                    .collect::<PyResult<Vec<_>>>()?,
            );
            if columns.len() > known.len() {
                let reason = format!("there are {} columns, got more", known.len());
                return Err(Failure::refused("row", reason));
            }
            columns.resize(known.len(), None);
        }
        for (values, column) in columns.iter().zip(known) {
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
        Ok(columns)
    }
}

fn check_names(given: &Bound<'_, PyAny>, known: &[Column]) -> Outcome<()> {
    let names: Vec<&str> = known.iter().map(|column| column.name.as_str()).collect();
    let Some(key) = first_unknown(given, &names)? else { return Ok(()) };
    let (got, names) = (describe_key(&key), cut(&names.join(", "), 1000));
    let reason = format!("there is no column {got}; the columns are: {names}");
    Err(Failure::refused("row", reason))
}

/// Reads an element of `columns`: the column, and the marker that encodes its values.
fn marker(
    given: &Bound<'_, PyAny>,
    policy: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Column, Marker)> {
    let py = given.py();
    let (keyspace, table, name, cql_type) = column_parts(given)?;
    let description = (&keyspace, &table, &name);
    if let Some(policy) = policy {
        // Without keyspace and table the policy would not recognize the column, and its values
        // would be sent unencrypted.
        if keyspace.is_empty() || table.is_empty() {
            let reason = format!(
                "column {name:?}: an encryption policy identifies columns by keyspace, table and \
                 name: pass (keyspace, table, name, type)"
            );
            return Err(PyValueError::new_err(reason));
        }
        let column = python::column_description(py)?.call1(description)?;
        if policy.call_method1("contains_column", (&column,))?.is_truthy()? {
            let (cql_type, inner) =
                marker_of(&policy.call_method1("column_type", (&column,))?, &name)?;
            let encrypt = policy.getattr("encrypt")?.unbind();
            let marker =
                Marker::Encrypted { inner: Box::new(inner), encrypt, column: column.unbind() };
            return Ok((
                Column { keyspace: keyspace.into(), table: table.into(), name, cql_type },
                marker,
            ));
        }
    }
    let (cql_type, marker) = marker_of(&cql_type, &name)?;
    Ok((Column { keyspace: keyspace.into(), table: table.into(), name, cql_type }, marker))
}

type ColumnParts<'py> = (String, String, String, Bound<'py, PyAny>);

fn column_parts<'py>(given: &Bound<'py, PyAny>) -> PyResult<ColumnParts<'py>> {
    if let Ok(parts) = given.cast::<PyTuple>() {
        if let Ok((name, cql_type)) = parts.extract::<(String, Bound<'py, PyAny>)>() {
            return Ok((String::new(), String::new(), name, cql_type));
        }
        if let Ok(parts) = parts.extract::<ColumnParts<'py>>() {
            return Ok(parts);
        }
    } else {
        let read = || -> PyResult<ColumnParts<'py>> {
            let text = |name: &str| given.getattr(name)?.extract::<String>();
            Ok((text("keyspace")?, text("table")?, text("name")?, given.getattr("cql_type")?))
        };
        match read() {
            Ok(parts) => return Ok(parts),
            Err(error) => unless_serious::<()>(given.py(), error)?,
        };
    }
    let reason = format!(
        "a column is (name, type), (keyspace, table, name, type) or a Column, got {}",
        describe(given)
    );
    Err(PyTypeError::new_err(reason))
}

/// Reads columns whose types the codec knows. Objects with `serialize` are refused as types.
pub fn known_columns(given: &Bound<'_, PyAny>) -> PyResult<Vec<Column>> {
    let mut columns = Vec::new();
    for given in given.try_iter()? {
        if columns.len() == MOST_COLUMNS {
            return Err(PyValueError::new_err("a row has at most 65535 columns"));
        }
        let (keyspace, table, name, cql_type) = column_parts(&given?)?;
        let cql_type = object_of(&cql_type)?.get().cql_type.clone();
        columns.push(Column { keyspace: keyspace.into(), table: table.into(), name, cql_type });
    }
    Ok(columns)
}

fn check_policy(policy: &Bound<'_, PyAny>) -> PyResult<()> {
    for method in ["contains_column", "column_type", "encrypt"] {
        if policy.getattr_opt(method)?.is_none() {
            let reason = format!(
                "encryption_policy must have contains_column, column_type and encrypt, got {}",
                describe(policy)
            );
            return Err(PyTypeError::new_err(reason));
        }
    }
    Ok(())
}

/// The type that `given` stands for, and its marker: `Native` for a type that the codec knows,
/// otherwise `Python` with the object's own `serialize`.
fn marker_of(given: &Bound<'_, PyAny>, name: &str) -> PyResult<(CqlType, Marker)> {
    let py = given.py();
    if let Ok(serializer) = given.cast::<Serializer>() {
        return marker_of(serializer.get().cql_type(py).bind(py), name);
    }
    let ours = given.is_instance_of::<PyString>() || given.is_instance_of::<CqlType_>();
    let native = ours
        || (given.is_instance_of::<PyType>()
            && python::is_stock(py)?.call1((given,))?.is_truthy()?);
    if native {
        let cql_type = object_of(given)?;
        let plan = compiled(py, &cql_type.get().cql_type)?;
        let plan = Arc::into_inner(plan).ok_or_else(|| PyValueError::new_err("a shared plan"))?;
        return Ok((cql_type.get().cql_type.clone(), Marker::Native(plan)));
    }
    let serialize = given.getattr_opt(pyo3::intern!(py, "serialize"))?;
    let Some(serialize) = serialize.filter(|serialize| serialize.is_callable()) else {
        let reason = format!(
            "column \"{name}\": a type is CQL text, a CqlType, a class of cassandra.cqltypes or an \
             object with serialize(value, protocol_version), got {}",
            describe(given)
        );
        return Err(PyTypeError::new_err(reason));
    };
    let class = match given.cast::<PyType>() {
        Ok(class) => class.fully_qualified_name()?.to_string(),
        Err(_) => type_name(given),
    };
    Ok((CqlType::Custom(class), Marker::Python(serialize.unbind())))
}

fn key_positions(given: &Bound<'_, PyAny>, columns: &[Column]) -> PyResult<Vec<usize>> {
    if given.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("key_columns must be a sequence of names, got a str"));
    }
    let mut positions = Vec::new();
    for key in given.try_iter()? {
        let key = key?;
        let found = match key.cast::<PyString>() {
            Ok(name) => columns.iter().position(|column| *name == column.name.as_str()),
            Err(_) => match key.extract::<usize>() {
                Ok(position) => Some(position).filter(|&i| i < columns.len()),
                Err(error) => unless_serious(key.py(), error)?,
            },
        };
        let position = found.ok_or_else(|| {
            PyValueError::new_err(format!("key_columns: there is no column {}", describe(&key)))
        })?;
        if positions.contains(&position) {
            let name = &columns[position].name;
            return Err(PyValueError::new_err(format!("key_columns names {name:?} twice")));
        }
        positions.push(position);
    }
    Ok(positions)
}

/// One bound row: its encoded cells.
#[pyclass(frozen, module = "turbocql.codec")]
pub struct EncodedRow {
    plan: Arc<RowPlan>,
    pub rows: Arc<RowBuffer>,
    pub index: usize,
}

impl EncodedRow {
    pub fn row(&self) -> PyResult<RowRef<'_>> {
        self.rows.row(self.index).ok_or_else(|| PyIndexError::new_err("no such row"))
    }
}

#[pymethods]
impl EncodedRow {
    /// The bytes of each cell; None for a null, `UNSET` for an unset value.
    #[getter]
    fn cells<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        cells(py, self.row()?)
    }

    /// The packed partition key; None if the encoder has no `key_columns`.
    #[getter]
    fn routing_key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        routing_key(py, &self.plan, self.row()?)
    }

    /// The Murmur3 token of the partition key; None if the encoder has no `key_columns`.
    #[getter]
    fn token(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        Ok(self.routing_key(py)?.map(|key| token::murmur3(key.as_bytes())))
    }

    /// Returns the cells as they are in a request, each after its length.
    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        bytes::copy(py, self.row()?.bytes())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.row()?.len())
    }

    /// Iterates over the cells, so that a row can be the `values` of a message.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.cells(py)?.try_iter()
    }

    fn __repr__(&self) -> PyResult<String> {
        let row = self.row()?;
        Ok(format!("<EncodedRow of {} cells, {} bytes>", row.len(), row.bytes().len()))
    }
}

/// A sequence of bound rows, which share one buffer: a row keeps the memory of all rows alive.
#[pyclass(frozen, sequence, module = "turbocql.codec")]
pub struct EncodedRows {
    plan: Arc<RowPlan>,
    pub rows: Arc<RowBuffer>,
}

#[pymethods]
impl EncodedRows {
    fn __len__(&self) -> usize {
        self.rows.len()
    }

    fn __getitem__(&self, index: isize) -> PyResult<EncodedRow> {
        let count = self.rows.len();
        let at = if index < 0 { index.checked_add_unsigned(count) } else { Some(index) };
        let index = at.and_then(|at| usize::try_from(at).ok()).filter(|&at| at < count);
        let index = index.ok_or_else(|| PyIndexError::new_err("no such row"))?;
        Ok(EncodedRow { plan: self.plan.clone(), rows: self.rows.clone(), index })
    }

    fn __iter__(this: &Bound<'_, Self>) -> RowIterator {
        RowIterator { rows: this.clone().unbind(), next: AtomicUsize::new(0) }
    }

    /// Returns the token of each row; None if the encoder has no `key_columns`.
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for row in self.rows.rows() {
            let key = routing_key(py, &self.plan, row)?;
            list.append(key.map(|key| token::murmur3(key.as_bytes())))?;
        }
        Ok(list)
    }

    /// The number of bytes of all cells, lengths included.
    #[getter]
    fn byte_size(&self) -> usize {
        self.rows.byte_len()
    }

    fn __repr__(&self) -> String {
        format!("<EncodedRows of {} rows, {} bytes>", self.rows.len(), self.rows.byte_len())
    }
}

/// Iterates over the rows of `EncodedRows`.
#[pyclass(frozen)]
struct RowIterator {
    rows: Py<EncodedRows>,
    next: AtomicUsize,
}

#[pymethods]
impl RowIterator {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__(&self) -> Option<EncodedRow> {
        let rows = self.rows.get();
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let there = index < rows.rows.len();
        there.then(|| EncodedRow { plan: rows.plan.clone(), rows: rows.rows.clone(), index })
    }
}

/// The cells of a row as a list of `bytes`, None and `UNSET`.
pub fn cells<'py>(py: Python<'py>, row: RowRef<'_>) -> PyResult<Bound<'py, PyList>> {
    error::guarded(|| {
        let list = PyList::empty(py);
        for cell in row.cells() {
            match cell {
                Cell::Value(bytes) => list.append(bytes::copy(py, bytes)?)?,
                Cell::Null => list.append(py.None())?,
                Cell::Unset => list.append(python::unset(py)?)?,
            }
        }
        Ok(list)
    })
}

pub fn routing_key<'py>(
    py: Python<'py>,
    plan: &RowPlan,
    row: RowRef<'_>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    if plan.partition_key().is_empty() {
        return Ok(None);
    }
    let cells: Vec<Cell<'_>> = row.cells().collect();
    let parts = plan.partition_key().iter().map(|&i| match cells.get(i) {
        Some(Cell::Value(bytes)) => Ok(*bytes),
        _ => Err(PyValueError::new_err("a partition key column has no value")),
    });
    pack(py, &parts.collect::<PyResult<Vec<_>>>()?).map(Some)
}
