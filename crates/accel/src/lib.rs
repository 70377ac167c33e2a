//! Stand-ins for functions of the package `cassandra` (cassandra-driver, scylla-driver).
//!
//! A stand-in does the work of its original for the arguments that it supports. It hands all other
//! calls to the original before anything has been consumed. `turbocql.accel` decides in Python,
//! once per type or statement, which arguments are supported, and keeps that as a plan. The code
//! here looks the plan up and follows it.
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
