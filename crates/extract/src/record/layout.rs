//! Byte layout of a record's facts.
//!
//! Facts are a sequence of protobuf fields, so that the common field reader can parse them. They
//! never leave the process, so the layout may change at any time.
//!
//! | field | content |
//! |---|---|
//! | `CONDITIONS` | ids of the conditions that hold, `u16` little endian, ascending |
//! | `ATTRIBUTE` | slot, `u16` little endian, then the encoded `AnyValue` |
//! | `OTHER` | an encoded `KeyValue` that is retained under its key |
//! | `WORD_MATCH` | sources with a word of the key, `u32` little endian, then as `OTHER` |
//! | `BODY` | as `WORD_MATCH`, where the value may be the body of a request or response |
//! | `NUMBERED` | as `OTHER`, where the key is that of a field of a numbered message |
//! | `SCOPE` | hash of the scope's name, `u32` little endian, of the spans of tools |
//! | `DROPPED` | attributes that the SDK dropped, `u32` little endian; absent if none |
//! | `PARTS` | name, kind, status and attributes as `span_parts` reads them, if one does |
//! | `EVENT` | name of a span event; its attributes follow |
//! | `EVENT_ATTRIBUTE` | as `ATTRIBUTE`, of the last event |
//! | others | a text or an encoded `AnyValue` |

use crate::table::bit_set::BitSet;
use crate::table::{ConditionId, KeySlot, SourceWords, Table, ends_with, numbered_prefix};
use spanscore_base::otlp::AnyValue;
use spanscore_base::otlp::any_value::key_value;
use spanscore_base::otlp::wire::{Field, Fields};

pub(crate) const CONDITIONS: u8 = 1;
pub(crate) const ATTRIBUTE: u8 = 2;
pub(crate) const OTHER: u8 = 3;
pub(crate) const EVENT: u8 = 4;
pub(crate) const EVENT_ATTRIBUTE: u8 = 5;
pub(crate) const SPAN_NAME: u8 = 6;
pub(crate) const STATUS_MESSAGE: u8 = 7;
pub(crate) const LOG_EVENT: u8 = 8;
pub(crate) const LOG_BODY: u8 = 9;
pub(crate) const BODY: u8 = 10;
pub(crate) const NUMBERED: u8 = 11;
pub(crate) const WORD_MATCH: u8 = 12;
pub(crate) const SCOPE: u8 = 13;
pub(crate) const DROPPED: u8 = 14;
pub(crate) const PARTS: u8 = 15;

/// Appends a field.
#[inline]
pub(crate) fn put(arena: &mut Vec<u8>, field: u8, content: &[u8]) {
    put_behind(arena, field, [], content);
}

/// Appends an attribute: slot and encoded value.
#[inline]
pub(crate) fn put_attribute(arena: &mut Vec<u8>, field: u8, slot: u16, value: &[u8]) {
    put_behind(arena, field, slot.to_le_bytes(), value);
}

/// Appends an attribute: the sources with a word matched by its key, and the encoded `KeyValue`.
#[inline]
pub(crate) fn put_words(arena: &mut Vec<u8>, field: u8, words: u32, entry: &[u8]) {
    put_behind(arena, field, words.to_le_bytes(), entry);
}

#[inline]
fn put_behind<const N: usize>(arena: &mut Vec<u8>, field: u8, number: [u8; N], content: &[u8]) {
    arena.reserve(HEADER_MAX + N + content.len());
    put_header(arena, field, N + content.len());
    arena.extend_from_slice(&number);
    arena.extend_from_slice(content);
}

/// Limit on the bytes of a field's tag and length.
const HEADER_MAX: usize = 11;

/// Appends the tag and length of a field; the content must follow.
#[inline]
pub(crate) fn put_header(arena: &mut Vec<u8>, field: u8, len: usize) {
    let tag = field << 3 | 2;
    match len {
        0..0x80 => arena.extend_from_slice(&[tag, len as u8]),
        0x80..0x4000 => arena.extend_from_slice(&[tag, len as u8 | 0x80, (len >> 7) as u8]),
        _ => {
            arena.push(tag);
            let mut rest = len;
            while rest >= 0x80 {
                arena.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            arena.push(rest as u8);
        }
    }
}

/// Limit on separate lists of messages in one record, by the text before their words; others are
/// dropped.
const NUMBERED_MAX: usize = 8;

/// Reader of the facts of one record.
#[derive(Clone, Copy)]
pub(crate) struct FactsReader<'a> {
    bytes: &'a [u8],
}

