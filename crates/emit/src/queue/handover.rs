//! Replacement of a queue when the settings of its exporter change.
//!
//! ```text
//! old: offer ──► waiting ─┐               (deliveries in flight have HANDOVER_WAIT to arrive)
//!                         ├──► new: entries handed over, then those offered since
//! old: not arrived ───────┘
//! ```
//!
//! The new queue takes offers at once, but delivers nothing before the old one has ended: so no
//! file has two writers and no overflow two readers. Deliveries unanswered after [`HANDOVER_WAIT`]
//! are sent again by the new queue with the same ids. A backend that took them gets them twice, as
//! after any lost answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Held, QueueEntry};

/// Time for deliveries in flight before the new queue sends them again.
pub(super) const HANDOVER_WAIT: Duration = Duration::from_secs(5);

/// Entries that a queue hands over, the oldest first.
pub(super) type HandedOver = VecDeque<QueueEntry>;

/// Receiver of a replaced queue's entries.
pub(crate) struct Predecessor {
    held: Option<Arc<Held>>,
    will: oneshot::Receiver<HandedOver>,
}

/// Sender of a queue's entries to its replacement. Dropping it starts the replacement empty.
pub(crate) struct Successor(oneshot::Sender<HandedOver>);

impl Predecessor {
    /// Returns both ends for a queue whose predecessor holds `held`.
    pub(super) fn behind(held: Option<Arc<Held>>) -> (Self, Successor) {
        let (sender, will) = oneshot::channel();
        (Self { held, will }, Successor(sender))
    }

    /// Returns both ends for a queue without a predecessor, which waits to be started.
    pub(crate) fn without_predecessor() -> (Self, Successor) {
        Self::behind(None)
    }

    pub(super) fn into_parts(self) -> (Option<Arc<Held>>, Option<oneshot::Receiver<HandedOver>>) {
        (self.held, Some(self.will))
    }
}

/// Replacement of a queue, once known.
#[derive(Default)]
pub(super) struct SuccessorSlot(Mutex<Option<Successor>>);

impl SuccessorSlot {
    pub(super) fn name(&self, to: Successor) {
        *self.0.lock() = Some(to);
    }

    /// Hands over the entries; without a replacement, their reservations settle themselves.
    pub(super) fn give(&self, handed_over: HandedOver) {
        let to = self.0.lock().take();
        if let Some(Successor(to)) = to {
            let _ = to.send(handed_over);
        }
    }
}
