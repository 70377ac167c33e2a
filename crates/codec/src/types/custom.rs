//! Custom types, known only by a Java class name: any bytes, unchanged.

pub use super::blob::{decode, encode};
