//! Types from text.

pub mod cql;
