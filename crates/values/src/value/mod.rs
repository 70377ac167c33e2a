//! Converts Python values to CQL bytes and back, by a plan. The functions here try the quick path
//! of [`ffi`](crate::ffi) first. Their own code is the safe path: it supports every value and
//! raises every error.

pub mod decode;
pub mod decode_numbers;
pub mod describe;
pub mod encode;
mod foreign;
pub mod numbers;
pub mod record;
pub mod sequence;
pub mod temporal;
mod typed_buffer;
mod udt;
