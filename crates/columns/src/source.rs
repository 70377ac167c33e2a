//! Encodes the values of Arrow arrays as cells of a CQL type.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::PrimitiveArray;
use arrow_array::types::IntervalMonthDayNanoType;
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use turbocql_codec::types::{boolean, date, duration, list, time, timeuuid, uuid, vector};
use turbocql_codec::{Cell, CodecError, CqlType, Malformed, RowBuffer, Segment, UdtType, wire};

use crate::bytes_in::{ListOffsets, Slices};
use crate::column::Outcome;
use crate::numbers_in::{Decimals, Floats, Integers};
use crate::parse;

/// Memory for values above this size is reserved with `try_reserve`, which never aborts.
const LONG: usize = 1 << 20;

/// An array, and the CQL type of the cells that are made from its values.
pub struct Source {
    pub cql_type: CqlType,
    pub nulls: Option<NullBuffer>,
    pub kind: Kind,
}

/// Cells that were encoded before the batch was bound, one for each row.
#[derive(Debug, Default)]
pub struct Encoded {
    pub cells: RowBuffer,
    /// The errors for cells that could not be encoded, by row.
    pub refused: HashMap<usize, Box<CodecError>>,
}

/// A conversion from one unit of time to another.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    Times(i64),
    /// Divides by the number. A remainder is dropped or refused.
    Over(i64, Dropped),
}

/// Whether the excess precision of a time is dropped (`Yes`), or the time is refused (`No`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    No,
    Yes,
}

pub enum Kind {
    Null,
    /// Integers, and the size in bytes of the CQL type.
    Integer(Integers, usize),
    /// Numbers of seconds, as integers of any width. Each is written in four bytes.
    Seconds(Integers),
    Varint(Decimals),
    Decimal(Decimals),
    Float(Floats),
    Double(Floats),
    Boolean(BooleanBuffer),
    Text(Slices),
    Ascii(Slices),
    Blob(Slices),
    Uuid {
        bytes: Slices,
        is_text: bool,
        is_time: bool,
    },
    Inet {
        bytes: Slices,
        is_text: bool,
    },
    Date(ScalarBuffer<i32>),
    /// Timestamps, all of which must be at midnight, and the length of a day in their unit.
    DateOf(ScalarBuffer<i64>, i64),
    /// Times of day, and the length of their unit in nanoseconds.
    Time(Integers, i64),
    /// Days or times, and how to convert their unit to the unit of a timestamp or a write time.
    Instant(Integers, Scale),
    Duration(Durations),
    List(ListOffsets, Box<Source>),
    Map(ListOffsets, Box<(Source, Source)>),
    Tuple(Vec<Source>),
    /// A source for each field of the type; `None` for a field that the array lacks.
    Udt(Arc<UdtType>, Vec<Option<Source>>),
    Vector {
        offsets: ListOffsets,
        elements: Box<Source>,
        dimension: usize,
        width: Option<usize>,
    },
    /// For each row, the index of its value in the source.
    Indexed(Vec<usize>, Box<Source>),
    Encoded(Arc<Encoded>),
}

pub enum Durations {
    Parts(Box<[Source; 3]>),
    MonthDayNano(PrimitiveArray<IntervalMonthDayNanoType>),
    /// Arrow's intervals of days and milliseconds.
    DayTime(PrimitiveArray<arrow_array::types::IntervalDayTimeType>),
    Months(ScalarBuffer<i32>),
    /// Elapsed times, and the length of their unit in nanoseconds.
    Elapsed(Integers, i64),
}

/// The error for a time that does not fit the integer type of its column.
const BEYOND: Malformed = Malformed::Range("a number beyond 64 bits");

impl Scale {
    fn apply(self, value: i64) -> Result<i64, Malformed> {
        match self {
            Scale::Times(factor) => value.checked_mul(factor).ok_or(BEYOND),
            Scale::Over(by, dropped) => {
                if dropped == Dropped::No && value % by != 0 {
                    let finer = "a finer time than the column holds, which load drops with truncate_time=True";
                    return Err(Malformed::Range(finer));
                }
                Ok(value.div_euclid(by))
            }
        }
    }
}

