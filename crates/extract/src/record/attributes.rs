//! Attributes and events of one span or log record, collected in one pass and written as facts.

use super::key_trie::{KeyMeaning, check};
use super::layout::{self, ATTRIBUTE, EVENT, EVENT_ATTRIBUTE, put, put_attribute};
use super::retention::Retention;
use super::rule::{AttributeRule, Rule, root_rules};
use super::tool_messages::MessageContents;
use crate::standing::names_call;
use crate::table::{Projection, Table, is_tool_name};
use spanscore_base::otlp::any_value::key_value;
use spanscore_base::otlp::number::span as number;
use spanscore_base::otlp::wire::{Field, Fields, Malformed};

/// Attributes and events of the current span that a dialect may read. One instance serves a whole
/// request.
#[derive(Default)]
pub(crate) struct SpanAttributes<'a> {
    /// Attributes in span order, each slot once.
    read: Vec<ReadAttribute<'a>>,
    events: Vec<&'a [u8]>,
}

/// Attribute that may be read.
struct ReadAttribute<'a> {
    meaning: KeyMeaning,
    /// Encoded value.
    value: &'a [u8],
    /// Encoded `KeyValue`.
    entry: &'a [u8],
}

impl<'a> SpanAttributes<'a> {
    pub(crate) fn clear(&mut self) {
        self.read.clear();
        self.events.clear();
    }

    /// Adds an attribute that may be read.
    #[inline(always)]
    pub(crate) fn push(&mut self, meaning: KeyMeaning, value: &'a [u8], entry: &'a [u8]) {
        self.read.push(ReadAttribute { meaning, value, entry });
    }

    /// Adds an encoded span event.
    #[inline]
    pub(crate) fn event(&mut self, event: &'a [u8]) {
        self.events.push(event);
    }

    /// Returns the meanings of the attributes' keys with the encoded attributes.
    pub(crate) fn meanings(&self) -> impl Iterator<Item = (KeyMeaning, &'a [u8])> {
        self.read.iter().map(|read| (read.meaning, read.entry))
    }

    /// Returns the slots of the attributes.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u16> {
        self.read.iter().filter_map(|read| match read.meaning {
            KeyMeaning::Slot(slot) | KeyMeaning::Stated(slot) => Some(slot),
            KeyMeaning::Unread | KeyMeaning::Behind | KeyMeaning::Kind => None,
        })
    }

    /// Returns true if a span's name is that of a call to a tool that the attributes name.
    pub(crate) fn name_call(&self, span: &[u8]) -> bool {
        let Ok(span) = str::from_utf8(span) else { return false };
        let tool = |(key, value): (&[u8], &'a [u8])| {
            is_tool_name(key).then(|| layout::read(value).as_str()).flatten()
        };
        let mut tools = self.read.iter().filter_map(|it| tool(key_value(it.entry).ok()?));
        tools.any(|tool| names_call(span, tool))
    }

    /// Writes the retained attributes and events. Returns true if any is the body of a model's
    /// request or response about tools under a key unknown to the dialects.
    pub(crate) fn write(
        &self,
        table: &Table,
        retention: &Retention,
        arena: &mut Vec<u8>,
    ) -> Result<bool, Malformed> {
        // Most attributes have a slot and come first. One loop for all rules, or a call for each,
        // took 4 % more instructions of extraction with one dialect.
        let (slots, rest) = retention.rules.split_at(retention.leading_slots);
        for AttributeRule { place, rule } in slots {
            if let Rule::Slot(slot) = rule
                && let Some(read) = self.read.get(*place as usize)
            {
                put_attribute(arena, ATTRIBUTE, *slot, read.value);
            }
        }
        let has_body = !rest.is_empty() && self.write_rest(table, rest, arena);
        self.write_events(table, &retention.keep, arena)?;
        Ok(has_body)
    }

    /// Writes the attributes of rules after the leading slots. Returns as [`Rule::write`] does.
    #[inline(never)]
    fn write_rest(&self, table: &Table, rules: &[AttributeRule], arena: &mut Vec<u8>) -> bool {
        let value = |place: u32| self.read.get(place as usize).map_or(&[][..], |read| read.value);
        let contents = MessageContents::read(rules, value);
        let mut has_body = false;
        for AttributeRule { place, rule } in rules {
            let Some(ReadAttribute { value, entry, .. }) = self.read.get(*place as usize) else {
                continue;
            };
            has_body |= match rule {
                Rule::Message(part) if !contents.keep(part, value) => false,
                rule => rule.write(table.matcher.whole_bodies, (value, entry), arena),
            };
        }
        has_body
    }

    /// Writes the retained events, and all attributes in span order.
    pub(crate) fn write_root(
        &self,
        table: &Table,
        retention: &Retention,
        span: &'a [u8],
        arena: &mut Vec<u8>,
    ) -> Result<bool, Malformed> {
        let rules = match retention.root.get() {
            Some(rules) => rules,
            None => {
                let rules = root_rules(table, span)?;
                retention.root.get_or_init(|| rules)
            }
        };
        let mut has_body = false;
        let mut rules = rules.iter();
        let mut fields = Fields::new(span);
        while let Some(field) = fields.next()? {
            let (number::ATTRIBUTES, Field::Bytes(entry)) = field else { continue };
            let value = key_value(entry)?.1;
            for rule in rules.next().into_iter().flatten().flatten() {
                has_body |= rule.write(true, (value, entry), arena);
            }
        }
        self.write_events(table, &retention.keep, arena)?;
        Ok(has_body)
    }

    fn write_events(
        &self,
        table: &Table,
        keep: &Projection,
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
