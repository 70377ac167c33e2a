//! Decides which Arrow types can be written to which CQL types. Only conversions that lose nothing
//! are allowed, with one exception: the caller may allow that times are truncated to the precision
//! of the CQL type.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, IntervalDayTimeType, IntervalMonthDayNanoType,
    IntervalYearMonthType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType, Field};
use turbocql_codec::CqlType;
use turbocql_codec::types::vector;

use crate::bytes_in::{Indexed, ListOffsets, Slices};
use crate::column::Outcome;
use crate::numbers_in::{Decimals, Floats, Integers};
use crate::schema::CQL_TYPE;
use crate::source::{Dropped, Durations, Kind, Scale, Source};
use crate::unfit::Unfit;

const SECONDS_PER_DAY: i64 = 86_400;

/// What the values of a bind marker are used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The values are written to a column.
    Column,
    /// The time to live of a row, in seconds.
    Life,
    /// The write time of a row, in microseconds since 1970.
    WriteTime,
}

/// Makes the source of a bind marker's cells from an array. `cql_type` is the type of the marker.
///
/// # Errors
/// If the conversion from the array's type to the CQL type could lose something.
pub fn source(
    cql_type: &CqlType,
    purpose: Purpose,
    field: &Field,
    array: &ArrayRef,
    dropped: Dropped,
) -> Outcome<Source> {
    let fitting = Fitting { dropped };
    let source = match purpose {
        Purpose::Column => fitting.source(cql_type, field, array),
        Purpose::Life => fitting.life(cql_type, field, array),
        Purpose::WriteTime => fitting.write_time(cql_type, field, array),
    };
    source.map_err(|unfit| unfit.error(cql_type, field))
}

struct Fitting {
    dropped: Dropped,
}

impl Fitting {
    fn source(&self, cql_type: &CqlType, field: &Field, array: &ArrayRef) -> Result<Source, Unfit> {
        let cql_type = cql_type.thawed();
        let unfit = || Unfit::array(cql_type, field.data_type());
        let cql_type_name = field.metadata().get(CQL_TYPE);
        if let Some(cql_type_name) = cql_type_name
            && !goes_into(kind_of(cql_type_name), cql_type.kind(), field.data_type())
        {
            return Err(Unfit::meaning(cql_type, format!("values of {cql_type_name}")));
        }
        let extension = field.metadata().get(EXTENSION_TYPE_NAME_KEY);
        if let Some(name) = extension.filter(|name| !EXTENSIONS.contains(&name.as_str())) {
            return Err(Unfit::meaning(cql_type, format!("the extension type {name}")));
        }
        if let Some(Indexed { index, nulls, values }) = Indexed::of(array.as_ref()) {
            let plain = Field::new(field.name(), values.data_type().clone(), true);
            let values = self.source(cql_type, &plain, &values)?;
            let kind = Kind::Indexed(index, Box::new(values));
            return Ok(Source { cql_type: cql_type.clone(), nulls, kind });
        }
        // If the metadata of a field of bytes names a text type, the bytes were read with
        // `ColumnTypes(text="binary")`. They are sent unchanged; the server checks that they are
        // valid text.
        let is_text = matches!(cql_type, CqlType::Text | CqlType::Ascii);
        if let Some(bytes) = Slices::bytes(array).filter(|_| is_text && cql_type_name.is_some()) {
            let (cql_type, nulls) = (cql_type.clone(), array.nulls().cloned());
            return Ok(Source { cql_type, nulls, kind: Kind::Blob(bytes) });
        }
        let kind = match array.data_type() == &DataType::Null {
            true => Kind::Null,
            false => self.kind(cql_type, array)?.ok_or_else(unfit)?,
        };
        Ok(Source { cql_type: cql_type.clone(), nulls: array.nulls().cloned(), kind })
    }

