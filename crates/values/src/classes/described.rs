//! Columns as users describe them: names, types, and how their values are encoded.

use super::codec::Serializer;
use super::cql_type::{CqlType_, compiled, object_of};
use super::row_encoder::MAX_COLUMNS;
use crate::bind::Marker;
use crate::python;
use crate::value::describe::{describe, type_name};
use crate::value::encode::unless_serious;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};
use std::sync::Arc;
use turbocql_codec::{Column, CqlType};

/// Reads an element of `columns`, an argument of `RowEncoder`. Returns the column and the marker
/// that encodes its values.
pub fn marker(
    description: &Bound<'_, PyAny>,
    policy: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Column, Marker)> {
    let py = description.py();
    let ColumnParts { keyspace, table, name, cql_type } = column_parts(description)?;
    let key = (&keyspace, &table, &name);
    if let Some(policy) = policy {
        // The keyspace and the table must not be empty. Otherwise the policy would not recognize
        // the column, and the column's values would be sent unencrypted.
        if keyspace.is_empty() || table.is_empty() {
            let reason = format!(
                "column {name:?}: an encryption policy identifies columns by keyspace, table and \
                 name: pass (keyspace, table, name, type)"
            );
            return Err(PyValueError::new_err(reason));
        }
        let column = python::column_description(py)?.call1(key)?;
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

/// A column as Python code describes it. The keyspace and the table may be empty.
struct ColumnParts<'py> {
    keyspace: String,
    table: String,
    name: String,
    cql_type: Bound<'py, PyAny>,
}

fn column_parts<'py>(description: &Bound<'py, PyAny>) -> PyResult<ColumnParts<'py>> {
    if let Ok(parts) = description.cast::<PyTuple>() {
        if let Ok((name, cql_type)) = parts.extract::<(String, Bound<'py, PyAny>)>() {
            let (keyspace, table) = (String::new(), String::new());
            return Ok(ColumnParts { keyspace, table, name, cql_type });
        }
        type Parts<'py> = (String, String, String, Bound<'py, PyAny>);
        if let Ok((keyspace, table, name, cql_type)) = parts.extract::<Parts<'py>>() {
            return Ok(ColumnParts { keyspace, table, name, cql_type });
        }
    } else {
        let read = || -> PyResult<ColumnParts<'py>> {
            let text = |name: &str| description.getattr(name)?.extract::<String>();
            Ok(ColumnParts {
                keyspace: text("keyspace")?,
                table: text("table")?,
                name: text("name")?,
                cql_type: description.getattr("cql_type")?,
            })
        };
        match read() {
            Ok(parts) => return Ok(parts),
            Err(error) => unless_serious::<()>(description.py(), error)?,
        };
    }
    let reason = format!(
        "a column is (name, type), (keyspace, table, name, type) or a Column, got {}",
        describe(description)
    );
    Err(PyTypeError::new_err(reason))
}

/// Reads columns whose types the codec knows. Objects with `serialize` are refused as types.
pub fn known_columns(descriptions: &Bound<'_, PyAny>) -> PyResult<Vec<Column>> {
    let mut columns = Vec::new();
    for description in descriptions.try_iter()? {
        if columns.len() == MAX_COLUMNS {
            return Err(PyValueError::new_err("a row has at most 65535 columns"));
        }
        let ColumnParts { keyspace, table, name, cql_type } = column_parts(&description?)?;
        let cql_type = object_of(&cql_type)?.get().cql_type.clone();
        columns.push(Column { keyspace: keyspace.into(), table: table.into(), name, cql_type });
    }
    Ok(columns)
}

pub fn check_policy(policy: &Bound<'_, PyAny>) -> PyResult<()> {
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

/// Returns the type that `type_object` stands for, and its marker: `Native` for a type that the
/// codec knows, otherwise `Python` with the object's own `serialize`.
fn marker_of(type_object: &Bound<'_, PyAny>, name: &str) -> PyResult<(CqlType, Marker)> {
    let py = type_object.py();
    if let Ok(serializer) = type_object.cast::<Serializer>() {
        return marker_of(serializer.get().cql_type(py).bind(py), name);
    }
    let ours = type_object.is_instance_of::<PyString>() || type_object.is_instance_of::<CqlType_>();
    let native = ours
        || (type_object.is_instance_of::<PyType>()
            && python::is_stock(py)?.call1((type_object,))?.is_truthy()?);
    if native {
        let cql_type = object_of(type_object)?;
        let plan = compiled(py, &cql_type.get().cql_type)?;
        let plan = Arc::into_inner(plan).ok_or_else(|| PyValueError::new_err("a shared plan"))?;
        return Ok((cql_type.get().cql_type.clone(), Marker::Native(plan)));
    }
    let serialize = type_object.getattr_opt(pyo3::intern!(py, "serialize"))?;
    let Some(serialize) = serialize.filter(|serialize| serialize.is_callable()) else {
        let reason = format!(
            "column \"{name}\": a type is CQL text, a CqlType, a class of cassandra.cqltypes or an \
             object with serialize(value, protocol_version), got {}",
            describe(type_object)
        );
        return Err(PyTypeError::new_err(reason));
    };
    let class = match type_object.cast::<PyType>() {
        Ok(class) => class.fully_qualified_name()?.to_string(),
        Err(_) => type_name(type_object),
    };
    Ok((CqlType::Custom(class), Marker::Python(serialize.unbind())))
}

pub fn key_positions(key_columns: &Bound<'_, PyAny>, columns: &[Column]) -> PyResult<Vec<usize>> {
    if key_columns.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("key_columns must be a sequence of names, got a str"));
    }
    let mut positions = Vec::new();
    for key in key_columns.try_iter()? {
        let key = key?;
        let position = match key.cast::<PyString>() {
            Ok(name) => columns.iter().position(|column| *name == column.name.as_str()),
            Err(_) => match key.extract::<usize>() {
                Ok(position) => Some(position).filter(|&i| i < columns.len()),
                Err(error) => unless_serious(key.py(), error)?,
            },
        };
        let position = position.ok_or_else(|| {
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
