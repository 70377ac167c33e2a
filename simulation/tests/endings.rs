//! What `simulate` says of a run that ends badly and of wrong arguments, and that no run outlives
//! the program.
#![forbid(unsafe_code)]

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A seed that is not kept.
const SEED: &str = "101";

fn simulate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulate"));
    command.args(arguments);
    command
}

/// Runs the program, and returns its exit code, its output and its errors.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = simulate(arguments).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("the program prints text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Makes a run end badly, and returns what the program prints of it.
fn ended_badly(how: &str) -> String {
    let (code, output, _) = run(&[SEED, "--trace", "--limit", "4", "--break", how]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("1 seeds, 0 of them kept"), "{output}");
    assert!(output.contains("1 seeds break a promise, 0 of them kept"), "{output}");
    assert!(output.contains(" s  all faults have ended\n"), "the story is missing: {output}");
    output
}

#[test]
fn a_run_that_panics_is_reported() {
    let output = ended_badly("panic");
    assert!(output.contains("  ! a panic at src/main.rs"), "{output}");
    assert!(output.contains(": as demanded\n  ! it ended early\n"), "{output}");
}

#[test]
fn a_run_that_crashes_is_reported() {
    assert!(ended_badly("crash").contains("  ! signal 6\n"));
}

#[test]
fn a_run_that_exceeds_its_cpu_time_is_reported() {
    assert!(ended_badly("hang").contains("  ! no end within 4 s of CPU time\n"));
}

#[test]
fn the_report_names_the_command_that_prints_the_trace() {
    let (code, output, _) = run(&["25", "--limit", "60", "--jobs", "2", "--break", "panic"]);
    assert_eq!(code, Some(1));
    let command = "  the whole story: make simulate SEEDS=\"25 25\" SIMULATE_ARGS=--trace\n";
    assert_eq!(output.matches(command).count(), 1, "a kept seed runs once: {output}");
    assert!(output.contains("seed 25 (kept): "), "{output}");
}

#[test]
fn wrong_arguments_are_refused() {
    for (arguments, why) in [
        (&[][..], "one or two seeds are needed, not 0"),
        (&["1", "2", "3"], "one or two seeds are needed, not 3"),
        (&["2", "1"], "the last seed, 1, is below the first, 2"),
        (&["one"], "\"one\" is neither an option nor a seed"),
        (&["1", "--jobs"], "--jobs needs a further argument"),
        (&["1", "--jobs", "0"], "--jobs cannot be \"0\""),
        (&["1", "--limit", "0"], "--limit cannot be \"0\""),
        (&["1", "--return", "1", "1", "--jobs", "1"], "--return excludes --jobs"),
        (&["1", "--trace", "--return", "1", "1"], "--return excludes --trace"),
        (&["1", "--return", "1", "NaN"], "--return cannot be \"NaN\""),
    ] {
        let (code, output, errors) = run(arguments);
        assert_eq!((code, output.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(errors.starts_with(&format!("simulate: {why}\n")), "{arguments:?}: {errors}");
    }
}

#[test]
fn help_is_no_error() {
    let (code, output, errors) = run(&["--help"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(output.starts_with("usage: simulate FIRST [LAST]"), "{output}");
}

#[test]
fn a_full_disk_is_no_panic() {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("the device opens");
    let output = simulate(&[SEED, "--trace"]).stdout(full).output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.starts_with("simulate: standard output takes no line: "), "{errors}");
}

/// Returns what `look` returns, as soon as it returns something.
fn soon<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_run_ends_with_the_program() {
    let mut program = simulate(&[SEED, "--trace", "--break", "sleep"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    let number = program.id();
    let children = format!("/proc/{number}/task/{number}/children");
    let run: PathBuf = soon("the program starts a run", || {
        let run = std::fs::read_to_string(&children).expect("Linux lists the children");
        run.split_whitespace().next().map(|run| format!("/proc/{run}").into())
    });
    program.kill().expect("the program ends");
    program.wait().expect("the program has ended");
    soon("the run ends", || {
        // A process that has ended, but that no process has waited for, has the state Z.
        let stat = std::fs::read_to_string(run.join("stat"));
        stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
    });
}
