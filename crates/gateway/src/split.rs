//! Splitting of a request by trace into messages of bounded size, each with items of one trace.
//!
//! Items are copied unchanged, below their resource and scope, without decoding. Items without a
//! trace id, or too large for a message, are counted and left out. Each message repeats the heads
//! above its items, so the total size from one request is limited.

use std::ops::Range;

use bytes::Bytes;

use spanscore_base::model::TraceId;
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::number::{ITEMS, REQUEST_RESOURCES, SCOPES};
use spanscore_base::otlp::request::{Broken, trace_id, walk};
use spanscore_base::otlp::wire::{Field, Fields, put_bytes};

/// Largest size of a field's tag and length.
const FRAME_BYTES: usize = 11;
/// Bytes of a request's messages in flight, without the last of them.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;
/// Overhead of a message beside its payload, here and in the client: key, headers, answer.
const MESSAGE_BYTES: usize = 512;
/// Largest total of messages from a request, as a multiple of its size.
const WRITTEN_TIMES: usize = 32;
/// Total of messages allowed for any request.
const WRITTEN_LEAST: usize = 32 << 20;

/// Request, ordered by trace.
pub(crate) struct SplitRequest {
    request: Bytes,
    signal: Signal,
    /// Fields of resources and scopes, without nested scopes and items.
    heads: Vec<u8>,
    scopes: Vec<ScopeHead>,
    /// Items by trace, each in the order of the request.
    items: Vec<ItemPlace>,
    next: usize,
    /// Ranges of items whose message was too large for the brokers, in halves.
    halved: Vec<Range<usize>>,
    /// Remaining bytes for messages; the last one may exceed them.
    written_left: usize,
    /// Items without a valid trace id.
    pub(crate) without_trace: u64,
    /// Items larger than a message.
    pub(crate) too_large: u64,
    /// Unreadable part, if any.
    pub(crate) broken: Option<Broken>,
}

/// Ranges in `heads`.
#[derive(Clone)]
struct ScopeHead {
    resource: Range<u32>,
    scope: Range<u32>,
}

/// Place of an item in the request.
struct ItemPlace {
    trace_id: TraceId,
    scope: u32,
    start: u32,
    end: u32,
}

/// Items of one trace as a request.
#[derive(Debug, PartialEq)]
pub(crate) struct TraceMessage {
    pub(crate) trace_id: TraceId,
    /// Range of its items.
    items: Range<usize>,
    pub(crate) payload: Bytes,
}

impl TraceMessage {
    /// Returns the number of its items.
    pub(crate) fn items(&self) -> u64 {
        self.items.len() as u64
    }
}

impl SplitRequest {
    /// Orders the items of an encoded request of spans or log records; `None` if it is larger than
    /// 4 GiB.
    pub(crate) fn new(signal: Signal, request: Bytes) -> Option<Self> {
        u32::try_from(request.len()).ok()?;
        let broken = walk(&request, |_| {}).err();
        let mut split = Self {
            request: request.clone(),
            signal,
            heads: Vec::new(),
            scopes: Vec::new(),
            items: Vec::new(),
            next: 0,
            halved: Vec::new(),
            written_left: request.len().saturating_mul(WRITTEN_TIMES).max(WRITTEN_LEAST),
            without_trace: 0,
            too_large: 0,
            broken,
        };
        each(&request, |number, group, _| {
            if number == REQUEST_RESOURCES {
                split.add_group(group);
            }
        });
        split.items.sort_unstable_by_key(|item| (item.trace_id, item.start));
        Some(split)
    }

    fn add_group(&mut self, group: &[u8]) {
        let mut resource = None;
        each(group, |number, scope, _| {
            if number == SCOPES {
                self.add_scope(group, scope, &mut resource);
            }
        });
    }

    /// Adds the items of a scope; its head and that of its resource are stored with the first one.
    fn add_scope(&mut self, group: &[u8], scope: &[u8], resource: &mut Option<Range<u32>>) {
        let mut place = None;
        each(scope, |number, item, _| {
            if number != ITEMS {
                return;
            }
            let id = trace_id(self.signal, item).and_then(TraceId::from_wire);
            let Some(trace_id) = id else {
                self.without_trace += 1;
                return;
            };
            let scope = *place.get_or_insert_with(|| {
                let resource =
                    resource.get_or_insert_with(|| self.keep_head(group, SCOPES)).clone();
                let scope = self.keep_head(scope, ITEMS);
                self.scopes.push(ScopeHead { resource, scope });
                self.scopes.len() as u32 - 1
            });
            let start = item.as_ptr().addr() - self.request.as_ptr().addr();
            let end = start + item.len();
            // No request is longer than `u32::MAX`.
            self.items.push(ItemPlace { trace_id, scope, start: start as u32, end: end as u32 });
        });
    }

