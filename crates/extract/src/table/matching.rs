//! Evaluation of conditions for one span.

use super::super::dialect::{Mark, Scalar};
use super::Table;
use super::bit_set::BitSet;
use super::key_index::KeyIndex;
use super::kind_attribute::span_kind;
use spanscore_base::otlp::AnyValue;

/// Statements of a table by subject, except those of attributes in [`Bound`].
#[derive(Debug, Default)]
pub(super) struct Statements {
    pub(super) span_names: KeyIndex,
    /// Bit of each of `span_names`.
    pub(super) span_name_bits: Vec<u16>,
    pub(super) span_name_prefixes: Vec<(Box<[u8]>, u16)>,
    pub(super) scopes: Vec<(Box<[u8]>, u16)>,
    pub(super) scope_prefixes: Vec<(Box<[u8]>, u16)>,
    pub(super) log_event_prefixes: Vec<(Box<[u8]>, u16)>,
    pub(super) root: Option<u16>,
    /// Bits of stated span kinds.
    pub(super) says: [Option<u16>; 8],
    /// For each bit the alternatives with it as their rarest one.
    pub(super) candidates: Vec<Vec<Alternative>>,
    /// Alternatives without a required bit.
    pub(super) unconditional: Vec<Alternative>,
}

/// Alternative of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alternative {
    pub(super) condition: u16,
    pub(super) required: Box<[u16]>,
    pub(super) absent: Box<[u16]>,
}

/// Bits that an attribute may set.
#[derive(Debug, Default)]
pub(in super::super) struct Bound {
    pub(in super::super) present: Option<u16>,
    pub(super) equals: Vec<(Scalar, u16)>,
    pub(super) prefixes: Vec<(Box<[u8]>, u16)>,
    /// True if the key may state a span's kind, and a condition reads kinds.
    pub(super) is_kind_key: bool,
}

impl Bound {
    /// Returns true if a statement is about the attribute's value.
    pub(in super::super) fn states_value(&self) -> bool {
        !self.equals.is_empty() || !self.prefixes.is_empty() || self.is_kind_key
    }
}

/// Statements and conditions satisfied by the current span.
#[derive(Default)]
pub(in super::super) struct Matching {
    bits: BitSet,
    /// Statements satisfied by every span of the current scope.
    scope_bits: BitSet,
}

impl Matching {
    /// Enters an instrumentation scope.
    pub(in super::super) fn enter_scope(&mut self, table: &Table, name: &[u8]) {
        let statements = &table.statements;
        self.bits = BitSet::default();
        let whole = statements.scopes.iter().filter(|(scope, _)| **scope == *name);
        let prefixes = statements.scope_prefixes.iter().filter(|(p, _)| name.starts_with(p));
        for (_, bit) in whole.chain(prefixes) {
            self.bits.insert(*bit);
        }
        self.scope_bits = self.bits;
    }

    /// Starts a span or log event of the scope.
    #[inline]
    pub(in super::super) fn begin(&mut self) {
        self.bits = self.scope_bits;
    }

    /// Evaluates an attribute's value; `text` has the bytes of a plain text.
    #[inline]
    pub(in super::super) fn attribute(
        &mut self,
        table: &Table,
        slot: u16,
        value: &[u8],
        text: Option<&[u8]>,
    ) {
        let Some(bound) = table.bound(slot) else { return };
        match text {
            Some(text) => {
                let is_stated = self.text(bound, text);
                // Another instrumentation may write the same key with its own values.
                if bound.is_kind_key && !is_stated {
                    self.kind(table, table.keys.key(slot), text);
                }
            }
            None => self.value(bound, value),
        }
    }

    /// Evaluates a possible kind of the span, from a value in no dialect.
    #[inline(never)]
    pub(in super::super) fn kind(&mut self, table: &Table, key: &[u8], value: &[u8]) {
        let said = span_kind(key, value).and_then(|kind| table.statements.says[kind as usize]);
        if let Some(bit) = said {
            self.bits.insert(bit);
        }
    }

