//! The limits of one trace.

/// A limit of one trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceLimit {
    /// Its number of spans.
    Spans,
    /// Bytes retained of them.
    Bytes,
}

impl TraceLimit {
    /// Returns the field of [`LimitsSettings`](crate::LimitsSettings) that sets it.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Spans => "spans_per_trace_max",
            Self::Bytes => "trace_mib_max",
        }
    }
}

/// Records left out of a trace by a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeftOut {
    /// The limit reached first.
    pub(crate) limit: TraceLimit,
    /// Number of records left out.
    pub(crate) count: u64,
}

/// Limits of one trace.
#[derive(Clone, Copy, Default)]
pub(crate) struct TraceLimits {
    pub(crate) spans_max: usize,
    pub(crate) bytes_max: usize,
}
