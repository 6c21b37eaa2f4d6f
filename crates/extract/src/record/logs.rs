//! Conversion of an encoded `ExportLogsServiceRequest` to records of the log events read by
//! dialects.
//!
//! Each log record with a trace id and an event name read by a dialect becomes a [`SpanRecord`]
//! with [`SpanFlags::LOG`]. All others are counted as accepted and dropped.

use super::attributes::SpanAttributes;
use super::batch_writer::BatchWriter;
use super::cache::ExtractionCache;
use super::counts::{Extracted, Rejection};
use super::key_trie::{KeyTrie, check};
use super::layout::{LOG_BODY, LOG_EVENT, put};
use crate::table::{Matching, SpanPart, Table};
use spanscore_base::model::{SpanBatch, SpanFlags, SpanId, SpanRecord, TraceId, fingerprint};
use spanscore_base::otlp::AnyValue;
use spanscore_base::otlp::any_value::key_value;
use spanscore_base::otlp::number::log;
use spanscore_base::otlp::request::{Broken, RequestStep, walk};
use spanscore_base::otlp::semconv::{EVENT_NAME, OWN_SCOPE};
use spanscore_base::otlp::wire::{Field, Fields, Malformed};

/// Adds the log events read by dialects to the batches of their traces' shards.
///
/// # Errors
/// See [`extract_traces`](super::traces::extract_traces).
pub(crate) fn extract_logs(
    table: &Table,
    body: &[u8],
    cache: &mut ExtractionCache,
    shards: &mut [SpanBatch],
) -> Result<Extracted, Broken> {
    let ExtractionCache { resources, trie } = cache;
    trie.enter(table);
    let mut writer = BatchWriter::new(resources, shards);
    let mut reader = LogReader {
        table,
        trie,
        matching: Matching::default(),
        attributes: SpanAttributes::default(),
    };
    let mut is_ours = false;
    let walked = walk(body, |step| match step {
        RequestStep::Resource(encoded) => writer.enter_resource(encoded),
        RequestStep::Scope(name) => {
            is_ours = name == OWN_SCOPE.as_bytes();
            reader.matching.enter_scope(table, name);
        }
        RequestStep::Item(_) if is_ours => writer.count(Ok(())),
        RequestStep::Item(encoded) => {
            let view = reader.read(encoded).map_err(Rejection::from);
            let outcome = view.and_then(|view| reader.record(&view, &mut writer));
            writer.count(outcome);
        }
    });
    writer.finish(walked)
}

/// Fields of a log record.
#[derive(Default)]
struct LogView<'a> {
    encoded: &'a [u8],
    trace_id: &'a [u8],
    span_id: &'a [u8],
    event: &'a [u8],
    body: &'a [u8],
    time_ns: u64,
    observed_ns: u64,
}

/// Reader of successive log records, with buffers for the whole request.
struct LogReader<'t, 'a> {
    table: &'t Table,
    trie: &'t mut KeyTrie,
    matching: Matching,
    attributes: SpanAttributes<'a>,
}

