//! Expressions for both sides of a literal in a match.

use std::collections::BTreeMap;

use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

use super::super::match_bounds;
use super::super::needs::{place_of, spelled};
use crate::limits::{BEGIN_BYTES_MAX, REST_BYTES_MAX};

/// Surroundings of a literal, to the ends of a match or to [`REST_BYTES_MAX`] bytes of it.
pub(super) struct Rest {
    pub(super) head: Side,
    /// As `head`, to [`BEGIN_BYTES_MAX`] bytes.
    pub(super) begin: Side,
    pub(super) tail: Side,
    /// Bytes behind each literal, as far as they are known.
    pub(super) next: BTreeMap<usize, u128>,
    /// Literals that `tail` may end with, so that what follows it stands behind them too.
    last: Vec<usize>,
}

/// One side of a literal.
#[derive(Default)]
pub(super) struct Side {
    /// Expression that may still grow; `None` if none may.
    open: Option<Hir>,
    /// Expressions that were cut, as more would be too long.
    cut: Vec<Hir>,
}

impl Side {
    fn of(bytes: &[u8]) -> Self {
        Self { open: Some(Hir::literal(bytes)), cut: Vec::new() }
    }

    fn add(&mut self, part: &Hir, bytes_max: usize, row: impl Fn(Hir, Hir) -> Vec<Hir>) {
        let Some(open) = self.open.take() else { return };
        if length(&open).saturating_add(length(part)) > bytes_max {
            self.cut.push(open);
        } else {
            self.open = Some(Hir::concat(row(open, part.clone())));
        }
    }

    fn close(&mut self) {
        self.cut.extend(self.open.take());
    }

    fn any(sides: Vec<Self>) -> Self {
        let mut open = Vec::new();
        let mut cut = Vec::new();
        for side in sides {
            open.extend(side.open);
            cut.extend(side.cut);
        }
        Self { open: (!open.is_empty()).then(|| Hir::alternation(open)), cut }
    }

    /// Returns true if nothing was cut.
    pub(super) fn is_whole(&self) -> bool {
        self.cut.is_empty()
    }

    pub(super) fn hir(mut self) -> Hir {
        self.close();
        Hir::alternation(self.cut)
    }
}

/// Bytes of ASCII that a part starts with, and true if it may be empty.
pub(super) type First = (u128, bool);

impl Rest {
    /// Adds the bytes that may follow.
    pub(super) fn follow(&mut self, (bytes, may_be_empty): First) {
        for literal in &self.last {
            *self.next.entry(*literal).or_default() |= bytes;
        }
        if !may_be_empty {
            self.last.clear();
        }
    }

    /// Appends these parts.
    fn followed_by<'h>(mut self, parts: impl IntoIterator<Item = &'h Hir>) -> Self {
        for part in parts {
            self.follow(first(part));
            self.tail.add(part, REST_BYTES_MAX, |whole, part| vec![whole, part]);
        }
        self
    }

    /// Prepends these parts.
    fn behind<'h>(mut self, parts: impl DoubleEndedIterator<Item = &'h Hir>) -> Self {
        for part in parts.rev() {
            let before = |whole, part| vec![part, whole];
            self.head.add(part, REST_BYTES_MAX, before);
            self.begin.add(part, BEGIN_BYTES_MAX, before);
        }
        self
    }

    /// Joins alternatives.
    fn any(rests: Vec<Self>) -> Self {
        let mut next = BTreeMap::<usize, u128>::new();
        let mut last = Vec::new();
        let mut tails = Vec::new();
        let mut heads = Vec::new();
        let mut begins = Vec::new();
        for rest in rests {
            for (literal, bytes) in rest.next {
                *next.entry(literal).or_default() |= bytes;
            }
            last.extend(rest.last);
            heads.push(rest.head);
            begins.push(rest.begin);
            tails.push(rest.tail);
        }
        let head = Side::any(heads);
        let begin = Side::any(begins);
        Self { head, begin, tail: Side::any(tails), next, last }
    }
}