impl<'a> FactsReader<'a> {
    /// Wraps facts written by this process
    /// ([`TraceSpans::facts`](spanscore_base::model::TraceSpans::facts)).
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns all bytes.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the satisfied conditions of the dialects, ascending; without any `detect` if an
    /// exclusion holds.
    pub(crate) fn conditions(self) -> impl Iterator<Item = ConditionId> + 'a {
        let ids = self.encoded_conditions().as_chunks().0;
        ids.iter().map(|id| ConditionId(u16::from_le_bytes(*id)))
    }

    /// Returns the same conditions as a set.
    pub(crate) fn condition_set(self) -> BitSet {
        condition_set(self.encoded_conditions())
    }

    fn encoded_conditions(self) -> &'a [u8] {
        // They come first, if present.
        Fields::new(self.bytes).next_bytes(CONDITIONS).unwrap_or(&[])
    }

    /// Returns the hash of the scope's name; 0 unless the span is a tool's.
    pub(crate) fn scope(self) -> u32 {
        self.number(SCOPE)
    }

    /// Returns the number of attributes dropped by the sender's SDK.
    pub(crate) fn dropped_attributes(self) -> u32 {
        self.number(DROPPED)
    }

    fn number(self, field: u8) -> u32 {
        let found = self.fields().find(|(known, _)| *known == field);
        let bytes = found.and_then(|(_, bytes)| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    }

    /// Returns the attribute of a slot.
    pub(crate) fn attribute(self, slot: KeySlot) -> Option<AnyValue<'a>> {
        self.encoded_attributes().find(|(found, _)| *found == slot).map(|(_, value)| read(value))
    }

    /// Returns the attributes with a slot in span order; each slot at most once.
    pub(crate) fn attributes(self) -> impl Iterator<Item = (KeySlot, AnyValue<'a>)> {
        self.encoded_attributes().map(|(slot, value)| (slot, read(value)))
    }

    /// Returns the attributes with a slot, still encoded: decoding a text visits each of its bytes.
    #[inline]
    pub(crate) fn encoded_attributes(self) -> impl Iterator<Item = (KeySlot, &'a [u8])> {
        self.fields().filter_map(|(field, bytes)| attribute(field, bytes))
    }

    /// Returns all retained attributes with their keys in span order, for sources with a prefix,
    /// and for root spans, of which all are retained.
    pub(crate) fn keyed(self, table: &'a Table) -> impl Iterator<Item = (&'a str, AnyValue<'a>)> {
        self.fields().filter_map(move |(field, bytes)| match field {
            ATTRIBUTE => {
                let (slot, value) =
                    slot(bytes).filter(|(slot, _)| !table.also_keyed.has(slot.0))?;
                Some((table.key(slot), read(value)))
            }
            OTHER | WORD_MATCH | BODY | NUMBERED => {
                let (key, value) = key_value(entry(field, bytes)).ok()?;
                Some((text(key), AnyValue::read(value).ok()?))
            }
            _ => None,
        })
    }

    /// Returns the attributes retained under keys with this prefix, with the rest of the key, in
    /// span order.
    pub(crate) fn behind<'p>(
        self,
        prefix: &'p str,
    ) -> impl Iterator<Item = (&'a str, AnyValue<'a>)> + 'p
    where
        'a: 'p,
    {
        self.fields().filter_map(move |(field, bytes)| {
            let (key, value) = other(field, bytes)?;
            let tail = key.strip_prefix(prefix.as_bytes())?;
            Some((text(tail), AnyValue::read(value).ok()?))
        })
    }

    /// Returns the retained attributes that may be bodies of requests or responses and end with one
    /// of the words, in span order.
    pub(crate) fn bodies(self, words: &str) -> impl Iterator<Item = AnyValue<'a>> {
        self.fields().filter_map(move |(field, bytes)| {
            let (_, entry) = if field == BODY { worded(bytes)? } else { return None };
            let (key, value) = key_value(entry).ok()?;
            let is_meant = words.split('|').any(|word| ends_with(key, word.as_bytes()));
            AnyValue::read(value).ok().filter(|_| is_meant)
        })
    }

    /// Returns the retained fields of messages numbered after one of the words, with the rest of
    /// their keys, in span order: one list per text before the word.
    pub(crate) fn numbered(self, words: &str) -> Vec<Vec<(&'a str, AnyValue<'a>)>> {
        let mut found: Vec<(&[u8], Vec<_>)> = Vec::new();
        for (_, bytes) in self.fields().filter(|(field, _)| *field == NUMBERED) {
            let Ok((key, value)) = key_value(bytes) else { continue };
            let (Some(at), Ok(value)) = (numbered_prefix(key, words), AnyValue::read(value)) else {
                continue;
            };
            let (before, tail) = key.split_at(at);
            match found.iter().position(|(known, _)| *known == before) {
                Some(at) => found[at].1.push((text(tail), value)),
                None if found.len() < NUMBERED_MAX => {
                    found.push((before, vec![(text(tail), value)]))
                }
                None => {}
            }
        }
        found.into_iter().map(|(_, entries)| entries).collect()
    }

    /// Returns the attributes with keys that match one of the words, with the rest after it, in
    /// span order; `slots` are those with a slot.
    pub(crate) fn word_matches<'p>(
        self,
        words: &'p SourceWords,
        slots: &'p [(KeySlot, Box<str>)],
    ) -> impl Iterator<Item = (&'p str, AnyValue<'a>)> + use<'a, 'p>
    where
        'a: 'p,
    {
        self.fields().filter_map(move |(field, bytes)| match field {
            ATTRIBUTE => {
                let (slot, value) = slot(bytes)?;
                let (_, tail) = slots.iter().find(|(known, _)| *known == slot)?;
                Some((&**tail, AnyValue::read(value).ok()?))
            }
            WORD_MATCH | BODY => {
                let (_, entry) = worded(bytes).filter(|(sources, _)| sources & words.bit != 0)?;
                let (key, value) = key_value(entry).ok()?;
                Some((words.find(key)?, AnyValue::read(value).ok()?))
            }
            _ => None,
        })
    }

    /// Returns all span events in order.
    #[cfg(test)]
    pub(crate) fn events(self) -> impl Iterator<Item = Event<'a>> {
        self.events_like("")
    }

    /// Returns the span events with a name that starts with one of the names separated by `|`, in
    /// order.
    pub(crate) fn events_like<'n>(self, names: &'n str) -> impl Iterator<Item = Event<'a>> + 'n
    where
        'a: 'n,
    {
        let is_meant =
            |event: &[u8]| names.split('|').any(|known| event.starts_with(known.as_bytes()));
        let mut fields = Fields::new(self.bytes);
        std::iter::from_fn(move || {
            loop {
                let number = fields.number();
                let (number, name) = match fields.next_bytes(number) {
                    Some(name) => (number, name),
                    None => match fields.next() {
                        Ok(Some((number, Field::Bytes(name)))) => (number as u8, name),
                        Ok(Some(_)) => continue,
                        _ => return None,
                    },
                };
                if number == EVENT && is_meant(name) {
                    return Some(Event { name: text(name), rest: fields });
                }
            }
        })
    }

    /// Returns the span's name, which is retained for roots, tool calls, agents, models, spans with
    /// a remote parent, and if a source names it; else empty.
    pub(crate) fn span_name(self) -> &'a str {
        self.text(SPAN_NAME)
    }

    /// Returns the encoded parts of the span, retained if an expression reads spans.
    pub(crate) fn parts(self) -> Option<&'a [u8]> {
        self.fields().find(|(field, _)| *field == PARTS).map(|(_, bytes)| bytes)
    }

    /// Returns the status message, retained if a source names the status; else empty.
    pub(crate) fn status_message(self) -> &'a str {
        self.text(STATUS_MESSAGE)
    }

    /// Returns the name of the log event; empty for spans.
    pub(crate) fn log_event(self) -> &'a str {
        self.text(LOG_EVENT)
    }

    /// Returns the body of the log event, retained if a source names it.
    pub(crate) fn log_body(self) -> Option<AnyValue<'a>> {
        let found = self.fields().find(|(field, _)| *field == LOG_BODY);
        found.and_then(|(_, bytes)| AnyValue::read(bytes).ok())
    }

    fn text(self, wanted: u8) -> &'a str {
        self.fields().find(|(field, _)| *field == wanted).map_or("", |(_, bytes)| text(bytes))
    }

    /// Returns all fields in order: number and content.
    #[inline]
    pub(crate) fn fields(self) -> impl Iterator<Item = (u8, &'a [u8])> {
        let mut fields = Fields::new(self.bytes);
        std::iter::from_fn(move || {
            let number = fields.number();
            if let Some(bytes) = fields.next_bytes(number) {
                return Some((number, bytes));
            }
            match fields.next() {
                Ok(Some((number, Field::Bytes(bytes)))) => Some((number as u8, bytes)),
                _ => None,
            }
        })
    }
}

