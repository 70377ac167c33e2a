//! The program `simulate`, which runs seeds of the simulation. `USAGE` has its arguments.
//!
//! Runs the kept seeds (`KEPT`), then each other seed from FIRST to LAST. Each run has a separate
//! process. If the engine breaks a promise in a run, prints the seed, the last lines of the run's
//! trace, and the command that prints the whole trace. One promise is that a call ends by its
//! deadline. The program then exits with 1, and after wrong arguments or an error with 2.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::Write as _;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use turbocql_simulation::ffi::{Child, Ended, end_at_closed_pipes};
use turbocql_simulation::panics::sentence;
use turbocql_simulation::returning::{INTERVAL, measure};
use turbocql_simulation::run::run;

const USAGE: &str = "\
usage: simulate FIRST [LAST] [--jobs N] [--trace] [--limit SECONDS] [--break HOW]
       simulate FIRST [LAST] --return REQUESTS SECONDS

Runs the kept seeds, and each seed from FIRST to LAST. Without LAST, runs one seed.

  --jobs N         run N seeds at the same time (2)
  --trace          run no further kept seeds, and print the whole trace of each run
  --limit SECONDS  the time for which a run may use the CPU (60)
  --break HOW      end each run badly, to test the reports: `panic`, `crash`, `hang` or `sleep`
  --return REQUESTS SECONDS
                   check nothing. Keep REQUESTS requests in flight while a node hangs for SECONDS,
                   and measure how many succeed after the node resumes, and how long they take";

/// The usual limit for the time in which a run uses the CPU. A run uses it for a fraction of a
/// second. This time does not depend on what else the machine does.
const CPU_SECONDS: u32 = 60;

/// The limit for the time that a run takes on the clock. It is for a run that waits forever.
const LIMIT: Duration = Duration::from_secs(600);

/// The possible numbers of processes at the same time.
const JOBS: RangeInclusive<usize> = 1..=256;

/// The possible numbers of requests of `--return`.
const REQUESTS: RangeInclusive<u64> = 1..=100_000;

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
    (339_652, "a node that lost its statements works on a burst of requests three times"),
    (350_637, "a node loses only the control connection, and is killed later"),
    (362_616, "the only node that answers keeps no prepared statements, and gets a batch"),
    (376_874, "the node of the control connection falls silent before its pool connects"),
    (600_004, "without the edit `opening`, no session is opened while one node is slow"),
    (247, "without the edit `waiting`, requests that wait for a stream fail with another reason"),
];

/// How a run ends after its checks, instead of by itself.
#[derive(Clone, Copy)]
enum Break {
    Panic,
    Crash,
    /// Uses the CPU without an end.
    Hang,
    /// Waits without an end.
    Sleep,
}

impl FromStr for Break {
    type Err = ();

    fn from_str(name: &str) -> Result<Break, ()> {
        match name {
            "panic" => Ok(Break::Panic),
            "crash" => Ok(Break::Crash),
            "hang" => Ok(Break::Hang),
            "sleep" => Ok(Break::Sleep),
            _ => Err(()),
        }
    }
}

struct Options {
    seeds: RangeInclusive<u64>,
    jobs: usize,
    /// The number of lines at the end of a run's trace that are kept.
    kept: usize,
    shows_all: bool,
    cpu_seconds: u32,
    breaks: Option<Break>,
    /// The arguments of `--return`: the number of requests in flight, and how long a node hangs.
    returning: Option<(u64, Duration)>,
}

/// Reads the next argument, which belongs to the option `of`.
fn value<T: FromStr>(
    of: &str,
    arguments: &mut impl Iterator<Item = String>,
    is_possible: impl FnOnce(&T) -> bool,
) -> Result<T, String> {
    let text = arguments.next().ok_or_else(|| format!("{of} needs a further argument"))?;
    let value = text.parse().ok().filter(is_possible);
    value.ok_or_else(|| format!("{of} cannot be {text:?}"))
}

