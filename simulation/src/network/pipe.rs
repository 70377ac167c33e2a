//! One direction of a connection, with the bytes that have not been read yet.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::time::Instant;

use super::Arriving;

/// How many unread bytes a pipe holds before its writer has to wait.
pub(super) const CAPACITY: usize = 128 << 10;

#[derive(Default)]
pub(super) struct Pipe {
    pub(super) arriving: VecDeque<Arriving>,
    pub(super) held: usize,
    /// The time at which the bytes that were written last will arrive. Bytes that are written later
    /// must not arrive earlier.
    pub(super) last: Option<Instant>,
    /// Whether the writer will write no more bytes.
    pub(super) is_finished: bool,
    pub(super) is_reset: bool,
    /// Whether no more bytes arrive, as if a router had forgotten the connection.
    pub(super) is_frozen: bool,
    /// Whether the connection gets events of the server, as only a control connection does.
    pub(super) is_control: bool,
    /// The number of bytes that still arrive before the connection is reset.
    pub(super) reset_after: Option<usize>,
    /// On a link that drips, the time from which the next bytes may be read.
    pub(super) pause: Option<Instant>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

pub(super) fn lock(pipe: &Mutex<Pipe>) -> MutexGuard<'_, Pipe> {
    pipe.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pipe {
    pub(super) fn reset(&mut self) {
        self.is_reset = true;
        self.arriving.clear();
        self.held = 0;
        self.wake();
    }

    pub(super) fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}
