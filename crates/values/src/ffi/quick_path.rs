//! Which quick paths this process takes.
//!
//! A quick path reads or writes C layouts, or calls symbols, that CPython does not promise. It is on
//! when the interpreter is one of those it was tested with, and when it has passed a probe on
//! objects of which everything is known. Any other interpreter, also a future one, gets the safe
//! way.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyException, PyMemoryError};
use pyo3::prelude::*;

/// Minor versions of CPython 3 that every quick path was tested with: `make check-pythons`.
const TESTED: std::ops::RangeInclusive<u8> = 10..=15;

/// Has the interpreter taken for another version: for the tests of the safe way.
const OTHER_VERSION: &str = "_TURBOCQL_TEST_INTERPRETER";

macro_rules! quick_paths {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A quick path, by what it reads, makes or replaces.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum QuickPath {
            $($(#[$doc])* $name,)*
        }

        impl QuickPath {
            const ALL: &[QuickPath] = &[$(QuickPath::$name,)*];

            /// What users know it by.
            pub const fn name(self) -> &'static str {
                match self {
                    $(QuickPath::$name => $text,)*
                }
            }
        }
    };
}

quick_paths! {
    /// Numbers, text, bytes, dates, lists, tuples and dicts to bytes.
    Encode = "encode",
    /// Elements of sets, by CPython's own iteration.
    Sets = "sets",
    /// Attributes of objects that stand for user-defined types, for the accelerator.
    Attributes = "attributes",
    /// Attributes that may be missing, without an exception.
    Lookups = "lookups",
    /// The number that changes with a class, for the accelerator.
    Versions = "versions",
    /// The digits of a `Decimal`.
    Decimals = "decimals",
    /// The fields of NumPy's arrays.
    Arrays = "arrays",
    /// Integers above 63 bits.
    BigInts = "big ints",
    /// Text, dates, lists and numbers, made past the functions of their classes.
    Decode = "decode",
    /// Slots of `uuid.UUID`, written and read.
    Uuids = "uuids",
    /// Slots of `ipaddress.IPv4Address`, written.
    Addresses = "addresses",
    /// Slots of `turbocql.types.Time`, written.
    Times = "times",
    /// Named tuples, and instances whose `__init__` is not called.
    Records = "records",
    /// Pages to rows, filled in place.
    Rows = "rows",
    /// `Serializer.serialize` past the general way of calls.
    Serialize = "serialize",
    /// Results of coroutines without a `StopIteration`.
    Coroutines = "coroutines",
    /// What asyncio's loop runs next, made past `call_soon`.
    Handles = "handles",
}

/// Whether a quick path is on, and why not.
struct State {
    on: AtomicBool,
    /// That of the last probe, whatever [`force_safe`] says.
    probed: AtomicBool,
    reason: Mutex<Option<String>>,
}

static STATES: [State; QuickPath::ALL.len()] = [const {
    State { on: AtomicBool::new(false), probed: AtomicBool::new(false), reason: Mutex::new(None) }
}; QuickPath::ALL.len()];

static FORCED_SAFE: AtomicBool = AtomicBool::new(false);

impl QuickPath {
    /// Whether it is taken.
    #[inline(always)]
    pub fn is_on(self) -> bool {
        STATES[self as usize].on.load(Ordering::Relaxed)
    }

    /// Decides whether it is taken: a probe returns why it is not to be, if so.
    ///
    /// # Errors
    /// MemoryError, and what is no `Exception`, such as a KeyboardInterrupt. Any other error of a probe
    /// is a reason not to take the path.
    pub fn decide(
        self,
        py: Python<'_>,
        probe: impl FnOnce(Python<'_>) -> PyResult<Option<String>>,
    ) -> PyResult<bool> {
        let tried = match unknown_interpreter(py) {
            Ok(None) => probe(py),
            known => known,
        };
        let reason = match tried {
            Ok(reason) => reason,
            Err(error)
                if error.is_instance_of::<PyException>(py)
                    && !error.is_instance_of::<PyMemoryError>(py) =>
            {
                Some(format!("the probe failed: {error}"))
            }
            Err(error) => return Err(error),
        };
        let (state, good) = (&STATES[self as usize], reason.is_none());
        *state.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason;
        state.probed.store(good, Ordering::Relaxed);
        state.on.store(good && !FORCED_SAFE.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(good)
    }
}

/// Why quick paths are not for this interpreter; `None` where they were tested with it.
fn unknown_interpreter(py: Python<'_>) -> PyResult<Option<String>> {
    let sys = py.import("sys")?;
    let implementation: String = sys.getattr("implementation")?.getattr("name")?.extract()?;
    let version = sys.getattr("version_info")?;
    let (major, minor): (u8, u8) =
        (version.get_item(0)?.extract()?, version.get_item(1)?.extract()?);
    let other = std::env::var(OTHER_VERSION).ok().filter(|version| !version.is_empty());
    let version = other.unwrap_or_else(|| format!("{major}.{minor}"));
    let tested = TESTED.map(|minor| format!("3.{minor}")).any(|tested| tested == version);
    if implementation != "cpython" || !tested {
        let (first, last) = (TESTED.start(), TESTED.end());
        return Ok(Some(format!(
            "tested with CPython 3.{first} to 3.{last}, this is {implementation} {version}"
        )));
    }
    // Layouts may move until there is a release candidate.
    let level: String = sys.getattr("version_info")?.get_item(3)?.extract()?;
    if level == "alpha" || level == "beta" {
        return Ok(Some(format!("tested with releases of CPython, this is {version} {level}")));
    }
    // Builds that other extensions may be shared with, so that only the interpreter itself tells.
    let flags = [
        ("gettotalrefcount", "for debugging (Py_DEBUG)"),
        ("getobjects", "to trace references (Py_TRACE_REFS)"),
    ];
    for (mark, flag) in flags {
        if sys.hasattr(mark)? {
            return Ok(Some(format!("not tested with an interpreter built {flag}")));
        }
    }
    if cfg!(Py_GIL_DISABLED) {
        return Ok(Some("not tested with an interpreter built without the GIL".to_owned()));
    }
    if cfg!(not(target_pointer_width = "64")) {
        return Ok(Some("not tested where addresses have other than 64 bits".to_owned()));
    }
    Ok(None)
}

/// Each quick path: its name, whether it is on, and why it is not.
#[pyfunction]
pub fn quick_paths() -> Vec<(&'static str, bool, Option<String>)> {
    let all = QuickPath::ALL.iter();
    all.map(|path| {
        let state = &STATES[*path as usize];
        let reason = state.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (path.name(), path.is_on(), reason)
    })
    .collect()
}

/// Takes the safe way for everything that is decided value by value, or no longer: for tests of
/// that way.
#[pyfunction]
pub fn force_safe(force: bool) {
    FORCED_SAFE.store(force, Ordering::Relaxed);
    for (path, state) in QuickPath::ALL.iter().zip(&STATES) {
        // Once they are installed, these stay.
        if matches!(path, QuickPath::Coroutines | QuickPath::Handles | QuickPath::Serialize) {
            continue;
        }
        state.on.store(state.probed.load(Ordering::Relaxed) && !force, Ordering::Relaxed);
    }
}
