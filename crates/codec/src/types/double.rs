//! `double`: an IEEE 754 binary64, big-endian; the payload of a NaN is kept.

use crate::error::Malformed;
use crate::wire;

/// The size of a value in bytes.
pub const WIDTH: usize = 8;

#[inline]
pub fn encode(value: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

#[inline]
pub fn decode(bytes: &[u8]) -> Result<f64, Malformed> {
    wire::exact(bytes).map(f64::from_be_bytes)
}