impl Durations {
    fn get(&self, row: usize) -> Result<duration::Duration, Malformed> {
        let duration_of =
            |months, days, nanoseconds| duration::Duration { months, days, nanoseconds };
        Ok(match self {
            Durations::Parts(parts) => {
                let mut numbers = [0; 3];
                for (part, number) in parts.iter().zip(&mut numbers) {
                    if part.is_null(row) {
                        return Err(Malformed::Invalid("a duration with a null part"));
                    }
                    *number = part.integer(row).ok_or(Malformed::Invalid("a part of no number"))?;
                }
                let beyond = |_| Malformed::Range("months or days beyond 32 bits");
                let [months, days] = [numbers[0].try_into(), numbers[1].try_into()];
                duration_of(months.map_err(beyond)?, days.map_err(beyond)?, numbers[2])
            }
            Durations::MonthDayNano(array) => {
                let value = array.value(row);
                duration_of(value.months, value.days, value.nanoseconds)
            }
            Durations::DayTime(array) => {
                let value = array.value(row);
                duration_of(0, value.days, i64::from(value.milliseconds) * 1_000_000)
            }
            Durations::Months(values) => duration_of(values[row], 0, 0),
            Durations::Elapsed(values, unit) => {
                duration_of(0, 0, values.get(row).checked_mul(*unit).ok_or(BEYOND)?)
            }
        })
    }
}

fn put_numbers<const N: usize, T: Copy>(values: &[T], out: &mut Vec<u8>, swap: fn(T) -> [u8; N]) {
    let start = out.len();
    out.resize(start + values.len() * N, 0);
    for (target, &value) in out[start..].chunks_exact_mut(N).zip(values) {
        target.copy_from_slice(&swap(value));
    }
}

