//! The faults of a run: which, when, to which node, how long.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::cluster::Cluster;
use crate::network::{BOTH, Direction};
use crate::random::Random;
use crate::trace::Trace;

/// How long faults go on.
pub const FAULTY: Duration = Duration::from_secs(90);

#[derive(Clone, Copy, Debug)]
enum Fault {
    Pause,
    Kill,
    PowerLoss,
    /// The link is cut in one direction, or in both.
    Cut(&'static [Direction]),
    Reset,
    ResetInFrame(usize),
    Slow(Duration),
    Drip(usize, Duration),
    ForgetStatements,
    Overload,
}

/// A time in which one node is out of reach, and the others are healthy.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    pub began: Instant,
    pub ended: Instant,
}

/// Causes faults, one at a time. Returns the outages of nodes.
pub async fn cause(cluster: Cluster, mut random: Random, trace: Trace) -> Vec<Outage> {
    let mut outages = Vec::new();
    let began = Instant::now();
    sleep(Duration::from_millis(random.within(0..4000))).await;
    while began.elapsed() < FAULTY {
        let node = random.within(0..cluster.size() as u64) as usize;
        let fault = draw(&mut random);
        let lasts = Duration::from_millis(match random.within(0..3) {
            0 => random.within(50..2000),
            1 => random.within(2000..10_000),
            _ => random.within(10_000..40_000),
        });
        let fault_began = Instant::now();
        begin(&cluster, node, fault);
        trace.line(|| format!("FAULT node {}: {fault:?} for {lasts:.1?}", node + 1));
        sleep(lasts).await;
        end(&cluster, node, fault);
        if matches!(fault, Fault::Pause | Fault::Kill | Fault::PowerLoss | Fault::Cut(_)) {
            outages.push(Outage { began: fault_began, ended: Instant::now() });
        }
        trace.line(|| format!("FAULT node {}: {fault:?} ends", node + 1));
        sleep(Duration::from_millis(random.within(0..12_000))).await;
    }
    outages
}

fn draw(random: &mut Random) -> Fault {
    match random.within(0..12) {
        0 | 1 => Fault::Pause,
        2 => Fault::Kill,
        3 => Fault::PowerLoss,
        4 => Fault::Cut(&BOTH),
        5 => Fault::Cut(&[Direction::ToHost]),
        6 => Fault::Cut(&[Direction::ToClient]),
        7 => Fault::Reset,
        8 => Fault::ResetInFrame(random.within(1..400) as usize),
        9 if random.percent(50) => Fault::Slow(Duration::from_millis(random.within(20..3000))),
        9 => {
            Fault::Drip(random.within(1..40) as usize, Duration::from_millis(random.within(1..20)))
        }
        10 => Fault::ForgetStatements,
        _ => Fault::Overload,
    }
}

fn begin(cluster: &Cluster, node: usize, fault: Fault) {
    let (network, host) = (cluster.network(), Cluster::ip(node));
    match fault {
        Fault::Pause => cluster.pause(node, true),
        Fault::Kill => cluster.kill(node, false),
        Fault::PowerLoss => {
            BOTH.iter().for_each(|way| network.change(host, *way, |link| link.is_cut = true));
            cluster.kill(node, true);
        }
        Fault::Cut(ways) => {
            ways.iter().for_each(|way| network.change(host, *way, |link| link.is_cut = true));
        }
        Fault::Reset => network.reset(host, None),
        Fault::ResetInFrame(bytes) => network.reset(host, Some(bytes)),
        Fault::Slow(delay) => {
            BOTH.iter().for_each(|way| network.change(host, *way, |link| link.delay = delay));
        }
        Fault::Drip(bytes, pause) => {
            let drip = Some((bytes, pause));
            BOTH.iter().for_each(|way| network.change(host, *way, |link| link.drip = drip));
        }
        Fault::ForgetStatements => cluster.forget_statements(node),
        Fault::Overload => cluster.overload(node, true),
    }
}

fn end(cluster: &Cluster, node: usize, fault: Fault) {
    let (network, host) = (cluster.network(), Cluster::ip(node));
    match fault {
        Fault::Pause => cluster.pause(node, false),
        Fault::Kill | Fault::PowerLoss => cluster.restart(node),
        Fault::Overload => cluster.overload(node, false),
        Fault::Cut(_) | Fault::Reset | Fault::ResetInFrame(_) => {}
        Fault::Slow(_) | Fault::Drip(..) | Fault::ForgetStatements => {}
    }
    BOTH.iter().for_each(|way| network.change(host, *way, |link| *link = Default::default()));
}
