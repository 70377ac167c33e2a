//! The public classes and functions of `turbocql.codec` and `turbocql.protocol`.

pub mod codec;
pub mod cql_type;
mod described;
pub mod encoded_rows;
pub mod message;
pub mod row_encoder;
pub mod rows_decoder;
