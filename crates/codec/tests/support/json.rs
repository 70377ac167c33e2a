//! Compares values with the JSON text that the server's `toJson` returned for them.

use num_bigint::BigInt;
use serde_json::{Map, Value as Json};
use turbocql_codec::types::{decimal::Parts, duration::Duration};
use turbocql_codec::{CqlType, UdtType};

use super::value::Value;

/// Whether a value equals the server's JSON. JSON's null matches a null, a NaN and an infinity,
/// because JSON has no text for the last two.
pub fn matches(cql_type: &CqlType, value: Option<&Value>, json: &Json) -> bool {
    match value {
        Some(value) => value_matches(cql_type.thawed(), value, json),
        None => json.is_null(),
    }
}

fn value_matches(cql_type: &CqlType, value: &Value, json: &Json) -> bool {
    match (cql_type, value) {
        (CqlType::Date, Value::Integer(days)) => *days == date(text(json)),
        (CqlType::Time, Value::Integer(nanoseconds)) => *nanoseconds == time(text(json)),
        (CqlType::Timestamp, Value::Integer(ms)) => timestamp_matches(*ms, text(json)),
        (_, Value::Text(expected)) => expected == text(json),
        (_, Value::Integer(n)) => *n == number(json).parse::<i64>().unwrap(),
        (_, Value::VarInt(n)) => *n == number(json).parse::<BigInt>().unwrap(),
        (_, Value::Float(bits)) => {
            let float = f32::from_bits(*bits);
            if float.is_finite() {
                number(json).parse::<f32>().unwrap().to_bits() == *bits
            } else {
                json.is_null()
            }
        }
        (_, Value::Double(bits)) => {
            let double = f64::from_bits(*bits);
            if double.is_finite() {
                number(json).parse::<f64>().unwrap().to_bits() == *bits
            } else {
                json.is_null()
            }
        }
        (_, Value::Decimal(parts)) => *parts == decimal(&number(json)),
        (_, Value::Boolean(boolean)) => json.as_bool() == Some(*boolean),
        (_, Value::Bytes(bytes)) => format!("0x{}", hex(bytes)) == text(json),
        (_, Value::Uuid(uuid)) => hex(uuid) == text(json).replace('-', ""),
        (_, Value::Inet(address)) => text(json).parse() == Ok(*address),
        (_, Value::Duration(duration)) => *duration == parse_duration(text(json)),
        (CqlType::List(t) | CqlType::Set(t), Value::List(parts)) => {
            let jsons = json.as_array().unwrap();
            parts.len() == jsons.len()
                && parts.iter().zip(jsons).all(|(part, json)| matches(t, part.as_ref(), json))
        }
        (CqlType::Vector(t, _), Value::Vector(parts)) => {
            let jsons = json.as_array().unwrap();
            parts.len() == jsons.len()
                && parts.iter().zip(jsons).all(|(part, json)| matches(t, Some(part), json))
        }
        (CqlType::Tuple(types), Value::Tuple(parts)) => {
            let jsons = json.as_array().unwrap();
            parts.len() == jsons.len()
                && types
                    .iter()
                    .zip(parts)
                    .zip(jsons)
                    .all(|((t, part), json)| matches(t, part.as_ref(), json))
        }
        (CqlType::Map(key_type, value_type), Value::Map(entries)) => {
            let object = json.as_object().unwrap();
            let in_object = |(key, value): &(Option<Value>, Option<Value>)| {
                object.iter().any(|(name, json)| {
                    matches(key_type, key.as_ref(), &key_json(key_type, name))
                        && matches(value_type, value.as_ref(), json)
                })
            };
            entries.len() == object.len() && entries.iter().all(in_object)
        }
        (CqlType::Udt(udt), Value::Tuple(parts)) => {
            fields_match(udt, parts, json.as_object().unwrap())
        }
        (cql_type, value) => panic!("{value:?} is no value of {cql_type}"),
    }
}

fn fields_match(udt: &UdtType, parts: &[Option<Value>], object: &Map<String, Json>) -> bool {
    // The server quotes names that are not in lower case.
    let shown = |name: &str| {
        if name == name.to_lowercase() { name.to_owned() } else { format!("\"{name}\"") }
    };
    parts.len() == object.len()
        && udt.fields.iter().zip(parts).all(|((name, t), part)| {
            object.get(&shown(name)).is_some_and(|json| matches(t, part.as_ref(), json))
        })
}

