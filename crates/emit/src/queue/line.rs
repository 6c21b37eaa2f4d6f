//! Entries that wait in a queue, in a fair order by their senders.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::QueueEntry;
use spanscore_base::model::{FairLine, Sender};

/// Entries between the offering and the emptying end.
#[derive(Default)]
pub(super) struct WaitingEntries {
    line: Mutex<EntryLine>,
    /// Told when an entry came, or none will.
    came: Notify,
}

#[derive(Default)]
struct EntryLine {
    entries: FairLine<QueueEntry>,
    is_closed: bool,
}

impl WaitingEntries {
    /// Adds an entry of a sender.
    ///
    /// # Errors
    /// The entry, where nobody takes it any more.
    pub(super) fn put(&self, sender: Sender, entry: QueueEntry) -> Result<(), QueueEntry> {
        let mut line = self.lock();
        if line.is_closed {
            return Err(entry);
        }
        line.entries.put(sender, entry.room.bytes(), entry);
        drop(line);
        self.came.notify_one();
        Ok(())
    }

    /// Takes so much as is lacking for an entry of a sender from whoever has more, or nothing.
    pub(super) fn displace(&self, sender: Sender, bytes: usize, lacking: usize) -> Vec<QueueEntry> {
        self.lock().entries.displace(sender, bytes, lacking)
    }

    /// Takes nothing in any more.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.came.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, EntryLine> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The emptying end: there is one. Dropped, it drops what waits, and nothing more is taken in.
pub(super) struct EntryReader(pub(super) Arc<WaitingEntries>);

impl EntryReader {
    /// Takes the next entry, if one waits.
    pub(super) fn take(&mut self) -> Option<QueueEntry> {
        self.0.lock().entries.take()
    }

    /// Waits for the next entry; `None` once all are taken and no more are taken in.
    pub(super) async fn next(&mut self) -> Option<QueueEntry> {
        loop {
            let is_closed = self.0.lock().is_closed;
            match self.take() {
                None if !is_closed => self.0.came.notified().await,
                entry => return entry,
            }
        }
    }

    /// Lets the offering end take nothing in any more.
    pub(super) fn close(&self) {
        self.0.close();
    }
}

impl Drop for EntryReader {
    fn drop(&mut self) {
        self.close();
        while self.take().is_some() {}
    }
}
