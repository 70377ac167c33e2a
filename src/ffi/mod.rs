//! The only `unsafe` code of this crate. It makes cells that the GIL guards and handles for event
//! loops, imports Arrow data, and writes to the bytes of bytearrays. It also sets the `am_send`
//! slot of coroutine classes, which pyo3 does not support.
#![allow(unsafe_code, reason = "the only module of this crate that may have it")]

pub mod arrow;
mod arrow_check;
pub mod capsule;
pub mod gil_cell;
pub mod handle;
pub mod send;
pub mod tail;
