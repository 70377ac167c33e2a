//! Parses and writes types as names of the server's Java classes with their parameters. The
//! protocol's custom types and old system tables contain such names.
//!
//! An example is
//! `org.apache.cassandra.db.marshal.MapType(org.apache.cassandra.db.marshal.UTF8Type,...)`. The
//! package may be left out. In a `UserType`, the name of the user-defined type and the names of its
//! fields are in hexadecimal.

use std::fmt;
use std::sync::Arc;

use super::ParseError;
use super::cql::{DIMENSION, dimension};
use crate::cql_type::{CqlType, MAX_DEPTH, UdtType};

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// Parses one type. A class that this crate does not know becomes a [`CqlType::Custom`].
pub fn parse(text: &str) -> Result<CqlType, ParseError> {
    parse_within(text, 0)
}

/// Parses one type that is nested in `depth` other types.
pub(super) fn parse_within(text: &str, depth: usize) -> Result<CqlType, ParseError> {
    let mut parser = Parser { text, position: 0 };
    let cql_type = parser.class(depth)?;
    parser.skip_space();
    if parser.position < text.len() {
        return Err(parser.error("unexpected text"));
    }
    Ok(cql_type)
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Parser<'a> {
    fn error(&self, reason: impl Into<String>) -> ParseError {
        ParseError::new("a Java class name of a type", self.text, self.position, reason)
    }

    fn unparsed(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn skip_space(&mut self) {
        let unparsed = self.unparsed();
        self.position += unparsed.len() - unparsed.trim_start().len();
    }

    fn at(&mut self, mark: char) -> bool {
        self.skip_space();
        self.unparsed().starts_with(mark)
    }

    fn accept(&mut self, mark: char) -> bool {
        let accepted = self.at(mark);
        if accepted {
            self.position += mark.len_utf8();
        }
        accepted
    }

    fn expect(&mut self, mark: char) -> Result<(), ParseError> {
        if self.accept(mark) { Ok(()) } else { Err(self.error(format!("expected {mark:?}"))) }
    }

    /// Reads text up to the next whitespace or the next `(`, `)`, `,` or `:`. The text may be
    /// empty.
    fn word(&mut self) -> &'a str {
        self.skip_space();
        let unparsed = self.unparsed();
        let end = unparsed
            .find(|c: char| matches!(c, '(' | ')' | ',' | ':') || c.is_whitespace())
            .unwrap_or(unparsed.len());
        self.position += end;
        &unparsed[..end]
    }

    fn class(&mut self, depth: usize) -> Result<CqlType, ParseError> {
        if depth >= MAX_DEPTH {
            return Err(self.error(format!("types nest deeper than {MAX_DEPTH} levels")));
        }
        self.skip_space();
        let start = self.position;
        let name = self.word();
        if name.is_empty() {
            return Err(self.error("expected a class name"));
        }
        let class_name = match name.strip_prefix(PACKAGE) {
            Some(class_name) => class_name,
            None if name.contains('.') => "",
            None => name,
        };
        let boxed = |parser: &mut Self| parser.class(depth + 1).map(Box::new);
        let parameters = matches!(
            class_name,
            "ListType"
                | "SetType"
                | "MapType"
                | "TupleType"
                | "VectorType"
                | "UserType"
                | "FrozenType"
                | "ReversedType"
                | "CompositeType"
        );
        if !parameters {
            if let Some(scalar) = scalar(class_name)
                && !self.at('(')
            {
                return Ok(scalar);
            }
            self.skip_space();
            self.skip_parameters()?;
            return Ok(CqlType::Custom(self.text[start..self.position].trim_end().to_owned()));
        }
        self.expect('(')?;
        let cql_type = match class_name {
            "ListType" => CqlType::List(boxed(self)?),
            "SetType" => CqlType::Set(boxed(self)?),
            "FrozenType" => CqlType::Frozen(boxed(self)?),
            // `ReversedType` reverses the order of rows. Its values are encoded like those of its
            // parameter.
            "ReversedType" => self.class(depth + 1)?,
            "MapType" => {
                let key = boxed(self)?;
                self.expect(',')?;
                CqlType::Map(key, boxed(self)?)
            }
            "VectorType" => {
                let element = boxed(self)?;
                self.expect(',')?;
                let digits = self.word();
                let dimension = dimension(digits).ok_or_else(|| self.error(DIMENSION))?;
                CqlType::Vector(element, dimension)
            }
            "UserType" => self.udt(depth)?,
            _ => {
                let mut types = Vec::new();
                while !self.at(')') {
                    if !types.is_empty() {
                        self.expect(',')?;
                    }
                    types.push(self.class(depth + 1)?);
                }
                if class_name == "TupleType" {
                    CqlType::Tuple(types)
                } else {
                    CqlType::Composite(types)
                }
            }
        };
        self.expect(')')?;
        Ok(cql_type)
    }

    /// Skips parentheses and their content, if there are any at this position.
    fn skip_parameters(&mut self) -> Result<(), ParseError> {
        let mut open = 0usize;
        for (i, c) in self.unparsed().char_indices() {
            match c {
                '(' => open += 1,
                ')' if open == 0 => return Ok(()),
                ')' => open -= 1,
                _ if open == 0 => return Ok(()),
                _ => continue,
            }
            if open == 0 {
                self.position += i + 1;
                return Ok(());
            }
        }
        if open == 0 { Ok(()) } else { Err(self.error("no closing ')'")) }
    }

    fn udt(&mut self, depth: usize) -> Result<CqlType, ParseError> {
        let keyspace = self.word().to_owned();
        self.expect(',')?;
        let name = self.hex_name()?;
        let mut fields = Vec::new();
        while self.accept(',') {
            let field = self.hex_name()?;
            self.expect(':')?;
            fields.push((field, self.class(depth + 1)?));
        }
        Ok(CqlType::Udt(Arc::new(UdtType { keyspace, name, fields })))
    }

    fn hex_name(&mut self) -> Result<String, ParseError> {
        let digits = self.word();
        let nibbles: Option<Vec<u8>> =
            digits.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
        nibbles
            .filter(|nibbles| nibbles.len() % 2 == 0)
            .map(|nibbles| nibbles.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
            .and_then(|name| String::from_utf8(name).ok())
            .ok_or_else(|| self.error("expected a name in hexadecimal"))
    }
}

fn scalar(class: &str) -> Option<CqlType> {
    Some(match class {
        "AsciiType" => CqlType::Ascii,
        "UTF8Type" => CqlType::Text,
        "ByteType" => CqlType::TinyInt,
        "ShortType" => CqlType::SmallInt,
        "Int32Type" => CqlType::Int,
        "LongType" => CqlType::BigInt,
        "CounterColumnType" => CqlType::Counter,
        "IntegerType" => CqlType::VarInt,
        "FloatType" => CqlType::Float,
        "DoubleType" => CqlType::Double,
        "DecimalType" => CqlType::Decimal,
        "BooleanType" => CqlType::Boolean,
        "BytesType" => CqlType::Blob,
        // `LexicalUUIDType` is older than `UUIDType`. Both have the same encoding, but sort values
        // in different orders.
        "UUIDType" | "LexicalUUIDType" => CqlType::Uuid,
        "TimeUUIDType" => CqlType::TimeUuid,
        "InetAddressType" => CqlType::Inet,
        "SimpleDateType" => CqlType::Date,
        "TimeType" => CqlType::Time,
        // `DateType` is older than `TimestampType`. Both have the same encoding, but sort values in
        // different orders.
        "TimestampType" | "DateType" => CqlType::Timestamp,
        "DurationType" => CqlType::Duration,
        _ => return None,
    })
}

impl CqlType {
    /// Returns the type as a Java class name, with the package. [`parse`] reads this name as the
    /// same type.
    pub fn class_name(&self) -> String {
        ClassName(self).to_string()
    }
}

struct ClassName<'a>(&'a CqlType);

