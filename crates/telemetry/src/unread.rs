//! Connection whose peer must read its answers.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Longest time in which a peer may read nothing of a waiting answer.
pub(crate) const UNREAD_MAX: Duration = Duration::from_secs(30);

/// Stream that fails when a write waits longer than [`UNREAD_MAX`]: a peer that does not read keeps
/// its answer in memory.
pub(crate) struct ReadInTime<S> {
    stream: S,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncWrite + Unpin> ReadInTime<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, waiting: None }
    }

    /// Passes on the outcome of a write, unless it has waited too long.
    fn written(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let written = write(Pin::new(&mut self.stream), context);
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(UNREAD_MAX)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadInTime<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadInTime<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.written(context, |stream, context| stream.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connection_that_reads_nothing_is_closed_and_a_slow_one_stays() {
        let (near, mut far) = duplex(100);
        let mut near = ReadInTime::new(near);
        let reading = tokio::spawn(async move {
            for _ in 0..20 {
                sleep(UNREAD_MAX / 2).await;
                far.read_exact(&mut [0; 10]).await.unwrap();
            }
            far
        });
        near.write_all(&[0; 300]).await.unwrap();
        let _far = reading.await.unwrap();
        let since = Instant::now();
        let error = near.write_all(&[0; 300]).await.unwrap_err();
        assert_eq!((error.kind(), since.elapsed()), (ErrorKind::TimedOut, UNREAD_MAX));
    }
}
