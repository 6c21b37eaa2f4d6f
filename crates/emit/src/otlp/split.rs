//! Splitting of an encoded request into records, so that a refused one can be bisected.

use std::ops::Range;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

use spanscore_base::otlp::Signal;

/// Records of a request, in order.
pub(crate) enum RequestRecords {
    Events(Grouped<LogRecord>),
    Spans(Grouped<Span>),
}

/// Records, each with the index of its head.
pub(crate) struct Grouped<T> {
    heads: Vec<RecordsHead>,
    records: Vec<(usize, T)>,
}

/// Resource and scope of records.
struct RecordsHead {
    resource: Option<Resource>,
    resource_schema_url: String,
    scope: Option<InstrumentationScope>,
    schema_url: String,
}

impl<T: Clone> Grouped<T> {
    fn new() -> Self {
        Self { heads: Vec::new(), records: Vec::new() }
    }

    fn add(&mut self, head: RecordsHead, records: Vec<T>) {
        let place = self.heads.len();
        self.heads.push(head);
        self.records.extend(records.into_iter().map(|record| (place, record)));
    }

    /// Yields each run of records with the same head in a range.
    fn part(&self, range: Range<usize>) -> impl Iterator<Item = (&RecordsHead, Vec<T>)> {
        let part = self.records.get(range).unwrap_or_default();
        part.chunk_by(|one, next| one.0 == next.0).filter_map(|run| {
            let head = self.heads.get(run.first()?.0)?;
            Some((head, run.iter().map(|(_, record)| record.clone()).collect()))
        })
    }
}

impl RequestRecords {
    /// Decodes a request; `None` unless it is of logs or traces.
    pub(crate) fn decode(signal: Signal, request: &[u8]) -> Option<Self> {
        match signal {
            Signal::Logs => {
                let request = ExportLogsServiceRequest::decode(request).ok()?;
                let mut grouped = Grouped::new();
                for ResourceLogs { resource, scope_logs, schema_url } in request.resource_logs {
                    for ScopeLogs { scope, log_records, schema_url: inner } in scope_logs {
                        let head = head(&resource, &schema_url, scope, inner);
                        grouped.add(head, log_records);
                    }
                }
                Some(Self::Events(grouped))
            }
            Signal::Traces => {
                let request = ExportTraceServiceRequest::decode(request).ok()?;
                let mut grouped = Grouped::new();
                for ResourceSpans { resource, scope_spans, schema_url } in request.resource_spans {
                    for ScopeSpans { scope, spans, schema_url: inner } in scope_spans {
                        grouped.add(head(&resource, &schema_url, scope, inner), spans);
                    }
                }
                Some(Self::Spans(grouped))
            }
            Signal::Metrics => None,
        }
    }

    /// Encodes a request with some of the records.
    pub(crate) fn part(&self, range: Range<usize>) -> Vec<u8> {
        match self {
            Self::Events(records) => {
                let logs = records.part(range).map(|(head, log_records)| ResourceLogs {
                    resource: head.resource.clone(),
                    scope_logs: vec![ScopeLogs {
                        scope: head.scope.clone(),
                        log_records,
                        schema_url: head.schema_url.clone(),
                    }],
                    schema_url: head.resource_schema_url.clone(),
                });
                ExportLogsServiceRequest { resource_logs: logs.collect() }.encode_to_vec()
            }
            Self::Spans(records) => {
                let spans = records.part(range).map(|(head, spans)| ResourceSpans {
                    resource: head.resource.clone(),
                    scope_spans: vec![ScopeSpans {
                        scope: head.scope.clone(),
                        spans,
                        schema_url: head.schema_url.clone(),
                    }],
                    schema_url: head.resource_schema_url.clone(),
                });
                ExportTraceServiceRequest { resource_spans: spans.collect() }.encode_to_vec()
            }
        }
    }
}

fn head(
    resource: &Option<Resource>,
    resource_schema_url: &str,
    scope: Option<InstrumentationScope>,
    schema_url: String,
) -> RecordsHead {
    let resource_schema_url = resource_schema_url.to_owned();
    RecordsHead { resource: resource.clone(), resource_schema_url, scope, schema_url }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::testing;

    #[test]
    fn parts_of_a_request_hold_its_records_below_their_resources() {
        let (events, spans) = testing::requests(5);
        let records = RequestRecords::decode(Signal::Logs, &events).expect("a request");
        assert_eq!(records.part(0..5), events);
        let count = |part: &[u8]| {
            let request = ExportLogsServiceRequest::decode(part).expect("a request");
            let counts =
                request.resource_logs.iter().map(|logs| logs.scope_logs[0].log_records.len());
            counts.collect::<Vec<_>>()
        };
        assert_eq!(count(&events), [3, 2]);
        assert_eq!(count(&records.part(0..2)), [2]);
        assert_eq!(count(&records.part(2..5)), [1, 2]);
        let records = RequestRecords::decode(Signal::Traces, &spans).expect("a request");
        assert_eq!(records.part(0..5), spans);
        assert_ne!(records.part(1..5), spans);
    }
}
