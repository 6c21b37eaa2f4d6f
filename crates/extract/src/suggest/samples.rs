//! Sample of spans unknown to all dialects, and of log events, with all their values.

use std::borrow::Cow;

use hashbrown::HashSet;

use super::super::decode::json_or_py_or_text;
use spanscore_base::model::{SpanId, TraceId};
use spanscore_base::otlp::AnyValue;
use spanscore_base::otlp::any_value::key_value;
use spanscore_base::otlp::number::{log, span};
use spanscore_base::otlp::request::{Broken, RequestStep, walk};
use spanscore_base::otlp::semconv::EVENT_NAME;
use spanscore_base::otlp::wire::{Field, Fields, Malformed};
use spanscore_base::value::{Value, json};

/// Limit on the spans in the sample, the first ones.
pub const SPANS_MAX: usize = 10_000;
/// Limit on the bytes of spans and log events.
const BYTES_MAX: usize = 64 << 20;
/// Limit on the values of one span.
const VALUES_MAX: usize = 256;
/// Longest key, bytes.
const KEY_BYTES_MAX: usize = 200;
/// Longest possible span kind, bytes.
const RAW_BYTES_MAX: usize = 64;
/// Longest text parsed as JSON, bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Original spans.
#[derive(Debug, Default)]
pub struct SpanSamples {
    spans: Vec<EncodedSpan>,
    /// Log events of traces.
    events: Vec<EncodedSpan>,
    bytes: usize,
    left_out: usize,
}

#[derive(Debug)]
struct EncodedSpan {
    trace_id: TraceId,
    span_id: SpanId,
    scope: String,
    encoded: Vec<u8>,
}

impl SpanSamples {
    /// Adds the spans of a trace request.
    ///
    /// # Errors
    /// Returns [`Broken`] if a part is malformed; the rest is added.
    pub fn add(&mut self, body: &[u8]) -> Result<(), Broken> {
        let mut scope = String::new();
        walk(body, |step| match step {
            RequestStep::Resource(_) => {}
            RequestStep::Scope(name) => scope = String::from_utf8_lossy(name).into_owned(),
            RequestStep::Item(encoded) => self.keep(&scope, encoded),
        })
    }

    /// Adds the log events of a log request; those beyond the limits are dropped without a count.
    ///
    /// # Errors
    /// Returns [`Broken`] if a part is malformed; the rest is added.
    pub fn add_logs(&mut self, body: &[u8]) -> Result<(), Broken> {
        walk(body, |step| {
            let RequestStep::Item(encoded) = step else { return };
            if self.events.len() < SPANS_MAX
                && self.bytes + encoded.len() <= BYTES_MAX
                && let Some(ids) = ids_of(encoded, (log::TRACE_ID, log::SPAN_ID))
            {
                self.bytes += encoded.len();
                self.events.push(EncodedSpan::new(ids, encoded, ""));
            }
        })
    }

    fn keep(&mut self, scope: &str, encoded: &[u8]) {
        let Some(ids) = ids_of(encoded, (span::TRACE_ID, span::SPAN_ID)) else { return };
        if self.spans.len() >= SPANS_MAX || self.bytes + encoded.len() > BYTES_MAX {
            self.left_out += 1;
            return;
        }
        self.bytes += encoded.len();
        self.spans.push(EncodedSpan::new(ids, encoded, scope));
    }

    /// Returns the named log events with their values.
    pub(super) fn events(&self) -> Vec<SampleSpan> {
        let read = |event: &EncodedSpan| event.read_event().ok();
        self.events.iter().filter_map(read).filter(|event| is_writable(&event.name)).collect()
    }

    /// Returns the number of dropped spans beyond the limits.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the number of spans in the sample.
    pub fn count(&self) -> usize {
        self.spans.len()
    }

    /// Returns the number of spans outside `known`.
    pub fn unknown_count(&self, known: &HashSet<(TraceId, SpanId)>) -> usize {
        self.spans.iter().filter(|span| !known.contains(&(span.trace_id, span.span_id))).count()
    }

    /// Returns the spans outside `known` with their values.
    pub(super) fn unknown(&self, known: &HashSet<(TraceId, SpanId)>) -> Vec<SampleSpan> {
        let unknown = |span: &&EncodedSpan| !known.contains(&(span.trace_id, span.span_id));
        self.spans.iter().filter(unknown).filter_map(|span| span.read().ok()).collect()
    }
}

/// Span with its values.
#[derive(Debug)]
pub(super) struct SampleSpan {
    pub(super) trace_id: TraceId,
    pub(super) scope: String,
    pub(super) name: String,
    pub(super) is_root: bool,
    /// Attributes of the span, then of its events.
    pub(super) values: Vec<SampleValue>,
}

/// Attribute of a span or one of its events.
#[derive(Debug)]
pub(super) struct SampleValue {
    /// Name of the event; empty for an attribute of the span.
    pub(super) event: String,
    pub(super) key: String,
    /// Original text, if short: conditions compare it.
    pub(super) raw: Option<String>,
    pub(super) form: ValueForm,
    /// Parsed value.
    pub(super) value: Value<'static>,
}

/// Encoding of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ValueForm {
    /// Typed value.
    Native,
    /// JSON text.
    Json,
    /// Python literal as text.
    Python,
    /// Plain text.
    Plain,
}

