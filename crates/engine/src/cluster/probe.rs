//! Checks whether nodes answer, and translates the addresses that they announce.

use std::collections::HashMap;
use std::io::ErrorKind as ErrorKindIo;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{FuturesUnordered, StreamExt};
use scylla::errors::TranslationError;
use scylla::policies::address_translator::{AddressTranslator, UntranslatedPeer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use crate::cluster::config::Config;
use crate::cluster::server_names::TlsClient;
use crate::cluster::transport::{connect, resolve};
use crate::policies::profile::Allowed;

pub(crate) const NO_ANSWER: &str = "no answer";

/// The addresses of a contact point, each with the reason why it did not answer. The reason is
/// `None` while an answer from the address is awaited.
#[derive(Default)]
pub(crate) struct Addresses(Mutex<Vec<(SocketAddr, Option<String>)>>);

impl Addresses {
    fn lock(&self) -> MutexGuard<'_, Vec<(SocketAddr, Option<String>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn failed(&self, at: SocketAddr, why: String) {
        if let Some(entry) = self.lock().iter_mut().find(|(address, _)| *address == at) {
            entry.1 = Some(why);
        }
    }

    /// Why the contact point could not be reached. The text names the addresses if the contact
    /// point is a host name. Addresses with the same reason are listed together.
    pub(crate) fn reasons(&self, contact_point: &str) -> String {
        let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
        for (at, why) in self.lock().iter() {
            let why = why.as_deref().unwrap_or(NO_ANSWER);
            match reasons.iter_mut().find(|(other, _)| other == why) {
                Some((_, addresses)) => addresses.push(at.to_string()),
                None => reasons.push((why.to_owned(), vec![at.to_string()])),
            }
        }
        if reasons.is_empty() {
            return "no address of this name is known".to_owned();
        }
        let is_name = contact_point.parse::<SocketAddr>().is_err();
        let texts: Vec<String> = reasons
            .into_iter()
            .map(|(why, at)| if is_name { format!("{} ({})", why, at.join(", ")) } else { why })
            .collect();
        texts.join(", ")
    }
}

/// Probes all addresses of a contact point until one answers. Records the addresses that fail in
/// `addresses`.
pub(crate) async fn reach(
    contact_point: &str,
    tls: Option<&Arc<TlsClient>>,
    addresses: &Addresses,
) -> Result<(), String> {
    let mut resolved = resolve(contact_point).await.map_err(|error| error.to_string())?;
    resolved.dedup();
    *addresses.lock() = resolved.iter().map(|at| (*at, None)).collect();
    if let (Some(tls), Some((host, _))) = (tls, contact_point.rsplit_once(':')) {
        tls.note_addresses(host, &resolved);
    }
    let probes = resolved.into_iter().map(|at| async move { (at, probe(at, tls, true).await) });
    let mut probes: FuturesUnordered<_> = probes.collect();
    while let Some((at, answer)) = probes.next().await {
        match answer {
            Ok(()) => return Ok(()),
            Err(error) => addresses.failed(at, error.to_string()),
        }
    }
    Err(addresses.reasons(contact_point))
}

