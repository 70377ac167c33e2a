//! Prepared, bound and plain statements.

pub mod prepared;