/// Returns the options, or a text that says what is wrong with the arguments.
fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut numbers = Vec::new();
    let mut options = Options {
        seeds: 1..=1,
        jobs: 2,
        kept: 40,
        shows_all: false,
        cpu_seconds: CPU_SECONDS,
        breaks: None,
        returning: None,
    };
    // The options that are not for `--return`.
    let mut of_runs = Vec::new();
    while let Some(argument) = arguments.next() {
        let of = argument.as_str();
        if ["--jobs", "--trace", "--limit", "--break"].contains(&of) {
            of_runs.push(of.to_owned());
        }
        match of {
            "--jobs" => options.jobs = value(of, &mut arguments, |jobs| JOBS.contains(jobs))?,
            "--trace" => (options.kept, options.shows_all) = (0, true),
            "--limit" => options.cpu_seconds = value(of, &mut arguments, |limit| *limit > 0)?,
            "--break" => options.breaks = Some(value(of, &mut arguments, |_| true)?),
            "--return" => {
                let requests = value(of, &mut arguments, |count| REQUESTS.contains(count))?;
                let seconds = value(of, &mut arguments, |seconds| {
                    (0.0..=LONGEST_HANG.as_secs_f64()).contains(seconds)
                })?;
                options.returning = Some((requests, Duration::from_secs_f64(seconds)));
            }
            _ => numbers
                .push(of.parse().map_err(|_| format!("{of:?} is neither an option nor a seed"))?),
        }
    }
    options.seeds = match numbers[..] {
        [seed] => seed..=seed,
        [first, last] if first <= last => first..=last,
        [first, last] => return Err(format!("the last seed, {last}, is below the first, {first}")),
        _ => return Err(format!("one or two seeds are needed, not {}", numbers.len())),
    };
    match of_runs.first() {
        Some(other) if options.returning.is_some() => Err(format!("--return excludes {other}")),
        _ => Ok(options),
    }
}

fn is_kept(seed: u64) -> bool {
    KEPT.iter().any(|(kept, _)| *kept == seed)
}

/// Prints a line. If this is impossible, for example because a disk is full, ends the program.
fn print(line: impl Display) {
    if let Err(error) = writeln!(std::io::stdout(), "{line}") {
        fail(&format!("standard output takes no line: {error}"));
    }
}

fn fail(why: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "simulate: {why}");
    std::process::exit(2);
}

fn start(seed: u64, options: &Options, work: impl FnOnce(std::fs::File)) -> Child {
    Child::start(options.cpu_seconds, work).unwrap_or_else(|error| {
        fail(&format!("no process for seed {seed}: {error}; --jobs sets how many run at a time"))
    })
}

