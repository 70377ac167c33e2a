//! Makes one run from its seed.

use std::fs::File;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use turbocql_engine::{Config, Metrics, Profile, Runtime, Session, Speculation, simulated};

use crate::cluster::{Cluster, PASSWORD, USER};
use crate::faults::{self, FAULTY, Log};
use crate::ffi;
use crate::history::{Call, misfits, violations};
use crate::needless::{failed_bursts, needless_failures};
use crate::network::Network;
use crate::observed::Observed;
use crate::random::Random;
use crate::relocation;
use crate::routing;
use crate::trace::Trace;
use crate::visible;
use crate::workload::{LIMIT, Program};

/// If this many calls succeed that are slow and may be repeated, some of them must be repeated.
const SLOW_CALLS: usize = 10;

/// The parts of a run that have random numbers of their own.
mod part {
    pub const NETWORK: u64 = 1;
    pub const CLUSTER: u64 = 2;
    pub const FAULTS: u64 = 3;
    pub const SETTINGS: u64 = 4;
    pub const OTHER_FAULTS: u64 = 5;
    /// The first worker of the program. The other workers have the numbers after it.
    pub const PROGRAM: u64 = 6;
    pub const OTHER_CLIENT: u64 = 100;
    pub const SCYLLA: u64 = 101;
    pub const BALANCER: u64 = 102;
    pub const NAMES: u64 = 103;
    pub const RELOCATION: u64 = 104;
    pub const WALL_CLOCK: u64 = 105;
    /// With this number, no kept seed has a long outage.
    pub const OUTAGE: u64 = 108;
}

/// The time from the last fault until calls must succeed again. It is long enough for gossip, for
/// the longest interval between two attempts to connect, and for the longest interval between two
/// probes of a node.
const RECOVERY: Duration = Duration::from_secs(40);

/// The result of a run.
pub struct Report {
    pub hash: u64,
    /// The simulated time.
    pub elapsed: Duration,
    pub calls: usize,
    pub failed: usize,
    /// A sentence for each promise that the engine has broken. One promise is that a call ends by
    /// its deadline.
    pub violations: Vec<String>,
    /// The last lines of the trace. `kept` limits their number.
    pub trace: Vec<String>,
}

pub(crate) static NETWORK: OnceLock<Network> = OnceLock::new();
static CLUSTER: OnceLock<Cluster> = OnceLock::new();
pub(crate) static BEGAN: OnceLock<Instant> = OnceLock::new();

pub(crate) fn connect(at: std::net::SocketAddr, source_port: Option<u16>) -> simulated::Connecting {
    let network = NETWORK.get().expect("the network is there before the session").clone();
    Box::pin(async move {
        let stream = network.connect(at, source_port).await?;
        Ok(Box::new(stream) as Box<dyn simulated::Transport>)
    })
}

fn resolve(contact_point: &str) -> std::io::Result<Vec<std::net::SocketAddr>> {
    relocation::resolve(CLUSTER.get().expect("the cluster is there"), contact_point)
}

/// Sets the simulated clock to the time of tokio's clock, which has moved to the next timer.
pub(crate) fn advance() {
    if let Some(began) = BEGAN.get() {
        ffi::set_elapsed(began.elapsed().as_nanos() as u64);
    }
}

