//! Counts of a request's items: accepted, recorded, rejected by reason.

use std::fmt;
use strum::{IntoStaticStr, VariantArray};

use spanscore_base::otlp::request::Broken;
use spanscore_base::otlp::wire::Malformed;

/// Reason for the rejection of a span or log record: a closed set, for counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Rejection {
    /// The trace id does not have 16 bytes or is zero.
    InvalidTraceId,
    /// The span id does not have 8 bytes or is zero.
    InvalidSpanId,
    /// The parent's id is neither empty nor of 8 bytes.
    InvalidParentId,
    /// The protobuf is malformed.
    Malformed,
    /// A batch is full: its arena has no room.
    BatchFull,
}

impl Rejection {
    /// All reasons.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Returns the label for counters.
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
    /// Accepted spans or log records.
    pub accepted: u64,
    /// Accepted items with a record: all spans, but only log events read by a dialect.
    pub records: u64,
    /// Spans that ended before they started: accepted, with the start as their end.
    pub ended_before_start: u64,
    rejected: [u64; Rejection::ALL.len()],
    /// Error in the request itself, if any.
    broken: Option<Broken>,
}

impl Extracted {
    /// Returns counts of accepted items without records.
    pub fn counted(accepted: u64) -> Self {
        Self { accepted, ..Self::default() }
    }

    /// Returns the number of items rejected for a reason.
    pub fn rejected(&self, reason: Rejection) -> u64 {
        self.rejected[reason as usize]
    }

    /// Returns the number of all rejected items.
    pub fn rejected_total(&self) -> u64 {
        self.rejected.iter().sum()
    }

    /// Returns the reasons of the rejections for the sender; empty without any.
    pub fn message(&self) -> String {
        self.to_string()
    }

    /// Counts the items lost by an error in the request.
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
