//! `list`: a 32-bit count, then each element as `[int length][bytes]`; a null element has
//! length -1.

use crate::error::Malformed;
use crate::wire::{self, Reader};

/// Leaves room for the count. Returns the position of the count, for [`end`].
#[inline]
pub fn begin(out: &mut Vec<u8>) -> usize {
    wire::begin_value(out)
}

/// Writes the count at `start`, the position that [`begin`] returned.
pub fn end(out: &mut [u8], start: usize, count: usize) -> Result<(), Malformed> {
    let count = i32::try_from(count)
        .map_err(|_| Malformed::Invalid("more elements than a 32-bit count holds"))?;
    out[start..start + 4].copy_from_slice(&count.to_be_bytes());
    Ok(())
}

/// The elements of an encoded list, set, or map (whose keys and values alternate).
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    reader: Reader<'a>,
    count: usize,
}

impl<'a> Elements<'a> {
    /// Reads the count, which is the number of groups of `per_group` values each.
    ///
    /// A negative count, or a count that the bytes cannot hold, is refused before memory is
    /// allocated for it.
    pub fn new(bytes: &'a [u8], per_group: usize) -> Result<Elements<'a>, Malformed> {
        let mut reader = Reader::new(bytes);
        let count = reader.i32()?;
        let room = reader.remaining() / (4 * per_group);
        match usize::try_from(count) {
            Ok(groups) if groups <= room => Ok(Elements { reader, count: groups }),
            _ => Err(Malformed::Count(count, bytes.len())),
        }
    }

    /// Returns the number of groups: elements of a list or set, entries of a map.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Reads the next value; `None` for a null.
    #[inline]
    pub fn next_value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        self.reader.value()
    }

    /// Fails if bytes are left after the last value.
    pub fn finish(self) -> Result<(), Malformed> {
        self.reader.finish()
    }
}

pub fn decode(bytes: &[u8]) -> Result<Elements<'_>, Malformed> {
    Elements::new(bytes, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_two_billion_in_twenty_bytes_is_refused() {
        let mut bytes = [0u8; 20];
        bytes[..4].copy_from_slice(&i32::MAX.to_be_bytes());
        assert_eq!(decode(&bytes).unwrap_err(), Malformed::Count(i32::MAX, 20));
        bytes[..4].copy_from_slice(&(-1i32).to_be_bytes());
        assert_eq!(decode(&bytes).unwrap_err(), Malformed::Count(-1, 20));
    }
}
