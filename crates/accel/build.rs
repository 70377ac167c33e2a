//! Tells the code which CPython it is built for: layouts differ between versions.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
