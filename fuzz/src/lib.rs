//! What the targets call. The code is with the codec's tests, which run the kept corpus through it.

#[path = "../../crates/codec/tests/support/fuzz_entry.rs"]
pub mod fuzz_entry;
#[path = "../../crates/codec/tests/support/value.rs"]
mod value;
