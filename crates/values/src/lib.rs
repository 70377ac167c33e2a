//! Converts Python values to CQL bytes and back: single values, rows of bind values, and pages of
//! results. Also has the public classes of `turbocql.codec` and `turbocql.protocol`.
//!
//! This crate depends on the codec and on CPython. It does not depend on the engine or on
//! cassandra-driver.
#![deny(unsafe_code)]
// A match on an enum, such as a CQL type, must name every variant. After a new type is added, the
// crate does not compile until each match handles that type.
#![deny(clippy::wildcard_enum_match_arm)]

pub mod binary32;
pub mod bind;
pub mod calendar;
pub mod classes;
pub mod ending;
pub mod error;
pub mod failure;
pub mod ffi;
pub mod memory;
pub mod plan;
pub mod python;
pub mod row;
pub mod system;
pub mod traits;
pub mod value;
