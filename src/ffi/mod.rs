//! The only `unsafe` of the extension: CPython's objects read through their C layouts, where the
//! safe way costs more than the work itself.
//!
//! Everything here has a safe body beside it, in `src/value`, which runs for whatever is turned
//! down here, for everything on an interpreter that [`quick_path`] does not know, and when
//! [`quick_path::force_safe`] says so: the tests run both.
#![allow(unsafe_code)]

pub mod arrays;
pub mod attribute;
pub mod batch;
pub mod buffer;
pub mod bytes;
pub mod call;
mod collections;
mod decimal;
pub mod decode;
pub mod held;
mod int;
pub mod interpreter;
pub mod make;
pub mod method;
mod numpy;
mod object;
mod probe;
pub mod quick;
pub mod quick_path;
pub mod reader;
pub mod reading;
pub mod record;
pub mod reference;
pub mod rows;
pub mod send;
pub mod slots;
mod symbol;
pub mod util;
mod vector;
pub mod version;
