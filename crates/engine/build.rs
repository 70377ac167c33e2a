//! Tells the crate which edits of the ScyllaDB driver's crates it is built with.
//!
//! `scripts/edited_crates.py` writes their names into cargo's configuration, beside the paths of the
//! edited copies.

fn main() {
    println!("cargo::rerun-if-env-changed=CRATE_EDITS_MADE");
    println!("cargo::rustc-check-cfg=cfg(edited_crates)");
    let edits = std::env::var("CRATE_EDITS_MADE").unwrap_or_default();
    println!("cargo::rustc-env=ENGINE_EDITS={edits}");
    if !edits.is_empty() {
        println!("cargo::rustc-cfg=edited_crates");
    }
}
