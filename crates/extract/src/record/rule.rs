//! Rule of one attribute: the form in which it is written, and for which values.

use super::layout::{ATTRIBUTE, BODY, NUMBERED, OTHER, WORD_MATCH, put, put_attribute, put_words};
use super::tool_messages::{MessagePart, is_structured_value, may_mention_calls};
use crate::table::bit_set::BitSet;
use crate::table::{Table, names_tools};
use spanscore_base::otlp::any_value::key_value;
use spanscore_base::otlp::number::span as number;
use spanscore_base::otlp::wire::{Field, Fields, Malformed};

/// Attribute of a span with its rule.
#[derive(Clone, Copy)]
pub(crate) struct AttributeRule {
    /// Index of the attribute among those read.
    pub(crate) place: u32,
    /// Form of the record's field.
    pub(crate) rule: Rule,
}

/// Form in which an attribute is written; `words` are the sources with a word matched by its key.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    /// By slot.
    Slot(u16),
    /// By slot, if its value mentions tools.
    ToolSlot(u16),
    /// By key, for a source with a prefix.
    Keyed(u32),
    /// By key, if it belongs to a message about tools.
    Message(MessagePart),
    /// By key, for the sources with the words.
    WordMatch(u32),
    /// As a body, if its value may be a request or response.
    Body {
        /// Sources with a word matched by the key.
        words: u32,
        /// Form of other values.
        otherwise: Otherwise,
    },
    /// As a field of a numbered message from an unknown instrumentation.
    Numbered {
        /// True if the key names tools.
        names_tools: bool,
    },
}

/// Form of a value other than a body.
#[derive(Clone, Copy)]
pub(crate) enum Otherwise {
    /// Dropped.
    Drop,
    /// By key.
    Keyed,
    /// See [`Rule::Numbered`].
    Numbered {
        /// True if the key names tools.
        names_tools: bool,
    },
}

impl Rule {
    /// Returns the rule's rank in a record: slots first, numbered messages last.
    pub(super) fn order(&self) -> u8 {
        match self {
            Self::Slot(_) | Self::ToolSlot(_) => 0,
            Self::Keyed(_) => 1,
            Self::Message(_) => 2,
            Self::WordMatch(_) | Self::Body { otherwise: Otherwise::Keyed, .. } => 3,
            Self::Body { .. } => 4,
            Self::Numbered { .. } => 5,
        }
    }

    /// Returns true for rules that write a slot.
    pub(super) fn is_of_slot(&self) -> bool {
        matches!(self, Self::Slot(_) | Self::ToolSlot(_))
    }

    /// Returns the message part of the rule.
    pub(super) fn message_mut(&mut self) -> Option<&mut MessagePart> {
        if let Self::Message(part) = self { Some(part) } else { None }
    }

    /// Writes an attribute, given its encoded value and `KeyValue`. `whole_bodies` retains bodies
    /// without a mention of tools. Returns true for a model's request or response about tools under
    /// a key unknown to the dialects.
    #[inline(always)]
    pub(super) fn write(
        &self,
        whole_bodies: bool,
        (value, entry): (&[u8], &[u8]),
        arena: &mut Vec<u8>,
    ) -> bool {
        match *self {
            Self::Slot(slot) => put_attribute(arena, ATTRIBUTE, slot, value),
            Self::ToolSlot(slot) => {
                if may_mention_calls(value) {
                    put_attribute(arena, ATTRIBUTE, slot, value);
                }
            }
            Self::Keyed(words)
            | Self::WordMatch(words)
            | Self::Message(MessagePart { words, .. }) => put_keyed(arena, words, entry),
            Self::Body { words, otherwise } => {
                return put_body(whole_bodies, (words, otherwise), (value, entry), arena);
            }
            Self::Numbered { names_tools } => {
                put(arena, NUMBERED, entry);
                return names_tools;
            }
        }
        false
    }
}

/// Writes an attribute as a body, if its value may be one, else in the other form. Returns as
/// [`Rule::write`] does.
#[inline(never)]
fn put_body(
    whole_bodies: bool,
    (words, otherwise): (u32, Otherwise),
    (value, entry): (&[u8], &[u8]),
    arena: &mut Vec<u8>,
) -> bool {
    let is_structured = is_structured_value(value);
    let is_about_tools = is_structured && may_mention_calls(value);
    if is_about_tools || is_structured && whole_bodies {
        put_words(arena, BODY, words, entry);
        return is_about_tools;
    }
    match otherwise {
        Otherwise::Drop => false,
        Otherwise::Keyed => {
            put_keyed(arena, words, entry);
            false
        }
        Otherwise::Numbered { names_tools } => {
            put(arena, NUMBERED, entry);
            names_tools
        }
    }
}

#[inline(never)]
fn put_keyed(arena: &mut Vec<u8>, words: u32, entry: &[u8]) {
    match words {
        0 => put(arena, OTHER, entry),
        words => put_words(arena, WORD_MATCH, words, entry),
    }
}

/// Returns the rules of all attributes of an encoded root span in order: none for a repeated key,
/// two for one with a slot that is also retained by key.
pub(super) fn root_rules(table: &Table, span: &[u8]) -> Result<Vec<[Option<Rule>; 2]>, Malformed> {
    let mut rules = Vec::new();
    let mut written = BitSet::default();
    let mut fields = Fields::new(span);
    while let Some(field) = fields.next()? {
        let (number::ATTRIBUTES, Field::Bytes(entry)) = field else { continue };
        let (key, _) = key_value(entry)?;
        let slot = table.keys.get(key);
        let by_key = slot.is_none_or(|slot| table.also_keyed.has(slot));
        let slot = slot.filter(|slot| !written.has(*slot));
        slot.iter().for_each(|slot| written.insert(*slot));
        rules.push([slot.map(Rule::Slot), by_key.then(|| root_rule(table, key))]);
    }
    Ok(rules)
}

/// Returns the rule of an attribute of a root span that is retained by key.
fn root_rule(table: &Table, key: &[u8]) -> Rule {
    let matcher = &table.matcher;
    let words = || matcher.words.sources_of(key);
    let is_numbered = matcher.is_numbered(key) && matcher.prefixes_of(key) == 0;
    let names_tools = is_numbered && names_tools(key);
    match (matcher.is_body(key), is_numbered) {
        (true, true) => {
            Rule::Body { words: words(), otherwise: Otherwise::Numbered { names_tools } }
        }
        (true, false) => Rule::Body { words: words(), otherwise: Otherwise::Keyed },
        (false, true) => Rule::Numbered { names_tools },
        (false, false) => Rule::Keyed(words()),
    }
}
