//! From a configuration to a session of the engine's.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use scylla::client::SelfIdentity;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout_at};

use crate::config::Config;
use crate::effect::Effect;
use crate::error::{EngineError, ErrorKind, connecting, unreachable};
use crate::policy::CarefulRetry;

/// How long the other contact points get once the first has answered.
const LATECOMERS: Duration = Duration::from_millis(50);

pub(crate) async fn connect(config: &Config) -> Result<Session, EngineError> {
    config.check()?;
    let began = Instant::now();
    let deadline = began + config.connect_timeout;
    let Knocked { open, silent } = knock(&config.contact_points, deadline).await;
    if open.is_empty() {
        return Err(unreachable(&silent, began.elapsed()));
    }
    let builder = builder(config).known_nodes(&open);
    match timeout_at(deadline, builder.build()).await {
        Ok(session) => session.map_err(|error| connecting(&error, &open, &silent)),
        Err(_) => {
            let (asked, limit) = (open.join(", "), config.connect_timeout);
            let message = format!(
                "connecting to {asked}: it answers, but no session came about within \
                 {limit:?}"
            );
            Err(EngineError::new(ErrorKind::Connect, message))
        }
    }
}

struct Knocked {
    open: Vec<String>,
    /// The others, with their reasons.
    silent: Vec<(String, String)>,
}

/// Finds the contact points that answer, asking all at once.
///
/// The engine tries them one after another, in random order, and tells of the last failure only:
/// a single address that swallows packets would cost it a whole connect timeout.
async fn knock(contact_points: &[String], deadline: Instant) -> Knocked {
    let mut knocked = Knocked { open: Vec::new(), silent: Vec::new() };
    let mut answers: FuturesUnordered<_> =
        contact_points.iter().map(|at| async move { (at, reach(at).await) }).collect();
    let mut until = deadline;
    let mut waiting: Vec<&String> = contact_points.iter().collect();
    while let Ok(Some((at, answer))) = timeout_at(until, answers.next()).await {
        waiting.retain(|other| *other != at);
        match answer {
            Ok(()) => {
                until = until.min(Instant::now() + LATECOMERS);
                knocked.open.push(at.clone());
            }
            Err(why) => knocked.silent.push((at.clone(), why)),
        }
    }
    knocked.silent.extend(waiting.into_iter().map(|at| (at.clone(), "no answer".to_owned())));
    knocked
}

/// Whether any address of a contact point answers.
async fn reach(contact_point: &str) -> Result<(), String> {
    let addresses = lookup_host(contact_point).await.map_err(|error| error.to_string())?;
    let mut tries: FuturesUnordered<_> = addresses.map(greet).collect();
    let mut why = "no address is known".to_owned();
    while let Some(answer) = tries.next().await {
        match answer {
            Ok(()) => return Ok(()),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

/// Asks for the options, as any client may before it says who it is. A node that hangs accepts
/// connections all the same, and answers nothing.
async fn greet(address: SocketAddr) -> std::io::Result<()> {
    /// Version 4, no flags, stream 0, OPTIONS, no body.
    const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
    /// The bit of the version that marks what comes from a server.
    const RESPONSE: u8 = 0x80;
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&OPTIONS).await?;
    match stream.read_u8().await? {
        version if version & RESPONSE != 0 => Ok(()),
        _ => Err(std::io::Error::other("it answers, but not in CQL")),
    }
}

fn builder(config: &Config) -> SessionBuilder {
    // No speculative execution: it sends again what has not failed. A request timeout goes into
    // the profile, so that one request can override it.
    let profile = ExecutionProfile::builder()
        .consistency(config.consistency.into())
        .serial_consistency(config.serial_consistency.map(Into::into))
        .request_timeout(config.timeout)
        .retry_policy(Arc::new(CarefulRetry { effect: Effect::Writes }))
        .speculative_execution_policy(None)
        .build();
    let mut identity = SelfIdentity::new()
        .with_custom_driver_name("turbocql")
        .with_custom_driver_version(env!("CARGO_PKG_VERSION"));
    if let Some(name) = &config.application_name {
        identity.set_application_name(name.clone());
    }
    let mut builder = SessionBuilder::new()
        .default_execution_profile_handle(profile.into_handle())
        .custom_identity(identity)
        .connection_timeout(config.connect_timeout)
        .hostname_resolution_timeout(Some(config.connect_timeout))
        .compression(config.compression.map(Into::into))
        // One column of a type that the engine does not know makes every read of the full schema
        // fail, and with it discovery and routing. Routing needs the keyspaces only.
        .fetch_full_schema_metadata(false);
    if let (Some(user), Some(password)) = (&config.user, &config.password) {
        builder = builder.user(user, password);
    }
    builder
}
