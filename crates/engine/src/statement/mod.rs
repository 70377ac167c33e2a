//! Statements, and the options of requests.

pub mod descriptions;
pub mod fits;
pub mod nulls;
pub mod prepare;
pub mod seam;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfileHandle;
use scylla::errors::{ExecutionError, RequestAttemptError};
use scylla::policies::retry::RetryPolicy;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::bound::BoundStatement;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;
use turbocql_codec::{Column, CqlType, RowRef};

use crate::error::attempts::Attempts;
use crate::error::effect::{Effect, has_condition, has_word, is_one_of};
use crate::error::{EngineError, ErrorKind, MEANS_OTHERWISE};
use crate::policies::near::Near;
use crate::policies::profile::Profiles;
use crate::statement::descriptions::{RecentColumns, columns};
use crate::statement::seam::EncodedRow;
use crate::telemetry::counters::RequestKind;
use crate::telemetry::events::Origin;
use crate::terms::payload::CustomPayload;
use crate::terms::{Consistency, PagingState, SerialConsistency};

/// A prepared statement.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) inner: PreparedStatement,
    markers: Arc<[Column]>,
    partition_key: Box<[usize]>,
    result_columns: Arc<[Column]>,
    /// The columns of recent answers. Usually they are `result_columns`. They differ after an
    /// `ALTER TABLE`. They also differ for a conditional update on Cassandra, which describes the
    /// columns of the update's result in answers only.
    pub(crate) recent: RecentColumns,
    pub(crate) effect: Effect,
    /// The kind under which requests of the statement are counted.
    pub(crate) kind: RequestKind,
    /// See [`has_steps`].
    pub(crate) has_steps: bool,
    /// Whether the statement writes under a condition.
    pub has_condition: bool,
    /// Whether the statement writes lists, frozen or not. Metadata does not show which lists are
    /// frozen.
    writes_lists: bool,
    /// Whether the statement's text has the word `TIMESTAMP`. If so, it may set a write time.
    has_time: bool,
    stale: AtomicBool,
}

/// Whether the text changes the schema. If so, after the server's answer, the ScyllaDB driver waits
/// for the nodes to agree on the schema, and reads the cluster's metadata again.
pub(crate) fn has_steps(text: &str) -> bool {
    is_one_of(text, &["CREATE", "ALTER", "DROP"])
}

/// Returns the kind under which requests of this text are counted.
pub(crate) fn kind_of(text: &str, effect: Effect) -> RequestKind {
    if has_steps(text) || is_one_of(text, &["USE"]) {
        RequestKind::Schema
    } else if is_one_of(text, &["BEGIN"]) {
        RequestKind::Batch
    } else if has_condition(text) {
        RequestKind::Conditional
    } else if effect == Effect::Reads {
        RequestKind::Read
    } else {
        RequestKind::Write
    }
}

impl Prepared {
    pub(crate) fn new(
        mut inner: PreparedStatement,
        profiles: &Profiles,
    ) -> Result<Prepared, EngineError> {
        let effect = Effect::of(inner.get_statement());
        if effect == Effect::Staged {
            inner.set_retry_policy(Some(profiles.default.retry.careful(effect)));
        } else {
            inner.set_serial_consistency(None);
        }
        let mut key = inner.get_variable_pk_indexes().to_vec();
        key.sort_by_key(|part| part.sequence);
        let recent = RecentColumns::new(4);
        let markers = columns(inner.get_variable_col_specs().as_slice())?;
        let is_list = |marker: &Column| matches!(marker.cql_type.thawed(), CqlType::List(_));
        let result_columns = match inner.get_current_result_set_col_specs().get().as_slice() {
            [] => Arc::default(),
            specs => recent.of(specs)?,
        };
        Ok(Prepared {
            writes_lists: effect != Effect::Reads && markers.iter().any(is_list),
            has_time: has_word(inner.get_statement(), "TIMESTAMP"),
            markers,
            partition_key: key.iter().map(|part| usize::from(part.index)).collect(),
            result_columns,
            recent,
            effect,
            kind: kind_of(inner.get_statement(), effect),
            has_steps: has_steps(inner.get_statement()),
            has_condition: has_condition(inner.get_statement()),
            stale: AtomicBool::new(false),
            inner,
        })
    }

    pub fn text(&self) -> &str {
        self.inner.get_statement()
    }

    /// The bind markers, in the order of a row's values.
    pub fn markers(&self) -> &Arc<[Column]> {
        &self.markers
    }

    /// The indexes of the partition key's bind markers, in the order of the key. If a column of the
    /// key has no bind marker, the list is empty, and requests go to any node.
    pub fn partition_key(&self) -> &[usize] {
        &self.partition_key
    }

