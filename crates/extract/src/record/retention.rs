//! Retention rules for the attributes of a span, by its sequence of keys and satisfied conditions:
//! cached at the last node of the sequence in the trie.

use std::cell::OnceCell;

use super::attributes::SpanAttributes;
use super::key_trie::KeyMeaning;
use super::layout::{CONDITIONS, put_header};
use super::rule::{AttributeRule, Otherwise, Rule};
use super::tool_messages::MessagePart;
use crate::dialect::Mark;
use crate::table::bit_set::BitSet;
use crate::table::{Matching, Projection, Table, names_tools};
use spanscore_base::otlp::any_value::key_value;

/// Limit on cached entries.
const RETENTIONS_MAX: usize = 1024;
/// Limit on cached entries for one sequence of keys.
const PER_SEQUENCE_MAX: usize = 8;
const NONE: u32 = u32::MAX;

/// Retained parts of spans with certain keys and conditions.
#[derive(Default)]
pub(crate) struct Retention {
    bits: BitSet,
    /// Next entry for the same keys.
    other: u32,
    /// Satisfied stated conditions, as a field of a record's facts.
    pub(crate) conditions: Vec<u8>,
    pub(crate) keep: Projection,
    pub(crate) kind: SpanKind,
    /// Rules of the retained attributes, in the order of writing.
    pub(crate) rules: Vec<AttributeRule>,
    /// Number of leading rules with a slot.
    pub(crate) leading_slots: usize,
    /// Rules of all attributes of a root span, set when the first is written.
    pub(crate) root: OnceCell<Vec<[Option<Rule>; 2]>>,
}

/// Kind of a span by its satisfied conditions.
#[derive(Clone, Copy, Default)]
pub(crate) struct SpanKind {
    pub(crate) tool: bool,
    /// It is a tool's only if its name says so.
    pub(crate) only_if_named: bool,
    pub(crate) agent: bool,
    pub(crate) pending: bool,
    pub(crate) waiting: bool,
    pub(crate) finished: bool,
    pub(crate) log: bool,
}

/// Entries of the sequences so far.
#[derive(Default)]
pub(crate) struct Retentions {
    known: Vec<Retention>,
    /// Entry of a span that has left the trie, or found no room.
    once: Retention,
    /// Number of spans without room for their entry.
    missed: u32,
}

impl Retentions {
    pub(crate) fn is_full(&self) -> bool {
        self.known.len() >= RETENTIONS_MAX
    }

    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.missed = 0;
    }

    /// Returns the number of spans without room for their entry: rare ones may occupy the place of
    /// common ones.
    pub(crate) fn missed(&self) -> u32 {
        self.missed
    }

    /// Returns the entry from the list at `first`; a new one becomes its head.
    #[inline]
    pub(crate) fn of(
        &mut self,
        table: &Table,
        matching: &Matching,
        attributes: &SpanAttributes<'_>,
        first: &mut u32,
    ) -> &Retention {
        // Equal keys do not imply equal retention: conditions also test values (a span kind, a
        // status). An entry is therefore found by the bits of the satisfied conditions, among the
        // few of this sequence. Without that comparison, a tool span would be read like an earlier
        // model span with the same keys.
        let mut at = *first;
        for _ in 0..PER_SEQUENCE_MAX {
            match self.known.get(at as usize) {
                Some(retention) if retention.bits == *matching.bits() => {
                    return &self.known[at as usize];
                }
                Some(retention) => at = retention.other,
                None if self.is_full() => break,
                None => {
                    // The last one is checked first: equal kinds of spans come in runs.
                    let retention =
                        Retention { other: *first, ..Retention::new(table, matching, attributes) };
                    *first = self.known.len() as u32;
                    self.known.push(retention);
                    return &self.known[*first as usize];
                }
            }
        }
        // Counted, not rejected: the span is read correctly without a cached entry, and many such
        // spans clear the trie.
        self.missed = self.missed.saturating_add(1);
        self.once(table, matching, attributes)
    }

    /// Computes an entry that is not cached.
    #[cold]
    pub(crate) fn once(
        &mut self,
        table: &Table,
        matching: &Matching,
        attributes: &SpanAttributes<'_>,
    ) -> &Retention {
        self.once = Retention::new(table, matching, attributes);
        &self.once
    }
}

impl Retention {
    fn new(table: &Table, matching: &Matching, attributes: &SpanAttributes<'_>) -> Self {
        let conditions = matching.finish(table);
        let mut retention = Self {
            bits: *matching.bits(),
            other: NONE,
            keep: table.base.clone(),
            ..Self::default()
        };
        let means = || conditions.iter().filter_map(|id| Some((*id, table.compiled(*id)?)));
        let stated = means().filter(|(_, means)| means.stated).count();
        if stated > 0 {
            put_header(&mut retention.conditions, CONDITIONS, 2 * stated);
        }
        let finds = |found: &u16, mark| means().any(|(_, it)| it.marks.contains(&(mark, *found)));
        retention.kind.only_if_named = means().any(|(_, it)| it.is(Mark::OnlyIfNamed))
            && means()
                .flat_map(|(_, it)| &it.marks)
                .all(|(mark, by)| *mark != Mark::Tool || finds(by, Mark::OnlyIfNamed));
        for (id, means) in means() {
            retention.keep.extend(&means.keep);
            retention.kind.tool |= means.is(Mark::Tool);
            retention.kind.agent |= means.is(Mark::Agent);
            retention.kind.pending |= means.is(Mark::Pending);
            retention.kind.waiting |= means.is(Mark::Waiting);
            retention.kind.finished |= means.is(Mark::Finished);
            retention.kind.log |= means.log;
            if means.stated {
                retention.conditions.extend_from_slice(&id.to_le_bytes());
            }
        }
        retention.list(table, attributes);
        retention
    }

