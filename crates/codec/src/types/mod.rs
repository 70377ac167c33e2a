//! One file per CQL type: its layout, encoding and decoding.
//!
//! Scalars have `encode(value, out)` and `decode(bytes)`. For containers, the encoding helpers
//! write counts and lengths around parts that the caller writes. `decode` returns a reader of the
//! bytes of the parts. The caller encodes and decodes these parts by its [`crate::Plan`].

pub mod ascii;
pub mod bigint;
pub mod blob;
pub mod boolean;
pub mod composite;
pub mod counter;
pub mod custom;
pub mod date;
pub mod decimal;
pub mod double;
pub mod duration;
pub mod float;
pub mod inet;
pub mod int;
pub mod list;
pub mod map;
pub mod set;
pub mod smallint;
pub mod text;
pub mod time;
pub mod timestamp;
pub mod timeuuid;
pub mod tinyint;
pub mod tuple;
pub mod udt;
pub mod uuid;
pub mod varint;
pub mod vector;
