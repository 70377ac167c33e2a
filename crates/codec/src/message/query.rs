//! QUERY: a statement's text and its values. See native_protocol_v5.spec, section 4.1.4.

use super::body::{Body, body_size, cell_size, cells_size, check_count, long_size, short_size};
use super::settings::Settings;
use super::{Message, MessageError, Reason, ValueKey, Version};
use crate::row::Cell;

/// The values of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values<'a> {
    /// The request has neither values nor their count.
    Absent,
    Positional(&'a [Cell<'a>]),
    Named(&'a [(&'a str, Cell<'a>)]),
}

/// `<query_parameters>`, the end of QUERY and EXECUTE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters<'a> {
    pub values: Values<'a>,
    /// Whether the server may leave out the description of the result's columns.
    pub skip_metadata: bool,
    /// The maximum number of rows of a page, above 0.
    pub page_size: Option<i32>,
    pub paging_state: Option<&'a [u8]>,
    pub settings: Settings<'a>,
}

const VALUES: u32 = 0x01;
const SKIP_METADATA: u32 = 0x02;
const PAGE_SIZE: u32 = 0x04;
const PAGING_STATE: u32 = 0x08;
const NAMES: u32 = 0x40;

impl<'a> Parameters<'a> {
    pub fn new(values: Values<'a>, settings: Settings<'a>) -> Parameters<'a> {
        Parameters { values, skip_metadata: false, page_size: None, paging_state: None, settings }
    }

    fn flags(&self) -> u32 {
        let mut flags = self.settings.flags();
        flags |= match self.values {
            Values::Absent => 0,
            Values::Positional(_) => VALUES,
            Values::Named(_) => VALUES | NAMES,
        };
        if self.skip_metadata {
            flags |= SKIP_METADATA;
        }
        if self.page_size.is_some() {
            flags |= PAGE_SIZE;
        }
        if self.paging_state.is_some() {
            flags |= PAGING_STATE;
        }
        flags
    }

    pub(super) fn size(&self, version: Version) -> Result<u64, MessageError> {
        let mut size = self.settings.size(version)?;
        size += match self.values {
            Values::Absent => 0,
            Values::Positional(cells) => cells_size(cells, version)?,
            Values::Named(named) => {
                check_count("values", named.len())?;
                let mut all = 2;
                for &(name, cell) in named {
                    let key = || ValueKey::Name(name.to_owned());
                    all += short_size("a name", name.as_bytes())?;
                    all += cell_size(cell, version, key)?;
                }
                all
            }
        };
        if let Some(rows) = self.page_size {
            size += 4;
            if rows < 1 {
                let (minimum, maximum, got) = (1, i64::from(i32::MAX), i64::from(rows));
                return Err(Reason::Range { part: "page_size", minimum, maximum, got }.into());
            }
        }
        if let Some(state) = self.paging_state {
            size += long_size("paging_state", state)?;
        }
        Ok(size)
    }

    pub(super) fn write(&self, version: Version, body: &mut impl Body) {
        self.settings.write_consistency(body);
        body.flags(self.flags(), version);
        match self.values {
            Values::Absent => {}
            Values::Positional(cells) => body.cells(cells),
            Values::Named(named) => {
                body.count(named.len());
                for &(name, cell) in named {
                    body.short_bytes(name.as_bytes());
                    body.cell(cell);
                }
            }
        }
        if let Some(rows) = self.page_size {
            body.int(rows);
        }
        if let Some(state) = self.paging_state {
            body.long_bytes(state);
        }
        self.settings.write_end(body);
    }
}

/// A statement that was not prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    pub query: &'a str,
    pub parameters: Parameters<'a>,
}

