//! Keeps the arenas that are handed in and not yet sent, and decides when to ask for more.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use turbocql_codec::{RowBuffer, RowRef};

use super::RowNumbers;

/// The number of arenas to keep here at a time: one whose rows are being sent, and one to follow
/// it.
const BACKLOG: usize = 2;

/// The bytes of rows that may have been taken and wait for other requests of the session. The rows
/// of a bulk are encoded before they wait, unlike those of single calls.
const MOST_HELD: usize = 32 << 20;

pub(super) struct Intake {
    waiting: Mutex<Waiting>,
    /// The bytes of the rows that were taken and are not admitted yet.
    held: AtomicUsize,
    /// Notified when an arena is handed in or must be asked for, when the end is announced, and when
    /// rows can be taken again.
    pub(super) bell: Notify,
}

#[derive(Default)]
struct Waiting {
    arenas: VecDeque<Arena>,
    current: Option<Arc<Arena>>,
    next_row: usize,
    /// The number of arenas asked for and not yet handed in.
    asked: usize,
    /// The part of `asked` that [`Intake::asks`] has not returned yet.
    to_tell: usize,
    finished: bool,
}

pub(super) struct Arena {
    rows: RowBuffer,
    numbers: RowNumbers,
}

/// A row that was taken to be sent next.
pub(super) struct Taken {
    arena: Arc<Arena>,
    index: usize,
    held: Option<Held>,
}

/// The bytes of a row that was taken and is not admitted yet.
struct Held {
    intake: Arc<Intake>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        let before = self.intake.held.fetch_sub(self.bytes, Ordering::Relaxed);
        if before >= MOST_HELD {
            self.intake.bell.notify_one();
        }
    }
}

pub(super) enum Next {
    Row(Taken),
    /// No row now, but more may be handed in.
    Nothing,
    End,
}

impl Intake {
    pub(super) fn new() -> Intake {
        Intake { waiting: Mutex::default(), held: AtomicUsize::new(0), bell: Notify::new() }
    }

    pub(super) fn push(&self, rows: RowBuffer, numbers: RowNumbers) {
        let mut waiting = self.waiting();
        waiting.asked = waiting.asked.saturating_sub(1);
        waiting.arenas.push_back(Arena { rows, numbers });
        drop(waiting);
        self.bell.notify_one();
    }

    pub(super) fn finish(&self) {
        self.waiting().finished = true;
        self.bell.notify_one();
    }

    pub(super) fn is_finished(&self) -> bool {
        self.waiting().finished
    }

    pub(super) fn backlog(&self) -> usize {
        self.waiting().backlog()
    }

    /// The next row, in the order in which rows were handed in.
    pub(super) fn take(self: &Arc<Self>) -> Next {
        if self.held.load(Ordering::Relaxed) >= MOST_HELD {
            return Next::Nothing;
        }
        let mut waiting = self.waiting();
        let mut next = waiting.take();
        if let Next::Row(taken) = &mut next {
            let bytes = taken.row().map_or(0, |row| row.bytes().len());
            self.held.fetch_add(bytes, Ordering::Relaxed);
            taken.held = Some(Held { intake: Arc::clone(self), bytes });
        }
        let tell = waiting.to_tell > 0;
        drop(waiting);
        if tell {
            self.bell.notify_one();
        }
        next
    }

