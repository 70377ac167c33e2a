//! Tests of results with rows.

use super::*;
use crate::page;
use proptest::prelude::*;

fn parse(body: &[u8]) -> Result<Rows<'_>, ResultError> {
    Rows::parse(body, None)
}

fn parse_error(body: &[u8]) -> String {
    parse(body).unwrap_err().to_string()
}

/// Returns the body of a result that has no rows. Its one column is `c` of the table `ks.t`, and
/// `option` has the bytes that describe the type of this column.
fn column(option: &[u8]) -> Vec<u8> {
    let start = b"\0\0\0\x02\0\0\0\x01\0\0\0\x01\0\x02ks\0\x01t\0\x01c".as_slice();
    [start, option, b"\0\0\0\0".as_slice()].concat()
}

fn type_of(option: &[u8]) -> String {
    let body = column(option);
    parse(&body).unwrap().columns[0].cql_type.definition()
}

#[test]
fn a_page_and_its_state() {
    let body =
        b"\0\0\0\x02\0\0\0\x03\0\0\0\x02\0\0\0\x02ps\0\x02ks\0\x01t\0\x01k\0\x09\0\x01v\0\x0d\
        \0\0\0\x01\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff";
    let rows = parse(body).unwrap();
    assert_eq!(rows.paging_state, Some(&b"ps"[..]));
    assert_eq!(rows.metadata_id, None);
    assert_eq!(rows.row_count, 1);
    let names: Vec<_> = rows.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["k", "v"]);
    assert_eq!(&*rows.columns[1].keyspace, "ks");
    let mut cells = page::cells(2, rows.row_count, rows.rows).unwrap();
    assert_eq!(cells.next_cell(), Ok(Some(&b"\0\0\0\x07"[..])));
    assert_eq!(cells.next_cell(), Ok(None));
    assert_eq!(cells.finish(), Ok(()));
}

#[test]
fn columns_of_several_tables_and_a_new_metadata_id() {
    let body = b"\0\0\0\x02\0\0\0\x08\0\0\0\x02\0\x02id\
        \0\x01a\0\x01b\0\x01c\0\x02\0\x01d\0\x01e\0\x01f\0\x04\0\0\0\0";
    let rows = parse(body).unwrap();
    assert_eq!(rows.metadata_id, Some(&b"id"[..]));
    let descriptions: Vec<_> = rows
        .columns
        .iter()
        .map(|c| format!("{}.{}.{} {}", c.keyspace, c.table, c.name, c.cql_type))
        .collect();
    assert_eq!(descriptions, ["a.b.c bigint", "d.e.f boolean"]);
}

#[test]
fn columns_that_the_client_knows() {
    let known_columns = parse(&column(b"\0\x09")).unwrap().columns;
    let body = b"\0\0\0\x02\0\0\0\x04\0\0\0\x01\0\0\0\x01\0\0\0\x01x";
    let rows = Rows::parse(body, Some(&known_columns)).unwrap();
    assert!(Arc::ptr_eq(&rows.columns, &known_columns));
    assert_eq!(rows.rows, b"\0\0\0\x01x");
    assert_eq!(parse_error(body), "1 columns without a description");
    let none: Arc<[Column]> = Arc::from([]);
    assert_eq!(
        Rows::parse(body, Some(&none)).unwrap_err().to_string(),
        "1 columns without a description, but 0 were described before"
    );
}

#[test]
fn a_description_that_comes_again() {
    let (body, other_type) = (column(b"\0\x09"), column(b"\0\x0d"));
    let head = Head::parse(&body).unwrap();
    let description = head.describe().unwrap();
    assert!(head.is(&description));
    let rows = head.rows(Some(&description), None).unwrap();
    assert!(Arc::ptr_eq(&rows.columns, &description.columns));
    assert_eq!((rows.row_count, rows.rows), (0, &b""[..]));
    assert!(!Head::parse(&other_type).unwrap().is(&description));
    let without = b"\0\0\0\x02\0\0\0\x04\0\0\0\x01\0\0\0\0";
    assert!(!Head::parse(without).unwrap().is(&description));
    // The same bytes, but the flags say that each column names its own table.
    let mut with_table_per_column = body.clone();
    with_table_per_column[7] = 0;
    assert!(!Head::parse(&with_table_per_column).unwrap().is(&description));
}

