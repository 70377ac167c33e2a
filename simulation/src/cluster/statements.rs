//! The statements that the model understands.

use super::wire::{Columns, Type};

pub const WRITE: &str = "INSERT INTO sim.kv (k, v) VALUES (?, ?)";
/// The same write, with the value before the key. Only batches contain it.
pub const REORDERED: &str = "INSERT INTO sim.kv (v, k) VALUES (?, ?)";
pub const READ: &str = "SELECT k, v FROM sim.kv WHERE k = ?";
/// The text of the read that bursts send. If the node has forgotten the prepared statement, each
/// request of the burst prepares it again. So the model does not treat frequent preparation of this
/// text as a defect.
pub const BURST: &str = "SELECT k, v FROM sim.kv WHERE k = ? /* burst */";
pub const CLAIM: &str = "INSERT INTO sim.claims (k, v) VALUES (?, ?) IF NOT EXISTS";
/// Reads all rows.
pub const SCAN: &str = "SELECT k, v FROM sim.kv";
/// Writes to a table whose column `v` is sometimes a bigint and sometimes a text.
pub const REMADE: &str = "INSERT INTO sim.remade (k, v) VALUES (?, ?)";
/// Reads a table that exists in each keyspace. The table's only `k` is the index of the keyspace in
/// [`KEYSPACES`].
pub const KEYSPACE: &str = "SELECT k FROM here";
/// The beginning of a statement that creates a table. In the statement, the table's number follows
/// this text.
pub const CREATE: &str = "CREATE TABLE sim.t";

pub const KEYSPACES: [&str; 2] = ["sim", "other"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Write,
    Reordered,
    Read,
    Claim,
    Scan,
    Remade,
    Keyspace,
    /// The creation of the table with this number.
    Create(i64),
    /// A read of one of the server's own tables.
    System,
    Use,
}

impl Kind {
    /// Returns the kind of a text, or `None` if the model does not know the text. A comment at the
    /// end is ignored: the program (see `workload`) adds comments so that texts differ.
    pub fn of(text: &str) -> Option<Kind> {
        let text = text.split(" /*").next().unwrap_or(text);
        match text {
            WRITE => Some(Kind::Write),
            REORDERED => Some(Kind::Reordered),
            READ => Some(Kind::Read),
            CLAIM => Some(Kind::Claim),
            SCAN => Some(Kind::Scan),
            REMADE => Some(Kind::Remade),
            KEYSPACE => Some(Kind::Keyspace),
            _ if text.contains(" FROM system") => Some(Kind::System),
            _ if text.starts_with("USE ") => Some(Kind::Use),
            _ => {
                let number = text.strip_prefix(CREATE)?.split(' ').next()?;
                number.parse().ok().map(Kind::Create)
            }
        }
    }

    pub fn table(self) -> (&'static str, &'static str) {
        match self {
            Kind::Claim => ("sim", "claims"),
            Kind::Remade => ("sim", "remade"),
            _ => ("sim", "kv"),
        }
    }

    /// Returns the bind markers. `remade` is the current type of the column `v` of the table
    /// `remade`.
    pub fn markers(self, remade: Type) -> Columns {
        let bigint = |name: &str| (name.to_owned(), Type::Bigint);
        match self {
            Kind::Write | Kind::Claim => vec![bigint("k"), bigint("v")],
            Kind::Reordered => vec![bigint("v"), bigint("k")],
            Kind::Remade => vec![bigint("k"), ("v".to_owned(), remade)],
            Kind::Read => vec![bigint("k")],
            _ => Vec::new(),
        }
    }

    /// Returns the indexes of the bind markers of the partition key.
    pub fn key(self) -> &'static [u16] {
        match self {
            Kind::Write | Kind::Claim | Kind::Remade | Kind::Read => &[0],
            Kind::Reordered => &[1],
            Kind::Scan | Kind::Keyspace | Kind::Create(_) | Kind::System | Kind::Use => &[],
        }
    }

    pub fn columns(self) -> Columns {
        let bigint = |name: &str| (name.to_owned(), Type::Bigint);
        match self {
            Kind::Read | Kind::Scan => vec![bigint("k"), bigint("v")],
            Kind::Keyspace => vec![bigint("k")],
            _ => Vec::new(),
        }
    }
}

/// Returns the text of a write that contains its key and its value.
pub fn literal_write(key: i64, value: i64) -> String {
    WRITE.replace("?, ?", &format!("{key}, {value}"))
}

/// Returns the key and the value that an entry of a batch writes, or `None` if the model does not
/// know the text.
pub fn written_by(text: &str, values: &[Option<Vec<u8>>]) -> Option<(i64, i64)> {
    let bigint = |index| super::wire::bigint(values, index);
    match Kind::of(text) {
        Some(Kind::Write) => Some((bigint(0), bigint(1))),
        Some(Kind::Reordered) => Some((bigint(1), bigint(0))),
        Some(_) => None,
        None => {
            let (beginning, end) = WRITE.split_once("?, ?")?;
            let (key, value) = text.strip_prefix(beginning)?.strip_suffix(end)?.split_once(", ")?;
            Some((key.parse().ok()?, value.parse().ok()?))
        }
    }
}

/// Returns the name of the table with this number. Tables of another client have negative numbers.
pub fn table_name(number: i64) -> String {
    if number < 0 { format!("other{}", -number) } else { format!("t{number}") }
}

/// Returns the id of a prepared statement. All nodes give a text the same id.
pub fn id(text: &str) -> Vec<u8> {
    let mut random = crate::random::Random::new(text.len() as u64);
    let mut id = random.draw();
    for byte in text.bytes() {
        id = crate::random::Random::new(id ^ u64::from(byte)).draw();
    }
    [id, id ^ 0xffff].iter().flat_map(|half| half.to_be_bytes()).collect()
}