impl fmt::Display for ClassName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |cql_type| ClassName(cql_type);
        let class = match self.0 {
            CqlType::Ascii => "AsciiType",
            CqlType::Text => "UTF8Type",
            CqlType::TinyInt => "ByteType",
            CqlType::SmallInt => "ShortType",
            CqlType::Int => "Int32Type",
            CqlType::BigInt => "LongType",
            CqlType::Counter => "CounterColumnType",
            CqlType::VarInt => "IntegerType",
            CqlType::Float => "FloatType",
            CqlType::Double => "DoubleType",
            CqlType::Decimal => "DecimalType",
            CqlType::Boolean => "BooleanType",
            CqlType::Blob => "BytesType",
            CqlType::Uuid => "UUIDType",
            CqlType::TimeUuid => "TimeUUIDType",
            CqlType::Inet => "InetAddressType",
            CqlType::Date => "SimpleDateType",
            CqlType::Time => "TimeType",
            CqlType::Timestamp => "TimestampType",
            CqlType::Duration => "DurationType",
            CqlType::List(t) => return write!(f, "{PACKAGE}ListType({})", part(t)),
            CqlType::Set(t) => return write!(f, "{PACKAGE}SetType({})", part(t)),
            CqlType::Map(k, v) => return write!(f, "{PACKAGE}MapType({},{})", part(k), part(v)),
            CqlType::Tuple(types) => return Self::write_all("TupleType", types, f),
            CqlType::Composite(types) => return Self::write_all("CompositeType", types, f),
            CqlType::Udt(udt) => return Self::write_udt(udt, f),
            CqlType::Vector(t, dimension) => {
                return write!(f, "{PACKAGE}VectorType({} , {dimension})", part(t));
            }
            CqlType::Frozen(t) => return write!(f, "{PACKAGE}FrozenType({})", part(t)),
            CqlType::Custom(class) => return f.write_str(class),
        };
        write!(f, "{PACKAGE}{class}")
    }
}

