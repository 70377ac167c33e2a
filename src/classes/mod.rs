//! The native classes on which the Python API is built.

pub mod arrays;
pub mod call;
pub mod care;
pub mod changing;
pub mod checks;
pub mod cluster;
pub mod columns;
pub mod connecting;
pub mod cursor;
pub mod execute_many;
pub mod feeding;
pub mod first_page;
pub mod opening;
pub mod pieces;
pub mod prepared;
pub mod preparing;
pub mod row_iteration;
pub mod scanning;
pub mod secret;
pub mod send_batch;
pub mod session;
pub mod verifying;
