//! The form of a record's facts.
//!
//! A record's facts are a sequence of protobuf fields, so that the one walker of the project reads
//! them. They are made in this process and never leave it: the form may change at any time.
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

/// Appends an attribute: its slot and its encoded value.
#[inline]
pub(crate) fn put_attribute(arena: &mut Vec<u8>, field: u8, slot: u16, value: &[u8]) {
    put_behind(arena, field, slot.to_le_bytes(), value);
}

/// Appends an attribute: the sources with a word that its key matches, and the encoded `KeyValue`.
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

/// Most bytes of a field's tag and length.
const HEADER_MAX: usize = 11;

/// Appends tag and length of a field; its content must follow.
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

/// Lists of messages that are told apart on one record, by what stands before their words; of more
/// the rest is left out.
const NUMBERED_MAX: usize = 8;

/// Reads the facts of one record.
#[derive(Clone, Copy)]
pub(crate) struct FactsReader<'a> {
    bytes: &'a [u8],
}

impl<'a> FactsReader<'a> {
    /// Reads facts that were written by this process
    /// ([`TraceSpans::facts`](spanscore_base::model::TraceSpans::facts)).
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// All that is written.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The conditions of the dialects that hold for the span, ascending. Where an exclusion holds,
    /// no `detect` is among them.
    pub(crate) fn conditions(self) -> impl Iterator<Item = ConditionId> + 'a {
        let ids = self.encoded_conditions().as_chunks().0;
        ids.iter().map(|id| ConditionId(u16::from_le_bytes(*id)))
    }

    /// Returns the set of these conditions.
    pub(crate) fn condition_set(self) -> BitSet {
        condition_set(self.encoded_conditions())
    }

    fn encoded_conditions(self) -> &'a [u8] {
        // They stand first, where there are any.
        Fields::new(self.bytes).next_bytes(CONDITIONS).unwrap_or(&[])
    }

    /// Returns the hash of the scope's name; 0 for a span that is no tool's.
    pub(crate) fn scope(self) -> u32 {
        self.number(SCOPE)
    }

    /// Returns the number of attributes that the sender's SDK dropped.
    pub(crate) fn dropped_attributes(self) -> u32 {
        self.number(DROPPED)
    }

    fn number(self, field: u8) -> u32 {
        let found = self.fields().find(|(known, _)| *known == field);
        let bytes = found.and_then(|(_, bytes)| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    }

    /// The attribute of that slot.
    pub(crate) fn attribute(self, slot: KeySlot) -> Option<AnyValue<'a>> {
        self.encoded_attributes().find(|(found, _)| *found == slot).map(|(_, value)| read(value))
    }

    /// The attributes that have a slot, in the order of the span; no slot comes twice.
    pub(crate) fn attributes(self) -> impl Iterator<Item = (KeySlot, AnyValue<'a>)> {
        self.encoded_attributes().map(|(slot, value)| (slot, read(value)))
    }

    /// The attributes that have a slot, their values still encoded: to read a text is to look at
    /// each of its bytes.
    #[inline]
    pub(crate) fn encoded_attributes(self) -> impl Iterator<Item = (KeySlot, &'a [u8])> {
        self.fields().filter_map(|(field, bytes)| attribute(field, bytes))
    }

    /// All kept attributes with their keys, in the order of the span: for sources that read a
    /// prefix of keys, and for the attributes of a root span, where all are kept.
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

    /// The attributes that are kept under their keys, behind this prefix, with the rest of their
    /// keys, in the order of the span.
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

    /// The kept attributes that may be bodies of requests or responses and whose keys end at one of
    /// the words, in the order of the span.
    pub(crate) fn bodies(self, words: &str) -> impl Iterator<Item = AnyValue<'a>> {
        self.fields().filter_map(move |(field, bytes)| {
            let (_, entry) = if field == BODY { worded(bytes)? } else { return None };
            let (key, value) = key_value(entry).ok()?;
            let is_meant = words.split('|').any(|word| ends_with(key, word.as_bytes()));
            AnyValue::read(value).ok().filter(|_| is_meant)
        })
    }

    /// The kept fields of messages that are numbered behind one of the words, with the rest of
    /// their keys, in the order of the span: one list for all that stands before the word.
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

    /// Returns the attributes whose keys match one of the words, with the rest behind it, in the
    /// order of the span; `slots` are those with a slot.
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

    /// All span events, in the order of the span.
    #[cfg(test)]
    pub(crate) fn events(self) -> impl Iterator<Item = Event<'a>> {
        self.events_like("")
    }

    /// The span events whose names begin with one of some names divided by `|`, in the order of the
    /// span.
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

    /// The span's name: kept of roots, tool calls, agents and models, spans whose parent is in
    /// another process, and where a source names it; else empty.
    pub(crate) fn span_name(self) -> &'a str {
        self.text(SPAN_NAME)
    }

    /// The encoded parts of the span, kept where an expression reads spans.
    pub(crate) fn parts(self) -> Option<&'a [u8]> {
        self.fields().find(|(field, _)| *field == PARTS).map(|(_, bytes)| bytes)
    }

    /// The status message, kept where a source names the status; empty where there is none.
    pub(crate) fn status_message(self) -> &'a str {
        self.text(STATUS_MESSAGE)
    }

    /// The name of the log event; empty for spans.
    pub(crate) fn log_event(self) -> &'a str {
        self.text(LOG_EVENT)
    }

    /// The body of the log event, kept where a source names it; `None` where it has none.
    pub(crate) fn log_body(self) -> Option<AnyValue<'a>> {
        let found = self.fields().find(|(field, _)| *field == LOG_BODY);
        found.and_then(|(_, bytes)| AnyValue::read(bytes).ok())
    }

    fn text(self, wanted: u8) -> &'a str {
        self.fields().find(|(field, _)| *field == wanted).map_or("", |(_, bytes)| text(bytes))
    }

    /// All that is written, in order: the number of each field and its content.
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

