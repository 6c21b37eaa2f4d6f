//! One queue in the place of another, where the settings of an exporter change.
//!
//! ```text
//! before: offer ──► waiting ─┐             (what is on its way has HANDOVER_WAIT to arrive)
//!                            ├──► after: what was handed over, then what was offered since
//! before: not arrived ───────┘
//! ```
//!
//! The queue after takes offers at once and delivers nothing before the one before has ended, so no
//! file has two writers and no overflow two readers. What is on its way and has no answer after
//! [`HANDOVER_WAIT`] is sent again by the queue after, with the same ids: a backend that took it
//! and did not say so gets it twice, as after any answer that is lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Held, QueueEntry};

/// Time that deliveries under way have to arrive before the queue after sends them again.
pub(super) const HANDOVER_WAIT: Duration = Duration::from_secs(5);

/// Entries that a queue hands over, the oldest first.
pub(super) type HandedOver = VecDeque<QueueEntry>;

/// The queue before, to the one after.
pub(crate) struct Predecessor {
    held: Option<Arc<Held>>,
    will: oneshot::Receiver<HandedOver>,
}

/// The queue after, to the one before. Dropped, it lets the queue after begin with nothing.
pub(crate) struct Successor(oneshot::Sender<HandedOver>);

impl Predecessor {
    /// Of a queue that holds so much already, together with the way to let it begin.
    pub(super) fn behind(held: Option<Arc<Held>>) -> (Self, Successor) {
        let (sender, will) = oneshot::channel();
        (Self { held, will }, Successor(sender))
    }

    /// Nobody before: a queue that waits to be let begin.
    pub(crate) fn nobody() -> (Self, Successor) {
        Self::behind(None)
    }

    pub(super) fn into_parts(self) -> (Option<Arc<Held>>, Option<oneshot::Receiver<HandedOver>>) {
        (self.held, Some(self.will))
    }
}

/// Successor that gets the entries that a queue hands over, once it is known.
#[derive(Default)]
pub(super) struct SuccessorSlot(Mutex<Option<Successor>>);

impl SuccessorSlot {
    pub(super) fn name(&self, to: Successor) {
        *self.0.lock() = Some(to);
    }

    /// Hands over; where the queue after is gone, rooms settle themselves.
    pub(super) fn give(&self, handed_over: HandedOver) {
        let to = self.0.lock().take();
        if let Some(Successor(to)) = to {
            let _ = to.send(handed_over);
        }
    }
}
