//! Stand-ins for the methods of connection pools that lend connections and take them back.

mod borrowing;
mod returning;
mod shard;

pub use borrowing::{BorrowStandIn, Loan, Pools, Target};
pub use returning::ReturnStandIn;
