//! Runs the engine against a simulated cluster, network and clock.
//!
//! A seed determines everything in a run: the cluster, the faults, the calls of the simulated
//! program, and the time that each byte needs to arrive. The simulated clock moves only when no
//! task can run. So a run of several simulated minutes takes a fraction of a second. See
//! docs/design/simulation.md.
#![deny(unsafe_code)]

pub mod cluster;
pub mod faults;
#[allow(unsafe_code, reason = "the clock, the random numbers and the processes of the system")]
pub mod ffi;
pub mod history;
pub mod needless;
pub mod network;
pub mod observed;
pub mod panics;
pub mod random;
pub mod relocation;
pub mod returning;
pub mod routing;
pub mod run;
pub mod trace;
pub mod visible;
pub mod workload;
