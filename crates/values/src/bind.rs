//! Encodes the values of a statement's bind markers as the cells of a row.

use std::sync::Arc;

use pyo3::exceptions::{PyAttributeError, PyMemoryError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{
    PyByteArray, PyBytes, PyDict, PyFrozenSet, PyList, PyMemoryView, PyString, PyTuple,
};
use turbocql_codec::{Column, RowBuffer, Segment, wire};

use crate::failure::{Failure, Outcome};
use crate::ffi;
use crate::memory::{SMALL, room};
use crate::plan::Classes;
use crate::plan::HostPlan;
use crate::python;
use crate::row::compile_all;
use crate::value::describe::{cut, describe, describe_key, nearest_and_all};
use crate::value::encode::{first_unknown, is_unset, safe_cell};
use crate::value::record;
use crate::value::sequence::has_labels;

/// How the values of one bind marker are encoded.
pub enum Marker {
    /// The compiled plan of the marker's type encodes the values.
    Native(HostPlan),
    /// `serialize(value, protocol_version)` of a user's object encodes the values.
    Python(Py<PyAny>),
    /// The inner marker encodes the values. Then `encrypt(column, data)` of an encryption policy
    /// encrypts them.
    Encrypted { inner: Box<Marker>, encrypt: Py<PyAny>, column: Py<PyAny> },
}

impl Marker {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Marker::Native(_) => Ok(()),
            Marker::Python(serialize) => visit.call(serialize),
            Marker::Encrypted { inner, encrypt, column } => {
                visit.call(encrypt)?;
                visit.call(column)?;
                inner.traverse(visit)
            }
        }
    }

    /// Appends the cell of a value: its length and bytes, or null for `None`. `Python` and
    /// `Encrypted` markers call Python code for the bytes.
    fn call(
        &self,
        column: &Column,
        protocol_version: u8,
        value: &Bound<'_, PyAny>,
        out: &mut Vec<u8>,
    ) -> Outcome<()> {
        room(out, SMALL)?;
        if value.is_none() {
            wire::put_i32(out, wire::NULL);
            return Ok(());
        }
        let data = self.bytes(column, protocol_version, value)?;
        let data = data.as_bytes();
        if i32::try_from(data.len()).is_err() {
            let reason = "the value is longer than 2 GiB";
            return Err(Failure::refused(&column.cql_type, reason));
        }
        room(out, data.len() + SMALL)?;
        wire::put_value(out, data);
        Ok(())
    }

    /// Returns the bytes of a value that is not `None`.
    fn bytes<'py>(
        &self,
        column: &Column,
        protocol_version: u8,
        value: &Bound<'py, PyAny>,
    ) -> Outcome<Bound<'py, PyBytes>> {
        let py = value.py();
        let checked = |result: PyResult<Bound<'py, PyAny>>, function: &str| {
            let result = result.map_err(|cause| {
                let cql_type = &column.cql_type;
                let mut reason =
                    format!("expected {cql_type}, got {}: {function} failed", describe(value));
                // The text of an `EncodeError` is quoted, because it names the place inside the
                // value.
                let ours =
                    python::encode_error(py).and_then(|class| cause.value(py).is_instance(class));
                if ours.is_ok_and(|ours| ours) {
                    reason = format!("{reason}: {}", cut(&cause.value(py).to_string(), 400));
                }
                Failure::caused(py, cql_type, reason, cause).beyond_range_if_overflowed(py)
            })?;
            result.cast_into::<PyBytes>().map_err(|refused_object| {
                let got = describe(&refused_object.into_inner());
                let reason = format!("{function} of the column must return bytes, got {got}");
                Failure::refused(&column.cql_type, reason)
            })
        };
        match self {
            Marker::Native(plan) => {
                let mut out = Vec::new();
                crate::value::encode::encode(plan, value, &mut out)?;
                Ok(PyBytes::new_with(py, out.len(), |target| {
                    target.copy_from_slice(&out);
                    Ok(())
                })?)
            }
            Marker::Python(serialize) => {
                checked(serialize.bind(py).call1((value, protocol_version)), "serialize")
            }
            Marker::Encrypted { inner, encrypt, column: description } => {
                let plain = inner.bytes(column, protocol_version, value)?;
                checked(encrypt.bind(py).call1((description, plain)), "encrypt")
            }
        }
    }
}

