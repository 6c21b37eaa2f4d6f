//! Entries that wait in a queue, in a fair order by their senders: of an exporter, of a forward.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use spanscore_base::model::{FairLine, Sender};

/// Entries between the offering and the emptying end.
pub(crate) struct SenderLine<T> {
    line: Mutex<SenderLineState<T>>,
    /// Told when an entry came, or none will.
    came: Notify,
}

struct SenderLineState<T> {
    entries: FairLine<T>,
    is_closed: bool,
}

impl<T> SenderLine<T> {
    /// Returns both ends of an empty line.
    pub(crate) fn new() -> (Arc<Self>, LineReader<T>) {
        let line = Mutex::new(SenderLineState { entries: FairLine::default(), is_closed: false });
        let waiting = Arc::new(Self { line, came: Notify::new() });
        (Arc::clone(&waiting), LineReader(waiting))
    }

    /// Adds an entry of a sender.
    ///
    /// # Errors
    /// The entry, where nobody takes it any more.
    pub(crate) fn put(&self, sender: Sender, bytes: usize, entry: T) -> Result<(), T> {
        let mut line = self.lock();
        if line.is_closed {
            return Err(entry);
        }
        line.entries.put(sender, bytes, entry);
        drop(line);
        self.came.notify_one();
        Ok(())
    }

    /// Takes so much as is lacking for an entry of a sender from whoever has more, or nothing.
    pub(crate) fn displace(&self, sender: Sender, bytes: usize, lacking: usize) -> Vec<T> {
        self.lock().entries.displace(sender, bytes, lacking)
    }

    /// Takes nothing in any more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.came.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, SenderLineState<T>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the bytes that a queue lacks for more, where it has no room: it may have room that the
/// share of all queues has not.
pub(crate) fn lacking(held: usize, bytes: usize, bytes_max: usize) -> usize {
    match held.saturating_add(bytes).saturating_sub(bytes_max) {
        0 => bytes,
        beyond => beyond,
    }
}

/// The emptying end: there is one. Dropped, it drops what waits, and nothing more is taken in.
pub(crate) struct LineReader<T>(Arc<SenderLine<T>>);

impl<T> LineReader<T> {
    /// Takes the next entry, if one waits.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.lock().entries.take()
    }

    /// Waits for the next entry; `None` once all are taken and no more are taken in.
    pub(crate) async fn next(&mut self) -> Option<T> {
        loop {
            let is_closed = self.0.lock().is_closed;
            match self.take() {
                None if !is_closed => self.0.came.notified().await,
                entry => return entry,
            }
        }
    }

    /// Lets the offering end take nothing in any more.
    pub(crate) fn close(&self) {
        self.0.close();
    }
}

impl<T> Drop for LineReader<T> {
    fn drop(&mut self) {
        self.close();
        while self.take().is_some() {}
    }
}
