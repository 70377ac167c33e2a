//! The protocol's integers, values and variable-length integers. All reads check bounds.

use crate::error::Malformed;

/// The length that stands for a null.
pub const NULL: i32 = -1;
/// The length that stands for UNSET, which makes the column keep its value.
pub const UNSET: i32 = -2;

#[inline]
pub fn put_i32(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends `[int length][bytes]`.
///
/// # Panics
/// If the value is longer than `i32::MAX` bytes, which a frame cannot carry.
#[inline]
pub fn put_value(out: &mut Vec<u8>, value: &[u8]) {
    let length = i32::try_from(value.len()).expect("a value longer than a frame");
    out.reserve(4 + value.len());
    put_i32(out, length);
    out.extend_from_slice(value);
}

/// Leaves room for a length. Returns the position of the length, for [`end_value`].
#[inline]
pub fn begin_value(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    start
}

/// Writes the length of the bytes appended since [`begin_value`].
#[inline]
pub fn end_value(out: &mut [u8], start: usize) -> Result<(), Malformed> {
    let length = i32::try_from(out.len() - start - 4)
        .map_err(|_| Malformed::Invalid("the value is longer than 2 GiB"))?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Appends an unsigned variable-length integer. The number of leading 1 bits in the first byte says
/// how many bytes follow.
pub fn put_unsigned_vint(out: &mut Vec<u8>, value: u64) {
    // An encoding of at most eight bytes has seven bits of the value for each byte. An encoding of
    // nine bytes, the longest, has all 64 bits.
    let bits = 64 - (value | 1).leading_zeros() as usize;
    let extra = (bits - 1) / 7;
    let extra = extra.min(8);
    let bytes = value.to_be_bytes();
    if extra == 8 {
        out.push(0xff);
        out.extend_from_slice(&bytes);
    } else {
        let mark = !(0xffu8 >> extra);
        out.push(mark | bytes[7 - extra]);
        out.extend_from_slice(&bytes[8 - extra..]);
    }
}

/// Appends a signed variable-length integer (zig-zag, then unsigned).
pub fn put_vint(out: &mut Vec<u8>, value: i64) {
    put_unsigned_vint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Returns the bytes as an array. Fails if there are not exactly `N` bytes.
#[inline]
pub fn exact<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Malformed> {
    bytes.try_into().map_err(|_| Malformed::Length(N, bytes.len()))
}

/// Reads from the front of a slice and never past its end.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    unread: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { unread: bytes }
    }

    #[inline]
    pub fn remaining(&self) -> usize {
        self.unread.len()
    }

    /// Returns the bytes that are not read yet.
    #[inline]
    pub fn unread(&self) -> &'a [u8] {
        self.unread
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.unread.is_empty()
    }

    /// Reads the next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        if n > self.unread.len() {
            return Err(Malformed::Short(n, self.unread.len()));
        }
        let (head, unread) = self.unread.split_at(n);
        self.unread = unread;
        Ok(head)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let Some((head, unread)) = self.unread.split_first_chunk::<N>() else {
            return Err(Malformed::Short(N, self.unread.len()));
        };
        self.unread = unread;
        Ok(*head)
    }

    #[inline]
    pub fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    /// Reads the next `[int length][bytes]`. Any negative length means null.
    #[inline]
    pub fn value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let length = self.i32()?;
        match usize::try_from(length) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Ok(None),
        }
    }

    pub fn unsigned_vint(&mut self) -> Result<u64, Malformed> {
        let [first] = self.array()?;
        let extra = first.leading_ones() as usize;
        let tail = self.take(extra)?;
        let head = if extra >= 7 { 0 } else { u64::from(first & (0xff >> (extra + 1))) };
        Ok(tail.iter().fold(head, |value, &byte| value << 8 | u64::from(byte)))
    }

    pub fn vint(&mut self) -> Result<i64, Malformed> {
        let raw = self.unsigned_vint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// Fails if bytes are left.
    #[inline]
    pub fn finish(self) -> Result<(), Malformed> {
        if self.unread.is_empty() { Ok(()) } else { Err(Malformed::Trailing(self.unread.len())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn vints_as_the_specification_shows_them() {
        for (value, bytes) in [
            (0, &[0x00][..]),
            (1, &[0x01]),
            (127, &[0x7f]),
            (128, &[0x80, 0x80]),
            (16_383, &[0xbf, 0xff]),
            (16_384, &[0xc0, 0x40, 0x00]),
            (256_000, &[0xc3, 0xe8, 0x00]),
            (u64::MAX, &[0xff; 9]),
        ] {
            let mut out = Vec::new();
            put_unsigned_vint(&mut out, value);
            assert_eq!(out, bytes, "{value}");
        }
    }

    #[test]
    fn a_length_beyond_the_bytes_is_refused() {
        assert_eq!(
            Reader::new(&[0x7f, 0xff, 0xff, 0xff, 1]).value(),
            Err(Malformed::Short(0x7fff_ffff, 1))
        );
    }

    proptest! {
        #[test]
        fn vints_round_trip(value: i64) {
            let mut out = Vec::new();
            put_vint(&mut out, value);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.vint(), Ok(value));
            prop_assert_eq!(reader.finish(), Ok(()));
        }

        #[test]
        fn unsigned_vints_round_trip(value: u64, shift in 0..64u32) {
            let value = value >> shift;
            let mut out = Vec::new();
            put_unsigned_vint(&mut out, value);
            prop_assert_eq!(Reader::new(&out).unsigned_vint(), Ok(value));
        }

        #[test]
        fn reading_never_panics(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            while reader.value().is_ok() && !reader.is_empty() {}
            let mut reader = Reader::new(&bytes);
            while reader.vint().is_ok() {}
        }
    }
}
