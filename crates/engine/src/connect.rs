//! Opens a session of the ScyllaDB driver from a configuration.

use std::collections::HashMap;
use std::io::ErrorKind as ErrorKindIo;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{FuturesUnordered, StreamExt};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use scylla::client::execution_profile::ExecutionProfileHandle;
use scylla::client::session::{Session, TlsContext};
use scylla::client::session_builder::SessionBuilder;
use scylla::client::{PoolSize, SelfIdentity};
use scylla::errors::TranslationError;
use scylla::policies::address_translator::{AddressTranslator, UntranslatedPeer};
use scylla::policies::timestamp_generator::MonotonicTimestampGenerator;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use crate::authenticate::Provider;
use crate::config::{Config, Pool};
use crate::error::{EngineError, ErrorKind, connecting, unreachable};
use crate::profile::{Allowed, OnlyThese};

/// The maximum number of times that an incomplete trace is read.
const TRACE_ATTEMPTS: NonZeroU32 = NonZeroU32::new(40).unwrap();
/// The time between two reads of an incomplete trace.
const TRACE_INTERVAL: Duration = Duration::from_millis(25);

/// How long to wait for the other contact points after the first has answered.
const LATECOMERS: Duration = Duration::from_millis(50);

/// Opens a session. `profile` is the ScyllaDB driver's form of the default profile.
pub(crate) async fn connect(
    config: &Config,
    profile: ExecutionProfileHandle,
) -> Result<(Session, Arc<Doors>), EngineError> {
    config.check()?;
    #[cfg(edited_crates)]
    {
        // Once in a process.
        let _ = scylla::statement::prepared::STILL_FIT.set(crate::fits::still_fit);
    }
    let began = Instant::now();
    let deadline = began + config.connect_timeout;
    let tls = config.tls.as_ref().map(|tls| tls.client(&config.contact_points)).transpose()?;
    let tls = tls.map(Arc::new);
    let Knocked { open, silent, took } =
        knock(&config.contact_points, tls.as_ref(), deadline).await;
    if open.is_empty() {
        return Err(unreachable(&silent, began.elapsed()));
    }
    let doors = Arc::new(Doors::new(config, tls.clone(), took));
    let builder = builder(config, tls.as_ref(), profile)
        .known_nodes(&open)
        .address_translator(Arc::clone(&doors) as Arc<dyn AddressTranslator>);
    match timeout_at(deadline, builder.build()).await {
        Ok(Ok(session)) => Ok((session, doors)),
        Ok(Err(error)) => Err(connecting(&error, &open, &silent)),
        Err(_) => {
            let (asked, limit) = (open.join(", "), config.connect_timeout);
            let silent: String =
                doors.silent().iter().map(|at| format!("; {at}: no answer")).collect();
            let message = format!(
                "connecting to {asked}: it answers, but no session could be opened within \
                 {limit:?}{silent}"
            );
            Err(EngineError::new(ErrorKind::Connect, message))
        }
    }
}

struct Knocked {
    open: Vec<String>,
    /// The contact points that did not answer, with the reasons.
    silent: Vec<(String, String)>,
    /// How long the slowest of the others took.
    took: Duration,
}

/// Finds the contact points that answer. All are asked at the same time.
///
/// The ScyllaDB driver tries them one after another, in random order, and reports only the last
/// failure. A single address that drops packets would cost it a whole connect timeout.
async fn knock(
    contact_points: &[String],
    tls: Option<&Arc<ClientConfig>>,
    deadline: Instant,
) -> Knocked {
    let mut knocked = Knocked { open: Vec::new(), silent: Vec::new(), took: Duration::ZERO };
    let began = Instant::now();
    let mut answers: FuturesUnordered<_> =
        contact_points.iter().map(|at| async move { (at, reach(at, tls).await) }).collect();
    let mut until = deadline;
    let mut waiting: Vec<&String> = contact_points.iter().collect();
    while let Ok(Some((at, answer))) = timeout_at(until, answers.next()).await {
        waiting.retain(|other| *other != at);
        match answer {
            Ok(()) => {
                until = until.min(Instant::now() + LATECOMERS);
                knocked.open.push(at.clone());
                knocked.took = began.elapsed();
            }
            Err(why) => knocked.silent.push((at.clone(), why)),
        }
    }
    knocked.silent.extend(waiting.into_iter().map(|at| (at.clone(), "no answer".to_owned())));
    knocked
}

