//! RESULT messages that contain rows. See native_protocol_v5.spec, section 4.2.5.2.
//!
//! Versions 3 to 5 have the same layout. Servers set the flag for changed metadata only in version
//! 5, or if ScyllaDB's extension `SCYLLA_USE_METADATA_ID` is in force.

use std::fmt;
use std::sync::Arc;

use crate::cql_type::{CqlType, MAX_DEPTH, UdtType};
use crate::error::Malformed;
use crate::page::Column;
use crate::parse::{ParseError, marshal};
use crate::wire::Reader;

/// The kind of a RESULT that contains rows.
const ROWS: i32 = 2;

/// The maximum number of columns of a result. A statement cannot name more columns than this.
const MAX_COLUMNS: usize = u16::MAX as usize;

const GLOBAL_TABLE: i32 = 0x1;
const HAS_MORE_PAGES: i32 = 0x2;
const NO_METADATA: i32 = 0x4;
const METADATA_CHANGED: i32 = 0x8;

/// A page of rows with its metadata. The rows are neither decoded nor copied.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    pub columns: Arc<[Column]>,
    /// For each row and column, `[int length][bytes]`.
    pub rows: &'a [u8],
    pub row_count: usize,
    /// Where the next page begins; `None` for the last page.
    pub paging_state: Option<&'a [u8]>,
    /// The new id of the metadata. The server sends one if the columns have changed since it last
    /// described them to the client.
    pub metadata_id: Option<&'a [u8]>,
}

/// Columns, and the bytes that describe them in a result. If a later result has the same
/// description, these bytes need not be parsed again.
#[derive(Clone, Debug)]
pub struct Description {
    pub columns: Arc<[Column]>,
    /// Whether the keyspace and table are written once for all columns.
    global: bool,
    bytes: Arc<[u8]>,
}

/// The part of a result before the description of its columns.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    flags: i32,
    count: usize,
    paging_state: Option<&'a [u8]>,
    metadata_id: Option<&'a [u8]>,
    /// The bytes after the head: the description of the columns, if there is one, and the rows.
    after_head: Reader<'a>,
}

/// Why a body cannot be read as a result with rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultError {
    Malformed(Malformed),
    /// The body begins with this number, which is not the kind of a result with rows.
    Kind(i32),
    /// A Java class name that cannot be parsed.
    Class(ParseError),
    /// A column with an invalid type: the column's name, and the reason.
    Type(String, String),
    /// The result does not describe its columns. The caller has no description of them either, or
    /// has a description with a different number of columns.
    Columns {
        got: usize,
        described: Option<usize>,
    },
}

impl fmt::Display for ResultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResultError::Malformed(malformed) => malformed.fmt(f),
            ResultError::Kind(kind @ 1..=5) => {
                write!(f, "a result of kind {kind}, which has no rows")
            }
            // The caller may have passed a body in which a tracing id, warnings or a custom payload
            // come before the RESULT. The frame's flags announce these parts.
            ResultError::Kind(kind) => write!(
                f,
                "not the body of a RESULT: it begins with {kind}, not with a kind from 1 to 5; \
                 remove a tracing id, warnings and a custom payload first"
            ),
            ResultError::Class(error) => error.fmt(f),
            ResultError::Type(column, reason) => write!(f, "column \"{column}\": {reason}"),
            ResultError::Columns { got, described: None } => {
                write!(f, "{got} columns without a description")
            }
            ResultError::Columns { got, described: Some(described) } => {
                write!(
                    f,
                    "{got} columns without a description, but {described} were described before"
                )
            }
        }
    }
}

impl std::error::Error for ResultError {}

impl From<Malformed> for ResultError {
    fn from(malformed: Malformed) -> ResultError {
        ResultError::Malformed(malformed)
    }
}

