//! Results: rows, pages, and columns.

pub mod arrays;
pub mod columns;
pub mod cursor;
pub mod first_page;
mod remaining;
pub mod row_iteration;
