//! Decides which Arrow type each CQL type becomes.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::extension::{
    EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY, ExtensionType, FixedShapeTensor, Uuid,
};
use arrow_schema::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit};
use turbocql_codec::{Column, CqlType};

/// The key in a field's metadata for the field's CQL type, as CQL text.
pub const CQL_TYPE: &str = "cql_type";

/// The choice of Arrow types, for CQL types that can become one of several Arrow types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    pub decimal: Decimal,
    pub varint: Varint,
    pub duration: Duration,
    pub uuid: Uuids,
    pub time: Time,
    pub text: Texts,
    /// Whether vectors of numbers have the extension type `arrow.fixed_shape_tensor`.
    pub tensors: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decimal {
    #[default]
    Text,
    /// `decimal128` of this precision and scale.
    Decimal128(u8, i8),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Varint {
    #[default]
    Text,
    Int64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duration {
    /// A struct of `months`, `days` and `nanoseconds`.
    #[default]
    Struct,
    /// Arrow's interval of months, days and nanoseconds.
    Interval,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uuids {
    /// 16 bytes, with the extension type `arrow.uuid`.
    #[default]
    Uuid,
    Text,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Time {
    /// `time64` in nanoseconds.
    #[default]
    Time64,
    /// Nanoseconds since midnight.
    Int64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Texts {
    #[default]
    Text,
    /// Bytes, which need not be UTF-8.
    Binary,
}

impl Profile {
    /// The profile that loses nothing.
    pub const LOSSLESS: Profile = Profile {
        decimal: Decimal::Text,
        varint: Varint::Text,
        duration: Duration::Struct,
        uuid: Uuids::Uuid,
        time: Time::Time64,
        text: Texts::Text,
        tensors: false,
    };
}

/// Returns the schema of rows with these columns.
pub fn schema(columns: &[Column], profile: Profile) -> Schema {
    let fields: Fields =
        columns.iter().map(|column| field(&column.name, &column.cql_type, profile)).collect();
    Schema::new(fields)
}

/// Makes a nullable field. Its metadata has the CQL type as text.
pub fn field(name: &str, cql_type: &CqlType, profile: Profile) -> Field {
    let field = Field::new(name, data_type(cql_type, profile), true);
    let metadata = HashMap::from([(CQL_TYPE.to_owned(), cql_type.to_string())]);
    let mut field = field.with_metadata(metadata);
    let cql_type = cql_type.thawed();
    if matches!(cql_type, CqlType::Uuid | CqlType::TimeUuid) && profile.uuid == Uuids::Uuid {
        field.try_with_extension_type(Uuid).expect("16 bytes are a UUID");
    }
    if profile.tensors
        && let CqlType::Vector(element, dimension) = cql_type
        && is_number(element)
    {
        // The metadata is written directly, because arrow-schema allows this extension type only
        // for elements without metadata.
        let metadata = field.metadata_mut();
        let shape = format!("{{\"shape\":[{dimension}]}}");
        metadata.insert(EXTENSION_TYPE_NAME_KEY.to_owned(), FixedShapeTensor::NAME.to_owned());
        metadata.insert(EXTENSION_TYPE_METADATA_KEY.to_owned(), shape);
    }
    field
}

fn is_number(cql_type: &CqlType) -> bool {
    matches!(
        cql_type.thawed(),
        CqlType::Float
            | CqlType::Double
            | CqlType::Int
            | CqlType::BigInt
            | CqlType::SmallInt
            | CqlType::TinyInt
    )
}

/// Makes the field for the entries of a map. The keys are never null.
pub fn entries(key: &CqlType, value: &CqlType, profile: Profile) -> Field {
    let key = field("key", key, profile).with_nullable(false);
    let fields = Fields::from(vec![key, field("value", value, profile)]);
    Field::new("entries", DataType::Struct(fields), false)
}

/// Makes the fields of the Arrow struct that holds a tuple or a value of a user-defined type.
/// Returns `None` for other types.
pub fn parts(cql_type: &CqlType, profile: Profile) -> Option<Fields> {
    let numbered = |types: &[CqlType]| {
        let parts = types.iter().enumerate();
        parts.map(|(number, part)| field(&number.to_string(), part, profile)).collect()
    };
    match cql_type.thawed() {
        CqlType::Tuple(types) => Some(numbered(types)),
        CqlType::Udt(udt) => {
            Some(udt.fields.iter().map(|(name, part)| field(name, part, profile)).collect())
        }
        CqlType::Ascii
        | CqlType::Text
        | CqlType::TinyInt
        | CqlType::SmallInt
        | CqlType::Int
        | CqlType::BigInt
        | CqlType::Counter
        | CqlType::VarInt
        | CqlType::Float
        | CqlType::Double
        | CqlType::Decimal
        | CqlType::Boolean
        | CqlType::Blob
        | CqlType::Uuid
        | CqlType::TimeUuid
        | CqlType::Inet
        | CqlType::Date
        | CqlType::Time
        | CqlType::Timestamp
        | CqlType::Duration
        | CqlType::List(_)
        | CqlType::Set(_)
        | CqlType::Map(..)
        | CqlType::Vector(..)
        | CqlType::Composite(_)
        | CqlType::Frozen(_)
        | CqlType::Custom(_) => None,
    }
}

/// Makes the fields of the Arrow struct that holds a duration.
pub fn duration() -> Fields {
    Fields::from(vec![
        Field::new("months", DataType::Int32, false),
        Field::new("days", DataType::Int32, false),
        Field::new("nanoseconds", DataType::Int64, false),
    ])
}

pub fn data_type(cql_type: &CqlType, profile: Profile) -> DataType {
    match cql_type {
        CqlType::Ascii | CqlType::Text => match profile.text {
            Texts::Text => DataType::Utf8,
            Texts::Binary => DataType::Binary,
        },
        CqlType::Inet => DataType::Utf8,
        CqlType::TinyInt => DataType::Int8,
        CqlType::SmallInt => DataType::Int16,
        CqlType::Int => DataType::Int32,
        CqlType::BigInt | CqlType::Counter => DataType::Int64,
        CqlType::VarInt => match profile.varint {
            Varint::Text => DataType::Utf8,
            Varint::Int64 => DataType::Int64,
        },
        CqlType::Float => DataType::Float32,
        CqlType::Double => DataType::Float64,
        CqlType::Decimal => match profile.decimal {
            Decimal::Text => DataType::Utf8,
            Decimal::Decimal128(precision, scale) => DataType::Decimal128(precision, scale),
        },
        CqlType::Boolean => DataType::Boolean,
        CqlType::Blob | CqlType::Custom(_) | CqlType::Composite(_) => DataType::Binary,
        CqlType::Uuid | CqlType::TimeUuid => match profile.uuid {
            Uuids::Uuid => DataType::FixedSizeBinary(16),
            Uuids::Text => DataType::Utf8,
        },
        CqlType::Date => DataType::Date32,
        CqlType::Time => match profile.time {
            Time::Time64 => DataType::Time64(TimeUnit::Nanosecond),
            Time::Int64 => DataType::Int64,
        },
        CqlType::Timestamp => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        CqlType::Duration => match profile.duration {
            Duration::Struct => DataType::Struct(duration()),
            Duration::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        },
        CqlType::List(element) | CqlType::Set(element) => {
            DataType::List(Arc::new(field("item", element, profile)))
        }
        CqlType::Map(key, value) => DataType::Map(Arc::new(entries(key, value, profile)), false),
        CqlType::Tuple(_) | CqlType::Udt(_) => {
            DataType::Struct(parts(cql_type, profile).unwrap_or_default())
        }
        CqlType::Vector(element, dimension) => {
            // Arrow has 31 bits for this size. No server allows vectors of more elements than 31
            // bits can count.
            let size = i32::try_from(*dimension).unwrap_or(i32::MAX);
            DataType::FixedSizeList(Arc::new(field("item", element, profile)), size)
        }
        CqlType::Frozen(inner) => data_type(inner, profile),
    }
}
