//! What a match holds from its literal on, and before it.
//!
//! In go an expression and the literals of which each match has one, out come an expression for
//! the rest of a match, its literal included, and one for what stands before. Held to the place of
//! a literal they fail after few bytes in nearly all texts, where a search of the whole window
//! would read all of it: so they tell which of the literals that occur are worth a search. They may
//! accept more than the expression has matches, never less.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::OnceLock;

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::pool::Pool;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, HirKind, Repetition};

use super::super::limits::{DFA_BYTES_MAX, REGEX_BYTES_MAX, REST_BYTES_MAX};
use super::needs::spelled;
use super::reach;

/// The rest of a match, compiled when first needed.
pub(in crate::detect) struct LiteralTail {
    tail: Hir,
    /// What stands before, where that is more than nothing.
    head: Option<Hir>,
    /// By the literal: the bytes of ASCII that may stand behind it, a bit each.
    pub(in crate::detect) next: BTreeMap<usize, u128>,
    compiled: OnceLock<Option<[Option<Automaton>; 2]>>,
}

/// Which way an automaton reads.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Forward,
    Back,
}

/// A compiled tail with what its searches note.
struct Automaton {
    dfa: DFA,
    caches: Pool<Cache, MakeCache>,
}

type MakeCache = Box<dyn Fn() -> Cache + Send + Sync + UnwindSafe + RefUnwindSafe>;

impl LiteralTail {
    /// That of an expression whose matches all have one of these literals, in lower case.
    pub(super) fn new(hir: &Hir, literals: &[&str]) -> Option<Self> {
        let mut rest = rest(hir, literals)?;
        rest.follow((u128::MAX, false));
        let is_empty = |head: &Hir| matches!(head.kind(), HirKind::Empty);
        let head = Some(rest.head.hir()).filter(|head| !is_empty(head));
        Some(Self { next: rest.next, head, ..Self::of(rest.tail.hir()) })
    }

    /// The same with these numbers for the literals.
    pub(super) fn of_anchors(self, anchors: &[usize]) -> Self {
        let next = self.next.iter().map(|(&literal, &bytes)| (anchors[literal], bytes)).collect();
        Self { next, ..self }
    }

    /// This expression.
    pub(super) fn of(tail: Hir) -> Self {
        Self { tail, head: None, next: BTreeMap::new(), compiled: OnceLock::new() }
    }

    /// What one of these accepts.
    pub(super) fn any<'t>(tails: impl Iterator<Item = &'t Self>) -> Self {
        Self::of(Hir::alternation(tails.map(|tail| tail.tail.clone()).collect()))
    }

    /// Whether the rest of a match may stand at this place; `true` where that cannot be told.
    pub(in crate::detect) fn may_stand_at(&self, text: &[u8], at: usize) -> bool {
        let compiled = self.compiled.get_or_init(|| {
            let tail = Automaton::new(&self.tail, Way::Forward)?;
            let head = self.head.as_ref().and_then(|head| Automaton::new(head, Way::Back));
            Some([Some(tail), head])
        });
        let Some([tail, head]) = compiled else { return true };
        let end = (at + REST_BYTES_MAX + 1).min(text.len());
        let start = at.saturating_sub(REST_BYTES_MAX + 1);
        tail.as_ref().is_none_or(|tail| tail.accepts(text, at..end, Way::Forward))
            && head.as_ref().is_none_or(|head| head.accepts(text, start..at, Way::Back))
    }
}

impl Automaton {
    fn new(hir: &Hir, way: Way) -> Option<Self> {
        let nfa = thompson::Config::new()
            .utf8(false)
            .reverse(way == Way::Back)
            .nfa_size_limit(Some(REGEX_BYTES_MAX))
            .which_captures(thompson::WhichCaptures::None);
        let config = DFA::config()
            .match_kind(MatchKind::All)
            .cache_capacity(DFA_BYTES_MAX)
            .skip_cache_capacity_check(true);
        let failed = |error: &dyn std::fmt::Display| tracing::error!("a tail: {error}");
        // Where capitals matter the search that follows tells them apart.
        let nfa = thompson::Compiler::new().configure(nfa).build_from_hir(&in_any_case(hir));
        let nfa = nfa.inspect_err(|error| failed(error)).ok()?;
        let built = DFA::builder().configure(config).build_from_nfa(nfa);
        let dfa = built.inspect_err(|error| failed(error)).ok()?;
        let maker = dfa.clone();
        let make: MakeCache = Box::new(move || maker.create_cache());
        Some(Self { dfa, caches: Pool::new(make) })
    }