/// Whether any address of a contact point answers.
async fn reach(contact_point: &str, tls: Option<&Arc<ClientConfig>>) -> Result<(), String> {
    let addresses = lookup_host(contact_point).await.map_err(|error| error.to_string())?;
    let mut tries: FuturesUnordered<_> = addresses.map(|at| greet(at, tls, true)).collect();
    let mut why = "no address is known".to_owned();
    while let Some(answer) = tries.next().await {
        match answer {
            Ok(()) => return Ok(()),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

/// Sends OPTIONS, which a client may send before it authenticates, and waits for the answer. A node
/// that hangs still accepts connections, but does not answer. If `other` is true, the server may be
/// of another kind, and is to say so.
async fn greet(
    address: SocketAddr,
    tls: Option<&Arc<ClientConfig>>,
    other: bool,
) -> std::io::Result<()> {
    let stream = TcpStream::connect(address).await?;
    let Some(tls) = tls else { return ask(stream, "", other).await };
    // Nodes are identified by their addresses, as in the ScyllaDB driver.
    let node = ServerName::from(address.ip().to_canonical());
    let stream = TlsConnector::from(Arc::clone(tls)).connect(node, stream).await;
    let stream = stream.map_err(|error| {
        let why = error.to_string();
        // The answer of a server that does not speak TLS is not a TLS record.
        if why.contains("InvalidContentType") {
            std::io::Error::other("it answers, but not in TLS")
        } else if why.contains("UnknownIssuer") {
            std::io::Error::other(
                "its certificate is of an authority that is not trusted (UnknownIssuer): pass the \
                 authority's certificate as Tls(ca=...)",
            )
        } else {
            error
        }
    })?;
    ask(stream, ", encrypted", other).await
}

fn is_hung_up(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKindIo::UnexpectedEof | ErrorKindIo::ConnectionReset)
}

/// How long a server may take to answer before it is asked in the way of other protocols.
const OTHERWISE: Duration = Duration::from_secs(1);

async fn ask(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    how: &str,
    other: bool,
) -> std::io::Result<()> {
    /// Version 4, no flags, stream 0, OPTIONS, no body.
    const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
    /// The bit of the version that marks a response.
    const RESPONSE: u8 = 0x80;
    stream.write_all(&OPTIONS).await?;
    stream.flush().await?;
    let answer = timeout(OTHERWISE, stream.read_u8()).await;
    if answer.is_err() && other {
        // A server of HTTP, say, waits for the end of a line before it answers.
        stream.write_all(b"\r\n\r\n").await?;
        stream.flush().await?;
    }
    let answer = match answer {
        Ok(answer) => answer,
        Err(_) => stream.read_u8().await,
    };
    match answer {
        Ok(version) if version & RESPONSE != 0 => Ok(()),
        Ok(_) => Err(std::io::Error::other(format!("it answers, but not in CQL{how}"))),
        Err(error) if is_hung_up(&error) => {
            let reason = format!(
                "it closed the connection at the first request{how}: {}",
                if how.is_empty() { "does it want TLS?" } else { "does it want a certificate?" }
            );
            Err(std::io::Error::other(reason))
        }
        Err(error) => Err(error),
    }
}

fn builder(
    config: &Config,
    tls: Option<&Arc<ClientConfig>>,
    profile: ExecutionProfileHandle,
) -> SessionBuilder {
    let mut identity = SelfIdentity::new()
        .with_custom_driver_name("turbocql")
        .with_custom_driver_version(env!("CARGO_PKG_VERSION"));
    if let Some(name) = &config.application_name {
        identity.set_application_name(name.clone());
    }
    if let Some(version) = &config.application_version {
        identity.set_application_version(version.clone());
    }
    let mut builder = SessionBuilder::new()
        .default_execution_profile_handle(profile)
        .custom_identity(identity)
        .connection_timeout(config.connect_timeout)
        .hostname_resolution_timeout(Some(config.connect_timeout))
        .compression(config.compression.map(Into::into))
        .disallow_shard_aware_port(!config.shard_aware_port)
        .local_ip_address(config.local_address)
        // The server may still be writing the trace when its answer arrives.
        .tracing_info_fetch_attempts(TRACE_ATTEMPTS)
        .tracing_info_fetch_interval(TRACE_INTERVAL)
        // One column of a type that the ScyllaDB driver does not know would make every read of the
        // full schema fail. Discovery and routing would fail too. Routing needs the keyspaces only.
        .fetch_full_schema_metadata(false);
    if let Some(tls) = tls {
        builder = builder.tls_context(Some(TlsContext::from(Arc::clone(tls))));
    }
    if let (Some(user), Some(password)) = (&config.user, &config.password) {
        builder = builder.user(user, password);
    }
    if let Some(authenticate) = &config.authenticator {
        builder = builder.authenticator_provider(Arc::new(Provider(Arc::clone(authenticate))));
    }
    match config.pool {
        None => {}
        Some(Pool::PerNode(count)) => builder = builder.pool_size(PoolSize::PerHost(count)),
        Some(Pool::PerShard(count)) => builder = builder.pool_size(PoolSize::PerShard(count)),
    }
    if let Some(interval) = config.keepalive_interval {
        builder = builder.keepalive_interval(interval);
    }
    if let Some(timeout) = config.keepalive_timeout {
        builder = builder.keepalive_timeout(timeout);
    }
    if let Some(interval) = config.tcp_keepalive {
        builder = builder.tcp_keepalive_interval(interval);
    }
    #[cfg(edited_crates)]
    {
        builder.config.max_frame_bytes = config.max_frame_bytes;
    }
    if config.client_timestamps {
        builder = builder.timestamp_generator(Arc::new(MonotonicTimestampGenerator::new()));
    }
    if let Some(timeout) = config.agreement_timeout {
        builder = builder.schema_agreement_timeout(timeout);
    }
    let allowed = &config.profile.balancing.allowed;
    if !allowed.is_empty() {
        builder = builder.host_filter(Arc::new(OnlyThese(allowed.clone())));
    }
    builder
}

/// The address translator. It finds where a node is reached, and whether the node answers there.
///
/// A node that hangs may accept a connection and then send nothing. The ScyllaDB driver waits for
/// such a node without a time limit, and it opens a session only after it has tried every node. It
/// calls its address translator before it connects, so the translator greets the node first. A node
/// that hangs is then reported as one that cannot be reached.
pub(crate) struct Doors {
    /// The addresses that nodes announce, each with the address at which the node is reached.
    rules: Vec<(Allowed, Allowed)>,
    tls: Option<Arc<ClientConfig>>,
    /// The time limit of an answer.
    limit: Duration,
    /// How long the slowest contact point took to answer.
    took: Duration,
    known: Mutex<HashMap<SocketAddr, Known>>,
}

#[derive(Clone, Debug)]
enum Known {
    /// The node answered at this time, after so long.
    Answers(Instant, Duration),
    /// The node could not be reached, for this reason.
    Fails(String),
    Silent,
}

/// The time limit of an answer. A third of the connect timeout applies if that is shorter.
const SILENCE: Duration = Duration::from_secs(5);

/// A node that has answered is not greeted again for this long, because several connections to it
/// are made at a time.
const FRESH: Duration = Duration::from_secs(2);

/// The least time that a node has to answer [`Doors::greet`], when it is suspected to be silent.
const LEAST_PATIENCE: Duration = Duration::from_millis(500);

impl Doors {
    fn new(config: &Config, tls: Option<Arc<ClientConfig>>, took: Duration) -> Doors {
        let limit = SILENCE.min(config.connect_timeout / 3);
        Doors { rules: config.addresses.clone(), tls, limit, took, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SocketAddr, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses that did not answer when they were last greeted.
    fn silent(&self) -> Vec<SocketAddr> {
        let known = self.known();
        let mut silent: Vec<_> = known
            .iter()
            .filter(|(_, known)| matches!(known, Known::Silent))
            .map(|(at, _)| *at)
            .collect();
        silent.sort_unstable();
        silent
    }

    /// The nodes that could not be reached when they were last greeted, with the reasons.
    pub(crate) fn failures(&self) -> Vec<(SocketAddr, String)> {
        let known = self.known();
        let mut failures: Vec<_> = known
            .iter()
            .filter_map(|(at, known)| match known {
                Known::Answers(..) => None,
                Known::Fails(why) => Some((*at, why.clone())),
                Known::Silent => Some((*at, "no answer".to_owned())),
            })
            .collect();
        failures.sort_unstable();
        failures
    }

    /// How long to wait for a node's answer to [`Doors::greet`]. A node far away has more time.
    pub(crate) fn patience(&self, at: SocketAddr) -> Duration {
        let took = match self.known().get(&at) {
            Some(Known::Answers(_, took)) => *took,
            // The contact point with which the session began was not greeted by its doors.
            _ => self.took,
        };
        (took * 4).min(self.limit).max(LEAST_PATIENCE)
    }

    /// Asks the node at an address for a sign of life, on a new connection.
    pub(crate) async fn greet(&self, at: SocketAddr) -> std::io::Result<()> {
        let began = Instant::now();
        greet(at, self.tls.as_ref(), false).await?;
        self.known().insert(at, Known::Answers(Instant::now(), began.elapsed()));
        Ok(())
    }

    /// The address at which a node is reached that announces the address `told`.
    pub(crate) fn reached_at(&self, told: SocketAddr) -> SocketAddr {
        let rules = || self.rules.iter().filter(|(from, _)| from.is(told));
        let exact = rules().find(|(from, _)| from.port.is_some());
        // A node without a rule is reached at the address that it announces.
        exact
            .or_else(|| rules().next())
            .map_or(told, |(_, to)| SocketAddr::new(to.ip, to.port.unwrap_or(told.port())))
    }

    async fn knock(&self, at: SocketAddr) -> Result<(), TranslationError> {
        if let Some(Known::Answers(when, _)) = self.known().get(&at)
            && when.elapsed() < FRESH
        {
            return Ok(());
        }
        let failed = match timeout(self.limit, self.greet(at)).await {
            Ok(Ok(())) => return Ok(()),
            // The ScyllaDB driver finds any other failure by itself.
            Ok(Err(error)) => Known::Fails(error.to_string()),
            Err(_) => Known::Silent,
        };
        let is_silent = matches!(failed, Known::Silent);
        self.known().insert(at, failed);
        if !is_silent {
            return Ok(());
        }
        let reason = format!("{at}: no answer within {:?}", self.limit);
        let silence = std::io::Error::new(ErrorKindIo::TimedOut, reason);
        Err(TranslationError::IoError(Arc::new(silence)))
    }
}

#[async_trait]
impl AddressTranslator for Doors {
    async fn translate_address(
        &self,
        peer: &UntranslatedPeer,
    ) -> Result<SocketAddr, TranslationError> {
        let at = self.reached_at(peer.untranslated_address());
        self.knock(at).await?;
        Ok(at)
    }
}
