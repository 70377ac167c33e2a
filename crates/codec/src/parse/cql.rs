//! Parses types in CQL syntax: `map<text, frozen<list<int>>>`.
//!
//! In CQL, a user-defined type is written as a name only. Here, its fields can follow the name in
//! braces, so that the text is complete: `frozen<address{street text, zip int}>`.

use std::sync::Arc;

use super::{ParseError, SHOWN, marshal};
use crate::cql_type::names::{GENERIC, simple};
use crate::cql_type::{CqlType, MAX_DEPTH, MAX_PARTS, UdtType};

/// Takes the keyspace and the name of a user-defined type that is written without its fields, and
/// returns the type, or `None` if there is no such type. The keyspace is empty if none is written.
pub type Resolve<'a> = dyn FnMut(&str, &str) -> Option<CqlType> + 'a;

/// Parses one type. All user-defined types in it must be written with their fields.
pub fn parse(text: &str) -> Result<CqlType, ParseError> {
    parse_with(text, &mut |_, _| None)
}

/// Parses one type. User-defined types that are written without their fields are looked up by
/// `resolve`.
///
/// The depth of types that were looked up is not checked here, but by [`CqlType::check`].
pub fn parse_with(text: &str, resolve: &mut Resolve<'_>) -> Result<CqlType, ParseError> {
    let mut parser = Parser { text, position: 0, resolve, parts: 0 };
    let cql_type = parser.cql_type(0)?;
    parser.skip_space();
    if parser.position < text.len() {
        return Err(parser.error("unexpected text"));
    }
    Ok(cql_type)
}

struct Parser<'a, 'r> {
    text: &'a str,
    position: usize,
    resolve: &'r mut Resolve<'r>,
    /// The sum of [`CqlType::parts`] of all types that were looked up. The parser limits this
    /// number, because even a short text can name very large types.
    parts: usize,
}

