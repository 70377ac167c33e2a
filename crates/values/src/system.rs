//! What the operating system offers: eventfd and huge pages (Linux), socket pairs that an event
//! loop can watch (other POSIX systems), or neither (Windows).

use std::sync::LazyLock;

/// The environment variable that names the system which turbocql assumes in place of the real one:
/// `posix` or `windows`. Tests on Linux set it to take the paths of the other systems.
const OTHER_SYSTEM: &str = "_TURBOCQL_TEST_SYSTEM";

/// The kinds of operating systems, which differ in the facilities that they offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// eventfd, and advice about huge pages.
    Linux,
    /// Pairs of connected sockets that an event loop can watch.
    Posix,
    /// Neither of these. asyncio's event loop on Windows cannot watch a file descriptor.
    Windows,
}

impl System {
    /// Returns the system of this process, or the one that a test assumes.
    pub fn current() -> System {
        static CURRENT: LazyLock<System> = LazyLock::new(|| {
            match std::env::var(OTHER_SYSTEM).as_deref() {
                Ok("posix") => return System::Posix,
                Ok("windows") => return System::Windows,
                _ => {}
            }
            if cfg!(target_os = "linux") {
                System::Linux
            } else if cfg!(unix) {
                System::Posix
            } else {
                System::Windows
            }
        });
        *CURRENT
    }
}
