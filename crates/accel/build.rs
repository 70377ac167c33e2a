//! Sets `cfg`s such as `Py_3_13`, because C layouts differ between versions of CPython.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
