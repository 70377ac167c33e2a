//! Encodes values of user-defined types.

use super::describe::{cut, describe_key, nearest_and_all};
use super::encode::{encode_cell, first_unknown, mismatch, raised};
use super::record;
use crate::failure::{Failure, Outcome};
use crate::memory::{SMALL, room};
use crate::plan::HostPlan;
use crate::plan::Record;
use crate::python;
use pyo3::prelude::*;
use pyo3::types::{
    PyByteArray, PyBytes, PyComplex, PyDict, PyFloat, PyInt, PyList, PyModule, PyString, PyTuple,
    PyType,
};
use turbocql_codec::plan::UdtPlan;
use turbocql_codec::{Segment, wire};

pub fn encode_udt(
    plan: &HostPlan,
    udt: &UdtPlan<Record>,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let py = value.py();
    let parts = udt_fields(plan, udt, value)?;
    for ((field, part), name) in udt.fields.iter().zip(&parts).zip(&udt.host.names) {
        match part {
            Some(part) => encode_cell(field, part, out).map_err(|failure| {
                failure.at(|| Segment::Field(name.bind(py).to_string_lossy().into_owned()))
            })?,
            None => {
                room(out, SMALL)?;
                wire::put_i32(out, wire::NULL);
            }
        }
    }
    Ok(())
}

const RECORDS: &str = "a mapping, dataclass, named tuple, tuple or object with its fields";

/// Returns one entry for each field of the type: the part of `value` with the field's name if the
/// parts have names, otherwise the part at the field's position. The entry is `None` if `value` has
/// no such part.
fn udt_fields<'py>(
    plan: &HostPlan,
    udt: &UdtPlan<Record>,
    value: &Bound<'py, PyAny>,
) -> Outcome<Vec<Option<Bound<'py, PyAny>>>> {
    let py = value.py();
    let names = udt.host.names.iter().map(|name| name.bind(py));
    if let Ok(parts) = value.cast::<PyTuple>() {
        if value.get_type().is(udt.host.class.bind(py)) {
            return positional(plan, udt, parts.iter());
        }
        // turbocql made this record's class for another type or for the columns of a result. The
        // record's attribute names can differ from its field names.
        if let Some(fields) = record::fields_of(value)? {
            let named = fields.iter().zip(parts.iter()).collect::<Vec<_>>();
            return udt_fields(
                plan,
                udt,
                PyDict::from_sequence(PyList::new(py, named)?.as_any())?.as_any(),
            );
        }
        let Some(own_names) = record::names_of(value)? else {
            return positional(plan, udt, parts.iter());
        };
        let field_names: Vec<&str> = udt.udt.fields.iter().map(|(name, _)| name.as_str()).collect();
        if let Some(unknown) = first_unknown(own_names.as_any(), &field_names)? {
            return Err(no_field(plan, udt, &unknown));
        }
    }
    if let Ok(parts) = value.cast::<PyList>() {
        return positional(plan, udt, parts.iter());
    }
    if value.is_instance(python::mapping(py)?)? {
        let mut present_count = 0;
        let mut parts = Vec::with_capacity(udt.fields.len());
        for name in names {
            let present = value.contains(name).map_err(|error| raised(plan, value, error))?;
            present_count += usize::from(present);
            let part = present.then(|| value.get_item(name)).transpose();
            parts.push(part.map_err(|error| raised(plan, value, error))?);
        }
        if present_count != value.len().map_err(|error| raised(plan, value, error))? {
            return Err(unknown_fields(plan, udt, value)?);
        }
        return Ok(parts);
    }
    // Numbers, text, bytes, arrays, classes and modules have attributes but are not records, so
    // they are refused.
    let scalar = value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
        || value.is_instance_of::<PyComplex>()
        || value.is_instance_of::<PyByteArray>()
        || value.is_instance_of::<PyType>()
        || value.is_instance_of::<PyModule>()
        || value.is_instance(python::number(py)?)?
        || value.hasattr(pyo3::intern!(py, "__array__"))?;
    if scalar {
        return Err(mismatch(plan, RECORDS, value));
    }
    let mut parts = Vec::with_capacity(udt.fields.len());
    let dataclass = record::is_dataclass(value)?;
    for name in names {
        let exists = !dataclass || record::is_field(value, name)?;
        let part = if exists { value.getattr_opt(name)? } else { None };
        // If the class has the attribute, the field is not missing: a property has raised
        // AttributeError, or a slot was never set. Such a value is refused.
        if exists && part.is_none() && value.get_type().hasattr(name)? {
            let reason =
                format!("the value of its attribute {} cannot be read", describe_key(name));
            return Err(Failure::refused(plan.cql_type(), reason));
        }
        parts.push(part);
    }
    if parts.iter().all(Option::is_none) && !udt.fields.is_empty() {
        return Err(mismatch(plan, RECORDS, value));
    }
    Ok(parts)
}

fn positional<'py>(
    plan: &HostPlan,
    udt: &UdtPlan<Record>,
    parts: impl ExactSizeIterator<Item = Bound<'py, PyAny>>,
) -> Outcome<Vec<Option<Bound<'py, PyAny>>>> {
    if parts.len() > udt.fields.len() {
        let (expected, got) = (udt.fields.len(), parts.len());
        let cql_type = plan.cql_type();
        let reason = format!("expected {cql_type} of at most {expected} fields, got {got}");
        return Err(Failure::refused(cql_type, reason));
    }
    let mut parts: Vec<_> = parts.map(Some).collect();
    parts.resize(udt.fields.len(), None);
    Ok(parts)
}

fn unknown_fields(
    plan: &HostPlan,
    udt: &UdtPlan<Record>,
    value: &Bound<'_, PyAny>,
) -> Outcome<Box<Failure>> {
    let field_names: Vec<&str> = udt.udt.fields.iter().map(|(name, _)| name.as_str()).collect();
    if let Some(unknown) = first_unknown(value, &field_names)? {
        return Ok(no_field(plan, udt, &unknown));
    }
    let (cql_type, field_names) = (plan.cql_type(), cut(&field_names.join(", "), 1000));
    let reason =
        format!("a key of the value is no field of {cql_type}; its fields are {field_names}");
    Ok(Failure::refused(cql_type, reason))
}

fn no_field(plan: &HostPlan, udt: &UdtPlan<Record>, unknown: &Bound<'_, PyAny>) -> Box<Failure> {
    let field_names: Vec<&str> = udt.udt.fields.iter().map(|(name, _)| name.as_str()).collect();
    let (cql_type, names) =
        (plan.cql_type(), nearest_and_all(unknown, &field_names, "its fields are"));
    let reason = format!("{cql_type} has no field {}{names}", describe_key(unknown));
    Failure::refused(cql_type, reason)
}
