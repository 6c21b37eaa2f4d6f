//! A request on its way to one backend.
//!
//! It is settled once, with what became of it; one that is dropped before settles itself.

use std::sync::Arc;

use bytes::Bytes;

use super::memory::{BodyRoom, ForwardMemory};
use super::passed::LogPlace;
use super::select::WantedTraces;
use crate::counters::Loss;
use spanscore_base::otlp::{ContentCoding, Signal};

/// Bytes that a waiting request takes beside its body.
pub(super) const PARCEL_BYTES: usize = 256;

/// The body of a request.
#[derive(Clone, Debug)]
pub(super) enum Load {
    /// In memory.
    Held(HeldBody),
    /// So many bytes in the log; the room is that of its place, where that has one of its own.
    InLog { bytes: usize, room: Option<Arc<BodyRoom>> },
}

impl Load {
    /// Bytes of the body.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Held(held) => held.bytes.len(),
            Self::InLog { bytes, .. } => *bytes,
        }
    }

    /// The room that it has in memory.
    pub(super) fn room(&self) -> Option<&Arc<BodyRoom>> {
        match self {
            Self::Held(held) => Some(&held.room),
            Self::InLog { room, .. } => room.as_ref(),
        }
    }
}

/// A body in memory.
#[derive(Clone, Debug)]
pub(super) struct HeldBody {
    pub(super) bytes: Bytes,
    pub(super) coding: Option<ContentCoding>,
    pub(super) is_json: bool,
    pub(super) room: Arc<BodyRoom>,
}

/// A body that is to be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptBody<'a> {
    pub(super) bytes: &'a Bytes,
    pub(super) coding: Option<ContentCoding>,
    pub(super) is_json: bool,
    /// True if it is part of a larger buffer, which would live as long: then it is copied.
    pub(super) is_shared: bool,
}

impl KeptBody<'_> {
    pub(super) fn held(&self, room: Arc<BodyRoom>) -> HeldBody {
        let Self { bytes, coding, is_json, is_shared } = *self;
        let bytes = if is_shared { Bytes::copy_from_slice(bytes) } else { bytes.clone() };
        HeldBody { bytes, coding, is_json, room }
    }
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct ForwardParcel {
    pub(super) signal: Signal,
    pub(super) items: u64,
    pub(super) load: Load,
    pub(super) place: Option<LogPlace>,
    /// The traces of it that are sent; all of it where this is `None`.
    pub(super) wanted: Option<WantedTraces>,
    pub(super) memory: Arc<ForwardMemory>,
    pub(super) is_settled: bool,
}

impl ForwardParcel {
    /// Counts that it arrived, but for what the backend did not take.
    pub(super) fn sent(mut self, rejected: u64) {
        let rejected = rejected.min(self.items);
        self.is_settled = true;
        self.memory.books.dequeued(self.signal, self.items);
        self.memory.books.sent(self.signal, self.items - rejected);
        if rejected > 0 {
            self.memory.books.lost(self.signal, Loss::RejectedPartly, 0, rejected);
        }
    }

    /// Lets go of the body in memory, not of its room: what is sent stands for it.
    pub(super) fn unload(&mut self) {
        if let Load::Held(held) = &mut self.load {
            held.bytes = Bytes::new();
        }
    }

    /// Returns true if its body is kept in memory and may be read from the log as well: all of it
    /// is sent.
    pub(super) fn can_leave_body(&self) -> bool {
        self.wanted.is_none() && matches!(self.load, Load::Held(_))
    }

    /// Lets go of it where its request waits on in another way.
    pub(super) fn goes_on(mut self) {
        self.is_settled = true;
    }

    /// Counts that it is lost.
    pub(super) fn lost(mut self, reason: Loss) {
        self.settle_lost(reason);
    }

    fn settle_lost(&mut self, reason: Loss) {
        self.is_settled = true;
        self.memory.books.dequeued(self.signal, self.items);
        self.memory.books.lost(self.signal, reason, 1, self.items);
    }
}

impl Drop for ForwardParcel {
    fn drop(&mut self) {
        if matches!(self.load, Load::InLog { .. }) {
            self.memory.books.in_log(self.signal, false);
        }
        if self.is_settled {
            return;
        }
        let is_closing = self.memory.closing.is_cancelled();
        match (&self.place, is_closing) {
            _ if is_closing && self.memory.is_removed() => {
                self.settle_lost(Loss::Removed);
            }
            // It stays in the log, for the next process, and counts as queued.
            (Some(place), true) => place.leave(),
            (None, true) => self.settle_lost(Loss::ShutdownDeadline),
            (_, false) => self.settle_lost(Loss::Fault),
        }
    }
}