    /// Whether it matches from the start of a part on, or back from its end; `true` where that
    /// cannot be told.
    fn accepts(&self, text: &[u8], part: Range<usize>, way: Way) -> bool {
        let input = Input::new(text).span(part).anchored(Anchored::Yes).earliest(true);
        let mut cache = self.caches.get();
        let found = match way {
            Way::Forward => self.dfa.try_search_fwd(&mut cache, &input),
            Way::Back => self.dfa.try_search_rev(&mut cache, &input),
        };
        found.map_or(true, |found| found.is_some())
    }
}

/// What stands around a literal, to the ends of a match or to [`REST_BYTES_MAX`] bytes of it.
struct Rest {
    head: Side,
    tail: Side,
    /// The bytes behind each literal, as far as they are known.
    next: BTreeMap<usize, u128>,
    /// The literals that `tail` may end with, so that what follows it stands behind them too.
    last: Vec<usize>,
}

/// What stands on one side of a literal.
#[derive(Default)]
struct Side {
    /// To which more may be added; `None` where nothing is.
    open: Option<Hir>,
    /// What was cut, as more would be too long.
    cut: Vec<Hir>,
}

impl Side {
    fn of(bytes: &[u8]) -> Self {
        Self { open: Some(Hir::literal(bytes)), cut: Vec::new() }
    }

    fn add(&mut self, part: &Hir, row: impl Fn(Hir, Hir) -> Vec<Hir>) {
        let Some(open) = self.open.take() else { return };
        if length(&open).saturating_add(length(part)) > REST_BYTES_MAX {
            self.cut.push(open);
        } else {
            self.open = Some(Hir::concat(row(open, part.clone())));
        }
    }

    fn close(&mut self) {
        self.cut.extend(self.open.take());
    }

    fn any(sides: Vec<Self>) -> Self {
        let (mut open, mut cut) = (Vec::new(), Vec::new());
        for side in sides {
            open.extend(side.open);
            cut.extend(side.cut);
        }
        Self { open: (!open.is_empty()).then(|| Hir::alternation(open)), cut }
    }

    fn hir(mut self) -> Hir {
        self.close();
        Hir::alternation(self.cut)
    }
}

/// The bytes of ASCII that something starts with, and whether it may be empty.
type First = (u128, bool);

impl Rest {
    /// Notes what follows.
    fn follow(&mut self, (bytes, may_be_empty): First) {
        for literal in &self.last {
            *self.next.entry(*literal).or_default() |= bytes;
        }
        if !may_be_empty {
            self.last.clear();
        }
    }

    /// Puts these parts behind it.
    fn followed_by<'h>(mut self, parts: impl IntoIterator<Item = &'h Hir>) -> Self {
        for part in parts {
            self.follow(first(part));
            self.tail.add(part, |whole, part| vec![whole, part]);
        }
        self
    }

    /// Puts these parts before it.
    fn behind<'h>(mut self, parts: impl DoubleEndedIterator<Item = &'h Hir>) -> Self {
        for part in parts.rev() {
            self.head.add(part, |whole, part| vec![part, whole]);
        }
        self
    }

    /// One of these.
    fn any(rests: Vec<Self>) -> Self {
        let mut next = BTreeMap::<usize, u128>::new();
        let (mut last, mut heads, mut tails) = (Vec::new(), Vec::new(), Vec::new());
        for rest in rests {
            for (literal, bytes) in rest.next {
                *next.entry(literal).or_default() |= bytes;
            }
            last.extend(rest.last);
            heads.push(rest.head);
            tails.push(rest.tail);
        }
        Self { head: Side::any(heads), tail: Side::any(tails), next, last }
    }
}

