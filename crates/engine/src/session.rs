//! A session with a cluster, and the requests that it sends.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scylla::response::PagingStateResponse;
use scylla::statement::unprepared::Statement;
use turbocql_codec::{Page, RowBuffer};

use crate::answer::{Said, Text, few};
use crate::attempts::Attempts;
use crate::bulk::null_of;
use crate::config::Config;
use crate::connect::{self, Doors};
use crate::descriptions::RecentColumns;
use crate::effect::{Effect, has_condition, is_one_of};
use crate::error::{EngineError, ErrorKind, deadline, preparing};
use crate::gate::{Gate, Permit, Place};
use crate::lanes::Request;
use crate::limit::{Rest, of_steps, to_the_end};
use crate::prepare::Merge;
use crate::profile::Profiles;
use crate::statement::{PagingState, Prepared, RequestOptions, has_steps};
use crate::watch::Watch;

/// An open session. Clones share it. Dropping the last clone closes the session and all of its
/// connections.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) engine: scylla::client::session::Session,
    pub(crate) watch: Arc<Watch>,
    doors: Arc<Doors>,
    gate: Arc<Gate>,
    profiles: Arc<Profiles>,
    page_size: i32,
    /// Whether the client's clock sets the times of writes.
    client_timestamps: bool,
    /// Whether errors have no literals of statements.
    hides: bool,
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

impl Response {
    /// Whether the page has no rows, and another follows.
    pub fn is_empty_page(&self) -> bool {
        self.next.is_some() && self.page.as_ref().is_some_and(|page| page.row_count == 0)
    }
}

impl Session {
    /// Connects, within [`Config::connect_timeout`], and then uses the keyspace, within the timeout
    /// of the default profile. Must run on a [`Runtime`](crate::Runtime), on which the connections
    /// then live.
    pub async fn connect(config: Config) -> Result<Session, EngineError> {
        let watch = Arc::<Watch>::default();
        let routes = config.profile.balancing.routes(&watch);
        let (engine, doors) = connect::connect(&config, config.profile.handle(&routes)).await?;
        let session = Session(Arc::new(Inner {
            engine,
            watch: Arc::clone(&watch),
            doors: Arc::clone(&doors),
            gate: Gate::new(config.max_in_flight, config.max_in_flight_bytes),
            profiles: Arc::new(Profiles::new(config.profile, routes, config.profiles, &watch)),
            page_size: config.page_size,
            client_timestamps: config.client_timestamps,
            hides: !config.values_in_errors,
            keyspace: Mutex::default(),
            preparing: Merge::new(),
            recent: RecentColumns::new(16),
        }));
        if session.0.profiles.watches() {
            tokio::spawn(watch.keep(Arc::downgrade(&session.0), doors));
        }
        if let Some(keyspace) = &config.keyspace {
            session.use_keyspace(keyspace, true).await?;
        }
        Ok(session)
    }

    /// Prepares `text` on the server, within the timeout of `options`, which counts from `began`.
    /// Nothing is cached here, but concurrent calls with the same text share one round trip.
    pub async fn prepare(
        &self,
        text: &str,
        options: &RequestOptions,
        began: Instant,
    ) -> Result<Arc<Prepared>, EngineError> {
        let inner = &self.0;
        let work = || async {
            let prepared = inner.engine.prepare(text).await;
            let prepared = prepared.map_err(|error| {
                let mut told = preparing(&error);
                if told.kind == ErrorKind::Unavailable {
                    self.name_unconnected("preparing", &mut told);
                }
                self.asked(told).about(text, inner.hides)
            })?;
            Ok(Arc::new(Prepared::new(prepared, &inner.profiles)?))
        };
        let prepared = inner.preparing.run(text, work);
        // The ScyllaDB driver sets no time limit.
        match self.rest("preparing", options, began)? {
            None => prepared.await,
            Some(rest) => tokio::time::timeout(rest.left, prepared).await.map_err(|_| {
                self.asked(deadline("preparing", rest.whole, None)).about(text, inner.hides)
            })?,
        }
    }

    /// Adds the nodes that were asked to prepare a statement: all that are connected.
    fn asked(&self, mut error: EngineError) -> EngineError {
        let asked = self.nodes().into_iter().filter(|node| node.connected);
        let asked: Vec<String> = asked.map(|node| node.address.to_string()).collect();
        if !asked.is_empty() {
            error.message.push_str(&format!("; asked {}", few(&asked, ", ")));
        }
        error
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
        let request = Request { session: self, prepared, row: rows, options, began: None };
        self.execute_noting(&request, paging, &mut Attempts::idle()).await
    }

