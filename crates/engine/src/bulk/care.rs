//! What a bulk knows of its table: how it writes nothing twice, and whose fault an error is.
//!
//! A server gives each element of a list that is not frozen an id of its own, at each INSERT, and an
//! INSERT deletes elements that are older than itself, not those of the same microsecond. So a list
//! that is written twice with one write time has its elements twice.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use turbocql_codec::types::list;
use turbocql_codec::{Cell, Column, CqlType, RowBuffer, RowRef, Segment, nulls};

use crate::error::{EngineError, ErrorKind};
use crate::statement::Prepared;

/// What a bulk knows of its table. By default, nothing.
#[derive(Clone, Debug, Default)]
pub struct Care {
    /// The bind markers of static columns.
    pub statics: Vec<usize>,
    /// Set if lists that are not frozen are among the columns that are written.
    pub lists: Option<Lists>,
    /// The vectors that have an index.
    pub vectors: Vec<IndexedVector>,
    /// Reads whether a row is there, to see whether its replicas answer: a statement, and the bind
    /// markers that have its values.
    pub probe: Option<(Arc<str>, Vec<usize>)>,
}

/// The lists, not frozen, that a bulk writes.
#[derive(Clone, Debug)]
pub struct Lists {
    /// The bind markers by which rows write the same lists: those of the primary key, or of the
    /// partition key if one of the lists is static.
    pub key: Vec<usize>,
    pub times: Times,
}

/// The write times of rows.
#[derive(Clone, Debug)]
pub enum Times {
    /// Each request gets a time of its own, from the server or from the session's clock.
    Apart,
    /// A row's time is this one, in microseconds, plus the number of the row.
    Counted(i64),
    /// The program has chosen the times, so a row may have been written with its time before. What
    /// is there is read first.
    Chosen { time: Time, reads: Vec<ListRead> },
}

/// Where a row's write time is.
#[derive(Clone, Copy, Debug)]
pub enum Time {
    Constant(i64),
    /// In the cell of this bind marker.
    Marker(usize),
}

/// A statement that reads lists and their write times: two columns for each list.
#[derive(Clone, Debug)]
pub struct ListRead {
    pub prepared: Arc<Prepared>,
    /// The bulk's bind markers that have the values of this statement.
    pub key: Vec<usize>,
    /// The bulk's bind markers of the lists.
    pub lists: Vec<usize>,
}

/// A vector of floats with an index, which refuses some vectors.
#[derive(Clone, Debug)]
pub struct IndexedVector {
    pub marker: usize,
    pub index: String,
    /// Whether it compares by angles, which a vector of zeros has not.
    pub is_cosine: bool,
}

/// What a list's write times say about a row that is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing is there with this time.
    Free,
    /// The list is there already, with this time or a later one; others may have changed it since.
    Same,
    /// Another list is there with this time.
    Taken,
}

/// Compares a list that is to be written at `time` with the one that is there, and the write times
/// of its elements. `None` if the bytes are none of lists.
pub(super) fn compare(
    mine: &[u8],
    time: i64,
    there: Option<&[u8]>,
    times: Option<&[u8]>,
) -> Option<Found> {
    let (Some(there), Some(times)) = (there, times) else { return Some(Found::Free) };
    let mut times = list::decode(times).ok()?;
    let (mut is_taken, mut are_later, mut has_later) = (false, true, false);
    for _ in 0..times.count() {
        let written = i64::from_be_bytes(times.next_value().ok()??.try_into().ok()?);
        is_taken |= written == time;
        are_later &= written >= time;
        has_later |= written > time;
    }
    Some(match is_taken {
        _ if are_later && there == mine => Found::Same,
        // It was written before, and another program has changed it since.
        true if has_later => Found::Same,
        true => Found::Taken,
        false => Found::Free,
    })
}

/// The write time in a row; `None` if the server chooses it.
pub(super) fn time_of(time: Time, row: RowRef<'_>) -> Option<i64> {
    match time {
        Time::Constant(time) => Some(time),
        Time::Marker(place) => match row.cells().nth(place)? {
            Cell::Value(bytes) => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
            Cell::Null | Cell::Unset => None,
        },
    }
}

/// Some cells of a row, as a row.
pub(super) fn part_of(row: RowRef<'_>, places: &[usize]) -> RowBuffer {
    let cells: Vec<Cell<'_>> = row.cells().collect();
    let mut part = RowBuffer::new();
    for &place in places {
        push(&mut part, cells.get(place).copied().unwrap_or(Cell::Null));
    }
    part.finish_row();
    part
}

