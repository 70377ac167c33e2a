//! `float`: an IEEE 754 binary32, big-endian; the payload of a NaN is kept.

use crate::error::Malformed;
use crate::wire;

/// The size of a value in bytes.
pub const WIDTH: usize = 4;

#[inline]
pub fn encode(value: f32, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

#[inline]
pub fn decode(bytes: &[u8]) -> Result<f32, Malformed> {
    wire::exact(bytes).map(f32::from_be_bytes)
}

/// Returns the nearest binary32, or `None` for a finite value that is too large.
#[inline]
pub fn narrow(value: f64) -> Option<f32> {
    let narrowed = value as f32;
    if narrowed.is_infinite() && value.is_finite() { None } else { Some(narrowed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowing_refuses_only_finite_numbers_that_become_infinite() {
        assert_eq!(narrow(3.4028235e38), Some(f32::MAX));
        // This number is halfway between `f32::MAX` and 2^128. It rounds to infinity.
        assert_eq!(narrow(3.402_823_567_797_336_6e38), None);
        assert_eq!(narrow(3.402_823_567_797_336_4e38), Some(f32::MAX));
        assert_eq!(narrow(f64::INFINITY), Some(f32::INFINITY));
        assert!(narrow(f64::NAN).is_some_and(f32::is_nan));
        assert_eq!(narrow(1e-50), Some(0.0));
    }
}
