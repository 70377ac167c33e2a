//! `int`: a signed 32-bit integer, big-endian.

use crate::error::Malformed;
use crate::wire;

/// The size of a value in bytes.
pub const WIDTH: usize = 4;

#[inline]
pub fn encode(value: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

#[inline]
pub fn decode(bytes: &[u8]) -> Result<i32, Malformed> {
    wire::exact(bytes).map(i32::from_be_bytes)
}