impl ClassName<'_> {
    fn write_all(class: &str, types: &[CqlType], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PACKAGE}{class}(")?;
        for (i, cql_type) in types.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { "," }, ClassName(cql_type))?;
        }
        f.write_str(")")
    }

    fn write_udt(udt: &UdtType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PACKAGE}UserType({},{}", udt.keyspace, Hex(&udt.name))?;
        for (name, cql_type) in &udt.fields {
            write!(f, ",{}:{}", Hex(name), ClassName(cql_type))?;
        }
        f.write_str(")")
    }
}

struct Hex<'a>(&'a str);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn classes_as_the_server_prints_them() {
        for (class_name, cql) in [
            ("org.apache.cassandra.db.marshal.Int32Type", "int"),
            (" UTF8Type ", "text"),
            ("ReversedType(DateType)", "timestamp"),
            ("FrozenType(ListType(LongType))", "frozen<list<bigint>>"),
            ("MapType( UTF8Type , SimpleDateType )", "map<text, date>"),
            (
                "org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.FloatType , 3)",
                "vector<float, 3>",
            ),
            ("TupleType(Int32Type,ByteType)", "tuple<int, tinyint>"),
            ("com.example.Thing(a, (b) c)", "'com.example.Thing(a, (b) c)'"),
            ("com.example.Int32Type", "'com.example.Int32Type'"),
            ("DynamicCompositeType(a=>UTF8Type)", "'DynamicCompositeType(a=>UTF8Type)'"),
            ("SetType(EmptyType)", "set<'EmptyType'>"),
            ("Int32Type(x)", "'Int32Type(x)'"),
            ("TupleType( )", "tuple<>"),
            (
                "CompositeType(com.example.Thing (x) ,LexicalUUIDType)",
                "'org.apache.cassandra.db.marshal.CompositeType(com.example.Thing (x),org.apache.cassandra.db.marshal.UUIDType)'",
            ),
        ] {
            let parsed = parse(class_name).unwrap();
            assert_eq!(parsed.to_string(), cql);
            assert_eq!(parse(&parsed.class_name()).unwrap(), parsed);
        }
    }

    #[test]
    fn user_types_have_their_names_in_hexadecimal() {
        let parsed = parse("UserType(app,5a6970,67c3b6:Int32Type,61:ListType(UTF8Type))").unwrap();
        assert_eq!(parsed.definition(), "app.\"Zip\"{\"gö\" int, a list<text>}");
        assert_eq!(parse(&parsed.class_name()).unwrap(), parsed);
        assert_eq!(parse("UserType(,)").unwrap().definition(), "\"\"{}");
    }

    #[test]
    fn errors_say_where() {
        for (text, position) in [
            ("", 0),
            ("ListType", 8),
            ("ListType(Int32Type", 18),
            ("ListType(Int32Type,Int32Type)", 18),
            ("VectorType(Int32Type,x)", 22),
            ("UserType(ks,6)", 13),
            ("UserType(ks,ff)", 14),
            ("Int32Type)", 9),
            ("a.B(c", 3),
        ] {
            assert_eq!(parse(text).unwrap_err().position, position, "{text}");
        }
        assert!(parse(&"ListType(".repeat(100_000)).unwrap_err().reason.contains("deeper"));
        assert!(parse(&"a.B(".repeat(100_000)).unwrap_err().reason.contains("closing"));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(ListType|UserType|VectorType|a\\.b|[(),: 0-9ü]){0,20}") {
            if let Ok(parsed) = parse(&text) {
                prop_assert_eq!(parse(&parsed.class_name()).unwrap(), parsed);
            }
        }
    }
}
