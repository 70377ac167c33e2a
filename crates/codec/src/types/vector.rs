//! `vector`: as many elements as its dimension says. The elements of some types of fixed width (see
//! [`element_width`]) are written one after another, without lengths. Elements of all other types
//! are written as `[unsigned vint length][bytes]`. An element cannot be null.

pub use crate::cql_type::element_width::element_width;
use crate::error::Malformed;
use crate::wire::{self, Reader};

/// Returns the reason why an index on a vector column refuses a vector of floats, or `None` if the
/// index accepts the vector. `is_cosine` is true for an index that compares vectors by their angle.
pub fn refused_by_index(bytes: &[u8], is_cosine: bool) -> Option<&'static str> {
    let numbers = bytes.chunks_exact(4).filter_map(|four| four.try_into().ok());
    // The sum is a 32-bit float, because servers compute with 32-bit floats too.
    let squares: f32 = numbers.map(|four| f32::from_be_bytes(four).powi(2)).sum();
    match squares {
        _ if squares.is_nan() => Some("one with NaN"),
        _ if squares.is_infinite() => Some("one whose norm is infinite as a 32-bit float"),
        _ if squares == 0.0 && is_cosine => Some("one of zeros, which has no direction"),
        _ => None,
    }
}

/// Appends an element with its length.
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

    /// Fails if bytes are left after the last element.
    pub fn finish(self) -> Result<(), Malformed> {
        self.reader.finish()
    }
}

/// Returns the elements. Each element has `width` bytes. If `width` is `None`, the length of each
/// element is written before it.
///
/// Bytes that cannot hold `dimension` elements are refused, so a caller may allocate memory for
/// `dimension` elements afterwards.
pub fn decode(
    bytes: &[u8],
    dimension: usize,
    width: Option<usize>,
) -> Result<Elements<'_>, Malformed> {
    // The number of bytes in a vector of nested vectors can be too large for a `usize`.
    match width.map(|width| width.saturating_mul(dimension)) {
        // If elements had zero bytes, the size of `bytes` would not limit their number.
        // `CqlType::check` refuses vectors of such elements too.
        Some(0) if dimension > 0 => Err(Malformed::Invalid("elements of no bytes")),
        Some(size) if size != bytes.len() => Err(Malformed::Length(size, bytes.len())),
        None if dimension > bytes.len() => Err(Malformed::Short(dimension, bytes.len())),
        _ => Ok(Elements { reader: Reader::new(bytes), width }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cql_type::CqlType;
    use crate::types;

    #[test]
    fn widths_of_elements_are_those_of_their_types() {
        for (cql_type, width) in [
            (CqlType::Int, types::int::WIDTH),
            (CqlType::BigInt, types::bigint::WIDTH),
            (CqlType::Float, types::float::WIDTH),
            (CqlType::Double, types::double::WIDTH),
            (CqlType::Boolean, types::boolean::WIDTH),
            (CqlType::Uuid, types::uuid::WIDTH),
            (CqlType::TimeUuid, types::uuid::WIDTH),
            (CqlType::Timestamp, types::timestamp::WIDTH),
        ] {
            assert_eq!(element_width(&cql_type), Some(width), "{cql_type}");
        }
    }

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
