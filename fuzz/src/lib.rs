//! What the targets call. The code for the codec is with its tests, which run the kept corpus
//! through it.

pub mod engine;

#[path = "../../crates/codec/tests/support/fuzz_entry.rs"]
pub mod fuzz_entry;
#[path = "../../crates/codec/tests/support/value.rs"]
mod value;
