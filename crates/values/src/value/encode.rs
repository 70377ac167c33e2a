//! Encodes a Python value to the bytes of a CQL type.

use std::net::IpAddr;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyException, PyMemoryError, PyRecursionError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use turbocql_codec::types::{self, inet};
use turbocql_codec::{Malformed, Plan, Segment, wire};

use crate::ffi;

use super::describe::{describe, describe_key};
use crate::failure::{Failure, Outcome};
use crate::memory::{SMALL, copied, items_of, room};
use crate::plan::HostPlan;
use crate::python;
use crate::value::{numbers, sequence, temporal, udt};

/// Appends a cell: the length of the value in bytes, then its bytes. `None` becomes a null.
#[inline]
pub fn encode_cell(plan: &HostPlan, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Outcome<()> {
    if ffi::encode::cell(plan, value, out) { Ok(()) } else { safe_cell(plan, value, out) }
}

/// Like [`encode_cell`], on the safe path only.
pub fn safe_cell(plan: &HostPlan, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Outcome<()> {
    // `SMALL` is enough for the length and a small value. For larger values, `encode` makes room.
    room(out, SMALL)?;
    if value.is_none() {
        wire::put_i32(out, wire::NULL);
        return Ok(());
    }
    let start = wire::begin_value(out);
    encode(plan, value, out)?;
    wire::end_value(out, start).map_err(|m| unfit(plan, value, m))
}

/// Appends the bytes of a value that is not `None`, without their length.
#[inline]
pub fn encode(plan: &HostPlan, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Outcome<()> {
    encode_as(plan, value, out).map_err(|failure| match *failure {
        // The exception was raised while the value was read, so it becomes the cause of an error
        // about the value.
        Failure::Raised(error) => raised(plan, value, error),
        Failure::Refused(..) => failure,
    })
}

fn encode_as(plan: &HostPlan, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Outcome<()> {
    match plan {
        Plan::Ascii => {
            let text = text(plan, value)?;
            room(out, text.len())?;
            types::ascii::encode(text, out).map_err(|m| unfit(plan, value, m))
        }
        Plan::Text => {
            let text = text(plan, value)?;
            room(out, text.len())?;
            types::text::encode(text, out);
            Ok(())
        }
        Plan::TinyInt => numbers::integer(plan, value).map(|n| types::tinyint::encode(n, out)),
        Plan::SmallInt => numbers::integer(plan, value).map(|n| types::smallint::encode(n, out)),
        Plan::Int => numbers::integer(plan, value).map(|n| types::int::encode(n, out)),
        Plan::BigInt => numbers::integer(plan, value).map(|n| types::bigint::encode(n, out)),
        Plan::Counter => numbers::integer(plan, value).map(|n| types::counter::encode(n, out)),
        Plan::VarInt => numbers::encode_varint(plan, value, out),
        Plan::Float => numbers::float(plan, value).map(|x| types::float::encode(x, out)),
        Plan::Double => numbers::double(plan, value).map(|x| types::double::encode(x, out)),
        Plan::Decimal => numbers::encode_decimal(plan, value, out),
        Plan::Boolean => numbers::boolean(plan, value).map(|b| types::boolean::encode(b, out)),
        Plan::Blob | Plan::Custom(_) => encode_bytes(plan, value, out),
        Plan::Uuid => {
            types::uuid::encode(&uuid(plan, value)?, out);
            Ok(())
        }
        Plan::TimeUuid => {
            types::timeuuid::encode(&uuid(plan, value)?, out).map_err(|m| unfit(plan, value, m))
        }
        Plan::Inet => {
            inet::encode(address(plan, value)?, out);
            Ok(())
        }
        Plan::Date => temporal::date(plan, value).map(|days| types::date::encode(days, out)),
        Plan::Time => types::time::encode(temporal::time(plan, value)?, out)
            .map_err(|m| unfit(plan, value, m)),
        Plan::Timestamp => {
            temporal::timestamp(plan, value).map(|ms| types::timestamp::encode(ms, out))
        }
        Plan::Duration => types::duration::encode(temporal::duration(plan, value)?, out)
            .map_err(|m| unfit(plan, value, m)),
        Plan::List(element) => sequence::encode_list(plan, element, value, out),
        Plan::Set(element) => sequence::encode_set(plan, element, value, out),
        Plan::Map(entry) => encode_map(plan, &entry.0, &entry.1, value, out),
        Plan::Tuple(components) => encode_tuple(plan, components, value, out),
        Plan::Udt(udt) => udt::encode_udt(plan, udt, value, out),
        Plan::Vector(vector) => sequence::encode_vector(plan, vector, value, out),
        Plan::Composite(components) => encode_composite(plan, components, value, out),
    }
}

/// Returns the failure for a value of a class that the type does not take.
pub fn mismatch(plan: &HostPlan, expected: &str, value: &Bound<'_, PyAny>) -> Box<Failure> {
    let cql_type = plan.cql_type();
    if is_unset(value) {
        let got = "UNSET, which stands for a whole column, not for a part of a value";
        return Failure::expected(&cql_type, &cql_type, got);
    }
    let expected = format!("{cql_type} ({expected})");
    Failure::expected(cql_type, expected, describe(value))
}

/// Returns the failure for a value that the type cannot hold, although the type takes other values
/// of the same class.
pub fn unfit(plan: &HostPlan, value: &Bound<'_, PyAny>, malformed: Malformed) -> Box<Failure> {
    let cql_type = plan.cql_type();
    let reason = format!("expected {cql_type}, got {}: {malformed}", describe(value));
    if let Malformed::Range(_) = malformed {
        Failure::out_of_range(cql_type, reason)
    } else {
        Failure::refused(cql_type, reason)
    }
}

/// Returns the failure for a value that raised `error` while it was read.
pub fn raised(plan: &HostPlan, value: &Bound<'_, PyAny>, error: PyErr) -> Box<Failure> {
    let cql_type = plan.cql_type();
    let reason = format!("expected {cql_type}, got {} that cannot be read", describe(value));
    Failure::caused(value.py(), cql_type, reason, error)
}

pub fn is_unset(value: &Bound<'_, PyAny>) -> bool {
    python::unset(value.py()).is_ok_and(|unset| value.is(unset))
}

fn text<'a>(plan: &HostPlan, value: &'a Bound<'_, PyAny>) -> Outcome<&'a str> {
    let text = value.cast::<PyString>().map_err(|_| mismatch(plan, "str", value))?;
    text.to_str().map_err(|error| {
        let cql_type = plan.cql_type();
        let reason = format!("expected {cql_type}, got {}", describe(value));
        Failure::caused(value.py(), cql_type, reason, error)
    })
}

fn encode_bytes(plan: &HostPlan, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Outcome<()> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        room(out, bytes.as_bytes().len())?;
        types::blob::encode(bytes.as_bytes(), out);
        return Ok(());
    }
    let expected = "bytes, bytearray, memoryview or another bytes-like";
    let Some(buffer) = bytes_of(value)? else { return Err(mismatch(plan, expected, value)) };
    let bytes = copied(value.py(), &buffer).map_err(|error| raised(plan, value, error))?;
    room(out, bytes.len())?;
    types::blob::encode(&bytes, out);
    Ok(())
}

fn uuid(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Outcome<[u8; 16]> {
    let py = value.py();
    if !value.is_instance(python::uuid(py)?)? {
        return Err(mismatch(plan, "uuid.UUID", value));
    }
    let number = value
        .getattr(pyo3::intern!(py, "int"))
        .and_then(|number| number.extract::<u128>())
        .map_err(|error| raised(plan, value, error))?;
    Ok(number.to_be_bytes())
}

fn address(plan: &HostPlan, value: &Bound<'_, PyAny>) -> Outcome<IpAddr> {
    let py = value.py();
    let expected = "ipaddress.IPv4Address, ipaddress.IPv6Address or the str of one";
    if let Ok(text) = value.cast::<PyString>() {
        return text.to_str().ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
            let reason = format!("expected inet, got {}, which is no IP address", describe(value));
            Failure::refused("inet", reason)
        });
    }
    let four = value.is_instance(python::ipv4_address(py)?)?;
    if !four && !value.is_instance(python::ipv6_address(py)?)? {
        return Err(mismatch(plan, expected, value));
    }
    if !four {
        let scope = value.getattr_opt(pyo3::intern!(py, "scope_id"))?;
        if scope.is_some_and(|scope| !scope.is_none()) {
            let reason = "expected inet, got an IPv6 address with a scope, which inet cannot hold";
            return Err(Failure::refused("inet", reason));
        }
    }
    // `IPv4Interface` and `IPv6Interface` inherit from the address classes. They are refused,
    // because their network would be lost.
    if value.hasattr(pyo3::intern!(py, "network"))? {
        return Err(mismatch(plan, expected, value));
    }
    let packed = value.getattr(pyo3::intern!(py, "packed"))?;
    let packed = packed.cast::<PyBytes>().map_err(|_| mismatch(plan, expected, value))?;
    inet::decode(packed.as_bytes()).map_err(|m| unfit(plan, value, m))
}

fn encode_map(
    plan: &HostPlan,
    key_plan: &HostPlan,
    value_plan: &HostPlan,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let py = value.py();
    // The entries are copied to a list first, because user code that runs below can change the
    // mapping. A subclass of dict can have its own order of entries, as OrderedDict has, so the
    // subclass's `items()` is called.
    let items = if let Ok(dict) = value.cast_exact::<PyDict>() {
        items_of(dict)?
    } else if value.is_instance(python::mapping(py)?)? {
        let items = value.call_method0(pyo3::intern!(py, "items"));
        let items = items.map_err(|error| raised(plan, value, error))?;
        let length = value.len().map_err(|error| raised(plan, value, error))?;
        sequence::bounded_list(plan, value, &items, length)?
    } else {
        return Err(mismatch(plan, "a dict or another mapping", value));
    };
    room(out, SMALL)?;
    let start = types::map::begin(out);
    for (i, item) in items.iter().enumerate() {
        let (key, part) = item
            .extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()
            .map_err(|error| raised(plan, value, error))?;
        encode_cell(key_plan, &key, out).map_err(|failure| failure.at(|| Segment::MapKey(i)))?;
        encode_cell(value_plan, &part, out)
            .map_err(|failure| failure.at(|| Segment::MapValue(describe_key(&key))))?;
    }
    types::map::end(out, start, items.len()).map_err(|m| unfit(plan, value, m))
}

fn encode_tuple(
    plan: &HostPlan,
    components: &[HostPlan],
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let parts = at_most(plan, components.len(), value)?;
    let count = parts.len();
    for (i, component) in components.iter().enumerate().take(count) {
        let part = parts.get(i).ok_or_else(|| sequence::changed(plan, value))?;
        encode_cell(component, &part, out).map_err(|failure| failure.at(|| Segment::Index(i)))?;
    }
    if parts.len() == count { Ok(()) } else { Err(sequence::changed(plan, value)) }
}

/// Returns the parts of a value. Refuses a value with more than `components` parts.
fn at_most<'py>(
    plan: &HostPlan,
    components: usize,
    value: &Bound<'py, PyAny>,
) -> Outcome<sequence::Parts<'py>> {
    sequence::fixed(plan, value, &|got| {
        let cql_type = plan.cql_type();
        let reason = format!("expected {cql_type} of at most {components} components, got {got}");
        if got <= components { Ok(()) } else { Err(Failure::refused(cql_type, reason)) }
    })
}