/// A row without the cells at `unset`, and with another write time where it has one.
pub(super) fn changed(row: RowRef<'_>, unset: &[usize], time: Option<(usize, i64)>) -> RowBuffer {
    let mut made = RowBuffer::with_capacity(row.bytes().len() + 16, 1);
    for (place, cell) in row.cells().enumerate() {
        match time {
            Some((marker, time)) if marker == place => made.push_value(&time.to_be_bytes()),
            _ if unset.contains(&place) => made.push_unset(),
            _ => push(&mut made, cell),
        }
    }
    made.finish_row();
    made
}

fn push(rows: &mut RowBuffer, cell: Cell<'_>) {
    match cell {
        Cell::Value(bytes) => rows.push_value(bytes),
        Cell::Null => rows.push_null(),
        Cell::Unset => rows.push_unset(),
    }
}

impl Care {
    /// Whether rows of one partition may go in one request.
    pub(super) fn batches(&self) -> bool {
        !matches!(self.lists, Some(Lists { times: Times::Chosen { .. }, .. }))
    }

    /// What the row itself has that explains a server's error, as an error that says so.
    pub(super) fn blame(
        &self,
        markers: &[Column],
        row: RowRef<'_>,
        error: &EngineError,
        hides: bool,
    ) -> Option<EngineError> {
        let found = match error.code? {
            0x0000 | 0x2200 => null_of(markers, row, error, hides),
            0x1500 => self.vector_of(markers, row),
            _ => None,
        }?;
        Some(error.clone().explained(&found))
    }

    /// A vector that its index refuses.
    fn vector_of(&self, markers: &[Column], row: RowRef<'_>) -> Option<String> {
        self.vectors.iter().find_map(|vector| {
            let Some(Cell::Value(bytes)) = row.cells().nth(vector.marker) else { return None };
            let numbers = bytes.chunks_exact(4).filter_map(|four| four.try_into().ok());
            // The server computes with floats of 32 bits, too.
            let squares: f32 = numbers.map(|four| f32::from_be_bytes(four).powi(2)).sum();
            let got = match squares {
                _ if squares.is_nan() => "one with NaN",
                _ if squares.is_infinite() => "one with an infinite length",
                _ if squares == 0.0 && vector.is_cosine => "one of zeros, which has no direction",
                _ => return None,
            };
            let (name, index) = (&markers.get(vector.marker)?.name, &vector.index);
            Some(format!(
                "column \"{name}\": expected a vector that the index \"{index}\" takes, got {got}"
            ))
        })
    }
}

/// A null within a collection, if the server's error is about one. If `hides`, the keys of maps are
/// left out.
pub(crate) fn null_of(
    markers: &[Column],
    row: RowRef<'_>,
    error: &EngineError,
    hides: bool,
) -> Option<String> {
    const WORDS: [&str; 4] =
        ["NullPointerException", "Null value", "null is not", "\"value\" is null"];
    let reason = error.reason.as_deref()?;
    if error.kind != ErrorKind::Server || !WORDS.iter().any(|words| reason.contains(words)) {
        return None;
    }
    markers.iter().zip(row.cells()).find_map(|(marker, cell)| {
        let Cell::Value(bytes) = cell else { return None };
        // Whether a list is frozen cannot be seen here. The error says that something is wrong.
        let is_list = matches!(marker.cql_type.thawed(), CqlType::List(_));
        let found = nulls::first(&marker.cql_type, bytes, is_list)
            .or_else(|| nulls::first(&marker.cql_type, bytes, false));
        let mut found = found?.at(Segment::Column(marker.name.clone()));
        if hides {
            found.path.hide_keys();
        }
        Some(found.to_string())
    })
}

/// The keys whose rows are being written, so that no two requests write one list at a time.
#[derive(Debug, Default)]
pub(super) struct Claims {
    held: Mutex<HashMap<u64, Held>>,
    released: Notify,
}

#[derive(Clone, Copy, Debug)]
enum Held {
    InFlight,
    Until(Instant),
}

/// A claim lasts this much longer than its request: two nodes that write within one millisecond
/// may choose the same write time.
const REST: Duration = Duration::from_millis(2);
/// Claims that have ended are removed when there are more than this.
const MANY: usize = 8192;

/// Claimed keys. They are released when this is dropped.
pub(super) struct Claim {
    claims: Arc<Claims>,
    keys: Vec<u64>,
}

impl Claims {
    /// Waits until no other request has one of the keys.
    pub(super) async fn claim(self: &Arc<Self>, mut keys: Vec<u64>) -> Claim {
        keys.sort_unstable();
        keys.dedup();
        loop {
            let released = self.released.notified();
            tokio::pin!(released);
            // Registered before the look, so that no release between them is missed.
            released.as_mut().enable();
            match self.try_claim(&keys) {
                Ok(()) => return Claim { claims: Arc::clone(self), keys },
                Err(Held::InFlight) => released.await,
                Err(Held::Until(until)) => tokio::time::sleep_until(until).await,
            }
        }
    }

