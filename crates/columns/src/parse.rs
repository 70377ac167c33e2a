//! Parses texts as numbers, UUIDs and addresses, without loss.

use std::net::IpAddr;

use turbocql_codec::Malformed;
use turbocql_codec::types::{decimal as of_decimal, inet as of_inet};

const NO_NUMBER: Malformed = Malformed::Invalid("a text that is no finite number");

/// Returns whether the number is negative, and its text without the sign.
fn signed(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', unsigned @ ..] => (true, unsigned),
        [b'+', unsigned @ ..] => (false, unsigned),
        unsigned => (false, unsigned),
    }
}

fn digits_of(text: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(NO_NUMBER);
        }
        out.push(digit);
    }
    Ok(())
}

/// Appends an integer as a `varint`. Each item of `digits` is a number from 0 to 9.
pub fn put_digits(negative: bool, digits: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let start = out.len();
    of_decimal::encode(negative, digits, 0, out)?;
    out.drain(start..start + 4);
    Ok(())
}

/// Parses an integer and appends it as a `varint`.
pub fn varint(text: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let (negative, unsigned) = signed(text);
    let mut digits = Vec::with_capacity(unsigned.len());
    digits_of(unsigned, &mut digits)?;
    if digits.is_empty() {
        return Err(NO_NUMBER);
    }
    put_digits(negative, &digits, out)
}

/// Parses a number in the form in which Python's `Decimal` prints it (digits, a point, an
/// exponent), and appends it as a `decimal`.
pub fn decimal(text: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    const BEYOND: Malformed = Malformed::Range("an exponent beyond 32 bits");
    let (negative, unsigned) = signed(text);
    let exponent_at = unsigned.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = match exponent_at {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let mut digits = Vec::with_capacity(mantissa.len());
    let mut decimals = 0;
    match mantissa.iter().position(|&byte| byte == b'.') {
        Some(point) => {
            digits_of(&mantissa[..point], &mut digits)?;
            digits_of(&mantissa[point + 1..], &mut digits)?;
            decimals = mantissa.len() - point - 1;
        }
        None => digits_of(mantissa, &mut digits)?,
    }
    if digits.is_empty() {
        return Err(NO_NUMBER);
    }
    let exponent: i64 = match exponent.map(std::str::from_utf8) {
        None => 0,
        Some(Ok(text)) if text.len() <= 18 && !text.is_empty() => {
            text.parse().map_err(|_| NO_NUMBER)?
        }
        Some(Ok(text)) if !text.is_empty() => return Err(BEYOND),
        Some(_) => return Err(NO_NUMBER),
    };
    let scale = i32::try_from(decimals as i64 - exponent).map_err(|_| BEYOND)?;
    let leading = digits.iter().take_while(|&&digit| digit == 0).count().min(digits.len() - 1);
    of_decimal::encode(negative, &digits[leading..], scale, out)
}

/// Parses a UUID of 36 characters.
pub fn uuid(text: &[u8]) -> Result<[u8; 16], Malformed> {
    const NO_UUID: Malformed = Malformed::Invalid("a text that is no UUID");
    if text.len() != 36 {
        return Err(NO_UUID);
    }
    let mut bytes = [0; 16];
    let mut digits = 0;
    for (at, &byte) in text.iter().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            if byte != b'-' {
                return Err(NO_UUID);
            }
            continue;
        }
        let digit = (byte as char).to_digit(16).ok_or(NO_UUID)? as u8;
        bytes[digits / 2] = bytes[digits / 2] << 4 | digit;
        digits += 1;
    }
    Ok(bytes)
}

pub fn inet(text: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let text = std::str::from_utf8(text).ok();
    let address: Option<IpAddr> = text.and_then(|text| text.parse().ok());
    of_inet::encode(address.ok_or(Malformed::Invalid("a text that is no IP address"))?, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    #[test]
    fn decimals_come_back_as_they_were() {
        for written in [
            "0",
            "0.00",
            "0E+2",
            "0E-8",
            "1.50",
            "-1.50",
            "1.5E+4",
            "1E+1",
            "0.123",
            "1.23E-7",
            "1E-2147483647",
            "1E+2147483648",
            "-123456789012345678901234567890123456789012.5",
        ] {
            let (mut bytes, mut formatted) = (Vec::new(), Vec::new());
            decimal(written.as_bytes(), &mut bytes).unwrap();
            text::decimal(&bytes, &mut formatted).unwrap();
            assert_eq!(String::from_utf8(formatted).unwrap(), written);
        }
        for wrong in [
            "",
            "-",
            ".",
            "NaN",
            "Infinity",
            "1e",
            "1e+",
            "1.2.3",
            " 1",
            "1 ",
            "--1",
            "1e1.5",
            "1E2147483649",
            "1E-2147483648",
            "1e99999999999999999999",
            "\u{663}",
        ] {
            assert!(decimal(wrong.as_bytes(), &mut Vec::new()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn integers_come_back_as_they_were() {
        for written in [
            "0",
            "-1",
            "127",
            "128",
            "-129",
            "1606938044258990275541962092341162602522202993782792835301376",
        ] {
            let (mut bytes, mut formatted) = (Vec::new(), Vec::new());
            varint(written.as_bytes(), &mut bytes).unwrap();
            text::varint(&bytes, &mut formatted).unwrap();
            assert_eq!(String::from_utf8(formatted).unwrap(), written);
        }
        for wrong in ["", "-", "1.0", "1e3", "0x10", "1_000"] {
            assert!(varint(wrong.as_bytes(), &mut Vec::new()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn uuids_and_addresses() {
        let mut formatted = Vec::new();
        let bytes = uuid(b"D2177dd0-eaa2-11de-a572-001b779c76e3").unwrap();
        text::uuid(&bytes, &mut formatted).unwrap();
        assert_eq!(formatted, b"d2177dd0-eaa2-11de-a572-001b779c76e3");
        for wrong in
            ["", "d2177dd0eaa211dea572001b779c76e3", "d2177dd0-eaa2-11de-a572-001b779c76eg"]
        {
            assert!(uuid(wrong.as_bytes()).is_err());
        }
        assert!(inet(b"::1", &mut Vec::new()).is_ok());
        assert!(inet(b"127.0.0.1.", &mut Vec::new()).is_err());
    }
}
