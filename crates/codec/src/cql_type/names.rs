//! The names of the built-in types in CQL.

use crate::cql_type::CqlType;

pub(crate) const GENERIC: [&str; 6] = ["list", "set", "map", "tuple", "vector", "frozen"];

/// Whether a name without quotes is read as a built-in type.
pub fn is_keyword(name: &str) -> bool {
    GENERIC.contains(&name) || simple(name).is_some()
}

/// Returns the scalar type of this name.
pub(crate) fn simple(name: &str) -> Option<CqlType> {
    Some(match name {
        "ascii" => CqlType::Ascii,
        "text" | "varchar" => CqlType::Text,
        "tinyint" => CqlType::TinyInt,
        "smallint" => CqlType::SmallInt,
        "int" => CqlType::Int,
        "bigint" => CqlType::BigInt,
        "counter" => CqlType::Counter,
        "varint" => CqlType::VarInt,
        "float" => CqlType::Float,
        "double" => CqlType::Double,
        "decimal" => CqlType::Decimal,
        "boolean" => CqlType::Boolean,
        "blob" => CqlType::Blob,
        "uuid" => CqlType::Uuid,
        "timeuuid" => CqlType::TimeUuid,
        "inet" => CqlType::Inet,
        "date" => CqlType::Date,
        "time" => CqlType::Time,
        "timestamp" => CqlType::Timestamp,
        "duration" => CqlType::Duration,
        _ => return None,
    })
}
