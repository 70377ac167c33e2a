//! Keeps a bulk (`execute_many`) from writing list elements twice, and finds the values that cause
//! an error.
//!
//! At each INSERT, a server gives each element of a non-frozen list a new id. The INSERT deletes
//! older elements, but not elements with the same write time as the INSERT. So a list that is
//! written twice with one write time contains its elements twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use turbocql_codec::types::list;
use turbocql_codec::{Cell, Column, RowBuffer, RowRef};

use super::partition::hash;
use crate::error::EngineError;
use crate::statement::Prepared;
use crate::statement::nulls::null_of;

/// What a bulk needs to know about the table that it writes. The default contains nothing.
#[derive(Clone, Debug, Default)]
pub struct WrittenTable {
    /// The bind markers of the primary key, or of the partition key if static columns are written.
    /// Rows with equal values of these markers may write the same cells.
    pub key: Vec<usize>,
    /// The bind markers of static columns.
    pub statics: Vec<usize>,
    /// Set if the bulk writes lists that are not frozen.
    pub lists: Option<Lists>,
    /// Whether the bulk writes vectors that have an index.
    pub has_indexes: bool,
    /// A statement that reads one row, to check whether the row's replicas answer, and the bind
    /// markers whose cells are the statement's values. These are bind markers of the bulk's
    /// statement.
    pub probe: Option<(Arc<str>, Vec<usize>)>,
}

/// How a bulk writes lists that are not frozen.
#[derive(Clone, Debug)]
pub struct Lists {
    pub times: Times,
}

/// How the write times of rows are chosen.
#[derive(Clone, Debug)]
pub enum Times {
    /// Each request gets a time of its own, from the server or from the session's clock.
    Automatic,
    /// The write time of a row is at least this number of microseconds plus the number of the row.
    /// Rows with the same key get different times, and so do the attempts of one row.
    Counted(i64),
    /// The caller has chosen the times, so a row may have been written before with the same time.
    /// The stored lists are read before each write.
    Chosen { time: Time, reads: Vec<ListRead> },
}

/// Where a row's write time comes from.
#[derive(Clone, Copy, Debug)]
pub enum Time {
    Constant(i64),
    /// The cell of this bind marker.
    Marker(usize),
}

/// A statement that reads lists and their write times: its result has two columns for each list.
#[derive(Clone, Debug)]
pub struct ListRead {
    pub prepared: Arc<Prepared>,
    /// Bind markers of the bulk's statement. Their cells are the values of `prepared`.
    pub key: Vec<usize>,
    /// The bind markers of the lists in the bulk's statement.
    pub lists: Vec<usize>,
}

/// A list that a row writes, and the list that the server has stored.
pub(super) struct WrittenList<'a> {
    /// The index of the list's bind marker.
    pub(super) marker: usize,
    /// The new bytes, or `None` for null.
    pub(super) written: Option<&'a [u8]>,
    pub(super) stored: Option<Vec<u8>>,
    /// The write times of the stored list's elements, as the bytes of a list.
    pub(super) times: Option<Vec<u8>>,
}

/// How a stored list relates to the list that is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListState {
    /// The new list can be written with the row's write time.
    Free,
    /// The new list is stored already, with the row's write time or a later one. Other writes may
    /// have changed it since.
    Same,
    /// A different list is stored with the row's write time.
    Conflict,
}

/// Compares the list `written` (`None` for null), which is to be written at `time`, with the stored
/// list and the write times of its elements. Returns `None` if the bytes do not encode lists.
pub(super) fn compare(
    written: Option<&[u8]>,
    time: i64,
    stored: Option<&[u8]>,
    times: Option<&[u8]>,
) -> Option<ListState> {
    let (Some(stored), Some(times)) = (stored, times) else { return Some(ListState::Free) };
    let mut times = list::decode(times).ok()?;
    let (mut is_taken, mut are_later, mut has_later) = (false, true, false);
    for _ in 0..times.count() {
        let element_time = i64::from_be_bytes(times.next_value().ok()??.try_into().ok()?);
        is_taken |= element_time == time;
        are_later &= element_time >= time;
        has_later |= element_time > time;
    }
    Some(match is_taken {
        _ if are_later && Some(stored) == written => ListState::Same,
        // The list was written before, and another program has changed it since.
        true if has_later => ListState::Same,
        true => ListState::Conflict,
        false => ListState::Free,
    })
}

/// Returns the write time of a row, or `None` if the row leaves the choice to the server.
pub(super) fn time_of(time: Time, row: RowRef<'_>) -> Option<i64> {
    match time {
        Time::Constant(time) => Some(time),
        Time::Marker(marker) => match row.cells().nth(marker)? {
            Cell::Value(bytes) => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
            Cell::Null | Cell::Unset => None,
        },
    }
}

