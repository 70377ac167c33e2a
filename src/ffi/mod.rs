//! The only `unsafe` code of this crate. It is for cells that the GIL guards, handles for event
//! loops, Arrow data of other producers, and the bytes of bytearrays. It also sets the `am_send`
//! slot of coroutines, which pyo3 does not support.
#![allow(unsafe_code, reason = "the only module of this crate that may have it")]

pub mod arrow;
mod arrow_check;
pub mod capsule;
pub mod gil_cell;
pub mod handle;
pub mod send;
pub mod tail;