/// Runs a seed in this process. A process must not run a second seed. See [`Trace::new`] for the last
/// two arguments.
pub fn run(seed: u64, kept: usize, output: Option<File>) -> Report {
    ffi::simulate(seed);
    let (driver, runtime) = Runtime::simulated(advance).expect("a runtime can be made");
    driver.block_on(async {
        let _ = BEGAN.set(Instant::now());
        let trace = Trace::new(kept, output);
        let network = Network::new(Random::of_part(seed, part::NETWORK));
        assert!(NETWORK.set(network.clone()).is_ok(), "a process runs one seed");
        let _ = simulated::CONNECT.set(connect);
        let mut random = Random::of_part(seed, part::SETTINGS);
        let nodes = random.within(3..6) as usize;
        let of_cluster = Random::of_part(seed, part::CLUSTER);
        let of_scylla = Some(Random::of_part(seed, part::SCYLLA));
        let cluster = Cluster::start(nodes, network.clone(), trace.clone(), of_cluster, of_scylla);
        let _ = (CLUSTER.set(cluster.clone()), simulated::RESOLVE.set(resolve));
        let mut of_names = Random::of_part(seed, part::NAMES);
        let contact_points = relocation::contact_points(&cluster, &mut of_names);
        let has_names = contact_points[0].parse::<std::net::SocketAddr>().is_err();
        let config = Config { contact_points, ..config(&cluster, &mut random) };
        let has_client_times = config.client_timestamps;
        let speculation = config.profile.speculation.clone();
        trace.line(|| {
            let server = if cluster.is_scylla() { "ScyllaDB" } else { "Cassandra" };
            format!("{nodes} nodes of {server}; speculation: {:?}", config.profile.speculation)
        });
        let mut broken = Vec::new();
        let (mut calls, mut failed) = (0, 0);
        let (log, bursts) = Log::new();
        let outage = outage(&mut Random::of_part(seed, part::OUTAGE));
        set_back_clock(Random::of_part(seed, part::WALL_CLOCK), trace.clone());
        let cause = |part| {
            let of_faults = Random::of_part(seed, part);
            let outage = outage.filter(|_| part == part::FAULTS);
            let (cluster, trace, log) = (cluster.clone(), trace.clone(), log.clone());
            tokio::spawn(faults::cause(cluster, of_faults, outage, trace, log))
        };
        let mut faults = vec![cause(part::FAULTS)];
        let happen_together = random.percent(30);
        if happen_together {
            faults.push(cause(part::OTHER_FAULTS));
        } else if random.percent(40) {
            // After this delay, the first fault may have begun, so the session may be opened during
            // the fault.
            sleep(Duration::from_millis(random.within(0..8000))).await;
        }
        let connecting = Instant::now();
        let mut session = Session::connect(config.clone()).await;
        if session.is_err() && log.faults().iter().any(|fault| fault.began > connecting) {
            // If a node falls silent while the session is opened, opening may take the whole time
            // limit and fail. If that happens, a second attempt must succeed.
            session = Session::connect(config).await;
        }
        let opened = Instant::now();
        match session {
            // Two simultaneous faults may leave no majority of healthy nodes, so the session may be
            // impossible.
            Err(_) if happen_together => {}
            Err(error) => broken.push(format!("no session, though a majority is healthy: {error}")),
            Ok(session) => {
                let observed = Observed::default();
                let events = Arc::clone(&session.telemetry().events);
                tokio::spawn(observed.clone().follow(events, trace.clone()));
                let samples = tokio::spawn(observed.clone().sample(session.clone(), nodes));
                let of_client = Random::of_part(seed, part::OTHER_CLIENT);
                let until = Instant::now() + FAULTY + outage.unwrap_or_default();
                tokio::spawn(faults::change_schema(
                    cluster.clone(),
                    of_client,
                    trace.clone(),
                    until,
                ));
                let of_balancer = Random::of_part(seed, part::BALANCER);
                tokio::spawn(faults::migrate_tablets(cluster.clone(), of_balancer, until));
                let program = Program::new(
                    session.clone(),
                    runtime.clone(),
                    cluster.clone(),
                    log.clone(),
                    trace.clone(),
                );
                let sends_bursts = tokio::spawn(program.clone().send_bursts(bursts));
                let relocated = has_names.then_some(&observed);
                use_session(seed, &program, relocated, (faults, until), &trace, &mut broken).await;
                let history = program.calls();
                calls = history.len();
                failed = history.iter().filter(|call| is_failed(call)).count();
                let faults = log.faults_in(&network);
                broken.extend(violations(&history, &cluster.effects(), &faults, has_client_times));
                if !happen_together {
                    let change_times: Vec<Instant> =
                        cluster.made().into_iter().map(|(_, at)| at).collect();
                    broken.extend(needless_failures(&history, &faults, &change_times));
                    let lost = failed_bursts(&history, Duration::from_secs(10), &faults, opened);
                    if lost > 0 {
                        broken.push(format!(
                            "{lost} calls of a burst failed though their node went on"
                        ));
                    }
                }
                broken.extend(visible::miscounted(&observed));
                broken.extend(visible::wrongly_silent(&observed, &faults));
                let closed_by_use: Vec<_> =
                    history.iter().filter_map(|call| call.given_up()).collect();
                let given_up = program.given_up();
                broken.extend(routing::misrouted(&routing::Story {
                    arrivals: &cluster.arrivals(),
                    samples: &observed.samples(),
                    faults: &faults,
                    closed_by_use: &closed_by_use,
                    given_up: &given_up,
                }));
                if !happen_together {
                    broken.extend(visible::unseen(&visible::Story {
                        observed: &observed,
                        faults: &faults,
                        refusals: &cluster.refusals(),
                        made: &cluster.made(),
                        closed_by_use: &closed_by_use,
                        given_up: &given_up,
                        has_speculation: speculation.is_some(),
                    }));
                }
                broken.extend(misfits(&history, &cluster.misfits(), &faults));
                broken.extend(program.broken());
                let (admitted, bytes) = session.gate().admitted();
                if (admitted, bytes) != (0, 0) {
                    broken.push(format!("{admitted} places and {bytes} bytes are not given back"));
                }
                broken.extend(miscounted(&session.metrics()));
                let speculative = session.metrics().totals.speculative;
                broken.extend(wrongly_speculative(speculation.as_ref(), &history, speculative));
                sends_bursts.abort();
                samples.abort();
                let gate = Arc::downgrade(session.gate());
                drop((program, session, log));
                sleep(Duration::from_secs(5)).await;
                if gate.strong_count() > 0 {
                    broken.push("the session's memory is not freed".into());
                }
                let open = network.open_connections();
                if open > 0 {
                    broken.push(format!("{open} connections are open after the session's end"));
                }
            }
        }
        broken.extend(cluster.defects());
        // These come first, because they may be the cause of the others.
        broken.splice(0..0, cluster.mistakes());
        // A second thread would run at times that no seed decides.
        let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
        if threads != 1 {
            broken.push(format!("the run has {threads} threads"));
        }
        if runtime.in_flight() > 0 {
            broken.push(format!("{} tasks never ended", runtime.in_flight()));
        }
        Report {
            hash: trace.hash(),
            elapsed: BEGAN.get().map(Instant::elapsed).unwrap_or_default(),
            calls,
            failed,
            violations: broken,
            trace: trace.kept(),
        }
    })
}

