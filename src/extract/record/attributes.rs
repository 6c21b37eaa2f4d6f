//! What one pass over an encoded span or log record collects, and how it becomes facts.

use super::key_trie::{KeyMeaning, check};
use super::layout::{ATTRIBUTE, BODY, EVENT, EVENT_ATTRIBUTE, INDEXED, OTHER, put, put_attribute};
use super::retention::Retention;
use super::tool_messages::{is_structured_value, keep_tool_messages, speaks_of_tools};
use crate::extract::table::bit_set::BitSet;
use crate::extract::table::{Kept, Table, names_tools};
use crate::otlp::any_value::key_value;
use crate::otlp::number::span as number;
use crate::otlp::wire::{Field, Fields, Malformed};

/// The attributes and events of the span at hand, in so far as some dialect may read them. One
/// serves a whole request.
#[derive(Default)]
pub(in crate::extract) struct SpanAttributes<'a> {
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
    pub(in crate::extract) fn clear(&mut self) {
        self.read.clear();
        self.events.clear();
    }

    /// Takes an attribute that may be read.
    #[inline(always)]
    pub(in crate::extract) fn push(
        &mut self,
        meaning: KeyMeaning,
        value: &'a [u8],
        entry: &'a [u8],
    ) {
        self.read.push(ReadAttribute { meaning, value, entry });
    }

    /// Takes an encoded span event.
    #[inline]
    pub(in crate::extract) fn event(&mut self, event: &'a [u8]) {
        self.events.push(event);
    }

    /// What the keys of the attributes mean, and the encoded attributes.
    pub(in crate::extract) fn meanings(&self) -> impl Iterator<Item = (KeyMeaning, &'a [u8])> {
        self.read.iter().map(|read| (read.meaning, read.entry))
    }

    /// The slots of the attributes that have one.
    pub(in crate::extract) fn slots(&self) -> impl Iterator<Item = u16> {
        self.read.iter().filter_map(|read| match read.meaning {
            KeyMeaning::Slot(slot) | KeyMeaning::Stated(slot) => Some(slot),
            KeyMeaning::Unread | KeyMeaning::Behind | KeyMeaning::Kind => None,
        })
    }

    /// Writes the attributes and events that are kept. Whether any holds the body of a model's
    /// request or response that speaks of tools, though no dialect knows its key.
    pub(in crate::extract) fn write(
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
        for place in &retention.others {
            if let Some(read) = self.read.get(*place as usize) {
                put(arena, OTHER, read.entry);
            }
        }
        let read = |place: u32| self.read.get(place as usize);
        let value = |place| read(place).map_or(&[][..], |read| read.value);
        keep_tool_messages(&retention.messages, value, |place| {
            put(arena, OTHER, read(place).map_or(&[], |read| read.entry));
        });
        let mut has_body = false;
        for (place, ends_so) in &retention.worded {
            let Some(read) = read(*place) else { continue };
            let may_be_body = *ends_so && !retention.kind.tool && is_structured_value(read.value);
            let is_about_tools = may_be_body && speaks_of_tools(read.value);
            has_body |= is_about_tools;
            let is_body = is_about_tools || may_be_body && table.endings.whole;
            put(arena, if is_body { BODY } else { OTHER }, read.entry);
        }
        for read in retention.bodies.iter().filter_map(|place| read(*place)) {
            let is_body = speaks_of_tools(read.value) && is_structured_value(read.value);
            has_body |= is_body;
            if is_body || table.endings.whole && is_structured_value(read.value) {
                put(arena, BODY, read.entry);
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
    pub(in crate::extract) fn write_root(
        &self,
        table: &Table,
        keep: &Kept,
        span: &'a [u8],
        arena: &mut Vec<u8>,
    ) -> Result<bool, Malformed> {
        let mut has_body = false;
        let mut written = BitSet::default();
        let mut fields = Fields::new(span);
        while let Some(field) = fields.next()? {
            let (number::ATTRIBUTES, Field::Bytes(entry)) = field else { continue };
            let (key, value) = key_value(entry)?;
            match table.keys.get(key) {
                None if table.endings.has(key) && is_structured_value(value) => {
                    has_body |= speaks_of_tools(value);
                    put(arena, BODY, entry);
                }
                None if table.prefixes.of(key) == 0 && table.indexed.has(key) => {
                    has_body |= names_tools(key);
                    put(arena, INDEXED, entry);
                }
                None => put(arena, OTHER, entry),
                Some(slot) if !written.has(slot) => {
                    written.insert(slot);
                    put_attribute(arena, ATTRIBUTE, slot, value);
                }
                Some(_) => {}
            }
        }
        self.write_events(table, keep, arena)?;
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
