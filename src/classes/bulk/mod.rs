//! Many rows: `execute_many`, loads of columns, and comparisons of columns with a table.

pub mod care;
pub mod execute_many;
pub mod feeding;
pub mod pieces;
pub mod verifying;
