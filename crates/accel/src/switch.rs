//! Whether stand-ins work natively, and whether their plans are up to date.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pyo3::prelude::*;

/// The epoch: a number that is incremented when a class of the driver changes in a way that can
/// invalidate plans. A plan from an earlier epoch is made again before it is used.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Whether stand-ins work natively. An application may keep a reference to a stand-in after
/// `uninstall()`; the stand-in then passes every call to the driver's function that it replaces.
static ON: AtomicBool = AtomicBool::new(false);

/// If `on` is true, stand-ins work natively. If it is false, they pass every call to the driver's
/// functions that they replace.
#[pyfunction]
pub fn accel_enable(on: bool) {
    ON.store(on, Ordering::Relaxed);
}

pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Invalidates all plans, because a class of the driver was changed.
#[pyfunction]
pub fn accel_changed() {
    EPOCH.fetch_add(1, Ordering::Relaxed);
}

pub fn epoch() -> u64 {
    EPOCH.load(Ordering::Relaxed)
}
