//! A session with a cluster, and the requests that it sends.

mod answer;
mod batch;
mod condition;
mod execute;
pub mod nodes;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use turbocql_codec::RowBuffer;

use self::nodes::{Metrics, Node, Trace};
use crate::cluster::config::Config;
use crate::cluster::connect;
use crate::cluster::probe::Endpoints;
use crate::cluster::watch::{Watch, Watched};
use crate::error::attempts::Attempts;
use crate::error::{EngineError, ErrorKind, deadline, preparing};
use crate::policies::profile::Profiles;
use crate::policies::ranks::Ranks;
use crate::policies::silence::Silence;
use crate::request::gate::{Gate, Permit, QueuePosition};
use crate::request::limit::{Knows, TimeLeft};
use crate::request::subject::few;
use crate::statement::descriptions::RecentColumns;
use crate::statement::prepare::Merge;
use crate::statement::{BatchEntry, BatchKind, Prepared, RequestOptions};
use crate::telemetry::counters::{Telemetry, TimeoutPhase};
use crate::terms::{PagingState, Response};

pub(crate) use self::answer::{failed, name_unconnected, unreadable};
pub(crate) use self::condition::delay_before_conditional_write;
pub(crate) use self::execute::execute;

/// An open session. Clones share the session. Dropping the last clone closes the session and all of
/// its connections.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) engine: scylla::client::session::Session,
    pub(crate) silence: Arc<Silence>,
    endpoints: Arc<Endpoints>,
    gate: Arc<Gate>,
    profiles: Arc<Profiles>,
    page_size: i32,
    /// Whether the client's clock sets the times of writes.
    client_timestamps: bool,
    /// Whether errors leave out values and literals.
    hides: bool,
    /// The keyspace in use. The ScyllaDB driver stores a keyspace too, but its method that changes
    /// the keyspace stores the new name before the server has accepted it.
    keyspace: Mutex<Option<String>>,
    /// Held during a `USE`, because two concurrent `USE` statements could take effect in a
    /// different order on each connection.
    using: tokio::sync::Mutex<()>,
    preparing: Merge<Result<Arc<Prepared>, EngineError>>,
    /// The columns of recent results of unprepared statements and batches.
    recent: RecentColumns,
}

impl Watched for Inner {
    fn engine(&self) -> &scylla::client::session::Session {
        &self.engine
    }
}

/// The session and the arguments of a call of [`Session::execute`], except the paging state.
pub struct Request<'a> {
    pub session: &'a Session,
    pub prepared: &'a Arc<Prepared>,
    pub row: &'a RowBuffer,
    pub options: &'a RequestOptions,
    /// The time at which the call began, if it first waited for the gate to admit the request, or
    /// prepared its statement. The time limit counts from this time.
    pub began: Option<Instant>,
}

