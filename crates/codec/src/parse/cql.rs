//! CQL types as CQL writes them: `map<text, frozen<list<int>>>`.
//!
//! A user-defined type is only a name in CQL; to have one in a type that stands alone, write its
//! fields behind it: `frozen<address{street text, zip int}>`.

use std::fmt;
use std::sync::Arc;

use crate::cql_type::{CqlType, MAX_DEPTH, UdtType};

/// Text that is not a CQL type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub text: String,
    /// Byte offset of the trouble.
    pub position: usize,
    pub reason: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a CQL type: {:?}: {} at position {}", self.text, self.reason, self.position)
    }
}

impl std::error::Error for ParseError {}

/// Reads one type.
pub fn parse(text: &str) -> Result<CqlType, ParseError> {
    let mut parser = Parser { text, position: 0 };
    let cql_type = parser.cql_type(0)?;
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
        ParseError { text: self.text.to_owned(), position: self.position, reason: reason.into() }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start().len();
    }

    fn accept(&mut self, mark: char) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(mark);
        if found {
            self.position += mark.len_utf8();
        }
        found
    }

    fn expect(&mut self, mark: char) -> Result<(), ParseError> {
        if self.accept(mark) { Ok(()) } else { Err(self.error(format!("expected {mark:?}"))) }
    }

    /// Text between two `quote`s, in which a doubled one stands for itself.
    fn quoted(&mut self, quote: char) -> Result<String, ParseError> {
        let start = self.position;
        let mut name = String::new();
        let mut chars = self.rest()[1..].char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            if c != quote {
                name.push(c);
            } else if chars.peek().is_some_and(|&(_, next)| next == quote) {
                chars.next();
                name.push(quote);
            } else {
                self.position = start + 1 + i + 1;
                return Ok(name);
            }
        }
        Err(self.error(format!("no closing {quote}")))
    }

    /// A name, and whether it was quoted. Unquoted names are lower case.
    fn name(&mut self) -> Result<(String, bool), ParseError> {
        self.skip_space();
        if self.rest().starts_with('"') {
            return Ok((self.quoted('"')?, true));
        }
        let rest = self.rest();
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.error("expected a type name"));
        }
        self.position += end;
        Ok((rest[..end].to_ascii_lowercase(), false))
    }

    fn cql_type(&mut self, depth: usize) -> Result<CqlType, ParseError> {
        if depth >= MAX_DEPTH {
            return Err(self.error(format!("types nest deeper than {MAX_DEPTH} levels")));
        }
        self.skip_space();
        if self.rest().starts_with('\'') {
            return Ok(CqlType::Custom(self.quoted('\'')?));
        }
        let (name, quoted) = self.name()?;
        if !quoted && let Some(simple) = simple(&name) {
            return Ok(simple);
        }
        let generic =
            matches!(name.as_str(), "list" | "set" | "map" | "tuple" | "vector" | "frozen");
        if quoted || !generic {
            return self.udt(name, depth);
        }
        self.expect('<')?;
        let first = self.cql_type(depth + 1)?;
        let cql_type = match name.as_str() {
            "list" => CqlType::List(Box::new(first)),
            "set" => CqlType::Set(Box::new(first)),
            "frozen" => CqlType::Frozen(Box::new(first)),
            "map" => {
                self.expect(',')?;
                CqlType::Map(Box::new(first), Box::new(self.cql_type(depth + 1)?))
            }
            "vector" => {
                self.expect(',')?;
                CqlType::Vector(Box::new(first), self.dimension()?)
            }
            _ => {
                let mut types = vec![first];
                while self.accept(',') {
                    types.push(self.cql_type(depth + 1)?);
                }
                CqlType::Tuple(types)
            }
        };
        self.expect('>')?;
        Ok(cql_type)
    }

    fn dimension(&mut self) -> Result<u16, ParseError> {
        self.skip_space();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        match rest[..end].parse() {
            Ok(dimension) if dimension > 0 => {
                self.position += end;
                Ok(dimension)
            }
            _ => Err(self.error("expected a dimension from 1 to 65535")),
        }
    }

    fn udt(&mut self, first: String, depth: usize) -> Result<CqlType, ParseError> {
        let (keyspace, name) =
            if self.accept('.') { (first, self.name()?.0) } else { (String::new(), first) };
        if !self.accept('{') {
            return Err(self.error(format!(
                "unknown type {name:?}; the fields of a user-defined type follow it in braces"
            )));
        }
        let mut fields = Vec::new();
        loop {
            let (field, _) = self.name()?;
            fields.push((field, self.cql_type(depth + 1)?));
            if !self.accept(',') {
                break;
            }
        }
        self.expect('}')?;
        Ok(CqlType::Udt(Arc::new(UdtType { keyspace, name, fields })))
    }
}

fn simple(name: &str) -> Option<CqlType> {
    Some(match name {
        "ascii" => CqlType::Ascii,
        "text" | "varchar" => CqlType::Text,
        "tinyint" => CqlType::TinyInt,
        "smallint" => CqlType::SmallInt,
        "int" => CqlType::Int,
        "bigint" => CqlType::BigInt,
        "counter" => CqlType::Counter,
        "varint" => CqlType::VarInt,
        "float" => CqlType::Float,
        "double" => CqlType::Double,
        "decimal" => CqlType::Decimal,
        "boolean" => CqlType::Boolean,
        "blob" => CqlType::Blob,
        "uuid" => CqlType::Uuid,
        "timeuuid" => CqlType::TimeUuid,
        "inet" => CqlType::Inet,
        "date" => CqlType::Date,
        "time" => CqlType::Time,
        "timestamp" => CqlType::Timestamp,
        "duration" => CqlType::Duration,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_parsed_prints_back() {
        for text in [
            "int",
            "map<text, frozen<list<int>>>",
            "tuple<int, text, vector<float, 3>>",
            "set<frozen<map<timeuuid, duration>>>",
            "'org.example.Odd''Type'",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse(" List < VARCHAR > ").unwrap().to_string(), "list<text>");
    }

    #[test]
    fn user_defined_types_bring_their_fields() {
        let parsed = parse("frozen<app.\"Home \"\"Address\"{street text, \"Zip\" int}>").unwrap();
        let CqlType::Udt(udt) = parsed.thawed() else { panic!("{parsed}") };
        assert_eq!((udt.keyspace.as_str(), udt.name.as_str()), ("app", "Home \"Address"));
        assert_eq!(udt.fields[1], ("Zip".to_owned(), CqlType::Int));
    }

    #[test]
    fn errors_say_where() {
        for (text, position) in [
            ("", 0),
            ("list<", 5),
            ("list<int", 8),
            ("vector<int, 0>", 12),
            ("int x", 4),
            ("nothing", 7),
        ] {
            assert_eq!(parse(text).unwrap_err().position, position, "{text}");
        }
        assert!(parse(&"list<".repeat(100_000)).unwrap_err().reason.contains("deeper"));
    }

    proptest! {
        #[test]
        fn never_panics(text in "[a-z<>,.{}\"' 0-9ü]{0,60}") {
            let _ = parse(&text);
        }
    }
}
