//! Fails the build if the edits of the ScyllaDB driver's crates are missing, unless `CRATE_EDITS`
//! is `off`.
//!
//! `scripts/edited_crates.py` writes the names of the edits into cargo's configuration, beside the
//! paths of the edited copies. The compiler checks that these copies are compiled: `ENGINE_EDITS`
//! in `lib.rs` refers to a constant that only the copies have.

const MISSING: &str = "the edited copies of the engine's crates are missing: run `python3 \
    scripts/edited_crates.py` (CRATE_EDITS=off builds without the edits; SECURITY.md says what that \
    means)";

fn main() {
    println!("cargo::rerun-if-env-changed=CRATE_EDITS_MADE");
    println!("cargo::rerun-if-env-changed=CRATE_EDITS");
    println!("cargo::rustc-check-cfg=cfg(edited_crates)");
    let edits = std::env::var("CRATE_EDITS_MADE").unwrap_or_default();
    let off = std::env::var("CRATE_EDITS").is_ok_and(|value| value == "off");
    match edits.as_str() {
        "off" => {}
        "" if off => {}
        "" => println!("cargo::error={MISSING}"),
        _ => println!("cargo::rustc-cfg=edited_crates"),
    }
}