impl Message for Query<'_> {
    fn size(&self, version: Version) -> Result<usize, MessageError> {
        let text = long_size("query", self.query.as_bytes())?;
        body_size(text + self.parameters.size(version)?)
    }

    fn write(&self, version: Version, body: &mut impl Body) {
        body.long_bytes(self.query.as_bytes());
        self.parameters.write(version, body);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Consistency, SerialConsistency};
    use super::*;

    fn query(values: Values<'_>) -> Query<'_> {
        let settings = Settings::new(Consistency::Quorum);
        Query { query: "Q", parameters: Parameters::new(values, settings) }
    }

    #[test]
    fn without_values() {
        let query = query(Values::Absent);
        for version in [Version::V3, Version::V4] {
            assert_eq!(query.encode(version).unwrap(), b"\0\0\0\x01Q\0\x04\0");
        }
        assert_eq!(query.encode(Version::V5).unwrap(), b"\0\0\0\x01Q\0\x04\0\0\0\0");
    }

    #[test]
    fn values_null_and_unset() {
        let cells = [Cell::Value(b"ab"), Cell::Null, Cell::Value(b""), Cell::Unset];
        let values = b"\0\x04\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xfe".as_slice();
        let all = query(Values::Positional(&cells));
        assert_eq!(
            all.encode(Version::V4).unwrap(),
            [b"\0\0\0\x01Q\0\x04\x01".as_slice(), values].concat()
        );
        assert_eq!(
            all.encode(Version::V5).unwrap(),
            [b"\0\0\0\x01Q\0\x04\0\0\0\x01".as_slice(), values].concat()
        );
        assert_eq!(
            all.encode(Version::V3).unwrap_err().to_string(),
            "value [3]: UNSET needs protocol version 4, got 3"
        );
        let old = query(Values::Positional(&cells[..2]));
        assert_eq!(
            old.encode(Version::V3).unwrap(),
            b"\0\0\0\x01Q\0\x04\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff"
        );
    }

    #[test]
    fn an_empty_list_of_values_is_sent_with_its_count() {
        assert_eq!(
            query(Values::Positional(&[])).encode(Version::V4).unwrap(),
            b"\0\0\0\x01Q\0\x04\x01\0\0"
        );
    }

    #[test]
    fn names() {
        let named = [("a", Cell::Value(b"1")), ("\u{e9}", Cell::Null)];
        assert_eq!(
            query(Values::Named(&named)).encode(Version::V3).unwrap(),
            b"\0\0\0\x01Q\0\x04\x41\0\x02\0\x01a\0\0\0\x011\0\x02\xc3\xa9\xff\xff\xff\xff"
        );
        let unset = [("a", Cell::Unset)];
        assert_eq!(
            query(Values::Named(&unset)).encode(Version::V3).unwrap_err().to_string(),
            "value [\"a\"]: UNSET needs protocol version 4, got 3"
        );
    }

    #[test]
    fn everything_in_its_order() {
        let mut all = query(Values::Positional(&[Cell::Null]));
        all.parameters.skip_metadata = true;
        all.parameters.page_size = Some(100);
        all.parameters.paging_state = Some(b"ps");
        all.parameters.settings.serial_consistency = Some(SerialConsistency::LocalSerial);
        all.parameters.settings.timestamp = Some(-2);
        let middle =
            b"\0\x01\xff\xff\xff\xff\0\0\0\x64\0\0\0\x02ps\0\x09\xff\xff\xff\xff\xff\xff\xff\xfe";
        for version in [Version::V3, Version::V4] {
            assert_eq!(
                all.encode(version).unwrap(),
                [b"\0\0\0\x01Q\0\x04\x3f".as_slice(), middle].concat()
            );
        }
        all.parameters.settings.keyspace = Some("ks");
        all.parameters.settings.now_in_seconds = Some(-1);
        assert_eq!(
            all.encode(Version::V5).unwrap(),
            [
                b"\0\0\0\x01Q\0\x04\0\0\x01\xbf".as_slice(),
                middle,
                b"\0\x02ks\xff\xff\xff\xff".as_slice()
            ]
            .concat()
        );
        assert_eq!(
            all.encode(Version::V4).unwrap_err().to_string(),
            "keyspace needs protocol version 5, got 4"
        );
        all.parameters.settings.keyspace = None;
        assert_eq!(
            all.encode(Version::V3).unwrap_err().to_string(),
            "now_in_seconds needs protocol version 5, got 3"
        );
    }

    #[test]
    fn bounds() {
        let fails = |query: &Query<'_>| query.encode(Version::V5).unwrap_err().to_string();
        let many = vec![Cell::Null; 65_536];
        assert_eq!(
            fails(&query(Values::Positional(&many))),
            "65536 values: at most 65535 can be sent"
        );
        let longest_query = query(Values::Positional(&many[1..]));
        assert_eq!(longest_query.encode(Version::V5).unwrap().len(), 11 + 2 + 65_535 * 4);
        let many = vec![("", Cell::Null); 65_536];
        assert_eq!(fails(&query(Values::Named(&many))), "65536 values: at most 65535 can be sent");
        let long = "n".repeat(65_536);
        let named = [(long.as_str(), Cell::Null)];
        assert_eq!(
            fails(&query(Values::Named(&named))),
            "a name of 65536 bytes: at most 65535 can be sent"
        );
        let mut wrong = query(Values::Absent);
        wrong.parameters.settings.keyspace = Some(&long);
        assert_eq!(fails(&wrong), "keyspace of 65536 bytes: at most 65535 can be sent");
        let mut wrong = query(Values::Absent);
        wrong.parameters.page_size = Some(0);
        assert_eq!(fails(&wrong), "page_size must be from 1 to 2147483647, got 0");
        let mut wrong = query(Values::Absent);
        wrong.parameters.settings.timestamp = Some(i64::MIN);
        assert_eq!(
            fails(&wrong),
            "timestamp must be from -9223372036854775807 to 9223372036854775807, \
             got -9223372036854775808"
        );
    }

    #[test]
    fn sizes_beyond_a_frame() {
        assert_eq!(body_size(i32::MAX as u64), Ok(i32::MAX as usize));
        assert_eq!(
            body_size(1 << 31).unwrap_err().to_string(),
            "a body of 2147483648 bytes: at most 2147483647 can be sent"
        );
    }
}
