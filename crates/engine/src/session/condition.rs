//! Writes under conditions, beside writes whose times the client's clock sets.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::session::Session;

/// Waits for the next millisecond, if the client's clock sets the times of writes. A server gives
/// a condition its own time in whole milliseconds, so a write earlier in the same millisecond
/// would count as later, and hide what the condition has written.
pub(crate) async fn before_condition(session: &Session) {
    if session.sets_timestamps() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let until_next_millisecond = 1_000_000 - u64::from(now.subsec_nanos() % 1_000_000);
        tokio::time::sleep(Duration::from_nanos(until_next_millisecond)).await;
    }
}
