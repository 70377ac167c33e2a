//! Compares the codec with bytes that a real Cassandra stored. A script that shares no code with
//! turbocql captured these bytes.

mod support {
    pub mod json;
    pub mod value;
}

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value as Json;
use support::json::{hex, matches, unhex};
use support::value::{decode, encoded, plan};
use turbocql_codec::CqlType;
use turbocql_codec::cql_type::Identifier;
use turbocql_codec::parse::cql;

/// The name of each file of captured bytes, and the minimum number of its lines.
const STEMS: [(&str, usize); 27] = [
    ("ascii", 7),
    ("bigint", 80),
    ("blob", 5),
    ("boolean", 2),
    ("counter", 6),
    ("date", 20),
    ("decimal", 30),
    ("double", 30),
    ("duration", 30),
    ("empty", 11),
    ("float", 20),
    ("inet", 10),
    ("int", 40),
    ("list", 20),
    ("map", 15),
    ("set", 13),
    ("smallint", 20),
    ("text", 15),
    ("time", 10),
    ("timestamp", 20),
    ("timeuuid", 5),
    ("tinyint", 9),
    ("tuple", 20),
    ("udt", 15),
    ("uuid", 10),
    ("varint", 90),
    ("vector", 30),
];

struct Line {
    source: String,
    cql_type: CqlType,
    literal: String,
    /// `None` for a cell that is null in the server.
    bytes: Option<Vec<u8>>,
    /// `None` if the server's `toJson` fails for the value.
    json: Option<Json>,
}

impl Line {
    /// Whether the server stored the value without the last components or fields of its type. There
    /// are two kinds of such values: tuples for which `toJson` fails, and values of the type
    /// `grown`. A field was added to `grown` after its values had been stored.
    fn short(&self) -> bool {
        self.json.is_none() || self.cql_type.to_string() == "frozen<grown>"
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

fn objects(stem: &str) -> Vec<Json> {
    let text = fs::read_to_string(folder().join(stem).with_extension("jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns a map from the CQL name of each user-defined type to the text of its fields.
fn user_types() -> BTreeMap<String, String> {
    let mut types = BTreeMap::new();
    for object in STEMS.iter().flat_map(|(stem, _)| objects(stem)) {
        let Some(udt) = object.get("udt") else { continue };
        let fields: Vec<String> = udt["fields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|field| {
                let (name, field_type) = (field[0].as_str().unwrap(), field[1].as_str().unwrap());
                format!("{} {field_type}", Identifier(name))
            })
            .collect();
        let name = Identifier(udt["name"].as_str().unwrap()).to_string();
        types.insert(name, fields.join(", "));
    }
    types
}

/// Returns the text of a type, with the fields of each user-defined type after that type's name.
fn with_fields(text: &str, types: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut unread = text;
    while let Some(first) = unread.chars().next() {
        let length = if first == '"' {
            unread[1..].find('"').unwrap() + 2
        } else if first.is_alphabetic() {
            unread.find(|c: char| !c.is_alphanumeric()).unwrap_or(unread.len())
        } else {
            first.len_utf8()
        };
        out.push_str(&unread[..length]);
        if let Some(fields) = types.get(&unread[..length]) {
            // A field is a name and a type. Only the type can name a user-defined type.
            let fields = fields.split(", ").map(|field| {
                let (name, field_type) = field.rsplit_once(' ').unwrap();
                format!("{name} {}", with_fields(field_type, types))
            });
            out.push_str(&format!("{{{}}}", fields.collect::<Vec<_>>().join(", ")));
        }
        unread = &unread[length..];
    }
    out
}

fn lines(stem: &str) -> Vec<Line> {
    let types = user_types();
    let parse_line = |(i, object): (usize, Json)| {
        let text = with_fields(object["type"].as_str().unwrap(), &types);
        Line {
            source: format!("{stem}.jsonl:{}", i + 1),
            cql_type: cql::parse(&text).unwrap(),
            literal: object["literal"].as_str().unwrap().to_owned(),
            bytes: object["hex"].as_str().map(unhex),
            json: object["json"].as_str().map(|json| serde_json::from_str(json).unwrap()),
        }
    };
    objects(stem).into_iter().enumerate().map(parse_line).collect()
}

#[test]
fn every_file_is_listed_and_has_enough_lines() {
    let mut stems: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    stems.sort();
    assert_eq!(stems, STEMS.map(|(stem, _)| stem));
    for (stem, least) in STEMS {
        assert!(lines(stem).len() >= least, "{stem} has only {} lines", lines(stem).len());
    }
}

#[test]
fn cells_decode_to_what_the_server_shows() {
    for line in STEMS.iter().filter(|(stem, _)| *stem != "empty").flat_map(|(s, _)| lines(s)) {
        let Some(json) = &line.json else { continue };
        let decoded = line.bytes.as_deref().map(|bytes| {
            decode(&plan(&line.cql_type), bytes)
                .unwrap_or_else(|malformed| panic!("{}: {malformed}", line.source))
        });
        assert!(
            matches(&line.cql_type, decoded.as_ref(), json),
            "{}: {} {} is {decoded:?}, not {json}",
            line.source,
            line.cql_type,
            line.literal,
        );
    }
}

#[test]
fn values_encode_to_the_same_bytes() {
    let mut short = 0;
    for line in STEMS.iter().filter(|(stem, _)| *stem != "empty").flat_map(|(s, _)| lines(s)) {
        let Some(bytes) = &line.bytes else { continue };
        let plan = plan(&line.cql_type);
        let encoded_bytes = encoded(&plan, &decode(&plan, bytes).unwrap());
        if line.short() {
            // Fields that are missing at the end of `bytes` decode as nulls. Encoding writes these
            // nulls, so the result is longer.
            short += 1;
            assert!(encoded_bytes.len() > bytes.len(), "{}", line.source);
            let nulls = "ffffffff".repeat((encoded_bytes.len() - bytes.len()) / 4);
            assert_eq!(hex(&encoded_bytes), hex(bytes) + &nulls, "{}", line.source);
        } else {
            assert_eq!(hex(&encoded_bytes), hex(bytes), "{}: {}", line.source, line.literal);
        }
    }
    assert_eq!(short, 6, "short tuples and user-defined types");
}

#[test]
fn zero_bytes_are_no_value_of_these_types() {
    for line in lines("empty") {
        assert_eq!(line.bytes.as_deref(), Some(&[][..]), "{}", line.source);
        assert!(decode(&plan(&line.cql_type), &[]).is_err(), "{}", line.source);
    }
}