/// Returns a row that consists of the cells at `markers`.
pub(super) fn part_of(row: RowRef<'_>, markers: &[usize]) -> RowBuffer {
    let cells: Vec<Cell<'_>> = row.cells().collect();
    let mut part = RowBuffer::new();
    for &marker in markers {
        push(&mut part, cells.get(marker).copied().unwrap_or(Cell::Null));
    }
    part.finish_row();
    part
}

/// Copies a row. In the copy, the cells at `unset` are unset. `time` has the bind marker of the
/// write time, and the write time to put into its cell.
pub(super) fn changed(row: RowRef<'_>, unset: &[usize], time: Option<(usize, i64)>) -> RowBuffer {
    let mut changed_row = RowBuffer::with_capacity(row.bytes().len() + 16, 1);
    for (marker_index, cell) in row.cells().enumerate() {
        match time {
            Some((marker, time)) if marker == marker_index => {
                changed_row.push_value(&time.to_be_bytes())
            }
            _ if unset.contains(&marker_index) => changed_row.push_unset(),
            _ => push(&mut changed_row, cell),
        }
    }
    changed_row.finish_row();
    changed_row
}

fn push(rows: &mut RowBuffer, cell: Cell<'_>) {
    match cell {
        Cell::Value(bytes) => rows.push_value(bytes),
        Cell::Null => rows.push_null(),
        Cell::Unset => rows.push_unset(),
    }
}

impl WrittenTable {
    /// Whether rows of one partition may be sent in one request.
    pub(super) fn batches(&self) -> bool {
        !matches!(self.lists, Some(Lists { times: Times::Chosen { .. }, .. }))
    }

    /// If a null within a collection of the row explains the server's error, returns an error that
    /// says so.
    pub(super) fn blame(
        markers: &[Column],
        row: RowRef<'_>,
        error: &EngineError,
        hides: bool,
    ) -> Option<EngineError> {
        let null_reason = null_of(markers, row, error, hides)?;
        Some(error.clone().explained(&null_reason))
    }
}

/// The keys of rows that are being written. Claims keep two requests from writing the same row at
/// the same time.
#[derive(Debug, Default)]
pub(super) struct Claims {
    held: Mutex<Keys>,
    released: Notify,
}

#[derive(Debug, Default)]
struct Keys {
    held: HashMap<u64, Held>,
    /// When `held` has more entries than the larger of this number and [`SWEEP_AT`], old claims are
    /// removed.
    sweep_at: usize,
}

/// A key that is or was claimed.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The time at which the claim ends. The field is `None` while the request is in flight.
    until: Option<Instant>,
    /// The last write time that was chosen for the key.
    last: i64,
}

/// A claim lasts this much longer than its request, because two nodes that write within one
/// millisecond may choose the same write time.
const CLAIM_MARGIN: Duration = Duration::from_millis(2);
/// The last write time of a key is kept for at least this long after the end of its claim, for rows
/// that wait for the key.
const KNOWN: Duration = Duration::from_secs(1);
const SWEEP_AT: usize = 8192;

/// Claimed keys. They become free when [`CLAIM_MARGIN`] has passed after this value was dropped.
pub(super) struct Claim {
    claims: Arc<Claims>,
    keys: Vec<u64>,
    /// The latest write time that was chosen for any of the keys.
    pub(super) last: Arc<AtomicI64>,
}

impl Claims {
    /// Waits until no other request has one of the keys, and claims them.
    pub(super) async fn claim(self: &Arc<Self>, mut keys: Vec<u64>) -> Claim {
        keys.sort_unstable();
        keys.dedup();
        loop {
            let released = self.released.notified();
            tokio::pin!(released);
            // The wait is registered before the check, so no release between the two is missed.
            released.as_mut().enable();
            match self.try_claim(&keys) {
                Ok(last) => {
                    let last = Arc::new(AtomicI64::new(last));
                    return Claim { claims: Arc::clone(self), keys, last };
                }
                Err(None) => released.await,
                Err(Some(until)) => tokio::time::sleep_until(until).await,
            }
        }
    }

