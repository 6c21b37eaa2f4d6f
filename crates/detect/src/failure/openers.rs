//! Openers of an expression: literals of which each match has one, with what stands before them.

use crate::prefilter::grams::commonness;
use crate::tree::{CharClass, ExpressionTree, TreeStep};

/// Shortest literal that is worth a search, bytes.
const LITERAL_BYTES_MIN: usize = 3;
/// The same where an expression names it.
const NEED_BYTES_MIN: usize = 2;
/// Most bytes of a literal that are searched for.
const LITERAL_BYTES_MAX: usize = 12;
/// Most texts that neighbours are spelled out to.
const SPELLED_MAX: usize = 24;
/// Most literals of one expression.
const OPENERS_MAX: usize = 256;
/// Largest class that is spelled out.
const CLASS_MAX: u32 = 4;
/// Words that results of all kinds have, and what each costs a set of literals.
const ORDINARY: [&str; 12] = [
    "error", "failed", "failure", "timeout", "status", "code", "response", "request", "retry",
    "exit", "not", "tool",
];
const ORDINARY_COST: u64 = 20_000;

/// Most bytes and spaces of a match before a place.
#[derive(Clone, Copy, Default)]
pub(super) struct Distance {
    pub(super) bytes: usize,
    pub(super) spaces: usize,
}

/// A literal that opens an expression, in small letters.
#[derive(Clone)]
pub(super) struct Opener {
    pub(super) literal: String,
    pub(super) before: Distance,
}

impl Distance {
    fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            spaces: self.spaces.saturating_add(other.spaces),
        }
    }

    fn or(self, other: Self) -> Self {
        Self { bytes: self.bytes.max(other.bytes), spaces: self.spaces.max(other.spaces) }
    }

    fn of_text(text: &[u8]) -> Self {
        Self { bytes: text.len(), spaces: memchr::memchr_iter(b' ', text).count() }
    }

    /// Returns the most that a match of a part has.
    fn of(part: &ExpressionTree) -> Self {
        match part {
            ExpressionTree::Literal(bytes) => Self::of_text(bytes),
            ExpressionTree::Class(class) => {
                let bytes = if class.beyond.is_empty() { 1 } else { char::MAX_LEN_UTF8 };
                Self { bytes, spaces: usize::from(class.ascii >> b' ' & 1 == 1) }
            }
            ExpressionTree::Look(_) => Self::default(),
            ExpressionTree::Repeat(repeat) => {
                let once = Self::of(&repeat.part);
                let times = |each: usize| each.saturating_mul(repeat.max as usize);
                Self { bytes: times(once.bytes), spaces: times(once.spaces) }
            }
            ExpressionTree::Either(parts, _) => {
                parts.iter().map(|step| Self::of(&step.part)).fold(Self::default(), Self::or)
            }
            ExpressionTree::Row(steps) => {
                steps.iter().map(|step| Self::of(&step.part)).fold(Self::default(), Self::plus)
            }
            ExpressionTree::Group(_, part) => Self::of(part),
        }
    }
}

/// Returns the rarest literals of which each match has one, or its text one of `needs`; none where
/// there are none.
pub(super) fn openers(tree: &ExpressionTree, needs: &[String]) -> Vec<Opener> {
    let anywhere = Distance { bytes: usize::MAX, spaces: usize::MAX };
    let needed = (!needs.is_empty()).then(|| priced(needs, anywhere, NEED_BYTES_MIN)).flatten();
    let own = rarest(tree, Distance::default());
    let (_, mut found) = own.into_iter().chain(needed).min_by_key(|it| it.0).unwrap_or_default();
    for opener in &mut found {
        opener.literal.truncate(opener.literal.floor_char_boundary(LITERAL_BYTES_MAX));
    }
    // Of two literals the longer one says no more where it has the shorter one in it.
    found.sort_by_key(|opener| opener.literal.len());
    let mut few: Vec<Opener> = Vec::new();
    for opener in found {
        let within = |last: &&mut Opener| opener.literal.contains(&*last.literal);
        match few.iter_mut().find(within) {
            Some(last) => {
                let at = opener.literal.find(&*last.literal).unwrap_or_default();
                let there = Distance::of_text(&opener.literal.as_bytes()[..at]);
                last.before = last.before.or(opener.before.plus(there));
            }
            None => few.push(opener),
        }
    }
    few
}

/// Literals and what they cost: the more, the more texts have one of them.
type Priced = (u64, Vec<Opener>);

