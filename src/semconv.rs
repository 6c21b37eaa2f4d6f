//! Attribute keys that more than one stage reads or writes, each with its source.

/// OpenTelemetry resource conventions.
pub const SERVICE_NAME: &str = "service.name";
