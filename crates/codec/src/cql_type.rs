//! The tree of CQL types, as a statement's metadata or a piece of CQL text describes it.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::parse::cql;
use crate::types::vector;

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
    /// Element type and dimension.
    Vector(Box<CqlType>, u32),
    /// Java's `CompositeType`, which CQL has no name for.
    Composite(Vec<CqlType>),
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

/// How many types one type may be made of. Types are trees: a part that stands at many places is
/// there as often.
pub const MAX_PARTS: usize = 65_536;

impl CqlType {
    /// The type below any `frozen<...>`.
    pub fn thawed(&self) -> &CqlType {
        let mut inner = self;
        while let CqlType::Frozen(next) = inner {
            inner = next;
        }
        inner
    }

    /// How many types this one is made of, itself included; no more than [`MAX_PARTS`] + 1 are
    /// counted.
    pub fn parts(&self) -> usize {
        let mut seen = 0;
        // What else may be wrong is not asked here.
        let _ = self.check_parts(&mut seen, MAX_DEPTH);
        seen
    }

    /// What makes this type unfit to be compiled: too deep, too large, or a vector whose elements
    /// have no bytes, of which a few bytes could hold any number.
    pub fn check(&self) -> Result<(), String> {
        self.check_parts(&mut 0, MAX_DEPTH)
    }

    /// Stops at the bound: one part may stand at exponentially many places.
    fn check_parts(&self, seen: &mut usize, left: usize) -> Result<(), String> {
        let Some(left) = left.checked_sub(1) else {
            return Err(format!("the type nests deeper than {MAX_DEPTH} levels"));
        };
        *seen += 1;
        if *seen > MAX_PARTS {
            return Err(format!("the type has more than {MAX_PARTS} parts"));
        }
        match self {
            CqlType::List(t) | CqlType::Set(t) | CqlType::Frozen(t) => t.check_parts(seen, left),
            CqlType::Vector(t, _) => {
                t.check_parts(seen, left)?;
                if vector::element_width(t) == Some(0) {
                    return Err("the elements of a vector cannot be vectors of none".to_owned());
                }
                Ok(())
            }
            CqlType::Map(k, v) => {
                k.check_parts(seen, left)?;
                v.check_parts(seen, left)
            }
            CqlType::Tuple(types) | CqlType::Composite(types) => {
                types.iter().try_for_each(|t| t.check_parts(seen, left))
            }
            CqlType::Udt(udt) => {
                udt.fields.iter().try_for_each(|(_, t)| t.check_parts(seen, left))?;
                // What Java writes has no way to quote it.
                let marks = |c: char| matches!(c, '(' | ')' | ',' | ':') || c.is_whitespace();
                if udt.keyspace.contains(marks) {
                    return Err(format!("no keyspace can be called {:?}", udt.keyspace));
                }
                let mut names = HashSet::new();
                match udt.fields.iter().find(|(name, _)| !names.insert(name)) {
                    Some((name, _)) => Err(format!("two fields are called {name:?}")),
                    None => Ok(()),
                }
            }
            CqlType::Ascii
            | CqlType::Text
            | CqlType::TinyInt
            | CqlType::SmallInt
            | CqlType::Int
            | CqlType::BigInt
            | CqlType::Counter
            | CqlType::VarInt
            | CqlType::Float
            | CqlType::Double
            | CqlType::Decimal
            | CqlType::Boolean
            | CqlType::Blob
            | CqlType::Uuid
            | CqlType::TimeUuid
            | CqlType::Inet
            | CqlType::Date
            | CqlType::Time
            | CqlType::Timestamp
            | CqlType::Duration
            | CqlType::Custom(_) => Ok(()),
        }
    }

    /// As CQL, with the fields of each user-defined type in braces behind its name: what
    /// [`crate::parse::cql::parse`] reads as this type again.
    pub fn definition(&self) -> String {
        Written { cql_type: self, fields: true }.to_string()
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
            | CqlType::Composite(_)
            | CqlType::Udt(_)
            | CqlType::Vector(..)
            | CqlType::Frozen(_)
            | CqlType::Custom(_) => return None,
        })
    }
}

impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Written { cql_type: self, fields: false }.fmt(f)
    }
}

/// A type as CQL text.
struct Written<'a> {
    cql_type: &'a CqlType,
    /// Whether user-defined types bring their fields.
    fields: bool,
}

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |cql_type| Written { cql_type, fields: self.fields };
        match self.cql_type {
            CqlType::List(t) => write!(f, "list<{}>", part(t)),
            CqlType::Set(t) => write!(f, "set<{}>", part(t)),
            CqlType::Map(k, v) => write!(f, "map<{}, {}>", part(k), part(v)),
            CqlType::Tuple(types) => {
                f.write_str("tuple<")?;
                for (i, t) in types.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { "" } else { ", " }, part(t))?;
                }
                f.write_str(">")
            }
            CqlType::Udt(udt) => self.write_udt(udt, f),
            CqlType::Vector(t, dimension) => write!(f, "vector<{}, {dimension}>", part(t)),
            CqlType::Frozen(t) => write!(f, "frozen<{}>", part(t)),
            CqlType::Composite(_) => {
                write!(f, "'{}'", self.cql_type.class_name().replace('\'', "''"))
            }
            CqlType::Custom(class) => write!(f, "'{}'", class.replace('\'', "''")),
            simple => f.write_str(simple.keyword().unwrap_or_default()),
        }
    }
}

impl Written<'_> {
    fn write_udt(&self, udt: &UdtType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !udt.keyspace.is_empty() {
            write!(f, "{}.", TypeName(&udt.keyspace))?;
        }
        write!(f, "{}", TypeName(&udt.name))?;
        if self.fields {
            f.write_str("{")?;
            for (i, (name, cql_type)) in udt.fields.iter().enumerate() {
                let comma = if i == 0 { "" } else { ", " };
                let cql_type = Written { cql_type, fields: true };
                write!(f, "{comma}{} {cql_type}", Identifier(name))?;
            }
            f.write_str("}")?;
        }
        Ok(())
    }
}

/// An identifier where a type stands: also quoted when it would be read as another type.
struct TypeName<'a>(&'a str);

impl fmt::Display for TypeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if cql::is_keyword(self.0) {
            write!(f, "\"{}\"", self.0)
        } else {
            Identifier(self.0).fmt(f)
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
        assert_eq!(t.check(), Ok(()));
        assert!(CqlType::Set(Box::new(t)).check().unwrap_err().contains("deeper than 64"));
    }

    #[test]
    fn a_type_of_exponentially_many_parts_is_refused_at_once() {
        let mut t = CqlType::Int;
        for _ in 0..60 {
            let fields = ["a", "b"].map(|name| (name.to_owned(), t.clone())).into();
            let (keyspace, name) = (String::new(), "twice".to_owned());
            t = CqlType::Udt(Arc::new(UdtType { keyspace, name, fields }));
        }
        assert!(t.check().unwrap_err().contains("more than 65536 parts"));
        assert_eq!(CqlType::Tuple(vec![CqlType::Int; MAX_PARTS - 1]).check(), Ok(()));
        assert!(CqlType::Tuple(vec![CqlType::Int; MAX_PARTS]).check().is_err());
    }

    #[test]
    fn elements_of_no_bytes_are_refused() {
        let vector = |t, dimension| CqlType::Vector(Box::new(t), dimension);
        let none = vector(CqlType::Int, 0);
        assert_eq!(none.check(), Ok(()));
        assert!(vector(none.clone(), 5).check().is_err());
        assert!(vector(CqlType::Frozen(Box::new(none.clone())), u32::MAX).check().is_err());
        assert!(vector(vector(none, 3), 3).check().is_err());
        // These carry their lengths, of one byte at least.
        assert_eq!(vector(vector(CqlType::Text, 0), 5).check(), Ok(()));
    }
}
