//! Spans and log events to tool calls.
