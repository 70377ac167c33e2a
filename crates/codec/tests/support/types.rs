//! Strategies for CQL types of any shape, for property tests.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use turbocql_codec::{CqlType, UdtType};

fn simple_type() -> impl Strategy<Value = CqlType> {
    prop_oneof![
        12 => prop::sample::select(vec![
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
        ]),
        // These are Java class names, and some names that are not valid in Java.
        1 => "[a-z\"'=>ü]{1,4}\\.[A-Z][a-z0-9]{0,4}(\\([a-z ,:'(ü]{0,5}\\){0,1}){0,1}"
            .prop_filter("parentheses in pairs", |class| {
                class.matches('(').count() == class.matches(')').count()
            })
            .prop_map(CqlType::Custom),
    ]
}

/// Makes names. Some of them need quotes, because without quotes they are invalid or are names of
/// built-in types.
pub fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z][a-z0-9_]{0,5}",
        1 => any::<String>(),
        1 => "[a-zA-Z0-9 \"',.<>{}]{0,6}",
        1 => prop::sample::select(vec!["", "int", "List", "list", "varchar", "frozen", "vector", "1a"])
            .prop_map(str::to_owned),
    ]
}

/// Keyspace names without the characters `(`, `)`, `,`, `:` and whitespace, because Java class
/// names do not quote keyspaces.
fn keyspace() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just(String::new()),
        2 => "[a-z][a-z0-9_]{0,5}",
        1 => "[a-zA-Z0-9\"'.<>{}ü]{0,6}",
        1 => prop::sample::select(vec!["int", "list"]).prop_map(str::to_owned),
    ]
}

/// Types that [`CqlType::check`] accepts, up to four levels deep. Their vectors have at most
/// `dimension` elements.
pub fn cql_type(dimension: u32) -> impl Strategy<Value = CqlType> {
    let tree = simple_type().prop_recursive(3, 16, 4, move |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let fields = vec((name(), inner.clone()), 0..4);
        let udt = (keyspace(), name(), fields).prop_map(|(keyspace, name, fields)| {
            CqlType::Udt(Arc::new(UdtType { keyspace, name, fields }))
        });
        prop_oneof![
            2 => boxed.clone().prop_map(CqlType::List),
            2 => boxed.clone().prop_map(CqlType::Set),
            2 => (boxed.clone(), boxed.clone()).prop_map(|(k, v)| CqlType::Map(k, v)),
            2 => vec(inner.clone(), 0..4).prop_map(CqlType::Tuple),
            2 => (boxed.clone(), 0..=dimension).prop_map(|(t, n)| CqlType::Vector(t, n)),
            1 => vec(inner, 0..4).prop_map(CqlType::Composite),
            1 => boxed.prop_map(CqlType::Frozen),
            2 => udt,
        ]
    });
    tree.prop_filter("types to compile", |cql_type| cql_type.check().is_ok())
}