/// In half of the runs, sets the wall clock back once, by at most five seconds.
fn set_back_clock(mut random: Random, trace: Trace) {
    if random.percent(50) {
        let at = Duration::from_millis(random.within(0..FAULTY.as_millis() as u64));
        let by = Duration::from_millis(random.within(1..5_000));
        tokio::spawn(async move {
            sleep(at).await;
            trace.line(|| format!("the wall clock is set back by {by:.1?}"));
            ffi::set_back(by);
        });
    }
}

/// Returns how long a node is out of reach in the few runs that have a long outage.
fn outage(random: &mut Random) -> Option<Duration> {
    random.percent(4).then(|| Duration::from_secs(random.within(60..180)))
}

fn is_failed(call: &crate::history::Call) -> bool {
    matches!(call.ended, Some((_, crate::history::Outcome::Failed(_))))
}

fn config(cluster: &Cluster, random: &mut Random) -> Config {
    let mut profile = Profile { timeout: Some(LIMIT), ..Profile::default() };
    if random.percent(40) {
        let delay = Duration::from_millis(random.within(20..400));
        profile.speculation = Some(Speculation::Constant { delay, attempts: 2 });
    }
    Config {
        profile,
        user: cluster.has_logins().then(|| USER.to_owned()),
        password: cluster.has_logins().then(|| PASSWORD.to_owned()),
        client_timestamps: random.percent(50),
        // Sessions in Python have these values by default.
        keepalive_interval: Some(Duration::from_secs(10)),
        keepalive_timeout: Some(Duration::from_secs(10)),
        // In some runs, only few requests may be in flight, so that calls wait for each other.
        max_in_flight: if random.percent(30) { 3 } else { 10_000 },
        ..Config::default()
    }
}

