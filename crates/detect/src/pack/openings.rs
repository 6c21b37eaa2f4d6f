//! Openings of an expression: its alternatives, and the literals without which none of them
//! matches, with the bytes that may stand around each.

use regex_syntax::hir::{
    Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind,
    Look, Repetition,
};

use super::match_bounds;
use super::match_bounds::MatchBounds;
use super::needs::{Worth, required_by, worth};
use super::tail::{around, first};
use crate::automata::slim;

/// Most literals of one alternative.
const LITERALS_MAX: usize = 512;
/// Alternatives from which on a group is taken apart.
const GROUP_MIN: usize = 3;
/// Times from which on a repetition is one of the letters of a word.
const WORD_BYTES: u32 = 16;
/// Largest class whose letters are held against their small forms one by one.
const LETTERS_MAX: u32 = 8;

/// A literal that opens an alternative.
pub(crate) struct Opening {
    /// Its text, in lower case.
    pub(crate) literal: String,
    /// Most bytes of a match before it.
    pub(crate) before: usize,
    /// Most bytes of a match from its first byte on.
    pub(crate) after: usize,
    /// Most spaces of a match before it.
    pub(crate) spaces: usize,
    /// Most ends of lines of a match before it.
    pub(crate) lines: usize,
    /// Bytes of ASCII that may stand behind it, a bit each.
    pub(crate) next: u128,
}

/// One alternative of an expression.
pub(crate) struct PatternBranch {
    /// Its expression; for texts in lower case where capitals do not matter.
    pub(crate) hir: Hir,
    /// Bytes of ASCII that it starts with, a bit each; all where it may be empty.
    pub(crate) first: u128,
    /// True if each match ends where the text does.
    pub(crate) is_last: bool,
    /// Sets of literals, of each of which a match has one; the first is that of the narrowest
    /// bounds.
    pub(crate) openings: Vec<Vec<Opening>>,
}

/// Takes an expression for normalised texts apart, unless it must stay whole. It is opened
/// by those of `needs`, if each match has one, and each alternative by literals of its own.
pub(crate) fn alternatives(
    hir: &Hir,
    case_sensitive: bool,
    is_whole: bool,
    needs: &[String],
) -> Vec<PatternBranch> {
    let is_named = openings(&in_lower(hir), needs.to_vec(), false).is_some();
    let hirs = if is_whole || is_named { vec![hir.clone()] } else { split(hir) };
    let alternative = |hir: Hir| {
        let small = in_lower(&hir);
        let (bytes, may_be_empty) = first(&small);
        PatternBranch {
            first: if may_be_empty { u128::MAX } else { bytes },
            is_last: hir.properties().look_set_suffix().contains(Look::End),
            openings: [
                openings(&small, needs.to_vec(), false),
                required_by(&small, rarity).and_then(|own| openings(&small, own, true)),
            ]
            .into_iter()
            .flatten()
            .collect(),
            hir: slim(if case_sensitive { &hir } else { &small }, true),
        }
    };
    hirs.into_iter().map(alternative).collect()
}

/// Splits an expression at its alternatives; those of a group in a row stand with their neighbours.
fn split(hir: &Hir) -> Vec<Hir> {
    let count = |part: &Hir| match part.kind() {
        HirKind::Alternation(parts) => parts.len(),
        _ => 0,
    };
    match hir.kind() {
        HirKind::Alternation(parts) => parts.iter().flat_map(split).collect(),
        HirKind::Capture(capture) => split(&capture.sub),
        HirKind::Concat(parts) => {
            let largest = (0..parts.len()).max_by_key(|at| count(&parts[*at])).unwrap_or_default();
            let HirKind::Alternation(group) = parts[largest].kind() else {
                return vec![hir.clone()];
            };
            if group.len() < GROUP_MIN {
                return vec![hir.clone()];
            }
            let row = |one: &Hir| {
                let mut row = parts.to_vec();
                row[largest] = one.clone();
                Hir::concat(row)
            };
            group.iter().map(row).collect()
        }
        _ => vec![hir.clone()],
    }
}

/// Returns openings by these literals; `None` where a match may have none of them, unless each is
/// known to have one.
fn openings(hir: &Hir, mut literals: Vec<String>, is_known: bool) -> Option<Vec<Opening>> {
    literals.sort();
    literals.dedup();
    if literals.is_empty() || literals.len() > LITERALS_MAX {
        return None;
    }
    let named: Vec<&str> = literals.iter().map(String::as_str).collect();
    // Without an upper bound nothing is known of the distances.
    let anywhere = MatchBounds { before: usize::MAX, after: usize::MAX };
    let all = || (0..literals.len()).map(|index| (index, anywhere)).collect();
    let reaches = match_bounds::reaches(hir, &named).or_else(|| is_known.then(all))?;
    let (begin, next) = around(hir, &named).unwrap_or_default();
    let most = |byte| begin.as_ref().map_or(usize::MAX, |begin| most(begin, byte));
    let spaces = most(b' ');
    let lines = most(b'\n');
    let opening = |(index, reach): (usize, MatchBounds)| Opening {
        literal: literals[index].clone(),
        before: reach.before,
        after: reach.after,
        spaces,
        lines,
        next: next.get(&index).copied().unwrap_or(u128::MAX),
    };
    Some(reaches.into_iter().map(opening).collect())
}

/// Words that results of all kinds have, and what each costs a set of literals.
const ORDINARY: [&str; 10] = [
    "error", "failed", "failure", "timeout", "status", "code", "response", "request", "please",
    "exit",
];
const ORDINARY_COST: u64 = 5_000;

