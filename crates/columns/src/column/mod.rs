//! A column that is filled cell by cell.

pub mod cells;
pub mod nested;

use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, Time64NanosecondType, TimestampMillisecondType,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, StructArray,
};
use arrow_buffer::{BooleanBufferBuilder, IntervalMonthDayNano};
use arrow_schema::DataType;
use turbocql_codec::{CodecError, CqlType, Malformed, types};

use crate::column::cells::{Bytes, Cells, Nulls, Numbers};
use crate::column::nested::{Lists, Maps, Structs, Vectors};
use crate::schema::{self, Decimal, Duration, Profile, Texts, Time, Uuids, Varint, data_type};
use crate::text;

/// A result whose error has the path to the element or field that it concerns. The error is boxed,
/// so that the `Result` is small.
pub type Outcome<T> = Result<T, Box<CodecError>>;

/// Makes the error for bytes that are not a value of `cql_type`, or for a value that does not fit
/// the Arrow type which the user chose.
pub fn refused(cql_type: &CqlType, malformed: Malformed) -> Box<CodecError> {
    // A value from the server is never out of the range of its CQL type. So `Malformed::Range`
    // means that the user chose an Arrow type that is too narrow.
    if let Malformed::Range(reason) = malformed {
        let reason = format!("{cql_type} does not fit the type of its ColumnTypes: {reason}");
        return CodecError::new(cql_type, reason).beyond_range();
    }
    CodecError::new(cql_type, format!("malformed {cql_type}: {malformed}"))
}

/// The buffers of a column that is being filled.
pub enum Builder {
    Int8(Numbers<Int8Type>),
    Int16(Numbers<Int16Type>),
    Int32(Numbers<Int32Type>),
    Int64(Numbers<Int64Type>),
    Float32(Numbers<Float32Type>),
    Float64(Numbers<Float64Type>),
    Date(Numbers<Date32Type>),
    Time(Numbers<Time64NanosecondType>),
    Timestamp(Numbers<TimestampMillisecondType>),
    Interval(Numbers<IntervalMonthDayNanoType>),
    Decimal128 { numbers: Numbers<Decimal128Type>, precision: u8, scale: i8 },
    Boolean { values: BooleanBufferBuilder, nulls: Nulls },
    Text(Bytes),
    Binary(Bytes),
    Uuid { values: Vec<u8>, nulls: Nulls },
    Duration { months: Vec<i32>, days: Vec<i32>, nanoseconds: Vec<i64>, nulls: Nulls },
    List(Box<Lists>),
    Map(Box<Maps>),
    Struct(Structs),
    Vector(Box<Vectors>),
}

/// A column that is being filled, and the types of its cells.
pub struct Filling {
    pub cql_type: CqlType,
    data_type: DataType,
    builder: Builder,
}

