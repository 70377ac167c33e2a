//! Groups rows of one partition into batches, and measures whether batches are faster than single
//! rows.
//!
//! An unlogged batch of one partition is one write for the server: it is applied as a whole, and
//! each replica is asked once. A batch of several partitions has neither property.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use turbocql_codec::{Cell, RowBuffer, RowRef};

/// How the rows of a bulk are put into batches.
#[derive(Clone, Debug, PartialEq)]
pub struct Batches {
    /// The indexes of the bind markers of the whole primary key. Two rows with the same key are
    /// never in one batch, because their order would be lost.
    pub key: Vec<usize>,
    /// The indexes of the bind markers whose values must be equal in all rows of a batch. They
    /// belong to static columns, the write time and the TTL. A batch writes static columns once.
    pub same: Vec<usize>,
    /// The maximum size of a batch, in bytes of values. A larger row is sent by itself.
    pub most_bytes: usize,
    /// Whether rows are always sent in batches, without measuring whether batches are faster.
    pub always: bool,
}

/// How many answers a measurement counts, as a multiple of the number of requests in flight.
const COUNTED: usize = 4;
/// How many answers are ignored before a measurement, as a multiple of the number of requests in
/// flight. Requests of the previous mode still slow these answers down.
const UNCOUNTED: usize = 2;
/// The established mode (see [`SendMode`]) is measured this many times before the other mode is
/// measured again.
const TURNS: usize = 64;
/// Single rows replace batches only if they are faster by this factor, because batches cost the
/// client and the server less work.
const MARGIN: f64 = 1.1;

/// Makes the batches of a bulk.
#[derive(Debug)]
pub(super) struct Batcher {
    batches: Batches,
    partition_key: Box<[usize]>,
    cells: Vec<usize>,
    trial: Mutex<Trial>,
}

/// Measures rows per second with batches, and without them.
///
/// Comparing latencies would mislead: while requests of both modes are in flight, they wait in the
/// same queues.
#[derive(Debug)]
struct Trial {
    /// Whether batches are the established mode.
    batches_pay: bool,
    /// Whether the next arena (buffer of encoded rows) is sent in batches. This differs from
    /// `batches_pay` during a trial of the other mode.
    batches_next: bool,
    /// The number of answers that are still to be ignored before a measurement.
    uncounted: usize,
    /// The number of answers that are still to be counted in the measurement.
    counted: usize,
    since: Option<Instant>,
    rows: usize,
    /// Rows per second in the established mode.
    rate: Option<f64>,
    /// The number of measurements of the established mode since the other mode was last measured.
    turns: usize,
}

/// The mode in which a request was sent. The two modes are single rows and batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendMode {
    /// The mode that has been the faster one so far.
    Established,
    /// The other mode, which is being measured.
    OnTrial,
    /// The other mode, which has just been measured as better and is established now.
    Adopted,
}

/// The rows of an arena in the order of sending, and the positions in this order at which the
/// requests end.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) order: Vec<u32>,
    pub(super) ends: Vec<u32>,
}

impl Batcher {
    /// Returns `None` if no batch can contain two rows.
    pub(super) fn new(batches: Batches, partition_key: &[usize]) -> Option<Batcher> {
        let has_more_columns = batches.key.iter().any(|marker| !partition_key.contains(marker));
        if partition_key.is_empty() || !has_more_columns || batches.most_bytes == 0 {
            return None;
        }
        let mut cells = batches.key.clone();
        cells.sort_unstable();
        let partition_key = partition_key.into();
        Some(Batcher { batches, partition_key, cells, trial: Mutex::default() })
    }

    fn trial(&self) -> MutexGuard<'_, Trial> {
        self.trial.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Groups the rows of the next arena into requests. Returns `None` if each row is a request.
    pub(super) fn group(&self, rows: &RowBuffer) -> Option<Groups> {
        if !self.batches.always && !self.trial().batches_next {
            return None;
        }
        Some(self.by_partition(rows))
    }

    /// Notes that a request of `rows` rows has succeeded, while `in_flight` requests were in
    /// flight. `batched` says whether its arena was sent in batches. Returns the request's mode.
    pub(super) fn note(
        &self,
        now: Instant,
        rows: usize,
        in_flight: usize,
        batched: bool,
    ) -> SendMode {
        if self.batches.always {
            return SendMode::Established;
        }
        self.trial().note(now, rows, in_flight, batched)
    }

