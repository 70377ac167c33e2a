//! The tree of CQL types, as a statement's metadata or a piece of CQL text describes it.

use std::fmt;
use std::sync::Arc;

/// A CQL type. `Display` prints it as CQL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CqlType {
    Ascii,
    Text,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Counter,
    VarInt,
    Float,
    Double,
    Decimal,
    Boolean,
    Blob,
    Uuid,
    TimeUuid,
    Inet,
    Date,
    Time,
    Timestamp,
    Duration,
    List(Box<CqlType>),
    Set(Box<CqlType>),
    Map(Box<CqlType>, Box<CqlType>),
    Tuple(Vec<CqlType>),
    Udt(Arc<UdtType>),
    /// Element type and dimension. The protocol's metadata allows dimensions up to 65,535.
    Vector(Box<CqlType>, u16),
    /// Changes nothing on the wire; kept so that a parsed type prints back as it was written.
    Frozen(Box<CqlType>),
    /// A Java class that CQL has no name for; its values are bytes.
    Custom(String),
}

/// A user-defined type: where it lives, and its fields in declaration order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UdtType {
    /// Empty when the type was written without a keyspace.
    pub keyspace: String,
    pub name: String,
    pub fields: Vec<(String, CqlType)>,
}

/// How deep types may nest. Cassandra itself refuses far earlier; the bound keeps every recursion
/// over a type, and over a value of it, within a small stack.
pub const MAX_DEPTH: usize = 64;

impl CqlType {
    /// The type below any `frozen<...>`.
    pub fn thawed(&self) -> &CqlType {
        let mut inner = self;
        while let CqlType::Frozen(next) = inner {
            inner = next;
        }
        inner
    }

    /// The number of types on the longest way from here to a leaf, or `None` beyond [`MAX_DEPTH`].
    pub fn depth(&self) -> Option<usize> {
        fn deepest<'a>(mut types: impl Iterator<Item = &'a CqlType>, left: usize) -> Option<usize> {
            types.try_fold(0, |deepest: usize, t| Some(deepest.max(within(t, left)?)))
        }

        fn within(cql_type: &CqlType, left: usize) -> Option<usize> {
            let left = left.checked_sub(1)?;
            let below = match cql_type {
                CqlType::Frozen(t) | CqlType::List(t) | CqlType::Set(t) | CqlType::Vector(t, _) => {
                    within(t, left)?
                }
                CqlType::Map(k, v) => within(k, left)?.max(within(v, left)?),
                CqlType::Tuple(types) => deepest(types.iter(), left)?,
                CqlType::Udt(udt) => deepest(udt.fields.iter().map(|(_, t)| t), left)?,
                _ => 0,
            };
            Some(below + 1)
        }
        within(self, MAX_DEPTH)
    }

    /// The CQL keyword of a type without parameters.
    pub fn keyword(&self) -> Option<&'static str> {
        Some(match self {
            CqlType::Ascii => "ascii",
            CqlType::Text => "text",
            CqlType::TinyInt => "tinyint",
            CqlType::SmallInt => "smallint",
            CqlType::Int => "int",
            CqlType::BigInt => "bigint",
            CqlType::Counter => "counter",
            CqlType::VarInt => "varint",
            CqlType::Float => "float",
            CqlType::Double => "double",
            CqlType::Decimal => "decimal",
            CqlType::Boolean => "boolean",
            CqlType::Blob => "blob",
            CqlType::Uuid => "uuid",
            CqlType::TimeUuid => "timeuuid",
            CqlType::Inet => "inet",
            CqlType::Date => "date",
            CqlType::Time => "time",
            CqlType::Timestamp => "timestamp",
            CqlType::Duration => "duration",
            CqlType::List(_)
            | CqlType::Set(_)
            | CqlType::Map(..)
            | CqlType::Tuple(_)
            | CqlType::Udt(_)
            | CqlType::Vector(..)
            | CqlType::Frozen(_)
            | CqlType::Custom(_) => return None,
        })
    }
}

impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CqlType::List(t) => write!(f, "list<{t}>"),
            CqlType::Set(t) => write!(f, "set<{t}>"),
            CqlType::Map(k, v) => write!(f, "map<{k}, {v}>"),
            CqlType::Tuple(types) => {
                f.write_str("tuple<")?;
                for (i, t) in types.iter().enumerate() {
                    write!(f, "{}{t}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str(">")
            }
            CqlType::Udt(udt) if udt.keyspace.is_empty() => Identifier(&udt.name).fmt(f),
            CqlType::Udt(udt) => {
                write!(f, "{}.{}", Identifier(&udt.keyspace), Identifier(&udt.name))
            }
            CqlType::Vector(t, dimension) => write!(f, "vector<{t}, {dimension}>"),
            CqlType::Frozen(t) => write!(f, "frozen<{t}>"),
            CqlType::Custom(class) => write!(f, "'{}'", class.replace('\'', "''")),
            simple => f.write_str(simple.keyword().unwrap_or_default()),
        }
    }
}

/// An identifier as CQL wants it: quoted unless it is plain lower case.
pub struct Identifier<'a>(pub &'a str);

impl fmt::Display for Identifier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.0.starts_with(|c: char| c.is_ascii_lowercase())
            && self.0.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if plain { f.write_str(self.0) } else { write!(f, "\"{}\"", self.0.replace('"', "\"\"")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_cql() {
        let udt = UdtType {
            keyspace: "app".into(),
            name: "Home Address".into(),
            fields: vec![("zip".into(), CqlType::Int)],
        };
        let t = CqlType::Map(
            Box::new(CqlType::Text),
            Box::new(CqlType::Frozen(Box::new(CqlType::Tuple(vec![
                CqlType::Udt(Arc::new(udt)),
                CqlType::Vector(Box::new(CqlType::Float), 3),
            ])))),
        );
        assert_eq!(
            t.to_string(),
            "map<text, frozen<tuple<app.\"Home Address\", vector<float, 3>>>>"
        );
    }

    #[test]
    fn depth_is_bounded() {
        let mut t = CqlType::Int;
        for _ in 1..MAX_DEPTH {
            t = CqlType::List(Box::new(t));
        }
        assert_eq!(t.depth(), Some(MAX_DEPTH));
        assert_eq!(CqlType::Set(Box::new(t)).depth(), None);
    }
}
