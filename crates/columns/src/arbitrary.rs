//! Types, values and pages for tests.

use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;
use proptest::prelude::*;
use turbocql_codec::types::{decimal, duration, varint, vector};
use turbocql_codec::{Column, CqlType, Page, UdtType, wire};

use crate::batch::{Batches, PageProgress};
use crate::column::Outcome;
use crate::schema::Profile;

pub fn page(types: &[CqlType], rows: &[Vec<Option<Vec<u8>>>]) -> Page {
    let columns: Vec<Column> = types
        .iter()
        .enumerate()
        .map(|(number, cql_type)| Column {
            keyspace: "ks".into(),
            table: "t".into(),
            name: format!("c{number}"),
            cql_type: cql_type.clone(),
        })
        .collect();
    let mut out = Vec::new();
    for cell in rows.iter().flatten() {
        match cell {
            Some(bytes) => wire::put_value(&mut out, bytes),
            None => wire::put_i32(&mut out, wire::NULL),
        }
    }
    Page { columns: columns.into(), rows: Bytes::from(out), row_count: rows.len() }
}

pub fn gathered(page: &Page, profile: Profile) -> Outcome<RecordBatch> {
    let mut batches = Batches::new(&page.columns, profile);
    assert!(batches.append(page, &mut PageProgress::default(), usize::MAX)?);
    batches.finish()
}

pub fn types() -> impl Strategy<Value = CqlType> {
    let scalars = prop::sample::select(vec![
        CqlType::Ascii,
        CqlType::Text,
        CqlType::TinyInt,
        CqlType::SmallInt,
        CqlType::Int,
        CqlType::BigInt,
        CqlType::Counter,
        CqlType::VarInt,
        CqlType::Float,
        CqlType::Double,
        CqlType::Decimal,
        CqlType::Boolean,
        CqlType::Blob,
        CqlType::Uuid,
        CqlType::TimeUuid,
        CqlType::Inet,
        CqlType::Date,
        CqlType::Time,
        CqlType::Timestamp,
        CqlType::Duration,
        CqlType::Custom("org.example.Type".to_owned()),
        CqlType::Composite(vec![CqlType::Int]),
    ]);
    scalars.prop_recursive(3, 12, 3, |inner| {
        let udt = |fields: Vec<CqlType>| {
            let named =
                fields.into_iter().enumerate().map(|(n, field_type)| (format!("f{n}"), field_type));
            let (keyspace, name) = ("ks".to_owned(), "u".to_owned());
            CqlType::Udt(Arc::new(UdtType { keyspace, name, fields: named.collect() }))
        };
        prop_oneof![
            inner.clone().prop_map(|inner_type| CqlType::List(Box::new(inner_type))),
            inner.clone().prop_map(|inner_type| CqlType::Set(Box::new(inner_type))),
            inner.clone().prop_map(|inner_type| CqlType::Frozen(Box::new(inner_type))),
            (inner.clone(), inner.clone())
                .prop_map(|(k, v)| CqlType::Map(Box::new(k), Box::new(v))),
            prop::collection::vec(inner.clone(), 0..3).prop_map(CqlType::Tuple),
            prop::collection::vec(inner.clone(), 0..3).prop_map(udt),
            (inner, 0..4u32).prop_map(|(inner_type, n)| CqlType::Vector(Box::new(inner_type), n)),
        ]
    })
}

fn bytes(range: std::ops::Range<usize>) -> BoxedStrategy<Vec<u8>> {
    prop::collection::vec(any::<u8>(), range).boxed()
}

/// Makes values of a type, each with its length before it. If `may_be_null`, some are nulls.
fn sized(cql_type: &CqlType, may_be_null: bool) -> BoxedStrategy<Vec<u8>> {
    let null = if may_be_null { 1 } else { 0 };
    let put = |value: Vec<u8>| {
        let mut out = Vec::new();
        wire::put_value(&mut out, &value);
        out
    };
    prop_oneof![9 => cell(cql_type).prop_map(put), null => Just(wire::NULL.to_be_bytes().to_vec())]
        .boxed()
}

