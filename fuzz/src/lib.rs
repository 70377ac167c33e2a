//! The functions that the fuzz targets call. The functions for the codec are beside the codec's
//! tests, which run the kept corpus through them.

pub mod engine;

#[path = "../../crates/codec/tests/support/fuzz_entry.rs"]
pub mod fuzz_entry;
#[path = "../../crates/codec/tests/support/value.rs"]
mod value;
