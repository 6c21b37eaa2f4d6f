//! What one pass over an encoded span or log record collects, and how it becomes facts.

use super::key_trie::{KeyMeaning, check};
use super::layout::{
    ATTRIBUTE, BODY, EVENT, EVENT_ATTRIBUTE, INDEXED, OTHER, WORDED, put, put_attribute, put_worded,
};
use super::retention::Retention;
use super::tool_messages::{is_structured_value, keep_tool_messages, speaks_of_tools};
use crate::table::bit_set::BitSet;
use crate::table::{Kept, Table, names_tools};
use spanscore_base::otlp::any_value::key_value;
use spanscore_base::otlp::number::span as number;
use spanscore_base::otlp::wire::{Field, Fields, Malformed};

/// The attributes and events of the span at hand, in so far as some dialect may read them. One
/// serves a whole request.
#[derive(Default)]
pub(crate) struct SpanAttributes<'a> {
    /// In the order of the span, each slot once.
    read: Vec<ReadAttribute<'a>>,
    events: Vec<&'a [u8]>,
}

/// An attribute that may be read.
struct ReadAttribute<'a> {
    meaning: KeyMeaning,
    /// Its encoded value.
    value: &'a [u8],
    /// Its encoded `KeyValue`.
    entry: &'a [u8],
}

impl<'a> SpanAttributes<'a> {
    pub(crate) fn clear(&mut self) {
        self.read.clear();
        self.events.clear();
    }

    /// Takes an attribute that may be read.
    #[inline(always)]
    pub(crate) fn push(&mut self, meaning: KeyMeaning, value: &'a [u8], entry: &'a [u8]) {
        self.read.push(ReadAttribute { meaning, value, entry });
    }

    /// Takes an encoded span event.
    #[inline]
    pub(crate) fn event(&mut self, event: &'a [u8]) {
        self.events.push(event);
    }

    /// What the keys of the attributes mean, and the encoded attributes.
    pub(crate) fn meanings(&self) -> impl Iterator<Item = (KeyMeaning, &'a [u8])> {
        self.read.iter().map(|read| (read.meaning, read.entry))
    }

