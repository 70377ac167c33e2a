//! The only `unsafe` code of this crate: cells that the GIL guards, handles for event loops, and
//! the `am_send` slot of coroutines, which pyo3 does not support.
#![allow(unsafe_code)]

pub mod gil_cell;
pub mod handle;
pub mod send;
