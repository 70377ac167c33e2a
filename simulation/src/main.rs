//! The program `simulate`, which runs seeds of the simulation.
//!
//!     simulate FIRST LAST [--jobs N] [--trace]
//!     simulate FIRST LAST --return REQUESTS SECONDS
//!
//! Runs the kept seeds (`KEPT`), then each seed from FIRST to LAST. Each run has a separate
//! process. If the engine breaks a promise in a run, prints the seed and the last lines of the
//! run's trace. One promise is that a call ends by its deadline. With `--trace`, runs no kept seed,
//! and prints the whole trace of each run. With `--return`, runs no kept seed either, and checks
//! nothing. Instead, keeps REQUESTS requests in flight while a node hangs for SECONDS, and measures
//! how many requests succeed after the node resumes, and how long they take.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use turbocql_simulation::ffi::{Child, Ended, end_at_closed_pipes};
use turbocql_simulation::returning::{INTERVAL, measure};
use turbocql_simulation::run::run;

/// The time limit of a run. A run takes a fraction of a second.
const LIMIT: Duration = Duration::from_secs(60);

/// The possible numbers of processes at the same time.
const JOBS: std::ops::RangeInclusive<usize> = 1..=256;

/// The possible numbers of requests of `--return`.
const REQUESTS: std::ops::RangeInclusive<u64> = 1..=100_000;

/// The longest hang of `--return`.
const LONGEST_HANG: Duration = Duration::from_secs(600);

/// Seeds whose runs have found a defect, each with a description of the defect. These seeds are run
/// before the others.
const KEPT: &[(u64, &str)] = &[
    (25, "without the edit `prepare`, a call that prepares waits for a node that is out of reach"),
    (44, "without the edit `orphans`, requests that were abandoned close a connection others use"),
    (63, "without the edit `streams`, requests beyond a connection's streams fail at once"),
    (23271, "with the crate's assertion about tablets, a node's new address ends its worker"),
    (25182, "without the edit `hung-shards`, no session is opened while a shard hangs"),
    (26375, "two hangs, one soon after the other, make a node slow, and the next is detected late"),
    (26783, "a node that its pool has reached again is silent until its next probe is due"),
    (30330, "requests to one node, which no other may take, do not show that the node hangs"),
    (102469, "a schema change does not wait for a node that a burst has made silent for a moment"),
    (302303, "the fault after a burst closes connections on which calls of the burst wait"),
    (319312, "two schema changes of other calls last as long as a wait for agreement"),
    (319648, "the fault after a burst holds up answers to the burst"),
    (311547, "after a long outage, a burst begins before the session is connected again"),
    (323492, "a node carries out an abandoned attempt after its call has prepared again"),
    (312032, "a node is killed while the session opens a further connection to it"),
    (315080, "all nodes move while the control connection is half-open"),
    (101747, "with an overload that ends meanwhile, a server carries out a claim twice"),
    (247, "without the edit `waiting`, requests that wait for a stream fail with another reason"),
];

struct Options {
    seeds: std::ops::RangeInclusive<u64>,
    jobs: usize,
    /// The number of lines at the end of a run's trace that are kept.
    kept: usize,
    shows_all: bool,
    /// The arguments of `--return`: the number of requests in flight, and how long a node hangs.
    returning: Option<(u64, Duration)>,
}

fn options() -> Option<Options> {
    let mut numbers = Vec::new();
    let mut options =
        Options { seeds: 1..=1, jobs: 2, kept: 40, shows_all: false, returning: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--jobs" => {
                options.jobs = arguments.next()?.parse().ok().filter(|jobs| JOBS.contains(jobs))?
            }
            "--trace" => (options.kept, options.shows_all) = (usize::MAX, true),
            "--return" => {
                let requests: u64 = arguments.next()?.parse().ok()?;
                let seconds = arguments.next()?.parse().ok()?;
                let hangs = Duration::try_from_secs_f64(seconds).ok()?;
                let is_possible = REQUESTS.contains(&requests) && hangs <= LONGEST_HANG;
                options.returning = is_possible.then_some((requests, hangs));
                options.returning?;
            }
            number => numbers.push(number.parse().ok()?),
        }
    }
    let [first, last] = numbers[..] else { return None };
    options.seeds = first..=last;
    (first <= last).then_some(options)
}

