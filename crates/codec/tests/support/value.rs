//! Values of any type as trees. `encode` and `decode` use the plan of the type.

use std::net::IpAddr;

use num_bigint::BigInt;
use turbocql_codec::types::{self, decimal::Parts, duration::Duration};
use turbocql_codec::{CqlType, Malformed, Plan, wire};

/// A value. Floats are kept as their bits, so that two values are equal if their bytes are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Integer(i64),
    VarInt(BigInt),
    Float(u32),
    Double(u64),
    Decimal(Parts),
    Boolean(bool),
    Bytes(Vec<u8>),
    Uuid([u8; 16]),
    Inet(IpAddr),
    Duration(Duration),
    /// A list or set.
    List(Vec<Option<Value>>),
    Map(Vec<(Option<Value>, Option<Value>)>),
    /// A tuple or user-defined type.
    Tuple(Vec<Option<Value>>),
    Vector(Vec<Value>),
    /// The components of the value. A value may end early, and then has fewer components than its
    /// type.
    Composite(Vec<Value>),
}

pub fn plan(cql_type: &CqlType) -> Plan<()> {
    Plan::compile(cql_type, &mut |_| Ok::<_, Box<turbocql_codec::CodecError>>(())).unwrap()
}

pub fn decode(plan: &Plan<()>, bytes: &[u8]) -> Result<Value, Malformed> {
    Ok(match plan {
        Plan::Ascii => Value::Text(types::ascii::decode(bytes)?.to_owned()),
        Plan::Text => Value::Text(types::text::decode(bytes)?.to_owned()),
        Plan::TinyInt => Value::Integer(types::tinyint::decode(bytes)?.into()),
        Plan::SmallInt => Value::Integer(types::smallint::decode(bytes)?.into()),
        Plan::Int => Value::Integer(types::int::decode(bytes)?.into()),
        Plan::BigInt => Value::Integer(types::bigint::decode(bytes)?),
        Plan::Counter => Value::Integer(types::counter::decode(bytes)?),
        Plan::VarInt => {
            let value = types::varint::decode(bytes)?;
            // `decode_i128` must return the same number if the number fits 128 bits.
            if let Some(small) = types::varint::decode_i128(bytes)? {
                assert_eq!(value, BigInt::from(small));
            }
            Value::VarInt(value)
        }
        Plan::Float => Value::Float(types::float::decode(bytes)?.to_bits()),
        Plan::Double => Value::Double(types::double::decode(bytes)?.to_bits()),
        Plan::Decimal => Value::Decimal(types::decimal::decode(bytes)?),
        Plan::Boolean => Value::Boolean(types::boolean::decode(bytes)?),
        Plan::Blob | Plan::Custom(_) => Value::Bytes(types::blob::decode(bytes).to_vec()),
        Plan::Uuid => Value::Uuid(types::uuid::decode(bytes)?),
        Plan::TimeUuid => Value::Uuid(types::timeuuid::decode(bytes)?),
        Plan::Inet => Value::Inet(types::inet::decode(bytes)?),
        Plan::Date => Value::Integer(types::date::decode(bytes)?.into()),
        Plan::Time => Value::Integer(types::time::decode(bytes)?),
        Plan::Timestamp => Value::Integer(types::timestamp::decode(bytes)?),
        Plan::Duration => Value::Duration(types::duration::decode(bytes)?),
        Plan::List(element) => decode_elements(element, types::list::decode(bytes)?)?,
        Plan::Set(element) => decode_elements(element, types::set::decode(bytes)?)?,
        Plan::Map(entry) => {
            let mut cells = types::map::decode(bytes)?;
            let mut entries = Vec::with_capacity(cells.count());
            for _ in 0..cells.count() {
                let key = decode_cell(&entry.0, cells.next_value()?)?;
                entries.push((key, decode_cell(&entry.1, cells.next_value()?)?));
            }
            cells.finish()?;
            Value::Map(entries)
        }
        Plan::Tuple(components) => {
            let mut cells = types::tuple::decode(bytes);
            let parts = decode_components(components, &mut cells)?;
            cells.finish()?;
            Value::Tuple(parts)
        }
        // Fields after those of the plan are ignored. A value has such fields if they were added to
        // the type after the plan was made.
        Plan::Udt(udt) => {
            Value::Tuple(decode_components(&udt.fields, &mut types::udt::decode(bytes))?)
        }
        Plan::Vector(vector) => {
            let mut cells = types::vector::decode(bytes, vector.dimension, vector.width)?;
            let parts = (0..vector.dimension)
                .map(|_| decode(&vector.element, cells.next_value()?))
                .collect::<Result<_, _>>()?;
            cells.finish()?;
            Value::Vector(parts)
        }
        Plan::Composite(components) => {
            let mut cells = types::composite::decode(bytes);
            let mut parts = Vec::new();
            for component in components {
                let Some(cell) = cells.next_value()? else { break };
                parts.push(decode(component, cell)?);
            }
            cells.finish()?;
            Value::Composite(parts)
        }
    })
}

fn decode_cell(plan: &Plan<()>, cell: Option<&[u8]>) -> Result<Option<Value>, Malformed> {
    cell.map(|bytes| decode(plan, bytes)).transpose()
}