fn encode_composite(
    plan: &HostPlan,
    components: &[HostPlan],
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let parts = at_most(plan, components.len(), value)?;
    let count = parts.len();
    for (i, component) in components.iter().enumerate().take(count) {
        let part = parts.get(i).ok_or_else(|| sequence::changed(plan, value))?;
        room(out, SMALL)?;
        let start = types::composite::begin(out);
        let encoded = if part.is_none() {
            Err(mismatch(component, "a component of a composite cannot be null", &part))
        } else {
            encode(component, &part, out)
        };
        encoded
            .and_then(|()| {
                types::composite::end(out, start).map_err(|m| unfit(component, &part, m))
            })
            .map_err(|failure| failure.at(|| Segment::Index(i)))?;
    }
    if parts.len() == count { Ok(()) } else { Err(sequence::changed(plan, value)) }
}

/// Returns the first key of a mapping that is not in `names`. At most `names.len() + 1` keys are
/// read, because the iterator of a mapping may never end.
pub fn first_unknown<'py>(
    mapping: &Bound<'py, PyAny>,
    names: &[&str],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    for key in mapping.try_iter()?.take(names.len() + 1) {
        let key = key?;
        let name = key.cast::<PyString>().ok();
        if !name.is_some_and(|name| names.iter().any(|field_name| *name == **field_name)) {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// Returns an object's one-dimensional buffer of unsigned bytes, if it has one. Exceptions that are
/// not about the object (`KeyboardInterrupt`, `MemoryError`, ...) are returned as errors.
pub fn bytes_of(value: &Bound<'_, PyAny>) -> PyResult<Option<PyBuffer<u8>>> {
    match PyBuffer::<u8>::get(value) {
        Ok(buffer) => Ok(Some(buffer).filter(|buffer| buffer.dimensions() == 1)),
        Err(error) => unless_serious(value.py(), error),
    }
}

/// Returns `None` for an exception which means that the value is not of the expected kind. Returns
/// `MemoryError`, `RecursionError` and exceptions that are not an `Exception` as errors.
pub fn unless_serious<T>(py: Python<'_>, error: PyErr) -> PyResult<Option<T>> {
    let of_the_value = error.is_instance_of::<PyException>(py)
        && !error.is_instance_of::<PyMemoryError>(py)
        && !error.is_instance_of::<PyRecursionError>(py);
    if of_the_value { Ok(None) } else { Err(error) }
}