    /// Adds statements satisfied for other reasons.
    #[inline]
    pub(in super::super) fn extend(&mut self, bits: &BitSet) {
        self.bits.extend(bits);
    }

    #[cold]
    fn value(&mut self, bound: &Bound, value: &[u8]) {
        let value = AnyValue::read(value).unwrap_or_default();
        if let AnyValue::String(text) = value {
            self.text(bound, text.as_bytes());
            return;
        }
        let equal = bound.equals.iter().filter(|(scalar, _)| match (scalar, value) {
            (Scalar::Bool(wanted), AnyValue::Bool(value)) => *wanted == value,
            (Scalar::Int(wanted), AnyValue::Int(value)) => *wanted == value,
            _ => false,
        });
        equal.for_each(|(_, bit)| self.bits.insert(*bit));
    }

    /// Evaluates a text; true if any statement is about it. It need not be valid UTF-8, as the
    /// compared texts are.
    #[inline(always)]
    fn text(&mut self, bound: &Bound, text: &[u8]) -> bool {
        let mut is_stated = false;
        for (scalar, bit) in &bound.equals {
            if let Scalar::String(wanted) = scalar
                && wanted.as_bytes() == text
            {
                self.bits.insert(*bit);
                is_stated = true;
            }
        }
        for (prefix, bit) in &bound.prefixes {
            if text.starts_with(prefix) {
                self.bits.insert(*bit);
                is_stated = true;
            }
        }
        is_stated
    }

    /// Evaluates the span's name and if it is a root.
    #[inline]
    pub(in super::super) fn span(&mut self, table: &Table, name: &[u8], root: bool) {
        let statements = &table.statements;
        if let Some(number) = statements.span_names.get(name)
            && let Some(bit) = statements.span_name_bits.get(usize::from(number))
        {
            self.bits.insert(*bit);
        }
        for (prefix, bit) in &statements.span_name_prefixes {
            if name.starts_with(prefix) {
                self.bits.insert(*bit);
            }
        }
        if root && let Some(bit) = statements.root {
            self.bits.insert(bit);
        }
    }

    /// Evaluates the name of a log event.
    pub(in super::super) fn log_event(&mut self, table: &Table, name: &[u8]) {
        for (prefix, bit) in &table.statements.log_event_prefixes {
            if name.starts_with(prefix) {
                self.bits.insert(*bit);
            }
        }
    }

    /// Returns the satisfied statements; equal ones imply equal satisfied conditions.
    #[inline]
    pub(in super::super) fn bits(&self) -> &BitSet {
        &self.bits
    }

    /// Returns the satisfied conditions, ascending; without `detect` conditions if an exclusion
    /// holds.
    pub(in super::super) fn finish(&self, table: &Table) -> Vec<u16> {
        let statements = &table.statements;
        let rarest = |bit: u16| statements.candidates.get(usize::from(bit)).into_iter().flatten();
        let alternatives = self.bits.iter().flat_map(rarest).chain(&statements.unconditional);
        let holding = alternatives.filter(|alternative| alternative.holds(&self.bits));
        let mut conditions: Vec<u16> = holding.map(|alternative| alternative.condition).collect();
        conditions.sort_unstable();
        conditions.dedup();
        let means = |condition: u16| table.compiled(condition);
        if conditions.iter().any(|c| means(*c).is_some_and(|means| means.is(Mark::Exclude))) {
            conditions.retain(|c| means(*c).is_some_and(|means| !means.is(Mark::Tool)));
        }
        conditions
    }
}

impl Alternative {
    #[inline]
    fn holds(&self, bits: &BitSet) -> bool {
        self.required.iter().all(|bit| bits.has(*bit))
            && !self.absent.iter().any(|bit| bits.has(*bit))
    }
}
