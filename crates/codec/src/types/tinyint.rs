//! `tinyint`: a signed 8-bit integer.

use crate::error::Malformed;
use crate::wire;

/// The size of a value in bytes.
pub const WIDTH: usize = 1;

#[inline]
pub fn encode(value: i8, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

#[inline]
pub fn decode(bytes: &[u8]) -> Result<i8, Malformed> {
    wire::exact(bytes).map(i8::from_be_bytes)
}