impl Source {
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        if let Some(nulls) = &self.nulls
            && nulls.is_null(row)
        {
            return true;
        }
        if let Kind::Indexed(index, values) = &self.kind {
            return values.is_null(index[row]);
        }
        if let Kind::Encoded(encoded) = &self.kind {
            return encoded.cell(row) == Some(Cell::Null);
        }
        matches!(self.kind, Kind::Null)
    }

    /// Returns the integer of a row, or `None` if the array does not have integers.
    fn integer(&self, row: usize) -> Option<i64> {
        if let Kind::Integer(integers, _) = &self.kind {
            return Some(integers.get(row));
        }
        if let Kind::Indexed(index, values) = &self.kind {
            return values.integer(index[row]);
        }
        None
    }

    /// Whether a row's cell is unset. An unset cell leaves the stored value as it is.
    pub fn is_unset(&self, row: usize) -> bool {
        let Kind::Encoded(encoded) = &self.kind else { return false };
        encoded.cell(row) == Some(Cell::Unset)
    }

    /// Returns the first row with a null among the first `rows` rows.
    pub fn first_null(&self, rows: usize) -> Option<usize> {
        let may_have = self.nulls.as_ref().is_some_and(|nulls| nulls.null_count() > 0)
            || matches!(self.kind, Kind::Null | Kind::Indexed(..) | Kind::Encoded(_));
        may_have.then(|| (0..rows).find(|&row| self.is_null(row))).flatten()
    }

    fn refused(&self, malformed: Malformed) -> Box<CodecError> {
        let cql_type = &self.cql_type;
        let reason = if let Malformed::Length(bytes, got) = malformed {
            format!("expected {cql_type} of {bytes} bytes, got {got} bytes")
        } else {
            format!("expected {cql_type}, got {malformed}")
        };
        let error = CodecError::new(cql_type, reason);
        if matches!(malformed, Malformed::Range(_)) { error.beyond_range() } else { error }
    }

    /// Appends the length and the bytes of a row's value. For a null, appends only the length
    /// `wire::NULL`.
    pub fn put_cell(&self, row: usize, out: &mut Vec<u8>) -> Outcome<()> {
        if self.is_null(row) {
            wire::put_i32(out, wire::NULL);
            return Ok(());
        }
        let start = wire::begin_value(out);
        self.put(row, out)?;
        wire::end_value(out, start).map_err(|malformed| self.refused(malformed))
    }

    /// Appends the bytes of a row's value, which must not be null.
    pub fn put(&self, row: usize, out: &mut Vec<u8>) -> Outcome<()> {
        self.try_put(row, out).map_err(|why| match why {
            Why::Malformed(malformed) => self.refused(malformed),
            Why::Part(error) => error,
        })
    }

    fn try_put(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Why> {
        match &self.kind {
            // Not reached: the callers have checked that the value is not null.
            Kind::Null => {}
            Kind::Integer(values, width) => {
                out.extend_from_slice(&values.get(row).to_be_bytes()[8 - width..]);
            }
            Kind::Seconds(values) => {
                let beyond = Malformed::Range("a number beyond 32 bits");
                let seconds = i32::try_from(values.get(row)).map_err(|_| beyond)?;
                out.extend_from_slice(&seconds.to_be_bytes());
            }
            Kind::Varint(values) => values.put_varint(row, out)?,
            Kind::Decimal(values) => values.put_decimal(row, out)?,
            Kind::Float(values) => {
                out.extend_from_slice(&values.single(row).to_bits().to_be_bytes());
            }
            Kind::Double(values) => {
                out.extend_from_slice(&values.double(row).to_bits().to_be_bytes());
            }
            Kind::Boolean(values) => boolean::encode(values.value(row), out),
            Kind::Text(texts) | Kind::Blob(texts) => put_bytes(texts.get(row), out)?,
            Kind::Ascii(texts) => {
                let text = texts.get(row);
                if !text.is_ascii() {
                    return Err(Malformed::Invalid("a text with other characters").into());
                }
                put_bytes(text, out)?;
            }
            Kind::Uuid { bytes, is_text, is_time } => {
                let bytes = bytes.get(row);
                let value = match is_text {
                    true => parse::uuid(bytes)?,
                    false => uuid::decode(bytes)?,
                };
                match is_time {
                    true => timeuuid::encode(&value, out)?,
                    false => uuid::encode(&value, out),
                }
            }
            Kind::Inet { bytes, is_text: true } => parse::inet(bytes.get(row), out)?,
            Kind::Inet { bytes, is_text: false } => {
                let bytes = bytes.get(row);
                turbocql_codec::types::inet::decode(bytes)?;
                out.extend_from_slice(bytes);
            }
            Kind::Date(days) => date::encode(days[row], out),
            Kind::DateOf(times, per_day) => {
                let value = times[row];
                if value % per_day != 0 {
                    return Err(Malformed::Invalid("a time that is not midnight in UTC").into());
                }
                let days = i32::try_from(value / per_day).map_err(|_| BEYOND)?;
                date::encode(days, out);
            }
            Kind::Time(values, unit) => {
                time::encode(values.get(row).checked_mul(*unit).ok_or(BEYOND)?, out)?;
            }
            Kind::Instant(values, scale) => {
                out.extend_from_slice(&scale.apply(values.get(row))?.to_be_bytes());
            }
            Kind::Duration(durations) => duration::encode(durations.get(row)?, out)?,
            Kind::List(offsets, elements) => {
                let (first, count) = offsets.get(row);
                let start = list::begin(out);
                for number in 0..count {
                    let at = |error: Box<CodecError>| error.at(Segment::Index(number));
                    elements.put_cell(first + number, out).map_err(at)?;
                }
                list::end(out, start, count)?;
            }
            Kind::Map(offsets, parts) => {
                let (first, count) = offsets.get(row);
                let start = list::begin(out);
                for number in 0..count {
                    let at = |error: Box<CodecError>| error.at(Segment::MapKey(number));
                    if parts.0.is_null(first + number) {
                        let null = Malformed::Invalid("a null, which no key of a map is");
                        return Err(Why::Part(at(parts.0.refused(null))));
                    }
                    parts.0.put_cell(first + number, out).map_err(at)?;
                    parts.1.put_cell(first + number, out).map_err(at)?;
                }
                list::end(out, start, count)?;
            }
            Kind::Tuple(parts) => {
                for (number, part) in parts.iter().enumerate() {
                    let at = |error: Box<CodecError>| error.at(Segment::Index(number));
                    part.put_cell(row, out).map_err(at)?;
                }
            }
            Kind::Udt(udt, fields) => {
                for (field, (name, _)) in fields.iter().zip(udt.fields.iter()) {
                    let Some(field) = field else {
                        wire::put_i32(out, wire::NULL);
                        continue;
                    };
                    let at = |error: Box<CodecError>| error.at(Segment::Field(name.clone()));
                    field.put_cell(row, out).map_err(at)?;
                }
            }
            Kind::Vector { offsets, elements, dimension, width } => {
                let (first, count) = offsets.get(row);
                if count != *dimension {
                    let cql_type = &self.cql_type;
                    let reason = format!("expected {cql_type}, got a vector of {count} elements");
                    return Err(Why::Part(CodecError::new(cql_type, reason)));
                }
                elements.put_vector(first, count, *width, out)?;
            }
            Kind::Indexed(index, values) => return values.try_put(index[row], out),
            Kind::Encoded(encoded) => match encoded.cell(row) {
                Some(Cell::Value(bytes)) => put_bytes(bytes, out)?,
                Some(Cell::Null | Cell::Unset) => {}
                None => return Err(encoded.refusal(row)),
            },
        }
        Ok(())
    }

    /// Appends the elements of a vector: `count` values of this source, from `first` on.
    fn put_vector(
        &self,
        first: usize,
        count: usize,
        width: Option<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), Why> {
        let range = first..first + count;
        let at = |number| move |error: Box<CodecError>| error.at(Segment::Index(number));
        if let Some(null) = range.clone().position(|row| self.is_null(row)) {
            let reason = Malformed::Invalid("a null, which no element of a vector is");
            return Err(Why::Part(at(null)(self.refused(reason))));
        }
        if width.is_some() && self.put_swapped(range.clone(), out) {
            return Ok(());
        }
        if width.is_some() {
            for (number, row) in range.enumerate() {
                self.put(row, out).map_err(at(number))?;
            }
            return Ok(());
        }
        let mut element = Vec::new();
        for (number, row) in range.enumerate() {
            element.clear();
            self.put(row, &mut element).map_err(at(number))?;
            vector::put_sized(&element, out);
        }
        Ok(())
    }

    /// Appends a range of numbers at once. Returns false and appends nothing if values of this kind
    /// must be converted one by one.
    fn put_swapped(&self, range: Range<usize>, out: &mut Vec<u8>) -> bool {
        if let Kind::Float(Floats::Single(values)) = &self.kind {
            put_numbers(&values[range], out, f32::to_be_bytes);
        } else if let Kind::Double(Floats::Double(values)) = &self.kind {
            put_numbers(&values[range], out, f64::to_be_bytes);
        } else if let Kind::Integer(Integers::Int32(values), 4) = &self.kind {
            put_numbers(&values[range], out, i32::to_be_bytes);
        } else if let Kind::Integer(Integers::Int64(values), 8) = &self.kind {
            put_numbers(&values[range], out, i64::to_be_bytes);
        } else {
            return false;
        }
        true
    }
}

impl Encoded {
    fn cell(&self, row: usize) -> Option<Cell<'_>> {
        if self.refused.contains_key(&row) {
            return None;
        }
        self.cells.row(row)?.cells().next()
    }

    fn refusal(&self, row: usize) -> Why {
        match self.refused.get(&row) {
            Some(error) => Why::Part(error.clone()),
            None => Malformed::Invalid("no value").into(),
        }
    }
}

/// The reason why a value cannot be written: an error about the whole value, or an error with the
/// path to the element or field that it concerns.
enum Why {
    Malformed(Malformed),
    Part(Box<CodecError>),
}

impl From<Malformed> for Why {
    fn from(malformed: Malformed) -> Self {
        Why::Malformed(malformed)
    }
}

impl From<Box<CodecError>> for Why {
    fn from(error: Box<CodecError>) -> Self {
        Why::Part(error)
    }
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    if bytes.len() > LONG && out.try_reserve(bytes.len()).is_err() {
        return Err(Malformed::Invalid("a value for which there is no memory"));
    }
    out.extend_from_slice(bytes);
    Ok(())
}
