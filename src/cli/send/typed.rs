//! Decoded OTLP requests, to be written as JSON: for recordings, and `send` over `http/json`.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

use spanscore_base::otlp::Signal;
use spanscore_base::otlp::metrics::count_points;

/// Decoded request.
pub(crate) enum TypedRequest {
    /// Spans.
    Traces(ExportTraceServiceRequest),
    /// Log records.
    Logs(ExportLogsServiceRequest),
    /// Metrics.
    Metrics(ExportMetricsServiceRequest),
}

impl TypedRequest {
    /// Decodes a request.
    ///
    /// # Errors
    /// Bytes that are no request of this signal.
    pub(crate) fn new(signal: Signal, body: &Bytes) -> Result<Self, prost::DecodeError> {
        Ok(match signal {
            Signal::Traces => Self::Traces(Message::decode(body.clone())?),
            Signal::Logs => Self::Logs(Message::decode(body.clone())?),
            Signal::Metrics => Self::Metrics(Message::decode(body.clone())?),
        })
    }

    /// Counts spans, log records or data points; `body` is the request as encoded.
    pub(crate) fn item_count(&self, body: &[u8]) -> u64 {
        let count = match self {
            Self::Traces(request) => {
                let scopes = request.resource_spans.iter().flat_map(|r| &r.scope_spans);
                scopes.map(|scope| scope.spans.len()).sum::<usize>()
            }
            Self::Logs(request) => {
                let scopes = request.resource_logs.iter().flat_map(|r| &r.scope_logs);
                scopes.map(|scope| scope.log_records.len()).sum()
            }
            // It was decoded, so it is well-formed.
            Self::Metrics(_) => return count_points(body).unwrap_or(0),
        };
        count as u64
    }

    /// Encodes it as one line of OTLP/JSON.
    ///
    /// # Errors
    /// A value without a form in JSON.
    pub(crate) fn json(&self) -> serde_json::Result<Vec<u8>> {
        match self {
            Self::Traces(request) => serde_json::to_vec(request),
            Self::Logs(request) => serde_json::to_vec(request),
            Self::Metrics(request) => serde_json::to_vec(request),
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::metrics::v1::{
        Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric::Data,
    };

    use super::*;

    #[test]
    fn metrics_are_counted_by_their_points_as_collectors_count_them() {
        let points = |count| Metric {
            data: Some(Data::Gauge(Gauge { data_points: vec![NumberDataPoint::default(); count] })),
            ..Metric::default()
        };
        let scope = ScopeMetrics { metrics: vec![points(3), points(2)], ..Default::default() };
        let resource = ResourceMetrics { scope_metrics: vec![scope], ..Default::default() };
        let request = ExportMetricsServiceRequest { resource_metrics: vec![resource] };
        let body: Bytes = request.encode_to_vec().into();
        let message = TypedRequest::new(Signal::Metrics, &body).expect("OTLP");
        assert_eq!(message.item_count(&body), 5);
    }
}