impl<'a> Head<'a> {
    /// Parses the beginning of the body of a RESULT.
    pub fn parse(body: &'a [u8]) -> Result<Head<'a>, ResultError> {
        let mut reader = Reader::new(body);
        let kind = reader.i32()?;
        if kind != ROWS {
            return Err(ResultError::Kind(kind));
        }
        let flags = reader.i32()?;
        if flags & !(GLOBAL_TABLE | HAS_MORE_PAGES | NO_METADATA | METADATA_CHANGED) != 0 {
            return Err(Malformed::Invalid("unknown flags in the metadata").into());
        }
        let count = count(&mut reader, 0)?;
        let paging_state = if flags & HAS_MORE_PAGES != 0 { reader.value()? } else { None };
        let changed = flags & METADATA_CHANGED != 0;
        let metadata_id = if changed { Some(short_bytes(&mut reader)?) } else { None };
        Ok(Head { flags, count, paging_state, metadata_id, after_head: reader })
    }

    /// Whether the result describes its columns. The server may leave out a description that the
    /// client knows.
    pub fn is_described(&self) -> bool {
        self.flags & NO_METADATA == 0
    }

    /// Whether there is another page.
    pub fn has_more_pages(&self) -> bool {
        self.flags & HAS_MORE_PAGES != 0
    }

    /// Whether the result describes its columns with the same bytes as `description`.
    pub fn is(&self, description: &Description) -> bool {
        self.is_described()
            && self.count == description.columns.len()
            && (self.flags & GLOBAL_TABLE != 0) == description.global
            && self.after_head.unread().starts_with(&description.bytes)
    }

    /// Returns a hash of the bytes that describe the columns, or `None` if the end of these bytes
    /// cannot be found. Equal descriptions have equal hashes.
    pub fn fingerprint(&self) -> Option<u64> {
        let mut reader = self.after_head;
        let global = self.flags & GLOBAL_TABLE != 0;
        for _ in 0..if global { 2 } else { 0 } {
            short_bytes(&mut reader).ok()?;
        }
        for _ in 0..self.count {
            for _ in 0..if global { 1 } else { 3 } {
                short_bytes(&mut reader).ok()?;
            }
            pass_type(&mut reader, MAX_DEPTH)?;
        }
        let described =
            &self.after_head.unread()[..self.after_head.remaining() - reader.remaining()];
        let (eights, end) = described.as_chunks::<8>();
        let mut last = [0; 8];
        last[..end.len()].copy_from_slice(end);
        let begin = (described.len() as u64) << 1 | u64::from(global);
        Some(eights.iter().chain([&last]).fold(begin, |all, eight| {
            (all ^ u64::from_le_bytes(*eight)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        }))
    }

    /// Parses the description of the columns.
    pub fn describe(&self) -> Result<Description, ResultError> {
        let (mut reader, global) = (self.after_head, self.flags & GLOBAL_TABLE != 0);
        let columns = columns(&mut reader, self.count, global)?;
        let length = self.after_head.remaining() - reader.remaining();
        let bytes = self.after_head.unread()[..length].into();
        Ok(Description { columns, global, bytes })
    }

    /// Returns the rows. Their columns come from `description`. If the body describes no columns,
    /// they are `known_columns`.
    pub fn rows(
        &self,
        description: Option<&Description>,
        known_columns: Option<&Arc<[Column]>>,
    ) -> Result<Rows<'a>, ResultError> {
        let mut reader = self.after_head;
        let columns = match (description, known_columns) {
            (Some(description), _) => {
                reader.take(description.bytes.len())?;
                description.columns.clone()
            }
            (None, Some(known_columns)) if known_columns.len() == self.count => {
                known_columns.clone()
            }
            (None, known_columns) => {
                let described = known_columns.map(|columns| columns.len());
                return Err(ResultError::Columns { got: self.count, described });
            }
        };
        let (row_count, rows) = self.counted(reader)?;
        let (paging_state, metadata_id) = (self.paging_state, self.metadata_id);
        Ok(Rows { columns, rows, row_count, paging_state, metadata_id })
    }

    /// Returns the number of rows, and the bytes of the rows. `description` must be the body's own
    /// description of its columns, or `None` if the body has none.
    pub fn only_rows(
        &self,
        description: Option<&Description>,
    ) -> Result<(usize, &'a [u8]), ResultError> {
        let mut reader = self.after_head;
        reader.take(description.map_or(0, |description| description.bytes.len()))?;
        self.counted(reader)
    }

    fn counted(&self, mut reader: Reader<'a>) -> Result<(usize, &'a [u8]), ResultError> {
        let row_count = count(&mut reader, self.count * 4)?;
        if self.count == 0 && row_count > 0 {
            return Err(Malformed::Invalid("rows without columns").into());
        }
        Ok((row_count, reader.unread()))
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        self.count
    }

    /// Where the next page begins; `None` for the last page.
    pub fn paging_state(&self) -> Option<&'a [u8]> {
        self.paging_state
    }