/// Span event with its retained attributes.
#[derive(Clone, Copy)]
pub(crate) struct Event<'a> {
    /// Name of the event.
    pub name: &'a str,
    rest: Fields<'a>,
}

impl<'a> Event<'a> {
    /// Returns the attribute of a slot.
    pub(crate) fn attribute(self, slot: KeySlot) -> Option<AnyValue<'a>> {
        self.attributes().find_map(|(found, value)| (found == slot).then_some(value))
    }

    /// Returns the retained attributes in event order.
    pub(crate) fn attributes(self) -> impl Iterator<Item = (KeySlot, AnyValue<'a>)> {
        let mut fields = self.rest;
        std::iter::from_fn(move || match fields.next() {
            Ok(Some((number, Field::Bytes(bytes)))) if number == u32::from(EVENT_ATTRIBUTE) => {
                slot(bytes).map(|(slot, value)| (slot, read(value)))
            }
            _ => None,
        })
    }
}

/// Returns the conditions of an encoded list as a set.
pub(crate) fn condition_set(encoded: &[u8]) -> BitSet {
    let mut set = BitSet::default();
    let ids = encoded.as_chunks().0;
    ids.iter().for_each(|id| set.insert(u16::from_le_bytes(*id)));
    set
}

/// Returns a bit for the number of a field.
#[inline]
pub(crate) fn kind(field: u8) -> u16 {
    1 << (field & 15)
}

