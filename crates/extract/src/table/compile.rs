//! Compiler of a table: numbers keys, statements and conditions.

use std::sync::Arc;

use hashbrown::HashMap;

use super::super::dialect::{Condition, Dialect, Scalar};
use super::bit_set::BitSet;
use super::condition::{ALTERNATIVES_MAX, Numbering, Statement, Term, alternatives};
use super::key_index::KeyIndex;
use super::matching::{Alternative, Bound, Statements};
use super::{CompiledCondition, KeyMatcher, KeySlot, Projection, Table, is_kind_key};
use spanscore_base::model::Facts;

/// Error of dialects beyond a table's limits.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// Too many attribute keys, conditions or statements.
    #[error("the dialects name {count} different {what}, but {limit} is the limit: drop some")]
    TooMany {
        /// Noun for the exceeded quantity.
        what: &'static str,
        /// Actual number.
        count: usize,
        /// Allowed number.
        limit: usize,
    },
    /// A condition with too many `any` in one `all`.
    #[error(
        "a condition of dialect `{dialect}` can hold in more than {ALTERNATIVES_MAX} ways: write \
         fewer `any` into one `all`"
    )]
    TooManyAlternatives {
        /// Name of the dialect.
        dialect: String,
    },
}

/// Table under construction.
#[derive(Default)]
pub(super) struct Builder {
    names: KeyNumbers,
    /// Number of keys named by dialects.
    named: usize,
    pub(super) matcher: KeyMatcher,
    events: Vec<Box<[u8]>>,
    event_slots: Vec<BitSet>,
    pub(super) base: Projection,
    conditions: Vec<Condition>,
    compiled: Vec<CompiledCondition>,
    found: HashMap<Condition, u16>,
    ways: Vec<Vec<Vec<Term>>>,
    pub(super) groups: Vec<Vec<KeySlot>>,
    pub(super) root_attributes: bool,
    pub(super) spans: bool,
    pub(super) response_id: Option<KeySlot>,
    pub(super) facts: Facts,
}

#[derive(Default)]
struct KeyNumbers {
    keys: Vec<Box<[u8]>>,
    slots: HashMap<String, u16>,
    statements: Vec<Statement>,
}

impl Numbering for KeyNumbers {
    fn slot(&mut self, key: &str) -> u16 {
        if let Some(slot) = self.slots.get(key) {
            return *slot;
        }
        let slot = self.keys.len() as u16;
        self.keys.push(key.as_bytes().into());
        self.slots.insert(key.to_owned(), slot);
        slot
    }

    fn bit(&mut self, statement: Statement) -> u16 {
        if let Some(at) = self.statements.iter().position(|known| *known == statement) {
            return at as u16;
        }
        self.statements.push(statement);
        (self.statements.len() - 1) as u16
    }
}

impl Builder {
    pub(super) fn slot(&mut self, key: &str) -> u16 {
        self.names.slot(key)
    }

    /// Marks the end of the keys named by dialects.
    pub(super) fn end_dialects(&mut self) {
        self.named = self.names.keys.len();
    }

    /// Numbers a condition; errors name `dialect`.
    pub(super) fn condition(
        &mut self,
        condition: &Condition,
        dialect: &str,
    ) -> Result<&mut CompiledCondition, TableError> {
        let at = match self.found.get(condition) {
            Some(at) => usize::from(*at),
            None => {
                let ways = alternatives(condition, &mut self.names).ok_or_else(|| {
                    TableError::TooManyAlternatives { dialect: dialect.to_owned() }
                })?;
                let at = self.conditions.len();
                check("conditions", at + 1, BitSet::LIMIT)?;
                self.found.insert(condition.clone(), at as u16);
                self.conditions.push(condition.clone());
                self.ways.push(ways);
                self.compiled.push(CompiledCondition::default());
                at
            }
        };
        Ok(&mut self.compiled[at])
    }

    /// Registers a read attribute of span events with that name; returns the event's number.
    pub(super) fn event(&mut self, name: &str, key: &str) -> Result<u16, TableError> {
        let slot = self.names.slot(key);
        let at = match self.events.iter().position(|known| **known == *name.as_bytes()) {
            Some(at) => at,
            None => {
                self.events.push(name.as_bytes().into());
                self.event_slots.push(BitSet::default());
                self.events.len() - 1
            }
        };
        check("span events", at + 1, 64)?;
        self.event_slots[at].insert(slot);
        Ok(at as u16)
    }

