//! The stand-ins, which do the work of functions of the driver.

mod arguments;
pub mod bind;
pub mod body;
mod body_fields;
mod body_reason;
mod counts;
mod dependence;
pub mod deserialize;
mod entries;
pub mod frames;
pub mod key_parts;
pub mod lazy;
pub mod literals;
pub mod mapper;
pub mod marshal;
pub mod named;
pub mod pool;
pub mod query_plan;
pub mod response;
pub mod result;
pub mod result_plan;
pub mod routing;
pub mod segment;
pub mod serialize;
pub mod timer;
pub mod usual;
mod writes;
