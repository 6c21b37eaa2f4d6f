//! OTLP signals with their names in the protocol.

use strum::IntoStaticStr;

/// Kind of OTLP data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Signal {
    /// `ExportTraceServiceRequest`.
    Traces,
    /// `ExportLogsServiceRequest`.
    Logs,
    /// `ExportMetricsServiceRequest`.
    Metrics,
}

impl Signal {
    /// All signals, in the order of declaration.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Logs, Self::Metrics];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns its gRPC method path.
    pub fn grpc_path(self) -> &'static str {
        match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        }
    }

    /// Returns its default HTTP path.
    pub fn http_path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Logs => "/v1/logs",
            Self::Metrics => "/v1/metrics",
        }
    }

    /// Returns the JSON key of the rejected items in a partial success; protobuf has one number for
    /// all signals.
    pub fn rejected_key(self) -> &'static str {
        match self {
            Self::Traces => "rejectedSpans",
            Self::Logs => "rejectedLogRecords",
            Self::Metrics => "rejectedDataPoints",
        }
    }
}