/// Runs the measurement of `--return` with each seed, and prints the means over all seeds.
fn measure_returns(options: &Options, in_flight: u64, hangs: Duration) {
    let mut sums: Vec<(f64, f64)> = Vec::new();
    for seed in options.seeds.clone() {
        let mut child = start(seed, options, |mut output| {
            let measured = measure(seed, in_flight, hangs);
            for (succeeded, slowest) in measured.succeeded.iter().zip(measured.slowest) {
                let _ = writeln!(output, "{succeeded} {slowest}");
            }
        });
        let text = loop {
            match child.poll(LIMIT) {
                None => std::thread::sleep(Duration::from_millis(1)),
                Some(Ended::Output(text)) => break text,
                Some(Ended::Signal(number, _)) => fail(&format!("seed {seed}: signal {number}")),
                Some(Ended::CpuLimit(_) | Ended::Limit(_)) => {
                    fail(&format!("seed {seed}: it did not end"))
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
        print(format_args!(
            "{from:.2?} after the return: {:.0} % of the requests, 99 of 100 within {:.0} ms",
            succeeded / count,
            slowest / count
        ));
    }
}

/// Makes a panic write a line about itself to the output of this process. Otherwise, tokio would
/// hide the panics of many tasks, and the text of the others would not say which seed it is about.
fn report_panics(output: std::fs::File) {
    std::panic::set_hook(Box::new(move |panic| {
        let mut text = format!("! {}\n", sentence(panic));
        let backtrace = std::backtrace::Backtrace::capture();
        if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
            backtrace.to_string().lines().for_each(|line| text += &format!("| {line}\n"));
        }
        let _ = (&output).write_all(text.as_bytes());
    }));
}

/// Runs a seed in this process, and writes the result. A line about a broken promise begins with
/// `!`, a line of the trace with `|`, and the line with the figures with `=`.
fn report(seed: u64, options: &Options, mut output: std::fs::File) {
    let clones = output.try_clone().and_then(|clone| Ok((clone, output.try_clone()?)));
    let all_lines = match clones {
        Ok((of_panics, of_trace)) => {
            report_panics(of_panics);
            options.shows_all.then_some(of_trace)
        }
        Err(error) => {
            let _ = writeln!(output, "! the output of the run cannot be written: {error}");
            return;
        }
    };
    let run = run(seed, options.kept, all_lines);
    match options.breaks {
        Some(Break::Panic) => panic!("as demanded"),
        Some(Break::Crash) => std::process::abort(),
        Some(Break::Hang) => loop {
            std::hint::spin_loop();
        },
        Some(Break::Sleep) => loop {
            std::thread::park();
        },
        None => {}
    }
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
    /// How many of the seeds are kept ones.
    kept: u64,
    bad: u64,
    /// How many of the bad seeds are kept ones.
    bad_kept: u64,
    simulated_s: f64,
    calls: u64,
    failed: u64,
}

/// Names the figures of a run's summary.
fn labelled(summary: &str) -> String {
    let words: Vec<&str> = summary.split(' ').collect();
    let [elapsed, calls, failed, hash] = words[..] else { return summary.to_owned() };
    format!("{elapsed} simulated seconds, {calls} calls, {failed} of them failed, hash {hash}")
}

fn judge(seed: u64, ended: Ended, options: &Options, totals: &mut Totals) {
    let (text, why) = match ended {
        Ended::Output(text) => (text, None),
        Ended::Signal(number, text) => (text, Some(format!("signal {number}"))),
        Ended::CpuLimit(text) => {
            (text, Some(format!("no end within {} s of CPU time", options.cpu_seconds)))
        }
        Ended::Limit(text) => (text, Some(format!("no end within {LIMIT:?}"))),
    };
    let summary = text.lines().find_map(|line| line.strip_prefix("= "));
    let why = why.or_else(|| summary.is_none().then(|| "it ended early".to_owned()));
    let is_bad = why.is_some() || text.lines().any(|line| line.starts_with('!'));
    let is_kept = is_kept(seed);
    totals.seeds += 1;
    totals.kept += u64::from(is_kept);
    totals.bad += u64::from(is_bad);
    totals.bad_kept += u64::from(is_bad && is_kept);
    if is_bad || options.shows_all {
        let kept = if is_kept { " (kept)" } else { "" };
        print(format_args!("seed {seed}{kept}: {}", summary.map_or(String::new(), labelled)));
        let (story, others): (Vec<&str>, Vec<&str>) = text
            .lines()
            .filter(|line| !line.starts_with('='))
            .partition(|line| line.starts_with('|'));
        story.iter().chain(&others).for_each(|line| print(format_args!("  {line}")));
        if let Some(why) = why {
            print(format_args!("  ! {why}"));
        }
    }
    if is_bad && !options.shows_all {
        print(format_args!(
            "  the whole story: make simulate SEEDS=\"{seed} {seed}\" SIMULATE_ARGS=--trace"
        ));
    }
    let mut numbers = summary.unwrap_or("").split(' ').map(|word| word.parse().unwrap_or(0.0));
    totals.simulated_s += numbers.next().unwrap_or(0.0);
    totals.calls += numbers.next().unwrap_or(0.0) as u64;
    totals.failed += numbers.next().unwrap_or(0.0) as u64;
}

fn main() -> ExitCode {
    end_at_closed_pipes();
    if std::env::args().skip(1).any(|argument| argument == "--help" || argument == "-h") {
        print(USAGE);
        return ExitCode::SUCCESS;
    }
    let options = options(std::env::args().skip(1))
        .unwrap_or_else(|wrong| fail(&format!("{wrong}\n{USAGE}")));
    if let Some((in_flight, hangs)) = options.returning {
        measure_returns(&options, in_flight, hangs);
        return ExitCode::SUCCESS;
    }
    let began = Instant::now();
    let mut totals = Totals::default();
    let kept = KEPT.iter().filter(|_| !options.shows_all).map(|(seed, _)| *seed);
    let others = options.seeds.clone().filter(|seed| options.shows_all || !is_kept(*seed));
    let mut seeds = kept.chain(others);
    let mut running: Vec<(u64, Child)> = Vec::new();
    loop {
        while running.len() < options.jobs
            && let Some(seed) = seeds.next()
        {
            let child = start(seed, &options, |output| report(seed, &options, output));
            running.push((seed, child));
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
    print(format_args!(
        "{} seeds, {} of them kept; {:.1} a second; {:.1} simulated hours; {} calls, {} failed by \
         faults; {} seeds break a promise, {} of them kept",
        totals.seeds,
        totals.kept,
        totals.seeds as f64 / took,
        totals.simulated_s / 3600.0,
        totals.calls,
        totals.failed,
        totals.bad,
        totals.bad_kept
    ));
    if totals.bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
