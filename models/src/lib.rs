//! Tests turbocql's own sources under loom: no interleaving of threads may lose a request, a
//! completion, a permit or a wake.
//!
//! `build.rs` copies `queue.rs`, `lanes.rs` and `gate.rs` of the engine; `OpState`, `Execution`,
//! `LoopQueue` and `Notifier` of the native core; and `GilCell` and `Remaining`, which its
//! iterators use, in their versions for Python without the GIL. The copies have loom's types in
//! place of std's. Other modules replace the code that those sources call: `executor` replaces
//! tokio's runtime, `primitives` parts of `tokio::sync` and `futures`, `time` and `clock` replace
//! the clock, and `stand_ins` the session and Python.
//!
//! Each test in `models` is a model: loom runs it under every interleaving with at most
//! [`PREEMPTIONS`] preemptions. Each entry in `mutants` breaks the sources, and names the model
//! that must then fail.
//!
//! The models leave out the GIL, the reference counts of `Arc`, and the time that passes while a
//! thread works. Of tokio's multi-threaded runtime, they model only lanes that run on separate
//! threads.
#![cfg(test)]
#![forbid(unsafe_code)]

// The copied sources use the names of these crates. Here the names stand for this crate, so the
// sources use its modules in place of the crates.
extern crate self as futures;
extern crate self as pyo3;
extern crate self as tokio;
extern crate self as turbocql_codec;
extern crate self as turbocql_engine;
extern crate self as turbocql_values;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

mod clock;
mod executor;
mod models;
mod mutants;
mod primitives;
mod stand_ins;
mod std_sync;
mod time;

mod sync {
    pub use crate::primitives::{Notify, oneshot};
    pub use crate::std_sync::*;
}
mod future {
    pub use crate::primitives::{AbortHandle, abortable};
}
mod task {
    pub use crate::primitives::AtomicWaker;
}
use executor::spawn;
use gate::Permit;
use lanes::{Sending, Ticket};
use queue::{TaskHandle, Wake, wake_soon};
use stand_ins::engine::*;

// The modules of turbocql that the sources name.
mod error {
    pub use crate::stand_ins::engine::EngineError;

    pub mod attempts {
        pub use crate::stand_ins::engine::Attempts;
    }

    pub fn interrupted() -> EngineError {
        EngineError
    }

    pub fn ended(_: crate::prelude::Python<'_>) -> crate::stand_ins::python::PyErr {
        crate::stand_ins::python::PyErr
    }
}
mod io {
    pub(crate) use crate::{lanes, runtime};
}
mod options {
    pub use crate::stand_ins::engine::RequestOptions as Options;

    pub fn or_default(options: &Options) -> &Options {
        options
    }
}
mod runtime {
    pub use crate::stand_ins::engine::Runtime;
}
mod session {
    pub use crate::stand_ins::engine::{Request, execute};
}
mod terms {
    pub use crate::stand_ins::engine::Response;
}
mod ending {
    pub use crate::stand_ins::python::Inside;

    /// Returns false: in the models, the interpreter never ends.
    pub fn must_leave() -> bool {
        false
    }
}
mod exceptions {
    pub use crate::stand_ins::python::PyRuntimeError;
}
mod prelude {
    pub use crate::stand_ins::python::{Py, PyAny, PyResult, Python};
}

/// Includes a source of turbocql, as `build.rs` has changed it.
macro_rules! source {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $name, ".rs"));
        #[allow(unused_imports, reason = "not every source has a thread-local RefCell")]
        use crate::sync::LocalRefCell as _;
    };
}

#[allow(clippy::all, unused, unused_parens, reason = "linted where the source is")]
mod gate {
    source!("gate");
}
#[allow(clippy::all, unused, reason = "linted where the source is")]
mod lanes {
    source!("lanes");
}
#[allow(clippy::all, unused, reason = "linted where the source is")]
mod queue {
    source!("queue");
}
#[allow(clippy::all, unused, reason = "linted where the source is")]
mod op {
    source!("op");

    pub use crate::stand_ins::{awaiting, descriptor, greenlets, ready};
    pub mod bridge;
    pub mod execution {
        source!("execution");
    }

    /// Calls `Op.wait`.
    pub fn wait(op: &Arc<OpState>) -> PyResult<Py<PyAny>> {
        Op(op.clone()).wait(Python::attached())
    }

    /// Waits as a greenlet does: the hub watches a descriptor, and runs the greenlet when the
    /// descriptor is readable.
    pub fn wait_in_hub(op: &Arc<OpState>) -> PyResult<Py<PyAny>> {
        while !op.advance(Python::attached()) {
            let descriptor = Arc::<descriptor::Descriptor>::default();
            if op.wake_greenlet(Sleeper::of(&descriptor)) {
                descriptor.select();
            }
        }
        op.outcome()
    }
}

#[allow(clippy::all, unused, reason = "linted where the source is")]
mod gil_cell {
    use crate::stand_ins::python::{PyVisit, Python};

    source!("gil_cell");
}
#[allow(clippy::all, unused, reason = "linted where the source is")]
mod remaining {
    use crate::gil_cell::GilCell;
    use crate::stand_ins::python::*;

    pub use without_gil::Remaining;

    mod without_gil {
        source!("remaining");
    }
}

/// The maximum number of preemptions in an interleaving. The switch away from a thread that blocks
/// is no preemption.
const PREEMPTIONS: usize = 3;

/// Runs a model under every interleaving with at most [`PREEMPTIONS`] preemptions. The environment
/// variable LOOM_MAX_PREEMPTIONS sets another bound.
fn interleaved(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS);
    builder.max_branches = 20_000;
    let tried = Arc::new(AtomicUsize::new(0));
    let counted = tried.clone();
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{} interleavings", tried.load(Ordering::Relaxed));
}

/// The environment variable with the name of the mutant that a process tests.
const CHOSEN: &str = "MODELS_LEFT_OUT";

fn left_out(name: &str) -> bool {
    static MUTANT: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    MUTANT.get_or_init(|| std::env::var(CHOSEN).ok()).as_deref() == Some(name)
}

/// Every mutant is found by its model. Each model runs in a separate process, because a panic of
/// loom may abort the process: the futures that the panic drops use loom's locks.
#[test]
fn every_mutant_is_found() {
    let missed: Vec<_> = mutants::MUTANTS.iter().filter_map(missed).collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// Returns a message if the model does not find the mutant.
fn missed(mutant: &mutants::Mutant) -> Option<String> {
    let (model, message) = (mutant.model, mutant.message);
    let test = format!("models::{model}");
    let program = std::env::current_exe().expect("the tests' own program");
    let run = std::process::Command::new(program)
        .args(["--exact", &test, "--nocapture"])
        .env(CHOSEN, mutant.name)
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("the tests' own program runs");
    let output = [run.stdout, run.stderr].concat();
    let output = String::from_utf8_lossy(&output);
    if !output.contains("running 1 test\n") {
        return Some(format!("there is no model {test}"));
    }
    if run.status.success() {
        return Some(format!("{test} does not find the mutant: {}", mutant.name));
    }
    let is_found = output.contains(message);
    (!is_found).then(|| format!("{test} does not say {message:?} of: {}\n{output}", mutant.name))
}