fn counted(groups: BoxedStrategy<Vec<u8>>) -> BoxedStrategy<Vec<u8>> {
    prop::collection::vec(groups, 0..4)
        .prop_map(|groups| [&(groups.len() as u32).to_be_bytes()[..], &groups.concat()].concat())
        .boxed()
}

/// Makes values of a type, as the bytes that the server would send.
pub fn cell(cql_type: &CqlType) -> BoxedStrategy<Vec<u8>> {
    match cql_type {
        CqlType::Ascii => "[ -~]{0,8}".prop_map(String::into_bytes).boxed(),
        CqlType::Text => ".{0,8}".prop_map(String::into_bytes).boxed(),
        CqlType::TinyInt | CqlType::SmallInt | CqlType::Int | CqlType::Float | CqlType::Date => {
            let width = match cql_type.kind() {
                "tinyint" => 1,
                "smallint" => 2,
                _ => 4,
            };
            bytes(width..width + 1)
        }
        CqlType::BigInt | CqlType::Counter | CqlType::Double | CqlType::Timestamp => bytes(8..9),
        CqlType::VarInt => any::<i128>()
            .prop_map(|value| {
                let mut out = Vec::new();
                varint::encode_i128(value >> (value as u32 % 120), &mut out);
                out
            })
            .boxed(),
        CqlType::Decimal => {
            (prop::collection::vec(0..10u8, 1..60), any::<bool>(), any::<i8>(), any::<i32>())
                .prop_map(|(digits, negative, small, large)| {
                    let mut out = Vec::new();
                    let scale = if large % 4 == 0 { large } else { small.into() };
                    decimal::encode(negative, &digits, scale, &mut out).unwrap();
                    out
                })
                .boxed()
        }
        CqlType::Boolean => (0..2u8).prop_map(|byte| vec![byte]).boxed(),
        CqlType::Blob | CqlType::Custom(_) | CqlType::Composite(_) => bytes(0..9),
        CqlType::Uuid => bytes(16..17),
        CqlType::TimeUuid => bytes(16..17)
            .prop_map(|mut uuid| {
                uuid[6] = uuid[6] & 15 | 0x10;
                uuid
            })
            .boxed(),
        CqlType::Inet => prop_oneof![bytes(4..5), bytes(16..17)].boxed(),
        CqlType::Time => {
            (0..86_400_000_000_000i64).prop_map(|time| time.to_be_bytes().to_vec()).boxed()
        }
        CqlType::Duration => (any::<u32>(), any::<u32>(), any::<u64>(), any::<bool>())
            .prop_map(|(months, days, nanoseconds, negative)| {
                let sign = if negative { -1 } else { 1 };
                let value = duration::Duration {
                    months: (months >> 1) as i32 * sign as i32,
                    days: (days >> 1) as i32 * sign as i32,
                    nanoseconds: (nanoseconds >> 1) as i64 * sign,
                };
                let mut out = Vec::new();
                duration::encode(value, &mut out).unwrap();
                out
            })
            .boxed(),
        CqlType::List(element) | CqlType::Set(element) => counted(sized(element, true)),
        CqlType::Map(key, value) => counted(
            (sized(key, false), sized(value, true)).prop_map(|(k, v)| [k, v].concat()).boxed(),
        ),
        CqlType::Tuple(types) => parts(types.iter()),
        CqlType::Udt(udt) => parts(udt.fields.iter().map(|(_, part)| part)),
        CqlType::Vector(element, dimension) => {
            let is_bare = vector::element_width(element).is_some();
            let count = *dimension as usize;
            prop::collection::vec(cell(element), count)
                .prop_map(move |elements| {
                    let mut out = Vec::new();
                    for element in elements {
                        match is_bare {
                            true => out.extend_from_slice(&element),
                            false => vector::put_sized(&element, &mut out),
                        }
                    }
                    out
                })
                .boxed()
        }
        CqlType::Frozen(inner) => cell(inner),
    }
}

fn parts<'a>(types: impl Iterator<Item = &'a CqlType>) -> BoxedStrategy<Vec<u8>> {
    let strategies: Vec<_> = types.map(|part| sized(part, true)).collect();
    strategies.prop_map(|parts| parts.concat()).boxed()
}
