//! Conversion of an encoded `ExportTraceServiceRequest` to records for each shard, in one pass per
//! span.
//!
//! Every well-formed span becomes a [`SpanRecord`] with the facts that evaluators need. A malformed
//! span is counted and dropped without effect on others. Only fields named in the [`Table`] are
//! decoded. Our own spans, recognized by their scope, are skipped, so that a backend that sends
//! back to us makes no loop.

use super::attributes::SpanAttributes;
use super::batch_writer::BatchWriter;
use super::cache::ExtractionCache;
use super::counts::{Extracted, Rejection};
use super::key_trie::KeyTrie;
use super::layout::{DROPPED, PARTS, SCOPE, SPAN_NAME, STATUS_MESSAGE, put};
use super::peer;
use crate::table::{Matching, Projection, SpanPart, Table};
use crate::unknown_tool;
use spanscore_base::model::{
    SpanBatch, SpanFlags, SpanId, SpanRecord, TraceId, fingerprint, span_parts,
};
use spanscore_base::otlp::number::span;
use spanscore_base::otlp::request::{Broken, RequestStep, walk};
use spanscore_base::otlp::semconv::OWN_SCOPE;
use spanscore_base::otlp::wire::{Field, Fields, Malformed};

/// Adds the spans of a request to the batches of their shards.
///
/// # Errors
/// Returns [`Broken`] if the request is no protobuf and has no span. If only a part is broken, the
/// rest is accepted; the spans that start in that part count as rejected, or the part as one.
pub(crate) fn extract_traces(
    table: &Table,
    body: &[u8],
    cache: &mut ExtractionCache,
    shards: &mut [SpanBatch],
) -> Result<Extracted, Broken> {
    let ExtractionCache { resources, trie } = cache;
    trie.enter(table);
    let mut writer = BatchWriter::new(resources, shards);
    let mut reader = SpanReader {
        table,
        trie,
        matching: Matching::default(),
        attributes: SpanAttributes::default(),
        scope: 0,
    };
    let mut is_ours = false;
    let walked = walk(body, |step| match step {
        RequestStep::Resource(encoded) => writer.enter_resource(encoded),
        RequestStep::Scope(name) => {
            is_ours = name == OWN_SCOPE.as_bytes();
            reader.matching.enter_scope(table, name);
            reader.scope = fingerprint(name);
        }
        RequestStep::Item(_) if is_ours => writer.count(Ok(())),
        RequestStep::Item(span) => {
            let outcome = reader.read(span).and_then(|view| reader.record(&view, &mut writer));
            writer.count(outcome);
        }
    });
    writer.finish(walked)
}

/// Reader of successive spans, with buffers for the whole request.
struct SpanReader<'t, 'a> {
    table: &'t Table,
    trie: &'t mut KeyTrie,
    matching: Matching,
    attributes: SpanAttributes<'a>,
    /// Hash of the scope's name.
    scope: u32,
}

/// Fields of a span, partly encoded.
#[derive(Default)]
struct SpanView<'a> {
    encoded: &'a [u8],
    /// Hash of the whole span.
    content: u32,
    trace_id: &'a [u8],
    span_id: &'a [u8],
    parent_id: &'a [u8],
    name: &'a [u8],
    kind: u64,
    start_ns: u64,
    end_ns: u64,
    flags: u32,
    status: &'a [u8],
    dropped_attributes: u64,
}

impl<'a> SpanView<'a> {
    /// Reads the leading fields in the order of encoders, up to the first that deviates.
    #[inline]
    fn leading_fields(&mut self, fields: &mut Fields<'a>) {
        for (number, place) in [
            (span::TRACE_ID, &mut self.trace_id),
            (span::SPAN_ID, &mut self.span_id),
            (span::PARENT_ID, &mut self.parent_id),
            (span::NAME, &mut self.name),
        ] {
            if let Some(bytes) = fields.next_bytes(number as u8) {
                *place = bytes;
            }
        }
        if let Some(kind) = fields.next_varint(span::KIND as u8) {
            self.kind = kind.into();
        }
        if let Some(time) = fields.next_fixed64(span::START as u8) {
            self.start_ns = time;
        }
        if let Some(time) = fields.next_fixed64(span::END as u8) {
            self.end_ns = time;
        }
    }