    /// Returns how cells of the CQL type are made from the array; `None` if the array does not fit.
    fn kind(&self, cql_type: &CqlType, array: &ArrayRef) -> Result<Option<Kind>, Unfit> {
        let integer = |width: usize| {
            let integers = Integers::of(array)?;
            (integers.width() <= width).then_some(Kind::Integer(integers, width))
        };
        Ok(match cql_type {
            CqlType::TinyInt => integer(1),
            CqlType::SmallInt => integer(2),
            CqlType::Int => integer(4),
            CqlType::BigInt | CqlType::Counter => integer(8),
            CqlType::VarInt => Decimals::of(array).filter(Decimals::are_whole).map(Kind::Varint),
            CqlType::Decimal => Decimals::of(array).map(Kind::Decimal),
            CqlType::Float => Floats::of(array, 24).map(Kind::Float),
            CqlType::Double => Floats::of(array, 53).map(Kind::Double),
            CqlType::Boolean => {
                array.as_boolean_opt().map(|array| Kind::Boolean(array.values().clone()))
            }
            CqlType::Text => Slices::text(array).map(Kind::Text),
            CqlType::Ascii => Slices::text(array).map(Kind::Ascii),
            CqlType::Blob | CqlType::Custom(_) | CqlType::Composite(_) => {
                Slices::bytes(array).map(Kind::Blob)
            }
            CqlType::Uuid => uuids(array, false),
            CqlType::TimeUuid => uuids(array, true),
            CqlType::Inet => {
                let text = Slices::text(array).map(|bytes| Kind::Inet { bytes, is_text: true });
                text.or_else(|| {
                    Slices::bytes(array).map(|bytes| Kind::Inet { bytes, is_text: false })
                })
            }
            CqlType::Date => {
                let days = array.as_primitive_opt::<Date32Type>();
                let days = days.map(|array| Kind::Date(array.values().clone()));
                days.or_else(|| {
                    if let Some(array) = array.as_primitive_opt::<Date64Type>() {
                        return Some(Kind::DateOf(array.values().clone(), SECONDS_PER_DAY * 1000));
                    }
                    let (times, per_second) = instants(array)?;
                    Some(Kind::DateOf(times, SECONDS_PER_DAY * per_second))
                })
            }
            CqlType::Time => {
                let times = times(array).or_else(|| elapsed(array));
                let times = times.or_else(|| match Integers::of(array)? {
                    integers @ Integers::Int64(_) => Some((integers, 1)),
                    Integers::Int8(_)
                    | Integers::Int16(_)
                    | Integers::Int32(_)
                    | Integers::UInt8(_)
                    | Integers::UInt16(_)
                    | Integers::UInt32(_) => None,
                });
                times.map(|(values, unit)| Kind::Time(values, unit))
            }
            CqlType::Timestamp => {
                let days = array.as_primitive_opt::<Date32Type>();
                let days = days.map(|array| Integers::Int32(array.values().clone()));
                let days =
                    days.map(|days| Kind::Instant(days, Scale::Times(SECONDS_PER_DAY * 1000)));
                days.or_else(|| {
                    let (values, per_second) = instants(array)?;
                    Some(Kind::Instant(Integers::Int64(values), self.scale(per_second, 1000)))
                })
            }
            CqlType::Duration => return self.durations(array),
            CqlType::List(element) | CqlType::Set(element) => {
                let Some((offsets, elements)) = ListOffsets::of(array) else { return Ok(None) };
                let elements = self.source(element, &element_of(array), &elements)?;
                Some(Kind::List(offsets, Box::new(elements)))
            }
            CqlType::Map(key, value) => {
                let Some((offsets, entries)) = entries_of(array) else { return Ok(None) };
                if entries.num_columns() != 2 {
                    return Ok(None);
                }
                // In a list of structs, the fields `key` and `value` may be in either order.
                let is_turned =
                    entries.fields()[0].name() == "value" && entries.fields()[1].name() == "key";
                let [of_key, of_value] = if is_turned { [1, 0] } else { [0, 1] };
                let key = self.source(key, &entries.fields()[of_key], entries.column(of_key))?;
                let field = &entries.fields()[of_value];
                let value = self.source(value, field, entries.column(of_value))?;
                Some(Kind::Map(offsets, Box::new((key, value))))
            }
            CqlType::Tuple(types) => {
                let Some(array) = array.as_struct_opt() else { return Ok(None) };
                if array.num_columns() != types.len() {
                    return Ok(None);
                }
                let parts = types.iter().zip(array.fields().iter().zip(array.columns()));
                let parts = parts.map(|(part, (field, array))| self.source(part, field, array));
                Some(Kind::Tuple(parts.collect::<Result<_, _>>()?))
            }
            CqlType::Udt(udt) => {
                let Some(array) = array.as_struct_opt() else { return Ok(None) };
                let names: Vec<&str> = udt.fields.iter().map(|(name, _)| name.as_str()).collect();
                let field_names: Vec<&str> =
                    array.fields().iter().map(|field| field.name().as_str()).collect();
                let is_known = |name: &&str| {
                    names.contains(name)
                        && field_names.iter().filter(|field_name| field_name == &name).count() == 1
                };
                if field_names.is_empty() != names.is_empty() || !field_names.iter().all(is_known) {
                    return Ok(None);
                }
                let fields = udt.fields.iter().map(|(name, part)| {
                    let index = field_names.iter().position(|field_name| field_name == name);
                    index
                        .map(|index| self.source(part, &array.fields()[index], array.column(index)))
                        .transpose()
                });
                Some(Kind::Udt(udt.clone(), fields.collect::<Result<_, _>>()?))
            }
            CqlType::Vector(element, dimension) => {
                let Some((offsets, elements)) = ListOffsets::of(array) else { return Ok(None) };
                let dimension = *dimension as usize;
                if matches!(offsets, ListOffsets::Fixed(size) if size != dimension) {
                    return Ok(None);
                }
                let width = vector::element_width(element);
                let elements = self.source(element, &element_of(array), &elements)?;
                Some(Kind::Vector { offsets, elements: Box::new(elements), dimension, width })
            }
            CqlType::Frozen(inner) => return self.kind(inner, array),
        })
    }

