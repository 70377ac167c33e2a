//! Stand-ins for functions of the package `cassandra` (cassandra-driver, scylla-driver).
//!
//! A stand-in replaces a function of the driver, its original. It does the function's work for the
//! arguments that it supports. It passes all other calls to the original, before it has consumed
//! any argument. The Python package `turbocql.accel` decides, once for each type or statement,
//! which arguments are supported, and describes them in a plan. A stand-in looks up the plan and
//! follows it.
#![deny(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

pub mod arrays;
pub mod convert;
pub mod ffi;
mod python;
pub mod reader;
pub mod reading;
pub mod scalars;
pub mod stand_ins;
pub mod switch;
pub mod types;
