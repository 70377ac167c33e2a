//! Opens a session of the ScyllaDB driver from a configuration.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use scylla::client::execution_profile::ExecutionProfileHandle;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::client::{PoolSize, SelfIdentity};
use scylla::policies::address_translator::AddressTranslator;
use scylla::policies::timestamp_generator::MonotonicTimestampGenerator;
use tokio::time::{Instant, timeout_at};

use crate::cluster::authenticate::Provider;
use crate::cluster::config::{Config, Pool};
use crate::cluster::probe::{Addresses, Endpoints, NO_ANSWER, reach};
use crate::cluster::server_names::TlsClient;
#[cfg(edited_crates)]
use crate::cluster::watcher::Watcher;
use crate::error::{EngineError, ErrorKind, connecting, unreachable};
use crate::policies::profile::OnlyThese;
use crate::policies::silence::Silence;
use crate::telemetry::counters::Telemetry;

/// The maximum number of times that an incomplete trace is read.
const TRACE_ATTEMPTS: NonZeroU32 = NonZeroU32::new(40).unwrap();
/// The time between two reads of an incomplete trace.
const TRACE_INTERVAL: Duration = Duration::from_millis(25);

/// How long to wait for the other contact points after one contact point has answered.
const OTHER_CONTACT_POINTS_WAIT: Duration = Duration::from_millis(50);

/// Opens a session. `profile` is the ScyllaDB driver's form of the default profile.
pub(crate) async fn connect(
    config: &Config,
    profile: ExecutionProfileHandle,
    silence: &Silence,
    telemetry: &Arc<Telemetry>,
) -> Result<(Session, Arc<Endpoints>), EngineError> {
    config.check()?;
    #[cfg(edited_crates)]
    {
        // The edited driver calls `STILL_FIT` after it has prepared a statement again, to compare
        // the new types of its bind markers with the earlier ones (`edits/types.patch`). The
        // function is set once per process, so later calls of `set` have no effect.
        let _ = scylla::statement::prepared::STILL_FIT.set(crate::statement::fits::still_fit);
    }
    let began = Instant::now();
    let deadline = began + config.connect_timeout;
    let tls = config.tls.as_ref().map(|tls| tls.client(&config.contact_points)).transpose()?;
    let tls = tls.map(Arc::new);
    let ContactPoints { open, silent, took } =
        ask_contact_points(&config.contact_points, tls.as_ref(), deadline).await;
    if open.is_empty() {
        return Err(unreachable(&silent, began.elapsed()));
    }
    let endpoints = Arc::new(Endpoints::new(config, tls.clone(), took));
    let builder = builder(config, tls.as_ref(), profile, silence, telemetry)
        .known_nodes(&open)
        .address_translator(Arc::clone(&endpoints) as Arc<dyn AddressTranslator>);
    match timeout_at(deadline, builder.build()).await {
        Ok(Ok(session)) => Ok((session, endpoints)),
        Ok(Err(error)) => Err(connecting(&error, &open, &silent)),
        Err(_) => {
            let (contact_points, limit) = (open.join(", "), config.connect_timeout);
            let silent: String =
                endpoints.silent().iter().map(|at| format!("; {at}: no answer")).collect();
            let message = format!(
                "connecting to {contact_points}: it answers, but no session could be opened within \
                 {limit:?}{silent}"
            );
            Err(EngineError::new(ErrorKind::Connect, message))
        }
    }
}

/// The contact points, divided into those that answer in CQL and the others.
struct ContactPoints {
    open: Vec<String>,
    /// The contact points that did not answer in CQL, with the reasons.
    silent: Vec<(String, String)>,
    /// How long the slowest of the open contact points took to answer.
    took: Duration,
}

/// Finds the contact points that answer. All contact points are asked at the same time.
///
/// The ScyllaDB driver tries contact points one after another, in random order, and reports only
/// the last failure. A single address that drops packets would cost it a whole connect timeout.
async fn ask_contact_points(
    contact_points: &[String],
    tls: Option<&Arc<TlsClient>>,
    deadline: Instant,
) -> ContactPoints {
    let mut outcome = ContactPoints { open: Vec::new(), silent: Vec::new(), took: Duration::ZERO };
    let began = Instant::now();
    let addresses: Vec<Addresses> = contact_points.iter().map(|_| Addresses::default()).collect();
    let mut answers: FuturesUnordered<_> = contact_points
        .iter()
        .zip(&addresses)
        .map(|(at, addresses)| async move { (at, reach(at, tls, addresses).await) })
        .collect();
    let mut until = deadline;
    let mut waiting: Vec<_> = contact_points.iter().zip(&addresses).collect();
    while let Ok(Some((at, answer))) = timeout_at(until, answers.next()).await {
        waiting.retain(|(contact_point, _)| *contact_point != at);
        match answer {
            Ok(()) => {
                until = until.min(Instant::now() + OTHER_CONTACT_POINTS_WAIT);
                outcome.open.push(at.clone());
                outcome.took = began.elapsed();
            }
            Err(why) => outcome.silent.push((at.clone(), why)),
        }
    }
    let unanswered = waiting.into_iter().map(|(at, addresses)| {
        // The contact point has no addresses yet if its name has not been resolved.
        let why = if addresses.is_empty() { NO_ANSWER.to_owned() } else { addresses.reasons(at) };
        (at.clone(), why)
    });
    outcome.silent.extend(unanswered);
    outcome
}

fn builder(
    config: &Config,
    tls: Option<&Arc<TlsClient>>,
    profile: ExecutionProfileHandle,
    silence: &Silence,
    telemetry: &Arc<Telemetry>,
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
        // The server may still be writing the trace of a request when the answer arrives, so an
        // incomplete trace is read again.
        .tracing_info_fetch_attempts(TRACE_ATTEMPTS)
        .tracing_info_fetch_interval(TRACE_INTERVAL)
        // One column of a type that the ScyllaDB driver does not know would make every read of the
        // full schema fail. The driver could then neither discover nodes nor route requests.
        // Routing needs only the keyspaces, so only these are read.
        .fetch_full_schema_metadata(false);
    if let Some(tls) = tls {
        builder = builder.tls_context(Some(tls.context()));
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
        builder.config.silent_nodes = silence.known.clone();
        builder.config.watching.0 = Some(Arc::new(Watcher(Arc::clone(telemetry))));
    }
    #[cfg(not(edited_crates))]
    let _ = (silence, telemetry);
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
