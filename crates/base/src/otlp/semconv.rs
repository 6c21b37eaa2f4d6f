//! Attribute keys that more than one stage reads or writes, each with its source.

/// OpenTelemetry resource conventions.
pub const SERVICE_NAME: &str = "service.name";

/// The name of a log event in older log records without a field for it (OpenTelemetry conventions).
pub const EVENT_NAME: &str = "event.name";

/// The id of a model reply, on its span and on events about it (GenAI conventions).
pub const RESPONSE_ID: &str = "gen_ai.response.id";

/// Name of an evaluation event (GenAI conventions).
pub const EVALUATION_EVENT: &str = "gen_ai.evaluation.result";

/// Version of the conventions that the output follows: the first with `gen_ai.evaluation.result`.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.38.0";

/// Instrumentation scope of all output, by which received spans are recognised as the output of a
/// collector.
pub const OWN_SCOPE: &str = "spanscore";
