//! Checks that values of arbitrary types survive encoding and decoding, and that arbitrary bytes
//! never cause a panic.

mod support {
    pub mod types;
    pub mod value;
}

use std::net::IpAddr;

use num_bigint::BigInt;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use support::types::cql_type;
use support::value::{Value, decode, encoded, plan};
use turbocql_codec::CqlType;
use turbocql_codec::types::decimal::Parts;
use turbocql_codec::types::duration::Duration;
use turbocql_codec::types::time::NANOSECONDS_PER_DAY;

fn integer(range: std::ops::RangeInclusive<i64>) -> BoxedStrategy<Value> {
    let ends = prop_oneof![Just(*range.start()), Just(*range.end()), Just(0)];
    prop_oneof![1 => ends, 4 => range].prop_map(Value::Integer).boxed()
}

fn big_int() -> impl Strategy<Value = BigInt> {
    vec(any::<u8>(), 1..40).prop_map(|bytes| BigInt::from_signed_bytes_be(&bytes))
}

fn duration() -> impl Strategy<Value = Duration> {
    (0..=i32::MAX, 0..=i32::MAX, 0..=i64::MAX, any::<bool>()).prop_map(
        |(months, days, nanoseconds, negative)| {
            let sign = if negative { -1 } else { 1 };
            Duration {
                months: sign * months,
                days: sign * days,
                nanoseconds: i64::from(sign) * nanoseconds,
            }
        },
    )
}

fn value_of(cql_type: &CqlType) -> BoxedStrategy<Value> {
    let maybe = |t: &CqlType| option::weighted(0.9, value_of(t));
    match cql_type {
        CqlType::Ascii => "[\\x00-\\x7f]{0,8}".prop_map(Value::Text).boxed(),
        CqlType::Text => any::<String>().prop_map(Value::Text).boxed(),
        CqlType::TinyInt => integer(i8::MIN.into()..=i8::MAX.into()),
        CqlType::SmallInt => integer(i16::MIN.into()..=i16::MAX.into()),
        CqlType::Int | CqlType::Date => integer(i32::MIN.into()..=i32::MAX.into()),
        CqlType::BigInt | CqlType::Counter | CqlType::Timestamp => integer(i64::MIN..=i64::MAX),
        CqlType::Time => integer(0..=NANOSECONDS_PER_DAY - 1),
        CqlType::VarInt => big_int().prop_map(Value::VarInt).boxed(),
        CqlType::Float => any::<u32>().prop_map(Value::Float).boxed(),
        CqlType::Double => any::<u64>().prop_map(Value::Double).boxed(),
        CqlType::Decimal => (big_int(), any::<i32>())
            .prop_map(|(unscaled, scale)| {
                let digits = unscaled.magnitude().to_string();
                Value::Decimal(Parts { negative: unscaled < BigInt::ZERO, digits, scale })
            })
            .boxed(),
        CqlType::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
        CqlType::Blob | CqlType::Custom(_) => vec(any::<u8>(), 0..8).prop_map(Value::Bytes).boxed(),
        CqlType::Uuid => any::<[u8; 16]>().prop_map(Value::Uuid).boxed(),
        CqlType::TimeUuid => any::<[u8; 16]>()
            .prop_map(|mut uuid| {
                uuid[6] = 0x10 | (uuid[6] & 0x0f);
                Value::Uuid(uuid)
            })
            .boxed(),
        CqlType::Inet => any::<IpAddr>().prop_map(Value::Inet).boxed(),
        CqlType::Duration => duration().prop_map(Value::Duration).boxed(),
        CqlType::List(t) | CqlType::Set(t) => vec(maybe(t), 0..4).prop_map(Value::List).boxed(),
        CqlType::Map(k, v) => vec((maybe(k), maybe(v)), 0..3).prop_map(Value::Map).boxed(),
        CqlType::Tuple(types) => {
            types.iter().map(maybe).collect::<Vec<_>>().prop_map(Value::Tuple).boxed()
        }
        CqlType::Udt(udt) => {
            let fields: Vec<_> = udt.fields.iter().map(|(_, t)| maybe(t)).collect();
            fields.prop_map(Value::Tuple).boxed()
        }
        CqlType::Vector(t, dimension) => {
            vec(value_of(t), *dimension as usize).prop_map(Value::Vector).boxed()
        }
        CqlType::Composite(types) => {
            let components: Vec<_> = types.iter().map(value_of).collect();
            (components, 0..=types.len())
                .prop_map(|(mut components, count)| {
                    components.truncate(count);
                    Value::Composite(components)
                })
                .boxed()
        }
        CqlType::Frozen(t) => value_of(t),
    }
}

fn typed_value() -> impl Strategy<Value = (CqlType, Value)> {
    cql_type(4).prop_flat_map(|t| {
        let value = value_of(&t);
        (Just(t), value)
    })
}

/// Bytes that look a little like encoded values: small counts and lengths are frequent.
fn plausible_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (0..6u8).prop_map(|n| vec![0, 0, 0, n]),
        Just(vec![0xff; 4]),
        vec(any::<u8>(), 1..5),
        (0..20u8).prop_map(|n| vec![n]),
    ];
    vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn values_round_trip((cql_type, value) in typed_value()) {
        let plan = plan(&cql_type);
        let bytes = encoded(&plan, &value);
        prop_assert_eq!(decode(&plan, &bytes), Ok(value));
    }

    #[test]
    fn truncated_values_never_panic((cql_type, value) in typed_value()) {
        let plan = plan(&cql_type);
        let bytes = encoded(&plan, &value);
        for end in 0..bytes.len() {
            let _ = decode(&plan, &bytes[..end]);
        }
    }

    #[test]
    fn damaged_values_never_panic((cql_type, value) in typed_value(), at: prop::sample::Index, to: u8) {
        let plan = plan(&cql_type);
        let mut bytes = encoded(&plan, &value);
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        let _ = decode(&plan, &bytes);
    }

    #[test]
    fn arbitrary_bytes_never_panic(cql_type in cql_type(u32::MAX), bytes in plausible_bytes()) {
        let _ = decode(&plan(&cql_type), &bytes);
    }

    #[test]
    fn a_plan_knows_its_type(cql_type in cql_type(u32::MAX)) {
        // Outside the fields of a user-defined type, a plan does not keep `frozen`, because
        // `frozen` changes nothing on the wire. A plan keeps everything else of its type.
        let plain = plan(&cql_type).cql_type();
        prop_assert_eq!(plan(&plain).cql_type(), plain.clone());
        if !cql_type.class_name().contains("FrozenType(") {
            prop_assert_eq!(plain, cql_type);
        }
    }
}

/// The size in bytes of a nested vector can be too large for a 64-bit number. Computing it must
/// not overflow.
#[test]
fn vectors_larger_than_memory_are_refused() {
    let mut huge = CqlType::Double;
    for _ in 0..8 {
        huge = CqlType::Vector(Box::new(huge), 32_768);
        for bytes in [&[][..], &[0; 64]] {
            assert!(decode(&plan(&huge), bytes).is_err(), "{huge}");
        }
    }
}