impl Filling {
    pub fn new(cql_type: &CqlType, profile: Profile) -> Filling {
        let cql_type = cql_type.thawed().clone();
        let builder = match &cql_type {
            CqlType::Ascii | CqlType::Text => match profile.text {
                Texts::Text => Builder::Text(Bytes::new(None, true)),
                Texts::Binary => Builder::Binary(Bytes::new(None, true)),
            },
            CqlType::Blob | CqlType::Custom(_) | CqlType::Composite(_) => {
                Builder::Binary(Bytes::new(None, true))
            }
            CqlType::Inet => Builder::Text(Bytes::new(Some(text::inet), false)),
            CqlType::TinyInt => Builder::Int8(Numbers::new(types::tinyint::decode)),
            CqlType::SmallInt => Builder::Int16(Numbers::new(types::smallint::decode)),
            CqlType::Int => Builder::Int32(Numbers::new(types::int::decode)),
            CqlType::BigInt | CqlType::Counter => {
                Builder::Int64(Numbers::new(types::bigint::decode))
            }
            CqlType::VarInt => match profile.varint {
                Varint::Text => Builder::Text(Bytes::new(Some(text::varint), false)),
                Varint::Int64 => Builder::Int64(Numbers::new(narrow)),
            },
            CqlType::Float => Builder::Float32(Numbers::new(types::float::decode)),
            CqlType::Double => Builder::Float64(Numbers::new(types::double::decode)),
            CqlType::Decimal => match profile.decimal {
                Decimal::Text => Builder::Text(Bytes::new(Some(text::decimal), false)),
                Decimal::Decimal128(precision, scale) => {
                    let numbers = Numbers::new(|_| Ok(0));
                    Builder::Decimal128 { numbers, precision, scale }
                }
            },
            CqlType::Boolean => {
                Builder::Boolean { values: BooleanBufferBuilder::new(0), nulls: Nulls::new() }
            }
            CqlType::Uuid | CqlType::TimeUuid => match profile.uuid {
                Uuids::Uuid => Builder::Uuid { values: Vec::new(), nulls: Nulls::new() },
                Uuids::Text => Builder::Text(Bytes::new(Some(text::uuid), false)),
            },
            CqlType::Date => Builder::Date(Numbers::new(types::date::decode)),
            CqlType::Time => match profile.time {
                Time::Time64 => Builder::Time(Numbers::new(types::time::decode)),
                Time::Int64 => Builder::Int64(Numbers::new(types::time::decode)),
            },
            CqlType::Timestamp => Builder::Timestamp(Numbers::new(types::timestamp::decode)),
            CqlType::Duration => match profile.duration {
                Duration::Struct => Builder::Duration {
                    months: Vec::new(),
                    days: Vec::new(),
                    nanoseconds: Vec::new(),
                    nulls: Nulls::new(),
                },
                Duration::Interval => Builder::Interval(Numbers::new(interval)),
            },
            CqlType::List(element) | CqlType::Set(element) => {
                Builder::List(Box::new(Lists::new(element, profile)))
            }
            CqlType::Map(key, value) => Builder::Map(Box::new(Maps::new(key, value, profile))),
            CqlType::Tuple(parts) => Builder::Struct(Structs::new(parts.iter(), profile)),
            CqlType::Udt(udt) => {
                Builder::Struct(Structs::new(udt.fields.iter().map(|(_, part)| part), profile))
            }
            CqlType::Vector(element, dimension) => {
                Builder::Vector(Box::new(Vectors::new(element, *dimension, profile)))
            }
            CqlType::Frozen(inner) => return Filling::new(inner, profile),
        };
        Filling { data_type: data_type(&cql_type, profile), cql_type, builder }
    }

    /// Reserves memory for `cells` cells, which have at most `bytes` bytes together.
    pub fn reserve(&mut self, cells: usize, bytes: usize) {
        match &mut self.builder {
            Builder::Int8(numbers) => numbers.values.reserve(cells),
            Builder::Int16(numbers) => numbers.values.reserve(cells),
            Builder::Int32(numbers) => numbers.values.reserve(cells),
            Builder::Int64(numbers) => numbers.values.reserve(cells),
            Builder::Float32(numbers) => numbers.values.reserve(cells),
            Builder::Float64(numbers) => numbers.values.reserve(cells),
            Builder::Date(numbers) => numbers.values.reserve(cells),
            Builder::Time(numbers) => numbers.values.reserve(cells),
            Builder::Timestamp(numbers) => numbers.values.reserve(cells),
            Builder::Interval(numbers) => numbers.values.reserve(cells),
            Builder::Decimal128 { numbers, .. } => numbers.values.reserve(cells),
            Builder::Text(texts) | Builder::Binary(texts) => texts.offsets.reserve(cells),
            Builder::Uuid { values, .. } => values.reserve(cells.saturating_mul(16).min(bytes)),
            Builder::Vector(vectors) => vectors.reserve(cells, bytes),
            Builder::Boolean { .. }
            | Builder::Duration { .. }
            | Builder::List(_)
            | Builder::Map(_)
            | Builder::Struct(_) => {}
        }
    }

