//! Python values to CQL bytes and back: single values, rows of bind values, pages of results, and
//! the public classes of `turbocql.codec` and `turbocql.protocol`.
//!
//! It knows the codec and CPython. It knows no engine and nothing of cassandra-driver's.
#![deny(unsafe_code)]

pub mod bind;
pub mod classes;
pub mod ending;
pub mod error;
pub mod ffi;
pub mod row;
pub mod value;
