//! Calls the fuzzer's targets with the inputs that the fuzzer kept. These few inputs reach the same
//! code as all the inputs that the fuzzer tried.

mod support {
    pub mod fuzz_entry;
    pub mod value;
}

use std::fs;
use std::path::PathBuf;

use support::fuzz_entry;

fn replay(target: &str, entry: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    for file in files {
        let data = fs::read(&file).unwrap();
        // The names are shown only if the test fails. The last one is the name of the input that
        // failed.
        println!("{}", file.display());
        entry(&data);
    }
}

#[test]
fn value() {
    replay("value", fuzz_entry::value);
}

#[test]
fn page() {
    replay("page", fuzz_entry::page);
}

#[test]
fn result() {
    replay("result", fuzz_entry::result);
}

#[test]
fn type_cql() {
    replay("type_cql", fuzz_entry::type_cql);
}

#[test]
fn type_marshal() {
    replay("type_marshal", fuzz_entry::type_marshal);
}
