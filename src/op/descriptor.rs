//! A file descriptor that one thread makes readable and an event loop of another thread watches.
//!
//! On Linux, it is an eventfd. On other Unix systems, it is a pair of connected sockets. On
//! Windows, there is no such descriptor, because asyncio's default event loop on Windows cannot
//! watch a file descriptor.

use std::ffi::c_int;
use std::io;

use pyo3::prelude::*;
use turbocql_values::system::System;

#[cfg(target_os = "linux")]
use rustix::event::EventfdFlags;
#[cfg(unix)]
use std::io::{Read, Write};
#[cfg(unix)]
use std::os::fd::AsRawFd;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
#[cfg(unix)]
use std::os::unix::net::UnixStream;

/// Returns the name of the mechanism that wakes event loops and gevent's hubs on this system:
/// `eventfd` or `sockets`. If event loops cannot watch a descriptor, returns `thread`.
#[pyfunction]
pub fn waker() -> &'static str {
    match System::current() {
        System::Linux => "eventfd",
        System::Posix => "sockets",
        System::Windows => "thread",
    }
}

pub enum Descriptor {
    #[cfg(target_os = "linux")]
    EventFd(OwnedFd),
    #[cfg(unix)]
    Sockets { watched: UnixStream, written: UnixStream },
}

impl Descriptor {
    /// Makes a descriptor that is not readable yet.
    ///
    /// # Errors
    /// Returns the system's error, or `Unsupported` on Windows.
    pub fn new() -> io::Result<Descriptor> {
        match System::current() {
            #[cfg(target_os = "linux")]
            System::Linux => {
                let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
                Ok(Descriptor::EventFd(rustix::event::eventfd(0, flags)?))
            }
            #[cfg(unix)]
            System::Posix => {
                let (watched, written) = UnixStream::pair()?;
                watched.set_nonblocking(true)?;
                written.set_nonblocking(true)?;
                Ok(Descriptor::Sockets { watched, written })
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns the number of the descriptor that is watched.
    pub fn fileno(&self) -> c_int {
        match *self {
            #[cfg(target_os = "linux")]
            Descriptor::EventFd(ref fd) => fd.as_raw_fd(),
            #[cfg(unix)]
            Descriptor::Sockets { ref watched, .. } => watched.as_raw_fd(),
        }
    }

    /// Makes the descriptor readable.
    pub fn wake(&self) {
        match *self {
            // A write fails only if the eventfd's counter is at its maximum. Then the descriptor is
            // readable already.
            #[cfg(target_os = "linux")]
            Descriptor::EventFd(ref fd) => drop(rustix::io::write(fd, &1u64.to_ne_bytes())),
            // A write fails only if the buffer of the socket is full. Then the other socket is
            // readable already.
            #[cfg(unix)]
            Descriptor::Sockets { ref written, .. } => drop((&mut &*written).write(&[1])),
        }
    }

    /// Resets the descriptor, so that it is not readable until the next [`Descriptor::wake`].
    pub fn clear(&self) {
        match *self {
            #[cfg(target_os = "linux")]
            Descriptor::EventFd(ref fd) => drop(rustix::io::read(fd, &mut [0; 8])),
            #[cfg(unix)]
            Descriptor::Sockets { ref watched, .. } => {
                let mut bytes = [0; 64];
                while (&mut &*watched).read(&mut bytes).is_ok_and(|count| count == bytes.len()) {}
            }
        }
    }
}
