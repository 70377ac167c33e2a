//! BATCH: several statements in one request. See native_protocol_v5.spec, section 4.1.7.
//!
//! The specification has a flag for named values, but servers cannot read a BATCH with named values
//! (CASSANDRA-10246). So named values are not supported here.

use super::body::{Body, body_size, cells_size, check_count, long_size, short_size};
use super::settings::Settings;
use super::{Message, MessageError, Version};
use crate::row::{AsCell, Cell};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    Logged = 0,
    Unlogged = 1,
    Counter = 2,
}

impl BatchKind {
    /// Returns the kind with this name. Names are in small letters.
    pub fn from_name(name: &str) -> Option<BatchKind> {
        [BatchKind::Logged, BatchKind::Unlogged, BatchKind::Counter]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            BatchKind::Logged => "logged",
            BatchKind::Unlogged => "unlogged",
            BatchKind::Counter => "counter",
        }
    }
}

/// How a batch names a statement: by its text or by the id of a prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementText<'a> {
    Query(&'a str),
    /// The id of a prepared statement.
    Prepared(&'a [u8]),
}

/// A statement of a batch and its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement<'a, C = Cell<'a>> {
    pub text: StatementText<'a>,
    pub values: &'a [C],
}

impl<C: AsCell> Statement<'_, C> {
    fn size(&self, version: Version) -> Result<u64, MessageError> {
        let text = match self.text {
            StatementText::Query(text) => long_size("query", text.as_bytes())?,
            StatementText::Prepared(id) => short_size("query_id", id)?,
        };
        Ok(1 + text + cells_size(self.values, version)?)
    }

    fn write(&self, body: &mut impl Body) {
        match self.text {
            StatementText::Query(text) => {
                body.byte(0);
                body.long_bytes(text.as_bytes());
            }
            StatementText::Prepared(id) => {
                body.byte(1);
                body.short_bytes(id);
            }
        }
        body.cells(self.values);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a, C = Cell<'a>> {
    pub kind: BatchKind,
    pub statements: &'a [Statement<'a, C>],
    pub settings: Settings<'a>,
}

impl<C: AsCell> Message for Batch<'_, C> {
    fn size(&self, version: Version) -> Result<usize, MessageError> {
        check_count("statements", self.statements.len())?;
        let mut size = 1 + 2 + self.settings.size(version)?;
        for (index, statement) in self.statements.iter().enumerate() {
            size += statement.size(version).map_err(|error| error.in_statement(index))?;
        }
        body_size(size)
    }

    fn write(&self, version: Version, body: &mut impl Body) {
        body.byte(self.kind as u8);
        body.count(self.statements.len());
        for statement in self.statements {
            statement.write(body);
        }
        self.settings.write_consistency(body);
        body.flags(self.settings.flags(), version);
        self.settings.write_end(body);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Consistency, SerialConsistency};
    use super::*;

    fn batch<'a>(kind: BatchKind, statements: &'a [Statement<'a>]) -> Batch<'a> {
        Batch { kind, statements, settings: Settings::new(Consistency::All) }
    }

    const BOTH: [Statement<'static>; 2] = [
        Statement { text: StatementText::Query("Q"), values: &[Cell::Value(b"v"), Cell::Null] },
        Statement { text: StatementText::Prepared(b"id"), values: &[] },
    ];

    #[test]
    fn kinds_and_names() {
        for (number, name) in ["logged", "unlogged", "counter"].into_iter().enumerate() {
            let kind = BatchKind::from_name(name).unwrap();
            assert_eq!(kind as usize, number);
            assert_eq!(batch(kind, &[]).encode(Version::V4).unwrap()[0], number as u8);
        }
        assert_eq!(BatchKind::from_name("LOGGED"), None);
    }

    #[test]
    fn empty() {
        let empty = batch(BatchKind::Logged, &[]);
        assert_eq!(empty.encode(Version::V3).unwrap(), b"\0\0\0\0\x05\0");
        assert_eq!(empty.encode(Version::V5).unwrap(), b"\0\0\0\0\x05\0\0\0\0");
    }

    #[test]
    fn prepared_and_unprepared() {
        let statements =
            b"\x01\0\x02\0\0\0\0\x01Q\0\x02\0\0\0\x01v\xff\xff\xff\xff\x01\0\x02id\0\0".as_slice();
        let both = batch(BatchKind::Unlogged, &BOTH);
        for version in [Version::V3, Version::V4] {
            assert_eq!(
                both.encode(version).unwrap(),
                [statements, b"\0\x05\0".as_slice()].concat()
            );
        }
        assert_eq!(
            both.encode(Version::V5).unwrap(),
            [statements, b"\0\x05\0\0\0\0".as_slice()].concat()
        );
    }

    #[test]
    fn everything_in_its_order() {
        let mut all = batch(BatchKind::Counter, &BOTH[1..]);
        all.settings.serial_consistency = Some(SerialConsistency::Serial);
        all.settings.timestamp = Some(0x0102_0304_0506_0708);
        let (start, end) = (
            b"\x02\0\x01\x01\0\x02id\0\0\0\x05".as_slice(),
            b"\0\x08\x01\x02\x03\x04\x05\x06\x07\x08".as_slice(),
        );
        for version in [Version::V3, Version::V4] {
            assert_eq!(all.encode(version).unwrap(), [start, b"\x30".as_slice(), end].concat());
        }
        all.settings.keyspace = Some("k");
        all.settings.now_in_seconds = Some(1);
        assert_eq!(
            all.encode(Version::V5).unwrap(),
            [start, b"\0\0\x01\xb0".as_slice(), end, b"\0\x01k\0\0\0\x01".as_slice()].concat()
        );
        assert_eq!(
            all.encode(Version::V4).unwrap_err().to_string(),
            "keyspace needs protocol version 5, got 4"
        );
    }

    #[test]
    fn errors_name_statement_and_value() {
        let unset =
            Statement { text: StatementText::Query(""), values: &[Cell::Null, Cell::Unset] };
        let statements = [BOTH[0], unset];
        assert_eq!(
            batch(BatchKind::Logged, &statements).encode(Version::V3).unwrap_err().to_string(),
            "statement [1], value [1]: UNSET needs protocol version 4, got 3"
        );
        let id = vec![0; 65_536];
        let long = [Statement { text: StatementText::Prepared(&id), values: &[] }];
        assert_eq!(
            batch(BatchKind::Logged, &long).encode(Version::V4).unwrap_err().to_string(),
            "statement [0]: query_id of 65536 bytes: at most 65535 can be sent"
        );
        let many = vec![Cell::Null; 65_536];
        let wide = [Statement { text: StatementText::Query(""), values: &many }];
        assert_eq!(
            batch(BatchKind::Logged, &wide).encode(Version::V4).unwrap_err().to_string(),
            "statement [0]: 65536 values: at most 65535 can be sent"
        );
    }

    #[test]
    fn as_many_statements_as_a_short_can_count() {
        let many = vec![BOTH[1]; 65_536];
        assert_eq!(
            batch(BatchKind::Logged, &many).encode(Version::V4).unwrap_err().to_string(),
            "65536 statements: at most 65535 can be sent"
        );
        let longest_batch = batch(BatchKind::Logged, &many[1..]).encode(Version::V4).unwrap();
        assert_eq!(longest_batch.len(), 3 + 65_535 * 7 + 3);
        assert_eq!(longest_batch[1..3], [0xff, 0xff]);
    }
}
