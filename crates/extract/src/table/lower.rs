//! Lowering of dialects and needed facts to conditions with retained parts.

use super::super::dialect::{Condition, Dialect, FactSource, From, Mark, Role};
use super::bit_set::BitSet;
use super::compile::{Builder, TableError};
use super::{KeySlot, Projection, SpanPart, Table, names_tools};
use spanscore_base::model::Facts;
use spanscore_base::otlp::semconv::RESPONSE_ID;

pub(super) fn lower(mut dialects: Vec<Dialect>, facts: &Facts) -> Result<Table, TableError> {
    dialects.sort_by_key(|dialect| dialect.priority);
    let mut builder = Builder::default();
    builder.root_attributes = facts.root_attributes;
    builder.spans = facts.spans;
    builder.facts = facts.clone();
    for (number, dialect) in (0..).zip(&dialects) {
        lower_marks(&mut builder, number, dialect)?;
        for (role, source) in dialect.sources() {
            if needed(role, facts) {
                lower_source(&mut builder, dialect, role, source, facts)?;
            }
        }
    }
    builder.end_dialects();
    for group in &facts.attributes {
        lower_group(&mut builder, group)?;
    }
    if facts.response_id {
        builder.response_id = Some(keep_wherever(&mut builder, RESPONSE_ID)?);
    }
    builder.build(dialects)
}

/// Returns true if an evaluator needs the fact of a source. Names, ids and errors of calls, and
/// messages that may contain calls, are always needed.
pub(super) fn needed(role: Role, facts: &Facts) -> bool {
    match role {
        Role::Name | Role::Id | Role::Error => true,
        Role::SessionId | Role::AgentName | Role::OutputMessages => true,
        Role::Arguments => facts.arguments,
        Role::Result => facts.results,
        Role::Description | Role::Schema | Role::ToolDefinitions => facts.tool_definitions,
        Role::UserInput => facts.user_input,
        Role::FinalOutput => facts.final_output,
        Role::InputMessages => facts.results || facts.user_input || facts.heard,
        Role::Model | Role::Cost => facts.usage,
        Role::UserId => facts.user_id,
        Role::FinishReason => facts.finish_reasons,
        Role::UsageInput | Role::UsageOutput => facts.usage,
        Role::UsageCacheRead | Role::UsageCacheWrite | Role::UsageReasoning => facts.usage,
    }
}

/// Needed part of a source's values.
#[derive(Clone, Copy, PartialEq)]
enum Needed {
    Whole,
    /// Messages about tools.
    ToolMessages,
    /// The value if it is about tools: a result that no evaluator reads may be a whole message with
    /// its call's id and failure.
    ToolMessage,
}

impl Needed {
    fn of(dialect: &Dialect, role: Role, source: &FactSource, facts: &Facts) -> Self {
        let is_result = || {
            let of = |result: &FactSource| result.from == From::Attr && result.key == source.key;
            source.from == From::Attr && dialect.tool_call.result.iter().any(of)
        };
        match role {
            Role::OutputMessages if !facts.final_output => Self::ToolMessages,
            Role::InputMessages if !(facts.user_input || facts.heard) => Self::ToolMessages,
            Role::Id | Role::Error if !facts.results && is_result() => Self::ToolMessage,
            _ => Self::Whole,
        }
    }
}

fn lower_marks(builder: &mut Builder, number: u16, dialect: &Dialect) -> Result<(), TableError> {
    for (mark, condition) in dialect.marks() {
        let compiled = builder.condition(condition, &dialect.name)?;
        compiled.stated = true;
        compiled.marks.push((mark, number));
        if matches!(mark, Mark::Tool | Mark::Agent) {
            compiled.keep.parts |= SpanPart::SpanName as u8;
        }
    }
    Ok(())
}

