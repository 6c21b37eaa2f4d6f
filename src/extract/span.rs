//! What one pass over an encoded span or log record collects, and how it becomes facts.

use super::bits::Bits;
use super::facts::{ATTRIBUTE, EVENT, EVENT_ATTRIBUTE, OTHER, put, put_attribute};
use super::seen::{KeyMeaning, SeenKeys};
use super::table::{Kept, Matching, Table};
use super::tools_only::{
    MessageField, MessageKey, MessagePart, keep_tool_messages, speaks_of_tools,
};
use crate::otlp::any_value::key_value;
use crate::otlp::number::span as number;
use crate::otlp::wire::{Field, Fields, Malformed, leading_bytes};

/// The attributes and events of the span at hand, in so far as some dialect may read them. One
/// serves a whole request.
#[derive(Default)]
pub(super) struct Collected<'a> {
    keys: SeenKeys<'a>,
    /// Slot and encoded value, in the order of the span, each slot once.
    attributes: Vec<(u16, &'a [u8])>,
    seen: Bits,
    behind_prefixes: Vec<BehindPrefix<'a>>,
    events: Vec<&'a [u8]>,
    message_parts: Vec<MessagePart<'a>>,
    messages: Vec<(MessageKey, bool)>,
}

struct BehindPrefix<'a> {
    prefixes: u64,
    /// What the key says behind the first of them.
    field: MessageField,
    key: &'a [u8],
    value: &'a [u8],
    entry: &'a [u8],
}

impl<'a> Collected<'a> {
    pub(super) fn clear(&mut self) {
        self.attributes.clear();
        self.seen = Bits::default();
        self.behind_prefixes.clear();
        self.events.clear();
    }

    /// Takes an encoded attribute.
    #[inline(always)]
    pub(super) fn attribute(
        &mut self,
        table: &Table,
        matching: &mut Matching,
        entry: &'a [u8],
    ) -> Result<(), Malformed> {
        let (key, value) = key_value(entry)?;
        match self.keys.meaning(table, key) {
            KeyMeaning::Unread => {}
            KeyMeaning::Slot(slot) => {
                matching.attribute(table, slot, value, check(value)?);
                // Keys are unique; where a sender breaks that, the first counts.
                if !self.seen.has(slot) {
                    self.seen.insert(slot);
                    self.attributes.push((slot, value));
                }
            }
            KeyMeaning::Behind(prefixes, field) => {
                check(value)?;
                let found = BehindPrefix { prefixes, field, key, value, entry };
                self.behind_prefixes.push(found);
            }
        }
        Ok(())
    }

    /// Takes an encoded span event.
    #[inline]
    pub(super) fn event(&mut self, event: &'a [u8]) {
        self.events.push(event);
    }

    /// Writes the attributes and events that are kept.
    pub(super) fn write(
        &mut self,
        table: &Table,
        keep: &Kept,
        arena: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        for (slot, value) in &self.attributes {
            if keep.slots.has(*slot) || keep.tools_only.has(*slot) && speaks_of_tools(value) {
                put_attribute(arena, ATTRIBUTE, *slot, value);
            }
        }
        if keep.prefixes != 0 && !self.behind_prefixes.is_empty() {
            self.write_behind_prefixes(table, keep, arena);
        }
        self.write_events(table, keep, arena)
    }

    fn write_behind_prefixes(&mut self, table: &Table, keep: &Kept, arena: &mut Vec<u8>) {
        self.message_parts.clear();
        let whole = keep.prefixes & !table.tools_only_prefixes;
        for found in &self.behind_prefixes {
            let hits = found.prefixes & keep.prefixes;
            if found.prefixes & whole != 0 {
                put(arena, OTHER, found.entry);
            } else if hits != 0 {
                let prefix = hits.trailing_zeros() as u16;
                let field = if found.field.prefix() == prefix {
                    found.field
                } else {
                    MessageField::new(prefix, table.prefixes.tail(prefix, found.key))
                };
                self.message_parts.push(MessagePart::new(field, found.value, found.entry));
            }
        }
        keep_tool_messages(&self.message_parts, &mut self.messages, |entry| {
            put(arena, OTHER, entry);
        });
    }

    /// Writes the kept events, and all attributes in the order of the span.
    pub(super) fn write_root(
        &mut self,
        table: &Table,
        keep: &Kept,
        span: &'a [u8],
        arena: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let mut written = Bits::default();
        let mut fields = Fields::new(span);
        while let Some(field) = fields.next()? {
            let (number::ATTRIBUTES, Field::Bytes(entry)) = field else { continue };
            let (key, value) = key_value(entry)?;
            match table.keys.get(key) {
                None => put(arena, OTHER, entry),
                Some(slot) if !written.has(slot) => {
                    written.insert(slot);
                    put_attribute(arena, ATTRIBUTE, slot, value);
                }
                Some(_) => {}
            }
        }
        self.write_events(table, keep, arena)
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

/// Whether an encoded value is well-formed, one level deep; what lies deeper is read leniently. The
/// bytes of the text, if it is nothing but one.
#[inline]
fn check(value: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    if let Some((text, [])) = leading_bytes(value, 1) {
        return Ok(Some(text));
    }
    let mut fields = Fields::new(value);
    while fields.next()?.is_some() {}
    Ok(None)
}
