//! The engine: sessions over the ScyllaDB Rust driver (the crate `scylla`), behind types of this
//! crate.
//!
//! Rows go in as a [`RowBuffer`](turbocql_codec::RowBuffer), pages come out as a
//! [`Page`](turbocql_codec::Page). A value is looked at only to
//! explain an error, and for lists that a load would write twice. This crate is the only one
//! that names `scylla` and `tokio`, and it does not depend on Python.
#![forbid(unsafe_code)]

mod answer;
mod attempts;
pub mod authenticate;
mod batch;
pub mod bulk;
pub mod cluster;
mod condition;
pub mod config;
mod connect;
mod descriptions;
mod effect;
pub mod error;
mod fits;
pub mod gate;
pub mod lanes;
mod limit;
mod near;
pub mod pager;
mod policy;
mod prepare;
pub mod profile;
mod queue;
pub mod runtime;
pub mod scan;
mod seam;
pub mod session;
pub mod statement;
pub mod tls;
mod watch;

/// The version of the crate `scylla`.
pub const ENGINE_VERSION: &str = "1.9.0";

/// The names of the edits of the ScyllaDB driver's crates that this build has, separated by commas.
/// Empty in a build without edits.
#[cfg(edited_crates)]
pub const ENGINE_EDITS: &str = scylla::EDITS; // Missing? Run: python3 scripts/edited_crates.py
#[cfg(not(edited_crates))]
pub const ENGINE_EDITS: &str = "";

/// The library that encrypts connections.
pub const TLS_BACKEND: &str = "rustls 0.23 with aws-lc";

pub use attempts::Tried;
pub use authenticate::{Authenticate, Conversation};
pub use bulk::{
    Batches, Bulk, BulkEvents, BulkOutcome, BulkPlan, Care, ListRead, Lists, Pace, Progress,
    RowNumbers, Snapshot, Time, Times,
};
pub use cluster::{Node, Trace, TraceEvent};
pub use config::{Compression, Config, Consistency, Pool, SerialConsistency};
pub use effect::{has_condition, is_one_of};
pub use error::{Detail, EngineError, ErrorKind, shown};
pub use gate::{Gate, Permit, Place};
pub use lanes::{Request, Sending, Ticket};
pub use near::Near;
pub use pager::{PageSource, Pager, first_with_rows};
pub use policy::Retry;
pub use profile::{Allowed, Balancing, Latency, Profile, Speculation};
pub use queue::{TaskHandle, Wake, wake_soon};
pub use runtime::Runtime;
pub use scan::{Scan, ScanPlan, ScanRange};
pub use session::{Response, Session};
pub use statement::{BatchEntry, BatchKind, PagingState, Prepared, RequestOptions};
pub use tls::{Tls, Verify};
