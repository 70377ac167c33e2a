//! The parts that every request has: admission, a time limit, and a subject for its errors.

pub mod gate;
pub mod limit;
pub mod subject;
