//! Signals of OTLP, and the words that the protocol has for each.

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
    /// All, in the order of declaration.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Logs, Self::Metrics];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the path of the gRPC method that takes it.
    pub fn grpc_path(self) -> &'static str {
        match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        }
    }

    /// Returns the path that takes it over HTTP, unless a receiver is configured otherwise.
    pub fn http_path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Logs => "/v1/logs",
            Self::Metrics => "/v1/metrics",
        }
    }

    /// Returns the key of the rejected items in a partial success in JSON; in protobuf it is one
    /// number for all signals.
    pub fn rejected_key(self) -> &'static str {
        match self {
            Self::Traces => "rejectedSpans",
            Self::Logs => "rejectedLogRecords",
            Self::Metrics => "rejectedDataPoints",
        }
    }
}