/// An expression for what stands from one of the literals on.
fn rest(hir: &Hir, literals: &[&str]) -> Option<Rest> {
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
            let chosen = reach::chosen(parts, literals)?;
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

/// The texts from their literals on; `None` where one has none.
fn of_texts(texts: &[String], literals: &[&str]) -> Option<Rest> {
    let mut rests = Vec::new();
    for text in texts {
        let before = rests.len();
        for (index, literal) in literals.iter().enumerate() {
            let Some(at) = text.find(literal) else { continue };
            let (head, tail) = text.as_bytes().split_at(at);
            let (head, tail) = (Side::of(head), Side::of(tail));
            let next = text.as_bytes().get(at + literal.len()).map(|&byte| bits(byte));
            let last = if next.is_none() { vec![index] } else { Vec::new() };
            let next = [(index, next.unwrap_or_default())].into();
            rests.push(Rest { head, tail, next, last });
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

/// The bytes that a part starts with.
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

/// The same in any case of the letters of ASCII; others are in lower case.
fn in_any_case(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => hir.clone(),
        HirKind::Literal(literal) => {
            Hir::concat(literal.0.iter().map(|&byte| either(byte)).collect())
        }
        HirKind::Class(class) => {
            let mut class = class.clone();
            match &mut class {
                // Without the tables of case, nothing is known and the class stays as it is.
                Class::Unicode(class) => class.try_case_fold_simple().unwrap_or_default(),
                Class::Bytes(class) => class.case_fold_simple(),
            }
            Hir::class(class)
        }
        HirKind::Capture(capture) => in_any_case(&capture.sub),
        HirKind::Repetition(repetition) => {
            let sub = Box::new(in_any_case(&repetition.sub));
            Hir::repetition(Repetition { sub, ..repetition.clone() })
        }
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(in_any_case).collect()),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(in_any_case).collect()),
    }
}

fn either(byte: u8) -> Hir {
    let (lower, upper) = (byte.to_ascii_lowercase(), byte.to_ascii_uppercase());
    let ranges = [lower, upper].map(|byte| ClassBytesRange::new(byte, byte));
    Hir::class(Class::Bytes(ClassBytes::new(ranges)))
}

/// A part and as many of those behind it as are short enough together.
pub(super) fn in_row<'h>(first: Hir, rest: impl IntoIterator<Item = &'h Hir>) -> Hir {
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

#[cfg(test)]
mod tests {
    use super::super::compile::TextForm;
    use super::super::expression::parsed;
    use super::*;

    #[track_caller]
    fn check(pattern: &str, literals: &[&str], stands: &[&str], not: &[&str]) {
        let tail =
            LiteralTail::new(&parsed(pattern, TextForm::Normalised).unwrap(), literals).unwrap();
        let at = |text: &str| {
            let place = literals.iter().filter_map(|literal| text.to_lowercase().find(literal));
            tail.may_stand_at(text.as_bytes(), place.min().unwrap())
        };
        for text in stands {
            assert!(at(text), "{pattern} {text}");
        }
        for text in not {
            assert!(!at(text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_literal_without_the_rest_of_a_match_is_not_worth_a_search() {
        check("ab{0,3} key[0-9]{1,4}", &["key"], &["AB KEY1"], &["key1", "b key1", "a keyx"]);
        let verbs = "(?:forget|ignor(?:e|ing)) (?:all|any) rules";
        check(verbs, &["ignor", "forget"], &["forget all rules"], &["ignore it", "forget rules"]);
        check(r"\b(?:x|y)_(token|key)\b", &["_token", "_key"], &["x_key."], &["_keys", "_tokens"]);
        check("(?:abc[0-9]){2}x", &["abc"], &["abc1abc2x", "abc2x"], &["abc1abd", "abc1"]);
    }

    #[test]
    fn a_long_rest_is_cut() {
        check(
            r"\b(?:key_[a-z]{90}[a-z]{90}|abc)\b",
            &["key", "abc"],
            &[&format!("key_{}", "x".repeat(180)), "abc."],
            &["key", "key_1", "abcd"],
        );
    }
}
