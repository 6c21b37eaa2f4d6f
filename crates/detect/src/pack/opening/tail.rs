//! Expression of a match from one of its literals on.

use regex_syntax::hir::{Hir, HirKind, Repetition};

use super::ahead::AHEAD;
use crate::pack::match_bounds;
use crate::pack::needs::{place_of, spelled};

/// Limit on useful bytes of a match from a literal on: the literal, and those after it.
const TAIL_BYTES_MAX: usize = 48 + AHEAD;

/// Continuations of a match from one of its literals.
#[derive(Default)]
struct MatchTail {
    /// Expression that may still grow, if any.
    open: Option<Hir>,
    /// Expressions that are long enough.
    cut: Vec<Hir>,
}

impl MatchTail {
    /// Appends parts.
    fn followed_by<'h>(mut self, parts: impl IntoIterator<Item = &'h Hir>) -> Self {
        for part in parts {
            let Some(open) = self.open.take() else { break };
            if length(&open).saturating_add(length(part)) > TAIL_BYTES_MAX
                && open.properties().minimum_len().is_some_and(|least| least >= TAIL_BYTES_MAX)
            {
                self.cut.push(open);
            } else {
                self.open = Some(Hir::concat(vec![open, part.clone()]));
            }
        }
        self
    }

    fn close(&mut self) {
        self.cut.extend(self.open.take());
    }

    /// Joins alternatives.
    fn any(tails: Vec<Self>) -> Self {
        let mut open = Vec::new();
        let mut cut = Vec::new();
        for tail in tails {
            open.extend(tail.open);
            cut.extend(tail.cut);
        }
        Self { open: (!open.is_empty()).then(|| Hir::alternation(open)), cut }
    }
}

/// Returns the expression of the rest of a match from each of these literals on; `None` if a match
/// may have none.
pub(super) fn tail(hir: &Hir, literals: &[&str]) -> Option<Hir> {
    let mut tail = tail_of(hir, literals)?;
    tail.close();
    Some(Hir::alternation(tail.cut))
}

fn tail_of(hir: &Hir, literals: &[&str]) -> Option<MatchTail> {
    if let Some(tail) = spelled(hir).and_then(|texts| of_texts(&texts, literals)) {
        return Some(tail);
    }
    match hir.kind() {
        HirKind::Capture(capture) => tail_of(&capture.sub, literals),
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            let max = repetition.max.map(|max| max - 1);
            let more = Hir::repetition(Repetition { min: 0, max, ..repetition.clone() });
            Some(tail_of(&repetition.sub, literals)?.followed_by([&more]))
        }
        HirKind::Alternation(parts) => {
            let tails: Option<Vec<MatchTail>> =
                parts.iter().map(|part| tail_of(part, literals)).collect();
            Some(MatchTail::any(tails?))
        }
        HirKind::Concat(parts) => {
            let chosen = match_bounds::chosen(parts, literals)?;
            let mut first = match &chosen.texts {
                Some(texts) => of_texts(texts, literals)?,
                None => tail_of(&parts[chosen.parts.start], literals)?,
            };
            if !chosen.whole {
                first.close();
                return Some(first);
            }
            Some(first.followed_by(&parts[chosen.parts.end..]))
        }
        _ => None,
    }
}

/// Splits texts at their literals; `None` if one has none.
fn of_texts(texts: &[String], literals: &[&str]) -> Option<MatchTail> {
    let mut tails = Vec::new();
    for text in texts {
        let before = tails.len();
        for literal in literals {
            let Some(at) = place_of(literal, text) else { continue };
            tails.push(MatchTail {
                open: Some(Hir::literal(&text.as_bytes()[at..])),
                cut: Vec::new(),
            });
        }
        if tails.len() == before {
            return None;
        }
    }
    Some(MatchTail::any(tails))
}

fn length(hir: &Hir) -> usize {
    hir.properties().maximum_len().unwrap_or(usize::MAX)
}

/// Concatenates a part and as many of its successors as are tested.
pub(super) fn in_row<'h>(first: Hir, rest: impl IntoIterator<Item = &'h Hir>) -> Hir {
    let mut row = vec![first];
    for part in rest {
        let least: usize = row.iter().filter_map(|part| part.properties().minimum_len()).sum();
        if least > AHEAD {
            break;
        }
        row.push(part.clone());
    }
    Hir::concat(row)
}