fn decode_elements(
    element: &Plan<()>,
    mut cells: types::list::Elements<'_>,
) -> Result<Value, Malformed> {
    let parts = (0..cells.count())
        .map(|_| decode_cell(element, cells.next_value()?))
        .collect::<Result<_, _>>()?;
    cells.finish()?;
    Ok(Value::List(parts))
}

fn decode_components(
    components: &[Plan<()>],
    cells: &mut types::tuple::Components<'_>,
) -> Result<Vec<Option<Value>>, Malformed> {
    components.iter().map(|component| decode_cell(component, cells.next_value()?)).collect()
}

pub fn encode(plan: &Plan<()>, value: &Value, out: &mut Vec<u8>) -> Result<(), Malformed> {
    match (plan, value) {
        (Plan::Ascii, Value::Text(text)) => types::ascii::encode(text, out)?,
        (Plan::Text, Value::Text(text)) => types::text::encode(text, out),
        (Plan::TinyInt, Value::Integer(n)) => types::tinyint::encode(narrow(*n), out),
        (Plan::SmallInt, Value::Integer(n)) => types::smallint::encode(narrow(*n), out),
        (Plan::Int, Value::Integer(n)) => types::int::encode(narrow(*n), out),
        (Plan::BigInt, Value::Integer(n)) => types::bigint::encode(*n, out),
        (Plan::Counter, Value::Integer(n)) => types::counter::encode(*n, out),
        (Plan::VarInt, Value::VarInt(n)) => types::varint::encode(n, out),
        (Plan::Float, Value::Float(bits)) => types::float::encode(f32::from_bits(*bits), out),
        (Plan::Double, Value::Double(bits)) => types::double::encode(f64::from_bits(*bits), out),
        (Plan::Decimal, Value::Decimal(parts)) => {
            let digits: Vec<u8> = parts.digits.bytes().map(|digit| digit - b'0').collect();
            types::decimal::encode(parts.negative, &digits, parts.scale, out)?;
        }
        (Plan::Boolean, Value::Boolean(boolean)) => types::boolean::encode(*boolean, out),
        (Plan::Blob | Plan::Custom(_), Value::Bytes(bytes)) => types::blob::encode(bytes, out),
        (Plan::Uuid, Value::Uuid(uuid)) => types::uuid::encode(uuid, out),
        (Plan::TimeUuid, Value::Uuid(uuid)) => types::timeuuid::encode(uuid, out)?,
        (Plan::Inet, Value::Inet(address)) => types::inet::encode(*address, out),
        (Plan::Date, Value::Integer(days)) => types::date::encode(narrow(*days), out),
        (Plan::Time, Value::Integer(nanoseconds)) => types::time::encode(*nanoseconds, out)?,
        (Plan::Timestamp, Value::Integer(ms)) => types::timestamp::encode(*ms, out),
        (Plan::Duration, Value::Duration(duration)) => types::duration::encode(*duration, out)?,
        (Plan::List(element) | Plan::Set(element), Value::List(parts)) => {
            let start = types::list::begin(out);
            for part in parts {
                encode_cell(element, part.as_ref(), out)?;
            }
            types::list::end(out, start, parts.len())?;
        }
        (Plan::Map(entry), Value::Map(entries)) => {
            let start = types::map::begin(out);
            for (key, part) in entries {
                encode_cell(&entry.0, key.as_ref(), out)?;
                encode_cell(&entry.1, part.as_ref(), out)?;
            }
            types::map::end(out, start, entries.len())?;
        }
        (Plan::Tuple(components), Value::Tuple(parts)) => {
            encode_components(components, parts, out)?;
        }
        (Plan::Udt(udt), Value::Tuple(parts)) => encode_components(&udt.fields, parts, out)?,
        (Plan::Vector(vector), Value::Vector(parts)) => {
            assert_eq!(parts.len(), vector.dimension);
            for part in parts {
                if let Some(width) = vector.width {
                    let start = out.len();
                    encode(&vector.element, part, out)?;
                    assert_eq!(out.len() - start, width);
                } else {
                    let mut sized = Vec::new();
                    encode(&vector.element, part, &mut sized)?;
                    types::vector::put_sized(&sized, out);
                }
            }
        }
        (Plan::Composite(components), Value::Composite(parts)) => {
            assert!(parts.len() <= components.len());
            for (component, part) in components.iter().zip(parts) {
                let start = types::composite::begin(out);
                encode(component, part, out)?;
                types::composite::end(out, start)?;
            }
        }
        (plan, value) => panic!("{value:?} is no value of {}", plan.cql_type()),
    }
    Ok(())
}

fn narrow<T: TryFrom<i64, Error: std::fmt::Debug>>(number: i64) -> T {
    number.try_into().unwrap()
}

fn encode_cell(plan: &Plan<()>, value: Option<&Value>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let Some(value) = value else {
        wire::put_i32(out, wire::NULL);
        return Ok(());
    };
    let start = wire::begin_value(out);
    encode(plan, value, out)?;
    wire::end_value(out, start)
}

fn encode_components(
    components: &[Plan<()>],
    parts: &[Option<Value>],
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    assert_eq!(components.len(), parts.len());
    for (component, part) in components.iter().zip(parts) {
        encode_cell(component, part.as_ref(), out)?;
    }
    Ok(())
}

pub fn encoded(plan: &Plan<()>, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    encode(plan, value, &mut out).unwrap();
    out
}
