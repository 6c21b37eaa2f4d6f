//! What is kept of a span, as sets.

use super::bit_set::BitSet;

/// What to keep of a span.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in super::super) struct Kept {
    /// Slots to keep.
    pub(in super::super) slots: BitSet,
    /// Slots to keep if their text speaks of tools.
    pub(in super::super) tools_only: BitSet,
    /// Prefixes to keep, a bit each.
    pub(in super::super) prefixes: u64,
    /// Event names to keep, a bit each.
    pub(in super::super) events: u64,
    /// [`SpanPart`]s to keep, a bit each.
    pub(in super::super) parts: u8,
    /// Keep the attributes of [`Worded`](super::Worded) keys.
    pub(in super::super) worded: bool,
    /// Keep those of them that hold messages about tools.
    pub(in super::super) worded_bodies: bool,
}

/// A part of a span beside its attributes and events.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum SpanPart {
    SpanName = 1,
    StatusMessage = 2,
    LogBody = 4,
}

impl Kept {
    #[inline]
    pub(in super::super) fn extend(&mut self, other: &Self) {
        self.slots.extend(&other.slots);
        self.tools_only.extend(&other.tools_only);
        self.prefixes |= other.prefixes;
        self.events |= other.events;
        self.parts |= other.parts;
        self.worded |= other.worded;
        self.worded_bodies |= other.worded_bodies;
    }

    #[inline]
    pub(in super::super) fn has(&self, part: SpanPart) -> bool {
        self.parts & part as u8 != 0
    }
}
