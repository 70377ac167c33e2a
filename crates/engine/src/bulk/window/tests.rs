//! Tests of windows with simulated requests.

use super::*;
use crate::bulk::RowNumbers;
use crate::bulk::partition::{Batcher, Batches};
use crate::error::ErrorKind;
use turbocql_codec::RowBuffer;

struct Silent;

impl BulkEvents for Silent {
    fn wants_more(&self) {}
    fn completed(self: Box<Self>, _: BulkOutcome) {}
}

fn arena(rows: u8) -> RowBuffer {
    let mut buffer = RowBuffer::new();
    for row in 0..rows {
        buffer.push_value(&[row]);
        buffer.finish_row();
    }
    buffer
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn limits(max_failures: usize) -> Limits {
    Limits {
        concurrency: 4,
        max_failures,
        failures: Arc::default(),
        pace: Pace::default(),
        patience: Duration::ZERO,
        is_repeatable: true,
        progress: None,
        draining: None,
    }
}

/// A judge that makes no claims and explains no errors.
struct Nobody;

impl Judge for Nobody {
    fn claim(&self, _: &RequestRows) -> Option<BoxFuture<'static, Claim>> {
        None
    }

    /// Rows with even numbers are on one node, and rows with odd numbers on another.
    fn replicas(&self, rows: &RequestRows) -> Vec<[u8; 16]> {
        let number = rows.rows().next().unwrap().0;
        vec![[(number % 2) as u8; 16]]
    }

    fn blame(&self, _: &RequestRows, _: &EngineError) -> Option<EngineError> {
        None
    }

    /// Only the node of rows with even numbers answers.
    fn probe(&self, rows: &RequestRows) -> BoxFuture<'static, bool> {
        let answers = self.replicas(rows) == [[0; 16]];
        Box::pin(async move { answers })
    }
}

fn nobody() -> Arc<dyn Judge> {
    Arc::new(Nobody)
}

fn failure() -> EngineError {
    EngineError::new(ErrorKind::Server, "no")
}

#[test]
fn the_window_is_kept_full_and_no_fuller() {
    let intake = Arc::new(Intake::new(None));
    intake.push(arena(10), RowNumbers::From(100));
    intake.push(arena(3), RowNumbers::Each(vec![200, 202, 204]));
    intake.finish();
    let open = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let counts = Arc::clone(&open);
    let outcome = block_on(send_all(intake, &Silent, limits(0), false, nobody(), move |_| {
        let counts = Arc::clone(&counts);
        async move {
            let now = counts.0.fetch_add(1, Ordering::Relaxed) + 1;
            counts.1.fetch_max(now, Ordering::Relaxed);
            tokio::task::yield_now().await;
            counts.0.fetch_sub(1, Ordering::Relaxed);
            Ok(None)
        }
    }));
    assert_eq!((outcome.succeeded, outcome.last_sent), (13, Some(204)));
    assert_eq!((open.0.load(Ordering::Relaxed), open.1.load(Ordering::Relaxed)), (0, 4));
}

#[test]
fn too_many_failures_stop_the_bulk_after_the_requests_in_flight() {
    let intake = Arc::new(Intake::new(None));
    intake.push(arena(100), RowNumbers::From(0));
    intake.finish();
    let outcome =
        block_on(send_all(intake, &Silent, limits(1), false, nobody(), |row| async move {
            // Row 5 fails, and so do all rows from 20 on.
            let cell = row.row(0).unwrap().bytes()[4];
            tokio::task::yield_now().await;
            if cell == 5 || cell >= 20 { Err(failure()) } else { Ok(None) }
        }));
    assert!(outcome.stopped);
    let last = outcome.last_sent.unwrap();
    assert!((20..24).contains(&last), "{last}");
    assert_eq!((outcome.succeeded, outcome.failed[0].0), (19, 5));
    assert_eq!(outcome.failed.len() as u64, 1 + last - 19);
}

#[test]
fn the_window_waits_for_rows_that_are_handed_in_late() {
    let intake = Arc::new(Intake::new(None));
    let outcome = block_on(async {
        let sending =
            send_all(Arc::clone(&intake), &Silent, limits(0), false, nobody(), |_| async {
                Ok(None)
            });
        let handing_in = async {
            for first in [0, 10] {
                tokio::task::yield_now().await;
                intake.push(arena(10), RowNumbers::From(first));
            }
            tokio::task::yield_now().await;
            intake.finish();
        };
        futures::join!(sending, handing_in).0
    });
    assert_eq!((outcome.succeeded, outcome.stopped), (20, false));
}

