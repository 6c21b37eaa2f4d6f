//! Reading plan: a [`Table`]'s sources by the part of a record that they read.

use super::super::dialect::{FactSource, From, Mark, Role};
use super::super::table::Table;
use crate::record::layout;
use crate::table::bit_set::BitSet;
use crate::table::{ConditionId, KeySlot, SourceWords};

/// Sources and conditions of a table, indexed for reading records.
#[derive(Debug, Default)]
pub(super) struct ReadingPlan {
    pub(super) dialects: Vec<DialectPlan>,
    pub(super) sources: Vec<PlannedSource>,
    /// For each condition its marks, with their dialects in order of priority.
    marks: Vec<Vec<(Mark, u16)>>,
    /// For each slot the sources of all facts except tool calls.
    pub(super) by_slot: Vec<Vec<u16>>,
    /// Sources that read another part of a span, except those of tool calls.
    pub(super) by_other: Vec<u16>,
    /// Sources that read log events.
    pub(super) by_log: Vec<u16>,
    /// True if any source reads a tool's schema from its spans.
    pub(super) has_schemas: bool,
    /// True if any dialect has no marker of tools.
    pub(super) has_unmarked: bool,
    /// Names of output tools; with `*` at the end, prefixes of names.
    pub(super) output_tools: Vec<String>,
}

/// Sources of one dialect for tool calls.
#[derive(Debug, Default)]
pub(super) struct DialectPlan {
    pub(super) name: String,
    pub(super) input_excludes_cache: bool,
    pub(super) unmarked: bool,
    call: [Vec<u16>; Role::CALL.len()],
}

/// Source with its place.
#[derive(Debug)]
pub(super) struct PlannedSource {
    pub(super) role: Role,
    pub(super) dialect: u16,
    pub(super) on: Option<ConditionId>,
    pub(super) read: FactPlace,
    pub(super) source: FactSource,
}

/// Place of a source's value in a record's facts.
#[derive(Debug)]
pub(super) enum FactPlace {
    Attr(KeySlot),
    Prefix,
    Ending,
    Numbered,
    /// By words, with the matching keys that have a slot and their rest after the word.
    WordMatch(SourceWords, Vec<(KeySlot, Box<str>)>),
    Object(Vec<KeySlot>),
    Event(KeySlot),
    EventObject(Vec<KeySlot>),
    SpanName,
    Status,
    LogBody,
    LogAttr(KeySlot),
}

impl ReadingPlan {
    pub(super) fn new(table: &Table) -> Self {
        let marks = table.marks().map(<[_]>::to_vec).collect();
        let mut plan = Self { marks, ..Self::default() };
        for (number, dialect) in table.dialects().iter().enumerate() {
            let number = number as u16;
            plan.dialects.push(DialectPlan {
                name: dialect.name.clone(),
                input_excludes_cache: dialect.usage.input_excludes_cache,
                unmarked: dialect.only_if_asked,
                ..DialectPlan::default()
            });
            plan.has_unmarked |= dialect.only_if_asked;
            plan.output_tools.extend_from_slice(&dialect.output_tools);
            for (role, source) in dialect.sources().filter(|(role, _)| table.needs(*role)) {
                plan.source(table, number, role, source);
            }
        }
        plan
    }

    /// Returns a dialect's sources for a part of a tool call.
    pub(super) fn call_sources(&self, dialect: u16, role: Role) -> &[u16] {
        match (self.dialects.get(usize::from(dialect)), role.call_place()) {
            (Some(dialect), Some(at)) => &dialect.call[at],
            _ => &[],
        }
    }

    /// Returns the numbers of the dialects that read a record with these conditions as a tool call,
    /// by priority.
    pub(super) fn tool_dialects(&self, conditions: &BitSet) -> Vec<u16> {
        let mut dialects: Vec<u16> = self.dialects_of(Mark::Tool, conditions).collect();
        dialects.sort_unstable();
        dialects
    }

    /// Returns the numbers of the dialects that give a mark to a record with these conditions.
    pub(super) fn dialects_of(&self, mark: Mark, conditions: &BitSet) -> impl Iterator<Item = u16> {
        let marks = conditions.iter().filter_map(|id| self.marks.get(usize::from(id)));
        marks.flatten().filter(move |(known, _)| *known == mark).map(|(_, dialect)| *dialect)
    }