    pub(super) fn build(self, dialects: Vec<Dialect>) -> Result<Table, TableError> {
        check("attribute keys", self.names.keys.len(), BitSet::LIMIT)?;
        check("statements in conditions", self.names.statements.len(), BitSet::LIMIT)?;
        check("key prefixes", self.matcher.prefix_count(), KeyMatcher::PREFIXES_MAX)?;
        let also_keyed = self.also_keyed();
        let bound = bound(&self.names);
        let statements = statements(&self.names.statements, &self.ways);
        Ok(Table {
            identity: Arc::default(),
            dialects,
            conditions: self.conditions,
            compiled: self.compiled,
            keys: KeyIndex::new(self.names.keys),
            bound,
            also_keyed,
            tools_only_prefixes: self.matcher.tools_only_prefixes(),
            matcher: self.matcher,
            events: KeyIndex::new(self.events),
            event_slots: self.event_slots,
            statements,
            base: self.base,
            root_attributes: self.root_attributes,
            spans: self.spans,
            response_id: self.response_id,
            groups: self.groups,
            facts: self.facts,
        })
    }

    /// Returns the slots of keys that a source matches without naming them: by prefix, or retained
    /// only in original form.
    fn also_keyed(&self) -> BitSet {
        // A slot requested by an evaluator must not hide the attribute from sources that would read
        // it otherwise: one evaluator would change the verdicts of others.
        let mut slots = BitSet::default();
        for (slot, key) in self.names.keys.iter().enumerate() {
            let is_named = slot < self.named;
            if self.matcher.prefixes_of(key) != 0 || !is_named && self.matcher.has(key) {
                slots.insert(slot as u16);
            }
        }
        slots
    }
}

fn check(what: &'static str, count: usize, limit: usize) -> Result<(), TableError> {
    if count > limit { Err(TableError::TooMany { what, count, limit }) } else { Ok(()) }
}

fn bound(names: &KeyNumbers) -> Vec<Bound> {
    let mut bound: Vec<Bound> = Vec::new();
    bound.resize_with(names.keys.len(), Bound::default);
    for (bit, statement) in names.statements.iter().enumerate() {
        let bit = bit as u16;
        match statement {
            Statement::Present(slot) => bound[usize::from(*slot)].present = Some(bit),
            Statement::Prefix(slot, prefix) => {
                bound[usize::from(*slot)].prefixes.push((prefix.as_bytes().into(), bit));
            }
            Statement::Equals(slot, values) => {
                let values = values.iter().map(|value: &Scalar| (value.clone(), bit));
                bound[usize::from(*slot)].equals.extend(values);
            }
            _ => {}
        }
    }
    if names.statements.iter().any(|statement| matches!(statement, Statement::Says(_))) {
        for (bound, key) in bound.iter_mut().zip(&names.keys) {
            bound.is_kind_key = is_kind_key(key);
        }
    }
    bound
}

fn statements(all: &[Statement], ways: &[Vec<Vec<Term>>]) -> Statements {
    let mut span_names = Vec::new();
    let mut statements =
        Statements { candidates: vec![Vec::new(); all.len()], ..Statements::default() };
    for (bit, statement) in all.iter().enumerate() {
        let bit = bit as u16;
        let entry = |text: &String| (text.as_bytes().into(), bit);
        match statement {
            Statement::SpanName(name) => {
                span_names.push(name.as_bytes().into());
                statements.span_name_bits.push(bit);
            }
            Statement::SpanNamePrefix(text) => statements.span_name_prefixes.push(entry(text)),
            Statement::LogEventPrefix(text) => statements.log_event_prefixes.push(entry(text)),
            Statement::Scope(text) => statements.scopes.push(entry(text)),
            Statement::ScopePrefix(text) => statements.scope_prefixes.push(entry(text)),
            Statement::Root => statements.root = Some(bit),
            Statement::Says(kind) => statements.says[*kind as usize] = Some(bit),
            Statement::Equals(..) | Statement::Prefix(..) | Statement::Present(_) => {}
        }
    }
    statements.span_names = KeyIndex::new(span_names);
    for (condition, ways) in ways.iter().enumerate() {
        for terms in ways {
            add_alternative(&mut statements, all, condition as u16, terms);
        }
    }
    statements
}

fn add_alternative(into: &mut Statements, all: &[Statement], condition: u16, terms: &[Term]) {
    let bits = |wanted| {
        let mut bits: Vec<u16> =
            terms.iter().filter(|term| term.1 == wanted).map(|term| term.0).collect();
        bits.sort_unstable();
        bits.dedup();
        bits
    };
    let mut required = bits(true);
    let absent = bits(false);
    if required.iter().any(|bit| absent.contains(bit)) {
        return;
    }
    let rarest = required
        .iter()
        .copied()
        .min_by_key(|bit| all.get(usize::from(*bit)).map_or(u8::MAX, Statement::frequency));
    required.retain(|bit| Some(*bit) != rarest);
    let alternative = Alternative { condition, required: required.into(), absent: absent.into() };
    match rarest {
        Some(bit) => into.candidates[usize::from(bit)].push(alternative),
        None => into.unconditional.push(alternative),
    }
}
