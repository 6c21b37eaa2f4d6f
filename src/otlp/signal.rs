//! The kinds of OTLP data.

/// The kinds of OTLP data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Signal {
    /// `ExportTraceServiceRequest`.
    Traces,
    /// `ExportLogsServiceRequest`.
    Logs,
    /// `ExportMetricsServiceRequest`.
    Metrics,
}
