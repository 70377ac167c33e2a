//! Custom types, known only by a Java class name: bytes, as they are.

pub use super::blob::{decode, encode};
