//! IPv6 addresses as text, as the C library writes them.

use std::ffi::{CStr, c_char, c_int, c_void};

use pyo3::prelude::*;
use pyo3::types::PyString;

// On Windows, CPython calls this function of Winsock, which takes the size as a `size_t`.
#[cfg_attr(windows, link(name = "ws2_32"))]
unsafe extern "system" {
    /// The C library's function, which the drivers call through `socket.inet_ntop`. C libraries
    /// differ in how they write IPv6 addresses that contain an IPv4 address.
    fn inet_ntop(
        family: c_int,
        address: *const c_void,
        text: *mut c_char,
        size: Size,
    ) -> *const c_char;
}

/// The type of `inet_ntop`'s last argument.
#[cfg(not(windows))]
type Size = u32;
#[cfg(windows)]
type Size = usize;

#[cfg(target_os = "linux")]
const AF_INET6: c_int = 10;
#[cfg(windows)]
const AF_INET6: c_int = 23;
// This is the value on macOS. It is also used for all other systems, so that they can be compiled.
#[cfg(not(any(target_os = "linux", windows)))]
const AF_INET6: c_int = 30;

/// Returns the text of an IPv6 address; `None` if the C library fails.
pub fn ipv6<'py>(py: Python<'py>, bytes: [u8; 16]) -> Option<Bound<'py, PyString>> {
    let mut text = [0; 64];
    // SAFETY: `bytes` has the 16 bytes that `AF_INET6` needs, by its type. `text` is writable for
    // `size` bytes, and `inet_ntop` (POSIX) writes at most `size` bytes. If it does not return
    // null, `text` ends with a NUL byte, as `CStr::from_ptr` needs. Tests:
    // accel/test_comparison.py.
    let text = unsafe {
        let size = text.len() as Size;
        if inet_ntop(AF_INET6, bytes.as_ptr().cast(), text.as_mut_ptr(), size).is_null() {
            return None;
        }
        CStr::from_ptr(text.as_ptr())
    };
    text.to_str().ok().map(|text| PyString::new(py, text))
}
