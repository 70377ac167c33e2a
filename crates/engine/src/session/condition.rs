//! Delays conditional writes, so that their times are later than the times of earlier writes, which
//! the client's clock has set.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::session::Session;

/// Sleeps until the next millisecond, if the client's clock sets the times of writes.
///
/// A server chooses the time of a conditional write in whole milliseconds. Without the delay, an
/// earlier write in the same millisecond would have a later time, and hide the conditional write.
pub(crate) async fn delay_before_conditional_write(session: &Session) {
    if session.sets_timestamps() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let until_next_millisecond = 1_000_000 - u64::from(now.subsec_nanos() % 1_000_000);
        tokio::time::sleep(Duration::from_nanos(until_next_millisecond)).await;
    }
}
