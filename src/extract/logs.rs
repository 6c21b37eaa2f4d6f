//! From an encoded `ExportLogsServiceRequest` to records of those log events that dialects read.
//!
//! In: the bytes of a request. Out: a [`SpanRecord`] with [`SpanFlags::LOG`] for every log record
//! that has a trace id and an event name that some dialect's source reads. All others are counted
//! as accepted and left out.

use super::facts::{LOG_BODY, LOG_EVENT, put};
use super::outcome::{Extracted, Rejection};
use super::resources::ResourceCache;
use super::sink::Sink;
use super::span::{Collected, write_conditions};
use super::table::{Matching, Part, Table};
use crate::model::{SpanBatch, SpanFlags, SpanId, SpanRecord, TraceId};
use crate::otlp::AnyValue;
use crate::otlp::any_value::key_value;
use crate::otlp::number::log;
use crate::otlp::request::{Step, walk};
use crate::otlp::wire::{Field, Fields, Malformed};
use crate::semconv::EVENT_NAME;

/// Adds the log events that dialects read to the batches of their traces' shards.
///
/// # Errors
/// As [`extract_traces`](super::collect::extract_traces).
pub fn extract_logs(
    table: &Table,
    body: &[u8],
    resources: &mut ResourceCache,
    shards: &mut [SpanBatch],
) -> Result<Extracted, Malformed> {
    let mut sink = Sink::new(resources, shards);
    let mut matching = Matching::default();
    let mut collected = Collected::default();
    let walked = walk(body, |step| match step {
        Step::Resource(encoded) => sink.enter_resource(encoded),
        Step::Scope(name) => matching.enter_scope(table, name),
        Step::Item(encoded) => {
            matching.begin();
            collected.clear();
            let outcome = read(table, encoded, &mut matching, &mut collected)
                .map_err(Rejection::from)
                .and_then(|view| record(table, &view, &mut matching, &mut collected, &mut sink));
            sink.count(outcome);
        }
    });
    sink.finish(walked.err().unwrap_or(0))
}

/// A log record's own fields.
#[derive(Default)]
struct LogView<'a> {
    trace_id: &'a [u8],
    span_id: &'a [u8],
    event: &'a [u8],
    body: &'a [u8],
    time_ns: u64,
    observed_ns: u64,
}

fn read<'a>(
    table: &Table,
    encoded: &'a [u8],
    matching: &mut Matching,
    collected: &mut Collected<'a>,
) -> Result<LogView<'a>, Malformed> {
    let mut view = LogView::default();
    let mut event_attribute: &[u8] = &[];
    let mut fields = Fields::new(encoded);
    while let Some(field) = fields.next()? {
        match field {
            (log::ATTRIBUTES, Field::Bytes(entry)) => {
                collected.attribute(table, matching, entry)?;
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
    // Before it had a field of its own the name of an event was an attribute.
    if view.event.is_empty() {
        view.event = event_attribute;
    }
    Ok(view)
}

fn record<'a>(
    table: &Table,
    view: &LogView<'a>,
    matching: &mut Matching,
    collected: &mut Collected<'a>,
    sink: &mut Sink<'_>,
) -> Result<(), Rejection> {
    matching.log_event(table, view.event);
    if view.trace_id.is_empty() || view.event.is_empty() {
        return Ok(());
    }
    let trace_id = TraceId::from_wire(view.trace_id).ok_or(Rejection::InvalidTraceId)?;
    let span_id = match view.span_id {
        [] => SpanId::default(),
        id => SpanId::from_wire(id).ok_or(Rejection::InvalidSpanId)?,
    };
    sink.record(trace_id, |arena, _| {
        let (keep, meaning) = write_conditions(table, matching.finish(table), arena);
        if !meaning.log {
            return Ok(None);
        }
        put(arena, LOG_EVENT, [view.event]);
        if keep.has(Part::LogBody) && !view.body.is_empty() {
            put(arena, LOG_BODY, [view.body]);
        }
        collected.write(table, &keep, arena)?;
        let time_ns = if view.time_ns == 0 { view.observed_ns } else { view.time_ns };
        Ok(Some(SpanRecord {
            trace_id,
            span_id,
            parent_id: SpanId::default(),
            start_ns: time_ns,
            end_ns: time_ns,
            flags: SpanFlags(SpanFlags::LOG),
            resource: 0,
            facts: 0..0,
        }))
    })
}
