//! A session with a cluster, and the requests that it sends.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use scylla::response::PagingStateResponse;
use scylla::statement::batch::{Batch, BatchStatement};
use scylla::statement::unprepared::Statement;
use turbocql_codec::{Page, RowBuffer};

use crate::attempts::Attempts;
use crate::config::Config;
use crate::connect;
use crate::descriptions::RecentColumns;
use crate::effect::Effect;
use crate::error::{EngineError, ErrorKind, deadline, executing, preparing};
use crate::prepare::Merge;
use crate::profile::Profiles;
use crate::seam::{self, ArenaRows};
use crate::statement::{BatchEntry, BatchKind, PagingState, Prepared, RequestOptions};

/// An open session. Clones share it. Dropping the last clone closes the session and all of its
/// connections.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    engine: scylla::client::session::Session,
    profiles: Arc<Profiles>,
    page_size: i32,
    /// The keyspace in use. The ScyllaDB driver stores a keyspace too, but its method that changes
    /// the keyspace stores the new name before the server has accepted it.
    keyspace: Mutex<Option<String>>,
    preparing: Merge<Result<Arc<Prepared>, EngineError>>,
    /// The columns of recent results of unprepared statements and batches.
    recent: RecentColumns,
}

/// The response to a request. No value in it is decoded.
#[derive(Clone, Debug)]
pub struct Response {
    /// The rows; `None` for a statement without a result.
    pub page: Option<Page>,
    /// The position of the next page; `None` if there is no next page.
    pub next: Option<PagingState>,
    pub warnings: Vec<String>,
    pub tracing_id: Option<[u8; 16]>,
    /// The coordinator: the node that answered.
    pub coordinator: Option<SocketAddr>,
}

impl Session {
    /// Connects, within [`Config::connect_timeout`], and then uses the keyspace, within the timeout
    /// of the default profile. Must run on a [`Runtime`](crate::Runtime), on which the connections
    /// then live.
    pub async fn connect(config: Config) -> Result<Session, EngineError> {
        let engine = connect::connect(&config).await?;
        let session = Session(Arc::new(Inner {
            engine,
            profiles: Arc::new(Profiles::new(config.profile, config.profiles)),
            page_size: config.page_size,
            keyspace: Mutex::default(),
            preparing: Merge::new(),
            recent: RecentColumns::new(16),
        }));
        if let Some(keyspace) = &config.keyspace {
            session.use_keyspace(keyspace, true).await?;
        }
        Ok(session)
    }

    /// Prepares `text` on the server, within the timeout of `options`. Nothing is cached here, but
    /// concurrent calls with the same text share one round trip.
    pub async fn prepare(
        &self,
        text: &str,
        options: &RequestOptions,
    ) -> Result<Arc<Prepared>, EngineError> {
        let inner = &self.0;
        let work = || async {
            let prepared = inner.engine.prepare(text).await.map_err(|error| preparing(&error))?;
            Ok(Arc::new(Prepared::new(prepared, &inner.profiles)?))
        };
        let prepared = inner.preparing.run(text, work);
        // The ScyllaDB driver sets no time limit, and waits for the slowest node.
        let limit = inner.profiles.of(options.profile.as_deref()).timeout;
        match options.timeout.unwrap_or(limit) {
            None => prepared.await,
            Some(limit) => tokio::time::timeout(limit, prepared)
                .await
                .map_err(|_| deadline("preparing", limit, None))?,
        }
    }

    /// Executes a prepared statement with the only row of `rows`. A result arrives page by page,
    /// beginning at `paging`, unless paging is off.
    pub async fn execute(
        &self,
        prepared: &Arc<Prepared>,
        rows: &RowBuffer,
        options: &RequestOptions,
        paging: Option<PagingState>,
    ) -> Result<Response, EngineError> {
        self.execute_noting(prepared, rows, options, paging, &mut Attempts::idle()).await
    }

