//! Reading plan: a [`Table`]'s sources, arranged by the part of a record that they read.

use super::super::dialect::{FactSource, From, Role};
use super::super::table::Table;
use crate::record::layout::{self, FactsReader};
use crate::table::{ConditionId, KeySlot, SourceWords, WordedKey};

/// Sources and conditions of a table, indexed for reading records.
#[derive(Debug, Default)]
pub(super) struct ReadingPlan {
    pub(super) dialects: Vec<DialectPlan>,
    pub(super) sources: Vec<PlannedSource>,
    /// Meanings of the conditions, by condition id.
    pub(super) conditions: Vec<Meaning>,
    /// Sources by the slot that they read, without those of tool calls.
    pub(super) by_slot: Vec<Vec<u16>>,
    /// Sources that read anything else of a span, without those of tool calls.
    pub(super) by_other: Vec<u16>,
    /// Sources that read log events.
    pub(super) by_log: Vec<u16>,
    /// True if any source reads the schema of a tool from its spans.
    pub(super) has_schemas: bool,
    /// True if any dialect knows no marker of tools.
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
    call: [Vec<u16>; CALL_ROLES.len()],
}

pub(super) const CALL_ROLES: [Role; 7] = [
    Role::Name,
    Role::Id,
    Role::Arguments,
    Role::Result,
    Role::Error,
    Role::Description,
    Role::Schema,
];

/// Meaning of a condition for a span on which it holds.
#[derive(Debug, Default)]
pub(super) struct Meaning {
    /// Dialects whose `detect` it is, in order of priority.
    pub(super) tool: Vec<u16>,
    pub(super) exclude: Option<u16>,
    pub(super) handoff: bool,
    pub(super) model: bool,
    pub(super) pending: bool,
}

/// Source with the place that it reads.
#[derive(Debug)]
pub(super) struct PlannedSource {
    pub(super) role: Role,
    pub(super) dialect: u16,
    pub(super) on: Option<ConditionId>,
    pub(super) read: FactPlace,
    pub(super) source: FactSource,
}

/// Place of a source's value in the facts of a record.
#[derive(Debug)]
pub(super) enum FactPlace {
    Attr(KeySlot),
    Prefix,
    Ending,
    Indexed,
    /// Words and their bit; and those slots whose keys end with such a word, each with the part of
    /// the key behind the word.
    Worded((SourceWords, u32), Vec<(KeySlot, Box<str>)>),
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
        let mut plan = Self::default();
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
            if let Some(meaning) = plan.meaning(table, dialect.detect.as_ref()) {
                meaning.tool.push(number);
            }
            for condition in &dialect.exclude {
                if let Some(meaning) = plan.meaning(table, Some(condition)) {
                    meaning.exclude.get_or_insert(number);
                }
            }
            if let Some(meaning) = plan.meaning(table, dialect.handoff.as_ref()) {
                meaning.handoff = true;
            }
            if let Some(meaning) = plan.meaning(table, dialect.model_span.as_ref()) {
                meaning.model = true;
            }
            if let Some(meaning) = plan.meaning(table, dialect.pending.as_ref()) {
                meaning.pending = true;
            }
            for (role, source) in dialect.sources().filter(|(role, _)| table.needs(*role)) {
                plan.source(table, number, role, source);
            }
        }
        plan
    }

    /// Returns the sources of a dialect for a part of a tool call.
    pub(super) fn call_sources(&self, dialect: u16, role: Role) -> &[u16] {
        let at = CALL_ROLES.iter().position(|known| *known == role);
        match (self.dialects.get(usize::from(dialect)), at) {
            (Some(dialect), Some(at)) => &dialect.call[at],
            _ => &[],
        }
    }

    pub(super) fn meaning_of(&self, condition: ConditionId) -> Option<&Meaning> {
        self.conditions.get(usize::from(condition.0))
    }

    fn meaning(
        &mut self,
        table: &Table,
        condition: Option<&super::super::dialect::Condition>,
    ) -> Option<&mut Meaning> {
        let at = usize::from(table.condition(condition?)?.0);
        if self.conditions.len() <= at {
            self.conditions.resize_with(at + 1, Meaning::default);
        }
        self.conditions.get_mut(at)
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
        if let Some(at) = CALL_ROLES.iter().position(|known| *known == role) {
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
    /// Returns the place that a source reads; `None` if the table retains nothing for it, because
    /// no evaluator needs it.
    fn of(table: &Table, source: &FactSource) -> Option<Self> {
        let slots = |keys: &[String]| keys.iter().filter_map(|key| table.slot(key)).collect();
        Some(match source.from {
            From::Attr if !source.event.is_empty() => Self::LogAttr(table.slot(&source.key)?),
            From::Attr => Self::Attr(table.slot(&source.key)?),
            From::AttrsPrefix => Self::Prefix,
            From::AttrsEnding => Self::Ending,
            From::AttrsIndexed => Self::Indexed,
            From::AttrsWorded => {
                let words = SourceWords::new(&source.key);
                let slots = worded_slots(table, &words);
                Self::Worded((words, table.worded.bit(&source.key)), slots)
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

/// Returns the slots of the keys that hold one of the words, with the part of the key behind it.
fn worded_slots(table: &Table, words: &SourceWords) -> Vec<(KeySlot, Box<str>)> {
    let slots = (0..table.slot_count()).map(KeySlot);
    let found = slots.filter_map(|slot| {
        Some(match words.find(table.key(slot).as_bytes())? {
            WordedKey::Whole => (slot, "".into()),
            WordedKey::Part(tail) => (slot, tail.into()),
        })
    });
    found.collect()
}

impl FactPlace {
    /// Returns the [kinds](layout::kind) of facts among which it may find anything.
    pub(super) fn kinds(&self) -> u16 {
        layout::kind(match self {
            Self::Attr(_) | Self::LogAttr(_) | Self::Object(_) => layout::ATTRIBUTE,
            Self::Prefix => {
                return layout::kind(layout::OTHER) | layout::kind(layout::WORDED);
            }
            Self::Ending => layout::BODY,
            Self::Indexed => layout::INDEXED,
            Self::Worded(..) => {
                return [layout::ATTRIBUTE, layout::WORDED, layout::BODY]
                    .into_iter()
                    .fold(0, |kinds, field| kinds | layout::kind(field));
            }
            Self::Event(_) | Self::EventObject(_) => layout::EVENT,
            Self::SpanName => layout::SPAN_NAME,
            Self::LogBody => layout::LOG_BODY,
            // A status code without a message leaves no fact, and counts too.
            Self::Status => return u16::MAX,
        })
    }
}

impl PlannedSource {
    /// Returns true if the source applies to the record.
    pub(super) fn applies(&self, facts: FactsReader<'_>) -> bool {
        self.on.is_none_or(|condition| facts.holds(condition))
    }

    /// Returns true if the source reads events (or log events) of this name.
    pub(super) fn reads_event(&self, name: &str) -> bool {
        self.source.event.split('|').any(|known| known == name)
    }
}
