//! Records of a trace that may be lent to the judging thread.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use smart_default::SmartDefault;

use spanscore_base::model::TraceSpans;

/// Records of a trace. Changing lent records copies them, and the borrower keeps the old ones.
#[derive(SmartDefault)]
pub(crate) enum LendableSpans {
    /// Never lent.
    #[default]
    Own(TraceSpans),
    Lent {
        spans: Arc<TraceSpans>,
        /// Bytes of the borrower's separate copy.
        copied: usize,
    },
}

impl LendableSpans {
    /// Lends them, unchanged until returned.
    pub(crate) fn lend(&mut self) -> Arc<TraceSpans> {
        if let Self::Own(own) = self {
            *self = Self::Lent { spans: Arc::new(std::mem::take(own)), copied: 0 };
        }
        match self {
            Self::Lent { spans, .. } => Arc::clone(spans),
            Self::Own(own) => Arc::new(own.clone()),
        }
    }

    /// Ends the loan; returns the bytes of the borrower's separate copy.
    pub(crate) fn give_back(&mut self) -> usize {
        match self {
            Self::Lent { copied, .. } => std::mem::take(copied),
            Self::Own(_) => 0,
        }
    }

    /// Returns the bytes of the borrower's separate copy.
    pub(crate) fn copied(&self) -> usize {
        match self {
            Self::Lent { copied, .. } => *copied,
            Self::Own(_) => 0,
        }
    }
}

impl Deref for LendableSpans {
    type Target = TraceSpans;

    fn deref(&self) -> &TraceSpans {
        match self {
            Self::Own(own) => own,
            Self::Lent { spans, .. } => spans,
        }
    }
}

impl DerefMut for LendableSpans {
    fn deref_mut(&mut self) -> &mut TraceSpans {
        match self {
            Self::Own(own) => own,
            Self::Lent { spans, copied } => {
                if Arc::strong_count(spans) > 1 {
                    *copied += spans.bytes();
                }
                Arc::make_mut(spans)
            }
        }
    }
}
