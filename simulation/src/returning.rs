//! Measures how the return of a node that hung affects requests. Requests are sent in a closed
//! loop, and one node hangs for a while. When the node resumes, it must first handle everything
//! that clients and other nodes sent to it while it hung.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use turbocql_codec::RowBuffer;
use turbocql_engine::{Config, Profile, RequestOptions, Runtime, Session, simulated};

use crate::cluster::{Cluster, LAST_KEY, PASSWORD, READ, USER, WRITE};
use crate::ffi;
use crate::network::Network;
use crate::random::Random;
use crate::run::{BEGAN, NETWORK, advance, connect};
use crate::trace::Trace;

const NODES: usize = 3;
/// The time limit of a request. With a longer limit, all requests in flight would soon wait for the
/// node that hangs, and no further requests would be sent. So the other nodes would send nothing to
/// the node, and it would have little to handle when it resumes.
const LIMIT: Duration = Duration::from_secs(1);
/// The width of the intervals in which requests are counted.
pub const INTERVAL: Duration = Duration::from_millis(250);
/// How long requests are sent before the node hangs.
const BEFORE: Duration = Duration::from_secs(2);
/// How long requests are sent after the node resumes.
const AFTER: Duration = Duration::from_secs(4);

/// The result of a measurement.
pub struct Return {
    /// For each interval after the node resumed, the number of requests that succeeded, in percent
    /// of the number in an interval before the hang.
    pub succeeded: Vec<f64>,
    /// For each of these intervals, the 99th percentile of the latencies in milliseconds.
    pub slowest: Vec<f64>,
}

/// Runs a seed in this process, with `in_flight` requests at a time and a node that hangs for the
/// time `hangs`.
pub fn measure(seed: u64, in_flight: u64, hangs: Duration) -> Return {
    ffi::simulate(seed);
    let (driver, _runtime) = Runtime::simulated(advance).expect("a runtime can be made");
    driver.block_on(async {
        let _ = BEGAN.set(Instant::now());
        let network = Network::new(Random::of_part(seed, 1));
        assert!(NETWORK.set(network.clone()).is_ok(), "a process runs one seed");
        let _ = simulated::CONNECT.set(connect);
        let random = Random::of_part(seed, 2);
        let cluster = Cluster::start(NODES, network, Trace::new(0, None), random, None);
        let contact_points = (0..NODES).map(|node| cluster.address(node).to_string()).collect();
        let config = Config {
            contact_points,
            profile: Profile { timeout: Some(LIMIT), ..Profile::default() },
            user: cluster.has_logins().then(|| USER.to_owned()),
            password: cluster.has_logins().then(|| PASSWORD.to_owned()),
            ..Config::default()
        };
        let session = Session::connect(config).await.expect("all nodes are healthy");
        let ended = Rc::<RefCell<Vec<(Instant, Duration)>>>::default();
        let tasks = tokio::task::LocalSet::new();
        let begin = Instant::now();
        let returns = begin + BEFORE + hangs;
        for number in 0..in_flight {
            let random = Random::of_part(seed, 10 + number);
            let work = request_until(session.clone(), random, returns + AFTER, Rc::clone(&ended));
            tasks.spawn_local(work);
        }
        tasks
            .run_until(async {
                sleep(BEFORE).await;
                cluster.pause(0, true);
                sleep(hangs).await;
                cluster.pause(0, false);
                sleep(AFTER).await;
            })
            .await;
        tasks.await;
        figures(&ended.borrow(), begin, returns)
    })
}

/// Sends reads and writes, one after another, until the time `until`. For each request that
/// succeeded, adds to `ended` the time when it ended, and its latency.
async fn request_until(
    session: Session,
    mut random: Random,
    until: Instant,
    ended: Rc<RefCell<Vec<(Instant, Duration)>>>,
) {
    let options = RequestOptions { idempotent: Some(true), ..Default::default() };
    let began = std::time::Instant::now();
    let prepare = |text| session.prepare(text, &options, began);
    let read = prepare(READ).await.expect("all nodes are healthy");
    let write = prepare(WRITE).await.expect("all nodes are healthy");
    let mut value: i64 = 0;
    while Instant::now() < until {
        value += 1;
        let key = random.within(0..LAST_KEY as u64 + 1) as i64;
        let (prepared, cells) =
            if random.percent(50) { (&read, &[key][..]) } else { (&write, &[key, value][..]) };
        let mut row = RowBuffer::new();
        cells.iter().for_each(|cell| row.push_value(&cell.to_be_bytes()));
        row.finish_row();
        let began = Instant::now();
        if session.execute(prepared, &row, &options, None).await.is_ok() {
            ended.borrow_mut().push((Instant::now(), began.elapsed()));
        }
    }
}

fn figures(ended: &[(Instant, Duration)], begin: Instant, returns: Instant) -> Return {
    let within = |from: Instant, length: Duration| {
        let times = ended.iter().filter(move |(at, _)| *at >= from && *at < from + length);
        let mut times: Vec<Duration> = times.map(|(_, took)| *took).collect();
        times.sort_unstable();
        times
    };
    let usual = within(begin + BEFORE / 2, BEFORE / 2).len() as f64 * INTERVAL.as_secs_f64();
    let usual = usual / (BEFORE / 2).as_secs_f64();
    let mut figures = Return { succeeded: Vec::new(), slowest: Vec::new() };
    for number in 0..(AFTER.as_millis() / INTERVAL.as_millis()) as u32 {
        let times = within(returns + INTERVAL * number, INTERVAL);
        figures.succeeded.push(100.0 * times.len() as f64 / usual);
        let slowest = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
        figures.slowest.push(slowest.as_secs_f64() * 1000.0);
    }
    figures
}
