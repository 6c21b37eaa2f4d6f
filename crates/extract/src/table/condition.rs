//! Conditions in disjunctive normal form over bits.

use super::super::dialect::{Condition, Scalar, SpanKindSaid};

/// Statement about a span, numbered as a bit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Statement {
    Equals(u16, Vec<Scalar>),
    Prefix(u16, String),
    SpanName(String),
    Present(u16),
    SpanNamePrefix(String),
    LogEventPrefix(String),
    Scope(String),
    ScopePrefix(String),
    Root,
    Says(SpanKindSaid),
}

impl Statement {
    /// Returns a rank of its frequency: an alternative is indexed by its rarest statement.
    pub(super) fn frequency(&self) -> u8 {
        match self {
            Self::Equals(..) | Self::Prefix(..) | Self::Says(_) => 0,
            Self::SpanName(_) => 1,
            Self::Present(_) => 2,
            Self::SpanNamePrefix(_) | Self::LogEventPrefix(_) => 3,
            Self::Root => 4,
            Self::Scope(_) | Self::ScopePrefix(_) => 5,
        }
    }
}

/// Bit, and its required value.
pub(super) type Term = (u16, bool);

/// Limit on the alternatives of one condition.
pub(super) const ALTERNATIVES_MAX: usize = 256;

/// Returns the condition's alternatives, each a conjunction of terms. `bit` numbers statements,
/// `slot` numbers keys. `None` if there are more than [`ALTERNATIVES_MAX`].
pub(super) fn alternatives(
    condition: &Condition,
    names: &mut impl Numbering,
) -> Option<Vec<Vec<Term>>> {
    let mut all = vec![simple_terms(condition, names)];
    for part in &condition.all {
        all = product(&all, &alternatives(part, names)?)?;
    }
    if !condition.any.is_empty() {
        let mut any = Vec::new();
        for part in &condition.any {
            any.extend(alternatives(part, names)?);
        }
        all = product(&all, &any)?;
    }
    Some(all)
}

/// Numbering of keys and statements in conditions.
pub(super) trait Numbering {
    /// Returns the slot of a key.
    fn slot(&mut self, key: &str) -> u16;
    /// Returns the bit of a statement.
    fn bit(&mut self, statement: Statement) -> u16;
}

fn simple_terms(condition: &Condition, names: &mut impl Numbering) -> Vec<Term> {
    let mut statements = Vec::new();
    if !condition.attr.is_empty() {
        let slot = names.slot(&condition.attr);
        let values: Vec<Scalar> =
            condition.one_of.iter().chain(&condition.equals).cloned().collect();
        let values_empty = values.is_empty();
        if !values_empty {
            statements.push((Statement::Equals(slot, values), true));
        }
        if values_empty && condition.prefix.is_none() {
            statements.push((Statement::Present(slot), true));
        }
        if let Some(prefix) = &condition.prefix {
            statements.push((Statement::Prefix(slot, prefix.clone()), true));
        }
    }
    for (keys, wanted) in [(&condition.attr_present, true), (&condition.attr_absent, false)] {
        for key in keys {
            statements.push((Statement::Present(names.slot(key)), wanted));
        }
    }
    let texts = [
        condition.scope.clone().map(Statement::Scope),
        condition.scope_prefix.clone().map(Statement::ScopePrefix),
        condition.span_name.clone().map(Statement::SpanName),
        condition.span_name_prefix.clone().map(Statement::SpanNamePrefix),
        condition.log_event_name_prefix.clone().map(Statement::LogEventPrefix),
    ];
    statements.extend(texts.into_iter().flatten().map(|statement| (statement, true)));
    statements.extend(condition.root.map(|root| (Statement::Root, root)));
    statements.extend(condition.says.map(|kind| (Statement::Says(kind), true)));
    statements.extend(condition.says_none_of.iter().map(|kind| (Statement::Says(*kind), false)));
    statements.into_iter().map(|(statement, wanted)| (names.bit(statement), wanted)).collect()
}

fn product(left: &[Vec<Term>], right: &[Vec<Term>]) -> Option<Vec<Vec<Term>>> {
    if left.len() * right.len() > ALTERNATIVES_MAX {
        return None;
    }
    let pairs = left.iter().flat_map(|one| right.iter().map(move |other| (one, other)));
    Some(pairs.map(|(one, other)| one.iter().chain(other).copied().collect()).collect())
}