async fn use_session(
    seed: u64,
    program: &Program,
    relocated: Option<&Observed>,
    (faults, until): (Vec<JoinHandle<()>>, Instant),
    trace: &Trace,
    broken: &mut Vec<String>,
) {
    let mut tasks = vec![tokio::spawn(program.clone().watch_nodes(until))];
    tasks.extend((0..6).map(|worker| {
        let random = Random::of_part(seed, part::PROGRAM + worker);
        tokio::spawn(program.clone().run(random, until))
    }));
    for fault in faults {
        fault.await.expect("faults do not panic");
    }
    for task in tasks {
        // Without this timeout, a call that never ends would block the run forever.
        match timeout(Duration::from_secs(60), task).await {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => broken.push(format!("a panic: {panic}")),
            Err(_) => broken.push("a call did not end within a minute of its deadline".into()),
        }
    }
    if let Some(observed) = relocated {
        let mut random = Random::of_part(seed, part::RELOCATION);
        broken.extend(relocation::relocate(program, observed, &mut random, trace).await);
    }
    sleep(RECOVERY).await;
    trace.line(|| "all faults have ended".into());
    let mut random = Random::of_part(seed, part::PROGRAM);
    let (began, mut succeeded) = (Instant::now(), true);
    for _ in 0..4 {
        succeeded &= program.read_all().await;
        sleep(Duration::from_millis(500)).await;
    }
    let (arrivals, given_up) = (program.cluster().arrivals(), program.given_up());
    broken.extend(routing::misrouted_since(began, &arrivals, &given_up));
    for _ in 0..20 {
        succeeded &= program.call(&mut random).await;
        // A `USE` that is given up closes connections. The session needs this time to open them
        // again.
        sleep(Duration::from_millis(300)).await;
    }
    if !succeeded {
        broken.push(format!("calls fail {RECOVERY:?} after the last fault"));
    }
}

/// Checks that the session repeats slow requests if it has speculation, and only then. A call may
/// also be slow because it waits for its statement, so a few slow calls prove nothing.
fn wrongly_speculative(
    speculation: Option<&Speculation>,
    calls: &[Call],
    speculative: u64,
) -> Option<String> {
    let Some(Speculation::Constant { delay, .. }) = speculation else {
        return (speculative > 0).then(|| format!("{speculative} requests without speculation"));
    };
    let margin = Duration::from_millis(100);
    let slow = calls.iter().filter(|call| call.is_slow(*delay + margin)).count();
    (slow >= SLOW_CALLS && speculative == 0)
        .then(|| format!("no request was sent again, though {slow} took longer than {delay:?}"))
}

/// Returns a sentence for each figure of the session's metrics that contradicts another figure. All
/// requests of the session must have ended.
fn miscounted(metrics: &Metrics) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, node) in &metrics.nodes {
        let succeeded: u64 = node.latencies.iter().flat_map(|(_, latency)| latency.counts).sum();
        if node.attempts != succeeded + node.failed + node.abandoned || node.in_flight != 0 {
            wrong.push(format!("the attempts at {at} do not add up: {node:?}"));
        }
    }
    for kind in &metrics.totals.kinds {
        if kind.latency.counts.iter().sum::<u64>() != kind.requests || kind.failed > kind.requests {
            wrong.push(format!("the requests do not add up: {kind:?}"));
        }
    }
    if metrics.waiting > 0 {
        wrong.push(format!("{} calls wait after all have ended", metrics.waiting));
    }
    wrong
}
