//! CQL types as trees, read from a statement's metadata or from CQL text.

pub mod element_width;
pub mod names;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use self::element_width::element_width;

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
    /// The element type and the dimension.
    Vector(Box<CqlType>, u32),
    /// Java's `CompositeType`, for which CQL has no name.
    Composite(Vec<CqlType>),
    /// `frozen<...>` changes nothing on the wire. It is kept so that a parsed type prints as it was
    /// written.
    Frozen(Box<CqlType>),
    /// A Java class for which CQL has no name. Its values are bytes.
    Custom(String),
}

/// A user-defined type: its keyspace and name, and its fields in declaration order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UdtType {
    /// Empty when the type was written without a keyspace.
    pub keyspace: String,
    pub name: String,
    pub fields: Vec<(String, CqlType)>,
}

/// The maximum depth of nested types. Cassandra's own limit is far lower. Because of this limit,
/// functions that recurse over a type or over a value of the type need only a small stack.
pub const MAX_DEPTH: usize = 64;

/// The maximum number of types in the tree of one type. A type that occurs several times in the
/// tree counts each time.
pub const MAX_PARTS: usize = 65_536;

impl CqlType {
    /// Returns the type without any `frozen<...>` around it.
    pub fn thawed(&self) -> &CqlType {
        let mut inner = self;
        while let CqlType::Frozen(next) = inner {
            inner = next;
        }
        inner
    }

    /// Returns the number of types in the tree, this one included. Counting stops at [`MAX_PARTS`]
    /// + 1.
    pub fn parts(&self) -> usize {
        let mut seen = 0;
        // Counting also stops at an error in the type. `check` reports this error.
        let _ = self.check_parts(&mut seen, MAX_DEPTH);
        seen
    }

    /// Refuses types that cannot be compiled: types that are too deep or too large, and vectors
    /// whose elements have zero bytes. Otherwise, a vector of zero bytes could claim any number of
    /// elements. Duplicate field names are refused too, and so are keyspace names that a Java class
    /// name cannot contain.
    pub fn check(&self) -> Result<(), String> {
        self.check_parts(&mut 0, MAX_DEPTH)
    }

    /// Fails as soon as more than [`MAX_PARTS`] types were counted. A full count could take too
    /// long, because the same type can occur exponentially often in the tree.
    fn check_parts(&self, seen: &mut usize, depth_left: usize) -> Result<(), String> {
        let Some(depth_left) = depth_left.checked_sub(1) else {
            return Err(format!("the type nests deeper than {MAX_DEPTH} levels"));
        };
        *seen += 1;
        if *seen > MAX_PARTS {
            return Err(format!("the type has more than {MAX_PARTS} parts"));
        }
        match self {
            CqlType::List(t) | CqlType::Set(t) | CqlType::Frozen(t) => {
                t.check_parts(seen, depth_left)
            }
            CqlType::Vector(t, _) => {
                t.check_parts(seen, depth_left)?;
                if element_width(t) == Some(0) {
                    return Err("the elements of a vector cannot be 0 bytes wide".to_owned());
                }
                Ok(())
            }
            CqlType::Map(k, v) => {
                k.check_parts(seen, depth_left)?;
                v.check_parts(seen, depth_left)
            }
            CqlType::Tuple(types) | CqlType::Composite(types) => {
                types.iter().try_for_each(|t| t.check_parts(seen, depth_left))
            }
            CqlType::Udt(udt) => {
                udt.fields.iter().try_for_each(|(_, t)| t.check_parts(seen, depth_left))?;
                // A Java class name has no syntax to quote these characters.
                let marks = |c: char| matches!(c, '(' | ')' | ',' | ':') || c.is_whitespace();
                if udt.keyspace.contains(marks) {
                    return Err(format!("{:?} is not a valid keyspace name", udt.keyspace));
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

    /// Returns the type as CQL, with the fields of each user-defined type in braces after its name.
    /// [`crate::parse::cql::parse`] reads the text as the same type.
    pub fn definition(&self) -> String {
        Written { cql_type: self, fields: true }.to_string()
    }

    /// Returns the kind of type: the CQL keyword of a scalar type, or `list`, `set`, `map`,
    /// `tuple`, `composite`, `udt`, `vector`, `frozen`, `custom`.
    pub fn kind(&self) -> &'static str {
        match self {
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
            CqlType::List(_) => "list",
            CqlType::Set(_) => "set",
            CqlType::Map(..) => "map",
            CqlType::Tuple(_) => "tuple",
            CqlType::Composite(_) => "composite",
            CqlType::Udt(_) => "udt",
            CqlType::Vector(..) => "vector",
            CqlType::Frozen(_) => "frozen",
            CqlType::Custom(_) => "custom",
        }
    }

    /// Returns the types that this type directly contains: the types of its elements, of its key
    /// and value, of its components or of its fields. For `frozen`, returns the type inside it.
    pub fn subtypes(&self) -> Vec<&CqlType> {
        match self {
            CqlType::List(t) | CqlType::Set(t) | CqlType::Vector(t, _) | CqlType::Frozen(t) => {
                vec![t]
            }
            CqlType::Map(key, value) => vec![key, value],
            CqlType::Tuple(types) | CqlType::Composite(types) => types.iter().collect(),
            CqlType::Udt(udt) => udt.fields.iter().map(|(_, t)| t).collect(),
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
            | CqlType::Custom(_) => Vec::new(),
        }
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
    /// Whether user-defined types are written with their fields.
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
            | CqlType::Duration => f.write_str(self.cql_type.kind()),
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

/// The name of a user-defined type. It is quoted if [`Identifier`] would quote it, or if CQL would
/// read the name without quotes as a built-in type.
struct TypeName<'a>(&'a str);

impl fmt::Display for TypeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if names::is_keyword(self.0) {
            write!(f, "\"{}\"", self.0)
        } else {
            Identifier(self.0).fmt(f)
        }
    }
}

/// An identifier in CQL. It is quoted unless it consists of lower-case ASCII letters, digits and
/// underscores, and begins with a letter.
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
        // These elements are accepted: each is written with its length, which takes at least one
        // byte.
        assert_eq!(vector(vector(CqlType::Text, 0), 5).check(), Ok(()));
    }
}
