//! Unwritten notes, held until a failed log can be written again.

use bytes::Bytes;

use super::super::frame::{RECORD_HEAD_BYTES, RecordHead};
use super::super::queue::WaitingRecord;
use super::LogWriter;
use spanscore_base::model::NoteClaim;

/// Limit on the bytes of notes held for a failed log.
const UNWRITTEN_BYTES_MAX: usize = 4 << 20;

/// Notes that could not be written.
#[derive(Default)]
pub(super) struct UnwrittenNotes {
    pub(super) notes: Vec<(RecordHead, Bytes, Option<NoteClaim>)>,
    bytes: usize,
}

impl UnwrittenNotes {
    /// Holds a note for later, if the limit allows it.
    pub(super) fn keep(&mut self, note: WaitingRecord) -> bool {
        let bytes = RECORD_HEAD_BYTES + note.payload.len();
        let has_room = self.bytes + bytes <= UNWRITTEN_BYTES_MAX;
        if has_room {
            self.bytes += bytes;
            self.notes.push((note.head, note.payload, note.note));
        }
        has_room
    }
}

impl LogWriter {
    /// Holds a note until the log can be written again, or counts it as lost.
    pub(super) fn hold_unwritten(&mut self, note: WaitingRecord) {
        if !self.unwritten.keep(note) {
            self.queue.count(|counts| counts.unwritten_notes += 1);
        }
    }
}
