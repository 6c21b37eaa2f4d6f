//! Our own logs, metrics and health.
