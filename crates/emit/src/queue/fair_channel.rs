//! Channel of queue entries, fair to their senders: for exporters and forwards.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use spanscore_base::model::{DisplacedItem, FairQueue, Sender};

/// Limit on wider searches if the displaced entries free less than their cost.
const DISPLACE_ROUNDS: usize = 8;

/// Shared part of a fair channel.
pub(crate) struct FairChannel<T> {
    line: Mutex<FairChannelState<T>>,
    /// Notified at each entry and at the close.
    came: Notify,
}

struct FairChannelState<T> {
    entries: FairQueue<T>,
    is_closed: bool,
}

impl<T> FairChannel<T> {
    /// Returns both ends of an empty channel.
    pub(crate) fn new() -> (Arc<Self>, FairReceiver<T>) {
        let line = Mutex::new(FairChannelState { entries: FairQueue::default(), is_closed: false });
        let waiting = Arc::new(Self { line, came: Notify::new() });
        (Arc::clone(&waiting), FairReceiver(waiting))
    }

    /// Adds an entry of a sender.
    ///
    /// # Errors
    /// The entry, if the channel is closed.
    pub(crate) fn put(&self, sender: Sender, bytes: usize, entry: T) -> Result<(), T> {
        let mut line = self.line.lock();
        if line.is_closed {
            return Err(entry);
        }
        line.entries.put(sender, bytes, entry);
        drop(line);
        self.came.notify_one();
        Ok(())
    }

    /// Makes room for an entry of a sender by displacing larger senders: takes entries that free
    /// the lacking bytes, and puts back the part of each that `gone` returns. Takes nothing if they
    /// cannot.
    ///
    /// `freed` returns the bytes that entries free together, at most their cost.
    pub(crate) fn displace(
        &self,
        (sender, bytes): (Sender, usize),
        lacking: usize,
        freed: impl Fn(&[DisplacedItem<T>]) -> usize,
        mut gone: impl FnMut(T) -> Option<T>,
    ) -> bool {
        let mut line = self.line.lock();
        let mut found = Vec::new();
        let mut left = lacking;
        for _ in 0..DISPLACE_ROUNDS {
            let more = line.entries.displace(sender, bytes, left);
            if more.is_empty() {
                break;
            }
            found.extend(more);
            left = lacking.saturating_sub(freed(&found));
            if left == 0 {
                break;
            }
        }
        // The newest were taken first.
        for DisplacedItem { sender, cost, content } in found.into_iter().rev() {
            let stays = if left == 0 { gone(content) } else { Some(content) };
            if let Some(content) = stays {
                line.entries.put(sender, cost, content);
            }
        }
        left == 0
    }

    /// Closes the channel to new entries.
    pub(crate) fn close(&self) {
        self.line.lock().is_closed = true;
        self.came.notify_one();
    }
}

/// Returns the lacking bytes for an entry: beyond the queue's limit, or beyond the rest `left` of
/// all queues' quota.
pub(crate) fn lacking(held: usize, bytes: usize, bytes_max: usize, left: usize) -> usize {
    let beyond = held.saturating_add(bytes).saturating_sub(bytes_max);
    match beyond.max(bytes.saturating_sub(left)) {
        // Its part of the quota is lacking.
        0 => bytes,
        beyond => beyond,
    }
}

/// Receiver of a fair channel, the only one. Dropping it drops the entries and closes the channel.
pub(crate) struct FairReceiver<T>(Arc<FairChannel<T>>);

impl<T> FairReceiver<T> {
    /// Takes the next entry, if any.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.line.lock().entries.take()
    }

    /// Waits for the next entry; `None` once the channel is closed and empty.
    pub(crate) async fn next(&mut self) -> Option<T> {
        loop {
            let is_closed = self.0.line.lock().is_closed;
            match self.take() {
                None if !is_closed => self.0.came.notified().await,
                entry => return entry,
            }
        }
    }

    /// Closes the channel to new entries.
    pub(crate) fn close(&self) {
        self.0.close();
    }
}

impl<T> Drop for FairReceiver<T> {
    fn drop(&mut self) {
        self.close();
        while self.take().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lacking_bytes_are_those_of_the_tighter_limit() {
        for (held, bytes, bytes_max, left, expected) in [
            (90, 20, 100, 1000, 10),
            (90, 20, 100, 5, 15),
            (90, 20, 1000, 5, 15),
            (90, 20, 1000, 1000, 20),
        ] {
            let found = lacking(held, bytes, bytes_max, left);
            assert_eq!(found, expected, "{held} and {bytes} of {bytes_max}, {left} left");
        }
    }

    /// Fills the channel by another sender, 10 entries of 100 bytes that each free `frees`; returns
    /// those displaced for the lacking bytes.
    fn check(frees: usize, lacking: usize) -> Vec<u32> {
        let [flood, few] = [1, 2].map(|peer| Sender { peer, ..Sender::default() });
        let (line, mut reader) = FairChannel::new();
        (0..10).for_each(|number| assert!(line.put(flood, 100, number).is_ok()));
        let freed = |found: &[DisplacedItem<u32>]| found.len() * frees;
        let mut gone = Vec::new();
        let is_made = line.displace((few, 10), lacking, freed, |number| {
            gone.push(number);
            None
        });
        assert_eq!(is_made, !gone.is_empty());
        let left: Vec<_> = std::iter::from_fn(|| reader.take()).collect();
        assert!(left.is_sorted() && left.len() + gone.len() == 10, "{left:?}");
        gone
    }

    #[test]
    fn entries_make_room_by_what_they_free_or_stay() {
        assert_eq!(check(100, 150), [8, 9]);
        assert_eq!(check(50, 150), [7, 8, 9]);
        assert_eq!(check(0, 1), [0; 0]);
        assert_eq!(check(50, 600), [0; 0], "they have not so much");
    }
}