    fn try_claim(&self, keys: &[u64]) -> Result<(), Held> {
        let now = Instant::now();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let is_held = |one: &Held| match one {
            Held::InFlight => true,
            Held::Until(until) => *until > now,
        };
        if let Some(other) = keys.iter().filter_map(|key| held.get(key)).find(|it| is_held(it)) {
            return Err(*other);
        }
        if held.len() > MANY {
            held.retain(|_, one| is_held(one));
        }
        for key in keys {
            held.insert(*key, Held::InFlight);
        }
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let until = Held::Until(Instant::now() + REST);
        let mut held = self.claims.held.lock().unwrap_or_else(PoisonError::into_inner);
        for key in &self.keys {
            if let Entry::Occupied(mut one) = held.entry(*key) {
                one.insert(until);
            }
        }
        drop(held);
        self.claims.released.notify_waiters();
    }
}

/// The hash of some cells of a row.
pub(super) fn hash_of(row: RowRef<'_>, places: &[usize]) -> u64 {
    let cells: Vec<Cell<'_>> = row.cells().collect();
    let mut hasher = DefaultHasher::new();
    for &place in places {
        match cells.get(place) {
            Some(Cell::Value(bytes)) => bytes.hash(&mut hasher),
            Some(Cell::Null) => (-1i64).hash(&mut hasher),
            Some(Cell::Unset) | None => (-2i64).hash(&mut hasher),
        }
    }
    hasher.finish()
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

    fn found(time: i64, there: &[&[u8]], times: &[i64]) -> Found {
        let times: Vec<[u8; 8]> = times.iter().map(|time| time.to_be_bytes()).collect();
        let times: Vec<&[u8]> = times.iter().map(|time| &time[..]).collect();
        let mine = list_of(&[b"a", b"b"]);
        compare(&mine, time, Some(&list_of(there)), Some(&list_of(&times))).unwrap()
    }

    #[test]
    fn write_times_tell_what_is_there() {
        assert_eq!(compare(&list_of(&[]), 5, None, None), Some(Found::Free));
        assert_eq!(found(5, &[b"x"], &[4]), Found::Free);
        assert_eq!(found(5, &[b"a", b"b"], &[5, 5]), Found::Same);
        assert_eq!(found(5, &[b"a", b"b"], &[7, 7]), Found::Same);
        // An older list must get the new time, so that what was written between them does not win.
        assert_eq!(found(5, &[b"a", b"b"], &[4, 4]), Found::Free);
        assert_eq!(found(5, &[b"x"], &[5]), Found::Taken);
        assert_eq!(found(5, &[b"a", b"b", b"c"], &[5, 5, 9]), Found::Same);
        assert_eq!(found(5, &[b"x"], &[6]), Found::Free);
        assert_eq!(compare(b"", 5, Some(b""), Some(b"")), None);
    }

    #[test]
    fn rows_lose_cells_and_get_times() {
        let mut rows = RowBuffer::new();
        rows.push_value(b"k");
        rows.push_value(b"list");
        rows.push_null();
        rows.push_value(&5i64.to_be_bytes());
        rows.finish_row();
        let row = rows.row(0).unwrap();
        assert_eq!(time_of(Time::Marker(3), row), Some(5));
        assert_eq!(time_of(Time::Marker(2), row), None);
        let made = changed(row, &[1], Some((3, 6)));
        let cells: Vec<_> = made.row(0).unwrap().cells().collect();
        let time = 6i64.to_be_bytes();
        assert_eq!(cells, [Cell::Value(b"k"), Cell::Unset, Cell::Null, Cell::Value(&time)]);
        assert_eq!(part_of(row, &[2, 0]).row(0).unwrap().cells().count(), 2);
    }

    #[tokio::test]
    async fn a_key_is_claimed_once_at_a_time_and_some_time_longer() {
        let claims = Arc::<Claims>::default();
        let first = claims.claim(vec![1, 2]).await;
        claims.claim(vec![3, 3]).await;
        let began = Instant::now();
        let (one, other) = (Arc::clone(&claims), Arc::clone(&claims));
        let waiting = tokio::spawn(async move { one.claim(vec![2, 4]).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished());
        // All keys or none: the one that waits has not taken its other key.
        drop(other.claim(vec![4]).await);
        drop(first);
        drop(waiting.await.unwrap());
        assert!(began.elapsed() >= Duration::from_millis(50) + REST);
    }
}
