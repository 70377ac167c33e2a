//! Stands in for `std::time` and for tokio's `sleep`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
pub use std::time::Duration;

use crate::clock::now;
pub use crate::clock::{Instant, pass_by};
use crate::executor::at;

/// Stands in for `tokio::time::sleep`.
pub fn sleep(time: Duration) -> Sleep {
    Sleep(Instant::now() + time)
}

pub struct Sleep(Instant);

impl Sleep {
    pub fn reset(mut self: Pin<&mut Self>, then: Instant) {
        self.0 = then;
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if now() >= self.0.0 {
            return Poll::Ready(());
        }
        at(self.0.0, context.waker().clone());
        Poll::Pending
    }
}
