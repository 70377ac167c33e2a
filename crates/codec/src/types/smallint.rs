//! `smallint`: a signed 16-bit integer, big-endian.

use crate::error::Malformed;
use crate::wire;

/// The size of a value in bytes.
pub const WIDTH: usize = 2;

#[inline]
pub fn encode(value: i16, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

#[inline]
pub fn decode(bytes: &[u8]) -> Result<i16, Malformed> {
    wire::exact(bytes).map(i16::from_be_bytes)
}