#[test]
fn types() {
    for (number, name) in [
        (0x01, "ascii"),
        (0x02, "bigint"),
        (0x03, "blob"),
        (0x04, "boolean"),
        (0x05, "counter"),
        (0x06, "decimal"),
        (0x07, "double"),
        (0x08, "float"),
        (0x09, "int"),
        (0x0b, "timestamp"),
        (0x0c, "uuid"),
        (0x0d, "text"),
        (0x0e, "varint"),
        (0x0f, "timeuuid"),
        (0x10, "inet"),
        (0x11, "date"),
        (0x12, "time"),
        (0x13, "smallint"),
        (0x14, "tinyint"),
        (0x15, "duration"),
    ] {
        assert_eq!(type_of(&[0, number]), name);
    }
    assert_eq!(type_of(b"\0\x20\0\x22\0\x09"), "list<set<int>>");
    assert_eq!(type_of(b"\0\x21\0\x0d\0\x09"), "map<text, int>");
    assert_eq!(type_of(b"\0\x31\0\x02\0\x09\0\x0d"), "tuple<int, text>");
    assert_eq!(
        type_of(b"\0\x30\0\x02ks\0\x01u\0\x02\0\x01a\0\x09\0\x01b\0\x20\0\x0d"),
        "ks.u{a int, b list<text>}"
    );
    let class = b"org.apache.cassandra.db.marshal.Int32Type";
    let custom = [b"\0\0\0\x29".as_slice(), class.as_slice()].concat();
    assert_eq!(type_of(&custom), "int");
}

#[test]
fn bodies_that_are_no_result_with_rows_are_refused() {
    assert_eq!(parse_error(b"\0\0\0\x01"), "a result of kind 1, which has no rows");
    assert_eq!(parse_error(b"\0\0\0\x02\0\0\x01\0\0\0\0\0"), "unknown flags in the metadata");
    assert_eq!(parse_error(&column(b"\0\x0a")), "an unknown type number");
    assert!(parse(&column(b"\0\0\0\x02a(")).is_err());
    assert!(parse(b"").is_err());
}

#[test]
fn counts_are_bounded_by_the_bytes() {
    assert_eq!(parse_error(b"\0\0\0\x02\0\0\0\x04\xff\xff\xff\xff"), "a length of -1");
    assert_eq!(
        parse_error(b"\0\0\0\x02\0\0\0\0\x7f\xff\xff\xff"),
        "a count of 2147483647 elements in 0 bytes"
    );
    let mut many = column(b"\0\x09");
    let end = many.len() - 4;
    many[end..].copy_from_slice(&i32::MAX.to_be_bytes());
    assert_eq!(parse_error(&many), "a count of 2147483647 elements in 0 bytes");
    assert_eq!(parse_error(b"\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\x01"), "rows without columns");
    for option in [b"\0\x31\xff\xff".as_slice(), b"\0\x30\0\0\0\0\xff\xff"] {
        assert_eq!(parse_error(&column(option)), "a count of 65535 elements in 4 bytes");
    }
}

#[test]
fn columns_share_the_name_of_their_table() {
    let body = b"\0\0\0\x02\0\0\0\x01\0\0\0\x02\0\x02ks\0\x01t\0\x01k\0\x09\0\x01v\0\x0d\0\0\0\0";
    let columns = parse(body).unwrap().columns;
    assert!(Arc::ptr_eq(&columns[0].keyspace, &columns[1].keyspace));
    assert!(Arc::ptr_eq(&columns[0].table, &columns[1].table));
}

#[test]
fn no_more_columns_than_a_statement_can_name() {
    let of = |count: i32| {
        let head = [b"\0\0\0\x02\0\0\0\x01".as_slice(), &count.to_be_bytes(), b"\0\0\0\0"].concat();
        [head, b"\0\0\0\x09".repeat(count as usize), b"\0\0\0\0".to_vec()].concat()
    };
    assert_eq!(parse_error(&of(65_536)), "more columns than a result can have");
    assert_eq!(parse(&of(65_535)).unwrap().columns.len(), 65_535);
}

#[test]
fn types_that_nest_too_deep_are_refused() {
    let deep = b"\0\x20".repeat(100_000);
    assert_eq!(parse_error(&column(&deep)), "types that nest too deep");
    let deepest = [b"\0\x20".repeat(MAX_DEPTH - 1), b"\0\x09".to_vec()].concat();
    assert!(parse(&column(&deepest)).is_ok());
}

proptest! {
    #[test]
    fn no_bytes_panic(tail: Vec<u8>, flags in 0..16u8, columns in 0..4u8) {
        let head = [0, 0, 0, 2, 0, 0, 0, flags, 0, 0, 0, columns];
        let _ = parse(&[&head[..], &tail].concat());
        let _ = parse(&tail);
    }

    #[test]
    fn no_change_of_a_good_body_panics(at in 0..64usize, byte: u8, cut in 0..64usize) {
        let mut body = column(b"\0\x30\0\x02ks\0\x01u\0\x02\0\x01a\0\x09\0\x01b\0\x31\0\x01\0\x0d");
        let length = body.len();
        body[at % length] = byte;
        let _ = parse(&body);
        body.truncate(cut);
        let _ = parse(&body);
    }
}
