//! The only `unsafe` code of this crate. It makes cells that the GIL guards, makes handles for
//! event loops, imports Arrow data, and writes to the bytes of bytearrays. It also sets the slot
//! `am_send` of coroutine classes, because pyo3 does not support this slot.
#![allow(unsafe_code, reason = "the only module of this crate that may have it")]

pub mod arrow;
mod arrow_check;
pub mod capsule;
pub mod gil_cell;
pub mod handle;
pub mod send;
pub mod tail;
