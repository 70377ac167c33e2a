//! The same seed has the same trace in every process.
#![forbid(unsafe_code)]

use std::process::{Child, Command, Stdio};

/// Starts the program, which prints the traces of a few seeds.
fn start(change: impl FnOnce(&mut Command)) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulate"));
    command.args(["103", "105", "--trace", "--jobs", "1"]).stdout(Stdio::piped());
    change(&mut command);
    command.spawn().expect("the program starts")
}

/// Returns what the program prints, without the line about its speed.
fn traces(child: Child) -> Vec<String> {
    let output = child.wait_with_output().expect("the program ends");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("traces are text");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert!(lines.pop().is_some_and(|speed| speed.contains("seeds, ")));
    lines
}

#[test]
fn a_seed_has_the_same_trace_in_every_process() {
    // They run at the same time, in different directories and with different variables.
    let first = start(|_| {});
    let second = start(|command| {
        command.env_clear().env("RUST_LOG", "trace").current_dir("/");
    });
    let (first, second) = (traces(first), traces(second));
    let summaries: Vec<&str> =
        first.iter().map(String::as_str).filter(|line| line.starts_with("seed ")).collect();
    assert_eq!(summaries.len(), 3);
    for server in [" nodes of ScyllaDB;", " nodes of Cassandra;"] {
        assert!(first.iter().any(|line| line.contains(server)), "no seed has{server}");
    }
    let hashes: Vec<_> = summaries.iter().map(|line| line.rsplit(' ').next()).collect();
    assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2], "{summaries:?}");
    let different = first.iter().zip(&second).find(|(one, other)| one != other);
    assert_eq!(different, None);
    assert_eq!(first.len(), second.len());
}