/// How to encode the values of a statement's bind markers.
pub struct RowPlan {
    columns: Arc<[Column]>,
    markers: Vec<Marker>,
    names: Vec<Py<PyString>>,
    /// The number of distinct marker names. Several markers may have the same name.
    distinct: usize,
    /// Positions of the markers that make up the partition key.
    partition_key: Vec<usize>,
    protocol_version: u8,
}

/// The first protocol version that can leave a value unset.
const UNSET_SINCE: u8 = 4;

impl RowPlan {
    pub fn new(
        py: Python<'_>,
        columns: Arc<[Column]>,
        partition_key: &[usize],
    ) -> Outcome<RowPlan> {
        let (plans, _) = compile_all(py, &columns, &Classes::default())?;
        let markers = plans.into_iter().map(Marker::Native).collect();
        Ok(RowPlan::with_markers(py, columns, markers, partition_key, UNSET_SINCE))
    }

    /// Makes a plan with one marker per column, for a protocol version.
    pub fn with_markers(
        py: Python<'_>,
        columns: Arc<[Column]>,
        markers: Vec<Marker>,
        partition_key: &[usize],
        protocol_version: u8,
    ) -> RowPlan {
        let names = columns.iter().map(|column| PyString::new(py, &column.name).unbind()).collect();
        let distinct: std::collections::HashSet<&str> =
            columns.iter().map(|column| column.name.as_str()).collect();
        let distinct = distinct.len();
        let partition_key = partition_key.to_vec();
        RowPlan { columns, markers, names, distinct, partition_key, protocol_version }
    }

    /// Visits the user's objects that the markers hold, for the GC.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.markers.iter().try_for_each(|marker| marker.traverse(visit))
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub fn partition_key(&self) -> &[usize] {
        &self.partition_key
    }

    pub fn protocol_version(&self) -> u8 {
        self.protocol_version
    }

    /// Appends one row; on failure the buffer is unchanged.
    pub fn encode(&self, values: Option<&Bound<'_, PyAny>>, rows: &mut RowBuffer) -> Outcome<()> {
        let encoded = match values {
            Some(values) => self.encode_values(values, rows),
            None => self.encode_positional(std::iter::empty(), rows),
        };
        Self::finish(encoded, rows)
    }

