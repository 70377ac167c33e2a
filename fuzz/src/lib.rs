//! The functions that the fuzz targets call. Those for the codec are beside the codec's tests, and
//! the tests run the kept corpus through them.

pub mod engine;

#[path = "../../crates/codec/tests/support/fuzz_entry.rs"]
pub mod fuzz_entry;
#[path = "../../crates/codec/tests/support/value.rs"]
mod value;
