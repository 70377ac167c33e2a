//! `time`: nanoseconds since midnight as a signed 64-bit integer, big-endian.

use crate::error::Malformed;
use crate::wire;

/// The size of a value in bytes.
pub const WIDTH: usize = 8;

/// Nanoseconds in a day: one more than the largest value.
pub const NANOSECONDS_PER_DAY: i64 = 86_400_000_000_000;

pub fn encode(nanoseconds: i64, out: &mut Vec<u8>) -> Result<(), Malformed> {
    if !(0..NANOSECONDS_PER_DAY).contains(&nanoseconds) {
        return Err(Malformed::Range("nanoseconds outside a day (0 to 86399999999999)"));
    }
    out.extend_from_slice(&nanoseconds.to_be_bytes());
    Ok(())
}

/// Decodes a time. Values outside a day are accepted, because the server stores them.
pub fn decode(bytes: &[u8]) -> Result<i64, Malformed> {
    wire::exact(bytes).map(i64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_within_a_day_are_written() {
        for (nanoseconds, fits) in
            [(0, true), (NANOSECONDS_PER_DAY - 1, true), (NANOSECONDS_PER_DAY, false), (-1, false)]
        {
            assert_eq!(encode(nanoseconds, &mut Vec::new()).is_ok(), fits);
            assert_eq!(decode(&nanoseconds.to_be_bytes()), Ok(nanoseconds));
        }
    }
}