    fn by_partition(&self, rows: &RowBuffer) -> Groups {
        /// A batch to which further rows can be added.
        struct Open {
            number: usize,
            bytes: usize,
            first: usize,
        }
        let mut open: HashMap<u64, Open> = HashMap::new();
        let mut keys = HashSet::with_capacity(rows.len());
        let mut members: Vec<Vec<u32>> = Vec::new();
        for (index, row) in rows.rows().enumerate() {
            let cells = self.key_cells(row);
            let partition = hash(self.partition_key.iter().map(|marker| cells.of(marker)));
            let is_new = keys.insert(hash(cells.all()));
            let bytes = row.bytes().len();
            if is_new
                && let Some(batch) = open.get_mut(&partition)
                && batch.bytes + bytes <= self.batches.most_bytes
                && rows.row(batch.first).is_some_and(|first| self.is_same(first, row))
            {
                batch.bytes += bytes;
                members[batch.number].push(index as u32);
                continue;
            }
            open.insert(partition, Open { number: members.len(), bytes, first: index });
            members.push(vec![index as u32]);
        }
        let mut groups = Groups::default();
        for group in members {
            groups.order.extend(group);
            groups.ends.push(groups.order.len() as u32);
        }
        groups
    }

    fn key_cells<'a>(&'a self, row: RowRef<'a>) -> KeyCells<'a> {
        let mut cells = Vec::with_capacity(self.cells.len());
        let (mut row_cells, mut at) = (row.cells(), 0);
        for &marker in &self.cells {
            cells.push(row_cells.nth(marker - at));
            at = marker + 1;
        }
        KeyCells { markers: &self.cells, cells }
    }

    fn is_same(&self, first: RowRef<'_>, second: RowRef<'_>) -> bool {
        let markers = self.partition_key.iter().chain(&self.batches.same);
        markers.copied().all(|marker| first.cells().nth(marker) == second.cells().nth(marker))
    }
}

/// The cells of a row's primary key.
struct KeyCells<'a> {
    markers: &'a [usize],
    cells: Vec<Option<Cell<'a>>>,
}

impl<'a> KeyCells<'a> {
    fn of(&self, marker: &usize) -> Option<Cell<'a>> {
        let at = self.markers.binary_search(marker).ok()?;
        self.cells[at]
    }

    fn all(&self) -> impl Iterator<Item = Option<Cell<'a>>> + '_ {
        self.cells.iter().copied()
    }
}

/// The hash of cells.
pub(super) fn hash<'a>(cells: impl Iterator<Item = Option<Cell<'a>>>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for cell in cells {
        match cell {
            Some(Cell::Value(bytes)) => bytes.hash(&mut hasher),
            Some(Cell::Null) => (-1i64).hash(&mut hasher),
            Some(Cell::Unset) | None => (-2i64).hash(&mut hasher),
        }
    }
    hasher.finish()
}

impl Default for Trial {
    fn default() -> Trial {
        Trial {
            batches_pay: true,
            batches_next: true,
            uncounted: 0,
            counted: 0,
            since: None,
            rows: 0,
            rate: None,
            turns: 0,
        }
    }
}

impl Trial {
    fn note(&mut self, now: Instant, rows: usize, in_flight: usize, batched: bool) -> SendMode {
        let mode =
            if batched == self.batches_pay { SendMode::Established } else { SendMode::OnTrial };
        if batched != self.batches_next {
            return mode;
        }
        if self.since.is_none() && (self.uncounted, self.counted) == (0, 0) {
            let in_flight = in_flight.max(16);
            (self.uncounted, self.counted) = (UNCOUNTED * in_flight, COUNTED * in_flight);
        }
        if self.uncounted > 0 {
            self.uncounted -= 1;
            return mode;
        }
        // The measured time begins at the first counted answer, and ends at the answer that follows
        // the last counted answer.
        let since = *self.since.get_or_insert(now);
        if self.counted > 0 {
            self.counted -= 1;
            self.rows += if now > since { rows } else { 0 };
            return mode;
        }
        let rate = self.rows as f64 / (now - since).as_secs_f64().max(1e-9);
        (self.since, self.rows) = (None, 0);
        if batched == self.batches_pay {
            let is_first = self.rate.replace(rate).is_none();
            // The first trial follows the first measurement at once.
            if is_first || self.is_due() {
                self.batches_next = !self.batches_pay;
            }
            return mode;
        }
        self.batches_next = self.batches_pay;
        self.turns = 0;
        let usual = self.rate.unwrap_or(0.0);
        let is_better = if batched { rate * MARGIN >= usual } else { rate > usual * MARGIN };
        if !is_better {
            return mode;
        }
        (self.batches_pay, self.batches_next, self.rate) = (batched, batched, Some(rate));
        SendMode::Adopted
    }

