//! The functions that the fuzz targets call. The functions that fuzz the codec are in the folder of
//! the codec's tests, because these tests call the functions with the inputs of the stored corpus.

pub mod engine;

#[path = "../../crates/codec/tests/support/fuzz_entry.rs"]
pub mod fuzz_entry;
#[path = "../../crates/codec/tests/support/value.rs"]
mod value;