impl<'a> Parser<'a, '_> {
    fn error(&self, reason: impl Into<String>) -> ParseError {
        ParseError::new("a CQL type", self.text, self.position, reason)
    }

    fn unparsed(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn skip_space(&mut self) {
        let unparsed = self.unparsed();
        self.position += unparsed.len() - unparsed.trim_start().len();
    }

    fn accept(&mut self, mark: char) -> bool {
        self.skip_space();
        let accepted = self.unparsed().starts_with(mark);
        if accepted {
            self.position += mark.len_utf8();
        }
        accepted
    }

    fn expect(&mut self, mark: char) -> Result<(), ParseError> {
        if self.accept(mark) { Ok(()) } else { Err(self.error(format!("expected {mark:?}"))) }
    }

    /// Reads text between two `quote`s. A doubled quote inside it means one quote.
    fn quoted(&mut self, quote: char) -> Result<String, ParseError> {
        let start = self.position;
        let mut name = String::new();
        let mut chars = self.unparsed()[1..].char_indices().peekable();
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

    /// Reads a name, and whether it was quoted. Unquoted names become lower case.
    fn name(&mut self) -> Result<(String, bool), ParseError> {
        self.skip_space();
        if self.unparsed().starts_with('"') {
            return Ok((self.quoted('"')?, true));
        }
        let unparsed = self.unparsed();
        let end = unparsed
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(unparsed.len());
        if end == 0 {
            return Err(self.error("expected a type name"));
        }
        self.position += end;
        Ok((unparsed[..end].to_ascii_lowercase(), false))
    }

    fn cql_type(&mut self, depth: usize) -> Result<CqlType, ParseError> {
        if depth >= MAX_DEPTH {
            return Err(self.error(format!("types nest deeper than {MAX_DEPTH} levels")));
        }
        self.skip_space();
        if self.unparsed().starts_with('\'') {
            let start = self.position + 1;
            let class_name = self.quoted('\'')?;
            return marshal::parse_within(&class_name, depth).map_err(|error| {
                self.position = start + error.position;
                self.error(error.reason)
            });
        }
        let (name, quoted) = self.name()?;
        if !quoted && let Some(simple) = simple(&name) {
            return Ok(simple);
        }
        if quoted || !GENERIC.contains(&name.as_str()) {
            return self.udt(name, depth);
        }
        self.expect('<')?;
        // CQL has no tuples without components, but code can make a `CqlType` that is such a tuple.
        if name == "tuple" && self.accept('>') {
            return Ok(CqlType::Tuple(Vec::new()));
        }
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

    fn dimension(&mut self) -> Result<u32, ParseError> {
        self.skip_space();
        let unparsed = self.unparsed();
        let end = unparsed.find(|c: char| !c.is_ascii_digit()).unwrap_or(unparsed.len());
        let dimension = dimension(&unparsed[..end]).ok_or_else(|| self.error(DIMENSION))?;
        self.position += end;
        Ok(dimension)
    }

    fn udt(&mut self, first: String, depth: usize) -> Result<CqlType, ParseError> {
        let (keyspace, name) =
            if self.accept('.') { (first, self.name()?.0) } else { (String::new(), first) };
        if !self.accept('{') {
            let definition = (self.resolve)(&keyspace, &name).ok_or_else(|| {
                let shown: String = name.chars().take(SHOWN).collect();
                self.error(format!(
                    "unknown type {shown:?} (a user-defined type needs its fields in braces after \
                     its name, or a definition; a Java class name needs single quotes)"
                ))
            })?;
            self.parts += definition.parts();
            if self.parts > MAX_PARTS {
                return Err(self.error(format!("the type has more than {MAX_PARTS} parts")));
            }
            return Ok(definition);
        }
        let mut fields = Vec::new();
        while !self.accept('}') {
            if !fields.is_empty() {
                self.expect(',')?;
            }
            let (field, _) = self.name()?;
            fields.push((field, self.cql_type(depth + 1)?));
        }
        Ok(CqlType::Udt(Arc::new(UdtType { keyspace, name, fields })))
    }
}

pub(super) const DIMENSION: &str = "expected a dimension from 0 to 2147483647";

/// Returns the dimension with these digits, or `None` if they are not a number from 0 to
/// 2147483647.
pub(super) fn dimension(digits: &str) -> Option<u32> {
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number: i32 = digits.parse().ok()?;
    u32::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parsed_types_print_as_they_were_written() {
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
    fn fields_of_user_defined_types_are_parsed() {
        let parsed = parse("frozen<app.\"Home \"\"Address\"{street text, \"Zip\" int}>").unwrap();
        let CqlType::Udt(udt) = parsed.thawed() else { panic!("{parsed}") };
        assert_eq!((udt.keyspace.as_str(), udt.name.as_str()), ("app", "Home \"Address"));
        assert_eq!(udt.fields[1], ("Zip".to_owned(), CqlType::Int));
    }

    #[test]
    fn definitions_are_parsed_as_the_same_type() {
        for text in [
            "frozen<app.\"Home\"{street text, \"Zip\" \"int\"{a int, list list<int>}}>",
            "empty{}",
            "'org.apache.cassandra.db.marshal.CompositeType(org.apache.cassandra.db.marshal.Int32Type)'",
            "vector<uuid, 0>",
            "list<tuple<>>",
        ] {
            let parsed = parse(text).unwrap();
            assert_eq!(parsed.definition(), text);
            assert_eq!(parse(&parsed.definition()).unwrap(), parsed);
        }
    }

    #[test]
    fn names_are_looked_up() {
        let mut resolve = |keyspace: &str, name: &str| {
            ((keyspace, name) == ("app", "Tag")).then_some(CqlType::Boolean)
        };
        let parsed = parse_with("list<frozen<app.\"Tag\">>", &mut resolve).unwrap();
        assert_eq!(parsed.to_string(), "list<frozen<boolean>>");
        assert!(parse_with("set<tag>", &mut resolve).unwrap_err().reason.contains("unknown type"));
    }

    #[test]
    fn errors_say_where() {
        for (text, position) in [
            ("", 0),
            ("list<", 5),
            ("list<int", 8),
            ("vector<int, -1>", 12),
            ("vector<int, 2147483648>", 12),
            ("set<'ListType(Int32Type'>", 23),
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