    fn is_due(&mut self) -> bool {
        self.turns += 1;
        self.turns >= TURNS
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Makes rows of `(partition, clustering key, number of bytes of another value)`.
    fn arena(rows: &[(u8, u8, usize)]) -> RowBuffer {
        let mut buffer = RowBuffer::new();
        for &(partition, clustering_key, bytes) in rows {
            buffer.push_value(&vec![0; bytes]);
            buffer.push_value(&[clustering_key]);
            buffer.push_value(&[partition]);
            buffer.finish_row();
        }
        buffer
    }

    fn batcher(most_bytes: usize, always: bool) -> Batcher {
        Batcher::new(Batches { key: vec![2, 1], same: vec![], most_bytes, always }, &[2]).unwrap()
    }

    fn groups(batcher: &Batcher, rows: &RowBuffer) -> Vec<Vec<u32>> {
        let groups = batcher.by_partition(rows);
        let mut start = 0;
        let requests = groups.ends.iter().map(|&end| {
            let rows = groups.order[start..end as usize].to_vec();
            start = end as usize;
            rows
        });
        requests.collect()
    }

    #[test]
    fn rows_of_a_partition_go_together_up_to_a_size() {
        let rows = arena(&[(1, 0, 5), (2, 0, 5), (1, 1, 5), (1, 2, 5), (3, 0, 500), (1, 3, 5)]);
        // Each of the small rows has 19 bytes.
        let groups_found = groups(&batcher(60, true), &rows);
        assert_eq!(groups_found, [vec![0, 2, 3], vec![1], vec![4], vec![5]]);
        assert_eq!(groups(&batcher(100, true), &rows)[0], [0, 2, 3, 5]);
    }

    #[test]
    fn rows_with_one_key_are_in_different_batches_in_their_order() {
        let rows = arena(&[(1, 0, 5), (1, 1, 5), (1, 0, 6), (1, 2, 5), (1, 0, 7)]);
        let groups_found = groups(&batcher(1000, true), &rows);
        assert_eq!(groups_found, [vec![0, 1], vec![2, 3], vec![4]]);
    }

    #[test]
    fn rows_of_a_batch_have_the_same_static_values() {
        let rows = arena(&[(1, 0, 5), (1, 1, 5), (1, 2, 6), (1, 3, 6), (1, 4, 5)]);
        let batches = Batches { key: vec![2, 1], same: vec![0], most_bytes: 1000, always: true };
        let groups_found = groups(&Batcher::new(batches, &[2]).unwrap(), &rows);
        assert_eq!(groups_found, [vec![0, 1], vec![2, 3], vec![4]]);
    }

    #[test]
    fn nothing_is_grouped_where_a_partition_has_one_row() {
        let batches = Batches { key: vec![0], same: vec![], most_bytes: 1000, always: true };
        assert!(Batcher::new(batches.clone(), &[0]).is_none());
        assert!(Batcher::new(batches.clone(), &[]).is_none());
        let none = Batches { key: vec![0, 1], most_bytes: 0, ..batches };
        assert!(Batcher::new(none, &[0]).is_none());
    }

    /// Simulates a server of 64 workers that takes `seconds(rows)` for a request of `rows` rows.
    /// Returns the share of arenas that were sent in batches, in the second half of the simulation.
    fn share_of_batches(seconds: impl Fn(usize) -> f64) -> f64 {
        let batcher = batcher(1000, false);
        let rows = arena(&[(1, 0, 5), (1, 1, 5), (1, 2, 5), (1, 3, 5), (1, 4, 5)]);
        let start = Instant::now();
        let mut now = 0.0;
        let mut workers = std::collections::VecDeque::from(vec![0.0f64; 64]);
        let (mut batched, mut all) = (0, 0);
        for round in 0..60_000 {
            let requests = match batcher.group(&rows) {
                Some(groups) => groups.ends.iter().map(|&end| end as usize).collect(),
                None => vec![1; 5],
            };
            let is_batch = requests.len() == 1;
            if round >= 30_000 {
                all += 1;
                batched += usize::from(is_batch);
            }
            for rows in requests {
                now = workers.pop_front().unwrap().max(now);
                workers.push_back(now + seconds(rows));
                let at = start + Duration::from_secs_f64(now);
                batcher.note(at, rows, 64, is_batch);
            }
        }
        f64::from(batched as u32) / f64::from(all)
    }

    #[test]
    fn batches_are_used_unless_single_rows_are_faster() {
        let share = share_of_batches(|rows| 0.001 + 0.0002 * rows as f64);
        assert!((0.97..0.9999).contains(&share), "{share}");
        let share = share_of_batches(|rows| 0.001 * (rows as f64).powf(1.3));
        assert!((0.001..0.12).contains(&share), "{share}");
        // Both modes are equally fast, so batches are used.
        let share = share_of_batches(|rows| 0.001 * rows as f64);
        assert!(share > 0.97, "{share}");
    }
}
