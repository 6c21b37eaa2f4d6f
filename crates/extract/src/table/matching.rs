//! Evaluation of conditions for one span.

use super::super::dialect::{Mark, Scalar};
use super::Table;
use super::bit_set::BitSet;
use super::key_index::KeyIndex;
use super::kind_attribute::span_kind;
use spanscore_base::otlp::AnyValue;

/// All statements of a table, by what they speak of; attributes have theirs in [`Bound`].
#[derive(Debug, Default)]
pub(super) struct Statements {
    pub(super) span_names: KeyIndex,
    /// For each of `span_names` its bit.
    pub(super) span_name_bits: Vec<u16>,
    pub(super) span_name_prefixes: Vec<(Box<[u8]>, u16)>,
    pub(super) scopes: Vec<(Box<[u8]>, u16)>,
    pub(super) scope_prefixes: Vec<(Box<[u8]>, u16)>,
    pub(super) log_event_prefixes: Vec<(Box<[u8]>, u16)>,
    pub(super) root: Option<u16>,
    /// By what a span says that it is.
    pub(super) says: [Option<u16>; 8],
    /// For each bit the alternatives that it is the rarest of.
    pub(super) candidates: Vec<Vec<Alternative>>,
    /// The alternatives that need no bit to be set.
    pub(super) unconditional: Vec<Alternative>,
}

/// One way in which a condition holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alternative {
    pub(super) condition: u16,
    pub(super) required: Box<[u16]>,
    pub(super) absent: Box<[u16]>,
}

/// The bits that an attribute may set.
#[derive(Debug, Default)]
pub(in super::super) struct Bound {
    pub(in super::super) present: Option<u16>,
    pub(super) equals: Vec<(Scalar, u16)>,
    pub(super) prefixes: Vec<(Box<[u8]>, u16)>,
    /// True if the key may hold the kind of a span, and some condition reads kinds.
    pub(super) is_kind_key: bool,
}

impl Bound {
    /// Returns true if some statement is about the attribute's value.
    pub(in super::super) fn states_value(&self) -> bool {
        !self.equals.is_empty() || !self.prefixes.is_empty() || self.is_kind_key
    }
}

/// The statements and conditions that hold for the span at hand.
#[derive(Default)]
pub(in super::super) struct Matching {
    bits: BitSet,
    /// Statements that hold for every span of the scope at hand.
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

    /// Begins a span or log event of the scope.
    #[inline]
    pub(in super::super) fn begin(&mut self) {
        self.bits = self.scope_bits;
    }

    /// Notes the value of an attribute; `text` are its bytes if it is nothing but a text.
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
                // Another instrumentation may write the same key, with words of its own.
                if bound.is_kind_key && !is_stated {
                    self.kind(table, table.keys.key(slot), text);
                }
            }
            None => self.value(bound, value),
        }
    }

    /// Notes what a span may say that it is, by a value that no dialect states.
    #[inline(never)]
    pub(in super::super) fn kind(&mut self, table: &Table, key: &[u8], value: &[u8]) {
        let said = span_kind(key, value).and_then(|kind| table.statements.says[kind as usize]);
        if let Some(bit) = said {
            self.bits.insert(bit);
        }
    }

    /// Notes statements that hold for other reasons.
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

    /// Notes what a text says, and tells whether any statement speaks of it. It need not be known
    /// to be UTF-8: what it is compared with is.
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

    /// Notes the span's name and whether it is a root.
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

    /// Notes the name of a log event.
    pub(in super::super) fn log_event(&mut self, table: &Table, name: &[u8]) {
        for (prefix, bit) in &table.statements.log_event_prefixes {
            if name.starts_with(prefix) {
                self.bits.insert(*bit);
            }
        }
    }

    /// The statements that hold: of equal ones the conditions that hold are equal.
    #[inline]
    pub(in super::super) fn bits(&self) -> &BitSet {
        &self.bits
    }

    /// The conditions that hold, ascending; `detect` conditions not where an exclusion holds.
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
