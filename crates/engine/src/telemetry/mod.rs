//! What a session counts and reports about itself: figures and events.

pub(crate) mod attempt;
pub(crate) mod counters;
pub mod events;
pub mod histogram;
pub mod metrics;