    /// The result's columns, as the server described them when it prepared the statement. The list
    /// is empty for a statement without a result, and for a conditional update on Cassandra.
    pub fn result_columns(&self) -> Arc<[Column]> {
        Arc::clone(&self.result_columns)
    }

    /// Whether the request must not be sent twice, even if it was declared idempotent. A non-frozen
    /// list that is written twice with one write time contains its elements twice.
    pub(crate) fn doubles_lists(&self, options: &RequestOptions) -> bool {
        self.writes_lists && (self.has_time || options.timestamp.is_some())
    }

    pub(crate) fn has_result(&self) -> bool {
        !self.result_columns.is_empty()
    }

    /// The token by which a request with these values is routed.
    pub fn token(&self, row: RowRef<'_>) -> Option<i64> {
        let token = self.inner.calculate_token(&EncodedRow(row)).ok()??;
        Some(token.value())
    }

    pub fn keyspace(&self) -> Option<&str> {
        Some(&*self.any_column()?.keyspace)
    }

    pub fn table(&self) -> Option<&str> {
        Some(&*self.any_column()?.table)
    }

    fn any_column(&self) -> Option<&Column> {
        self.markers.first().or(self.result_columns.first())
    }

    /// Whether the statement can no longer be executed, because its id or the types of its values
    /// had changed when it was prepared again.
    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed)
    }

    /// Marks the statement as stale if `answer` is an error that reports a change of the
    /// statement's id, or of the types of its values.
    pub(crate) fn note<T>(&self, answer: &Result<T, ExecutionError>) {
        if let Err(ExecutionError::LastAttemptError(RequestAttemptError::RepreparedIdChanged {
            expected_id,
            ..
        })) = answer
            && **expected_id == **self.inner.get_id()
        {
            self.stale.store(true, Ordering::Relaxed);
        }
    }

    /// Fails if the statement is stale. When the text is prepared again after only the types have
    /// changed, the server gives it the same id. Without this check, the server would then accept
    /// requests with values of the old types.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        if self.is_stale() {
            let message = format!("executing: {MEANS_OTHERWISE}");
            return Err(EngineError::new(ErrorKind::Server, message).about(self.text(), false));
        }
        Ok(())
    }

    /// The ScyllaDB driver's prepared statement, for a batch.
    pub(crate) fn handle(&self) -> PreparedStatement {
        self.inner.clone()
    }
}

/// The options that one request sets. For an option that is not set, the request's profile, the
/// session's configuration or a default decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestOptions {
    pub consistency: Option<Consistency>,
    pub serial_consistency: Option<SerialConsistency>,
    /// `Some(None)` means no time limit.
    pub timeout: Option<Option<Duration>>,
    /// The number of rows per page. If it is below 1, the result is not paged.
    pub page_size: Option<i32>,
    /// The write time in microseconds since the epoch.
    pub timestamp: Option<i64>,
    /// Whether the request may be sent again although it may have been applied. By default, only
    /// reads are taken as idempotent.
    pub idempotent: Option<bool>,
    pub tracing: Option<bool>,
    /// The name of a profile of the session.
    pub profile: Option<Arc<str>>,
    /// Where the result begins, if not at its first row.
    pub paging: Option<PagingState>,
    /// The nodes that the request goes to. If this is not set, the request's values decide.
    pub near: Option<Near>,
    /// Data that the request carries besides its values. If it is set, the custom payload of the
    /// response is kept.
    pub custom_payload: Option<Arc<CustomPayload>>,
    /// The call that the request belongs to, for reports.
    pub origin: Option<Origin>,
}

impl RequestOptions {
    /// Returns a copy of these options, in which `defaults` fills in the options that are not set.
    pub fn over(&self, defaults: &RequestOptions) -> RequestOptions {
        RequestOptions {
            consistency: self.consistency.or(defaults.consistency),
            serial_consistency: self.serial_consistency.or(defaults.serial_consistency),
            timeout: self.timeout.or(defaults.timeout),
            page_size: self.page_size.or(defaults.page_size),
            timestamp: self.timestamp.or(defaults.timestamp),
            idempotent: self.idempotent.or(defaults.idempotent),
            tracing: self.tracing.or(defaults.tracing),
            profile: self.profile.clone().or_else(|| defaults.profile.clone()),
            paging: self.paging.clone().or_else(|| defaults.paging.clone()),
            near: self.near.clone().or_else(|| defaults.near.clone()),
            custom_payload: match (&self.custom_payload, &defaults.custom_payload) {
                (Some(payload), Some(other)) => Some(Arc::new(payload.over(other))),
                (payload, other) => payload.as_ref().or(other.as_ref()).cloned(),
            },
            origin: self.origin.clone().or_else(|| defaults.origin.clone()),
        }
    }