    /// Returns the sources of some dialects for a part of a tool call by precedence, on a record
    /// with these conditions.
    pub(super) fn sources_of_call(
        &self,
        role: Role,
        dialects: &[u16],
        conditions: &BitSet,
    ) -> impl Iterator<Item = u16> {
        let numbers = dialects.iter().flat_map(move |dialect| self.call_sources(*dialect, role));
        numbers.copied().filter(move |number| {
            self.sources.get(usize::from(*number)).is_some_and(|source| {
                // Only the span's first dialect interprets the status, which may be copied from
                // another span.
                let is_first = Some(&source.dialect) == dialects.first();
                source.applies(conditions)
                    && (is_first || !matches!(source.read, FactPlace::Status))
            })
        })
    }

    fn source(&mut self, table: &Table, dialect: u16, role: Role, source: &FactSource) {
        let Some(read) = FactPlace::of(table, source) else { return };
        let on = match &source.on {
            Some(condition) => match table.condition(condition) {
                Some(id) => Some(id),
                None => return,
            },
            None => None,
        };
        let number = self.sources.len() as u16;
        self.has_schemas |= role == Role::Schema;
        if let Some(at) = role.call_place() {
            self.dialects[usize::from(dialect)].call[at].push(number);
        } else {
            match read {
                FactPlace::Attr(slot) => {
                    let at = usize::from(slot.0);
                    if self.by_slot.len() <= at {
                        self.by_slot.resize_with(at + 1, Vec::new);
                    }
                    self.by_slot[at].push(number);
                }
                FactPlace::LogBody | FactPlace::LogAttr(_) => self.by_log.push(number),
                FactPlace::Object(_) if !source.event.is_empty() => self.by_log.push(number),
                _ => self.by_other.push(number),
            }
        }
        self.sources.push(PlannedSource { role, dialect, on, read, source: source.clone() });
    }
}

impl FactPlace {
    /// Returns the place read by a source; `None` if the table retains none, because no evaluator
    /// needs it.
    fn of(table: &Table, source: &FactSource) -> Option<Self> {
        let slots = |keys: &[String]| keys.iter().filter_map(|key| table.slot(key)).collect();
        Some(match source.from {
            From::Attr if !source.event.is_empty() => Self::LogAttr(table.slot(&source.key)?),
            From::Attr => Self::Attr(table.slot(&source.key)?),
            From::AttrsPrefix => Self::Prefix,
            From::AttrsEnding => Self::Ending,
            From::AttrsIndexed => Self::Numbered,
            From::AttrsWorded => {
                let words = table.matcher.words.source(&source.key);
                let slots = matching_slots(table, &words);
                Self::WordMatch(words, slots)
            }
            From::AttrsObject => Self::Object(slots(&source.keys)),
            From::SpanEvent if source.key.is_empty() => Self::EventObject(slots(&source.keys)),
            From::SpanEvent => Self::Event(table.slot(&source.key)?),
            From::SpanName => Self::SpanName,
            From::Status => Self::Status,
            From::Log if source.key.is_empty() => Self::LogBody,
            From::Log => Self::LogAttr(table.slot(&source.key)?),
        })
    }
}

/// Returns the slots of the keys that match one of the words, with the rest after it, without those
/// that the record also has by key.
fn matching_slots(table: &Table, words: &SourceWords) -> Vec<(KeySlot, Box<str>)> {
    let slots = (0..table.slot_count()).filter(|slot| !table.also_keyed.has(*slot)).map(KeySlot);
    slots.filter_map(|slot| Some((slot, words.find(table.key(slot).as_bytes())?.into()))).collect()
}

impl FactPlace {
    /// Returns the [kinds](layout::kind) of facts that it may read.
    pub(super) fn kinds(&self) -> u16 {
        let fields: &[u8] = match self {
            Self::Attr(_) | Self::LogAttr(_) | Self::Object(_) => &[layout::ATTRIBUTE],
            Self::Prefix => &[layout::OTHER, layout::WORD_MATCH],
            Self::Ending => &[layout::BODY],
            Self::Numbered => &[layout::NUMBERED],
            Self::WordMatch(..) => &[layout::ATTRIBUTE, layout::WORD_MATCH, layout::BODY],
            Self::Event(_) | Self::EventObject(_) => &[layout::EVENT],
            Self::SpanName => &[layout::SPAN_NAME],
            Self::LogBody => &[layout::LOG_BODY],
            // The code counts too, which is no fact.
            Self::Status => return u16::MAX,
        };
        fields.iter().fold(0, |kinds, field| kinds | layout::kind(*field))
    }
}

impl PlannedSource {
    /// Returns true if the source is read on a record with these conditions.
    pub(super) fn applies(&self, conditions: &BitSet) -> bool {
        self.on.is_none_or(|condition| conditions.has(condition.0))
    }

    /// Returns true if the source reads events (or log events) of this name.
    pub(super) fn reads_event(&self, name: &str) -> bool {
        self.source.event.split('|').any(|known| known == name)
    }
}
