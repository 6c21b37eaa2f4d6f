use std::sync::atomic::AtomicUsize;
use std::task::{Wake, Waker};

use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;

use super::*;

/// A sender that always has more.
struct Endless;

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.remaining();
        buffer.initialize_unfilled_to(room).fill(b'x');
        buffer.advance(room);
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

#[test]
fn a_sender_that_never_stops_leaves_turns_to_others() {
    let metrics = ReceiverMetrics::new(&SdkMeterProvider::default().meter("test"));
    let sender = Arc::new(ConnectionAccount::default());
    let share = MemoryQuota::new("requests", 1 << 30);
    let mut metered = Metered::new(Endless, sender, share, Arc::new(metrics), Transport::Http);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut read_in_turn = || {
        let mut read = 0;
        let mut space = [0; 8 << 10];
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
        assert_eq!(read_in_turn(), TURN_BYTES);
        assert_eq!(woken.0.load(Ordering::Relaxed), turns, "it would never go on");
    }
}

#[test]
fn first_line_that_names_no_version_is_no_request() {
    for (line, expected) in [
        (&b"INVALID CONNECTION PREFACE\r\n\r\n"[..], true),
        (b"PRI * HTTP/2.0\r\n\r\nSN\r\n\r\n", true),
        (b"GET / HTTP/1.1\r\n", false),
        (b"GET / HTTP/3.0\r\n", false),
        (b"GET /a path HTTP/1.1\r\n", false),
        (b"GET /", false),
        (b"hello\r\n", false),
        (b"\x16\x03\x01\x02\n", false),
    ] {
        assert_eq!(is_of_no_version(line), expected, "{}", line.escape_ascii());
    }
}
