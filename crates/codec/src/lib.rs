//! CQL values to bytes and back.
//!
//! This crate knows the wire layout of every CQL type, how cells are framed into rows and pages,
//! and how partition keys become tokens. It knows neither Python nor the network, so it can be
//! fuzzed and measured alone.
#![forbid(unsafe_code)]

pub mod cql_type;
pub mod error;
pub mod message;
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
