//! Writes numbers, addresses and UUIDs as text.

use turbocql_codec::Malformed;
#[cfg(test)]
use turbocql_codec::types;
use turbocql_codec::types::{decimal, inet, uuid, varint};

/// Appends a `varint` in decimal digits.
pub fn varint(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    match varint::decode_i128(bytes)? {
        Some(value) => out.extend_from_slice(value.to_string().as_bytes()),
        None => out.extend_from_slice(varint::decode(bytes)?.to_string().as_bytes()),
    }
    Ok(())
}

/// Appends a `decimal` in the form in which Python's `Decimal` prints it: with an exponent if the
/// scale is negative, or if more than five zeros would stand between the point and the digits of
/// the unscaled value.
pub fn decimal(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let decimal::Parts { negative, digits, scale } = decimal::decode(bytes)?;
    if negative {
        out.push(b'-');
    }
    let exponent = -i64::from(scale);
    let count = digits.len() as i64;
    // The number of digits before the point.
    let point = count + exponent;
    if exponent <= 0 && point > -6 {
        let digits = digits.as_bytes();
        if exponent == 0 {
            out.extend_from_slice(digits);
        } else if point <= 0 {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', (-point) as usize));
            out.extend_from_slice(digits);
        } else {
            let (integer, fraction) = digits.split_at(point as usize);
            out.extend_from_slice(integer);
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
        return Ok(());
    }
    let (first, fraction) = digits.split_at(1);
    out.extend_from_slice(first.as_bytes());
    if !fraction.is_empty() {
        out.push(b'.');
        out.extend_from_slice(fraction.as_bytes());
    }
    out.extend_from_slice(format!("E{:+}", point - 1).as_bytes());
    Ok(())
}

pub fn inet(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    out.extend_from_slice(inet::decode(bytes)?.to_string().as_bytes());
    Ok(())
}

pub fn uuid(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (number, byte) in uuid::decode(bytes)?.iter().enumerate() {
        if matches!(number, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    Ok(())
}

/// Converts a `decimal` to the scale `scale`, and returns its unscaled value. Returns an error for
/// a value that does not fit `scale` or `precision`.
pub fn rescaled(bytes: &[u8], precision: u8, scale: i8) -> Result<i128, Malformed> {
    const BEYOND: Malformed =
        Malformed::Range("more digits than the precision of the decimal128 column");
    let decimal::Parts { negative, digits, scale: value_scale } = decimal::decode(bytes)?;
    let mut digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    let (mut value_scale, scale) = (i64::from(value_scale), i64::from(scale));
    while value_scale > scale {
        let Some(shortened) = digits.strip_suffix('0') else {
            let reason = "more digits after the point than the scale of the decimal128 column";
            return Err(Malformed::Range(reason));
        };
        (digits, value_scale) = (shortened, value_scale - 1);
    }
    let zeros = scale - value_scale;
    if digits.len() as i64 + zeros > i64::from(precision) {
        return Err(BEYOND);
    }
    // The precision is at most 38 digits, so the number fits 128 bits.
    let number = digits.bytes().fold(0i128, |value, digit| value * 10 + i128::from(digit - b'0'));
    let number = number * 10i128.pow(zeros as u32);
    Ok(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(unscaled: i128, scale: i32) -> String {
        let mut bytes = scale.to_be_bytes().to_vec();
        varint_bytes(unscaled, &mut bytes);
        let mut out = Vec::new();
        decimal(&bytes, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn varint_bytes(value: i128, out: &mut Vec<u8>) {
        types::varint::encode_i128(value, out);
    }

    #[test]
    fn decimals_as_python_prints_them() {
        for (unscaled, scale, expected) in [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (0, -2, "0E+2"),
            (0, 8, "0E-8"),
            (150, 2, "1.50"),
            (-150, 2, "-1.50"),
            (15, -3, "1.5E+4"),
            (1, -1, "1E+1"),
            (123, 3, "0.123"),
            (123, 8, "0.00000123"),
            (123, 9, "1.23E-7"),
            (1, i32::MAX, "1E-2147483647"),
            (1, i32::MIN, "1E+2147483648"),
        ] {
            assert_eq!(text(unscaled, scale), expected, "{unscaled} {scale}");
        }
    }

    #[test]
    fn decimals_are_not_rounded() {
        let bytes = |unscaled: i128, scale: i32| {
            let mut bytes = scale.to_be_bytes().to_vec();
            varint_bytes(unscaled, &mut bytes);
            bytes
        };
        assert_eq!(rescaled(&bytes(150, 2), 38, 10), Ok(15_000_000_000));
        assert_eq!(rescaled(&bytes(1500, 3), 5, 1), Ok(15));
        assert!(rescaled(&bytes(1501, 3), 5, 1).is_err());
        assert!(rescaled(&bytes(10, 0), 1, 0).is_err());
        assert_eq!(rescaled(&bytes(0, i32::MIN), 1, 0), Ok(0));
        assert!(rescaled(&bytes(1, i32::MIN), 38, 0).is_err());
        assert!(rescaled(&bytes(10, i32::MAX), 38, 0).is_err());
        assert_eq!(rescaled(&bytes(-(10i128.pow(38)), 38), 5, 2), Ok(-100));
        assert_eq!(rescaled(&bytes(99_999, 2), 5, 2), Ok(99_999));
        assert!(rescaled(&bytes(100_000, 2), 5, 2).is_err());
    }
}
