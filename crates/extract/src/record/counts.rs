//! Counts of a request's items: accepted, recorded, rejected by reason.

use std::fmt;
use strum::{IntoStaticStr, VariantArray};

use spanscore_base::otlp::request::Broken;
use spanscore_base::otlp::wire::Malformed;

/// Reason for which a span or log record is rejected: a closed set, for counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Rejection {
    /// The trace id has not 16 bytes or is all zero.
    InvalidTraceId,
    /// The span id has not 8 bytes or is all zero.
    InvalidSpanId,
    /// The parent's id is neither empty nor 8 bytes.
    InvalidParentId,
    /// It is no well-formed protobuf.
    Malformed,
    /// A batch has no room for more: its arena is full.
    BatchFull,
}

impl Rejection {
    /// All reasons.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The word for it in counters.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl From<Malformed> for Rejection {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Counts of a request's items: accepted, recorded, rejected by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extracted {
    /// Spans or log records that were taken.
    pub accepted: u64,
    /// Of those, the ones that became a record: all spans, but only the log events that some
    /// dialect reads.
    pub records: u64,
    /// Spans that ended before they started: taken, with the start as their end.
    pub ended_before_start: u64,
    rejected: [u64; Rejection::ALL.len()],
    /// Break of the request itself, if it has one.
    broken: Option<Broken>,
}

impl Extracted {
    /// So many items taken and only counted.
    pub fn counted(accepted: u64) -> Self {
        Self { accepted, ..Self::default() }
    }

    /// Items rejected for that reason.
    pub fn rejected(&self, reason: Rejection) -> u64 {
        self.rejected[reason as usize]
    }

    /// Items rejected in all.
    pub fn rejected_total(&self) -> u64 {
        self.rejected.iter().sum()
    }

    /// Returns the reasons of the rejections, for the sender; empty without any.
    pub fn message(&self) -> String {
        self.to_string()
    }

    /// Counts what a break of the request lost.
    pub(crate) fn lose(&mut self, broken: Broken) {
        self.rejected[Rejection::Malformed as usize] += broken.items;
        self.broken = Some(broken);
    }

    pub(crate) fn reject(&mut self, reason: Rejection) {
        self.rejected[reason as usize] += 1;
    }
}

impl fmt::Display for Extracted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut divider = "rejected: ";
        for &reason in Rejection::ALL {
            let count = self.rejected(reason);
            if count > 0 {
                let is_least = reason == Rejection::Malformed && self.broken.is_some();
                let least = if is_least { "at least " } else { "" };
                write!(f, "{divider}{least}{count} {}", reason.as_str())?;
                divider = ", ";
            }
        }
        match self.broken {
            Some(Broken { at, len, .. }) => write!(f, " (it breaks at byte {at} of {len})"),
            None => Ok(()),
        }
    }
}
