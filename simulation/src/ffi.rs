//! Makes a run repeatable: simulates the clock and the random numbers of a process, and runs each
//! seed in a child process.
//!
//! The definitions of `clock_gettime` and `getrandom` in this executable take precedence over those
//! of the C library. So the standard library, `rand` and tokio use them, and code that reads a
//! clock or a random number need not be changed.

use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Whether the clock and the random numbers of this process are simulated. Always false in the
/// parent process.
static SIMULATED: AtomicBool = AtomicBool::new(false);
/// The simulated time in nanoseconds.
static NOW: AtomicU64 = AtomicU64::new(0);
/// How far the wall clock was set back, in nanoseconds.
static SET_BACK: AtomicU64 = AtomicU64::new(0);
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

/// Sets the simulated wall clock back. The monotonic clock goes on.
pub fn set_back(by: Duration) {
    SET_BACK.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
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
        now += EPOCH - SET_BACK.load(Ordering::Relaxed);
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
    /// How long the process exists, without the time in which this process was stopped.
    age: Duration,
    polled: Instant,
}

/// How a child process ended.
pub enum Ended {
    /// It ended by itself, with this output.
    Output(String),
    /// A signal ended it. Before the signal, it had written this output.
    Signal(c_int, String),
    /// It has used the CPU for as long as it may, and the system ended it.
    CpuLimit(String),
    /// It was still there at the limit of `poll`, and was killed.
    Limit(String),
}

/// The most that the time between two polls adds to the age of a child. A longer time means that
/// this process was stopped, and its children too: by Ctrl-Z, or with the whole machine.
const LONGEST_STEP: Duration = Duration::from_secs(1);

impl Child {
    /// Starts a child process that calls `work` and then ends. The bytes that `work` writes to its
    /// argument are the output of the process. The system ends the process when it has used the CPU
    /// for `cpu_seconds`, and when this process ends.
    ///
    /// Each run needs a child process of its own, so that no state of an earlier run affects it.
    pub fn start(cpu_seconds: u32, work: impl FnOnce(File)) -> std::io::Result<Child> {
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
                // SAFETY: both descriptors are open. What is written to stderr when the process
                // runs out of memory or of its stack becomes a part of the output.
                unsafe { libc::dup2(input.as_raw_fd(), libc::STDERR_FILENO) };
                end_with(parent);
                limit_cpu(cpu_seconds);
                // A panic must not run the code of the parent that comes after this call.
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(input)));
                // SAFETY: `_exit` ends the child process, so none of its state is used again.
                // simulation/tests/endings.rs has a run that panics.
                unsafe { libc::_exit(if ended.is_ok() { 0 } else { 101 }) }
            }
            _ => {
                // SAFETY: the descriptor is open. The call makes its reads non-blocking.
                unsafe { libc::fcntl(ends[0], libc::F_SETFL, libc::O_NONBLOCK) };
                let (text, polled) = (Vec::new(), Instant::now());
                Ok(Child { process, output, text, age: Duration::ZERO, polled })
            }
        }
    }

    /// Returns how the process ended, or `None` if it still runs. Kills it if it exists longer than
    /// `limit`.
    pub fn poll(&mut self, limit: Duration) -> Option<Ended> {
        self.age += self.polled.elapsed().min(LONGEST_STEP);
        self.polled = Instant::now();
        let _ = self.output.read_to_end(&mut self.text);
        let mut status = 0;
        // SAFETY: the process is a child that was not waited for yet.
        let ended = unsafe { libc::waitpid(self.process, &mut status, libc::WNOHANG) };
        let is_late = ended != self.process && self.age > limit;
        if is_late {
            // SAFETY: the process is a child that was not waited for yet. The second call returns
            // soon, because the first one ends the process.
            unsafe {
                libc::kill(self.process, libc::SIGKILL);
                libc::waitpid(self.process, &mut status, 0);
            }
        } else if ended != self.process {
            return None;
        }
        let _ = self.output.read_to_end(&mut self.text);
        let text = String::from_utf8_lossy(&self.text).into_owned();
        Some(match status {
            _ if is_late => Ended::Limit(text),
            _ if !libc::WIFSIGNALED(status) => Ended::Output(text),
            _ if libc::WTERMSIG(status) == libc::SIGXCPU => Ended::CpuLimit(text),
            _ => Ended::Signal(libc::WTERMSIG(status), text),
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

/// Makes SIGXCPU end this process when it has used the CPU for this many seconds.
fn limit_cpu(seconds: u32) {
    let seconds = libc::rlim_t::from(seconds);
    // When the process ignores the signal, SIGKILL follows.
    let limit = libc::rlimit { rlim_cur: seconds, rlim_max: seconds + 5 };
    // SAFETY: `limit` is a valid structure. simulation/tests/endings.rs has a run that exceeds its
    // limit. The default action of SIGXCPU runs no code of this process.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CPU, &limit);
        libc::signal(libc::SIGXCPU, libc::SIG_DFL);
    }
}