    /// Appends cells.
    ///
    /// # Errors
    /// If a cell cannot be read, returns its index in `cells` and the reason.
    pub fn extend(&mut self, cells: &Cells<'_>) -> Result<(), (usize, Box<CodecError>)> {
        let extended = match &mut self.builder {
            Builder::Int16(numbers) => numbers.extend(cells, i16::from_be_bytes),
            Builder::Int32(numbers) => numbers.extend(cells, i32::from_be_bytes),
            Builder::Int64(numbers) if !matches!(self.cql_type, CqlType::VarInt) => {
                numbers.extend(cells, i64::from_be_bytes)
            }
            Builder::Float32(numbers) => numbers.extend(cells, f32::from_be_bytes),
            Builder::Float64(numbers) => numbers.extend(cells, f64::from_be_bytes),
            Builder::Timestamp(numbers) => numbers.extend(cells, i64::from_be_bytes),
            Builder::Boolean { values, nulls } if cells.have_length(1) => {
                cells.fixed().for_each(|[byte]| values.append(byte != 0));
                nulls.push_valid(cells.spans.len());
                Ok(())
            }
            Builder::Text(texts) | Builder::Binary(texts) => texts.extend(cells),
            Builder::Int8(_)
            | Builder::Int64(_)
            | Builder::Date(_)
            | Builder::Time(_)
            | Builder::Interval(_)
            | Builder::Decimal128 { .. }
            | Builder::Boolean { .. }
            | Builder::Uuid { .. }
            | Builder::Duration { .. }
            | Builder::List(_)
            | Builder::Map(_)
            | Builder::Struct(_)
            | Builder::Vector(_) => {
                for (row, cell) in cells.iter().enumerate() {
                    self.push(cell).map_err(|error| (row, error))?;
                }
                Ok(())
            }
        };
        extended.map_err(|(row, error)| (row, refused(&self.cql_type, error)))
    }

    /// Appends a cell.
    pub fn push(&mut self, cell: Option<&[u8]>) -> Outcome<()> {
        let scalar = match &mut self.builder {
            Builder::Int8(numbers) => numbers.push(cell),
            Builder::Int16(numbers) => numbers.push(cell),
            Builder::Int32(numbers) => numbers.push(cell),
            Builder::Int64(numbers) => numbers.push(cell),
            Builder::Float32(numbers) => numbers.push(cell),
            Builder::Float64(numbers) => numbers.push(cell),
            Builder::Date(numbers) => numbers.push(cell),
            Builder::Time(numbers) => numbers.push(cell),
            Builder::Timestamp(numbers) => numbers.push(cell),
            Builder::Interval(numbers) => numbers.push(cell),
            Builder::Decimal128 { numbers, precision, scale } => {
                let cell = cell.filter(|bytes| !bytes.is_empty());
                let value = cell.map_or(Ok(0), |decimal_bytes| {
                    text::rescaled(decimal_bytes, *precision, *scale)
                });
                value.map(|value| {
                    numbers.values.push(value);
                    numbers.nulls.push(cell.is_some());
                })
            }
            Builder::Boolean { values, nulls } => {
                let cell = cell.filter(|bytes| !bytes.is_empty());
                cell.map_or(Ok(false), types::boolean::decode).map(|value| {
                    values.append(value);
                    nulls.push(cell.is_some());
                })
            }
            Builder::Text(texts) | Builder::Binary(texts) => texts.push(cell),
            Builder::Uuid { values, nulls } => {
                let cell = cell.filter(|bytes| !bytes.is_empty());
                cell.map_or(Ok([0; 16]), types::uuid::decode).map(|value| {
                    values.extend_from_slice(&value);
                    nulls.push(cell.is_some());
                })
            }
            Builder::Duration { months, days, nanoseconds, nulls } => {
                let cell = cell.filter(|bytes| !bytes.is_empty());
                cell.map_or(Ok(Default::default()), types::duration::decode).map(|value| {
                    months.push(value.months);
                    days.push(value.days);
                    nanoseconds.push(value.nanoseconds);
                    nulls.push(cell.is_some());
                })
            }
            Builder::List(lists) => return lists.push(cell, &self.cql_type),
            Builder::Map(maps) => return maps.push(cell, &self.cql_type),
            Builder::Struct(structs) => return structs.push(cell, &self.cql_type),
            Builder::Vector(vectors) => return vectors.push(cell, &self.cql_type),
        };
        scalar.map_err(|error| refused(&self.cql_type, error))
    }