    /// Reads the fields that usually follow the attributes, like
    /// [`leading_fields`](Self::leading_fields).
    #[inline]
    fn trailing_fields(&mut self, fields: &mut Fields<'a>) {
        if let Some(status) = fields.next_bytes(span::STATUS as u8) {
            self.status = status;
        }
        if let Some(flags) = fields.next_fixed32(span::FLAGS as u16) {
            self.flags = flags;
        }
    }
}

impl<'a> SpanReader<'_, 'a> {
    /// Reads a span in one pass.
    #[inline]
    fn read(&mut self, encoded: &'a [u8]) -> Result<SpanView<'a>, Rejection> {
        // Data just copied from the socket may not be in the caches.
        let content = fingerprint(encoded);
        self.attributes.clear();
        self.trie.begin();
        self.matching.begin();
        let mut view = SpanView { encoded, content, ..SpanView::default() };
        let mut fields = Fields::new(encoded);
        view.leading_fields(&mut fields);
        loop {
            while let Some(entry) = fields.next_bytes(span::ATTRIBUTES as u8) {
                self.attribute(entry)?;
            }
            view.trailing_fields(&mut fields);
            if fields.is_empty() {
                break;
            }
            let Some(field) = fields.next()? else { break };
            match field {
                (span::ATTRIBUTES, Field::Bytes(entry)) => {
                    self.attribute(entry)?;
                }
                (span::TRACE_ID, Field::Bytes(id)) => view.trace_id = id,
                (span::SPAN_ID, Field::Bytes(id)) => view.span_id = id,
                (span::PARENT_ID, Field::Bytes(id)) => view.parent_id = id,
                (span::NAME, Field::Bytes(name)) => view.name = name,
                (span::KIND, Field::Varint(kind)) => view.kind = kind,
                (span::START, Field::Fixed64(time)) => view.start_ns = time,
                (span::END, Field::Fixed64(time)) => view.end_ns = time,
                (span::EVENTS, Field::Bytes(event)) => self.attributes.event(event),
                (span::STATUS, Field::Bytes(status)) => view.status = status,
                (span::DROPPED_ATTRIBUTES, Field::Varint(count)) => view.dropped_attributes = count,
                (span::FLAGS, Field::Fixed32(flags)) => view.flags = flags,
                _ => {}
            }
        }
        Ok(view)
    }

    #[inline(always)]
    fn attribute(&mut self, entry: &'a [u8]) -> Result<(), Malformed> {
        self.trie.attribute(self.table, &mut self.matching, &mut self.attributes, entry)
    }

    #[inline]
    fn record(
        &mut self,
        view: &SpanView<'a>,
        writer: &mut BatchWriter<'_>,
    ) -> Result<(), Rejection> {
        let trace_id = TraceId::from_wire(view.trace_id).ok_or(Rejection::InvalidTraceId)?;
        let span_id = SpanId::from_wire(view.span_id).ok_or(Rejection::InvalidSpanId)?;
        let parent_id = parent_id(view.parent_id)?;
        let (status_code, status_message) = status(view.status)?;
        let mut flags = SpanFlags::default();
        for (holds, flag) in [
            (parent_id.is_none(), SpanFlags::ROOT),
            (
                view.flags & span::FLAGS_REMOTE_PARENT == span::FLAGS_REMOTE_PARENT
                    && !parent_id.is_none(),
                SpanFlags::REMOTE_PARENT,
            ),
            (status_code == span::STATUS_ERROR, SpanFlags::ERROR),
        ] {
            flags.set(if holds { flag } else { 0 });
        }
        self.matching.span(self.table, view.name, parent_id.is_none());
        let content = view.content ^ self.scope;
        writer.record(trace_id, |arena, extracted| {
            let retention = self.trie.retention(self.table, &mut self.matching, &self.attributes);
            let keep = &retention.keep;
            let mut kind = retention.kind;
            kind.tool &= !kind.only_if_named || self.attributes.name_call(view.name);
            arena.extend_from_slice(&retention.conditions);
            if view.dropped_attributes > 0 {
                let count = u32::try_from(view.dropped_attributes).unwrap_or(u32::MAX);
                put(arena, DROPPED, &count.to_le_bytes());
            }
            if self.table.spans {
                put(arena, PARTS, &encoded_parts(view, status_code)?);
            }
            if kind.tool {
                put(arena, SCOPE, &self.scope.to_le_bytes());
            }
            write_texts(keep, flags, view.name, status_message, arena);
            let has_body = if self.table.root_attributes && flags.has(SpanFlags::ROOT) {
                self.attributes.write_root(self.table, retention, view.encoded, arena)?
            } else {
                self.attributes.write(self.table, retention, arena)?
            };
            for (holds, flag) in [
                (kind.tool, SpanFlags::TOOL),
                (kind.agent || has_body, SpanFlags::AGENT),
                (!kind.tool && speaks_of_title(view.name), SpanFlags::TITLE),
                (view.end_ns != 0 && !kind.pending, SpanFlags::ENDED),
                (kind.waiting, SpanFlags::WAITING),
                (kind.finished, SpanFlags::FINISHED),
            ] {
                flags.set(if holds { flag } else { 0 });
            }
            let backwards = view.end_ns != 0 && view.end_ns < view.start_ns;
            extracted.ended_before_start += u64::from(backwards);
            Ok(Some(SpanRecord {
                span_id,
                parent_id,
                start_ns: view.start_ns,
                end_ns: if backwards { view.start_ns } else { view.end_ns },
                content,
                peer: peer::of(view.kind, flags, view.name, view.encoded),
                flags,
                resource: 0,
                facts: 0..0,
            }))
        })
    }
}