    /// The number of bytes of the encoded custom payload, or 0 if there is none.
    pub fn payload_len(&self) -> usize {
        let payload = self.custom_payload.as_ref().and_then(|payload| payload.encoded());
        payload.map_or(0, <[u8]>::len)
    }

    pub(crate) fn apply(
        &self,
        request: &mut impl Configure,
        attempts: &Arc<Attempts>,
        profiles: &Profiles,
    ) -> Result<(), EngineError> {
        if let Some(name) = &self.profile {
            let named = profiles.get(name).ok_or_else(|| {
                let message = format!("there is no profile {name:?} in this session");
                EngineError::new(ErrorKind::Config, message)
            })?;
            request.profile(named.handle.clone());
            if matches!(attempts.effect(), Effect::Logged | Effect::Staged) {
                request.retry(named.profile.retry.careful(attempts.effect()));
            }
        }
        if let Some(payload) = &self.custom_payload {
            if cfg!(not(edited_crates)) {
                let message = "custom_payload needs a build of turbocql with the edits of the \
                               ScyllaDB driver; this one was built without them";
                return Err(EngineError::new(ErrorKind::Config, message));
            }
            attempts.carry(payload);
        }
        request.history_listener(Arc::clone(attempts));
        let reads = attempts.effect() == Effect::Reads;
        request.idempotent(self.idempotent.unwrap_or(reads));
        if let Some(consistency) = self.consistency {
            request.consistency(consistency);
        }
        if let Some(consistency) = self.serial_consistency {
            request.serial_consistency(consistency);
        }
        if let Some(timeout) = self.timeout {
            // `None` makes the setter use the profile's timeout. `Duration::MAX`, which never
            // passes, stands for no limit.
            request.timeout(timeout.unwrap_or(Duration::MAX));
        }
        if self.timestamp.is_some() {
            request.timestamp(self.timestamp);
        }
        if self.tracing == Some(true) {
            request.tracing();
        }
        Ok(())
    }
}

/// The setters that all three request types of the ScyllaDB driver have, under the same names (see
/// `configure!`). The types have no trait in common.
pub(crate) trait Configure {
    fn history_listener(&mut self, attempts: Arc<Attempts>);
    fn idempotent(&mut self, idempotent: bool);
    fn consistency(&mut self, consistency: Consistency);
    fn serial_consistency(&mut self, consistency: SerialConsistency);
    fn timeout(&mut self, timeout: Duration);
    fn timestamp(&mut self, timestamp: Option<i64>);
    fn tracing(&mut self);
    fn profile(&mut self, profile: ExecutionProfileHandle);
    fn retry(&mut self, policy: Arc<dyn RetryPolicy>);
}

macro_rules! configure {
    ($($request:ty),+) => {$(
        impl Configure for $request {
            fn history_listener(&mut self, attempts: Arc<Attempts>) {
                self.set_history_listener(attempts);
            }

            fn idempotent(&mut self, idempotent: bool) {
                self.set_is_idempotent(idempotent);
            }

            fn consistency(&mut self, consistency: Consistency) {
                self.set_consistency(consistency.into());
            }

            fn serial_consistency(&mut self, consistency: SerialConsistency) {
                self.set_serial_consistency(Some(consistency.into()));
            }

            fn timeout(&mut self, timeout: Duration) {
                self.set_request_timeout(Some(timeout));
            }

            fn timestamp(&mut self, timestamp: Option<i64>) {
                self.set_timestamp(timestamp);
            }

            fn tracing(&mut self) {
                self.set_tracing(true);
            }

            fn profile(&mut self, profile: ExecutionProfileHandle) {
                self.set_execution_profile_handle(Some(profile));
            }

            fn retry(&mut self, policy: Arc<dyn RetryPolicy>) {
                self.set_retry_policy(Some(policy));
            }
        }
    )+};
}

configure!(BoundStatement, Statement, Batch);

/// The guarantee of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchKind {
    /// Eventually all statements are applied, or none.
    Logged,
    /// Statements for one partition are applied together. Across partitions there is no guarantee.
    Unlogged,
    /// The statements are counter updates. They cannot be replayed, so the batch is not logged.
    Counter,
}

impl BatchKind {
    pub(crate) fn into_engine(self) -> BatchType {
        match self {
            BatchKind::Logged => BatchType::Logged,
            BatchKind::Unlogged => BatchType::Unlogged,
            BatchKind::Counter => BatchType::Counter,
        }
    }
}

/// A statement of a batch.
#[derive(Clone, Debug)]
pub enum BatchEntry {
    Prepared(Arc<Prepared>),
    /// A CQL text without values.
    Text(String),
}

impl BatchEntry {
    pub(crate) fn text(&self) -> &str {
        match self {
            BatchEntry::Prepared(prepared) => prepared.text(),
            BatchEntry::Text(text) => text,
        }
    }
}