/// Runs the measurement of `--return` with each seed, and prints the means over all seeds.
fn measure_returns(options: &Options, in_flight: u64, hangs: Duration) {
    let mut sums: Vec<(f64, f64)> = Vec::new();
    for seed in options.seeds.clone() {
        let mut child = Child::start(|mut output| {
            let measured = measure(seed, in_flight, hangs);
            for (succeeded, slowest) in measured.succeeded.iter().zip(measured.slowest) {
                let _ = writeln!(output, "{succeeded} {slowest}");
            }
        })
        .unwrap_or_else(|error| no_process(&error));
        let text = loop {
            match child.poll(LIMIT) {
                None => std::thread::sleep(Duration::from_millis(1)),
                Some(Ended::Output(text)) => break text,
                Some(_) => {
                    eprintln!("seed {seed}: no result within {LIMIT:?}");
                    std::process::exit(2);
                }
            }
        };
        for (number, line) in text.lines().enumerate() {
            let mut numbers = line.split(' ').map(|word| word.parse().unwrap_or(f64::NAN));
            let mut next = || numbers.next().unwrap_or(f64::NAN);
            if sums.len() <= number {
                sums.push((0.0, 0.0));
            }
            sums[number].0 += next();
            sums[number].1 += next();
        }
    }
    let count = (options.seeds.end() - options.seeds.start()) as f64 + 1.0;
    for (number, (succeeded, slowest)) in sums.iter().enumerate() {
        let from = INTERVAL * number as u32;
        println!(
            "{from:.2?} after the return: {:.0} % of the requests, 99 of 100 within {:.0} ms",
            succeeded / count,
            slowest / count
        );
    }
}

fn no_process(error: &std::io::Error) -> ! {
    eprintln!("no process for a run: {error}; --jobs sets how many run at the same time");
    std::process::exit(2);
}

fn report(seed: u64, kept: usize, mut output: impl std::io::Write) {
    let run = run(seed, kept);
    let mut text = String::new();
    for line in &run.trace {
        text += &format!("| {line}\n");
    }
    for violation in &run.violations {
        text += &format!("! {violation}\n");
    }
    text += &format!(
        "= {} {} {} {:016x}\n",
        run.elapsed.as_secs_f64(),
        run.calls,
        run.failed,
        run.hash
    );
    let _ = output.write_all(text.as_bytes());
}

/// Sums over all runs. This process must not use a `HashMap`: the first one in a thread takes random
/// keys from the system, and the runs, whose processes are forked, would inherit them.
#[derive(Default)]
struct Totals {
    seeds: u64,
    bad: u64,
    simulated_s: f64,
    calls: u64,
    failed: u64,
}

fn judge(seed: u64, ended: Ended, options: &Options, totals: &mut Totals) {
    totals.seeds += 1;
    let (text, why) = match ended {
        Ended::Output(text) => (text, None),
        Ended::Signal(number, text) => (text, Some(format!("signal {number}"))),
        Ended::Limit(text) => (text, Some(format!("no end within {LIMIT:?}"))),
    };
    let summary = text.lines().find_map(|line| line.strip_prefix("= "));
    let why = why.or_else(|| summary.is_none().then(|| "it ended early".to_owned()));
    let is_bad = why.is_some() || text.lines().any(|line| line.starts_with('!'));
    totals.bad += u64::from(is_bad);
    if is_bad || options.shows_all {
        println!("seed {seed}: {}", summary.unwrap_or(""));
        text.lines().filter(|line| !line.starts_with('=')).for_each(|line| println!("  {line}"));
        if let Some(why) = why {
            println!("  ! {why}");
        }
    }
    let mut numbers = summary.unwrap_or("").split(' ').map(|word| word.parse().unwrap_or(0.0));
    totals.simulated_s += numbers.next().unwrap_or(0.0);
    totals.calls += numbers.next().unwrap_or(0.0) as u64;
    totals.failed += numbers.next().unwrap_or(0.0) as u64;
}

fn main() -> ExitCode {
    end_at_closed_pipes();
    let Some(options) = options() else {
        eprintln!("usage: simulate FIRST LAST [--jobs N] [--trace] [--return REQUESTS SECONDS]");
        return ExitCode::from(2);
    };
    if let Some((in_flight, hangs)) = options.returning {
        measure_returns(&options, in_flight, hangs);
        return ExitCode::SUCCESS;
    }
    let began = Instant::now();
    let mut totals = Totals::default();
    let kept = KEPT.iter().filter(|_| !options.shows_all).map(|(seed, _)| *seed);
    let mut seeds = kept.chain(options.seeds.clone());
    let mut running: Vec<(u64, Child)> = Vec::new();
    loop {
        while running.len() < options.jobs
            && let Some(seed) = seeds.next()
        {
            let child = Child::start(|output| report(seed, options.kept, output));
            running.push((seed, child.unwrap_or_else(|error| no_process(&error))));
        }
        if running.is_empty() {
            break;
        }
        let before = running.len();
        running.retain_mut(|(seed, child)| match child.poll(LIMIT) {
            None => true,
            Some(ended) => {
                judge(*seed, ended, &options, &mut totals);
                false
            }
        });
        if running.len() == before {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let took = began.elapsed().as_secs_f64();
    println!(
        "{} seeds, {:.1} a second; {:.1} simulated hours; {} calls, {} failed by faults; {} seeds \
         break a promise",
        totals.seeds,
        totals.seeds as f64 / took,
        totals.simulated_s / 3600.0,
        totals.calls,
        totals.failed,
        totals.bad
    );
    if totals.bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
