//! Collects the panics of all tasks of a run. A task that panics ends alone, and the runtime keeps
//! its panic for whoever waits for the task. Nobody waits for the tasks of the servers.

use std::panic::{self, PanicHookInfo};
use std::sync::{Mutex, MutexGuard, PoisonError};

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<String>> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Collects all panics of this process from now on.
pub fn collect() {
    let shown = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        lock().push(sentence(panic));
        shown(panic);
    }));
}

/// Returns a sentence for each panic.
pub fn collected() -> Vec<String> {
    lock().clone()
}

fn sentence(panic: &PanicHookInfo<'_>) -> String {
    let file = panic.location().map_or("", |at| at.file());
    // A frame that `wire.rs` cannot read is a mistake of the client.
    let is_of_servers = file.contains("src/cluster/") && file.contains("simulation");
    let is_of_servers = is_of_servers || file.starts_with("src/cluster/");
    let whose = if is_of_servers && !file.ends_with("wire.rs") { "the servers: " } else { "" };
    let text = panic.payload_as_str().unwrap_or("no text").replace('\n', " ");
    let at = panic.location().map(ToString::to_string).unwrap_or_default();
    format!("{whose}a panic at {at}: {text}")
}
