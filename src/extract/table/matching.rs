//! Which conditions hold for one span.

use super::super::bits::Bits;
use super::super::dialect::Scalar;
use super::super::keys::Keys;
use super::Table;
use crate::otlp::AnyValue;

/// All statements of a table, by what they speak of; attributes have theirs in [`Bound`].
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) span_names: Keys,
    /// For each of `span_names` its bit.
    pub(super) span_name_bits: Vec<u16>,
    pub(super) span_name_prefixes: Vec<(Box<[u8]>, u16)>,
    pub(super) scopes: Vec<(Box<[u8]>, u16)>,
    pub(super) scope_prefixes: Vec<(Box<[u8]>, u16)>,
    pub(super) log_event_prefixes: Vec<(Box<[u8]>, u16)>,
    pub(super) root: Option<u16>,
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
    pub(super) present: Option<u16>,
    pub(super) equals: Vec<(Scalar, u16)>,
    pub(super) prefixes: Vec<(Box<[u8]>, u16)>,
}

/// The statements and conditions that hold for the span at hand.
#[derive(Default)]
pub(in super::super) struct Matching {
    bits: Bits,
    set: Vec<u16>,
    /// What holds of every span of the scope at hand, and how many of `set` that are.
    scope_bits: Bits,
    scope_set: usize,
    holding: Bits,
    conditions: Vec<u16>,
}

impl Matching {
    /// Enters an instrumentation scope.
    pub(in super::super) fn enter_scope(&mut self, table: &Table, name: &[u8]) {
        let statements = &table.statements;
        self.bits = Bits::default();
        self.set.clear();
        let whole = statements.scopes.iter().filter(|(scope, _)| **scope == *name);
        let prefixes = statements.scope_prefixes.iter().filter(|(p, _)| name.starts_with(p));
        for (_, bit) in whole.chain(prefixes) {
            self.set_bit(*bit);
        }
        self.scope_bits = self.bits;
        self.scope_set = self.set.len();
    }

    /// Begins a span or log event of the scope.
    #[inline]
    pub(in super::super) fn begin(&mut self) {
        self.bits = self.scope_bits;
        self.set.truncate(self.scope_set);
    }

    #[inline]
    fn set_bit(&mut self, bit: u16) {
        if !self.bits.has(bit) {
            self.bits.insert(bit);
            self.set.push(bit);
        }
    }

    /// Notes an attribute; `text` are the bytes of its value if that is nothing but a text.
    #[inline]
    pub(in super::super) fn attribute(
        &mut self,
        table: &Table,
        slot: u16,
        value: &[u8],
        text: Option<&[u8]>,
    ) {
        let Some(bound) = table.bound.get(usize::from(slot)) else { return };
        if let Some(bit) = bound.present {
            self.set_bit(bit);
        }
        if bound.equals.is_empty() && bound.prefixes.is_empty() {
            return;
        }
        if let Some(text) = text {
            self.text(bound, text);
            return;
        }
        let value = AnyValue::read(value).unwrap_or_default();
        for (scalar, bit) in &bound.equals {
            if equal(scalar, value) {
                self.set_bit(*bit);
            }
        }
        if let AnyValue::String(text) = value {
            for (prefix, bit) in &bound.prefixes {
                if text.as_bytes().starts_with(prefix) {
                    self.set_bit(*bit);
                }
            }
        }
    }

    /// Notes what a text says. It need not be known to be UTF-8: what it is compared with is.
    #[inline]
    fn text(&mut self, bound: &Bound, text: &[u8]) {
        for (scalar, bit) in &bound.equals {
            if let Scalar::String(wanted) = scalar
                && wanted.as_bytes() == text
            {
                self.set_bit(*bit);
            }
        }
        for (prefix, bit) in &bound.prefixes {
            if text.starts_with(prefix) {
                self.set_bit(*bit);
            }
        }
    }

    /// Notes the span's name and whether it is a root.
    #[inline]
    pub(in super::super) fn span(&mut self, table: &Table, name: &[u8], root: bool) {
        let statements = &table.statements;
        if let Some(number) = statements.span_names.get(name)
            && let Some(bit) = statements.span_name_bits.get(usize::from(number))
        {
            self.set_bit(*bit);
        }
        for (prefix, bit) in &statements.span_name_prefixes {
            if name.starts_with(prefix) {
                self.set_bit(*bit);
            }
        }
        if root && let Some(bit) = statements.root {
            self.set_bit(bit);
        }
    }

    /// Notes the name of a log event.
    pub(in super::super) fn log_event(&mut self, table: &Table, name: &[u8]) {
        for (prefix, bit) in &table.statements.log_event_prefixes {
            if name.starts_with(prefix) {
                self.set_bit(*bit);
            }
        }
    }

    /// The statements that hold: of equal ones the conditions that hold are equal.
    #[inline]
    pub(in super::super) fn bits(&self) -> &Bits {
        &self.bits
    }

    /// The conditions that hold, ascending; `detect` conditions not where an exclusion holds.
    pub(in super::super) fn finish(&mut self, table: &Table) -> &[u16] {
        self.conditions.clear();
        self.holding = Bits::default();
        let statements = &table.statements;
        for bit in &self.set {
            for alternative in statements.candidates.get(usize::from(*bit)).into_iter().flatten() {
                if alternative.holds(&self.bits) && !self.holding.has(alternative.condition) {
                    self.holding.insert(alternative.condition);
                    self.conditions.push(alternative.condition);
                }
            }
        }
        for alternative in &statements.unconditional {
            if alternative.holds(&self.bits) && !self.holding.has(alternative.condition) {
                self.holding.insert(alternative.condition);
                self.conditions.push(alternative.condition);
            }
        }
        self.conditions.sort_unstable();
        let means = |condition: u16| table.compiled(condition);
        if self.conditions.iter().any(|c| means(*c).is_some_and(|means| means.exclude)) {
            self.conditions.retain(|c| means(*c).is_some_and(|means| !means.tool));
        }
        &self.conditions
    }
}

impl Alternative {
    #[inline]
    fn holds(&self, bits: &Bits) -> bool {
        self.required.iter().all(|bit| bits.has(*bit))
            && !self.absent.iter().any(|bit| bits.has(*bit))
    }
}

fn equal(scalar: &Scalar, value: AnyValue<'_>) -> bool {
    match (scalar, value) {
        (Scalar::String(wanted), AnyValue::String(text)) => wanted == text,
        (Scalar::Bool(wanted), AnyValue::Bool(value)) => *wanted == value,
        (Scalar::Int(wanted), AnyValue::Int(value)) => *wanted == value,
        _ => false,
    }
}
