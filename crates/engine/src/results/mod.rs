//! Results of several pages, and of whole tables.

pub mod pager;
pub mod scan;