/// Returns the slot and encoded value of an attribute field.
#[inline]
pub(crate) fn attribute(field: u8, bytes: &[u8]) -> Option<(KeySlot, &[u8])> {
    if field == ATTRIBUTE { slot(bytes) } else { None }
}

/// Key and encoded value of an attribute.
pub(crate) type Attribute<'a> = (&'a [u8], &'a [u8]);

/// Returns a field for an attribute without a slot.
#[inline]
pub(crate) fn other(field: u8, bytes: &[u8]) -> Option<Attribute<'_>> {
    if matches!(field, OTHER | WORD_MATCH) { key_value(entry(field, bytes)).ok() } else { None }
}

/// Returns the encoded `KeyValue` of a field for an attribute without a slot.
#[inline]
fn entry(field: u8, bytes: &[u8]) -> &[u8] {
    match (field, worded(bytes)) {
        (WORD_MATCH | BODY, Some((_, entry))) => entry,
        _ => bytes,
    }
}

/// Returns the sources with a word matched by the field's key, and its encoded `KeyValue`.
#[inline]
fn worded(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (words, entry) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*words), entry))
}

/// Returns the sources with a word matched by the field's key.
#[inline]
pub(crate) fn words(field: u8, bytes: &[u8]) -> u32 {
    match field {
        WORD_MATCH | BODY => worded(bytes).map_or(0, |(words, _)| words),
        _ => 0,
    }
}

#[inline]
fn slot(bytes: &[u8]) -> Option<(KeySlot, &[u8])> {
    let (slot, value) = bytes.split_first_chunk()?;
    Some((KeySlot(u16::from_le_bytes(*slot)), value))
}

/// Decodes an attribute's value; empty if malformed.
#[inline]
pub(crate) fn read(value: &[u8]) -> AnyValue<'_> {
    AnyValue::read(value).unwrap_or_default()
}

/// Decodes UTF-8; malformed text is cut to its valid start.
fn text(bytes: &[u8]) -> &str {
    if let Ok(text) = simdutf8::basic::from_utf8(bytes) {
        return text;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""),
    }
}