    /// Like [`Session::execute`]. It records the attempts in `attempts`, which can be used again
    /// afterwards.
    pub(crate) async fn execute_noting(
        &self,
        request: &Request<'_>,
        paging: Option<PagingState>,
        attempts: &mut Arc<Attempts>,
    ) -> Result<Response, EngineError> {
        let &Request { prepared, row: rows, options, began, .. } = request;
        let (Some(row), 1) = (rows.row(0), rows.len()) else {
            let message = format!("executing: expected one row of values, got {}", rows.len());
            return Err(EngineError::new(ErrorKind::Encode, message));
        };
        let mut bound = prepared.bind(row, options, &self.0.profiles, attempts)?;
        if options.near.is_some() || prepared.has_condition {
            let routes = self.0.profiles.routes(options.profile.as_deref());
            let policy = match &options.near {
                Some(near) => routes.near(near),
                None => routes.conditional(),
            };
            bound.set_load_balancing_policy(Some(policy));
        }
        let paging = paging.or_else(|| options.paging.clone());
        if paging.is_some() && !prepared.has_result() {
            let message = "executing: a statement without a result takes no paging state";
            return Err(EngineError::new(ErrorKind::Config, message));
        }
        let rest = began.map(|began| self.rest("executing", options, began)).transpose()?.flatten();
        if let Some(rest) = rest {
            bound.set_request_timeout(Some(rest.left));
        }
        let said = Said { doing: "executing", text: Text::One(prepared.text()), rest, options };
        let engine = &self.0.engine;
        if prepared.has_condition {
            Box::pin(self.before_condition()).await;
        }
        // A statement without a result needs no page size: one field less to send and to read.
        let paged = paging.is_some() || prepared.has_result();
        let page_size = self.page_size(options, &paging)?.filter(|_| paged);
        if prepared.has_steps {
            // No borrow of `attempts`, which the caller uses again.
            let attempts = Arc::clone(attempts);
            let work = async {
                let answer = engine.execute_bound_unpaged(&bound).await;
                let answer = answer.map(|result| (result, PagingStateResponse::NoMorePages));
                self.answered(&said, answer, &attempts, &prepared.recent)
            };
            let limit = of_steps(options, rest);
            return Box::pin(to_the_end(&said, limit, self, &attempts, work)).await;
        }
        let answer = match page_size {
            Some(page_size) => {
                bound.set_page_size(page_size);
                engine.execute_bound_single_page(&bound, start(paging)).await
            }
            None => engine
                .execute_bound_unpaged(&bound)
                .await
                .map(|result| (result, PagingStateResponse::NoMorePages)),
        };
        prepared.note(&answer);
        let answered = self.answered(&said, answer, attempts, &prepared.recent);
        answered.map_err(|error| {
            let null = null_of(prepared.markers(), row, &error, self.0.hides);
            null.map_or_else(|| error.clone(), |null| error.clone().explained(&null))
        })
    }

    /// The rest of the time limit of a call that began at `began`. `None` if it has no limit.
    pub(crate) fn rest(
        &self,
        doing: &str,
        options: &RequestOptions,
        began: Instant,
    ) -> Result<Option<Rest>, EngineError> {
        let limit = self.limit(options);
        limit.map(|whole| Rest::of(doing, whole, began)).transpose()
    }

    /// Whether the client's clock sets the times of writes.
    pub fn sets_timestamps(&self) -> bool {
        self.0.client_timestamps
    }

    /// What is left of the time limit of a call that began at `began`. `None` if it has no limit.
    pub(crate) fn left(&self, options: &RequestOptions, began: Instant) -> Option<Duration> {
        self.limit(options).map(|limit| limit.saturating_sub(began.elapsed()))
    }

    /// The time limit of a call: its own, or that of its profile.
    fn limit(&self, options: &RequestOptions) -> Option<Duration> {
        let profile = self.0.profiles.of(options.profile.as_deref());
        options.timeout.unwrap_or(profile.timeout)
    }

    /// Executes a CQL text unprepared and without values. `began` is when the call began, if it has
    /// waited.
    pub async fn query(
        &self,
        text: &str,
        options: &RequestOptions,
        paging: Option<PagingState>,
        began: Option<Instant>,
    ) -> Result<Response, EngineError> {
        self.run_text("executing", text, options, paging, began).await
    }