/// Returns the JSON value of a map's key. `name` is the key in the JSON object, where each key is a
/// string. If values of `key_type` are not strings in JSON, `name` contains the value as JSON text.
/// The first arm of the `match` must list all such types that the tests use for keys.
fn key_json(key_type: &CqlType, name: &str) -> Json {
    let string = Json::String(name.to_owned());
    match key_type.thawed() {
        CqlType::Int
        | CqlType::List(_)
        | CqlType::Set(_)
        | CqlType::Map(..)
        | CqlType::Tuple(_)
        | CqlType::Udt(_)
        | CqlType::Vector(..) => serde_json::from_str(name).unwrap(),
        _ => string,
    }
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_else(|| panic!("no string: {json}"))
}

/// Returns the text of a number, with all its digits.
fn number(json: &Json) -> String {
    assert!(json.is_number(), "no number: {json}");
    json.to_string()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex(text: &str) -> Vec<u8> {
    assert_eq!(text.len() % 2, 0);
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// Parses the output of Java's `BigDecimal.toString`, which shows the scale.
fn decimal(text: &str) -> Parts {
    let (negative, unsigned) =
        text.strip_prefix('-').map_or((false, text), |unsigned| (true, unsigned));
    let (mantissa, exponent) = unsigned.split_once(['E', 'e']).unwrap_or((unsigned, "0"));
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{integer}{fraction}");
    let digits = digits.trim_start_matches('0');
    let scale = fraction.len() as i64 - exponent.parse::<i64>().unwrap();
    Parts {
        negative,
        digits: if digits.is_empty() { "0" } else { digits }.to_owned(),
        scale: scale.try_into().unwrap(),
    }
}

/// Returns the number of days from 1970-01-01 to a date, computed from the lengths of years and
/// months.
fn date(text: &str) -> i64 {
    let (sign, unsigned) = match text.as_bytes()[0] {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let mut parts = unsigned.split('-').map(|part| part.parse::<i64>().unwrap());
    let mut next = || parts.next().unwrap();
    let (year, month, day) = (sign * next(), next(), next());
    let before = year - 1;
    let leap_days = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30];
    let months: i64 = lengths.iter().take(month as usize - 1).sum();
    // If 0001-01-01 is day 1, then 1970-01-01 is day 719,163.
    before * 365 + leap_days + months + day - 719_163
}

fn time(text: &str) -> i64 {
    let (clock, fraction) = text.split_once('.').unwrap();
    assert_eq!(fraction.len(), 9);
    let seconds = clock.split(':').fold(0, |total, part| total * 60 + part.parse::<i64>().unwrap());
    seconds * 1_000_000_000 + fraction.parse::<i64>().unwrap()
}

/// Whether a timestamp equals the server's text. The server shows no era, so a year before 1 looks
/// like another year. For such timestamps, only the time of day is compared.
fn timestamp_matches(ms: i64, text: &str) -> bool {
    let (day, clock) = text.strip_suffix('Z').unwrap().split_once(' ').unwrap();
    let in_day = time(&format!("{clock}000000")) / 1_000_000;
    let first_of_year_1 = -62_135_596_800_000;
    if ms < first_of_year_1 {
        return ms.rem_euclid(86_400_000) == in_day;
    }
    ms == date(day) * 86_400_000 + in_day
}

fn parse_duration(text: &str) -> Duration {
    let (sign, mut unread) = text.strip_prefix('-').map_or((1, text), |unread| (-1, unread));
    let (mut months, mut days, mut nanoseconds) = (0, 0, 0);
    while !unread.is_empty() {
        let digits = unread.find(|c: char| !c.is_ascii_digit()).unwrap();
        let count = unread[..digits].parse::<i64>().unwrap();
        unread = &unread[digits..];
        let unit = unread.find(|c: char| c.is_ascii_digit()).unwrap_or(unread.len());
        match &unread[..unit] {
            "y" => months += count * 12,
            "mo" => months += count,
            "d" => days += count,
            "h" => nanoseconds += count * 3_600_000_000_000,
            "m" => nanoseconds += count * 60_000_000_000,
            "s" => nanoseconds += count * 1_000_000_000,
            "ms" => nanoseconds += count * 1_000_000,
            "us" => nanoseconds += count * 1000,
            "ns" => nanoseconds += count,
            unit => panic!("unknown unit {unit}"),
        }
        unread = &unread[unit..];
    }
    Duration {
        months: (sign * months).try_into().unwrap(),
        days: (sign * days).try_into().unwrap(),
        nanoseconds: sign * nanoseconds,
    }
}