fn rarest(part: &ExpressionTree, before: Distance) -> Option<Priced> {
    match part {
        ExpressionTree::Row(steps) => rarest_of_row(steps, before),
        ExpressionTree::Either(parts, _) => {
            let mut all: Priced = (0, Vec::new());
            for step in parts {
                let (cost, found) = rarest(&step.part, before)?;
                all.0 += cost;
                all.1.extend(found);
            }
            (all.1.len() <= OPENERS_MAX).then_some(all)
        }
        ExpressionTree::Repeat(repeat) if repeat.min > 0 => rarest(&repeat.part, before),
        ExpressionTree::Group(_, part) => rarest(part, before),
        _ => priced(&spelled(part)?, before, LITERAL_BYTES_MIN),
    }
}

fn rarest_of_row(steps: &[TreeStep], mut before: Distance) -> Option<Priced> {
    let mut best: Option<Priced> = None;
    let mut offer = |found: Option<Priced>| {
        let is_better = |found: &Priced| best.as_ref().is_none_or(|(cost, _)| found.0 < *cost);
        if let Some(found) = found.filter(is_better) {
            best = Some(found);
        }
    };
    // What neighbours spell together, and the distance of its beginning.
    let mut run = vec![String::new()];
    let mut run_before = before;
    for step in steps {
        let texts = spelled(&step.part);
        let may_be_empty = texts.as_ref().is_some_and(|texts| texts.iter().any(String::is_empty));
        if may_be_empty || texts.is_none() {
            offer(priced(&run, run_before, LITERAL_BYTES_MIN));
        }
        let is_new = run.iter().all(String::is_empty);
        match texts.as_ref().and_then(|texts| joined(&run, texts)) {
            // What may be missing at the beginning says nothing.
            Some(_) if is_new && may_be_empty => run_before = before.plus(Distance::of(&step.part)),
            Some(longer) => run = longer,
            None => {
                offer(priced(&run, run_before, LITERAL_BYTES_MIN));
                if texts.is_none() {
                    offer(rarest(&step.part, before));
                }
                run_before = before;
                run = texts.unwrap_or_else(|| {
                    run_before = before.plus(Distance::of(&step.part));
                    vec![String::new()]
                });
            }
        }
        before = before.plus(Distance::of(&step.part));
    }
    offer(priced(&run, run_before, LITERAL_BYTES_MIN));
    best
}

/// Returns the openers for texts that stand at a distance, if all are worth a search.
fn priced(texts: &[String], before: Distance, bytes_min: usize) -> Option<Priced> {
    let is_short = |text: &String| text.len() < bytes_min || text.starts_with('^');
    if texts.iter().any(is_short) {
        return None;
    }
    let cost = |text: &String| {
        let is_ordinary = ORDINARY.contains(&text.trim());
        commonness(text) + if is_ordinary { ORDINARY_COST } else { 0 }
    };
    let opener = |literal: &String| Opener { literal: literal.clone(), before };
    Some((texts.iter().map(cost).sum(), texts.iter().map(opener).collect()))
}

/// Returns all texts that a part matches, in small letters, if they are few.
fn spelled(part: &ExpressionTree) -> Option<Vec<String>> {
    match part {
        ExpressionTree::Look(_) => Some(vec![String::new()]),
        ExpressionTree::Literal(bytes) => {
            Some(vec![std::str::from_utf8(bytes).ok()?.to_lowercase()])
        }
        ExpressionTree::Class(CharClass { ascii, beyond, .. }) => {
            let is_small = beyond.is_empty() && ascii.count_ones() <= CLASS_MAX;
            let letters = (0..0x80).filter(|byte| ascii >> byte & 1 == 1).map(char::from);
            is_small
                .then(|| letters.map(|letter| letter.to_ascii_lowercase().to_string()).collect())
        }
        ExpressionTree::Repeat(repeat) => match (repeat.min, repeat.max) {
            (0, 1) => {
                let mut texts = spelled(&repeat.part)?;
                texts.push(String::new());
                Some(texts)
            }
            (1, 1) => spelled(&repeat.part),
            _ => None,
        },
        ExpressionTree::Group(_, part) => spelled(part),
        ExpressionTree::Row(steps) => steps
            .iter()
            .try_fold(vec![String::new()], |run, step| joined(&run, &spelled(&step.part)?)),
        ExpressionTree::Either(parts, _) => {
            let mut all = Vec::new();
            for step in parts {
                all.extend(spelled(&step.part)?);
            }
            (all.len() <= SPELLED_MAX).then_some(all)
        }
    }
}

fn joined(starts: &[String], ends: &[String]) -> Option<Vec<String>> {
    let pairs = starts.iter().flat_map(|start| ends.iter().map(move |end| start.clone() + end));
    (starts.len() * ends.len() <= SPELLED_MAX).then(|| pairs.collect())
}
