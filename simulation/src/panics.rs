//! Describes the panics of a run. A task that panics ends alone, and the runtime keeps its panic for
//! whoever waits for the task. Nobody waits for the tasks of the servers.

use std::panic::PanicHookInfo;

/// Returns a sentence that says where and why a task panicked. It begins with `the servers:` if the
/// panic is a mistake of the simulated servers.
pub fn sentence(panic: &PanicHookInfo<'_>) -> String {
    let file = panic.location().map_or("", |at| at.file());
    // A frame that `wire.rs` cannot read is a mistake of the client.
    let is_of_servers = file.contains("src/cluster/") && file.contains("simulation");
    let is_of_servers = is_of_servers || file.starts_with("src/cluster/");
    let whose = if is_of_servers && !file.ends_with("wire.rs") { "the servers: " } else { "" };
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no text").replace('\n', " ");
    let at = panic.location().map(ToString::to_string).unwrap_or_default();
    format!("{whose}a panic at {at}: {text}")
}
