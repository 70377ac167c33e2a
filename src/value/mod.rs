//! Python objects to CQL bytes and back, by plan.

pub mod decode;
pub mod describe;
pub mod encode;
pub mod failure;
pub mod interned;
mod numbers;
pub mod record;
mod sequence;
mod temporal;

pub use failure::{Failure, Outcome};

/// What a plan keeps ready for each user-defined type.
pub type HostPlan = turbocql_codec::Plan<record::Record>;
