//! `vector`: exactly as many elements as the dimension says. Elements of a type of fixed width
//! stand bare, one after another; all others as `[unsigned vint length][bytes]`. No element is
//! null.

use crate::cql_type::CqlType;
use crate::error::Malformed;
use crate::types;
use crate::wire::{self, Reader};

/// Bytes of an element that stands bare, or `None` for one that carries its length.
///
/// The server decides by `AbstractType.valueLengthIfFixed`, so the short integers, `date` and
/// `time`, though of one width, carry a length.
pub fn element_width(element: &CqlType) -> Option<usize> {
    match element {
        CqlType::Int => Some(types::int::WIDTH),
        CqlType::BigInt => Some(types::bigint::WIDTH),
        CqlType::Float => Some(types::float::WIDTH),
        CqlType::Double => Some(types::double::WIDTH),
        CqlType::Boolean => Some(types::boolean::WIDTH),
        CqlType::Uuid | CqlType::TimeUuid => Some(types::uuid::WIDTH),
        CqlType::Timestamp => Some(types::timestamp::WIDTH),
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

/// Appends an element that carries its length.
pub fn put_sized(element: &[u8], out: &mut Vec<u8>) {
    wire::put_unsigned_vint(out, element.len() as u64);
    out.extend_from_slice(element);
}

/// The elements of an encoded vector.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    reader: Reader<'a>,
    width: Option<usize>,
}

impl<'a> Elements<'a> {
    #[inline]
    pub fn next_value(&mut self) -> Result<&'a [u8], Malformed> {
        let length = match self.width {
            Some(width) => width,
            None => usize::try_from(self.reader.unsigned_vint()?)
                .map_err(|_| Malformed::Invalid("an element longer than memory"))?,
        };
        self.reader.take(length)
    }

    /// Fails when bytes are left after the last element.
    pub fn finish(self) -> Result<(), Malformed> {
        self.reader.finish()
    }
}

/// Elements of `width` bytes each, or of their own lengths.
///
/// A vector that could not hold `dimension` elements is refused before anybody allocates for it.
pub fn decode(
    bytes: &[u8],
    dimension: usize,
    width: Option<usize>,
) -> Result<Elements<'_>, Malformed> {
    // Vectors of vectors of vectors can be wider than any memory.
    match width.map(|width| width.saturating_mul(dimension)) {
        // Types like this are refused before; of no bytes could any number be read.
        Some(0) if dimension > 0 => Err(Malformed::Invalid("elements of no bytes")),
        Some(size) if size != bytes.len() => Err(Malformed::Length(size, bytes.len())),
        None if dimension > bytes.len() => Err(Malformed::Short(dimension, bytes.len())),
        _ => Ok(Elements { reader: Reader::new(bytes), width }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_and_sized_elements() {
        let mut bare = decode(&[0, 1, 2, 3], 2, Some(2)).unwrap();
        assert_eq!(bare.next_value(), Ok(&[0, 1][..]));
        assert_eq!(bare.next_value(), Ok(&[2, 3][..]));
        assert!(decode(&[0; 3], 2, Some(2)).is_err());
        let mut out = Vec::new();
        put_sized(b"", &mut out);
        put_sized(&[7; 200], &mut out);
        let mut sized = decode(&out, 2, None).unwrap();
        assert_eq!(sized.next_value(), Ok(&b""[..]));
        assert_eq!(sized.next_value(), Ok(&[7; 200][..]));
        assert_eq!(sized.finish(), Ok(()));
    }
}
