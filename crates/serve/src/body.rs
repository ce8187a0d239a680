//! Bodies of answers: bytes in memory, or an object that is read in pieces as the client takes them.

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinHandle, spawn_blocking};

/// Bytes of a piece. A slow client holds this much memory. Smaller pieces cost more hand-overs between
/// threads: one for each.
pub(crate) const PIECE: u64 = 1 << 20;

/// Something whose bytes can be read.
pub(crate) trait Readable: Send + Sync {
    /// Reads bytes, which are inside.
    fn read(&self, offset: u64, len: u64) -> hyperslab::Result<Bytes>;
}

/// The body of an answer.
pub(crate) enum Body {
    Memory { bytes: Bytes },
    Pieces { source: Arc<dyn Readable>, next: u64, end: u64, reading: Option<JoinHandle<io::Result<Bytes>>> },
}

impl Body {
    pub(crate) fn of(bytes: impl Into<Bytes>) -> Body {
        Body::Memory { bytes: bytes.into() }
    }

    pub(crate) fn pieces(source: Arc<dyn Readable>, offset: u64, len: u64) -> Body {
        Body::Pieces { source, next: offset, end: offset.saturating_add(len), reading: None }
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Body::Memory { bytes } => bytes.len() as u64,
            Body::Pieces { next, end, .. } => end.saturating_sub(*next),
        }
    }

    /// Counts the bytes as memory of the server until they are sent.
    pub(crate) fn held_by(self, permit: OwnedSemaphorePermit) -> Body {
        match self {
            // hyper drops the body when it has taken the last bytes, before it has sent them.
            Body::Memory { bytes } => Body::of(Bytes::from_owner(Held { bytes, _permit: permit })),
            pieces => pieces,
        }
    }

    /// Bytes in memory. Pieces are read one by one, and do not count.
    pub(crate) fn in_memory(&self) -> u64 {
        match self {
            Body::Memory { bytes } => bytes.len() as u64,
            Body::Pieces { .. } => 0,
        }
    }
}

/// Bytes, and the memory that they take of the server's.
struct Held {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            Body::Memory { bytes } if bytes.is_empty() => Poll::Ready(None),
            Body::Memory { bytes } => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Body::Pieces { source, next, end, reading } => {
                if next >= end {
                    return Poll::Ready(None);
                }
                let (offset, len) = (*next, (*end - *next).min(PIECE));
                let task = reading.get_or_insert_with(|| {
                    let source = source.clone();
                    spawn_blocking(move || source.read(offset, len).map_err(io::Error::other))
                });
                let read = ready!(Pin::new(task).poll(context));
                *reading = None;
                let read = read.unwrap_or_else(|error| Err(io::Error::other(error)));
                *next = if read.is_ok() { offset + len } else { *end };
                Poll::Ready(Some(read.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.len() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len())
    }
}