/// Sends OPTIONS, which a client may send before it authenticates, and waits for the answer. A node
/// that hangs still accepts connections, but does not answer. If `may_lack_cql` is true, line ends
/// are sent after one second without an answer, because a server of another protocol may wait for
/// them.
async fn probe(
    address: SocketAddr,
    tls: Option<&Arc<TlsClient>>,
    may_lack_cql: bool,
) -> std::io::Result<()> {
    let stream = connect(address).await?;
    let Some(tls) = tls else { return ask(stream, "", may_lack_cql).await };
    let (config, name) = tls.at(address);
    let stream = TlsConnector::from(config).connect(name, stream).await;
    let stream = stream.map_err(|error| {
        let why = error.to_string();
        // `InvalidContentType` means that the answer is not a TLS record.
        if why.contains("InvalidContentType") {
            std::io::Error::other("it answers, but not in TLS")
        } else if why.contains("UnknownIssuer") {
            std::io::Error::other(
                "its certificate is of an authority that is not trusted (UnknownIssuer): pass the \
                 authority's certificate as Tls(ca=...)",
            )
        } else if why.contains("UnrecognisedName") {
            std::io::Error::other(
                "it does not serve the host name that was sent to it (UnrecognisedName): pass a \
                 name that it serves as Tls(server_name=...)",
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

/// The session's address translator: finds where a node is reached, and whether the node answers
/// there.
///
/// A node that hangs may accept a connection and then send nothing. The ScyllaDB driver waits for
/// such a node without a time limit, and it opens a session only after it has tried every node. It
/// calls its address translator before it connects, so the translator probes the node first. A node
/// that hangs is then reported as one that cannot be reached.
pub(crate) struct Endpoints {
    /// The addresses that nodes announce, each with the address at which the node is reached.
    rules: Vec<(Allowed, Allowed)>,
    tls: Option<Arc<TlsClient>>,
    /// The time limit of the probe before a connection, and the maximum of
    /// [`Endpoints::patience`].
    limit: Duration,
    /// How long the slowest contact point took to answer.
    took: Duration,
    probed: Mutex<HashMap<SocketAddr, ProbeResult>>,
}

#[derive(Clone, Debug)]
enum ProbeResult {
    Answers(Answer),
    /// The node could not be reached, for this reason.
    Fails(String),
    Silent,
}

/// A node's answer to a probe.
#[derive(Clone, Copy, Debug)]
struct Answer {
    at: Instant,
    took: Duration,
    /// How many answers in a row came so late that the node may have been hanging. Answers to
    /// probes that ran at the same time count as one.
    late: u32,
}

/// After this many late answers in a row, late answers are taken as normal for the node. After
/// fewer late answers, the node is probed again, to see how long its answers take when it does not
/// hang. Two late answers are not enough, because each may have come at the end of a hang.
const SLOW: u32 = 3;

/// The value of `Endpoints::limit`, unless a third of the connect timeout is shorter.
const SILENCE: Duration = Duration::from_secs(5);

/// For this long after a node's answer, connections to the node are made without a probe. Several
/// connections are made at a time, and one probe is enough for all of them.
const FRESH: Duration = Duration::from_secs(2);

/// The lower bound of [`Endpoints::patience`].
const LEAST_PATIENCE: Duration = Duration::from_millis(500);

/// [`Endpoints::patience`] is this many times as long as the node's last answer took.
const SLOWER: u32 = 4;

impl Endpoints {
    pub(crate) fn new(config: &Config, tls: Option<Arc<TlsClient>>, took: Duration) -> Endpoints {
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

    /// Records that a node did not answer a probe.
    pub(crate) fn missed(&self, at: SocketAddr) {
        self.states().insert(at, ProbeResult::Silent);
    }

    /// The addresses of the nodes that could not be reached when they were last probed, with the
    /// reasons.
    pub(crate) fn failures(&self) -> Vec<(SocketAddr, String)> {
        let states = self.states();
        let mut failures: Vec<_> = states
            .iter()
            .filter_map(|(at, result)| match result {
                ProbeResult::Answers(_) => None,
                ProbeResult::Fails(why) => Some((*at, why.clone())),
                ProbeResult::Silent => Some((*at, NO_ANSWER.to_owned())),
            })
            .collect();
        failures.sort_unstable();
        failures
    }

    /// How long to wait for a node's answer to [`Endpoints::probe`]. A node whose last answer took
    /// long gets more time.
    pub(crate) fn patience(&self, at: SocketAddr) -> Duration {
        let took = match self.states().get(&at) {
            Some(ProbeResult::Answers(answer)) => answer.took,
            // Either the last probe failed, or no probe was recorded: the driver opens the session
            // at a contact point without a translation of its address, so that address is not
            // probed here. In both cases, the time of the slowest contact point is used.
            _ => self.took,
        };
        (took * SLOWER).min(self.limit).max(LEAST_PATIENCE)
    }

    /// Whether the node must be probed again, to learn how long its answers take.
    pub(crate) fn is_doubtful(&self, at: SocketAddr) -> bool {
        let states = self.states();
        matches!(states.get(&at), Some(ProbeResult::Answers(of)) if (1..SLOW).contains(&of.late))
    }

    /// Probes the node at an address, on a new connection, without a time limit.
    pub(crate) async fn probe(&self, at: SocketAddr) -> std::io::Result<()> {
        let began = Instant::now();
        probe(at, self.tls.as_ref(), false).await?;
        let took = began.elapsed();
        let mut states = self.states();
        let late = match states.get(&at) {
            _ if took * SLOWER <= LEAST_PATIENCE => 0,
            Some(ProbeResult::Answers(last)) if last.at <= began => (last.late + 1).min(SLOW),
            // Probes that run at the same time meet the same hang, so their answers count as one.
            Some(ProbeResult::Answers(last)) => last.late.max(1),
            _ => 1,
        };
        let answer = Answer { at: Instant::now(), took, late };
        states.insert(at, ProbeResult::Answers(answer));
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
        if let Some(ProbeResult::Answers(answer)) = self.states().get(&at)
            && answer.at.elapsed() < FRESH
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// Starts a server that waits for the first of `pauses` before it answers its first connection,
    /// for the second before it answers the second, and so on.
    fn serve(pauses: Vec<Duration>) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for pause in pauses {
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0; 9]).unwrap();
                std::thread::sleep(pause);
                stream.write_all(&[0x84]).unwrap();
            }
        });
        at
    }

    /// Probes a node that answers its probes after `pauses`, in milliseconds. Returns the results
    /// of `Endpoints::patience` and `Endpoints::is_doubtful` after each answer.
    fn patience(pauses: &[u64]) -> Vec<(Duration, bool)> {
        let at = serve(pauses.iter().copied().map(Duration::from_millis).collect());
        let endpoints = Endpoints::new(&Config::default(), None, Duration::ZERO);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let probed = pauses.iter().map(|_| {
            runtime.block_on(endpoints.probe(at)).unwrap();
            (endpoints.patience(at), endpoints.is_doubtful(at))
        });
        probed.collect()
    }

    #[test]
    fn a_late_answer_is_doubtful_until_the_next() {
        let probed = patience(&[0, 200, 0]);
        assert_eq!(probed[0], (LEAST_PATIENCE, false));
        assert!(probed[1].0 >= Duration::from_millis(800) && probed[1].1);
        assert_eq!(probed[2], (LEAST_PATIENCE, false));
    }

    #[test]
    fn a_node_that_is_late_three_times_is_slow() {
        let probed = patience(&[200, 200, 200, 200]);
        assert!(probed[0].1 && probed[1].1);
        assert!(probed[2].0 >= Duration::from_millis(800) && !probed[2].1);
        assert!(!probed[3].1);
    }

    #[test]
    fn two_hangs_in_a_row_do_not_make_a_node_slow() {
        let probed = patience(&[200, 200, 0]);
        assert_eq!(probed[2], (LEAST_PATIENCE, false));
    }
}