    /// Appends all elements of a vector at once. `bytes` has the elements without lengths. Returns
    /// false and appends nothing if elements of this type must be appended one by one.
    pub fn extend_bare(&mut self, bytes: &[u8]) -> bool {
        match &mut self.builder {
            Builder::Int32(numbers) => numbers.extend_bare(bytes, i32::from_be_bytes),
            Builder::Int64(numbers) if matches!(self.cql_type, CqlType::BigInt) => {
                numbers.extend_bare(bytes, i64::from_be_bytes);
            }
            Builder::Float32(numbers) => numbers.extend_bare(bytes, f32::from_be_bytes),
            Builder::Float64(numbers) => numbers.extend_bare(bytes, f64::from_be_bytes),
            Builder::Timestamp(numbers) => numbers.extend_bare(bytes, i64::from_be_bytes),
            Builder::Int8(_)
            | Builder::Int16(_)
            | Builder::Int64(_)
            | Builder::Date(_)
            | Builder::Time(_)
            | Builder::Interval(_)
            | Builder::Decimal128 { .. }
            | Builder::Boolean { .. }
            | Builder::Text(_)
            | Builder::Binary(_)
            | Builder::Uuid { .. }
            | Builder::Duration { .. }
            | Builder::List(_)
            | Builder::Map(_)
            | Builder::Struct(_)
            | Builder::Vector(_) => return false,
        }
        true
    }

    /// Returns the column that was filled, and begins an empty one.
    pub fn finish(&mut self) -> Outcome<ArrayRef> {
        let data_type = &self.data_type;
        Ok(match &mut self.builder {
            Builder::Int8(numbers) => numbers.finish(data_type),
            Builder::Int16(numbers) => numbers.finish(data_type),
            Builder::Int32(numbers) => numbers.finish(data_type),
            Builder::Int64(numbers) => numbers.finish(data_type),
            Builder::Float32(numbers) => numbers.finish(data_type),
            Builder::Float64(numbers) => numbers.finish(data_type),
            Builder::Date(numbers) => numbers.finish(data_type),
            Builder::Time(numbers) => numbers.finish(data_type),
            Builder::Timestamp(numbers) => numbers.finish(data_type),
            Builder::Interval(numbers) => numbers.finish(data_type),
            Builder::Decimal128 { numbers, .. } => numbers.finish(data_type),
            Builder::Boolean { values, nulls } => {
                Arc::new(BooleanArray::new(values.finish(), nulls.finish()))
            }
            Builder::Text(texts) => texts.finish_text(&self.cql_type)?,
            Builder::Binary(bytes) => {
                let (offsets, data, nulls) = bytes.take();
                Arc::new(BinaryArray::new(offsets, data.into(), nulls))
            }
            Builder::Uuid { values, nulls } => {
                let values = std::mem::take(values);
                Arc::new(FixedSizeBinaryArray::new(16, values.into(), nulls.finish()))
            }
            Builder::Duration { months, days, nanoseconds, nulls } => {
                let parts: Vec<ArrayRef> = vec![
                    Arc::new(PrimitiveArray::<Int32Type>::from(std::mem::take(months))),
                    Arc::new(PrimitiveArray::<Int32Type>::from(std::mem::take(days))),
                    Arc::new(PrimitiveArray::<Int64Type>::from(std::mem::take(nanoseconds))),
                ];
                Arc::new(StructArray::new(schema::duration(), parts, nulls.finish()))
            }
            Builder::List(lists) => lists.finish(data_type)?,
            Builder::Map(maps) => maps.finish(data_type)?,
            Builder::Struct(structs) => structs.finish(data_type)?,
            Builder::Vector(vectors) => vectors.finish(data_type)?,
        })
    }
}

/// Decodes a `varint`. A number that does not fit 64 bits is an error.
fn narrow(bytes: &[u8]) -> Result<i64, Malformed> {
    const BEYOND: Malformed = Malformed::Range("the number is beyond 64 bits");
    let wide = types::varint::decode_i128(bytes)?.ok_or(BEYOND)?;
    i64::try_from(wide).map_err(|_| BEYOND)
}

fn interval(bytes: &[u8]) -> Result<IntervalMonthDayNano, Malformed> {
    let types::duration::Duration { months, days, nanoseconds } = types::duration::decode(bytes)?;
    Ok(IntervalMonthDayNano::new(months, days, nanoseconds))
}
