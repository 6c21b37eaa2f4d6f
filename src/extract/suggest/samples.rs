//! The spans that are looked at: those that no dialect takes, with all their values.

use std::borrow::Cow;

use hashbrown::HashSet;

use super::super::decode::json_or_py_or_text;
use crate::model::{SpanId, TraceId};
use crate::otlp::AnyValue;
use crate::otlp::any_value::key_value;
use crate::otlp::number::{log, span};
use crate::otlp::request::{Broken, RequestStep, walk};
use crate::otlp::semconv::EVENT_NAME;
use crate::otlp::wire::{Field, Fields, Malformed};
use crate::value::{Value, json};

/// Most spans that are looked at; the first ones.
pub const SPANS_MAX: usize = 10_000;
/// Most bytes of those spans.
const BYTES_MAX: usize = 64 << 20;
/// Most values of one span.
const VALUES_MAX: usize = 256;
/// Longest key, in bytes.
const KEY_BYTES_MAX: usize = 200;
/// Longest text that may say what kind of span it is, in bytes.
const RAW_BYTES_MAX: usize = 64;
/// Longest text that is read as JSON, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Spans as they were sent.
#[derive(Debug, Default)]
pub struct SpanSamples {
    spans: Vec<EncodedSpan>,
    /// The log events of traces.
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
    /// Keeps the spans of a request of traces.
    ///
    /// # Errors
    /// [`Broken`] where a part of it is; the rest is kept.
    pub fn add(&mut self, body: &[u8]) -> Result<(), Broken> {
        let mut scope = String::new();
        walk(body, |step| match step {
            RequestStep::Resource(_) => {}
            RequestStep::Scope(name) => scope = String::from_utf8_lossy(name).into_owned(),
            RequestStep::Item(encoded) => self.keep(&scope, encoded),
        })
    }

    /// Keeps the log events of a request of logs; of those beyond the limits nothing is told.
    ///
    /// # Errors
    /// [`Broken`] where a part of it is; the rest is kept.
    pub fn add_logs(&mut self, body: &[u8]) -> Result<(), Broken> {
        walk(body, |step| {
            let RequestStep::Item(encoded) = step else { return };
            let numbers = (log::TRACE_ID, log::SPAN_ID);
            let has_room = self.events.len() < SPANS_MAX && self.bytes + encoded.len() <= BYTES_MAX;
            if let Some((trace_id, span_id)) = ids(encoded, numbers).filter(|_| has_room) {
                self.bytes += encoded.len();
                let scope = String::new();
                let encoded = encoded.to_vec();
                self.events.push(EncodedSpan { trace_id, span_id, scope, encoded });
            }
        })
    }

    fn keep(&mut self, scope: &str, encoded: &[u8]) {
        let numbers = (span::TRACE_ID, span::SPAN_ID);
        let Some((trace_id, span_id)) = ids(encoded, numbers) else { return };
        if self.spans.len() >= SPANS_MAX || self.bytes + encoded.len() > BYTES_MAX {
            self.left_out += 1;
            return;
        }
        self.bytes += encoded.len();
        let scope = scope.to_owned();
        let encoded = encoded.to_vec();
        self.spans.push(EncodedSpan { trace_id, span_id, scope, encoded });
    }

    /// The log events that have a name, with their values.
    pub(super) fn events(&self) -> Vec<SampleSpan> {
        let read = |event: &EncodedSpan| event.read_event().ok();
        self.events.iter().filter_map(read).filter(|event| is_writable(&event.name)).collect()
    }

    /// Spans beyond the limits, which are not looked at.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// How many spans are looked at.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// How many of them are not known.
    pub fn unknown_count(&self, known: &HashSet<(TraceId, SpanId)>) -> usize {
        self.spans.iter().filter(|span| !known.contains(&(span.trace_id, span.span_id))).count()
    }

    /// Those of the spans that are not known, with their values.
    pub(super) fn unknown(&self, known: &HashSet<(TraceId, SpanId)>) -> Vec<SampleSpan> {
        let unknown = |span: &&EncodedSpan| !known.contains(&(span.trace_id, span.span_id));
        self.spans.iter().filter(unknown).filter_map(|span| span.read().ok()).collect()
    }
}

/// The ids of a span or log event; `numbers` are those of their fields.
fn ids(encoded: &[u8], numbers: (u32, u32)) -> Option<(TraceId, SpanId)> {
    let mut trace_id = None;
    let mut span_id = None;
    let mut fields = Fields::new(encoded);
    while let Ok(Some(field)) = fields.next() {
        match field {
            (number, Field::Bytes(id)) if number == numbers.0 => {
                trace_id = TraceId::from_wire(id);
            }
            (number, Field::Bytes(id)) if number == numbers.1 => {
                span_id = SpanId::from_wire(id);
            }
            _ => {}
        }
    }
    trace_id.zip(span_id)
}

/// A span with what stands on it.
#[derive(Debug)]
pub(super) struct SampleSpan {
    pub(super) trace_id: TraceId,
    pub(super) scope: String,
    pub(super) name: String,
    pub(super) is_root: bool,
    /// The attributes, then those of its events.
    pub(super) values: Vec<SampleValue>,
}

/// An attribute of a span, or of one of its events.
#[derive(Debug)]
pub(super) struct SampleValue {
    /// The event's name; empty for the span's own.
    pub(super) event: String,
    pub(super) key: String,
    /// The text that was sent, if it is a short one: what conditions compare.
    pub(super) raw: Option<String>,
    pub(super) form: ValueForm,
    /// What it says.
    pub(super) value: Value<'static>,
}

/// How a value was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ValueForm {
    /// As what it is.
    Native,
    /// As the text of JSON.
    Json,
    /// As Python prints it.
    Python,
    /// As a text that says nothing else.
    Plain,
}

impl EncodedSpan {
    fn read(&self) -> Result<SampleSpan, Malformed> {
        let mut sample = SampleSpan {
            trace_id: self.trace_id,
            scope: self.scope.clone(),
            name: String::new(),
            is_root: true,
            values: Vec::new(),
        };
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
        let mut sample = SampleSpan {
            trace_id: self.trace_id,
            scope: String::new(),
            name: String::new(),
            is_root: false,
            values: Vec::new(),
        };
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
        // Before it had a field of its own the name of an event was an attribute.
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
        // What the conventions say of exceptions is read without being asked for.
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

/// What a value says, and how it was written.
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

/// Whether a name of the sender's can stand in a config as it is: nothing there that YAML, or the
/// substitution of variables, would read otherwise.
pub(super) fn is_writable(text: &str) -> bool {
    let plain = |char: char| char.is_alphanumeric() || " ._-/:@[]()#".contains(char);
    !text.is_empty() && text.len() <= KEY_BYTES_MAX && text.chars().all(plain)
}