    /// Collects the rules of the attributes.
    fn list(&mut self, table: &Table, attributes: &SpanAttributes<'_>) {
        for (place, (meaning, entry)) in (0..).zip(attributes.meanings()) {
            let key = key_value(entry).unwrap_or_default().0;
            let rules = match meaning {
                KeyMeaning::Slot(slot) | KeyMeaning::Stated(slot) => {
                    self.rules_of_slot(table, slot, key)
                }
                // A key that states a kind may also be a part of a value read, or hold a call's id.
                KeyMeaning::Behind | KeyMeaning::Kind => [None, self.rule_of_key(table, key)],
                KeyMeaning::Unread => [None, None],
            };
            let rules = rules.into_iter().flatten();
            self.rules.extend(rules.map(|rule| AttributeRule { place, rule }));
        }
        self.rules.sort_by_key(|attribute| attribute.rule.order());
        let is_slot = |attribute: &&AttributeRule| matches!(attribute.rule, Rule::Slot(_));
        self.leading_slots = self.rules.iter().take_while(is_slot).count();
        let messages = self.rules.iter_mut().filter_map(|attribute| attribute.rule.message_mut());
        MessagePart::join(messages.collect());
    }

    /// Returns the rules of an attribute with a slot: by slot, and by key.
    fn rules_of_slot(&self, table: &Table, slot: u16, key: &[u8]) -> [Option<Rule>; 2] {
        let keep = &self.keep;
        let is_named = keep.slots.has(slot) || keep.tools_only.has(slot);
        let is_whole = keep.slots.has(slot) || keep.as_they_came.has(slot);
        let under_slot = if is_whole { Rule::Slot(slot) } else { Rule::ToolSlot(slot) };
        let under_slot = (is_whole || is_named).then_some(under_slot);
        if table.also_keyed.has(slot) {
            return [under_slot, self.rule_of_key(table, key)];
        }
        let matched = if is_named { None } else { self.rule_of_unnamed(table, slot, key) };
        let is_new = |rule: &Rule| under_slot.is_none() || !rule.is_of_slot();
        [under_slot, matched.filter(is_new)]
    }

    /// Returns the rule of a key with a slot that no source names on such a span.
    fn rule_of_unnamed(&self, table: &Table, slot: u16, key: &[u8]) -> Option<Rule> {
        let keep = &self.keep;
        let is_body = is_common(key) && table.matcher.is_body(key);
        if !(is_body || keep.worded || keep.worded_bodies) {
            return None;
        }
        let words = table.matcher.words.sources_of(key);
        match words {
            1.. if keep.worded && is_body => Some(self.body_or_words(words)),
            1.. if keep.worded => Some(Rule::Slot(slot)),
            1.. if keep.worded_bodies => Some(Rule::ToolSlot(slot)),
            _ => is_body.then_some(Rule::Body { words, otherwise: Otherwise::Drop }),
        }
    }

    fn rule_of_key(&self, table: &Table, key: &[u8]) -> Option<Rule> {
        let Projection { worded, worded_bodies, .. } = self.keep;
        let matcher = &table.matcher;
        let words = matcher.words.sources_of(key);
        let known = matcher.prefixes_of(key);
        let prefixes = known & self.keep.prefixes;
        if prefixes & !table.tools_only_prefixes != 0 {
            return Some(Rule::Keyed(words));
        }
        if prefixes != 0 {
            let prefix = prefixes.trailing_zeros() as u16;
            return Some(Rule::Message(MessagePart::new(words, prefix, matcher.tail(prefix, key))));
        }
        if known == 0 && matcher.is_numbered(key) {
            return Some(Rule::Numbered { names_tools: names_tools(key) });
        }
        let is_body = matcher.is_body(key);
        match words {
            1.. if worded && is_body => Some(self.body_or_words(words)),
            1.. if worded => Some(Rule::WordMatch(words)),
            1.. if worded_bodies => Some(Rule::Body { words, otherwise: Otherwise::Drop }),
            _ => is_body.then_some(Rule::Body { words, otherwise: Otherwise::Drop }),
        }
    }

    /// Returns the rule of a key that matches words and may hold a body; a tool's does not.
    fn body_or_words(&self, words: u32) -> Rule {
        if self.kind.tool {
            Rule::WordMatch(words)
        } else {
            Rule::Body { words, otherwise: Otherwise::Keyed }
        }
    }
}

/// Returns true if a key is used by many vendors, such as `input` or `gen_ai.prompt`, so that it is
/// read on unknown spans too. Keys of one vendor are left to their dialects: storing the states of
/// all steps of a graph costs too much.
fn is_common(key: &[u8]) -> bool {
    let is_bare = key.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    is_bare || key.starts_with(b"gen_ai.")
}
