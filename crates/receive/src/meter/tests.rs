use std::sync::atomic::AtomicUsize;
use std::task::{Wake, Waker};

use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;

use super::*;

/// A sender that always has more.
struct Endless<I>(I);

impl<I: Iterator<Item = u8> + Unpin> AsyncRead for Endless<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while buffer.remaining() > 0 {
            buffer.put_slice(&[self.0.next().unwrap()]);
        }
        Poll::Ready(Ok(()))
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Checks that turns of a sender of these bytes end after at most this many, and continue.
fn check(bytes: impl Iterator<Item = u8> + Unpin, bytes_max: usize) {
    const READ_BYTES: usize = 1 << 10;
    let metrics = ReceiverMetrics::new(&SdkMeterProvider::default().meter("test"));
    let sender = Arc::new(ConnectionAccount::default());
    let share = MemoryQuota::new("requests", 1 << 30);
    let mut metered =
        Metered::new(Endless(bytes), sender, share, Arc::new(metrics), Transport::Http);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut read_in_turn = || {
        let mut read = 0;
        let mut space = [0; READ_BYTES];
        loop {
            let mut buffer = ReadBuf::new(&mut space);
            let mut context = Context::from_waker(&waker);
            match Pin::new(&mut metered).poll_read(&mut context, &mut buffer) {
                Poll::Ready(result) => result.unwrap(),
                Poll::Pending => return read,
            }
            read += buffer.filled().len();
        }
    };
    for turns in 1..=3 {
        let read = read_in_turn();
        assert!(read > 0 && read <= bytes_max, "{read} bytes of at most {bytes_max}");
        assert_eq!(woken.0.load(Ordering::Relaxed), turns, "it would never go on");
    }
}

#[test]
fn endless_sender_leaves_turns_to_other_connections() {
    check(std::iter::repeat(b'x'), TURN_BYTES);
}

#[test]
fn small_frames_end_a_turn_early() {
    let frame = [0, 0, 1, kind::DATA, 0, 0, 0, 0, 1, b'x'];
    let frames = frame.into_iter().cycle();
    check(PREFACE.iter().copied().chain(frames), 2 << 10);
}
