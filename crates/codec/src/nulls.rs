//! Finds nulls inside collections. Servers refuse such nulls in most places.
//!
//! The codec encodes a null element as a length of -1, at every depth. Cassandra accepts null
//! elements in one place only: in a frozen list that is the whole value of a column. A field of a
//! tuple or of a user-defined type may be null.

use crate::cql_type::CqlType;
use crate::error::CodecError;
use crate::path::Segment;
use crate::types::{list, vector};
use crate::wire::Reader;

type NullError = Option<Box<CodecError>>;

/// Whether a value of the type can contain a null that servers refuse. If the type is a list,
/// `takes_nulls` says whether its elements may be null. For other types, `takes_nulls` has no
/// effect.
pub fn can_have(cql_type: &CqlType, takes_nulls: bool) -> bool {
    match cql_type.thawed() {
        CqlType::List(element) => !takes_nulls || can_have(element, false),
        CqlType::Set(_) | CqlType::Map(..) => true,
        CqlType::Vector(element, _) => can_have(element, false),
        CqlType::Tuple(parts) => parts.iter().any(|part| can_have(part, false)),
        CqlType::Udt(udt) => udt.fields.iter().any(|(_, part)| can_have(part, false)),
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
        | CqlType::Composite(_)
        | CqlType::Frozen(_)
        | CqlType::Custom(_) => false,
    }
}

/// Looks for nulls that servers refuse in an encoded value. Returns an error with the place of the
/// first such null. Returns `None` if there is no such null, or if the bytes are not a value of the
/// type.
pub fn first(cql_type: &CqlType, bytes: &[u8], takes_nulls: bool) -> NullError {
    match cql_type.thawed() {
        CqlType::List(element) => {
            first_null_in_elements(element, bytes, takes_nulls, "an element of a list")
        }
        CqlType::Set(element) => {
            first_null_in_elements(element, bytes, false, "an element of a set")
        }
        CqlType::Map(key, value) => first_null_in_map(key, value, bytes),
        CqlType::Vector(element, dimension) if can_have(element, false) => {
            let width = vector::element_width(element);
            let mut elements = vector::decode(bytes, *dimension as usize, width).ok()?;
            (0..*dimension as usize).find_map(|number| {
                let part = elements.next_value().ok()?;
                Some(first(element, part, false)?.at(Segment::Index(number)))
            })
        }
        CqlType::Tuple(parts) => {
            let parts = parts.iter().enumerate();
            first_null_in_fields(parts.map(|(number, part)| (Segment::Index(number), part)), bytes)
        }
        CqlType::Udt(udt) => {
            let fields = udt.fields.iter();
            first_null_in_fields(
                fields.map(|(name, part)| (Segment::Field(name.clone()), part)),
                bytes,
            )
        }
        CqlType::Vector(..)
        | CqlType::Ascii
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
        | CqlType::Composite(_)
        | CqlType::Frozen(_)
        | CqlType::Custom(_) => None,
    }
}

fn refused(cql_type: &CqlType, role: &str) -> Box<CodecError> {
    let reason = format!(
        "expected {cql_type}, got a null, which {role} cannot be (a value of no bytes is read as \
         null, too)"
    );
    CodecError::new(cql_type, reason)
}

fn first_null_in_elements(
    element: &CqlType,
    bytes: &[u8],
    takes_nulls: bool,
    role: &str,
) -> NullError {
    let (mut elements, nests) = (list::decode(bytes).ok()?, can_have(element, false));
    for number in 0..elements.count() {
        let error = match elements.next_value().ok()? {
            None if !takes_nulls => Some(refused(element, role)),
            Some(part) if nests => first(element, part, false),
            None | Some(_) => None,
        };
        if let Some(error) = error {
            return Some(error.at(Segment::Index(number)));
        }
    }
    None
}

fn first_null_in_map(key: &CqlType, value: &CqlType, bytes: &[u8]) -> NullError {
    let mut entries = list::Elements::new(bytes, 2).ok()?;
    for number in 0..entries.count() {
        let (key_bytes, value_bytes) = (entries.next_value().ok()?, entries.next_value().ok()?);
        let Some(key_bytes) = key_bytes else {
            return Some(refused(key, "a key of a map").at(Segment::MapKey(number)));
        };
        if let Some(error) = first(key, key_bytes, false) {
            return Some(error.at(Segment::MapKey(number)));
        }
        let null_error = match value_bytes {
            None => Some(refused(value, "a value of a map")),
            Some(part) => first(value, part, false),
        };
        if let Some(error) = null_error {
            return Some(error.at(Segment::MapValue(shown(key, key_bytes))));
        }
    }
    None
}

