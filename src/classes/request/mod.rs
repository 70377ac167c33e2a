//! Requests: calls of `execute`, batches, and the preparation before them.

pub mod batch;
pub mod call;
pub mod how;
pub mod preparing;
pub mod retrying;