    fn durations(&self, array: &ArrayRef) -> Result<Option<Kind>, Unfit> {
        if let Some(array) = array.as_struct_opt() {
            let part = |name: &str, cql_type: &CqlType| {
                let position = array.fields().iter().position(|field| field.name() == name);
                let index = position.filter(|_| array.num_columns() == 3)?;
                self.source(cql_type, &array.fields()[index], array.column(index)).ok()
            };
            let months = part("months", &CqlType::Int);
            let days = part("days", &CqlType::Int);
            let nanoseconds = part("nanoseconds", &CqlType::BigInt);
            let (Some(months), Some(days), Some(nanoseconds)) = (months, days, nanoseconds) else {
                return Ok(None);
            };
            let parts = Box::new([months, days, nanoseconds]);
            return Ok(Some(Kind::Duration(Durations::Parts(parts))));
        }
        let durations = if let Some(array) = array.as_primitive_opt::<IntervalMonthDayNanoType>() {
            Some(Durations::MonthDayNano(array.clone()))
        } else if let Some(array) = array.as_primitive_opt::<IntervalDayTimeType>() {
            Some(Durations::DayTime(array.clone()))
        } else if let Some(array) = array.as_primitive_opt::<IntervalYearMonthType>() {
            Some(Durations::Months(array.values().clone()))
        } else {
            elapsed(array).map(|(values, unit)| Durations::Elapsed(values, unit))
        };
        Ok(durations.map(Kind::Duration))
    }

    fn life(&self, cql_type: &CqlType, field: &Field, array: &ArrayRef) -> Result<Source, Unfit> {
        let Some(seconds) = Integers::of(array) else {
            return self.source(cql_type, field, array);
        };
        let (cql_type, nulls) = (cql_type.clone(), array.nulls().cloned());
        Ok(Source { cql_type, nulls, kind: Kind::Seconds(seconds) })
    }

    fn write_time(
        &self,
        cql_type: &CqlType,
        field: &Field,
        array: &ArrayRef,
    ) -> Result<Source, Unfit> {
        let Some((values, per_second)) = instants(array) else {
            return self.source(cql_type, field, array);
        };
        let scale = self.scale(per_second, 1_000_000);
        let kind = Kind::Instant(Integers::Int64(values), scale);
        Ok(Source { cql_type: cql_type.clone(), nulls: array.nulls().cloned(), kind })
    }

    fn scale(&self, from: i64, to: i64) -> Scale {
        if from <= to { Scale::Times(to / from) } else { Scale::Over(from / to, self.dropped) }
    }
}

fn uuids(array: &ArrayRef, is_time: bool) -> Option<Kind> {
    if let Some(bytes) = Slices::text(array) {
        return Some(Kind::Uuid { bytes, is_text: true, is_time });
    }
    let bytes = Slices::bytes(array)?;
    let fits = array.as_fixed_size_binary_opt().is_none_or(|array| array.value_length() == 16);
    fits.then_some(Kind::Uuid { bytes, is_text: false, is_time })
}

/// Returns an array's timestamps, and the number of their units in a second.
fn instants(array: &ArrayRef) -> Option<(ScalarBuffer<i64>, i64)> {
    if let Some(array) = array.as_primitive_opt::<TimestampMillisecondType>() {
        return Some((array.values().clone(), 1000));
    }
    if let Some(array) = array.as_primitive_opt::<TimestampMicrosecondType>() {
        return Some((array.values().clone(), 1_000_000));
    }
    if let Some(array) = array.as_primitive_opt::<TimestampNanosecondType>() {
        return Some((array.values().clone(), 1_000_000_000));
    }
    let array = array.as_primitive_opt::<TimestampSecondType>()?;
    Some((array.values().clone(), 1))
}