    /// Claims all keys, and returns their latest write time. If another claim has one of the keys,
    /// claims none, and returns the time at which that key becomes free, or `None` while the
    /// request of that claim is in flight.
    fn try_claim(&self, keys: &[u64]) -> Result<i64, Option<Instant>> {
        let now = Instant::now();
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = i64::MIN;
        for held in keys.iter().filter_map(|key| all.held.get(key)) {
            match held.until {
                Some(until) if until <= now => last = last.max(held.last),
                until => return Err(until),
            }
        }
        if all.held.len() > all.sweep_at.max(SWEEP_AT) {
            all.held.retain(|_, held| held.until.is_none_or(|until| until + KNOWN > now));
            all.sweep_at = 2 * all.held.len();
        }
        for &key in keys {
            all.held.insert(key, Held { until: None, last });
        }
        Ok(last)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let held = Held {
            until: Some(Instant::now() + CLAIM_MARGIN),
            last: self.last.load(Ordering::Relaxed),
        };
        let mut all = self.claims.held.lock().unwrap_or_else(PoisonError::into_inner);
        for key in &self.keys {
            all.held.insert(*key, held);
        }
        drop(all);
        self.claims.released.notify_waiters();
    }
}

/// The hash of a row's cells at `markers`.
pub(super) fn hash_of(row: RowRef<'_>, markers: &[usize]) -> u64 {
    let cells: Vec<Cell<'_>> = row.cells().collect();
    hash(markers.iter().map(|&marker| cells.get(marker).copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_of(parts: &[&[u8]]) -> Vec<u8> {
        let mut out = (parts.len() as i32).to_be_bytes().to_vec();
        for part in parts {
            turbocql_codec::wire::put_value(&mut out, part);
        }
        out
    }

    fn state_of(time: i64, stored: &[&[u8]], times: &[i64]) -> ListState {
        let times: Vec<[u8; 8]> = times.iter().map(|time| time.to_be_bytes()).collect();
        let times: Vec<&[u8]> = times.iter().map(|time| &time[..]).collect();
        let written = list_of(&[b"a", b"b"]);
        compare(Some(&written), time, Some(&list_of(stored)), Some(&list_of(&times))).unwrap()
    }

    #[test]
    fn write_times_tell_whether_a_list_is_stored_already() {
        assert_eq!(compare(Some(&list_of(&[])), 5, None, None), Some(ListState::Free));
        let (stored, times) = (list_of(&[b"a"]), list_of(&[&5i64.to_be_bytes()]));
        assert_eq!(compare(None, 5, Some(&stored), Some(&times)), Some(ListState::Conflict));
        assert_eq!(compare(None, 6, Some(&stored), Some(&times)), Some(ListState::Free));
        assert_eq!(state_of(5, &[b"x"], &[4]), ListState::Free);
        assert_eq!(state_of(5, &[b"a", b"b"], &[5, 5]), ListState::Same);
        assert_eq!(state_of(5, &[b"a", b"b"], &[7, 7]), ListState::Same);
        // An equal list with an older time is written again. Otherwise a write with a time between
        // the old and the new time would win.
        assert_eq!(state_of(5, &[b"a", b"b"], &[4, 4]), ListState::Free);
        assert_eq!(state_of(5, &[b"x"], &[5]), ListState::Conflict);
        assert_eq!(state_of(5, &[b"a", b"b", b"c"], &[5, 5, 9]), ListState::Same);
        assert_eq!(state_of(5, &[b"x"], &[6]), ListState::Free);
        assert_eq!(compare(Some(b""), 5, Some(b""), Some(b"")), None);
    }

    #[test]
    fn copied_rows_have_unset_cells_and_new_times() {
        let mut rows = RowBuffer::new();
        rows.push_value(b"k");
        rows.push_value(b"list");
        rows.push_null();
        rows.push_value(&5i64.to_be_bytes());
        rows.finish_row();
        let row = rows.row(0).unwrap();
        assert_eq!(time_of(Time::Marker(3), row), Some(5));
        assert_eq!(time_of(Time::Marker(2), row), None);
        let changed_row = changed(row, &[1], Some((3, 6)));
        let cells: Vec<_> = changed_row.row(0).unwrap().cells().collect();
        let time = 6i64.to_be_bytes();
        assert_eq!(cells, [Cell::Value(b"k"), Cell::Unset, Cell::Null, Cell::Value(&time)]);
        assert_eq!(part_of(row, &[2, 0]).row(0).unwrap().cells().count(), 2);
    }

    #[tokio::test]
    async fn a_claim_excludes_others_until_a_margin_after_its_end() {
        let claims = Arc::<Claims>::default();
        let first = claims.claim(vec![1, 2]).await;
        claims.claim(vec![3, 3]).await;
        let began = Instant::now();
        let (first_claims, other) = (Arc::clone(&claims), Arc::clone(&claims));
        let waiting = tokio::spawn(async move { first_claims.claim(vec![2, 4]).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished());
        // A claim takes all keys or none: the waiting claim has not taken key 4.
        drop(other.claim(vec![4]).await);
        drop(first);
        drop(waiting.await.unwrap());
        assert!(began.elapsed() >= Duration::from_millis(50) + CLAIM_MARGIN);
    }
}