/// Orders sets of literals by how few results have one of them.
fn rarity(literals: &[String]) -> Worth {
    let is_ordinary = |literal: &&String| ORDINARY.contains(&literal.trim());
    let std::cmp::Reverse(cost) = worth(literals);
    std::cmp::Reverse(cost + ORDINARY_COST * literals.iter().filter(is_ordinary).count() as u64)
}

/// Returns how many of a byte a match has at most.
fn most(hir: &Hir, byte: u8) -> usize {
    let is_in = |from: u32, to: u32| (from..=to).contains(&byte.into());
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.iter().filter(|one| **one == byte).count(),
        HirKind::Class(Class::Unicode(class)) => {
            usize::from(class.iter().any(|one| is_in(one.start().into(), one.end().into())))
        }
        HirKind::Class(Class::Bytes(class)) => {
            usize::from(class.iter().any(|one| is_in(one.start().into(), one.end().into())))
        }
        HirKind::Capture(capture) => most(&capture.sub, byte),
        HirKind::Repetition(repetition) => match most(&repetition.sub, byte) {
            0 => 0,
            once => once.saturating_mul(repetition.max.map_or(usize::MAX, |max| max as usize)),
        },
        HirKind::Alternation(parts) => {
            parts.iter().map(|part| most(part, byte)).max().unwrap_or_default()
        }
        HirKind::Concat(parts) => {
            parts.iter().fold(0, |sum: usize, part| sum.saturating_add(most(part, byte)))
        }
    }
}

/// Returns an expression that accepts all that another does, and more: words of any length. It has
/// a tenth of the states, and tells of most texts that they do not match. `None` where it would be
/// the same.
pub(crate) fn rough(hir: &Hir) -> Option<Hir> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Literal(_) | HirKind::Class(_) => None,
        HirKind::Capture(capture) => rough(&capture.sub),
        HirKind::Repetition(repetition) => {
            let is_long = repetition.max.is_some_and(|max| max >= WORD_BYTES);
            let max = repetition.max.filter(|_| !is_long || most(&repetition.sub, b' ') > 0);
            let sub = rough(&repetition.sub);
            (sub.is_some() || max != repetition.max).then(|| {
                let sub = Box::new(sub.unwrap_or_else(|| (*repetition.sub).clone()));
                Hir::repetition(Repetition { max, sub, ..repetition.clone() })
            })
        }
        HirKind::Alternation(parts) => rough_parts(parts).map(Hir::alternation),
        HirKind::Concat(parts) => rough_parts(parts).map(Hir::concat),
    }
}

fn rough_parts(parts: &[Hir]) -> Option<Vec<Hir>> {
    let rough: Vec<Option<Hir>> = parts.iter().map(rough).collect();
    let each = |(rough, part): (Option<Hir>, &Hir)| rough.unwrap_or_else(|| part.clone());
    rough.iter().any(Option::is_some).then(|| rough.into_iter().zip(parts).map(each).collect())
}

/// Returns the same expression for texts in lower case.
fn in_lower(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => hir.clone(),
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) => Hir::literal(text.to_lowercase().into_bytes()),
            Err(_) => Hir::literal(literal.0.to_ascii_lowercase()),
        },
        HirKind::Class(class) => Hir::class(small_class(class)),
        HirKind::Capture(capture) => {
            let sub = Box::new(in_lower(&capture.sub));
            Hir::capture(Capture { sub, ..capture.clone() })
        }
        HirKind::Repetition(repetition) => {
            let sub = Box::new(in_lower(&repetition.sub));
            Hir::repetition(Repetition { sub, ..repetition.clone() })
        }
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(in_lower).collect()),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(in_lower).collect()),
    }
}

/// Returns a class with small letters in place of capitals; beyond ASCII only if it is small.
fn small_class(class: &Class) -> Class {
    match class {
        Class::Bytes(class) => {
            let mut small = class.clone();
            small.case_fold_simple();
            let capitals = ClassBytes::new([ClassBytesRange::new(b'A', b'Z')]);
            let mut has = class.clone();
            has.intersect(&capitals);
            let mut all = if has.ranges().is_empty() { class.clone() } else { small };
            all.difference(&capitals);
            Class::Bytes(all)
        }
        Class::Unicode(class) => {
            let range = |from, to| ClassUnicode::new([ClassUnicodeRange::new(from, to)]);
            let capitals = range('A', 'Z');
            let mut has = class.clone();
            has.intersect(&capitals);
            let mut all = class.clone();
            all.difference(&capitals);
            for found in has.ranges() {
                let small = [found.start(), found.end()].map(|c| c.to_ascii_lowercase());
                all.union(&range(small[0], small[1]));
            }
            let count = |class: &ClassUnicode| {
                let each =
                    class.iter().map(|one| u32::from(one.end()) - u32::from(one.start()) + 1);
                each.sum::<u32>()
            };
            if count(&all) <= LETTERS_MAX {
                let chars = all.clone();
                let chars = chars.iter().flat_map(|one| one.start()..=one.end());
                // A normalised text has neither them nor a `ſ`.
                chars.filter(|c| c.is_uppercase() || *c == '\u{17f}').for_each(|c| {
                    all.difference(&range(c, c));
                    c.to_lowercase().for_each(|small| all.union(&range(small, small)));
                });
                all.difference(&range('\u{17f}', '\u{17f}'));
            }
            Class::Unicode(all)
        }
    }
}
