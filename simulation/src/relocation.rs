//! Gives all nodes new addresses at once, while the session is open. The host names of the nodes
//! then resolve to the new addresses.

use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::cluster::{Cluster, PORT};
use crate::faults::{Fault, Happened};
use crate::network::{BOTH, Direction};
use crate::observed::{Observed, Seen};
use crate::random::Random;
use crate::trace::Trace;
use crate::workload::Program;

/// The host name `ALL` resolves to the addresses of all nodes. The host name of a single node is
/// `NODE`, the node's number and `OF_NODE`.
const ALL: &str = "nodes.sim";
const NODE: &str = "node";
const OF_NODE: &str = ".sim";

/// The longest time from the start of the nodes until the session is connected to all of them, if
/// their old addresses refuse connections.
const WHOLE: Duration = Duration::from_secs(3);
/// The same limit for nodes whose old addresses do not answer at all. The keepalive ends the
/// control connection within 20 s. Then the session tries up to five addresses. It begins with the
/// next address half a second after the one before, and gives each a third of the connect timeout.
/// Meanwhile, the pool of a node may still wait for an earlier attempt to connect to the old
/// address.
const WHOLE_AFTER_SILENCE: Duration = Duration::from_secs(30);
/// The longest time from the end of the control connection until the session has a new one, if no
/// address that the session knows answers. The session first tries up to five of these addresses,
/// as above. Then it resolves the host names again.
const REOPENED: Duration = Duration::from_secs(6);
/// Calls must succeed when the session has been connected to all nodes for this time. Before, some
/// nodes may not know yet that the other nodes are up.
const GOSSIP: Duration = Duration::from_secs(9);

/// Returns the contact points of a session: the addresses of all nodes, one host name for all
/// nodes, or a host name for each node.
pub fn contact_points(cluster: &Cluster, random: &mut Random) -> Vec<String> {
    let nodes = 0..cluster.size();
    match random.within(0..10) {
        0..6 => nodes.map(|node| cluster.address(node).to_string()).collect(),
        6..8 => vec![format!("{ALL}:{PORT}")],
        _ => nodes.map(|node| format!("{NODE}{node}{OF_NODE}:{PORT}")).collect(),
    }
}

/// Returns the addresses of a contact point.
pub fn resolve(cluster: &Cluster, contact_point: &str) -> Result<Vec<SocketAddr>> {
    if let Ok(at) = contact_point.parse() {
        return Ok(vec![at]);
    }
    let host = contact_point.rsplit_once(':').map_or(contact_point, |(host, _)| host);
    if host == ALL {
        return Ok((0..cluster.size()).map(|node| cluster.address(node)).collect());
    }
    let node = host.strip_prefix(NODE).and_then(|rest| rest.strip_suffix(OF_NODE));
    let node = node.and_then(|number| number.parse().ok());
    let node = node.filter(|node| *node < cluster.size());
    Ok(vec![cluster.address(node.ok_or_else(|| Error::from(ErrorKind::NotFound))?)])
}

/// Kills all nodes, and starts them at other addresses. The session must meet several requirements
/// then: for example, it must connect to all nodes in time. Returns a sentence for each requirement
/// that it does not meet.
pub async fn relocate(
    program: &Program,
    observed: &Observed,
    random: &mut Random,
    trace: &Trace,
) -> Vec<String> {
    let (cluster, session, log) = (program.cluster(), program.session(), program.log());
    let lasts = Duration::from_millis(random.within(100..20_000));
    // If this is true, the old addresses drop everything that is sent to them. If not, they refuse
    // connections.
    let is_dropped = random.percent(50);
    let began = Instant::now();
    let nodes = 0..cluster.size();
    let old: Vec<SocketAddr> = nodes.clone().map(|node| cluster.address(node)).collect();
    trace.line(|| format!("FAULT all nodes move, for {lasts:.1?}, dropped: {is_dropped}"));
    for (node, at) in old.iter().enumerate() {
        let happened =
            Happened { node, at: *at, fault: Fault::MoveAll, began, ended: None, cleared: None };
        log.add(happened);
        if is_dropped {
            let cut = |way: &Direction| {
                cluster.network().change(at.ip(), *way, |link| link.is_cut = true);
            };
            BOTH.iter().for_each(cut);
        }
        cluster.kill(node, is_dropped);
    }
    let calls = program.clone().run(random.clone(), began + lasts + Duration::from_secs(5));
    let calls = tokio::spawn(calls);
    sleep(lasts).await;
    nodes.for_each(|node| cluster.restart_elsewhere(node));
    let started = Instant::now();
    trace.line(|| "FAULT all nodes are back".to_owned());
    let is_whole = || {
        let listed = session.nodes();
        let is_back = |at: &SocketAddr| listed.iter().any(|of| of.connected && of.address == *at);
        // The session lists a node as connected even if the connection is open to its old address.
        // So the old addresses are checked too.
        let is_left = |at: &SocketAddr| !cluster.network().is_open_to(at.ip());
        (0..cluster.size()).all(|node| is_back(&cluster.address(node))) && old.iter().all(is_left)
    };
    let mut broken = Vec::new();
    // If an earlier fault has made the control connection half-open, only the keepalive ends it.
    let is_half_open = log.faults().iter().any(|fault| fault.lingers(began, started));
    let limit = if is_dropped || is_half_open { WHOLE_AFTER_SILENCE } else { WHOLE };
    while !is_whole() && started.elapsed() < limit {
        sleep(Duration::from_millis(50)).await;
    }
    let took = started.elapsed();
    trace.line(|| format!("the session took {took:.2?}"));
    if !is_whole() {
        broken.push(format!("{took:?} after all nodes have moved, some are not connected"));
    }
    sleep(GOSSIP).await;
    if let Some(took) = control_reopened(&observed.events(), started)
        && took > REOPENED
    {
        broken.push(format!("{took:?} after its end, the control connection is opened again"));
    }
    let _ = calls.await;
    log.end_all();
    if !program.read_all().await {
        broken.push("calls fail after all nodes have moved".to_owned());
    }
    broken
}

/// Returns how long the session had no control connection after `started`, the time when the nodes
/// were started. Returns `None` if the control connection has not ended since then.
fn control_reopened(events: &[Seen], started: Instant) -> Option<Duration> {
    let of_control = events.iter().filter(|event| event.is("control"));
    let mut later = of_control.skip_while(|event| event.at < started);
    let has_ended = |event: &Seen| matches!(event.name, "connection lost" | "connection closed");
    let ended = later.next().filter(|event| has_ended(event))?;
    let opened = later.find(|event| event.name == "connection opened")?;
    Some(opened.at - ended.at)
}