    /// Copies the fields of a message except those of one number.
    fn keep_head(&mut self, message: &[u8], but: u32) -> Range<u32> {
        let start = self.heads.len() as u32;
        let heads = &mut self.heads;
        each(message, |number, _, field| {
            if number != but {
                heads.extend_from_slice(field);
            }
        });
        start..self.heads.len() as u32
    }

    /// Returns the next chunk of messages, each of at most `bytes_max`; empty after the last one,
    /// or once the request has used its total.
    pub(crate) fn next_chunk(&mut self, bytes_max: usize) -> Vec<TraceMessage> {
        let mut chunk = Vec::new();
        let mut bytes = 0;
        while bytes < CHUNK_BYTES
            && self.written_left > 0
            && let Some(message) = self.next_message(bytes_max)
        {
            bytes += message.payload.len() + MESSAGE_BYTES;
            self.written_left = self.written_left.saturating_sub(message.payload.len());
            chunk.push(message);
        }
        chunk
    }

    fn next_message(&mut self, bytes_max: usize) -> Option<TraceMessage> {
        if let Some(items) = self.halved.pop() {
            return self.message(items);
        }
        while self.next < self.items.len() {
            let first = self.next;
            let end = self.fitting(first, bytes_max);
            if end > first {
                self.next = end;
                return self.message(first..end);
            }
            self.too_large += 1;
            self.next += 1;
        }
        None
    }

    /// Queues the items of a message again as two; false if it holds a single one.
    pub(crate) fn halve(&mut self, message: &TraceMessage) -> bool {
        let Range { start, end } = message.items;
        let middle = start.midpoint(end);
        if middle > start {
            self.halved.extend([middle..end, start..middle]);
        }
        middle > start
    }

    /// Counts the items that are not yet in a message.
    pub(crate) fn items_left(&self) -> u64 {
        let halved: usize = self.halved.iter().map(Range::len).sum();
        (self.items.len() - self.next + halved) as u64
    }

    fn message(&self, items: Range<usize>) -> Option<TraceMessage> {
        let places = self.items.get(items.clone())?;
        let trace_id = places.first()?.trace_id;
        Some(TraceMessage { trace_id, items, payload: self.payload(places).into() })
    }

    /// Returns the end of a trace's items that fit one message.
    fn fitting(&self, first: usize, bytes_max: usize) -> usize {
        let mut bytes = 0;
        let mut before: Option<&ItemPlace> = None;
        let mut end = first;
        for item in self.items.get(first..).unwrap_or_default() {
            if before.is_some_and(|before| before.trace_id != item.trace_id) {
                break;
            }
            let head = &self.scopes[item.scope as usize];
            let scope_before = before.map(|before| &self.scopes[before.scope as usize]);
            if scope_before.is_none_or(|before| before.resource != head.resource) {
                bytes += head.resource.len() + FRAME_BYTES;
            }
            if before.is_none_or(|before| before.scope != item.scope) {
                bytes += head.scope.len() + FRAME_BYTES;
            }
            bytes += (item.end - item.start) as usize + FRAME_BYTES;
            if bytes > bytes_max {
                break;
            }
            before = Some(item);
            end += 1;
        }
        end
    }

    /// Encodes items below their scopes and resources.
    fn payload(&self, items: &[ItemPlace]) -> Vec<u8> {
        let mut payload = Vec::new();
        let resource = |item: &ItemPlace| &self.scopes[item.scope as usize].resource;
        for group in items.chunk_by(|one, next| resource(one) == resource(next)) {
            let mut body = Vec::new();
            for scope in group.chunk_by(|one, next| one.scope == next.scope) {
                let head = &self.scopes[scope[0].scope as usize];
                if body.is_empty() {
                    body.extend_from_slice(self.head(&head.resource));
                }
                let mut inner = self.head(&head.scope).to_vec();
                for item in scope {
                    let item = &self.request[item.start as usize..item.end as usize];
                    put_bytes(ITEMS, item, &mut inner);
                }
                put_bytes(SCOPES, &inner, &mut body);
            }
            put_bytes(REQUEST_RESOURCES, &body, &mut payload);
        }
        payload
    }

    fn head(&self, place: &Range<u32>) -> &[u8] {
        &self.heads[place.start as usize..place.end as usize]
    }
}

/// Visits the fields of a message up to any damage: number, content if length-delimited, and the
/// whole field.
fn each<'a>(message: &'a [u8], mut visit: impl FnMut(u32, &'a [u8], &'a [u8])) {
    let mut fields = Fields::new(message);
    loop {
        let before = fields.rest();
        let Ok(Some((number, field))) = fields.next() else { return };
        let whole = before.get(..before.len() - fields.rest().len()).unwrap_or_default();
        match field {
            Field::Bytes(content) => visit(number, content, whole),
            _ => visit(0, &[], whole),
        }
    }
}

#[cfg(test)]
mod tests;
