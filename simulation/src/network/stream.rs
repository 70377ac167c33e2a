//! One end of a connection.

use std::future::Future;
use std::io::{Error, ErrorKind, Result};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::pipe::{CAPACITY, Pipe, lock};
use super::{Arriving, Direction, Network};

pub struct Stream {
    network: Network,
    host: IpAddr,
    incoming: (Direction, Arc<Mutex<Pipe>>),
    outgoing: (Direction, Arc<Mutex<Pipe>>),
    /// Fires when the next bytes arrive.
    timer: Pin<Box<Sleep>>,
    /// The connection's number at the client's end of the connection. `None` at the host's end.
    id: Option<u64>,
}

impl Stream {
    pub(super) fn new(
        network: Network,
        host: IpAddr,
        incoming: (Direction, Arc<Mutex<Pipe>>),
        outgoing: (Direction, Arc<Mutex<Pipe>>),
        id: Option<u64>,
    ) -> Stream {
        let timer = Box::pin(sleep_until(Instant::now()));
        Stream { network, host, incoming, outgoing, timer, id }
    }

    /// Returns a function that notes that this is a control connection.
    pub fn control_mark(&self) -> impl Fn() + Send + Sync + use<> {
        let pipe = Arc::clone(&self.incoming.1);
        move || lock(&pipe).is_control = true
    }

    /// Returns `Ready` if `at` has passed. If not, sets the timer to `at`.
    fn wait_until(&mut self, at: Instant, context: &mut Context<'_>) -> Poll<()> {
        if at <= Instant::now() {
            return Poll::Ready(());
        }
        self.timer.as_mut().reset(at);
        self.timer.as_mut().poll(context)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let link = self.network.link(self.host, self.incoming.0);
        let incoming = Arc::clone(&self.incoming.1);
        let mut pipe = lock(&incoming);
        pipe.reader = Some(context.waker().clone());
        if link.is_cut {
            drop(pipe);
            self.network.wake_at_change(context.waker().clone());
            return Poll::Pending;
        }
        if pipe.is_frozen {
            return Poll::Pending;
        }
        if pipe.is_reset || pipe.reset_after == Some(0) {
            pipe.is_reset = true;
            drop(pipe);
            lock(&self.outgoing.1).reset();
            return Poll::Ready(Err(Error::from(ErrorKind::ConnectionReset)));
        }
        let Some(first) = pipe.arriving.front() else {
            return if pipe.is_finished { Poll::Ready(Ok(())) } else { Poll::Pending };
        };
        let at = pipe.pause.map_or(first.at, |pause| pause.max(first.at));
        drop(pipe);
        ready!(self.wait_until(at, context));
        let mut pipe = lock(&incoming);
        let mut room = buffer.remaining();
        if let Some((bytes, pause)) = link.drip {
            room = room.min(bytes);
            pipe.pause = Some(Instant::now() + pause);
        }
        if let Some(remaining) = pipe.reset_after {
            room = room.min(remaining);
        }
        while room > 0
            && let Some(first) = pipe.arriving.front_mut()
            && first.at <= Instant::now()
        {
            let copied = first.bytes.len().min(room);
            buffer.put_slice(&first.bytes[..copied]);
            first.bytes.advance(copied);
            if first.bytes.is_empty() {
                pipe.arriving.pop_front();
            }
            room -= copied;
            pipe.held -= copied;
            if let Some(remaining) = &mut pipe.reset_after {
                *remaining -= copied;
            }
        }
        if let Some(writer) = pipe.writer.take() {
            writer.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let travels = self.network.travel_time(self.host, self.outgoing.0);
        // On a cut link, the message that the other end is closed cannot arrive. So the write
        // succeeds.
        let is_cut = self.network.link(self.host, self.outgoing.0).is_cut;
        let mut pipe = lock(&self.outgoing.1);
        if pipe.is_reset && !is_cut {
            return Poll::Ready(Err(Error::from(ErrorKind::ConnectionReset)));
        }
        if pipe.is_finished && !is_cut {
            return Poll::Ready(Err(Error::from(ErrorKind::BrokenPipe)));
        }
        if pipe.held >= CAPACITY {
            pipe.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let accepted = bytes.len().min(CAPACITY - pipe.held);
        let mut at = Instant::now() + travels;
        if let Some(last) = pipe.last {
            at = at.max(last);
        }
        pipe.last = Some(at);
        pipe.held += accepted;
        pipe.arriving.push_back(Arriving { at, bytes: Bytes::copy_from_slice(&bytes[..accepted]) });
        if let Some(reader) = pipe.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(accepted))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        let mut pipe = lock(&self.outgoing.1);
        pipe.is_finished = true;
        pipe.wake();
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut pipe = lock(&self.outgoing.1);
        pipe.is_finished = true;
        pipe.wake();
        drop(pipe);
        // If the other end still writes to this closed end, its write fails with a reset.
        let mut pipe = lock(&self.incoming.1);
        pipe.reset();
        drop(pipe);
        if let Some(id) = self.id {
            self.network.closed(id);
        }
    }
}
