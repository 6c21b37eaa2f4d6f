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
