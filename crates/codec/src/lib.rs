//! Encodes and decodes CQL values.
//!
//! This crate knows the wire layout of every CQL type, how cells are framed into rows and pages,
//! and how partition keys become tokens. It does not depend on Python or the network, so it can be
//! fuzzed and measured alone.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

pub mod cql_type;
pub mod error;
pub mod message;
pub mod nulls;
pub mod page;
pub mod parse;
pub mod path;
pub mod plan;
pub mod row;
pub mod segment;
pub mod token;
pub mod types;
pub mod wire;

pub use cql_type::{CqlType, UdtType};
pub use error::{CodecError, Malformed};
pub use page::{Column, Page};
pub use path::{Path, Segment};
pub use plan::Plan;
pub use row::{Cell, RowBuffer, RowRef};