/// Returns an array's times of day, and the length of their unit in nanoseconds.
fn times(array: &ArrayRef) -> Option<(Integers, i64)> {
    if let Some(array) = array.as_primitive_opt::<Time64NanosecondType>() {
        return Some((Integers::Int64(array.values().clone()), 1));
    }
    if let Some(array) = array.as_primitive_opt::<Time64MicrosecondType>() {
        return Some((Integers::Int64(array.values().clone()), 1000));
    }
    if let Some(array) = array.as_primitive_opt::<Time32MillisecondType>() {
        return Some((Integers::Int32(array.values().clone()), 1_000_000));
    }
    let array = array.as_primitive_opt::<Time32SecondType>()?;
    Some((Integers::Int32(array.values().clone()), 1_000_000_000))
}

/// Returns an array's elapsed times, and the length of their unit in nanoseconds.
fn elapsed(array: &ArrayRef) -> Option<(Integers, i64)> {
    if let Some(array) = array.as_primitive_opt::<DurationNanosecondType>() {
        return Some((Integers::Int64(array.values().clone()), 1));
    }
    if let Some(array) = array.as_primitive_opt::<DurationMicrosecondType>() {
        return Some((Integers::Int64(array.values().clone()), 1000));
    }
    if let Some(array) = array.as_primitive_opt::<DurationMillisecondType>() {
        return Some((Integers::Int64(array.values().clone()), 1_000_000));
    }
    let array = array.as_primitive_opt::<DurationSecondType>()?;
    Some((Integers::Int64(array.values().clone()), 1_000_000_000))
}

/// Returns the offsets and the entries of an array of maps, or of an array of lists of structs;
/// `None` for other arrays. Arrow libraries that have no maps convert maps to such lists.
fn entries_of(array: &ArrayRef) -> Option<(ListOffsets, StructArray)> {
    if let Some(array) = array.as_map_opt() {
        return Some((ListOffsets::Small(array.offsets().clone()), array.entries().clone()));
    }
    let (offsets, elements) = ListOffsets::of(array)?;
    let entries = elements.as_struct_opt().filter(|entries| entries.null_count() == 0)?;
    Some((offsets, entries.clone()))
}

/// Returns the field of a list array's elements.
fn element_of(array: &ArrayRef) -> Arc<Field> {
    if let DataType::List(field)
    | DataType::LargeList(field)
    | DataType::ListView(field)
    | DataType::LargeListView(field)
    | DataType::FixedSizeList(field, _) = array.data_type()
    {
        return Arc::clone(field);
    }
    Arc::new(Field::new("item", DataType::Null, true))
}

const NUMBERS: [&str; 9] =
    ["tinyint", "smallint", "int", "bigint", "counter", "varint", "decimal", "float", "double"];
const KINDS: [&str; 16] = [
    "ascii",
    "text",
    "boolean",
    "blob",
    "uuid",
    "timeuuid",
    "inet",
    "date",
    "time",
    "timestamp",
    "duration",
    "list",
    "set",
    "map",
    "tuple",
    "vector",
];

/// Returns the kind ([`CqlType::kind`]) of the CQL type that a field's metadata names.
fn kind_of(cql_type_name: &str) -> &str {
    let mut unwrapped = cql_type_name.trim();
    while let Some(inner) = unwrapped.strip_prefix("frozen<") {
        unwrapped = inner;
    }
    let word = unwrapped.split(['<', '>']).next().unwrap_or(unwrapped);
    if word == "varchar" {
        return "text";
    }
    let is_known = NUMBERS.contains(&word) || KINDS.contains(&word);
    if word.starts_with('\'') || word.contains('.') && !is_known {
        return "custom";
    }
    if is_known { word } else { "udt" }
}

/// The extension types whose stored values can be written as they are. Values of other extension
/// types can have a meaning that the stored values lack: a period, for example, is stored as a
/// plain number.
const EXTENSIONS: [&str; 3] = ["arrow.uuid", "arrow.json", "arrow.fixed_shape_tensor"];

/// Whether values of one kind of CQL type may be written to columns of another kind. Arrow types
/// are not enough to decide this: in Arrow, a decimal may be a text, and a set is a list.
fn goes_into(from: &str, to: &str, data_type: &DataType) -> bool {
    let is_text = matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    from == to
        || (NUMBERS.contains(&from) && NUMBERS.contains(&to) && !is_text)
        || matches!(
            (from, to),
            ("varint", "decimal")
                | ("ascii", "text")
                | ("text", "ascii")
                | ("uuid", "timeuuid")
                | ("timeuuid", "uuid")
                | ("custom" | "blob" | "composite", "custom" | "blob" | "composite" | "udt")
                | ("udt", "custom" | "composite")
        )
}
