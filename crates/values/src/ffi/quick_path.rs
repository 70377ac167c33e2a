//! Decides which quick paths are on in this process.
//!
//! A quick path reads or writes C layouts, or calls symbols, that CPython does not promise to keep.
//! The path is on if it was tested with this version of the interpreter and has passed a probe on
//! sample objects. Otherwise the safe path runs. So on a version of the interpreter that was not
//! tested, only safe paths run.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyException, PyMemoryError};
use pyo3::prelude::*;

use crate::system::System;

/// The minor versions of CPython 3 with which `make check-pythons` has tested every quick path.
const TESTED: std::ops::RangeInclusive<u8> = 10..=15;

/// Whether every quick path was tested on this system. aarch64, musl's interpreters, macOS and
/// Windows have the safe paths only, until the tests of the `ffi` folders have run there.
const TESTED_SYSTEM: bool =
    cfg!(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"));

/// The environment variable with the version that turbocql assumes in place of the interpreter's
/// own. Tests of the safe path set it.
const OTHER_VERSION: &str = "_TURBOCQL_TEST_INTERPRETER";

macro_rules! quick_paths {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A quick path, named after the objects that it reads or makes, or the function that it
        /// replaces.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum QuickPath {
            $($(#[$doc])* $name,)*
        }

        impl QuickPath {
            const ALL: &[QuickPath] = &[$(QuickPath::$name,)*];

            /// The name that users see.
            pub const fn name(self) -> &'static str {
                match self {
                    $(QuickPath::$name => $text,)*
                }
            }
        }
    };
}

quick_paths! {
    /// Encodes numbers, text, bytes, dates, lists, tuples and dicts.
    Encode = "encode",
    /// Encodes the elements of sets, by CPython's private function that iterates over a set.
    Sets = "sets",
    /// Reads attributes of objects that are values of user-defined types, for the accelerator.
    Attributes = "attributes",
    /// Looks up attributes that may be missing, without an exception.
    Lookups = "lookups",
    /// Reads the version tags of classes and dicts, for the accelerator.
    Versions = "versions",
    /// Reads the digits of a `Decimal`.
    Decimals = "decimals",
    /// Reads the fields of NumPy's arrays and numbers.
    Arrays = "arrays",
    /// Makes integers of more than 63 bits.
    BigInts = "big ints",
    /// Makes text, dates, lists and numbers without calling their classes.
    Decode = "decode",
    /// Writes and reads the slots of `uuid.UUID`.
    Uuids = "uuids",
    /// Writes the slots of `ipaddress.IPv4Address`.
    Addresses = "addresses",
    /// Writes the slots of `turbocql.types.Time`.
    Times = "times",
    /// Makes named tuples, and makes instances without calling their `__init__`.
    Records = "records",
    /// Decodes pages to rows, which are filled in place.
    Rows = "rows",
    /// Replaces `Serializer.serialize` by a C function, without pyo3's code around calls.
    Serialize = "serialize",
    /// Returns the results of coroutines without a `StopIteration`.
    Coroutines = "coroutines",
    /// Makes handles that asyncio's event loop runs in its next iteration, without `call_soon`.
    Handles = "handles",
}

/// Whether a quick path is on, and if not, the reason.
struct State {
    on: AtomicBool,
    /// Whether the last probe has passed; [`force_safe`] does not change it.
    probed: AtomicBool,
    reason: Mutex<Option<String>>,
}

static STATES: [State; QuickPath::ALL.len()] = [const {
    State { on: AtomicBool::new(false), probed: AtomicBool::new(false), reason: Mutex::new(None) }
}; QuickPath::ALL.len()];

static FORCED_SAFE: AtomicBool = AtomicBool::new(false);

impl QuickPath {
    /// Whether the quick path is on.
    #[inline(always)]
    pub fn is_on(self) -> bool {
        STATES[self as usize].on.load(Ordering::Relaxed)
    }

