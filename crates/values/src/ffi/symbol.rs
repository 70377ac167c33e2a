//! Functions that CPython exports but does not promise, looked up when the module is loaded: an
//! import must not fail because one of them is gone.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

unsafe extern "C" {
    /// The C library's.
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

#[cfg(target_vendor = "apple")]
const DEFAULT: *mut c_void = ptr::without_provenance_mut(-2_isize as usize);
#[cfg(not(target_vendor = "apple"))]
const DEFAULT: *mut c_void = ptr::null_mut();

/// A function of type `F` that may not be there.
pub struct Symbol<F> {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    kind: PhantomData<F>,
}

impl<F: Copy> Symbol<F> {
    /// # Safety
    /// Where there is a function of this name, `F` is the type of a pointer to it.
    pub const unsafe fn new(name: &'static CStr) -> Symbol<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        Symbol { name, address: AtomicPtr::new(ptr::null_mut()), kind: PhantomData }
    }

    /// Looks the function up; why it cannot be used, if so.
    pub fn look_up(&self) -> Option<String> {
        // SAFETY: a C string, and a handle that means all that the process has loaded.
        let found = unsafe { dlsym(DEFAULT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        found.is_null().then(|| format!("the interpreter has no {}", self.name.to_string_lossy()))
    }

    /// Has it not used.
    #[cfg_attr(Py_3_14, expect(dead_code, reason = "there is a public function instead"))]
    pub fn forget(&self) {
        self.address.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// The function, where it has been found.
    #[inline(always)]
    pub fn get(&self) -> Option<F> {
        let address = self.address.load(Ordering::Relaxed);
        // SAFETY: an address of such a function, as `new` was told; `F` is as large as it.
        (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
    }
}
