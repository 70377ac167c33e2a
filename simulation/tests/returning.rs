//! How many requests succeed after a node that hung resumes, with a backlog. All times are
//! simulated, so the figures do not depend on the machine.
#![forbid(unsafe_code)]

use std::process::Command;

/// The least number of requests that must succeed in each quarter of a second, in percent of those
/// before the hang. If the node got its full share at once, the number would be 64 in one of them.
const LEAST: f64 = 80.0;

/// The same for the last second, when the node has worked off its backlog.
const LEAST_AT_END: f64 = 95.0;

#[test]
fn a_node_with_a_backlog_costs_few_requests() {
    let output = Command::new(env!("CARGO_BIN_EXE_simulate"))
        .args(["1", "1", "--return", "512", "2.5"])
        .output()
        .expect("the program starts");
    let text = String::from_utf8(output.stdout).expect("the program prints text");
    let share = |line: &str| -> Option<f64> {
        line.split_once("after the return: ")?.1.split(' ').next()?.parse().ok()
    };
    let shares: Vec<f64> = text.lines().filter_map(share).collect();
    assert_eq!(shares.len(), 16, "{text}");
    assert!(shares.iter().all(|share| *share >= LEAST), "{text}");
    assert!(shares[12..].iter().all(|share| *share >= LEAST_AT_END), "{text}");
}
