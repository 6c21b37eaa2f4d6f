//! Attribute keys that more than one stage reads or writes, each with its source.

/// OpenTelemetry resource conventions.
pub const SERVICE_NAME: &str = "service.name";

/// The name of a log event, before log records had a field for it (OpenTelemetry conventions).
pub const EVENT_NAME: &str = "event.name";

/// The id of a model's reply, on its span and on events about it (GenAI conventions).
pub const RESPONSE_ID: &str = "gen_ai.response.id";

/// The version of the conventions that what we send follows: the first with
/// `gen_ai.evaluation.result`.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.38.0";

/// The instrumentation scope of everything that we send: what comes back with it is no agent's.
pub const OWN_SCOPE: &str = "spanscore";