    /// The number of arenas to ask the caller for. Each arena is counted in one call only.
    pub(super) fn asks(&self) -> usize {
        std::mem::take(&mut self.waiting().to_tell)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Waiting {
    fn backlog(&self) -> usize {
        self.arenas.len() + usize::from(self.current.is_some())
    }

    fn take(&mut self) -> Next {
        loop {
            if let Some(arena) = &self.current
                && self.next_row < arena.rows.len()
            {
                self.next_row += 1;
                let (arena, index) = (Arc::clone(arena), self.next_row - 1);
                return Next::Row(Taken { arena, index, held: None });
            }
            let ended = self.current.take().is_some();
            self.current = self.arenas.pop_front().map(Arc::new);
            self.next_row = 0;
            let begun = self.current.is_some();
            // The first arena is not asked for: the caller hands it in unasked.
            if (ended || begun) && !self.finished {
                let room = BACKLOG.saturating_sub(self.backlog() + self.asked);
                self.asked += room;
                self.to_tell += room;
            }
            if !begun {
                return if self.finished { Next::End } else { Next::Nothing };
            }
        }
    }
}

impl Taken {
    /// Called when the row is admitted. More rows may be taken then.
    pub(super) fn admitted(&mut self) {
        self.held = None;
    }

    pub(super) fn row(&self) -> Option<RowRef<'_>> {
        self.arena.rows.row(self.index)
    }

    /// The same row, to be sent once more.
    pub(super) fn again(&self) -> Taken {
        Taken { arena: Arc::clone(&self.arena), index: self.index, held: None }
    }

    /// Its place in the arena.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// The length of its values.
    pub(super) fn bytes(&self) -> usize {
        self.row().map_or(0, |row| row.bytes().len())
    }

    pub(super) fn number(&self) -> u64 {
        match &self.arena.numbers {
            RowNumbers::From(first) => first + self.index as u64,
            // A missing number is a mistake of the caller. The position is the best substitute.
            RowNumbers::Each(numbers) => {
                numbers.get(self.index).copied().unwrap_or(self.index as u64)
            }
        }
    }
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
        let intake = Arc::new(Intake::new());
        intake.push(arena(2), RowNumbers::From(10));
        intake.push(arena(0), RowNumbers::Each(vec![]));
        intake.push(arena(2), RowNumbers::Each(vec![20, 22]));
        intake.finish();
        let mut numbers = Vec::new();
        while let Next::Row(taken) = intake.take() {
            assert!(taken.row().is_some());
            numbers.push(taken.number());
        }
        assert_eq!(numbers, [10, 11, 20, 22]);
        // Nothing is asked for once the end is announced.
        assert_eq!((intake.backlog(), intake.asks()), (0, 0));
        assert!(matches!(intake.take(), Next::End));
    }

    #[test]
    fn rows_that_wait_hold_few_bytes() {
        let intake = Arc::new(Intake::new());
        let mut rows = RowBuffer::new();
        for _ in 0..10 {
            rows.push_value(&vec![0; 10 << 20]);
            rows.finish_row();
        }
        intake.push(rows, RowNumbers::From(0));
        intake.finish();
        let mut taken = Vec::new();
        while let Next::Row(row) = intake.take() {
            taken.push(row);
        }
        assert_eq!(taken.len(), 4);
        taken[0].admitted();
        assert!(matches!(intake.take(), Next::Row(_)));
        drop(taken);
        let mut more = 0;
        while let Next::Row(mut row) = intake.take() {
            row.admitted();
            more += 1;
        }
        assert_eq!((more, intake.held.load(Ordering::Relaxed)), (5, 0));
        assert!(matches!(intake.take(), Next::End));
    }

    #[test]
    fn two_arenas_are_asked_for_and_no_more() {
        let intake = Arc::new(Intake::new());
        assert!(matches!(intake.take(), Next::Nothing));
        assert_eq!(intake.asks(), 0);
        // A caller that begins with one arena is asked for a second one.
        intake.push(arena(1), RowNumbers::From(0));
        assert!(matches!(intake.take(), Next::Row(_)));
        assert_eq!((intake.asks(), intake.backlog()), (1, 1));
        // The second has not arrived when the first is used up. There is room for two, and one was
        // asked for already.
        assert!(matches!(intake.take(), Next::Nothing));
        assert!(matches!(intake.take(), Next::Nothing));
        assert_eq!((intake.asks(), intake.backlog()), (1, 0));
        intake.push(arena(1), RowNumbers::From(1));
        intake.push(arena(1), RowNumbers::From(2));
        assert!(matches!(intake.take(), Next::Row(_)));
        assert_eq!((intake.asks(), intake.backlog()), (0, 2));
        assert!(matches!(intake.take(), Next::Row(_)));
        assert_eq!((intake.asks(), intake.backlog()), (1, 1));
    }
}
