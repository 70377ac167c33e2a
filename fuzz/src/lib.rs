//! The functions that the fuzz targets call. The functions for the codec are in the codec's folder
//! of tests, because its tests call them with the kept corpus.

pub mod engine;

#[path = "../../crates/codec/tests/support/fuzz_entry.rs"]
pub mod fuzz_entry;
#[path = "../../crates/codec/tests/support/value.rs"]
mod value;
