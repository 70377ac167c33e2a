//! Functions that CPython exports but does not promise to keep. They are looked up when the native
//! module is loaded. If turbocql were linked against them, its import would fail on an interpreter
//! that lacks one of them.

#[cfg(unix)]
use std::ffi::c_char;
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

#[cfg(unix)]
unsafe extern "C" {
    /// A function of the C library. Returns the address of a loaded symbol, or null.
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

#[cfg(target_vendor = "apple")]
const DEFAULT: *mut c_void = ptr::without_provenance_mut(-2_isize as usize);
#[cfg(all(unix, not(target_vendor = "apple")))]
const DEFAULT: *mut c_void = ptr::null_mut();

/// A C function of type `F` that may not exist.
pub struct Symbol<F> {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    kind: PhantomData<F>,
}

impl<F: Copy> Symbol<F> {
    /// Makes a symbol that is not looked up yet.
    ///
    /// # Safety
    /// The caller must ensure that `F` is the type of a pointer to the function of this name, in
    /// every version of CPython that [`quick_path`](super::quick_path) lists as tested.
    pub const unsafe fn new(name: &'static CStr) -> Symbol<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        Symbol { name, address: AtomicPtr::new(ptr::null_mut()), kind: PhantomData }
    }

    /// Looks the function up. If it does not exist, returns a text that says so.
    pub fn look_up(&self) -> Option<String> {
        // Windows has no table of all symbols of a process, and no quick path was tested there.
        #[cfg(not(unix))]
        let address: *mut c_void = ptr::null_mut();
        // SAFETY: `dlsym` needs a C string, which `CStr` is, and a valid handle: `DEFAULT` is the
        // handle for all that the process has loaded. Tests: unit/test_quick_paths.py (sets).
        #[cfg(unix)]
        let address = unsafe { dlsym(DEFAULT, self.name.as_ptr()) };
        self.address.store(address, Ordering::Relaxed);
        address.is_null().then(|| format!("the interpreter has no {}", self.name.to_string_lossy()))
    }

    /// Forgets the function, so that [`Symbol::get`] returns `None`.
    pub fn forget(&self) {
        self.address.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Returns the function, if it was found.
    #[inline(always)]
    pub fn get(&self) -> Option<F> {
        let address = self.address.load(Ordering::Relaxed);
        // SAFETY: the address is not null, so it is the address of the function, and `F` is the
        // type of a pointer to it (`# Safety` of `new`). `new` asserts that an `F` has the size of
        // an address. Tests: unit/test_quick_paths.py (sets).
        (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
    }
}