    /// Appends one row of values by position; on failure the buffer is unchanged.
    pub fn encode_cells<'py>(
        &self,
        values: impl Iterator<Item = Outcome<Bound<'py, PyAny>>>,
        rows: &mut RowBuffer,
    ) -> Outcome<()> {
        let mut values = values.fuse();
        let encoded = (0..self.columns.len())
            .try_for_each(|i| self.encode_marker(i, values.next().transpose()?, rows));
        Self::finish(encoded, rows)
    }

    fn finish(encoded: Outcome<()>, rows: &mut RowBuffer) -> Outcome<()> {
        let encoded = encoded.and_then(|()| rows.reserve(0, 1).map_err(|_| no_memory()));
        match encoded {
            Ok(()) => rows.finish_row(),
            Err(_) => rows.abandon_row(),
        }
        encoded
    }

    fn encode_values(&self, values: &Bound<'_, PyAny>, rows: &mut RowBuffer) -> Outcome<()> {
        let py = values.py();
        if let Ok(tuple) = values.cast::<PyTuple>() {
            if !values.is_exact_instance_of::<PyTuple>()
                && let Some(order) = self.by_name(values)?
            {
                let parts = order.into_iter().map(|i| tuple.get_item(i));
                return self
                    .encode_positional(parts.collect::<PyResult<Vec<_>>>()?.into_iter(), rows);
            }
            self.check_count(tuple.len())?;
            return self.encode_positional(tuple.iter(), rows);
        }
        if let Ok(list) = values.cast::<PyList>() {
            self.check_count(list.len())?;
            return self.encode_positional(list.iter(), rows);
        }
        if let Ok(dict) = values.cast_exact::<PyDict>() {
            return self.encode_named(values, dict.len(), |name| dict.get_item(name), rows);
        }
        if values.is_instance(python::mapping(py)?)? {
            return self.encode_named(values, values.len()?, |name| item_of(values, name), rows);
        }
        if let Some(fields) = record::field_names(values)? {
            return self.encode_attributes(values, &fields, rows);
        }
        let sequence = !values.is_instance_of::<PyString>()
            && !values.is_instance_of::<PyBytes>()
            && !values.is_instance_of::<PyByteArray>()
            && !values.is_instance_of::<PyMemoryView>()
            && values.hasattr(pyo3::intern!(py, "__getitem__"))?
            && values.hasattr(pyo3::intern!(py, "__len__"))?
            && !has_labels(values)?;
        if !sequence {
            let is_single = values.is_instance_of::<PyString>()
                || values.is_instance_of::<PyBytes>()
                || !values.hasattr(pyo3::intern!(py, "__iter__"))?;
            let reason = format!(
                "values must be a list, tuple, other sequence, mapping, dataclass or object of a \
                 class of attrs, msgspec or pydantic, got {}{}",
                values.get_type().name()?,
                if is_single { ": pass a single value as (value,)" } else { "" },
            );
            return Err(Failure::refused("row", reason));
        }
        let length = values.len()?;
        self.check_count(length)?;
        let items: Vec<_> = values.try_iter()?.take(length).collect::<PyResult<_>>()?;
        self.encode_positional(items.into_iter(), rows)
    }

    /// Returns, for each column, the position of its value in a named tuple. Returns `None` if the
    /// tuple is to be bound by position. A tuple with the names of all columns, in any order, is
    /// bound by name. A tuple without names is bound by position.
    ///
    /// A tuple that lacks some columns' names is bound by position if the names of the other
    /// columns are at the same positions as in the statement. If not, the tuple is refused, because
    /// turbocql would have to guess whether to bind it by name or by position.
    fn by_name(&self, values: &Bound<'_, PyAny>) -> Outcome<Option<Vec<usize>>> {
        let py = values.py();
        let Some(names) = record::names_of(values)? else { return Ok(None) };
        let mut order = Vec::with_capacity(self.names.len());
        let mut elsewhere = None;
        for (i, name) in self.names.iter().enumerate() {
            match names.index(name.bind(py)) {
                Ok(position) => {
                    order.push(position);
                    if position != i {
                        elsewhere.get_or_insert(i);
                    }
                }
                Err(error) if error.is_instance_of::<PyValueError>(py) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if order.len() == self.names.len() {
            return Ok(Some(order));
        }
        let Some(elsewhere) = elsewhere else { return Ok(None) };
        let reason = format!(
            "{} has a value called {:?} at another position than the statement, and lacks some of \
             the statement's names: pass a named tuple with all of them, or a plain tuple",
            crate::value::describe::type_name(values),
            self.columns[elsewhere].name,
        );
        Err(Failure::refused("row", reason))
    }

    fn check_count(&self, got: usize) -> Outcome<()> {
        let markers = self.columns.len();
        if got <= markers {
            return Ok(());
        }
        let reason = match markers {
            0 => format!("the statement has no bind markers (? or :name), got {got} values"),
            1 => format!("the statement has 1 bind marker, got {got} values"),
            _ => format!("the statement has {markers} bind markers, got {got} values"),
        };
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
                // If the program misspelled this name, an error that names the unknown key explains
                // more than an error about the missing value.
                self.check_names(values)?;
            }
            self.encode_marker(i, value, rows)?;
        }
        // The names need no check if every entry of the mapping belongs to a marker. This is
        // certain if every marker has a value, and there is one entry per distinct name. It is also
        // certain if all names are distinct, and there is one entry per marker with a value.
        let present = self.columns.len() - missing;
        let alone = self.distinct == self.columns.len() && present == count;
        if (missing == 0 && count == self.distinct) || alone {
            return Ok(());
        }
        self.check_names(values)
    }

    /// Binds the fields of an object by name. If the object's class lacks a marker's field, none of
    /// its objects fits the statement, so this is an error. In a mapping, a missing key only leaves
    /// its column unset.
    fn encode_attributes(
        &self,
        values: &Bound<'_, PyAny>,
        fields: &Bound<'_, PyFrozenSet>,
        rows: &mut RowBuffer,
    ) -> Outcome<()> {
        let py = values.py();
        for (i, name) in self.names.iter().enumerate() {
            let refuse = |why: &str| {
                let column = &self.columns[i];
                let class = crate::value::describe::type_name(values);
                let reason = format!("{class} has no {why}; UNSET leaves a column unset");
                let failure = Failure::refused(&column.cql_type, reason);
                failure.at(|| Segment::Column(column.name.clone()))
            };
            // Methods, properties and class variables of that name are not fields.
            if !fields.contains(name.bind(py))? {
                return Err(refuse("such field"));
            }
            let value = values.getattr(name.bind(py)).map_err(|error| {
                let unset = error.is_instance_of::<PyAttributeError>(py);
                if unset { refuse("value for its field") } else { error.into() }
            })?;
            self.encode_marker(i, Some(value), rows)?;
        }
        Ok(())
    }

    fn check_names(&self, values: &Bound<'_, PyAny>) -> Outcome<()> {
        let names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
        let Some(key) = first_unknown(values, &names)? else { return Ok(()) };
        let got = describe_key(&key);
        let names = nearest_and_all(&key, &names, "it has:");
        let reason = format!("the statement has no bind marker {got}{names}");
        Err(Failure::refused("row", reason))
    }

    /// Appends the cell of marker `i`. If there is no `value`, the cell is unset. It is an error to
    /// leave a column of the partition key unset, or any column before protocol version 4.
    pub fn encode_marker(
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
            if self.protocol_version < UNSET_SINCE {
                let version = self.protocol_version;
                let reason = format!(
                    "got no value: protocol version {version} cannot leave a column unset, version \
                     {UNSET_SINCE} can"
                );
                return Err(Failure::refused(&self.columns[i].cql_type, reason).at(column));
            }
            rows.reserve(SMALL, 1).map_err(|_| no_memory())?;
            rows.push_unset();
            return Ok(());
        };
        if value.is_none() && self.partition_key.contains(&i) {
            let reason = "a partition key column needs a value, got None";
            return Err(Failure::refused(&self.columns[i].cql_type, reason).at(column));
        }
        let encoded = rows.push_with(|out| match &self.markers[i] {
            Marker::Native(plan) if ffi::encode::cell(plan, &value, out) => Ok(()),
            Marker::Native(plan) => safe_cell(plan, &value, out),
            by_python @ (Marker::Python(_) | Marker::Encrypted { .. }) => {
                by_python.call(&self.columns[i], self.protocol_version, &value, out)
            }
        });
        encoded.map_err(|failure| failure.at(column))
    }
}

fn no_memory() -> Box<Failure> {
    PyMemoryError::new_err(()).into()
}

/// Returns the value for a key of a mapping, or `None` if the mapping lacks the key.
fn item_of<'py>(
    mapping: &Bound<'py, PyAny>,
    key: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    // `contains` is called first, because `get_item` of a defaultdict, or of a wrapper of one,
    // would insert a missing key.
    if !mapping.contains(key)? {
        return Ok(None);
    }
    mapping.get_item(key).map(Some)
}
