//! Adapts turbocql's own sources to loom, so that the models run the real code.
//!
//! In a copy of each source, types of `std::sync` and `std::time` are replaced by types of
//! `crate::sync` and `crate::time`, and the parts that need Python are removed. Then each entry of
//! [`mutants::MUTANTS`] adds a branch that leaves out one decisive step. An entry replaces a text
//! that must occur exactly once in the source. Otherwise the build fails, because the source has
//! changed and the entry must be adapted.

use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "src/mutants.rs"]
mod mutants;

fn main() {
    let root = Path::new("..");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/mutants.rs");
    for (name, path) in [
        ("gate", "crates/engine/src/request/gate.rs"),
        ("lanes", "crates/engine/src/io/lanes.rs"),
        ("queue", "crates/engine/src/io/queue.rs"),
        ("op", "src/op/mod.rs"),
        ("execution", "src/op/execution.rs"),
        ("bridge", "src/op/bridge.rs"),
        ("gil_cell", "src/ffi/gil_cell.rs"),
        ("remaining", "src/classes/result/remaining.rs"),
    ] {
        let path = root.join(path);
        println!("cargo::rerun-if-changed={}", path.display());
        let text = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{} cannot be read: {error}", path.display()));
        let text = match name {
            "op" => without_python(&text),
            "bridge" => bridge(&text),
            "gil_cell" => gil_cell(&text),
            "remaining" => remaining(&text),
            _ => text,
        };
        let text = mutated(name, for_loom(&text));
        fs::write(out.join(format!("{name}.rs")), text).expect("the output folder can be written");
    }
}

/// Replaces a text that must occur exactly once.
fn replace(text: &str, old: &str, new: &str) -> String {
    let count = text.matches(old).count();
    assert!(count == 1, "expected this once, found it {count} times; see build.rs:\n{old}");
    text.replace(old, new)
}

fn for_loom(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod tests {").next().expect("split yields one at least");
    // `include!` does not accept inner doc comments.
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("//!")).collect();
    lines
        .join("\n")
        .replace("std::sync::", "crate::sync::")
        .replace("std::time::", "crate::time::")
        .replace("\nthread_local! {", "\nloom::thread_local! {")
        .replace("= const { RefCell::new(None) };", "= RefCell::new(None);")
}

fn mutated(source: &str, mut text: String) -> String {
    for mutant in mutants::MUTANTS.iter().filter(|mutant| mutant.source == source) {
        for (old, new) in mutant.changes {
            let new = new.replace("LEFT_OUT", &format!("crate::left_out({:?})", mutant.name));
            text = replace(&text, old, &new);
        }
    }
    text
}

/// Returns `src/op/mod.rs` without its `mod` declarations and without pyo3's attributes.
fn without_python(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("pub mod ")).collect();
    let text = replace(&lines.join("\n"), "#[pyclass(frozen, module = \"turbocql._core\")]\n", "");
    let text = replace(&text, "#[pymethods]\n", "");
    // loom does not see the upgrade of a `Weak`. So a `WeakQueue` takes its place: loom sees its
    // upgrades, and tries each order of the upgrades and of other changes of the reference count.
    let text = replace(&text, "Weak<LoopQueue>", "crate::op::bridge::WeakQueue");
    text.replace("Arc::downgrade(queue)", "queue.downgrade()")
}

/// Returns the completion queue, without the code that connects it to a Python event loop.
fn bridge(text: &str) -> String {
    let top = |first| item(text, first, "}");
    let method = |first| item(text, first, "    }");
    [
        "const MAX_WOKEN: usize = 64;\n".to_owned(),
        top("pub struct LoopQueue {"),
        top("enum Waker {"),
        "impl LoopQueue {\n".to_owned(),
        method("    pub fn push("),
        method("    fn completed("),
        method("    fn take("),
        method("    fn drain("),
        method("    fn put_back("),
        "}\n".to_owned(),
        top("impl Wake for LoopQueue {"),
        top("impl Drop for LoopQueue {"),
        "#[derive(Default)]\n".to_owned(),
        top("struct Notifier {"),
        "#[derive(Clone, Copy, Default, PartialEq, Eq)]\n".to_owned(),
        top("enum NotifierState {"),
        top("impl Notifier {"),
    ]
    .concat()
}

/// Returns `GilCell` in its version for Python without the GIL.
fn gil_cell(text: &str) -> String {
    let (_, text) = text.split_once("/// Without the GIL, ").expect("it begins the comment");
    // loom's `Mutex::new` is not `const`.
    let text = replace(text, "pub const fn new(", "pub fn new(");
    format!("pub struct GilCell<T>(Guarded<T>);\ntype Guarded<T> = std::sync::Mutex<T>;\n// {text}")
        .replace("#[cfg(Py_GIL_DISABLED)]\n", "")
}

/// Returns `Remaining` in its version for Python without the GIL. In the models, its rows are
/// numbers.
fn remaining(text: &str) -> String {
    let (_, text) = text.split_once("mod without_gil {\n").expect("the module is there");
    let text = text.trim_end().strip_suffix('}').expect("the module ends the file");
    replace(text, "Option<Bound<'py, PyAny>>", "Option<usize>")
}

/// Returns the lines from the line that begins with `first` to the next line that equals `last`.
fn item(text: &str, first: &str, last: &str) -> String {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(first)).peekable();
    assert!(lines.peek().is_some(), "not found; see build.rs:\n{first}");
    let mut item = String::new();
    for line in lines {
        item.push_str(line);
        item.push('\n');
        if line == last {
            return item;
        }
    }
    panic!("no end; see build.rs:\n{first}");
}