    /// The new id of the metadata, as [`Rows::metadata_id`] describes it.
    pub fn metadata_id(&self) -> Option<&'a [u8]> {
        self.metadata_id
    }
}

impl<'a> Rows<'a> {
    /// Parses the body of a RESULT. `known_columns` has the columns that are used if the server
    /// left out their description.
    pub fn parse(
        body: &'a [u8],
        known_columns: Option<&Arc<[Column]>>,
    ) -> Result<Rows<'a>, ResultError> {
        let head = Head::parse(body)?;
        let description = if head.is_described() { Some(head.describe()?) } else { None };
        head.rows(description.as_ref(), known_columns)
    }
}

/// Reads a count of items, each of which takes at least `least_bytes`. It is an error if the
/// remaining bytes are too few for that many items.
fn count(reader: &mut Reader<'_>, least_bytes: usize) -> Result<usize, Malformed> {
    let count = reader.i32()?;
    let number = usize::try_from(count).map_err(|_| Malformed::NegativeLength(count))?;
    if number.saturating_mul(least_bytes) > reader.remaining() {
        return Err(Malformed::Count(count, reader.remaining()));
    }
    Ok(number)
}

/// Like [`count`], for a count that is a `[short]`.
fn short_count(reader: &mut Reader<'_>, least_bytes: usize) -> Result<usize, Malformed> {
    let number = reader.array().map(u16::from_be_bytes)?;
    if usize::from(number) * least_bytes > reader.remaining() {
        return Err(Malformed::Count(i32::from(number), reader.remaining()));
    }
    Ok(usize::from(number))
}

/// Skips a type. Returns `None` if its bytes are malformed, or if it nests more than `deepest`
/// levels.
fn pass_type(reader: &mut Reader<'_>, deepest: usize) -> Option<()> {
    let deepest = deepest.checked_sub(1)?;
    let code = reader.array().map(u16::from_be_bytes).ok()?;
    let (names, fields, parts) = match code {
        0 => (1, false, 0),
        0x20 | 0x22 => (0, false, 1),
        0x21 => (0, false, 2),
        0x30 => (2, true, 0),
        0x31 => (0, false, short_count(reader, 2).ok()?),
        _ => (0, false, 0),
    };
    for _ in 0..names {
        short_bytes(reader).ok()?;
    }
    for _ in 0..if fields { short_count(reader, 4).ok()? } else { 0 } {
        short_bytes(reader).ok()?;
        pass_type(reader, deepest)?;
    }
    for _ in 0..parts {
        pass_type(reader, deepest)?;
    }
    Some(())
}

fn short_bytes<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let length = reader.array().map(u16::from_be_bytes)?;
    reader.take(usize::from(length))
}

fn string<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    let bytes = short_bytes(reader)?;
    std::str::from_utf8(bytes).map_err(|_| Malformed::Invalid("a name that is not UTF-8"))
}