impl Session {
    /// Connects, within [`Config::connect_timeout`]. Then uses `config.keyspace` if that is set,
    /// within the timeout of the default profile. The future must run on a
    /// [`Runtime`](crate::Runtime), on which the connections then live.
    pub async fn connect(config: Config) -> Result<Session, EngineError> {
        let silence = Arc::<Silence>::default();
        let telemetry = Telemetry::new(config.slow_request);
        let ranks = Arc::<Ranks>::default();
        let routes = config.profile.balancing.routes(&silence, &ranks);
        let (engine, endpoints) =
            connect::connect(&config, config.profile.handle(&routes), &silence, &telemetry).await?;
        let session = Session(Arc::new(Inner {
            engine,
            silence: Arc::clone(&silence),
            endpoints: Arc::clone(&endpoints),
            gate: Gate::new(config.max_in_flight, config.max_in_flight_bytes),
            profiles: Arc::new(Profiles::new(
                config.profile,
                routes,
                config.profiles,
                &silence,
                ranks,
                Arc::clone(&telemetry),
            )),
            page_size: config.page_size,
            client_timestamps: config.client_timestamps,
            hides: !config.values_in_errors,
            keyspace: Mutex::default(),
            using: tokio::sync::Mutex::default(),
            preparing: Merge::new(),
            recent: RecentColumns::new(16),
        }));
        telemetry.opened();
        if session.0.profiles.watches() {
            let watched: Weak<dyn Watched> = Arc::<Inner>::downgrade(&session.0);
            tokio::spawn(
                Arc::new(Watch { silence, endpoints, session: watched, telemetry }).keep(),
            );
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
        let result = self.prepare_uncounted(text, options, began).await;
        if let Err(error) = &result {
            self.telemetry().failed(error.counted_as());
            if error.kind == ErrorKind::Timeout {
                self.telemetry().timed_out(TimeoutPhase::Prepare);
            }
            if options.origin.is_some() {
                self.report_unsent(text, None, options, began, error);
            }
        }
        result
    }

    async fn prepare_uncounted(
        &self,
        text: &str,
        options: &RequestOptions,
        began: Instant,
    ) -> Result<Arc<Prepared>, EngineError> {
        let inner = &self.0;
        let work = || async {
            self.telemetry().prepared.fetch_add(1, Ordering::Relaxed);
            let prepared = inner.engine.prepare(text).await;
            let prepared = prepared.map_err(|error| {
                let mut failure = preparing(&error);
                if failure.kind == ErrorKind::Unavailable {
                    name_unconnected(self, "preparing", &mut failure);
                }
                self.with_asked_nodes(failure).about(text, inner.hides)
            })?;
            Ok(Arc::new(Prepared::new(prepared, &inner.profiles)?))
        };
        let prepared = inner.preparing.run(text, work);
        // The ScyllaDB driver sets no time limit for preparing.
        match self.time_left("preparing", options, began)? {
            None => prepared.await,
            Some(time_left) => {
                tokio::time::timeout(time_left.remaining, prepared).await.map_err(|_| {
                    let mut error =
                        self.with_asked_nodes(deadline("preparing", time_left.limit, None));
                    error.message += &self.not_answering();
                    error.about(text, inner.hides)
                })?
            }
        }
    }

    /// Adds to the error's message up to five of the connected nodes, which were asked to prepare.
    fn with_asked_nodes(&self, mut error: EngineError) -> EngineError {
        let nodes = self.nodes().into_iter().filter(|node| node.connected);
        let nodes: Vec<String> = nodes.map(|node| node.address.to_string()).collect();
        if !nodes.is_empty() {
            error.message.push_str(&format!("; asked {}", few(&nodes, ", ")));
        }
        error
    }

    /// Executes a prepared statement with the only row of `rows`. Returns the page at `paging`,
    /// else the page at the paging state of `options`, else the first page. If paging is off,
    /// returns the whole result.
    pub async fn execute(
        &self,
        prepared: &Arc<Prepared>,
        rows: &RowBuffer,
        options: &RequestOptions,
        paging: Option<PagingState>,
    ) -> Result<Response, EngineError> {
        let request = Request { session: self, prepared, row: rows, options, began: None };
        execute::execute(&request, paging, &mut Attempts::idle()).await
    }

    /// Sends `request`. The time limit counts from `request.began`, if that is set.
    pub async fn send(request: &Request<'_>) -> Result<Response, EngineError> {
        execute::execute(request, None, &mut Attempts::idle()).await
    }

    /// Sets the ranks of the nodes, which `ranks` names by host id. Nodes of a lower rank are tried
    /// first, and nodes of rank `None` are excluded. If `ranks` is `None`, load balancing alone
    /// decides.
    pub fn rank(&self, ranks: Option<Vec<([u8; 16], Option<u32>)>>) {
        let by_host = ranks.map(|ranks| {
            ranks.into_iter().map(|(host, rank)| (uuid::Uuid::from_bytes(host), rank)).collect()
        });
        self.0.profiles.ranks.set(by_host);
    }

    /// Returns the rest of the time limit of a call that began at `began`, or `None` if the call
    /// has no limit. Fails if the limit has passed.
    pub(crate) fn time_left(
        &self,
        doing: &str,
        options: &RequestOptions,
        began: Instant,
    ) -> Result<Option<TimeLeft>, EngineError> {
        let limit = self.limit(options);
        limit.map(|limit| TimeLeft::of(doing, limit, began)).transpose()
    }

    /// Whether the client's clock sets the times of writes.
    pub fn sets_timestamps(&self) -> bool {
        self.0.client_timestamps
    }

    /// Returns the rest of the time limit of a call that began at `began`, or `None` if the call
    /// has no limit. Returns zero if the limit has passed.
    pub fn remaining_time(&self, options: &RequestOptions, began: Instant) -> Option<Duration> {
        self.limit(options).map(|limit| limit.saturating_sub(began.elapsed()))
    }

    /// Returns the time limit of a call: its own limit or, without one, the limit of its profile.
    fn limit(&self, options: &RequestOptions) -> Option<Duration> {
        let profile = self.0.profiles.of(options.profile.as_deref());
        options.timeout.unwrap_or(profile.timeout)
    }

    /// Executes a CQL text unprepared and without values. If the call first waited for the gate to
    /// admit the request, `began` is the time at which the call began.
    pub async fn query(
        &self,
        text: &str,
        options: &RequestOptions,
        paging: Option<PagingState>,
        began: Option<Instant>,
    ) -> Result<Response, EngineError> {
        execute::query(self, "executing", text, options, paging, began).await
    }

    /// Executes a batch. Row `i` of `values` belongs to statement `i`; for a statement that is a
    /// text, this row is empty. The batch is routed by the partition key of the first statement. If
    /// the call first waited for the gate to admit the request, or prepared statements, `began` is
    /// the time at which the call began.
    pub async fn batch(
        &self,
        kind: BatchKind,
        statements: Vec<BatchEntry>,
        values: RowBuffer,
        options: &RequestOptions,
        began: Option<Instant>,
    ) -> Result<Response, EngineError> {
        batch::batch(self, kind, statements, values, options, began).await
    }

    pub fn nodes(&self) -> Vec<Node> {
        nodes::nodes(self)
    }

    /// The replicas of a token: the host id and the shard of each.
    pub fn replicas(&self, keyspace: &str, table: &str, token: i64) -> Vec<([u8; 16], u32)> {
        nodes::replicas(self, keyspace, table, token)
    }

    pub fn cluster_name(&self) -> String {
        nodes::cluster_name(self)
    }

    /// Reads the nodes and the keyspaces of the cluster again, within the timeout of the default
    /// profile.
    pub async fn refresh(&self) -> Result<(), EngineError> {
        nodes::refresh(self).await
    }

    /// Waits until all nodes that are up have the same schema, and returns the schema's version.
    pub async fn agreement(&self, limit: Option<Duration>) -> Result<[u8; 16], EngineError> {
        nodes::agreement(self, limit).await
    }

    /// Returns the trace of a request, read within the timeout of the default profile. Returns
    /// `None` if the server has no trace with this id.
    pub async fn trace(&self, id: [u8; 16]) -> Result<Option<Trace>, EngineError> {
        nodes::trace(self, id).await
    }

    pub fn metrics(&self) -> Metrics {
        nodes::metrics(self)
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
        // The keyspace is changed by a statement, because the ScyllaDB driver's own method stores
        // the name before the server has accepted it. If no keyspace had this name, every later
        // connection would fail.
        let (doing, text) = (format!("using keyspace \"{name}\""), format!("USE \"{name}\""));
        execute::query(self, &doing, &text, &RequestOptions::default(), None, None).await.map(drop)
    }

    /// The keyspace in use.
    pub fn keyspace(&self) -> Option<String> {
        // A `USE` may have changed the driver's keyspace after its caller had stopped waiting.
        execute::note_keyspace(self);
        self.0.keyspace.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// The counters and the events of the session.
    pub fn telemetry(&self) -> &Arc<Telemetry> {
        &self.0.profiles.telemetry
    }

    /// The bound on the requests in flight. The caller must enter the gate before it encodes a
    /// request. A [`Bulk`](crate::Bulk) enters the gate by itself.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.0.gate
    }

    /// Waits until the request at `position` in the queue is admitted. Fails at the time limit of
    /// the call, which counts from `began`.
    pub async fn admitted(
        &self,
        position: QueuePosition,
        text: &str,
        options: &RequestOptions,
        began: Instant,
    ) -> Result<Permit, EngineError> {
        let doing = "waiting for other requests of the session";
        let count = |error: EngineError| {
            self.telemetry().failed(error.counted_as());
            self.telemetry().timed_out(TimeoutPhase::Queue);
            error
        };
        let entering = position.admitted();
        let time_left = self.time_left(doing, options, began);
        match time_left.map_err(|error| count(error).about(text, self.hides()))? {
            None => Ok(entering.await),
            Some(time_left) => {
                tokio::time::timeout(time_left.remaining, entering).await.map_err(|_| {
                    let error = deadline(doing, time_left.limit, Some(&Attempts::idle()));
                    let message = format!("{}; {}", error.message, self.full());
                    count(EngineError { message, ..error }).about(text, self.hides())
                })
            }
        }
    }

    /// Counts and reports a request that must not wait, and so fails because the session is full.
    /// Returns the request's error.
    pub fn session_full(
        &self,
        text: &str,
        prepared: Option<&Prepared>,
        options: &RequestOptions,
    ) -> EngineError {
        let error = EngineError::new(ErrorKind::Full, format!("executing: {}", self.full()));
        self.telemetry().failed(error.counted_as());
        self.report_unsent(text, prepared, options, Instant::now(), &error);
        error.about(text, self.hides())
    }

    /// Reports a call that began at `began` and has ended before its request was sent, if the
    /// session's events include it. `text` is empty for a batch.
    pub fn report_unsent(
        &self,
        text: &str,
        prepared: Option<&Prepared>,
        options: &RequestOptions,
        began: Instant,
        error: &EngineError,
    ) {
        execute::report_unsent(self, text, prepared, options, began, error);
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

    /// The names of the session's profiles, in order.
    pub fn profile_names(&self) -> Vec<String> {
        self.0.profiles.names()
    }

    /// The maximum number of rows in each page of a scan, if the scan sets no page size.
    pub(crate) fn page_rows(&self) -> i32 {
        Some(self.0.page_size).filter(|&size| size > 0).unwrap_or(5000)
    }

    /// Whether errors leave out values and literals (see [`Config::values_in_errors`]).
    pub fn hides(&self) -> bool {
        self.0.hides
    }

    pub(crate) fn silence(&self) -> &Silence {
        &self.0.silence
    }

    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.0.endpoints
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
