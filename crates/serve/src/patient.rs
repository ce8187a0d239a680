//! Connections of clients that must not take too long to read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Fewest bytes that a client has to take in a second, on average over the time that the server is
/// patient. A client that is slower would hold the memory of a large answer for hours. The slowest
/// telephone networks in use have twice as much.
const LEAST_RATE: f64 = 16_384.0;

/// A connection that ends if the client takes too little while there is something to send.
///
/// Waiting for requests is hyper's: it has a timeout of its own.
pub(crate) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Exists while the client takes less than there is.
    waiting: Option<Waiting>,
}

struct Waiting {
    until: Pin<Box<Sleep>>,
    /// Bytes that the client still has to take until then.
    left: u64,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Patient<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Patient<S> {
        Patient { stream, patience, waiting: None }
    }

    fn timed<T>(
        &mut self,
        context: &mut Context<'_>,
        taken: impl FnOnce(&T) -> u64,
        act: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match act(Pin::new(&mut self.stream), context) {
            Poll::Ready(done) => {
                let taken = done.as_ref().map_or(u64::MAX, taken);
                self.waiting.take_if(|waiting| {
                    waiting.left = waiting.left.saturating_sub(taken);
                    waiting.left == 0
                });
                Poll::Ready(done)
            }
            Poll::Pending => {
                let patience = self.patience;
                let waiting = self.waiting.get_or_insert_with(|| Waiting {
                    until: Box::pin(tokio::time::sleep_until(Instant::now() + patience)),
                    left: (LEAST_RATE * patience.as_secs_f64()) as u64 + 1,
                });
                ready!(waiting.until.as_mut().poll(context));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.timed(context, |taken| *taken as u64, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.timed(
            context,
            |taken| *taken as u64,
            |stream, context| stream.poll_write_vectored(context, parts),
        )
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Everything was taken.
        self.timed(context, |()| u64::MAX, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.timed(context, |()| u64::MAX, |stream, context| stream.poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::runtime::Builder;

    /// Takes some bytes, and then nothing for at least a millisecond.
    struct Drip {
        bytes: usize,
        pause: Pin<Box<Sleep>>,
    }

    impl AsyncWrite for Drip {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            ready!(self.pause.as_mut().poll(context));
            self.pause.as_mut().reset(Instant::now() + Duration::from_millis(1));
            Poll::Ready(Ok(self.bytes.min(bytes.len())))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncRead for Drip {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Sends 1 MiB to a client that takes at most `bytes` in a millisecond.
    async fn sends(bytes: usize, patience: Duration) -> io::Result<()> {
        let drip = Drip { bytes, pause: Box::pin(tokio::time::sleep(Duration::ZERO)) };
        let mut server = Patient::new(drip, patience);
        let (all, mut sent) = (vec![7; 1 << 20], 0);
        while sent < all.len() {
            sent += poll_fn(|context| Pin::new(&mut server).poll_write(context, &all[sent..])).await?;
        }
        poll_fn(|context| Pin::new(&mut server).poll_flush(context)).await
    }

    #[test]
    fn clients_have_to_take_something_all_the_time() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        // At most 100 bytes in 100 ms, which is a tenth of the least rate.
        let slow = runtime.block_on(sends(1, Duration::from_millis(100)));
        assert_eq!(slow.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(runtime.block_on(sends(1 << 16, Duration::from_secs(60))).is_ok());
    }
}