    /// Like [`Session::execute`]. It records the attempts in `attempts`, which can be used again
    /// afterwards.
    pub(crate) async fn execute_noting(
        &self,
        prepared: &Arc<Prepared>,
        rows: &RowBuffer,
        options: &RequestOptions,
        paging: Option<PagingState>,
        attempts: &mut Arc<Attempts>,
    ) -> Result<Response, EngineError> {
        let (Some(row), 1) = (rows.row(0), rows.len()) else {
            let message = format!("executing: expected one row of values, got {}", rows.len());
            return Err(EngineError::new(ErrorKind::Encode, message));
        };
        let mut bound = prepared.bind(row, options, &self.0.profiles, attempts)?;
        let paging = paging.or_else(|| options.paging.clone());
        if paging.is_some() && !prepared.has_result() {
            let message = "executing: a statement without a result takes no paging state";
            return Err(EngineError::new(ErrorKind::Config, message));
        }
        let engine = &self.0.engine;
        // A statement without a result needs no page size: one field less to send and to read.
        let paged = paging.is_some() || prepared.has_result();
        let answer = match self.page_size(options, &paging)?.filter(|_| paged) {
            Some(page_size) => {
                bound.set_page_size(page_size);
                engine.execute_bound_single_page(&bound, start(paging)).await
            }
            None => engine
                .execute_bound_unpaged(&bound)
                .await
                .map(|result| (result, PagingStateResponse::NoMorePages)),
        };
        answered("executing", answer, attempts, &prepared.recent)
    }

    /// Executes a CQL text unprepared and without values.
    pub async fn query(
        &self,
        text: &str,
        options: &RequestOptions,
        paging: Option<PagingState>,
    ) -> Result<Response, EngineError> {
        self.run_text("executing", text, options, paging).await
    }

    async fn run_text(
        &self,
        doing: &str,
        text: &str,
        options: &RequestOptions,
        paging: Option<PagingState>,
    ) -> Result<Response, EngineError> {
        let attempts = Attempts::new(Effect::of(text));
        let mut statement = Statement::new(text);
        let paging = paging.or_else(|| options.paging.clone());
        if attempts.effect() == Effect::Staged {
            statement.set_retry_policy(Some(self.0.profiles.default.retry.staged()));
        } else {
            statement.set_serial_consistency(None);
        }
        options.apply(&mut statement, &attempts, &self.0.profiles)?;
        let engine = &self.0.engine;
        let answer = match self.page_size(options, &paging)? {
            Some(page_size) => {
                statement.set_page_size(page_size);
                engine.query_single_page(statement, (), start(paging)).await
            }
            None => engine
                .query_unpaged(statement, ())
                .await
                .map(|result| (result, PagingStateResponse::NoMorePages)),
        };
        let response = answered(doing, answer, &attempts, &self.0.recent)?;
        self.note_keyspace();
        Ok(response)
    }

    /// Executes a batch. Row `i` of `values` belongs to statement `i`; for a text it is empty. The
    /// batch is routed by the partition key of the first statement.
    pub async fn batch(
        &self,
        kind: BatchKind,
        statements: Vec<BatchEntry>,
        values: RowBuffer,
        options: &RequestOptions,
    ) -> Result<Response, EngineError> {
        check_batch(&statements, &values)?;
        let statements = statements.into_iter().map(|statement| match statement {
            BatchEntry::Prepared(prepared) => BatchStatement::from(prepared.handle()),
            BatchEntry::Text(text) => BatchStatement::from(text.as_str()),
        });
        let mut batch = Batch::new_with_statements(kind.into_engine(), statements.collect());
        let attempts = Attempts::new(Effect::Staged);
        batch.set_retry_policy(Some(self.0.profiles.default.retry.staged()));
        options.apply(&mut batch, &attempts, &self.0.profiles)?;
        let answer = self.0.engine.batch(&batch, ArenaRows(values)).await;
        let answer = answer.map(|result| (result, PagingStateResponse::NoMorePages));
        answered("executing a batch", answer, &attempts, &self.0.recent)
    }

