//! What the fuzzer's targets do with an input: one function each, which panics on a finding.
//!
//! `fuzz/` calls them with bytes that it makes up, the tests with those it has kept.

use std::sync::Arc;

use bytes::Bytes;
use turbocql_codec::message::result::{Head, Rows};
use turbocql_codec::parse::{cql, marshal};
use turbocql_codec::{Column, CqlType, Page, Plan, UdtType, page, wire};

use super::value::{decode, encode, encoded, plan};

/// A type and bytes: whatever they are, they decode or are refused.
pub fn value(data: &[u8]) {
    let mut input = Input(data);
    let cql_type = input.cql_type();
    if cql_type.check().is_err() {
        return;
    }
    reads_back(&cql_type);
    let plan = plan(&cql_type);
    if let Some((_, shorter)) = input.0.split_last() {
        let _ = decode(&plan, shorter);
    }
    let Ok(value) = decode(&plan, input.0) else { return };
    // Some values are read that are not written, such as durations of mixed signs.
    let mut written = Vec::new();
    if encode(&plan, &value, &mut written).is_err() {
        return;
    }
    let decoded = decode(&plan, &written);
    assert_eq!(decoded.as_ref(), Ok(&value), "{cql_type}");
    assert_eq!(encoded(&plan, &value), written, "{cql_type}");
    // The plan tells its type, and that has the same plan.
    let same = self::plan(&plan.cql_type());
    assert_eq!(decode(&same, &written), decoded, "{cql_type}");
}

/// Columns, a count of rows, and bytes: every cell is found, and decodes or is refused.
pub fn page(data: &[u8]) {
    let mut input = Input(data);
    let types: Vec<CqlType> = (0..input.byte() % 6).map(|_| input.cql_type()).collect();
    if types.iter().any(|cql_type| cql_type.check().is_err()) {
        return;
    }
    let plans: Vec<Plan<()>> = types.iter().map(plan).collect();
    let row_count = match input.byte() {
        few @ ..250 => few.into(),
        _ => input.number() as usize,
    };
    let columns = types.into_iter().map(|cql_type| Column {
        keyspace: "ks".into(),
        table: "t".into(),
        name: "c".to_owned(),
        cql_type,
    });
    let rows = Bytes::copy_from_slice(input.0);
    let page = Page { columns: columns.collect(), rows, row_count };
    let Some(cells) = cells(&page) else { return };
    for (i, cell) in cells.iter().enumerate() {
        if let Some(bytes) = cell {
            let _ = decode(&plans[i % plans.len()], bytes);
        }
    }
    // The same cells, framed by us: only nulls have more than one length.
    let mut rows = Vec::new();
    for cell in &cells {
        match cell {
            Some(bytes) => wire::put_value(&mut rows, bytes),
            None => wire::put_i32(&mut rows, wire::NULL),
        }
    }
    assert_eq!(rows.len(), page.rows.len());
    let rewritten = Page { columns: page.columns.clone(), rows: rows.into(), row_count };
    assert_eq!(self::cells(&rewritten), Some(cells));
}

