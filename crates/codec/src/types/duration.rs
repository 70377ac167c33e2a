//! `duration`: months, days and nanoseconds, each as a signed vint.
//!
//! The three have the same sign: none is negative, or none is positive.

use crate::error::Malformed;
use crate::wire::{self, Reader};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Duration {
    pub months: i32,
    pub days: i32,
    pub nanoseconds: i64,
}

pub fn encode(value: Duration, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let Duration { months, days, nanoseconds } = value;
    let below = months < 0 || days < 0 || nanoseconds < 0;
    let above = months > 0 || days > 0 || nanoseconds > 0;
    if below && above {
        return Err(Malformed::Invalid("months, days and nanoseconds of different signs"));
    }
    wire::put_vint(out, months.into());
    wire::put_vint(out, days.into());
    wire::put_vint(out, nanoseconds);
    Ok(())
}

/// Decodes a duration. Parts of different signs are accepted, although the server does not store
/// them.
pub fn decode(bytes: &[u8]) -> Result<Duration, Malformed> {
    let mut reader = Reader::new(bytes);
    let narrow = |value: i64| {
        i32::try_from(value).map_err(|_| Malformed::Invalid("months or days beyond 32 bits"))
    };
    let months = narrow(reader.vint()?)?;
    let days = narrow(reader.vint()?)?;
    let nanoseconds = reader.vint()?;
    reader.finish()?;
    Ok(Duration { months, days, nanoseconds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mixed_signs_are_refused() {
        let mixed = Duration { months: 1, days: -1, nanoseconds: 0 };
        assert!(encode(mixed, &mut Vec::new()).is_err());
    }

    proptest! {
        #[test]
        fn round_trips(months in 0..=i32::MAX, days in 0..=i32::MAX, nanoseconds in 0..=i64::MAX, negative: bool) {
            let sign = |n: i64| if negative { -n } else { n };
            let value = Duration {
                months: sign(months.into()) as i32,
                days: sign(days.into()) as i32,
                nanoseconds: sign(nanoseconds),
            };
            let mut out = Vec::new();
            encode(value, &mut out).unwrap();
            prop_assert_eq!(decode(&out), Ok(value));
        }

        #[test]
        fn decoding_never_panics(bytes: Vec<u8>) {
            let _ = decode(&bytes);
        }
    }
}