/// Reads the names of a keyspace and a table.
fn table_of(reader: &mut Reader<'_>) -> Result<(Arc<str>, Arc<str>), Malformed> {
    Ok((string(reader)?.into(), string(reader)?.into()))
}

fn columns(
    reader: &mut Reader<'_>,
    count: usize,
    global: bool,
) -> Result<Arc<[Column]>, ResultError> {
    let mut table = if global { Some(table_of(reader)?) } else { None };
    // Before each name, its length takes two bytes. The code of the type takes two more. If the
    // keyspace and table are written once for all columns, a column has one name, otherwise three.
    let least_bytes = if global { 4 } else { 8 };
    if count.saturating_mul(least_bytes) > reader.remaining() {
        let columns = i32::try_from(count).unwrap_or(i32::MAX);
        return Err(Malformed::Count(columns, reader.remaining()).into());
    }
    if count > MAX_COLUMNS {
        return Err(Malformed::Invalid("more columns than a result can have").into());
    }
    let column = |_| {
        if !global {
            table = Some(table_of(reader)?);
        }
        let (keyspace, table) = table.clone().unwrap_or_default();
        let name = string(reader)?.to_owned();
        let cql_type = cql_type(reader, MAX_DEPTH)?;
        cql_type.check().map_err(|reason| ResultError::Type(name.clone(), reason))?;
        Ok(Column { keyspace, table, name, cql_type })
    };
    (0..count).map(column).collect()
}

fn cql_type(reader: &mut Reader<'_>, depth_left: usize) -> Result<CqlType, ResultError> {
    let depth_left =
        depth_left.checked_sub(1).ok_or(Malformed::Invalid("types that nest too deep"))?;
    let number = reader.array().map(u16::from_be_bytes)?;
    Ok(match number {
        0x0000 => marshal::parse(string(reader)?).map_err(ResultError::Class)?,
        0x0001 => CqlType::Ascii,
        0x0002 => CqlType::BigInt,
        0x0003 => CqlType::Blob,
        0x0004 => CqlType::Boolean,
        0x0005 => CqlType::Counter,
        0x0006 => CqlType::Decimal,
        0x0007 => CqlType::Double,
        0x0008 => CqlType::Float,
        0x0009 => CqlType::Int,
        0x000b => CqlType::Timestamp,
        0x000c => CqlType::Uuid,
        0x000d => CqlType::Text,
        0x000e => CqlType::VarInt,
        0x000f => CqlType::TimeUuid,
        0x0010 => CqlType::Inet,
        0x0011 => CqlType::Date,
        0x0012 => CqlType::Time,
        0x0013 => CqlType::SmallInt,
        0x0014 => CqlType::TinyInt,
        0x0015 => CqlType::Duration,
        0x0020 => CqlType::List(Box::new(cql_type(reader, depth_left)?)),
        0x0021 => {
            let key = cql_type(reader, depth_left)?;
            CqlType::Map(Box::new(key), Box::new(cql_type(reader, depth_left)?))
        }
        0x0022 => CqlType::Set(Box::new(cql_type(reader, depth_left)?)),
        0x0030 => {
            let (keyspace, name) = (string(reader)?.to_owned(), string(reader)?.to_owned());
            let count = short_count(reader, 4)?;
            let field = |_| Ok((string(reader)?.to_owned(), cql_type(reader, depth_left)?));
            let fields = (0..count).map(field).collect::<Result<_, ResultError>>()?;
            CqlType::Udt(Arc::new(UdtType { keyspace, name, fields }))
        }
        0x0031 => {
            let count = short_count(reader, 2)?;
            let components = (0..count).map(|_| cql_type(reader, depth_left));
            CqlType::Tuple(components.collect::<Result<_, ResultError>>()?)
        }
        _ => return Err(Malformed::Invalid("an unknown type number").into()),
    })
}

#[cfg(test)]
mod tests;
