//! Decides whether the elements of a vector are written without lengths. This depends on the type
//! of the elements.

use crate::cql_type::CqlType;

/// Returns the size in bytes of an element that is written without its length, or `None` if
/// elements of this type are written with their lengths.
///
/// The server decides by its Java method `AbstractType.valueLengthIfFixed`, which reports no fixed
/// length for `tinyint`, `smallint`, `date` and `time`. So elements of these types are written with
/// lengths, although their width is fixed.
pub fn element_width(element: &CqlType) -> Option<usize> {
    match element {
        CqlType::Int => Some(4),
        CqlType::BigInt => Some(8),
        CqlType::Float => Some(4),
        CqlType::Double => Some(8),
        CqlType::Boolean => Some(1),
        CqlType::Uuid | CqlType::TimeUuid => Some(16),
        CqlType::Timestamp => Some(8),
        CqlType::Vector(inner, dimension) => {
            element_width(inner).map(|width| width.saturating_mul(*dimension as usize))
        }
        CqlType::Frozen(inner) => element_width(inner),
        CqlType::Ascii
        | CqlType::Text
        | CqlType::TinyInt
        | CqlType::SmallInt
        | CqlType::Counter
        | CqlType::VarInt
        | CqlType::Decimal
        | CqlType::Blob
        | CqlType::Inet
        | CqlType::Date
        | CqlType::Time
        | CqlType::Duration
        | CqlType::List(_)
        | CqlType::Set(_)
        | CqlType::Map(..)
        | CqlType::Tuple(_)
        | CqlType::Composite(_)
        | CqlType::Udt(_)
        | CqlType::Custom(_) => None,
    }
}
