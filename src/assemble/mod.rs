//! Span records to complete traces, and traces to sessions.