    async fn run_text(
        &self,
        doing: &str,
        text: &str,
        options: &RequestOptions,
        paging: Option<PagingState>,
        began: Option<Instant>,
    ) -> Result<Response, EngineError> {
        let attempts = Attempts::new(Effect::of(text));
        let mut statement = Statement::new(text);
        let paging = paging.or_else(|| options.paging.clone());
        if attempts.effect() == Effect::Staged {
            let retry = self.0.profiles.default.retry;
            statement.set_retry_policy(Some(retry.careful(Effect::Staged)));
        } else {
            statement.set_serial_consistency(None);
        }
        options.apply(&mut statement, &attempts, &self.0.profiles)?;
        let rest = began.map(|began| self.rest(doing, options, began)).transpose()?.flatten();
        if let Some(rest) = rest {
            statement.set_request_timeout(Some(rest.left));
        }
        let engine = &self.0.engine;
        let page_size = self.page_size(options, &paging)?;
        let said = Said { doing, text: Text::One(text), rest, options };
        if has_condition(text) {
            self.before_condition().await;
        }
        let work = async {
            let answer = match page_size {
                Some(page_size) => {
                    statement.set_page_size(page_size);
                    engine.query_single_page(statement, (), start(paging)).await
                }
                None => engine
                    .query_unpaged(statement, ())
                    .await
                    .map(|result| (result, PagingStateResponse::NoMorePages)),
            };
            self.answered(&said, answer, &attempts, &self.0.recent)
        };
        let response = if is_one_of(text, &["USE"]) {
            let limit = rest.map(|rest| rest.left).or_else(|| self.limit(options));
            to_the_end(&said, limit, self, &attempts, work).await
        } else if has_steps(text) {
            to_the_end(&said, of_steps(options, rest), self, &attempts, work).await
        } else {
            work.await
        };
        self.note_keyspace();
        response
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
        self.run_text(&doing, &text, &RequestOptions::default(), None, None).await.map(drop)
    }

    /// The keyspace in use.
    pub fn keyspace(&self) -> Option<String> {
        self.0.keyspace.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// The bound on the requests in flight. The caller passes it before it encodes a request; the
    /// rows of a [`Bulk`](crate::Bulk) pass it by themselves.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.0.gate
    }

    /// Waits until the request with this place in the queue is admitted, within the time limit of
    /// its call, which began at `began`.
    pub async fn admitted(
        &self,
        place: Place,
        text: &str,
        options: &RequestOptions,
        began: Instant,
    ) -> Result<Permit, EngineError> {
        let doing = "waiting for other requests of the session";
        let entering = place.admitted();
        let rest = self.rest(doing, options, began);
        match rest.map_err(|error| error.about(text, self.hides()))? {
            None => Ok(entering.await),
            Some(rest) => tokio::time::timeout(rest.left, entering).await.map_err(|_| {
                let error = deadline(doing, rest.whole, Some(&Attempts::idle()));
                let message = format!("{}; {}", error.message, self.full());
                EngineError { message, ..error }.about(text, self.hides())
            }),
        }
    }

    /// The error for a request that is not to wait.
    pub fn session_full(&self, text: &str) -> EngineError {
        let error = EngineError::new(ErrorKind::Full, format!("executing: {}", self.full()));
        error.about(text, self.hides())
    }

    fn full(&self) -> String {
        let (most, most_bytes) = self.0.gate.limits();
        let (admitted, bytes) = self.0.gate.admitted();
        format!(
            "the session is full: {admitted} requests of at most {most} (max_in_flight) are in flight, \
             with {bytes} bytes of values of at most {most_bytes} (max_in_flight_bytes)"
        )
    }

    /// Whether the session has a profile of this name.
    pub fn has_profile(&self, name: &str) -> bool {
        self.0.profiles.get(name).is_some()
    }

    /// Copies the keyspace that the ScyllaDB driver stores. A `USE` that is executed as a text
    /// changes it.
    fn note_keyspace(&self) {
        let Some(theirs) = self.0.engine.get_keyspace() else { return };
        let mut ours = self.0.keyspace.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if ours.as_deref() != Some(theirs.as_str()) {
            *ours = Some(theirs.as_str().to_owned());
        }
    }

    /// The number of rows of a scan's pages, if it sets none.
    pub(crate) fn page_rows(&self) -> i32 {
        Some(self.0.page_size).filter(|&size| size > 0).unwrap_or(5000)
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

    /// The numbers of requests that the watch has sent, and of those that have failed.
    pub(crate) fn probes(&self) -> (u64, u64) {
        let watch = &self.0.watch;
        let failed = watch.failed_probes.load(Ordering::Relaxed);
        (watch.probes.load(Ordering::Relaxed), failed)
    }

    /// Whether errors quote no values ([`Config::values_in_errors`]).
    pub fn hides(&self) -> bool {
        self.0.hides
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.0.watch
    }

    pub(crate) fn doors(&self) -> &Doors {
        &self.0.doors
    }

    pub(crate) fn recent(&self) -> &RecentColumns {
        &self.0.recent
    }

    pub(crate) fn profiles(&self) -> &Profiles {
        &self.0.profiles
    }

    pub(crate) fn engine(&self) -> &scylla::client::session::Session {
        &self.0.engine
    }
}

fn start(paging: Option<PagingState>) -> scylla::response::PagingState {
    paging.map_or_else(scylla::response::PagingState::start, PagingState::into_engine)
}