impl<'a> LogReader<'_, 'a> {
    fn read(&mut self, encoded: &'a [u8]) -> Result<LogView<'a>, Malformed> {
        self.attributes.clear();
        self.trie.begin();
        self.matching.begin();
        let mut view = LogView { encoded, ..LogView::default() };
        let mut event_attribute: &[u8] = &[];
        let mut fields = Fields::new(encoded);
        while let Some(field) = fields.next()? {
            match field {
                (log::ATTRIBUTES, Field::Bytes(entry)) => {
                    self.trie
                        .attribute(self.table, &mut self.matching, &mut self.attributes, entry)?;
                    let (key, value) = key_value(entry)?;
                    if key == EVENT_NAME.as_bytes()
                        && let AnyValue::String(name) = AnyValue::read(value)?
                    {
                        event_attribute = name.as_bytes();
                    }
                }
                (log::TRACE_ID, Field::Bytes(id)) => view.trace_id = id,
                (log::SPAN_ID, Field::Bytes(id)) => view.span_id = id,
                (log::EVENT_NAME, Field::Bytes(name)) => view.event = name,
                (log::BODY, Field::Bytes(body)) => view.body = body,
                (log::TIME, Field::Fixed64(time)) => view.time_ns = time,
                (log::OBSERVED_TIME, Field::Fixed64(time)) => view.observed_ns = time,
                _ => {}
            }
        }
        // An event's name was an attribute before it had its own field, where Rust's `tracing`
        // writes the event's source line (`event src/a.rs:1`).
        let is_place = view.event.starts_with(b"event ") && !event_attribute.is_empty();
        if view.event.is_empty() || is_place {
            view.event = event_attribute;
        }
        Ok(view)
    }

    fn record(
        &mut self,
        view: &LogView<'a>,
        writer: &mut BatchWriter<'_>,
    ) -> Result<(), Rejection> {
        if view.trace_id.is_empty() || view.event.is_empty() {
            return Ok(());
        }
        let trace_id = TraceId::from_wire(view.trace_id).ok_or(Rejection::InvalidTraceId)?;
        let span_id = match view.span_id {
            [] => SpanId::default(),
            id => SpanId::from_wire(id).ok_or(Rejection::InvalidSpanId)?,
        };
        self.matching.log_event(self.table, view.event);
        writer.record(trace_id, |arena, _| {
            let retention = self.trie.retention(self.table, &mut self.matching, &self.attributes);
            if !retention.kind.log {
                return Ok(None);
            }
            arena.extend_from_slice(&retention.conditions);
            put(arena, LOG_EVENT, view.event);
            if retention.keep.has(SpanPart::LogBody) && !view.body.is_empty() {
                check(view.body)?;
                put(arena, LOG_BODY, view.body);
            }
            self.attributes.write(self.table, retention, arena)?;
            let time_ns = if view.time_ns == 0 { view.observed_ns } else { view.time_ns };
            Ok(Some(SpanRecord {
                span_id,
                parent_id: SpanId::default(),
                start_ns: time_ns,
                end_ns: time_ns,
                content: fingerprint(view.encoded),
                peer: 0,
                flags: SpanFlags(SpanFlags::LOG),
                resource: 0,
                facts: 0..0,
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue as ProtoValue, KeyValueList};
    use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
    use prost::Message;

    use super::*;
    use crate::testing::{calls, facts, table, text};

    fn event(name: &str) -> LogRecord {
        let body = KeyValueList { values: vec![text("content", "found tool_calls")] };
        LogRecord {
            observed_time_unix_nano: 7,
            trace_id: vec![1; 16],
            span_id: vec![2; 8],
            event_name: name.to_owned(),
            body: Some(ProtoValue { value: Some(Value::KvlistValue(body)) }),
            ..LogRecord::default()
        }
    }

    fn extract(log_records: Vec<LogRecord>) -> (Extracted, SpanBatch) {
        let scope_logs = vec![ScopeLogs { log_records, ..ScopeLogs::default() }];
        let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
        let body = ExportLogsServiceRequest { resource_logs }.encode_to_vec();
        let mut shards = [SpanBatch::default()];
        let mut resources = ExtractionCache::default();
        let extracted = extract_logs(&table(&calls()), &body, &mut resources, &mut shards).unwrap();
        let [batch] = shards;
        (extracted, batch)
    }

    #[test]
    fn events_that_a_dialect_reads_become_records() {
        let mut named_by_attribute = event("");
        named_by_attribute.attributes = vec![text("event.name", "gen_ai.tool.message")];
        let mut of_tracing = event("event src/model.rs:12");
        of_tracing.attributes = vec![text("event.name", "gen_ai.user.message")];
        let (extracted, batch) =
            extract(vec![event("gen_ai.choice"), named_by_attribute, of_tracing]);
        assert_eq!((extracted.accepted, extracted.records), (3, 3));
        let names = ["gen_ai.choice", "gen_ai.tool.message", "gen_ai.user.message"];
        for (record, name) in batch.spans.iter().zip(names) {
            assert_eq!(record.flags.0, SpanFlags::LOG);
            assert_eq!((record.start_ns, record.span_id), (7, SpanId([2; 8])));
            let reader = facts(&batch, record);
            assert_eq!(reader.log_event(), name);
            assert!(matches!(reader.log_body(), Some(AnyValue::KeyValues(_))));
        }
    }

    #[test]
    fn other_log_records_are_counted_and_left_out() {
        let mut without_trace = event("gen_ai.choice");
        without_trace.trace_id = Vec::new();
        let (extracted, batch) = extract(vec![event("login"), event(""), without_trace]);
        assert_eq!((extracted.accepted, extracted.records), (3, 0));
        assert!(batch.spans.is_empty() && batch.arena.is_empty());
    }

    #[test]
    fn an_event_with_a_malformed_body_is_rejected_and_never_empty() {
        let table = table(&calls());
        let mut body = ExportLogsServiceRequest {
            resource_logs: vec![ResourceLogs {
                scope_logs: vec![ScopeLogs {
                    log_records: vec![event("gen_ai.choice"), event("gen_ai.choice")],
                    ..ScopeLogs::default()
                }],
                ..ResourceLogs::default()
            }],
        }
        .encode_to_vec();
        // The tag of the first body's list becomes one of a group, which OTLP has not.
        let at = memchr::memmem::find(&body, b"content").expect("a body");
        let list = body[..at].iter().rposition(|byte| *byte == 0x32).expect("a list");
        body[list] = 0x33;
        let mut batch = [SpanBatch::default()];
        let extracted = extract_logs(&table, &body, &mut ExtractionCache::default(), &mut batch)
            .expect("protobuf");
        assert_eq!((extracted.accepted, extracted.records), (1, 1));
        assert_eq!(extracted.rejected(Rejection::Malformed), 1);
    }

    #[test]
    fn events_with_broken_ids_are_rejected() {
        let mut trace = event("gen_ai.choice");
        trace.trace_id = vec![1; 3];
        let mut span = event("gen_ai.choice");
        span.span_id = vec![1; 3];
        let (extracted, batch) = extract(vec![trace, span, event("gen_ai.choice")]);
        assert_eq!(extracted.accepted, 1);
        assert_eq!(extracted.rejected(Rejection::InvalidTraceId), 1);
        assert_eq!(extracted.rejected(Rejection::InvalidSpanId), 1);
        assert_eq!(batch.spans.len(), 1);
    }
}
