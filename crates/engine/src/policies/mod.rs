//! Policies that choose the node for a request, and decide when the request is sent again.

pub mod near;
pub mod profile;
pub mod ranks;
pub mod retry;
pub mod silence;
