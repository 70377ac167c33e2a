//! The I/O thread: its queue of work, and the lanes on which requests run.

pub mod lanes;
pub mod queue;
pub mod runtime;
