//! Checks whether nodes answer, and translates the addresses that they announce.

use std::collections::HashMap;
use std::io::ErrorKind as ErrorKindIo;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{FuturesUnordered, StreamExt};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use scylla::errors::TranslationError;
use scylla::policies::address_translator::{AddressTranslator, UntranslatedPeer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use crate::cluster::config::Config;
use crate::policies::profile::Allowed;

/// Probes all addresses of a contact point until one answers. If none answers, fails with the last
/// reason.
pub(crate) async fn reach(
    contact_point: &str,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<(), String> {
    let addresses = lookup_host(contact_point).await.map_err(|error| error.to_string())?;
    let mut tries: FuturesUnordered<_> = addresses.map(|at| probe(at, tls, true)).collect();
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
/// that hangs still accepts connections, but does not answer. If `may_lack_cql` is true, line ends
/// are sent after one second without an answer, because a server of another protocol may wait for
/// them.
async fn probe(
    address: SocketAddr,
    tls: Option<&Arc<ClientConfig>>,
    may_lack_cql: bool,
) -> std::io::Result<()> {
    let stream = TcpStream::connect(address).await?;
    let Some(tls) = tls else { return ask(stream, "", may_lack_cql).await };
    // The TLS server name of a node is its address, as in the ScyllaDB driver.
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
    ask(stream, ", encrypted", may_lack_cql).await
}

fn is_hung_up(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKindIo::UnexpectedEof | ErrorKindIo::ConnectionReset)
}

/// How long to wait for an answer in CQL before line ends are sent, for servers of other protocols.
const CQL_PATIENCE: Duration = Duration::from_secs(1);

async fn ask(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    how: &str,
    may_lack_cql: bool,
) -> std::io::Result<()> {
    /// The frame has version 4, no flags, stream 0, the opcode of OPTIONS, and no body.
    const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
    /// The bit of the version that marks a response.
    const RESPONSE: u8 = 0x80;
    stream.write_all(&OPTIONS).await?;
    stream.flush().await?;
    let answer = timeout(CQL_PATIENCE, stream.read_u8()).await;
    if answer.is_err() && may_lack_cql {
        // A server of another protocol, such as HTTP, may wait for the end of a line.
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

/// The address translator. It finds where a node is reached, and whether the node answers there.
///
/// A node that hangs may accept a connection and then send nothing. The ScyllaDB driver waits for
/// such a node without a time limit, and it opens a session only after it has tried every node. It
/// calls its address translator before it connects, so the translator probes the node first. A node
/// that hangs is then reported as one that cannot be reached.
pub(crate) struct Endpoints {
    /// The addresses that nodes announce, each with the address at which the node is reached.
    rules: Vec<(Allowed, Allowed)>,
    tls: Option<Arc<ClientConfig>>,
    /// The time limit of an answer.
    limit: Duration,
    /// How long the slowest contact point took to answer.
    took: Duration,
    probed: Mutex<HashMap<SocketAddr, ProbeResult>>,
}

#[derive(Clone, Debug)]
enum ProbeResult {
    /// The node answered at this time, after this duration.
    Answers(Instant, Duration),
    /// The node could not be reached, for this reason.
    Fails(String),
    Silent,
}

/// The time limit of an answer. A third of the connect timeout applies if that is shorter.
const SILENCE: Duration = Duration::from_secs(5);

/// A node that has answered is not probed again for this long, because several connections to it
/// are made at a time.
const FRESH: Duration = Duration::from_secs(2);

/// The lower bound of [`Endpoints::patience`].
const LEAST_PATIENCE: Duration = Duration::from_millis(500);

impl Endpoints {
    pub(crate) fn new(
        config: &Config,
        tls: Option<Arc<ClientConfig>>,
        took: Duration,
    ) -> Endpoints {
        let limit = SILENCE.min(config.connect_timeout / 3);
        Endpoints { rules: config.addresses.clone(), tls, limit, took, probed: Mutex::default() }
    }

    fn states(&self) -> MutexGuard<'_, HashMap<SocketAddr, ProbeResult>> {
        self.probed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses that did not answer when they were last probed.
    pub(crate) fn silent(&self) -> Vec<SocketAddr> {
        let states = self.states();
        let mut silent: Vec<_> = states
            .iter()
            .filter(|(_, result)| matches!(result, ProbeResult::Silent))
            .map(|(at, _)| *at)
            .collect();
        silent.sort_unstable();
        silent
    }

    /// The addresses of the nodes that could not be reached when they were last probed, with the
    /// reasons.
    pub(crate) fn failures(&self) -> Vec<(SocketAddr, String)> {
        let states = self.states();
        let mut failures: Vec<_> = states
            .iter()
            .filter_map(|(at, result)| match result {
                ProbeResult::Answers(..) => None,
                ProbeResult::Fails(why) => Some((*at, why.clone())),
                ProbeResult::Silent => Some((*at, "no answer".to_owned())),
            })
            .collect();
        failures.sort_unstable();
        failures
    }

    /// How long to wait for a node's answer to [`Endpoints::probe`]. A node whose last answer took
    /// long gets more time.
    pub(crate) fn patience(&self, at: SocketAddr) -> Duration {
        let took = match self.states().get(&at) {
            Some(ProbeResult::Answers(_, took)) => *took,
            // The last probe failed, or there was none. The driver opens the session at a contact
            // point whose address it does not translate, so that point is not probed.
            _ => self.took,
        };
        (took * 4).min(self.limit).max(LEAST_PATIENCE)
    }

    /// Probes the node at an address, on a new connection, without a time limit.
    pub(crate) async fn probe(&self, at: SocketAddr) -> std::io::Result<()> {
        let began = Instant::now();
        probe(at, self.tls.as_ref(), false).await?;
        self.states().insert(at, ProbeResult::Answers(Instant::now(), began.elapsed()));
        Ok(())
    }

    /// The address at which to reach a node that announces the address `announced`.
    pub(crate) fn reached_at(&self, announced: SocketAddr) -> SocketAddr {
        let rules = || self.rules.iter().filter(|(from, _)| from.is(announced));
        let exact = rules().find(|(from, _)| from.port.is_some());
        // A node without a rule is reached at the address that it announces.
        exact.or_else(|| rules().next()).map_or(announced, |(_, to)| {
            SocketAddr::new(to.ip, to.port.unwrap_or(announced.port()))
        })
    }

    async fn check(&self, at: SocketAddr) -> Result<(), TranslationError> {
        if let Some(ProbeResult::Answers(when, _)) = self.states().get(&at)
            && when.elapsed() < FRESH
        {
            return Ok(());
        }
        let failed = match timeout(self.limit, self.probe(at)).await {
            Ok(Ok(())) => return Ok(()),
            // The probe failed before its time limit. The driver connects nevertheless, and reports
            // its own error. Only a probe that times out keeps the driver from connecting.
            Ok(Err(error)) => ProbeResult::Fails(error.to_string()),
            Err(_) => ProbeResult::Silent,
        };
        let is_silent = matches!(failed, ProbeResult::Silent);
        self.states().insert(at, failed);
        if !is_silent {
            return Ok(());
        }
        let reason = format!("{at}: no answer within {:?}", self.limit);
        let silence = std::io::Error::new(ErrorKindIo::TimedOut, reason);
        Err(TranslationError::IoError(Arc::new(silence)))
    }
}

#[async_trait]
impl AddressTranslator for Endpoints {
    async fn translate_address(
        &self,
        peer: &UntranslatedPeer,
    ) -> Result<SocketAddr, TranslationError> {
        let at = self.reached_at(peer.untranslated_address());
        self.check(at).await?;
        Ok(at)
    }
}
