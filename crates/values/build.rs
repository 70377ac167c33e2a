//! Sets the `cfg`s of pyo3 that name the CPython version, because object layouts differ between
//! versions.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
