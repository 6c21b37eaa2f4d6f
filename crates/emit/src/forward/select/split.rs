//! Splitting of requests by trace: lists their traces, and copies a request with some of them.
//! Items without a valid trace id belong to no trace.

use hashbrown::HashMap;

use super::WantedTraces;
use crate::otlp::split;
use spanscore_base::model::TraceId;
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::request::{RequestStep, trace_id, walk};

/// Items of a request by trace, and those without a trace.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ItemsByTrace {
    pub(super) traces: HashMap<TraceId, u64>,
    pub(super) without: u64,
}

/// Counts the items of a request by trace; a malformed request counts up to the fault.
pub(super) fn items_by_trace(signal: Signal, request: &[u8]) -> ItemsByTrace {
    let mut found = ItemsByTrace::default();
    // The readable rest counts.
    let _ = walk(request, |step| {
        let RequestStep::Item(item) = step else { return };
        match trace_of(signal, item) {
            Some(trace) => *found.traces.entry(trace).or_default() += 1,
            None => found.without += 1,
        }
    });
    found
}

/// Copies a request with only the wanted traces' items; `None` if it has none.
pub(in crate::forward) fn only(
    signal: Signal,
    request: &[u8],
    wanted: &WantedTraces,
) -> Option<Vec<u8>> {
    split::only(request, |item| trace_of(signal, item).is_some_and(|trace| wanted.has(trace)))
}

/// Returns the trace of an encoded span or log record.
fn trace_of(signal: Signal, item: &[u8]) -> Option<TraceId> {
    trace_id(signal, item).and_then(TraceId::from_wire)
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    use proptest::prelude::*;
    use prost::Message;

    use super::*;
    use spanscore_base::model::ClientGroup;

    fn id(trace: u8) -> TraceId {
        TraceId([trace; 16])
    }

    fn request(resources: &[Vec<Vec<u8>>]) -> ExportTraceServiceRequest {
        let span = |trace: &u8| Span {
            trace_id: vec![*trace; if *trace == 0 { 3 } else { 16 }],
            name: format!("of {trace}"),
            ..Span::default()
        };
        let scope = |traces: &Vec<u8>| ScopeSpans {
            spans: traces.iter().map(span).collect(),
            schema_url: "scope".to_owned(),
            ..ScopeSpans::default()
        };
        let resource = |scopes: &Vec<Vec<u8>>| ResourceSpans {
            resource: Some(Resource { dropped_attributes_count: 7, ..Resource::default() }),
            scope_spans: scopes.iter().map(scope).collect(),
            schema_url: "resource".to_owned(),
        };
        ExportTraceServiceRequest { resource_spans: resources.iter().map(resource).collect() }
    }

    /// Returns the expected copy by the generated types, to check the walk against.
    fn expected(
        request: &ExportTraceServiceRequest,
        wanted: &WantedTraces,
    ) -> ExportTraceServiceRequest {
        let mut request = request.clone();
        let is_wanted =
            |span: &Span| TraceId::from_wire(&span.trace_id).is_some_and(|trace| wanted.has(trace));
        for resource in &mut request.resource_spans {
            resource.scope_spans.iter_mut().for_each(|scope| scope.spans.retain(is_wanted));
            resource.scope_spans.retain(|scope| !scope.spans.is_empty());
        }
        request.resource_spans.retain(|resource| !resource.scope_spans.is_empty());
        request
    }

    fn wanted_of(traces: Vec<TraceId>) -> WantedTraces {
        WantedTraces::new(ClientGroup::default(), traces)
    }

    proptest! {
        #[test]
        fn only_the_items_of_wanted_traces_remain(
            resources in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(0u8..6, 0..5), 0..4), 0..4),
            wanted in prop::collection::vec(1u8..6, 0..4),
        ) {
            let request = request(&resources);
            let encoded = request.encode_to_vec();
            let wanted = wanted_of(wanted.into_iter().map(id).collect());
            let expected = expected(&request, &wanted);
            let part = only(Signal::Traces, &encoded, &wanted);
            let is_empty = expected.resource_spans.is_empty();
            prop_assert_eq!(part, (!is_empty).then(|| expected.encode_to_vec()));
            let counts = items_by_trace(Signal::Traces, &encoded);
            let all: u64 = counts.traces.values().sum();
            let spans = resources.iter().flatten().flatten().count() as u64;
            prop_assert_eq!(all + counts.without, spans);
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let counts = items_by_trace(Signal::Traces, &bytes);
            let all = wanted_of(counts.traces.keys().copied().collect());
            let part = only(Signal::Traces, &bytes, &all);
            prop_assert_eq!(part.is_some(), !counts.traces.is_empty());
        }
    }

    #[test]
    fn all_of_it_is_the_same_bytes_and_unknown_fields_stay() {
        let mut encoded = request(&[vec![vec![1, 2], vec![1]]]).encode_to_vec();
        // Field 900, a varint, after the resources.
        encoded.extend([0xa0, 0x38, 0x05]);
        let both = wanted_of(vec![id(1), id(2)]);
        assert_eq!(only(Signal::Traces, &encoded, &both).as_deref(), Some(&encoded[..]));
        let one = only(Signal::Traces, &encoded, &wanted_of(vec![id(2)])).unwrap();
        assert!(one.ends_with(&[0xa0, 0x38, 0x05]) && one.len() < encoded.len());
        assert_eq!(only(Signal::Traces, &encoded, &wanted_of(vec![id(9)])), None);
    }

    #[test]
    fn log_records_are_chosen_by_their_trace() {
        let record = |trace: u8| LogRecord { trace_id: vec![trace; 16], ..LogRecord::default() };
        let log_records = vec![record(1), record(2), LogRecord::default()];
        let scope = ScopeLogs { log_records, ..ScopeLogs::default() };
        let resource = ResourceLogs { scope_logs: vec![scope], ..ResourceLogs::default() };
        let request = ExportLogsServiceRequest { resource_logs: vec![resource] }.encode_to_vec();
        let counts = items_by_trace(Signal::Logs, &request);
        assert_eq!((counts.traces.len(), counts.without), (2, 1));
        let part = only(Signal::Logs, &request, &wanted_of(vec![id(2)])).unwrap();
        let part = ExportLogsServiceRequest::decode(&part[..]).unwrap();
        assert_eq!(part.resource_logs[0].scope_logs[0].log_records, [record(2)]);
    }
}