/// A transient error.
fn late() -> EngineError {
    EngineError::new(ErrorKind::Timeout, "late")
}

#[test]
fn rows_that_fail_for_a_while_are_sent_again() {
    let intake = Arc::new(Intake::new(None));
    intake.push(arena(20), RowNumbers::From(50));
    intake.finish();
    let progress = Arc::new(Progress::new(true));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let limits = Limits {
        patience: Duration::from_secs(20),
        progress: Some(Arc::clone(&progress)),
        ..limits(0)
    };
    let outcome = timed(send_all(intake, &Silent, limits, false, nobody(), move |row| {
        let number = row.rows().next().unwrap().0;
        let mut log = log.lock().unwrap();
        log.push(number);
        let nth = log.iter().filter(|&&logged| logged == number).count();
        async move { if number % 5 == 0 && nth < 3 { Err(late()) } else { Ok(None) } }
    }));
    assert_eq!((outcome.succeeded, outcome.failed.len()), (20, 0));
    assert_eq!(seen.lock().unwrap().len(), 20 + 4 * 2);
    assert_eq!(progress.acknowledged(), [(50, 70)]);
    let now = progress.snapshot();
    assert_eq!((now.succeeded, now.retried, now.in_flight, now.window), (20, 8, 0, 4));
}

#[test]
fn rows_fail_when_the_patience_ends_or_the_bulk_is_stopped() {
    let intake = Arc::new(Intake::new(None));
    intake.push(arena(3), RowNumbers::From(0));
    intake.finish();
    let began = std::time::Instant::now();
    let limits = Limits { patience: Duration::from_secs(600), ..limits(0) };
    let outcome = timed(send_all(intake, &Silent, limits, false, nobody(), |row| {
        // Row 2 fails for good, while the other rows wait to be sent again.
        let number = row.rows().next().unwrap().0;
        async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Err(if number == 2 { failure_for_good() } else { late() })
        }
    }));
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!((outcome.failed.len(), outcome.stopped), (3, true));

    let intake = Arc::new(Intake::new(None));
    intake.push(arena(1), RowNumbers::From(0));
    intake.finish();
    let limits = Limits { patience: Duration::from_millis(400), ..super::tests::limits(0) };
    let outcome =
        timed(send_all(intake, &Silent, limits, false, nobody(), |_| async { Err(late()) }));
    assert_eq!(outcome.failed[0].1.message, "late");
}

#[test]
fn no_row_waits_while_the_session_is_being_closed() {
    let intake = Arc::new(Intake::new(None));
    intake.push(arena(20), RowNumbers::From(0));
    intake.finish();
    let (closing, draining) = watch::channel(false);
    let limits =
        Limits { patience: Duration::from_secs(600), draining: Some(draining), ..limits(100) };
    let began = std::time::Instant::now();
    let outcome = timed(send_all(intake, &Silent, limits, false, nobody(), move |row| {
        let number = row.rows().next().unwrap().0;
        let is_fourth = number == 3;
        if is_fourth {
            closing.send_replace(true);
        }
        async { Err(late()) }
    }));
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!((outcome.failed.len(), outcome.stopped), (20, false));
}

#[test]
fn after_an_outage_as_long_as_the_patience_rows_are_tried_once() {
    let intake = Arc::new(Intake::new(None));
    intake.push(arena(40), RowNumbers::From(0));
    intake.finish();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let limits = Limits { patience: Duration::from_millis(500), ..limits(100) };
    let outcome = timed(send_all(intake, &Silent, limits, false, nobody(), move |row| {
        log.lock().unwrap().push(row.rows().next().unwrap().0);
        async { Err(late()) }
    }));
    assert_eq!((outcome.failed.len(), outcome.stopped), (40, false));
    let seen = seen.lock().unwrap();
    let tries = |number| seen.iter().filter(|&&seen_number| seen_number == number).count();
    assert!((0..4).all(|number| tries(number) > 1));
    // Rows that are sent after an outage of half a second are tried only once.
    assert!((20..40).all(|number| tries(number) == 1));
}