/// Returns the ids of a span or log event; `numbers` are their field numbers.
fn ids_of(encoded: &[u8], numbers: (u32, u32)) -> Option<(TraceId, SpanId)> {
    let mut trace_id = None;
    let mut span_id = None;
    let mut fields = Fields::new(encoded);
    while let Ok(Some(field)) = fields.next() {
        match field {
            (number, Field::Bytes(id)) if number == numbers.0 => trace_id = TraceId::from_wire(id),
            (number, Field::Bytes(id)) if number == numbers.1 => span_id = SpanId::from_wire(id),
            _ => {}
        }
    }
    trace_id.zip(span_id)
}

impl EncodedSpan {
    fn new((trace_id, span_id): (TraceId, SpanId), encoded: &[u8], scope: &str) -> Self {
        Self { trace_id, span_id, scope: scope.to_owned(), encoded: encoded.to_vec() }
    }

    /// Returns the sample to be filled.
    fn sample(&self, is_root: bool) -> SampleSpan {
        SampleSpan {
            trace_id: self.trace_id,
            scope: self.scope.clone(),
            name: String::new(),
            is_root,
            values: Vec::new(),
        }
    }

    fn read(&self) -> Result<SampleSpan, Malformed> {
        let mut sample = self.sample(true);
        let mut fields = Fields::new(&self.encoded);
        while let Some(field) = fields.next()? {
            match field {
                (span::NAME, Field::Bytes(name)) => {
                    sample.name = String::from_utf8_lossy(name).into_owned();
                }
                (span::PARENT_ID, Field::Bytes(id)) => {
                    sample.is_root = id.iter().all(|byte| *byte == 0);
                }
                (span::ATTRIBUTES, Field::Bytes(entry)) => sample.add("", entry)?,
                (span::EVENTS, Field::Bytes(event)) => sample.add_event(event)?,
                _ => {}
            }
        }
        Ok(sample)
    }

    fn read_event(&self) -> Result<SampleSpan, Malformed> {
        let mut sample = self.sample(false);
        let mut fields = Fields::new(&self.encoded);
        while let Some(field) = fields.next()? {
            match field {
                (log::EVENT_NAME, Field::Bytes(name)) => {
                    sample.name = String::from_utf8_lossy(name).into_owned();
                }
                (log::ATTRIBUTES, Field::Bytes(entry)) => sample.add("", entry)?,
                _ => {}
            }
        }
        // Before OTLP had a field for it, an event's name was an attribute.
        if sample.name.is_empty() {
            let name = sample.values.iter().find(|value| value.key == EVENT_NAME);
            sample.name = name.and_then(|value| value.raw.clone()).unwrap_or_default();
        }
        Ok(sample)
    }
}

impl SampleSpan {
    fn add_event(&mut self, event: &[u8]) -> Result<(), Malformed> {
        let mut name = Cow::Borrowed("");
        let mut entries = Vec::new();
        let mut fields = Fields::new(event);
        while let Some(field) = fields.next()? {
            match field {
                (span::EVENT_NAME, Field::Bytes(text)) => name = String::from_utf8_lossy(text),
                (span::EVENT_ATTRIBUTES, Field::Bytes(entry)) => entries.push(entry),
                _ => {}
            }
        }
        // Conventional exceptions are read by every dialect, so no source is suggested.
        if name == "exception" || !is_writable(&name) {
            return Ok(());
        }
        entries.into_iter().try_for_each(|entry| self.add(&name, entry))
    }

    fn add(&mut self, event: &str, entry: &[u8]) -> Result<(), Malformed> {
        let (key, value) = key_value(entry)?;
        let Ok(key) = std::str::from_utf8(key) else { return Ok(()) };
        if self.values.len() < VALUES_MAX && is_writable(key) {
            let sent = AnyValue::read(value)?.legible().into_owned();
            let raw = sent.as_str().filter(|text| text.len() <= RAW_BYTES_MAX).map(str::to_owned);
            let (form, value) = read(sent);
            let event = event.to_owned();
            let key = key.to_owned();
            self.values.push(SampleValue { event, key, raw, form, value });
        }
        Ok(())
    }
}

/// Parses a value; returns its encoding too.
fn read(value: Value<'static>) -> (ValueForm, Value<'static>) {
    let Value::String(text) = value else { return (ValueForm::Native, value) };
    let is_structured = text.trim_start().starts_with(['{', '[', '"']);
    if !is_structured || text.len() > TEXT_BYTES_MAX {
        return (ValueForm::Plain, Value::String(text));
    }
    if let Ok(value) = json::parse(&text) {
        return (ValueForm::Json, value.into_owned());
    }
    match json_or_py_or_text(Value::String(text)) {
        Value::String(text) => (ValueForm::Plain, Value::String(text)),
        value => (ValueForm::Python, value.into_owned()),
    }
}

/// Returns true if a sender's name is safe in a config: plain for YAML and for the substitution of
/// variables.
pub(super) fn is_writable(text: &str) -> bool {
    let plain = |char: char| char.is_alphanumeric() || " ._-/:@[]()#".contains(char);
    !text.is_empty() && text.len() <= KEY_BYTES_MAX && text.chars().all(plain)
}
