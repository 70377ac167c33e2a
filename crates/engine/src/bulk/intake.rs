//! Keeps the arenas (buffers of encoded rows) of a bulk (`execute_many`) from the time at which the
//! caller hands them in until their rows are sent. Decides when to ask the caller for more arenas.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use turbocql_codec::{RowBuffer, RowRef};

use super::RowNumbers;
use super::partition::{Batcher, Groups};
use crate::statement::seam::Rows;

/// The number of arenas to keep at a time: one whose rows are being sent, and the next one.
const BACKLOG: usize = 2;

/// The limit on the bytes of rows that were taken, but that the session's gate ([`crate::Gate`])
/// has not admitted yet. At this limit, no further rows are taken. Unlike the values of single
/// calls, the rows of a bulk are already encoded while they wait, so without this limit they would
/// fill the memory.
const MAX_HELD: usize = 32 << 20;

pub(super) struct Intake {
    waiting: Mutex<Waiting>,
    /// The number of bytes of the rows that were taken and are not admitted yet.
    held: AtomicUsize,
    /// Groups rows into batches. The field is `None` if each row is a request of its own.
    pub(super) batcher: Option<Batcher>,
    /// Notified when an arena is handed in or must be requested, when no further arena will follow,
    /// when rows can be taken again, and when one more request may be in flight.
    pub(super) changed: Notify,
}

#[derive(Default)]
struct Waiting {
    arenas: VecDeque<Arena>,
    current: Option<Arc<Arena>>,
    /// The number of the next request in the current arena.
    next: usize,
    /// The number of arenas asked for and not yet handed in.
    requested: usize,
    /// The part of `requested` that [`Intake::arenas_to_request`] has not returned yet.
    unreported: usize,
    finished: bool,
}

pub(super) struct Arena {
    rows: RowBuffer,
    numbers: RowNumbers,
    /// How the rows form requests. The field is `None` if each row is a request of its own.
    groups: Option<Groups>,
}

/// The rows of a request that is about to be sent: one row, or several rows of one partition.
pub(super) struct RequestRows {
    arena: Arc<Arena>,
    /// The positions of the request's rows in the order in which the arena's rows are sent
    /// ([`Groups::order`]).
    positions: Range<usize>,
    held: Option<Held>,
    /// The number of times that these rows were sent before.
    attempt: i64,
    /// The latest write time that was chosen for any of the rows' keys.
    last: Option<Arc<AtomicI64>>,
}

/// Counts the bytes of a request in [`Intake::held`] until this value is dropped. It is dropped
/// when the request is admitted or given up.
struct Held {
    intake: Arc<Intake>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        let before = self.intake.held.fetch_sub(self.bytes, Ordering::Relaxed);
        if before >= MAX_HELD {
            self.intake.changed.notify_one();
        }
    }
}

pub(super) enum Next {
    Rows(RequestRows),
    /// No row can be taken now, but rows may be taken later.
    Nothing,
    End,
}

impl Intake {
    pub(super) fn new(batcher: Option<Batcher>) -> Intake {
        let (waiting, held) = (Mutex::default(), AtomicUsize::new(0));
        Intake { waiting, held, batcher, changed: Notify::new() }
    }

    pub(super) fn push(&self, rows: RowBuffer, numbers: RowNumbers) {
        let mut waiting = self.waiting();
        waiting.requested = waiting.requested.saturating_sub(1);
        waiting.arenas.push_back(Arena { rows, numbers, groups: None });
        drop(waiting);
        self.changed.notify_one();
    }

    pub(super) fn finish(&self) {
        self.waiting().finished = true;
        self.changed.notify_one();
    }

    pub(super) fn is_finished(&self) -> bool {
        self.waiting().finished
    }

    pub(super) fn backlog(&self) -> usize {
        self.waiting().backlog()
    }

    /// Takes the next request. Requests are taken in the order of their first rows.
    pub(super) fn take(self: &Arc<Self>) -> Next {
        if self.held.load(Ordering::Relaxed) >= MAX_HELD {
            return Next::Nothing;
        }
        let mut waiting = self.waiting();
        let mut next = waiting.take(self.batcher.as_ref());
        if let Next::Rows(request) = &mut next {
            let bytes = request.bytes();
            self.held.fetch_add(bytes, Ordering::Relaxed);
            request.held = Some(Held { intake: Arc::clone(self), bytes });
        }
        let has_unreported = waiting.unreported > 0;
        drop(waiting);
        if has_unreported {
            self.changed.notify_one();
        }
        next
    }

