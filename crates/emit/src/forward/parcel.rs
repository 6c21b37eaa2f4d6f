//! Request on its way to one backend.
//!
//! Its outcome is counted exactly once; dropping it without an outcome counts it too.

use std::sync::Arc;

use bytes::Bytes;

use super::memory::{BodyRoom, ForwardMemory};
use super::progress::LogPlace;
use super::select::WantedTraces;
use crate::counters::Loss;
use spanscore_base::otlp::{ContentCoding, Signal};

/// Memory of a waiting request beside its body, bytes.
pub(super) const PARCEL_BYTES: usize = 256;

/// Body of a request.
#[derive(Clone, Debug)]
pub(super) enum Load {
    /// In memory.
    Held(HeldBody),
    /// Only in the log, with its size; `room` is the memory of its position, if reserved
    /// separately.
    InLog { bytes: usize, room: Option<Arc<BodyRoom>> },
}

impl Load {
    /// Returns the bytes of the body.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Held(held) => held.bytes.len(),
            Self::InLog { bytes, .. } => *bytes,
        }
    }

    /// Returns its reserved memory.
    pub(super) fn room(&self) -> Option<&Arc<BodyRoom>> {
        match self {
            Self::Held(held) => Some(&held.room),
            Self::InLog { room, .. } => room.as_ref(),
        }
    }
}

/// Body in memory.
#[derive(Clone, Debug)]
pub(super) struct HeldBody {
    pub(super) bytes: Bytes,
    pub(super) coding: Option<ContentCoding>,
    pub(super) is_json: bool,
    pub(super) room: Arc<BodyRoom>,
}

/// Body to keep in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptBody<'a> {
    pub(super) bytes: &'a Bytes,
    pub(super) coding: Option<ContentCoding>,
    pub(super) is_json: bool,
    /// True if it is part of a larger buffer, which it would keep alive: then it is copied.
    pub(super) is_shared: bool,
}

impl KeptBody<'_> {
    pub(super) fn held(&self, room: Arc<BodyRoom>) -> HeldBody {
        let Self { bytes, coding, is_json, is_shared } = *self;
        let bytes = if is_shared { Bytes::copy_from_slice(bytes) } else { bytes.clone() };
        HeldBody { bytes, coding, is_json, room }
    }
}

/// Request on its way to one backend.
#[derive(Debug)]
pub(super) struct ForwardParcel {
    pub(super) signal: Signal,
    pub(super) items: u64,
    pub(super) load: Load,
    pub(super) place: Option<LogPlace>,
    /// Traces to send; `None` for the whole request.
    pub(super) wanted: Option<WantedTraces>,
    pub(super) memory: Arc<ForwardMemory>,
    pub(super) is_settled: bool,
}

impl ForwardParcel {
    /// Counts it as sent, except items that the backend rejected.
    pub(super) fn sent(mut self, rejected: u64) {
        let rejected = rejected.min(self.items);
        self.is_settled = true;
        let counters = self.memory.counters.of(self.signal);
        counters.queued.take(1, self.items);
        counters.sent.add(1, self.items - rejected);
        if rejected > 0 {
            self.memory.counters.lost(self.signal, Loss::RejectedPartly, 0, rejected);
        }
    }

    /// Drops the body in memory but keeps its reservation, which covers the encoded request.
    pub(super) fn unload(&mut self) {
        if let Load::Held(held) = &mut self.load {
            held.bytes = Bytes::new();
        }
    }

    /// Returns true if its body is in memory and the log holds it too, since all of it is sent.
    pub(super) fn can_leave_body(&self) -> bool {
        self.wanted.is_none() && matches!(self.load, Load::Held(_))
    }

    /// Drops it without an outcome, since its request waits in another form.
    pub(super) fn discard(mut self) {
        self.is_settled = true;
    }

    /// Counts it as lost.
    pub(super) fn lost(mut self, reason: Loss) {
        self.settle_lost(reason);
    }

    fn settle_lost(&mut self, reason: Loss) {
        self.is_settled = true;
        self.memory.counters.of(self.signal).queued.take(1, self.items);
        self.memory.counters.lost(self.signal, reason, 1, self.items);
    }
}

impl Drop for ForwardParcel {
    fn drop(&mut self) {
        if matches!(self.load, Load::InLog { .. }) {
            self.memory.counters.in_log(self.signal, false);
        }
        if self.is_settled {
            return;
        }
        let is_closing = self.memory.closing.is_cancelled();
        match (&self.place, is_closing) {
            _ if is_closing && self.memory.is_removed() => {
                self.settle_lost(Loss::Removed);
            }
            // It stays in the log for the next process, and counts as queued.
            (Some(place), true) => place.leave(),
            (None, true) => self.settle_lost(Loss::ShutdownDeadline),
            (_, false) => self.settle_lost(Loss::Fault),
        }
    }
}