/// The body of a RESULT: it is read, once with its description and once with what was read of it, or
/// refused both times; its cells decode or are refused.
pub fn result(data: &[u8]) {
    let Ok(head) = Head::parse(data) else { return };
    if !head.is_described() {
        let column = Column {
            keyspace: "ks".into(),
            table: "t".into(),
            name: "c".to_owned(),
            cql_type: CqlType::Int,
        };
        let known_columns: Arc<[Column]> = [column].into();
        let _ = head.rows(None, Some(&known_columns));
        assert!(head.rows(None, None).is_err());
        return;
    }
    let parsed = Rows::parse(data, None);
    let Ok(description) = head.describe() else {
        assert!(parsed.is_err());
        return;
    };
    assert!(head.is(&description));
    let rows = match (head.rows(Some(&description), None), parsed) {
        (Ok(rows), Ok(parsed)) => {
            assert_eq!((rows.rows, rows.row_count), (parsed.rows, parsed.row_count));
            assert_eq!(rows.paging_state, parsed.paging_state);
            assert_eq!(rows.metadata_id, parsed.metadata_id);
            rows
        }
        (Err(head_error), Err(error)) => {
            assert_eq!(head_error, error);
            return;
        }
        (head_error, error) => panic!("{head_error:?} and {error:?}"),
    };
    let plans: Vec<Plan<()>> = rows.columns.iter().map(|column| plan(&column.cql_type)).collect();
    let Ok(mut cells) = page::cells(plans.len(), rows.row_count, rows.rows) else { return };
    for i in 0..rows.row_count * plans.len() {
        match cells.next_cell() {
            Ok(Some(bytes)) => drop(decode(&plans[i % plans.len()], bytes)),
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

fn cells(page: &Page) -> Option<Vec<Option<&[u8]>>> {
    let mut reader = page.cells().ok()?;
    let mut cells = Vec::with_capacity(page.row_count * page.columns.len());
    for _ in 0..page.row_count * page.columns.len() {
        cells.push(reader.next_cell().ok()?);
    }
    reader.finish().ok()?;
    Some(cells)
}

/// CQL text: it is a type that prints back, or it is refused with a message.
pub fn type_cql(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match cql::parse(text) {
        Ok(cql_type) => {
            assert_eq!(cql::parse(&cql_type.definition()).as_ref(), Ok(&cql_type));
            fits(&cql_type);
        }
        Err(error) => {
            assert!(error.position <= text.len());
            let _ = error.to_string();
        }
    }
    // The same text, where every name is known.
    if let Ok(cql_type) = cql::parse_with(text, &mut |_, _| Some(CqlType::Int)) {
        fits(&cql_type);
        assert_eq!(cql::parse(&cql_type.definition()), Ok(cql_type));
    }
}

/// A Java class name: it is a type that prints back, or it is refused with a message.
pub fn type_marshal(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match marshal::parse(text) {
        Ok(cql_type) => {
            reads_back(&cql_type);
            fits(&cql_type);
        }
        Err(error) => {
            assert!(error.position <= text.len());
            let _ = error.to_string();
        }
    }
}

fn reads_back(cql_type: &CqlType) {
    assert_eq!(cql::parse(&cql_type.definition()).as_ref(), Ok(cql_type));
    assert_eq!(marshal::parse(&cql_type.class_name()).as_ref(), Ok(cql_type));
}

/// What a parser makes is within its bounds, though it may break other rules for types.
fn fits(cql_type: &CqlType) {
    let _ = cql_type.to_string();
    match cql_type.check() {
        Ok(()) => {
            let _ = plan(cql_type).cql_type();
        }
        // Too deep or of too many parts.
        Err(reason) => assert!(!reason.starts_with("the type "), "{reason}"),
    }
}

/// How many types an input's type is made of, at most; a short value may stand for as many nulls.
const PARTS: usize = 64;
const DEPTH: usize = 12;

/// An input, read from its beginning. Where it has ended it goes on in zeros.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        match self.0 {
            [first, unread @ ..] => {
                self.0 = unread;
                *first
            }
            [] => 0,
        }
    }

    fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    fn cql_type(&mut self) -> CqlType {
        self.part(&mut 0, DEPTH)
    }

    /// A byte says which type, then come its parameters.
    fn part(&mut self, seen: &mut usize, depth_left: usize) -> CqlType {
        *seen += 1;
        if *seen >= PARTS || depth_left == 0 {
            return CqlType::Int;
        }
        let depth_left = depth_left - 1;
        match self.byte() % 29 {
            0 => CqlType::Ascii,
            1 => CqlType::Text,
            2 => CqlType::TinyInt,
            3 => CqlType::SmallInt,
            4 => CqlType::Int,
            5 => CqlType::BigInt,
            6 => CqlType::Counter,
            7 => CqlType::VarInt,
            8 => CqlType::Float,
            9 => CqlType::Double,
            10 => CqlType::Decimal,
            11 => CqlType::Boolean,
            12 => CqlType::Blob,
            13 => CqlType::Uuid,
            14 => CqlType::TimeUuid,
            15 => CqlType::Inet,
            16 => CqlType::Date,
            17 => CqlType::Time,
            18 => CqlType::Timestamp,
            19 => CqlType::Duration,
            20 => CqlType::Custom("a.B".to_owned()),
            21 => CqlType::List(Box::new(self.part(seen, depth_left))),
            22 => CqlType::Set(Box::new(self.part(seen, depth_left))),
            23 => {
                let key = Box::new(self.part(seen, depth_left));
                CqlType::Map(key, Box::new(self.part(seen, depth_left)))
            }
            24 => CqlType::Tuple(self.parts(seen, depth_left)),
            25 => {
                let fields = self.parts(seen, depth_left).into_iter().enumerate();
                CqlType::Udt(Arc::new(UdtType {
                    keyspace: "ks".to_owned(),
                    name: "u".to_owned(),
                    fields: fields.map(|(i, field)| (format!("f{i}"), field)).collect(),
                }))
            }
            26 => {
                let element = Box::new(self.part(seen, depth_left));
                let dimension = match self.byte() {
                    few @ ..250 => few.into(),
                    _ => self.number() as u32 & i32::MAX as u32,
                };
                CqlType::Vector(element, dimension)
            }
            27 => CqlType::Composite(self.parts(seen, depth_left)),
            _ => CqlType::Frozen(Box::new(self.part(seen, depth_left))),
        }
    }

    fn parts(&mut self, seen: &mut usize, depth_left: usize) -> Vec<CqlType> {
        (0..self.byte() % 6).map(|_| self.part(seen, depth_left)).collect()
    }
}