/// Returns the surroundings of the literals in an expression; `None` if a match may do without
/// them.
pub(super) fn rest(hir: &Hir, literals: &[&str]) -> Option<Rest> {
    if let Some(rest) = spelled(hir).and_then(|texts| of_texts(&texts, literals)) {
        return Some(rest);
    }
    match hir.kind() {
        HirKind::Capture(capture) => rest(&capture.sub, literals),
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            let max = repetition.max.map(|max| max - 1);
            let more = Hir::repetition(Repetition { min: 0, max, ..repetition.clone() });
            let once = rest(&repetition.sub, literals)?;
            Some(once.followed_by([&more]).behind([&more].into_iter()))
        }
        HirKind::Alternation(parts) => {
            let rests: Option<Vec<Rest>> = parts.iter().map(|part| rest(part, literals)).collect();
            Some(Rest::any(rests?))
        }
        HirKind::Concat(parts) => {
            let chosen = match_bounds::chosen(parts, literals)?;
            let mut first = match &chosen.texts {
                Some(texts) => of_texts(texts, literals)?,
                None => rest(&parts[chosen.parts.start], literals)?,
            }
            .behind(parts[..chosen.parts.start].iter());
            if !chosen.whole {
                first.follow((u128::MAX, false));
                first.tail.close();
                return Some(first);
            }
            Some(first.followed_by(&parts[chosen.parts.end..]))
        }
        _ => None,
    }
}

/// Splits texts at their literals; `None` if one has none.
fn of_texts(texts: &[String], literals: &[&str]) -> Option<Rest> {
    let mut rests = Vec::new();
    for text in texts {
        let before = rests.len();
        for (index, literal) in literals.iter().enumerate() {
            let Some(at) = place_of(literal, text) else { continue };
            let (head, tail) = text.as_bytes().split_at(at);
            let begin = Side::of(head);
            let head = Side::of(head);
            let tail = Side::of(tail);
            let next = text.as_bytes().get(at + literal.len()).map(|&byte| bits(byte));
            let last = if next.is_none() { vec![index] } else { Vec::new() };
            let next = [(index, next.unwrap_or_default())].into();
            rests.push(Rest { head, begin, tail, next, last });
        }
        if rests.len() == before {
            return None;
        }
    }
    Some(Rest::any(rests))
}

fn bits(byte: u8) -> u128 {
    let bit = |byte: u8| 1u128.checked_shl(byte.into()).unwrap_or_default();
    bit(byte.to_ascii_lowercase()) | bit(byte.to_ascii_uppercase())
}

/// Returns the bytes that a part starts with.
fn first(hir: &Hir) -> First {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => (0, true),
        HirKind::Literal(literal) => (literal.0.first().copied().map_or(0, bits), false),
        HirKind::Class(class) => (of_class(class), false),
        HirKind::Capture(capture) => first(&capture.sub),
        HirKind::Repetition(repetition) => {
            let (bytes, may_be_empty) = first(&repetition.sub);
            (bytes, may_be_empty || repetition.min == 0)
        }
        HirKind::Alternation(parts) => {
            let each = parts.iter().map(first);
            each.fold((0, false), |all, one| (all.0 | one.0, all.1 || one.1))
        }
        HirKind::Concat(parts) => {
            let mut bytes = 0;
            for part in parts {
                let (more, may_be_empty) = first(part);
                bytes |= more;
                if !may_be_empty {
                    return (bytes, false);
                }
            }
            (bytes, true)
        }
    }
}

fn of_class(class: &Class) -> u128 {
    let ranges: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => {
            class.iter().map(|range| (range.start().into(), range.end().into())).collect()
        }
        Class::Bytes(class) => {
            class.iter().map(|range| (range.start().into(), range.end().into())).collect()
        }
    };
    let is_in = |byte: u8| ranges.iter().any(|(from, to)| (*from..=*to).contains(&byte.into()));
    (0..0x80).filter(|byte| is_in(*byte)).fold(0, |all, byte| all | bits(byte))
}

fn length(hir: &Hir) -> usize {
    hir.properties().maximum_len().unwrap_or(usize::MAX)
}

/// Concatenates a part and as many of those behind it as are short enough together.
pub(in crate::pack) fn in_row<'h>(first: Hir, rest: impl IntoIterator<Item = &'h Hir>) -> Hir {
    let mut all = length(&first);
    let mut row = vec![first];
    for part in rest {
        all = all.saturating_add(length(part));
        if all > REST_BYTES_MAX {
            break;
        }
        row.push(part.clone());
    }
    Hir::concat(row)
}