    /// The slots of the attributes that have one.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u16> {
        self.read.iter().filter_map(|read| match read.meaning {
            KeyMeaning::Slot(slot) | KeyMeaning::Stated(slot) => Some(slot),
            KeyMeaning::Unread | KeyMeaning::Behind | KeyMeaning::Kind => None,
        })
    }

    /// Writes the attributes and events that are kept. Whether any holds the body of a model's
    /// request or response that speaks of tools, though no dialect knows its key.
    pub(crate) fn write(
        &self,
        table: &Table,
        retention: &Retention,
        arena: &mut Vec<u8>,
    ) -> Result<bool, Malformed> {
        for kept in &retention.attributes {
            let Some(ReadAttribute { value, .. }) = self.read.get(kept.place as usize) else {
                continue;
            };
            if !kept.tools_only || speaks_of_tools(value) {
                put_attribute(arena, ATTRIBUTE, kept.slot, value);
            }
        }
        for (place, words) in &retention.others {
            if let Some(read) = self.read.get(*place as usize) {
                put_other(arena, *words, read.entry);
            }
        }
        let read = |place: u32| self.read.get(place as usize);
        let value = |place| read(place).map_or(&[][..], |read| read.value);
        keep_tool_messages(&retention.messages, value, |part| {
            put_other(arena, part.words, read(part.place).map_or(&[], |read| read.entry));
        });
        let mut has_body = false;
        for (place, ends_so, words) in &retention.worded {
            let Some(read) = read(*place) else { continue };
            let may_be_body = *ends_so && !retention.kind.tool && is_structured_value(read.value);
            let is_about_tools = may_be_body && speaks_of_tools(read.value);
            has_body |= is_about_tools;
            let is_body = is_about_tools || may_be_body && table.endings.whole;
            put_worded(arena, if is_body { BODY } else { WORDED }, *words, read.entry);
        }
        for (place, words) in &retention.bodies {
            let Some(read) = read(*place) else { continue };
            let is_body = speaks_of_tools(read.value) && is_structured_value(read.value);
            has_body |= is_body;
            if is_body || table.endings.whole && is_structured_value(read.value) {
                put_worded(arena, BODY, *words, read.entry);
            }
        }
        for (place, names_tools) in &retention.indexed {
            let Some(read) = read(*place) else { continue };
            has_body |= names_tools;
            put(arena, INDEXED, read.entry);
        }
        self.write_events(table, &retention.keep, arena)?;
        Ok(has_body)
    }

    /// Writes the kept events, and all attributes in the order of the span.
    pub(crate) fn write_root(
        &self,
        table: &Table,
        retention: &Retention,
        span: &'a [u8],
        arena: &mut Vec<u8>,
    ) -> Result<bool, Malformed> {
        let keys = match retention.root.get() {
            Some(keys) => keys,
            None => {
                let keys = root_keys(table, span)?;
                retention.root.get_or_init(|| keys)
            }
        };
        let mut has_body = false;
        let mut keys = keys.iter();
        let mut fields = Fields::new(span);
        while let Some(field) = fields.next()? {
            let (number::ATTRIBUTES, Field::Bytes(entry)) = field else { continue };
            let value = key_value(entry)?.1;
            match keys.next() {
                Some(RootKey::Slot(slot)) => put_attribute(arena, ATTRIBUTE, *slot, value),
                Some(RootKey::Body(words, _)) if is_structured_value(value) => {
                    has_body |= speaks_of_tools(value);
                    put_worded(arena, BODY, *words, entry);
                }
                Some(RootKey::Indexed(names_tools) | RootKey::Body(_, Some(names_tools))) => {
                    has_body |= names_tools;
                    put(arena, INDEXED, entry);
                }
                Some(RootKey::Other(words) | RootKey::Body(words, None)) => {
                    put_other(arena, *words, entry);
                }
                Some(RootKey::Again) | None => {}
            }
        }
        self.write_events(table, &retention.keep, arena)?;
        Ok(has_body)
    }

    fn write_events(
        &self,
        table: &Table,
        keep: &Kept,
        arena: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        if keep.events == 0 {
            return Ok(());
        }
        for event in &self.events {
            let name = event_name(event)?;
            let Some(event_number) = table.events.get(name) else { continue };
            let Some(slots) = table.event_slots.get(usize::from(event_number)) else { continue };
            if keep.events >> event_number & 1 == 0 {
                continue;
            }
            put(arena, EVENT, name);
            let mut fields = Fields::new(event);
            while let Some(field) = fields.next()? {
                let (number::EVENT_ATTRIBUTES, Field::Bytes(entry)) = field else { continue };
                let (key, value) = key_value(entry)?;
                if let Some(slot) = table.keys.get(key).filter(|slot| slots.has(*slot)) {
                    check(value)?;
                    put_attribute(arena, EVENT_ATTRIBUTE, slot, value);
                }
            }
        }
        Ok(())
    }
}

/// What the key of an attribute of a root span means, all of which are kept.
pub(crate) enum RootKey {
    /// It has a slot.
    Slot(u16),
    /// It came before.
    Again,
    /// A field of a numbered message; whether the key names tools.
    Indexed(bool),
    /// A body may stand under it; else it is the key of such a field, or any. By the words of which
    /// sources it is worded.
    Body(u32, Option<bool>),
    /// Any other; by the words of which sources it is worded.
    Other(u32),
}

/// What the keys of an encoded span mean, in order.
fn root_keys(table: &Table, span: &[u8]) -> Result<Vec<RootKey>, Malformed> {
    let mut keys = Vec::new();
    let mut written = BitSet::default();
    let mut fields = Fields::new(span);
    while let Some(field) = fields.next()? {
        let (number::ATTRIBUTES, Field::Bytes(entry)) = field else { continue };
        let (key, _) = key_value(entry)?;
        let words = || table.worded.bits(key);
        let indexed = || {
            let is_indexed = table.prefixes.of(key) == 0 && table.indexed.has(key);
            is_indexed.then(|| names_tools(key))
        };
        keys.push(match table.keys.get(key) {
            None if table.endings.has(key) => RootKey::Body(words(), indexed()),
            None => indexed().map_or_else(|| RootKey::Other(words()), RootKey::Indexed),
            Some(slot) if written.has(slot) => RootKey::Again,
            Some(slot) => {
                written.insert(slot);
                RootKey::Slot(slot)
            }
        });
    }
    Ok(keys)
}

fn put_other(arena: &mut Vec<u8>, words: u32, entry: &[u8]) {
    match words {
        0 => put(arena, OTHER, entry),
        words => put_worded(arena, WORDED, words, entry),
    }
}

fn event_name(event: &[u8]) -> Result<&[u8], Malformed> {
    let mut fields = Fields::new(event);
    let mut name: &[u8] = &[];
    while let Some(field) = fields.next()? {
        if let (number::EVENT_NAME, Field::Bytes(bytes)) = field {
            name = bytes;
        }
    }
    Ok(name)
}
