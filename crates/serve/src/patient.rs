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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Sends 1 MiB to a client that takes `bytes` each second. `true`: all of it arrives.
    async fn sends(bytes: usize) -> bool {
        let (client, server) = tokio::io::duplex(1024);
        let mut server = Patient::new(server, Duration::from_secs(30));
        let reading = tokio::spawn(async move {
            let (mut client, mut buf) = (client, vec![0; bytes]);
            while client.read_exact(&mut buf).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let all = vec![7; 1 << 20];
        let sent = async { server.write_all(&all).await.is_ok() && server.flush().await.is_ok() }.await;
        reading.abort();
        sent
    }

    #[tokio::test(start_paused = true)]
    async fn clients_have_to_take_something_all_the_time() {
        // The clock of the test only runs while everybody waits.
        assert!(!sends(1).await);
        assert!(!sends(8192).await);
        assert!(sends(32_768).await);
    }
}