fn first_null_in_fields<'a>(
    parts: impl Iterator<Item = (Segment, &'a CqlType)>,
    bytes: &[u8],
) -> NullError {
    let mut reader = Reader::new(bytes);
    for (segment, part) in parts {
        // A value that was written before fields were added to its type ends without these fields.
        if reader.is_empty() {
            return None;
        }
        let value = reader.value().ok()?;
        if let Some(error) = value.and_then(|value| first(part, value, false)) {
            return Some(error.at(segment));
        }
    }
    None
}

/// Describes the key of a map's entry, for the path of an error.
fn shown(key: &CqlType, bytes: &[u8]) -> String {
    let kind = key.thawed();
    if matches!(kind, CqlType::Ascii | CqlType::Text) {
        return format!("'{}'", String::from_utf8_lossy(bytes));
    }
    let is_whole =
        matches!(kind, CqlType::TinyInt | CqlType::SmallInt | CqlType::Int | CqlType::BigInt);
    if is_whole && (1..=8).contains(&bytes.len()) {
        let sign = if bytes[0] & 0x80 == 0 { 0 } else { 0xff };
        let mut wide = [sign; 8];
        wide[8 - bytes.len()..].copy_from_slice(bytes);
        return i64::from_be_bytes(wide).to_string();
    }
    let digits: String = bytes.iter().take(32).map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cql_type::UdtType;
    use crate::wire;

    fn list_of(parts: &[Option<&[u8]>]) -> Vec<u8> {
        let mut out = (parts.len() as i32).to_be_bytes().to_vec();
        out.extend(values(parts));
        out
    }

    fn values(parts: &[Option<&[u8]>]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in parts {
            match part {
                Some(part) => wire::put_value(&mut out, part),
                None => wire::put_i32(&mut out, wire::NULL),
            }
        }
        out
    }

    fn path(cql_type: &CqlType, bytes: &[u8], takes_nulls: bool) -> Option<String> {
        first(cql_type, bytes, takes_nulls)
            .map(|error| error.at(Segment::Column("c".into())).path.to_string())
    }

    #[test]
    fn only_lists_that_are_frozen_columns_may_have_nulls() {
        let list = CqlType::List(Box::new(CqlType::Int));
        let bytes = list_of(&[Some(&[0, 0, 0, 1]), None]);
        assert_eq!(path(&list, &bytes, false).unwrap(), "column \"c\"[1]");
        assert_eq!(path(&list, &bytes, true), None);
        let nested = CqlType::Frozen(Box::new(CqlType::List(Box::new(list))));
        let bytes = list_of(&[None, Some(&bytes)]);
        assert_eq!(path(&nested, &bytes, true).unwrap(), "column \"c\"[1][1]");
        assert!(can_have(&nested, true));
    }

    #[test]
    fn nulls_are_found_in_each_collection() {
        let set = CqlType::Set(Box::new(CqlType::Text));
        assert_eq!(path(&set, &list_of(&[None]), true).unwrap(), "column \"c\"[0]");
        let map = CqlType::Map(Box::new(CqlType::Text), Box::new(CqlType::Timestamp));
        let bytes = list_of(&[Some(b"a"), Some(&[0; 8]), Some(b"b"), None]);
        let bytes = [&2i32.to_be_bytes()[..], &bytes[4..]].concat();
        assert_eq!(path(&map, &bytes, true).unwrap(), "column \"c\"['b']");
        let bytes = [&1i32.to_be_bytes()[..], &values(&[None, Some(b"")])].concat();
        assert!(path(&map, &bytes, true).is_some());
        let small = CqlType::Map(Box::new(CqlType::Int), Box::new(CqlType::Int));
        let bytes = [&1i32.to_be_bytes()[..], &values(&[Some(&[0xff; 4]), None])].concat();
        assert_eq!(path(&small, &bytes, true).unwrap(), "column \"c\"[-1]");
    }

    #[test]
    fn fields_may_be_null_but_elements_inside_fields_may_not() {
        let list = CqlType::List(Box::new(CqlType::Int));
        let bytes = list_of(&[None]);
        let fields = vec![("n".to_owned(), CqlType::Int), ("l".to_owned(), list.clone())];
        let (keyspace, name) = ("ks".to_owned(), "u".to_owned());
        let udt = CqlType::Udt(Arc::new(UdtType { keyspace, name, fields }));
        assert_eq!(path(&udt, &values(&[None]), true), None);
        assert_eq!(path(&udt, &values(&[None, Some(&bytes)]), true).unwrap(), "column \"c\".l[0]");
        let tuple = CqlType::Tuple(vec![CqlType::Int, list]);
        assert_eq!(
            path(&tuple, &values(&[None, Some(&bytes)]), true).unwrap(),
            "column \"c\"[1][0]"
        );
    }

    #[test]
    fn bytes_that_are_not_a_value_have_no_nulls() {
        let list = CqlType::List(Box::new(CqlType::Int));
        for bytes in [&[][..], &[0xff; 4], &[0, 0, 0, 9], &[0, 0, 0, 1, 0, 0, 0, 9]] {
            assert_eq!(path(&list, bytes, false), None);
        }
    }
}
