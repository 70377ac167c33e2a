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

/// The host name that stands for all nodes, and the beginning and the end of the host name of a
/// single node.
const ALL: &str = "nodes.sim";
const NODE: &str = "node";
const OF_NODE: &str = ".sim";

/// The longest time from the start of the nodes until the session is connected to all of them, if
/// their old addresses refuse connections.
const WHOLE: Duration = Duration::from_secs(3);
/// The longest such time if the old addresses answer nothing. The keepalive ends the control
/// connection within 20 s. Then up to five addresses are tried, half a second after each other,
/// each for a third of the connect timeout. A node's pool may still be busy with an attempt at an
/// old address that it began earlier.
const WHOLE_AFTER_SILENCE: Duration = Duration::from_secs(30);
/// The longest time from the end of the control connection until there is another one, if no
/// address that the session knows answers. Up to five addresses are tried, half a second after
/// each other, each for a third of the connect timeout. Then the names are resolved again.
const REOPENED: Duration = Duration::from_secs(6);
/// When this time has passed since the session was connected to all nodes, calls must succeed.
/// Earlier, some nodes do not know yet that the others are up.
const GOSSIP: Duration = Duration::from_secs(9);

/// Returns the contact points of a session: addresses, one name for all nodes, or a name for each.
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

/// Kills all nodes, and starts them at other addresses. Returns a sentence for each requirement
/// that the session then does not meet, for example to be connected to all nodes in time.
pub async fn relocate(
    program: &Program,
    observed: &Observed,
    random: &mut Random,
    trace: &Trace,
) -> Vec<String> {
    let (cluster, session, log) = (program.cluster(), program.session(), program.log());
    let lasts = Duration::from_millis(random.within(100..20_000));
    // The old addresses refuse connections, or drop what is sent to them.
    let is_dropped = random.percent(50);
    let began = Instant::now();
    let nodes = 0..cluster.size();
    let old: Vec<SocketAddr> = nodes.clone().map(|node| cluster.address(node)).collect();
    trace.line(|| format!("FAULT all nodes move, for {lasts:.1?}, dropped: {is_dropped}"));
    for (node, at) in old.iter().enumerate() {
        let happened = Happened { node, at: *at, fault: Fault::MoveAll, began, ended: None };
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
        // A node is listed as connected while a connection to its old address is open.
        let is_left = |at: &SocketAddr| !cluster.network().is_open_to(at.ip());
        (0..cluster.size()).all(|node| is_back(&cluster.address(node))) && old.iter().all(is_left)
    };
    let mut broken = Vec::new();
    let limit = if is_dropped { WHOLE_AFTER_SILENCE } else { WHOLE };
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

/// Returns how long there was no control connection, if the one that was open when the nodes were
/// started has ended since.
fn control_reopened(events: &[Seen], started: Instant) -> Option<Duration> {
    let of_control = events.iter().filter(|event| event.is("control"));
    let mut later = of_control.skip_while(|event| event.at < started);
    let has_ended = |event: &Seen| matches!(event.name, "connection lost" | "connection closed");
    let ended = later.next().filter(|event| has_ended(event))?;
    let opened = later.find(|event| event.name == "connection opened")?;
    Some(opened.at - ended.at)
}