    /// Decides whether the quick path is on. Returns the decision, without regard to
    /// [`force_safe`]. `probe` runs only if the interpreter is a tested one. `probe` returns the
    /// reason if the path must be off.
    ///
    /// # Errors
    /// Returns a MemoryError, or an exception that is not an `Exception`, such as
    /// KeyboardInterrupt. Any other error of the probe turns the path off, with the error as the
    /// reason.
    pub fn decide(
        self,
        py: Python<'_>,
        probe: impl FnOnce(Python<'_>) -> PyResult<Option<String>>,
    ) -> PyResult<bool> {
        let tried = match unknown_interpreter(py) {
            Ok(None) => probe(py),
            state => state,
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

/// Returns the reason why quick paths are off for this interpreter, or `None` if they were tested
/// with it.
fn unknown_interpreter(py: Python<'_>) -> PyResult<Option<String>> {
    let sys = py.import("sys")?;
    let implementation: String = sys.getattr("implementation")?.getattr("name")?.extract()?;
    let version = sys.getattr("version_info")?;
    let (major, minor): (u8, u8) =
        (version.get_item(0)?.extract()?, version.get_item(1)?.extract()?);
    let simulated = std::env::var(OTHER_VERSION).ok().filter(|version| !version.is_empty());
    let version = simulated.unwrap_or_else(|| format!("{major}.{minor}"));
    let tested = TESTED.map(|minor| format!("3.{minor}")).any(|tested| tested == version);
    if implementation != "cpython" || !tested {
        let (first, last) = (TESTED.start(), TESTED.end());
        return Ok(Some(format!(
            "tested with CPython 3.{first} to 3.{last}, this is {implementation} {version}"
        )));
    }
    if !TESTED_SYSTEM || System::current() != System::Linux {
        let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
        let library = if cfg!(target_env = "musl") { "-musl" } else { "" };
        return Ok(Some(format!(
            "tested on Linux with glibc on x86_64, this is {:?} ({system}{library} {processor})",
            System::current(),
        )));
    }
    // Layouts may change until the first release candidate, so quick paths are off in alphas and
    // betas.
    let level: String = sys.getattr("version_info")?.get_item(3)?.extract()?;
    if level == "alpha" || level == "beta" {
        return Ok(Some(format!("tested with releases of CPython, this is {version} {level}")));
    }
    // An interpreter built with these flags can load the same compiled turbocql as one built
    // without them. So the flags are read from the running interpreter, and not when turbocql is
    // compiled.
    let flags = [
        ("gettotalrefcount", "for debugging (Py_DEBUG)"),
        ("getobjects", "to trace references (Py_TRACE_REFS)"),
    ];
    for (mark, flag) in flags {
        if sys.hasattr(mark)? {
            return Ok(Some(format!("not tested with an interpreter built {flag}")));
        }
    }
    // Quick paths borrow the items of containers. In an interpreter built without the GIL, another
    // thread could release these items meanwhile. Such an interpreter can run with the GIL
    // (`-X gil=1`). Its quick paths are off then too, because its objects have another layout.
    if cfg!(Py_GIL_DISABLED) {
        return Ok(Some("not made for an interpreter built without the GIL".to_owned()));
    }
    if cfg!(not(target_pointer_width = "64")) {
        return Ok(Some("tested only where addresses have 64 bits".to_owned()));
    }
    Ok(None)
}

/// Returns for each quick path its name, whether it is on, and the reason if [`QuickPath::decide`]
/// left it off.
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

/// If `force` is true, turns off all quick paths except three, which are installed once and not
/// chosen for each value. If `force` is false, turns a path on again if its probe has passed. Tests
/// of the safe path call this function.
#[pyfunction]
pub fn force_safe(force: bool) {
    FORCED_SAFE.store(force, Ordering::Relaxed);
    for (path, state) in QuickPath::ALL.iter().zip(&STATES) {
        // These three quick paths replace slots and methods when the module is imported. Nothing
        // undoes the replacement, so they stay as they are.
        if matches!(path, QuickPath::Coroutines | QuickPath::Handles | QuickPath::Serialize) {
            continue;
        }
        state.on.store(state.probed.load(Ordering::Relaxed) && !force, Ordering::Relaxed);
    }
}
