//! Makes a run repeatable: simulates the clock and the random numbers of a process, and runs each
//! seed in a child process.
//!
//! The definitions of `clock_gettime` and `getrandom` in this executable take precedence over those
//! of the C library. So the standard library, `rand` and tokio use them, and code that reads a
//! clock or a random number need not be changed.

use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Whether the clock and the random numbers of this process are simulated. Always false in the
/// parent process.
static SIMULATED: AtomicBool = AtomicBool::new(false);
/// The simulated time in nanoseconds.
static NOW: AtomicU64 = AtomicU64::new(0);
/// The state of the generator behind `getrandom`.
static ENTROPY: AtomicU64 = AtomicU64::new(0);

/// The monotonic clock's value at the beginning of a run, in nanoseconds.
pub const START: u64 = 1_000_000_000_000_000;
/// How far the wall clock is ahead of the monotonic clock, in nanoseconds. At the beginning of a
/// run, the wall clock shows the year 2033.
const EPOCH: u64 = 2_000_000_000_000_000_000 - START;

/// Makes SIGPIPE end this process. Otherwise, `println!` panics when a reader such as `head` has
/// closed standard output, because Rust programs ignore SIGPIPE.
pub fn end_at_closed_pipes() {
    // SAFETY: the default action runs no code of this process.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Makes the clock and the random numbers of this process simulated.
pub fn simulate(seed: u64) {
    NOW.store(START, Ordering::Relaxed);
    ENTROPY.store(seed, Ordering::Relaxed);
    SIMULATED.store(true, Ordering::Relaxed);
}

/// Sets the simulated clock to this many nanoseconds after the beginning of the run.
pub fn set_elapsed(nanoseconds: u64) {
    NOW.store(START + nanoseconds, Ordering::Relaxed);
}

/// # Safety
///
/// The caller must obey the rules of the C library's function. So `time` must point to a
/// `timespec`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    if !SIMULATED.load(Ordering::Relaxed) {
        // SAFETY: the caller's arguments are passed to the system call of the same name.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) } as c_int;
    }
    let mut now = NOW.load(Ordering::Relaxed);
    if clock == libc::CLOCK_REALTIME {
        now += EPOCH;
    }
    let now = libc::timespec {
        tv_sec: (now / 1_000_000_000) as libc::time_t,
        tv_nsec: (now % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the caller passes a pointer to a `timespec` that may be written.
    unsafe { time.write(now) };
    0
}

/// # Safety
///
/// The caller must obey the rules of the C library's function. So `buffer` must have room for
/// `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    if !SIMULATED.load(Ordering::Relaxed) {
        // SAFETY: the caller's arguments are passed to the system call of the same name.
        return unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) } as isize;
    }
    // SAFETY: the caller passes a buffer of this length that may be written.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
    let mut random = crate::random::Random::new(ENTROPY.load(Ordering::Relaxed));
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.draw().to_ne_bytes()[..chunk.len()]);
    }
    ENTROPY.store(random.draw(), Ordering::Relaxed);
    length as isize
}

/// A child process.
pub struct Child {
    process: libc::pid_t,
    output: File,
    text: Vec<u8>,
    began: Instant,
}

/// How a child process ended.
pub enum Ended {
    /// It ended by itself, with this output.
    Output(String),
    /// A signal ended it. Before the signal, it had written this output.
    Signal(c_int, String),
    /// It was still running at the limit, and was killed.
    Limit(String),
}

impl Child {
    /// Starts a child process that calls `work` and then ends. The bytes that `work` writes to its
    /// argument are the output of the process. The system ends the process when this process ends.
    ///
    /// Each run needs a child process of its own, so that no state of an earlier run affects it.
    pub fn start(work: impl FnOnce(File)) -> std::io::Result<Child> {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for the two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let parent = std::process::id();
        // SAFETY: this process has one thread, so no lock can be held by another thread.
        let process = unsafe { libc::fork() };
        // SAFETY: both descriptors are new, and each is owned by one file.
        let [output, input] = ends.map(|end| unsafe { File::from_raw_fd(end) });
        match process {
            -1 => Err(std::io::Error::last_os_error()),
            0 => {
                drop(output);
                end_with(parent);
                work(input);
                // SAFETY: `_exit` ends the child process, so none of its state is used again.
                unsafe { libc::_exit(0) }
            }
            _ => {
                // SAFETY: the descriptor is open. The call makes its reads non-blocking.
                unsafe { libc::fcntl(ends[0], libc::F_SETFL, libc::O_NONBLOCK) };
                Ok(Child { process, output, text: Vec::new(), began: Instant::now() })
            }
        }
    }

    /// Returns how the process ended, or `None` if it still runs. Kills it if it runs longer than
    /// `limit`.
    pub fn poll(&mut self, limit: Duration) -> Option<Ended> {
        let is_open = matches!(
            self.output.read_to_end(&mut self.text),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock
        );
        let mut status = 0;
        let late = self.began.elapsed() > limit;
        if late {
            // SAFETY: the process is a child that was not waited for yet.
            unsafe { libc::kill(self.process, libc::SIGKILL) };
        }
        let options = if late || !is_open { 0 } else { libc::WNOHANG };
        // SAFETY: the process is a child that was not waited for yet.
        if unsafe { libc::waitpid(self.process, &mut status, options) } != self.process {
            return None;
        }
        let _ = self.output.read_to_end(&mut self.text);
        let text = String::from_utf8_lossy(&self.text).into_owned();
        Some(if late {
            Ended::Limit(text)
        } else if libc::WIFSIGNALED(status) {
            Ended::Signal(libc::WTERMSIG(status), text)
        } else {
            Ended::Output(text)
        })
    }
}

/// Makes the system kill this process when its parent ends.
fn end_with(parent: u32) {
    // SAFETY: the call only sets a number of this process. simulation/tests/endings.rs ends a
    // parent, and looks whether its child ends.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if std::os::unix::process::parent_id() != parent {
        std::process::abort();
    }
}
