//! Where a request goes, and when it is sent again.

pub mod near;
pub mod profile;
pub mod retry;
pub mod silence;
