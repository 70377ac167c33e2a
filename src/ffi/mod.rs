//! The only `unsafe` of the module: slots of classes that pyo3 does not know.
#![allow(unsafe_code)]

pub mod handle;
pub mod send;