#[test]
fn a_row_that_may_not_be_repeated_is_sent_again_only_if_it_was_not_written() {
    for (may_have_applied, failed) in [(false, 0), (true, 5)] {
        let intake = Arc::new(Intake::new(None));
        intake.push(arena(5), RowNumbers::From(0));
        intake.finish();
        let limits =
            Limits { patience: Duration::from_secs(20), is_repeatable: false, ..limits(100) };
        let seen = Arc::new(Mutex::new(std::collections::HashSet::new()));
        let outcome = timed(send_all(intake, &Silent, limits, false, nobody(), move |row| {
            let is_first = seen.lock().unwrap().insert(row.rows().next().unwrap().0);
            let error = EngineError { may_have_applied, ..late() };
            async move { if is_first { Err(error) } else { Ok(None) } }
        }));
        assert_eq!(outcome.failed.len(), failed);
    }
}

fn failure_for_good() -> EngineError {
    EngineError::new(ErrorKind::Encode, "no")
}

/// Makes three partitions of five rows each. The row numbers begin with 100.
fn in_partitions() -> Arc<Intake> {
    let batches = Batches { key: vec![0, 1], same: vec![], most_bytes: 1000, always: true };
    let intake = Arc::new(Intake::new(Batcher::new(batches, &[0])));
    let mut rows = RowBuffer::new();
    for number in 0..15 {
        rows.push_value(&[number % 3]);
        rows.push_value(&[number]);
        rows.finish_row();
    }
    intake.push(rows, RowNumbers::From(100));
    intake.finish();
    intake
}

fn numbers(rows: &RequestRows) -> Vec<u64> {
    rows.rows().map(|(number, _)| number).collect()
}

#[test]
fn one_bad_row_of_a_batch_fails_alone() {
    let progress = Arc::new(Progress::new(true));
    let limits = Limits { progress: Some(Arc::clone(&progress)), ..limits(3) };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let outcome = timed(send_all(in_partitions(), &Silent, limits, false, nobody(), move |rows| {
        let sent = numbers(&rows);
        let bad = sent.contains(&104);
        log.lock().unwrap().push(sent);
        async move { if bad { Err(failure_for_good()) } else { Ok(None) } }
    }));
    assert_eq!((outcome.succeeded, outcome.stopped, outcome.last_sent), (14, false, Some(114)));
    assert_eq!(outcome.failed[0].0, 104);
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    let batches = [vec![100, 103, 106, 109, 112], vec![101, 104, 107, 110, 113]];
    assert_eq!(seen[0], batches[0]);
    assert!(seen.contains(&batches[1]) && seen.contains(&vec![110]), "{seen:?}");
    assert_eq!(progress.acknowledged(), [(100, 104), (105, 115)]);
    let now = progress.snapshot();
    assert_eq!((now.succeeded, now.failed, now.batched, now.bytes), (14, 1, 10, 140));
}

#[test]
fn a_batch_is_sent_again_after_transient_errors_or_fails_as_a_whole() {
    for (patience, failed) in [(20, 0), (0, 15)] {
        let progress = Arc::new(Progress::new(false));
        let limits = Limits {
            patience: Duration::from_secs(patience),
            progress: Some(Arc::clone(&progress)),
            ..limits(100)
        };
        let sent = AtomicUsize::new(0);
        let outcome =
            timed(send_all(in_partitions(), &Silent, limits, false, nobody(), move |rows| {
                assert_eq!(rows.len(), 5);
                let nth = sent.fetch_add(1, Ordering::Relaxed);
                async move { if nth < 3 { Err(late()) } else { Ok(None) } }
            }));
        assert_eq!((outcome.failed.len(), outcome.succeeded), (failed, 15 - failed as u64));
        let now = progress.snapshot();
        let retried = if failed == 0 { 15 } else { 0 };
        assert_eq!((now.failed, now.retried), (failed as u64, retried));
    }
}

