//! The program that uses the session.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use turbocql_codec::RowBuffer;
use turbocql_engine::{EngineError, Prepared, RequestOptions, Response, Session};

use crate::cluster::{CLAIM, READ, WRITE};
use crate::history::{Action, Call, Outcome};
use crate::random::Random;
use crate::trace::Trace;

const KEYS: u64 = 12;

/// The time limit of a call.
pub const LIMIT: Duration = Duration::from_secs(4);

#[derive(Clone)]
pub struct Program {
    session: Session,
    calls: Arc<Mutex<Vec<Call>>>,
    trace: Trace,
}

impl Program {
    pub fn new(session: Session, trace: Trace) -> Program {
        Program { session, calls: Arc::default(), trace }
    }

    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes calls, one after another, until `until`.
    pub async fn run(self, mut random: Random, until: Instant) {
        while Instant::now() < until {
            sleep(Duration::from_millis(random.within(0..400))).await;
            self.call(&mut random).await;
        }
    }

    /// Makes one call of any kind. Returns whether it succeeded.
    pub async fn call(&self, random: &mut Random) -> bool {
        let action = match random.within(0..100) {
            0 => Action::UseKeyspace,
            1 => Action::Refresh,
            2 => Action::Agreement,
            number => match number % 10 {
                0..3 => Action::Write { is_idempotent: true },
                3..5 => Action::Write { is_idempotent: false },
                5..9 => Action::Read,
                _ => Action::Claim,
            },
        };
        let key = random.within(0..KEYS) as i64;
        let text = match action {
            Action::Write { .. } => WRITE,
            Action::Read => READ,
            Action::Claim => CLAIM,
            Action::UseKeyspace | Action::Refresh | Action::Agreement => "",
        };
        // A new text has to be prepared by the call itself.
        let variant = if random.percent(2) { random.draw() } else { random.within(0..3) };
        let text = format!("{text} /* {variant:x} */");
        self.make(action, key, &text).await
    }

    /// Reads all keys. Returns whether all reads succeeded.
    pub async fn read_all(&self) -> bool {
        let mut all = true;
        for key in 0..KEYS as i64 {
            all &= self.make(Action::Read, key, READ).await;
        }
        all
    }

    async fn make(&self, action: Action, key: i64, text: &str) -> bool {
        let (number, value) = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            let number = calls.len();
            let (value, began) = (number as i64, Instant::now());
            calls.push(Call { action, key, value, began, limit: LIMIT, ended: None });
            (number, value)
        };
        let outcome = match self.request(action, key, value, text).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(Box::new(error)),
        };
        let succeeded = !matches!(outcome, Outcome::Failed(_));
        self.trace.line(|| {
            let shown = match &outcome {
                Outcome::Failed(error) => {
                    format!("failed, may have applied: {}: {error}", error.may_have_applied)
                }
                other => format!("{other:?}"),
            };
            format!("call {number}: {action:?} key {key} value {value}: {shown}")
        });
        let ended = Some((Instant::now(), outcome));
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)[number].ended = ended;
        succeeded
    }

    async fn request(
        &self,
        action: Action,
        key: i64,
        value: i64,
        text: &str,
    ) -> Result<Outcome, EngineError> {
        match action {
            Action::UseKeyspace => {
                return self.session.use_keyspace("sim", true).await.map(|()| Outcome::Done);
            }
            Action::Refresh => return self.session.refresh().await.map(|()| Outcome::Done),
            Action::Agreement => {
                return self.session.agreement(Some(LIMIT)).await.map(|_| Outcome::Done);
            }
            Action::Write { .. } | Action::Claim | Action::Read => {}
        }
        let began = std::time::Instant::now();
        let idempotent = (action == Action::Write { is_idempotent: true }).then_some(true);
        let options =
            RequestOptions { timeout: Some(Some(LIMIT)), idempotent, ..Default::default() };
        let prepared = self.session.prepare(text, &options, began).await?;
        let mut rows = RowBuffer::new();
        rows.push_value(&key.to_be_bytes());
        if action != Action::Read {
            rows.push_value(&value.to_be_bytes());
        }
        rows.finish_row();
        let remaining = LIMIT.saturating_sub(began.elapsed());
        if remaining.is_zero() {
            return Err(EngineError::new(
                turbocql_engine::ErrorKind::Timeout,
                "preparing took all the time",
            ));
        }
        let options = RequestOptions { timeout: Some(Some(remaining)), ..options };
        let response = self.execute(&prepared, &rows, &options).await?;
        Ok(outcome(action, key, &response))
    }

    fn execute<'a>(
        &'a self,
        prepared: &'a Arc<Prepared>,
        rows: &'a RowBuffer,
        options: &'a RequestOptions,
    ) -> impl Future<Output = Result<Response, EngineError>> + 'a {
        self.session.execute(prepared, rows, options, None)
    }
}

/// Reads a response. A response to another request panics, which ends the run with a report.
fn outcome(action: Action, key: i64, response: &Response) -> Outcome {
    let Some(page) = &response.page else {
        assert!(matches!(action, Action::Write { .. }), "{action:?} has no result");
        return Outcome::Written;
    };
    let mut cells = page.cells().expect("a page of the model is well formed");
    let mut row = Vec::new();
    for _ in 0..page.row_count * page.columns.len() {
        row.push(
            cells.next_cell().expect("a cell of the model is well formed").map(<[u8]>::to_vec),
        );
    }
    let bigint = |index: usize| {
        let cell: &Option<Vec<u8>> = &row[index];
        i64::from_be_bytes(cell.as_deref().unwrap().try_into().unwrap())
    };
    match action {
        Action::Write { .. } => panic!("a write has rows"),
        Action::Read if row.is_empty() => Outcome::Read(None),
        Action::Read => {
            assert_eq!(bigint(0), key, "the response is that of another read");
            Outcome::Read(Some(bigint(1)))
        }
        Action::UseKeyspace | Action::Refresh | Action::Agreement => unreachable!("it has no rows"),
        Action::Claim if row[0].as_deref() == Some(&[1]) => Outcome::Claimed(None),
        Action::Claim => {
            assert_eq!(bigint(1), key, "the response is that of another claim");
            Outcome::Claimed(Some(bigint(2)))
        }
    }
}