/// A span event with its kept attributes.
#[derive(Clone, Copy)]
pub(crate) struct Event<'a> {
    /// The event's name.
    pub name: &'a str,
    rest: Fields<'a>,
}

impl<'a> Event<'a> {
    /// The attribute of that slot.
    pub(crate) fn attribute(self, slot: KeySlot) -> Option<AnyValue<'a>> {
        self.attributes().find_map(|(found, value)| (found == slot).then_some(value))
    }

    /// The kept attributes, in the order of the event.
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

/// A bit for the number of a field.
#[inline]
pub(crate) fn kind(field: u8) -> u16 {
    1 << (field & 15)
}

/// Slot and encoded value of a field that is an attribute.
#[inline]
pub(crate) fn attribute(field: u8, bytes: &[u8]) -> Option<(KeySlot, &[u8])> {
    if field == ATTRIBUTE { slot(bytes) } else { None }
}

/// Key and encoded value of an attribute.
pub(crate) type Attribute<'a> = (&'a [u8], &'a [u8]);

/// A field that is an attribute without a slot.
#[inline]
pub(crate) fn other(field: u8, bytes: &[u8]) -> Option<Attribute<'_>> {
    if matches!(field, OTHER | WORD_MATCH) { key_value(entry(field, bytes)).ok() } else { None }
}

/// The encoded `KeyValue` of a field that is an attribute without a slot.
#[inline]
fn entry(field: u8, bytes: &[u8]) -> &[u8] {
    match (field, worded(bytes)) {
        (WORD_MATCH | BODY, Some((_, entry))) => entry,
        _ => bytes,
    }
}

/// Returns the sources with a word that the key of a field matches, and its encoded `KeyValue`.
#[inline]
fn worded(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (words, entry) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*words), entry))
}

/// Returns the sources with a word that the key of a field matches.
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

/// An attribute's value; none where it is broken.
#[inline]
pub(crate) fn read(value: &[u8]) -> AnyValue<'_> {
    AnyValue::read(value).unwrap_or_default()
}

/// Names are UTF-8 in all but broken data, where the readable beginning is taken.
fn text(bytes: &[u8]) -> &str {
    if let Ok(text) = simdutf8::basic::from_utf8(bytes) {
        return text;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""),
    }
}