/// Returns the parts of a span read by expressions, in span order.
fn encoded_parts(view: &SpanView<'_>, status_code: u64) -> Result<Vec<u8>, Malformed> {
    let mut parts = Vec::new();
    put(&mut parts, span_parts::NAME, view.name);
    let byte = |number: u64| u8::try_from(number).unwrap_or(u8::MAX);
    put(&mut parts, span_parts::KIND_AND_STATUS, &[byte(view.kind), byte(status_code)]);
    let mut fields = Fields::new(view.encoded);
    while let Some(field) = fields.next()? {
        if let (span::ATTRIBUTES, Field::Bytes(entry)) = field {
            put(&mut parts, span_parts::ATTRIBUTE, entry);
        }
    }
    Ok(parts)
}

/// Returns true if a span's name contains "title" or "Title".
#[inline]
fn speaks_of_title(name: &[u8]) -> bool {
    memchr::memmem::find(name, b"itle").is_some_and(|at| {
        let first = at.checked_sub(1).and_then(|first| name.get(first));
        let before = at.checked_sub(2).and_then(|before| name.get(before));
        let is_inner = |byte: &u8| byte.is_ascii_lowercase();
        match first {
            Some(b't') => !before.is_some_and(is_inner),
            Some(b'T') => true,
            _ => false,
        }
    })
}

/// Writes the texts of a span. Evaluations may be attached to a span with an unknown parent, so the
/// names of spans with a remote parent are retained like those of roots.
#[inline]
fn write_texts(
    keep: &Projection,
    flags: SpanFlags,
    name: &[u8],
    status_message: &[u8],
    arena: &mut Vec<u8>,
) {
    let outermost = flags.0 & (SpanFlags::ROOT | SpanFlags::REMOTE_PARENT) != 0;
    if outermost || keep.has(SpanPart::SpanName) {
        put(arena, SPAN_NAME, name);
    }
    let keeps_message = keep.has(SpanPart::StatusMessage) && !status_message.is_empty();
    if keeps_message || (flags.has(SpanFlags::ERROR) && unknown_tool::is_reported(status_message)) {
        put(arena, STATUS_MESSAGE, status_message);
    }
}

fn parent_id(bytes: &[u8]) -> Result<SpanId, Rejection> {
    if bytes.is_empty() {
        return Ok(SpanId::default());
    }
    // Some senders write eight zero bytes for "no parent".
    bytes.try_into().map(SpanId).map_err(|_| Rejection::InvalidParentId)
}

/// Returns the code and message of an encoded status.
#[inline]
fn status(encoded: &[u8]) -> Result<(u64, &[u8]), Malformed> {
    let mut fields = Fields::new(encoded);
    if let (Some(code), true) = (fields.next_varint(span::STATUS_CODE as u8), fields.is_empty()) {
        return Ok((code.into(), &[]));
    }
    let mut fields = Fields::new(encoded);
    let (mut code, mut message): (u64, &[u8]) = (0, &[]);
    while let Some(field) = fields.next()? {
        match field {
            (span::STATUS_MESSAGE, Field::Bytes(text)) => message = text,
            (span::STATUS_CODE, Field::Varint(number)) => code = number,
            _ => {}
        }
    }
    Ok((code, message))
}

#[cfg(test)]
mod tests;
