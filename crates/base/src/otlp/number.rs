//! Field numbers of the OTLP messages that are read without full decoding.

/// `ExportTraceServiceRequest.resource_spans`, `ExportLogsServiceRequest.resource_logs`.
pub const REQUEST_RESOURCES: u32 = 1;
/// `ResourceSpans.resource`, `ResourceLogs.resource`.
pub const RESOURCE: u32 = 1;
/// `ResourceSpans.scope_spans`, `ResourceLogs.scope_logs`.
pub const SCOPES: u32 = 2;
/// `ScopeSpans.scope`, `ScopeLogs.scope`.
pub const SCOPE: u32 = 1;
/// `ScopeSpans.spans`, `ScopeLogs.log_records`.
pub const ITEMS: u32 = 2;
/// `InstrumentationScope.name`.
pub const SCOPE_NAME: u32 = 1;

/// Fields of `Span`.
pub mod span {
    /// `bytes trace_id`
    pub const TRACE_ID: u32 = 1;
    /// `bytes span_id`
    pub const SPAN_ID: u32 = 2;
    /// `bytes parent_span_id`
    pub const PARENT_ID: u32 = 4;
    /// `string name`
    pub const NAME: u32 = 5;
    /// `SpanKind kind`
    pub const KIND: u32 = 6;
    /// `fixed64 start_time_unix_nano`
    pub const START: u32 = 7;
    /// `fixed64 end_time_unix_nano`
    pub const END: u32 = 8;
    /// `repeated KeyValue attributes`
    pub const ATTRIBUTES: u32 = 9;
    /// `uint32 dropped_attributes_count`
    pub const DROPPED_ATTRIBUTES: u32 = 10;
    /// `repeated Event events`
    pub const EVENTS: u32 = 11;
    /// `Status status`
    pub const STATUS: u32 = 15;
    /// `fixed32 flags`
    pub const FLAGS: u32 = 16;
    /// Bits of `flags`: the parent is known to be remote.
    pub const FLAGS_REMOTE_PARENT: u32 = 0x300;
    /// `Event.name`
    pub const EVENT_NAME: u32 = 2;
    /// `Event.attributes`
    pub const EVENT_ATTRIBUTES: u32 = 3;
    /// `Status.message`
    pub const STATUS_MESSAGE: u32 = 2;
    /// `Status.code`
    pub const STATUS_CODE: u32 = 3;
    /// `STATUS_CODE_ERROR`
    pub const STATUS_ERROR: u64 = 2;
}

/// Fields of `LogRecord`.
pub mod log {
    /// `fixed64 time_unix_nano`
    pub const TIME: u32 = 1;
    /// `AnyValue body`
    pub const BODY: u32 = 5;
    /// `repeated KeyValue attributes`
    pub const ATTRIBUTES: u32 = 6;
    /// `bytes trace_id`
    pub const TRACE_ID: u32 = 9;
    /// `bytes span_id`
    pub const SPAN_ID: u32 = 10;
    /// `fixed64 observed_time_unix_nano`
    pub const OBSERVED_TIME: u32 = 11;
    /// `string event_name`
    pub const EVENT_NAME: u32 = 12;
}
