//! Sends on sockets without releasing the GIL.

use std::ffi::{c_int, c_void};
use std::io::{Error, ErrorKind};

unsafe extern "C" {
    /// The C library's function, which Python's `socket.send` calls too.
    fn send(descriptor: c_int, data: *const c_void, size: usize, flags: c_int) -> isize;
}

#[cfg(target_os = "linux")]
const DONT_WAIT_NO_SIGNAL: c_int = 0x40 | 0x4000;
#[cfg(not(target_os = "linux"))]
const DONT_WAIT_NO_SIGNAL: c_int = 0x80 | 0x8_0000;

/// What became of data that was passed to a socket.
pub enum SentNow {
    /// The socket has accepted this number of bytes.
    Bytes(usize),
    /// The socket accepts no data now.
    Nothing,
    /// The socket is closed or broken.
    Failed,
}

/// Sends as many bytes as a socket accepts without waiting.
///
/// Python's `socket.send` reads the descriptor, releases the GIL, and then calls `send`. Meanwhile
/// another thread can close the socket, and a new socket can get the same descriptor. This cannot
/// happen here: the caller must have kept the GIL since it read the descriptor from the socket.
pub fn send_now(descriptor: c_int, data: &[u8]) -> SentNow {
    // SAFETY: `data` is readable for `size` bytes. `send` (POSIX) does not write to memory, and it
    // reports a descriptor that is no socket as an error. The flags keep it from waiting and from
    // raising SIGPIPE. Tests: accel/test_sending.py.
    let sent = unsafe { send(descriptor, data.as_ptr().cast(), data.len(), DONT_WAIT_NO_SIGNAL) };
    match usize::try_from(sent) {
        Ok(count) => SentNow::Bytes(count),
        Err(_) if Error::last_os_error().kind() == ErrorKind::WouldBlock => SentNow::Nothing,
        Err(_) => SentNow::Failed,
    }
}