    /// Returns the number of arenas to ask the caller for. Each arena is counted in one call only.
    pub(super) fn arenas_to_request(&self) -> usize {
        std::mem::take(&mut self.waiting().unreported)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Waiting {
    fn backlog(&self) -> usize {
        self.arenas.len() + usize::from(self.current.is_some())
    }

    fn take(&mut self, batcher: Option<&Batcher>) -> Next {
        loop {
            if let Some(arena) = &self.current
                && let Some(positions) = arena.request(self.next)
            {
                self.next += 1;
                return Next::Rows(RequestRows {
                    arena: Arc::clone(arena),
                    positions,
                    held: None,
                    attempt: 0,
                    last: None,
                });
            }
            let ended = self.current.take().is_some();
            self.current = self.arenas.pop_front().map(|mut arena| {
                arena.groups = batcher.and_then(|batcher| batcher.group(&arena.rows));
                Arc::new(arena)
            });
            self.next = 0;
            let begun = self.current.is_some();
            // The first arena is not asked for: the caller hands it in unasked.
            if (ended || begun) && !self.finished {
                let room = BACKLOG.saturating_sub(self.backlog() + self.requested);
                self.requested += room;
                self.unreported += room;
            }
            if !begun {
                return if self.finished { Next::End } else { Next::Nothing };
            }
        }
    }
}

impl Arena {
    /// Returns the positions of the rows of a request, or `None` after the last request.
    fn request(&self, number: usize) -> Option<Range<usize>> {
        let Some(groups) = &self.groups else {
            return (number < self.rows.len()).then(|| number..number + 1);
        };
        let end = *groups.ends.get(number)? as usize;
        let start = number.checked_sub(1).map_or(0, |before| groups.ends[before] as usize);
        Some(start..end)
    }

    fn number(&self, index: usize) -> u64 {
        match &self.numbers {
            RowNumbers::From(first) => first + index as u64,
            // A missing number is a mistake of the caller. The row's index is the best substitute.
            RowNumbers::Each(numbers) => numbers.get(index).copied().unwrap_or(index as u64),
        }
    }
}

impl RequestRows {
    /// Called when the request is admitted. From then on, its bytes do not count towards
    /// [`MAX_HELD`].
    pub(super) fn admitted(&mut self) {
        self.held = None;
    }

    /// Returns the same rows for another attempt.
    pub(super) fn for_retry(&self) -> RequestRows {
        let (arena, attempt) = (Arc::clone(&self.arena), self.attempt + 1);
        RequestRows {
            arena,
            positions: self.positions.clone(),
            held: None,
            attempt,
            last: self.last.clone(),
        }
    }

    /// Sets the variable that holds the latest write time of the rows' keys. [`Self::time_from`]
    /// updates this variable.
    pub(super) fn with_last(mut self, last: &Arc<AtomicI64>) -> RequestRows {
        self.last = Some(Arc::clone(last));
        self
    }

    /// Chooses a write time that is at least `least`, and later than the latest write time of the
    /// rows' keys.
    pub(super) fn time_from(&self, least: i64) -> i64 {
        let Some(last) = &self.last else { return least };
        let time = least.max(last.load(Ordering::Relaxed).saturating_add(1));
        last.store(time, Ordering::Relaxed);
        time
    }

    /// The number of times that these rows were sent before.
    pub(super) fn attempt(&self) -> i64 {
        self.attempt
    }

    /// Makes one request for each row.
    pub(super) fn one_by_one(&self) -> impl Iterator<Item = RequestRows> + use<> {
        let (arena, positions) = (Arc::clone(&self.arena), self.positions.clone());
        let attempt = self.attempt + 1;
        positions.map(move |position| RequestRows {
            arena: Arc::clone(&arena),
            positions: position..position + 1,
            held: None,
            attempt,
            last: None,
        })
    }

    /// Whether the arena's rows were grouped into batches. This request may still have only one
    /// row.
    pub(super) fn is_batched(&self) -> bool {
        self.arena.groups.is_some()
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    /// The indexes of the request's rows in the arena.
    fn indexes(&self) -> impl Iterator<Item = usize> + '_ {
        let groups = self.arena.groups.as_ref();
        self.positions.clone().map(move |position| index(groups, position))
    }

    /// The index of the request's first row in the arena.
    pub(super) fn index(&self) -> usize {
        index(self.arena.groups.as_ref(), self.positions.start)
    }

    pub(super) fn row(&self, nth: usize) -> Option<RowRef<'_>> {
        let position = self.positions.clone().nth(nth)?;
        self.arena.rows.row(index(self.arena.groups.as_ref(), position))
    }

    /// The number of bytes of the request's values.
    pub(super) fn bytes(&self) -> usize {
        let rows = self.indexes().filter_map(|index| self.arena.rows.row(index));
        rows.map(|row| row.bytes().len()).sum()
    }

    /// The row number of each row, and the number of bytes of its values.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.indexes().map(|index| {
            let bytes = self.arena.rows.row(index).map_or(0, |row| row.bytes().len());
            (self.arena.number(index), bytes)
        })
    }
}

