//! The limits of one trace.

/// A limit of one trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceLimit {
    /// Its number of spans.
    Spans,
    /// The bytes kept of them.
    Bytes,
}

impl TraceLimit {
    /// The field of [`LimitsSettings`](crate::assemble::LimitsSettings) that says how much it is.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Spans => "spans_per_trace_max",
            Self::Bytes => "trace_mib_max",
        }
    }
}
