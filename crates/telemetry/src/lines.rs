//! Bounded queue of lines for standard error, and the thread that writes them.
//!
//! An unread pipe blocks its writers, so only this thread writes. Lines beyond the limit are
//! dropped and counted, and the process continues and can end.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tracing_subscriber::fmt::MakeWriter;

/// Limit on the bytes of waiting lines.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// Overhead of a waiting line.
const LINE_BYTES: usize = 64;

/// Queue of the process, once started.
static OF_PROCESS: OnceLock<LineQueue> = OnceLock::new();

/// Bounded queue of lines with its writer. Clones share it.
#[derive(Clone)]
pub(super) struct LineQueue(Arc<QueueParts>);

struct QueueParts {
    lines: Mutex<WaitingLines>,
    changed: Condvar,
    dropped: AtomicU64,
    bytes_max: usize,
}

#[derive(Default)]
struct WaitingLines {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// True while the thread writes a taken line.
    is_writing: bool,
}

impl LineQueue {
    /// Starts the thread that writes to `out`.
    ///
    /// # Errors
    /// The system refused a thread.
    fn start(out: impl Write + Send + 'static, bytes_max: usize) -> io::Result<Self> {
        let lines = Mutex::new(WaitingLines::default());
        let (changed, dropped) = Default::default();
        let queue = Self(Arc::new(QueueParts { lines, changed, dropped, bytes_max }));
        let own = queue.clone();
        std::thread::Builder::new().name("lines".into()).spawn(move || own.write_all(out))?;
        Ok(queue)
    }

    /// Adds a complete line, or counts it as dropped.
    pub(super) fn push(&self, line: &[u8]) {
        let mut waiting = self.0.lines.lock();
        if waiting.bytes + line.len() + LINE_BYTES > self.0.bytes_max {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.bytes += line.len() + LINE_BYTES;
        waiting.lines.push_back(line.to_vec());
        self.0.changed.notify_all();
    }

    /// Waits until all lines are written; false on a timeout.
    fn flush(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let mut waiting = self.0.lines.lock();
        while waiting.is_writing || !waiting.lines.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.0.changed.wait_for(&mut waiting, left);
        }
        true
    }

    /// Writes lines until the process ends.
    fn write_all(&self, mut out: impl Write) {
        let mut told = 0;
        loop {
            let line = self.next();
            // As with a closed terminal, nobody could read an error.
            let _ = out.write_all(&line).and_then(|()| out.flush());
            let mut waiting = self.0.lines.lock();
            waiting.is_writing = false;
            let is_empty = waiting.lines.is_empty();
            self.0.changed.notify_all();
            drop(waiting);
            let dropped = self.0.dropped.load(Ordering::Relaxed);
            if is_empty && dropped > told {
                let lines = dropped - told;
                tracing::warn!(lines, "lines of the log were dropped: nobody read them in time");
                told = dropped;
            }
        }
    }

    /// Waits for the next line, and takes it.
    fn next(&self) -> Vec<u8> {
        let mut waiting = self.0.lines.lock();
        loop {
            if let Some(line) = waiting.lines.pop_front() {
                waiting.bytes -= line.len() + LINE_BYTES;
                waiting.is_writing = true;
                return line;
            }
            self.0.changed.wait(&mut waiting);
        }
    }
}

/// Takes a log line in one piece.
impl Write for LineQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LineQueue {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Returns the process's queue for standard error; the first call starts it.
///
/// # Errors
/// The system refused a thread.
pub(super) fn of_process() -> io::Result<&'static LineQueue> {
    if OF_PROCESS.get().is_none() {
        let queue = LineQueue::start(io::stderr(), WAITING_BYTES_MAX)?;
        // Of two concurrent starts one writes nothing.
        let _ = OF_PROCESS.set(queue);
    }
    OF_PROCESS.get().ok_or_else(|| io::Error::other("no queue of lines"))
}

/// Writes a line to standard error, through the process's queue if there is one.
pub fn to_stderr(line: &str) {
    match OF_PROCESS.get() {
        Some(queue) => queue.push(line.as_bytes()),
        // Fails only if nobody reads it.
        None => drop(io::stderr().lock().write_all(line.as_bytes())),
    }
}

/// Waits until all lines are written, up to a limit.
pub fn flush_stderr(within: Duration) {
    if let Some(queue) = OF_PROCESS.get() {
        queue.flush(within);
    }
}

/// Returns the number of dropped lines.
pub(super) fn dropped() -> u64 {
    OF_PROCESS.get().map_or(0, |queue| queue.0.dropped.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Exceeds the capacity of a pipe and of the queue.
    const LINES: usize = 3000;

    #[test]
    fn a_pipe_that_nobody_reads_holds_up_nobody_and_what_found_no_room_is_counted() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let queue = LineQueue::start(writer, 64 << 10).expect("a thread");
        let line = [b"x".repeat(99), b"\n".to_vec()].concat();
        let mut pushed = 0;
        // The pipe takes some, then the queue.
        while queue.flush(Duration::from_millis(20)) || pushed < LINES {
            (0..100).for_each(|_| queue.push(&line));
            pushed += 100;
        }
        let dropped = queue.0.dropped.load(Ordering::Relaxed) as usize;
        assert!(dropped > 0 && dropped < pushed, "{dropped}");
        let mut written = vec![0; (pushed - dropped) * line.len()];
        reader.read_exact(&mut written).expect("the lines that found room");
        assert!(written.chunks(line.len()).all(|written| written == line));
        assert!(queue.flush(Duration::from_secs(60)));
    }
}