fn lower_source(
    builder: &mut Builder,
    dialect: &Dialect,
    role: Role,
    source: &FactSource,
    facts: &Facts,
) -> Result<(), TableError> {
    if let Some(on) = &source.on {
        builder.condition(on, &dialect.name)?.stated = true;
    }
    let has_event =
        matches!(source.from, From::Attr | From::AttrsObject) && !source.event.is_empty();
    let reads_log = source.from == From::Log || has_event;
    if reads_log {
        let keep = kept(builder, source, Needed::of(dialect, role, source, facts))?;
        for event in source.event.split('|') {
            let named =
                Condition { log_event_name_prefix: Some(event.to_owned()), ..Condition::default() };
            let compiled =
                builder.condition(&both(Some(&named), source.on.as_ref()), &dialect.name)?;
            compiled.log = true;
            compiled.keep.extend(&keep);
        }
        return Ok(());
    }
    let place = match (role.is_call(), &dialect.detect) {
        (true, None) => return Ok(()),
        (true, Some(detect)) => both(Some(detect), source.on.as_ref()),
        (false, _) => both(None, source.on.as_ref()),
    };
    let keep = kept(builder, source, Needed::of(dialect, role, source, facts))?;
    if place == Condition::default() {
        builder.base.extend(&keep);
    } else {
        builder.condition(&place, &dialect.name)?.keep.extend(&keep);
    }
    Ok(())
}

fn both(one: Option<&Condition>, other: Option<&Condition>) -> Condition {
    match (one, other) {
        (None, None) => Condition::default(),
        (Some(only), None) | (None, Some(only)) => only.clone(),
        (Some(one), Some(other)) => {
            Condition { all: vec![one.clone(), other.clone()], ..Condition::default() }
        }
    }
}

fn kept(
    builder: &mut Builder,
    source: &FactSource,
    needed: Needed,
) -> Result<Projection, TableError> {
    let mut keep = Projection::default();
    let tools_only = match needed {
        Needed::Whole => false,
        Needed::ToolMessages => !names_tools(source.key.as_bytes()),
        Needed::ToolMessage => true,
    };
    match source.from {
        From::Attr if tools_only => {
            keep.tools_only.insert(builder.slot(&source.key));
        }
        From::Attr => keep.slots.insert(builder.slot(&source.key)),
        From::AttrsPrefix => {
            let prefix = builder.matcher.add_prefix(&source.key, needed != Needed::Whole);
            keep.prefixes |= 1 << prefix.min(63);
        }
        From::AttrsEnding => builder.matcher.add_bodies(&source.key, needed == Needed::Whole),
        From::AttrsIndexed => builder.matcher.add_numbered(&source.key),
        From::AttrsWorded => {
            builder.matcher.words.add(&source.key);
            keep.worded = !tools_only;
            keep.worded_bodies = tools_only;
        }
        From::AttrsObject => {
            for key in &source.keys {
                keep.slots.insert(builder.slot(key));
            }
        }
        From::SpanEvent => {
            let key = std::slice::from_ref(&source.key);
            let keys = if source.key.is_empty() { &source.keys[..] } else { key };
            for event in source.event.split('|') {
                for key in keys {
                    keep.events |= 1 << builder.event(event, key)?;
                }
            }
        }
        From::SpanName => keep.parts |= SpanPart::SpanName as u8,
        From::Status => keep.parts |= SpanPart::StatusMessage as u8,
        From::Log if source.key.is_empty() => keep.parts |= SpanPart::LogBody as u8,
        From::Log => keep.slots.insert(builder.slot(&source.key)),
    }
    Ok(keep)
}

fn lower_group(builder: &mut Builder, group: &[String]) -> Result<(), TableError> {
    let Some(first) = group.first() else { return Ok(()) };
    let mut slots = BitSet::default();
    let numbers: Vec<KeySlot> = group.iter().map(|key| KeySlot(builder.slot(key))).collect();
    for slot in &numbers {
        slots.insert(slot.0);
    }
    let here = Condition { attr_present: vec![first.clone()], ..Condition::default() };
    builder.condition(&here, "")?.keep.as_they_came.extend(&slots);
    builder.groups.push(numbers);
    Ok(())
}

/// Retains an attribute of every span with it.
fn keep_wherever(builder: &mut Builder, key: &str) -> Result<KeySlot, TableError> {
    let slot = builder.slot(key);
    let here = Condition { attr_present: vec![key.to_owned()], ..Condition::default() };
    builder.condition(&here, "")?.keep.as_they_came.insert(slot);
    Ok(KeySlot(slot))
}
