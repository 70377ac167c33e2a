//! Wraps the ScyllaDB Rust driver (the crate `scylla`): its sessions, requests, results and errors.
//!
//! Rows go in as a [`RowBuffer`](turbocql_codec::RowBuffer), pages come out as a
//! [`Page`](turbocql_codec::Page). This crate decodes values only to explain an error, and to
//! compare lists that a bulk may write twice. It is the only crate that names `scylla` and `tokio`,
//! and it does not depend on Python.
#![forbid(unsafe_code)]

pub mod bulk;
mod cluster;
mod error;
mod io;
mod policies;
mod request;
mod results;
mod session;
mod statement;
mod telemetry;
mod terms;

/// The version of the crate `scylla`.
pub const ENGINE_VERSION: &str = "1.9.0";

/// The names of the edits of the ScyllaDB driver's crates that this build has, separated by commas.
/// The string is empty in a build without edits.
#[cfg(edited_crates)]
pub const ENGINE_EDITS: &str = scylla::EDITS; // No EDITS? Run: python3 scripts/edited_crates.py
#[cfg(not(edited_crates))]
pub const ENGINE_EDITS: &str = "";

/// The name and version of the library that encrypts connections.
pub const TLS_BACKEND: &str = "rustls 0.23 with aws-lc";

pub use bulk::{
    Batches, Bulk, BulkEvents, BulkOutcome, BulkPlan, ListRead, Lists, Pace, Progress, RowNumbers,
    Snapshot, Time, Times, WrittenTable,
};
pub use cluster::authenticate::{Authenticate, Conversation};
pub use cluster::config::{Config, Pool};
pub use cluster::tls::{ServerNameSetting, Tls};
pub use cluster::verifier::Verify;
pub use error::attempts::Tried;
pub use error::effect::{has_condition, is_one_of};
pub use error::{Detail, EngineError, ErrorKind, shown};
pub use io::lanes::{Sending, Ticket};
pub use io::queue::{TaskHandle, Wake, wake_soon};
pub use io::runtime::Runtime;
pub use policies::near::Near;
pub use policies::profile::{Allowed, Balancing, Latency, Profile, Speculation};
pub use policies::retry::Retry;
pub use request::gate::{Gate, Permit, QueuePosition};
pub use results::pager::{PageSource, Pager, first_with_rows};
pub use results::scan::{Scan, ScanPlan, ScanRange};
#[cfg(feature = "simulation")]
pub use scylla::simulated;
pub use session::nodes::{Metrics, Node, Trace, TraceEvent};
pub use session::{Request, Session};
pub use statement::{BatchEntry, BatchKind, Prepared, RequestOptions};
pub use telemetry::counters::{RequestKind, Telemetry};
pub use telemetry::events::{AttemptTimes, EVERY, Event, Events, Field, Origin, UNUSUAL};
pub use telemetry::histogram::{BUCKETS, HistogramCounts, bounds_us};
pub use telemetry::metrics::{KindMetrics, NodeMetrics, Timeouts, Totals};
pub use terms::payload::{CustomPayload, Entries};
pub use terms::{Compression, Consistency, PagingState, Response, SerialConsistency, UnknownName};
pub use tokio::time::sleep as pause;