    /// Makes `name` the keyspace of all present and future connections. Unless `case_sensitive` is
    /// true, the name is converted to lower case, as in CQL.
    pub async fn use_keyspace(&self, name: &str, case_sensitive: bool) -> Result<(), EngineError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || name.len() > 48 || !name.chars().all(legal) {
            let message =
                format!("keyspace \"{name}\": expected 1 to 48 letters, digits and underscores");
            return Err(EngineError::new(ErrorKind::Config, message));
        }
        let name = if case_sensitive { name.to_owned() } else { name.to_ascii_lowercase() };
        // Sent as a statement, because the ScyllaDB driver's own method stores the name before the
        // server has accepted it. If no keyspace had this name, every later connection would fail.
        let (doing, text) = (format!("using keyspace \"{name}\""), format!("USE \"{name}\""));
        self.run_text(&doing, &text, &RequestOptions::default(), None).await.map(drop)
    }

    /// The keyspace in use.
    pub fn keyspace(&self) -> Option<String> {
        self.0.keyspace.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Whether the session has a profile of this name.
    pub fn has_profile(&self, name: &str) -> bool {
        self.0.profiles.get(name).is_some()
    }

    /// Copies the ScyllaDB driver's keyspace, which a `USE` among the queries changes.
    fn note_keyspace(&self) {
        let Some(theirs) = self.0.engine.get_keyspace() else { return };
        let mut ours = self.0.keyspace.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if ours.as_deref() != Some(theirs.as_str()) {
            *ours = Some(theirs.as_str().to_owned());
        }
    }

    /// The number of rows per page; `None` if paging is off.
    fn page_size(
        &self,
        options: &RequestOptions,
        paging: &Option<PagingState>,
    ) -> Result<Option<i32>, EngineError> {
        let size = Some(options.page_size.unwrap_or(self.0.page_size)).filter(|&size| size > 0);
        if size.is_none() && paging.is_some() {
            let message = "executing: a paging state requires a page size above 0";
            return Err(EngineError::new(ErrorKind::Config, message));
        }
        Ok(size)
    }

    pub(crate) fn profiles(&self) -> &Profiles {
        &self.0.profiles
    }

    pub(crate) fn engine(&self) -> &scylla::client::session::Session {
        &self.0.engine
    }
}

type Answer = (scylla::response::query_result::QueryResult, PagingStateResponse);

/// Converts the ScyllaDB driver's answer to a [`Response`], or its error to an [`EngineError`].
fn answered(
    doing: &str,
    answer: Result<Answer, scylla::errors::ExecutionError>,
    attempts: &Attempts,
    recent: &RecentColumns,
) -> Result<Response, EngineError> {
    let (result, next) = answer.map_err(|error| executing(doing, &error, attempts))?;
    let next = match &next {
        PagingStateResponse::HasMorePages { state } => PagingState::from_engine(state),
        PagingStateResponse::NoMorePages => None,
    };
    seam::response(result, next, recent).map_err(|error| unreadable(error, attempts))
}

/// The failure for an answer that cannot be read. The server has answered, so it may have applied the
/// request.
pub(crate) fn unreadable(error: EngineError, attempts: &Attempts) -> EngineError {
    EngineError {
        may_have_applied: attempts.effect() != Effect::Reads,
        attempts: Some(attempts.count()),
        coordinator: attempts.node().map(|node| node.to_string()),
        ..error
    }
}

fn start(paging: Option<PagingState>) -> scylla::response::PagingState {
    paging.map_or_else(scylla::response::PagingState::start, PagingState::into_engine)
}

/// Checks that each statement has a row with the right number of values. A text must have no
/// values: the ScyllaDB driver would prepare a text with values again for every batch.
fn check_batch(statements: &[BatchEntry], values: &RowBuffer) -> Result<(), EngineError> {
    let refuse = |message| Err(EngineError::new(ErrorKind::Encode, message));
    if statements.len() != values.len() {
        let (statements, rows) = (statements.len(), values.len());
        return refuse(format!("batch: {statements} statements, but {rows} rows of values"));
    }
    for (i, (statement, row)) in statements.iter().zip(values.rows()).enumerate() {
        let wanted = match statement {
            BatchEntry::Prepared(prepared) => prepared.markers().len(),
            BatchEntry::Text(_) => 0,
        };
        if wanted != row.len() {
            let got = row.len();
            return refuse(format!("batch: statement {i}: expected {wanted} values, got {got}"));
        }
    }
    Ok(())
}