#[test]
fn rates_hold_rows_back() {
    let intake = Arc::new(Intake::new(None));
    intake.push(arena(60), RowNumbers::From(0));
    intake.finish();
    let pace = Pace { rows_per_s: Some(100.0), ..Pace::default() };
    let began = std::time::Instant::now();
    let limits = Limits { pace, ..limits(0) };
    let outcome = timed(send_all(intake, &Silent, limits, false, nobody(), |_| async { Ok(None) }));
    // Ten rows are sent at once, and the other fifty in half a second.
    assert!(began.elapsed() >= Duration::from_millis(450));
    assert_eq!(outcome.succeeded, 60);
}

fn timed<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().build().unwrap().block_on(future)
}

/// An error that the row itself, or its replicas, may cause.
fn refused() -> EngineError {
    EngineError {
        code: Some(0x1500),
        ..EngineError::new(ErrorKind::Server, "executing: write failure: no")
    }
}

#[test]
fn a_row_that_can_never_be_written_does_not_delay_other_rows() {
    let intake = Arc::new(Intake::new(None));
    intake.push(arena(200), RowNumbers::From(0));
    intake.finish();
    let progress = Arc::new(Progress::new(false));
    let pace = Pace { adaptive: true, ..Pace::default() };
    let limits = Limits {
        patience: Duration::from_secs(60),
        progress: Some(Arc::clone(&progress)),
        pace,
        ..limits(100)
    };
    let (tries, seen) = (Arc::<AtomicUsize>::default(), Arc::new(Mutex::new(None)));
    let (counted, noted, watched) = (Arc::clone(&tries), Arc::clone(&seen), Arc::clone(&progress));
    let began = std::time::Instant::now();
    let mut took = Duration::ZERO;
    let outcome = timed(async {
        let began = Instant::now();
        let outcome = send_all(intake, &Silent, limits, false, nobody(), move |row| {
            let number = row.rows().next().unwrap().0;
            let (counted, noted, watched) =
                (Arc::clone(&counted), Arc::clone(&noted), Arc::clone(&watched));
            async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                if number % 20 == 0 {
                    counted.fetch_add(1, Ordering::Relaxed);
                    return Err(refused());
                }
                if let Some(trouble) = watched.trouble() {
                    noted.lock().unwrap().replace(trouble);
                }
                Ok(None)
            }
        })
        .await;
        took = began.elapsed();
        outcome
    });
    assert_eq!((outcome.succeeded, outcome.failed.len()), (190, 10));
    assert_eq!(tries.load(Ordering::Relaxed), 30);
    assert!(took < Duration::from_secs(3), "{took:?} {:?}", began.elapsed());
    assert_eq!(seen.lock().unwrap().as_ref().unwrap().1, "write failure");
    assert_eq!(progress.trouble(), None);
}

#[test]
fn failures_of_a_node_are_not_those_of_a_row() {
    let intake = Arc::new(Intake::new(None));
    intake.push(arena(40), RowNumbers::From(0));
    intake.finish();
    let limits = Limits { patience: Duration::from_secs(60), ..limits(100) };
    let began = Arc::new(Mutex::new(None));
    // The node of rows with odd numbers fails for a second.
    let outcome = timed(send_all(intake, &Silent, limits, false, nobody(), move |row| {
        let number = row.rows().next().unwrap().0;
        let began = *began.lock().unwrap().get_or_insert_with(Instant::now);
        async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let fails = number % 2 == 1 && began.elapsed() < Duration::from_secs(1);
            if fails { Err(refused()) } else { Ok(None) }
        }
    }));
    assert_eq!((outcome.succeeded, outcome.failed.len()), (40, 0));
}

#[test]
fn a_row_alone_is_at_fault_if_its_replicas_answer() {
    for (number, least, most) in [(0, 0.3, 2.5), (1, 3.0, 5.0)] {
        let intake = Arc::new(Intake::new(None));
        intake.push(arena(1), RowNumbers::From(number));
        intake.finish();
        let limits = Limits { patience: Duration::from_secs(4), ..limits(100) };
        let mut took = Duration::ZERO;
        let outcome = timed(async {
            let began = Instant::now();
            let sending =
                send_all(intake, &Silent, limits, false, nobody(), |_| async { Err(refused()) });
            let outcome = sending.await;
            took = began.elapsed();
            outcome
        });
        assert_eq!(outcome.failed.len(), 1);
        assert!((least..most).contains(&took.as_secs_f64()), "row {number}: {took:?}");
    }
}
