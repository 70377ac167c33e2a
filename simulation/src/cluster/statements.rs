//! The statements that the model understands.

use super::wire::{Columns, Type};

pub const WRITE: &str = "INSERT INTO sim.kv (k, v) VALUES (?, ?)";
pub const READ: &str = "SELECT k, v FROM sim.kv WHERE k = ?";
pub const CLAIM: &str = "INSERT INTO sim.claims (k, v) VALUES (?, ?) IF NOT EXISTS";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Write,
    Read,
    Claim,
    /// A read of one of the server's own tables.
    System,
    Use,
}

impl Kind {
    /// The kind of a text, or `None` if the model does not know it. A comment at the end makes a
    /// text another statement.
    pub fn of(text: &str) -> Option<Kind> {
        let text = text.split(" /*").next().unwrap_or(text);
        match text {
            WRITE => Some(Kind::Write),
            READ => Some(Kind::Read),
            CLAIM => Some(Kind::Claim),
            _ if text.contains(" FROM system") => Some(Kind::System),
            _ if text.starts_with("USE ") => Some(Kind::Use),
            _ => None,
        }
    }

    pub fn table(self) -> (&'static str, &'static str) {
        match self {
            Kind::Claim => ("sim", "claims"),
            Kind::Write | Kind::Read | Kind::System | Kind::Use => ("sim", "kv"),
        }
    }

    pub fn markers(self) -> Columns {
        let bigint = |name: &str| (name.to_owned(), Type::Bigint);
        match self {
            Kind::Write | Kind::Claim => vec![bigint("k"), bigint("v")],
            Kind::Read => vec![bigint("k")],
            Kind::System | Kind::Use => Vec::new(),
        }
    }

    pub fn columns(self) -> Columns {
        let bigint = |name: &str| (name.to_owned(), Type::Bigint);
        match self {
            Kind::Read => vec![bigint("k"), bigint("v")],
            Kind::Write | Kind::Claim | Kind::System | Kind::Use => Vec::new(),
        }
    }
}

/// The id of a prepared statement: the same on all nodes.
pub fn id(text: &str) -> Vec<u8> {
    let mut random = crate::random::Random::new(text.len() as u64);
    let mut id = random.draw();
    for byte in text.bytes() {
        id = crate::random::Random::new(id ^ u64::from(byte)).draw();
    }
    [id, id ^ 0xffff].iter().flat_map(|half| half.to_be_bytes()).collect()
}
