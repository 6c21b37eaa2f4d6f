//! What a [`Table`] means for the reading of records: which slot feeds which fact.

use super::super::dialect::{FactSource, From, Role};
use super::super::table::Table;
use crate::extract::record::layout::{self, FactsReader};
use crate::extract::table::{ConditionId, KeySlot, SourceWords, WordedKey};

/// A table's sources, with the places at which records hold what they read.
#[derive(Debug, Default)]
pub(super) struct ReadingPlan {
    pub(super) dialects: Vec<DialectPlan>,
    pub(super) sources: Vec<PlannedSource>,
    /// For each condition what it says of the spans that it holds for.
    pub(super) conditions: Vec<Meaning>,
    /// For each slot the sources of all facts but those of tool calls.
    pub(super) by_slot: Vec<Vec<u16>>,
    /// The sources of such facts that read anything else of a span.
    pub(super) by_other: Vec<u16>,
    /// The sources that read log events.
    pub(super) by_log: Vec<u16>,
    /// Whether any source reads the schema of a tool from its spans.
    pub(super) has_schemas: bool,
    /// Whether any dialect knows no marker of tools.
    pub(super) has_unmarked: bool,
    /// The names of output tools, with `*` at the end how they begin.
    pub(super) output_tools: Vec<String>,
}

/// One dialect's sources for tool calls.
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

/// What a condition says.
#[derive(Debug, Default)]
pub(super) struct Meaning {
    /// The dialects whose `detect` it is, in order of priority.
    pub(super) tool: Vec<u16>,
    pub(super) exclude: Option<u16>,
    pub(super) handoff: bool,
    pub(super) model: bool,
    pub(super) pending: bool,
}

/// A source with the place of what it reads.
#[derive(Debug)]
pub(super) struct PlannedSource {
    pub(super) role: Role,
    pub(super) dialect: u16,
    pub(super) on: Option<ConditionId>,
    pub(super) read: FactPlace,
    pub(super) source: FactSource,
}

/// Where a source's value stands in a record's facts.
#[derive(Debug)]
pub(super) enum FactPlace {
    Attr(KeySlot),
    Prefix,
    Ending,
    Indexed,
    /// By words and their bit, and of the keys that have a slot those that are worded so, with what
    /// stands behind the word.
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

    /// The sources of a dialect for a part of a tool call.
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
    /// `None` where the table keeps nothing for the source, because no evaluator needs it.
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

/// The slots of the keys that are worded by one of the words, with what stands behind it.
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
    /// The [kinds](layout::kind) of facts among which it may find anything.
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
            // The code counts too, which is no fact.
            Self::Status => return u16::MAX,
        })
    }
}

impl PlannedSource {
    /// Whether the source is to be read on the record.
    pub(super) fn applies(&self, facts: FactsReader<'_>) -> bool {
        self.on.is_none_or(|condition| facts.holds(condition))
    }

    /// Whether an event (or log event) of this name is one that the source reads.
    pub(super) fn reads_event(&self, name: &str) -> bool {
        self.source.event.split('|').any(|known| known == name)
    }
}