impl Rows for RequestRows {
    fn nth_row(&self, nth: usize) -> Option<RowRef<'_>> {
        self.row(nth)
    }
}

/// The index in the arena of the row that is sent at `position`.
fn index(groups: Option<&Groups>, position: usize) -> usize {
    groups.map_or(position, |groups| groups.order[position] as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    fn arena(rows: u8) -> RowBuffer {
        let mut buffer = RowBuffer::new();
        for row in 0..rows {
            buffer.push_value(&[row]);
            buffer.finish_row();
        }
        buffer
    }

    #[test]
    fn rows_come_in_order_with_their_numbers() {
        let intake = Arc::new(Intake::new(None));
        intake.push(arena(2), RowNumbers::From(10));
        intake.push(arena(0), RowNumbers::Each(vec![]));
        intake.push(arena(2), RowNumbers::Each(vec![20, 22]));
        intake.finish();
        let mut numbers = Vec::new();
        while let Next::Rows(request) = intake.take() {
            assert!(request.row(0).is_some());
            numbers.extend(request.rows().map(|(number, _)| number));
        }
        assert_eq!(numbers, [10, 11, 20, 22]);
        // After the end is announced, no arena is asked for.
        assert_eq!((intake.backlog(), intake.arenas_to_request()), (0, 0));
        assert!(matches!(intake.take(), Next::End));
    }

    #[test]
    fn no_row_is_taken_while_rows_of_32_mib_wait() {
        let intake = Arc::new(Intake::new(None));
        let mut rows = RowBuffer::new();
        for _ in 0..10 {
            rows.push_value(&vec![0; 10 << 20]);
            rows.finish_row();
        }
        intake.push(rows, RowNumbers::From(0));
        intake.finish();
        let mut requests = Vec::new();
        while let Next::Rows(row) = intake.take() {
            requests.push(row);
        }
        assert_eq!(requests.len(), 4);
        requests[0].admitted();
        assert!(matches!(intake.take(), Next::Rows(_)));
        drop(requests);
        let mut further = 0;
        while let Next::Rows(mut row) = intake.take() {
            row.admitted();
            further += 1;
        }
        assert_eq!((further, intake.held.load(Ordering::Relaxed)), (5, 0));
        assert!(matches!(intake.take(), Next::End));
    }

    #[test]
    fn two_arenas_are_asked_for_and_no_more() {
        let intake = Arc::new(Intake::new(None));
        assert!(matches!(intake.take(), Next::Nothing));
        assert_eq!(intake.arenas_to_request(), 0);
        // A caller that begins with one arena is asked for a second one.
        intake.push(arena(1), RowNumbers::From(0));
        assert!(matches!(intake.take(), Next::Rows(_)));
        assert_eq!((intake.arenas_to_request(), intake.backlog()), (1, 1));
        // The second arena has not arrived when the first is used up. There is room for two arenas,
        // but one of them was asked for already, so only one more is asked for.
        assert!(matches!(intake.take(), Next::Nothing));
        assert!(matches!(intake.take(), Next::Nothing));
        assert_eq!((intake.arenas_to_request(), intake.backlog()), (1, 0));
        intake.push(arena(1), RowNumbers::From(1));
        intake.push(arena(1), RowNumbers::From(2));
        assert!(matches!(intake.take(), Next::Rows(_)));
        assert_eq!((intake.arenas_to_request(), intake.backlog()), (0, 2));
        assert!(matches!(intake.take(), Next::Rows(_)));
        assert_eq!((intake.arenas_to_request(), intake.backlog()), (1, 1));
    }
}
