//! Openers of an expression: literals of which each match has one, with their surroundings.

use std::ops::Range;
use std::rc::Rc;

use crate::prefilter::grams::commonness;
use crate::tree::beside::{Begin, BesideParts, PartsBeyond, Side, SideBytes};
use crate::tree::{CharClass, ExpressionTree, TreeStep};

/// Shortest literal worth a search, bytes.
const LITERAL_BYTES_MIN: usize = 3;
/// The same for literals named by an expression.
const NEED_BYTES_MIN: usize = 2;
/// The same for literals without letters.
const SIGNS_MIN: usize = 2;
/// Longest searched prefix of a literal, bytes.
pub(super) const LITERAL_BYTES_MAX: usize = 12;
/// Limit on texts from expanding adjacent parts.
const SPELLED_MAX: usize = 24;
/// Limit on literals of one expression.
const OPENERS_MAX: usize = 256;
/// Largest class that is expanded.
const CLASS_MAX: u32 = 4;
/// Words of ordinary results, with the cost of each in a set of literals.
const ORDINARY: [&str; 13] = [
    "error", "failed", "failure", "timeout", "status", "code", "response", "request", "retry",
    "exit", "not", "tool", "please",
];
const ORDINARY_COST: u64 = 20_000;
/// Cost factor of a literal with unknown surroundings.
const ALONE_COST: u64 = 16;
/// Cost up to which literals need no partners, and above which partners are useless.
const RARE: u64 = 400;
const COMMON: u64 = 100_000;
/// Size of a text without a known window, bytes.
const WIDE: usize = 1 << 10;

/// Limits on the bytes, spaces and line ends of a match before a place.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) struct Distance {
    pub(super) bytes: usize,
    pub(super) spaces: usize,
    lines: usize,
}

/// Literal that opens an expression, in lower case.
#[derive(Clone, PartialEq)]
pub(super) struct Opener {
    pub(super) literal: String,
    /// Limits on the part of a match before it.
    pub(super) before: Distance,
    /// Limit on the bytes between it and the end of the text.
    pub(super) behind: usize,
    /// Possible bytes before and after it.
    pub(super) beside: [SideBytes; 2],
}

/// Surroundings of one part of an expression.
#[derive(Clone)]
struct Around<'t> {
    before: Distance,
    behind: Distance,
    /// Parts before and after it.
    parts: [PartsBeyond<'t>; 2],
    /// Anchors of the start of these parts, and of their end.
    borders: [Begin; 2],
}

impl<'t> Around<'t> {
    /// Returns those of a whole expression anchored in a text.
    fn of_all(tree: &ExpressionTree, begin: Begin) -> Self {
        let behind = if tree.is_to_end() { Distance::default() } else { Distance::MAX };
        let borders = [begin, Begin::Anywhere];
        Self { before: Distance::default(), behind, parts: [None, None], borders }
    }

    /// Returns unknown surroundings.
    fn unknown() -> Self {
        let borders = [Begin::Anywhere; 2];
        Self { before: Distance::MAX, behind: Distance::MAX, parts: [None, None], borders }
    }

    /// Returns the size of the part of a text that may contain it, out of [`WIDE`].
    fn window(&self) -> u64 {
        let [begin, _] = self.borders;
        let before = if begin == Begin::Text { self.before.bytes } else { usize::MAX };
        before.min(self.behind.bytes).min(WIDE) as u64 + 1
    }

    /// Returns those of some consecutive steps.
    fn of_steps(&self, row: &'t [TreeStep], steps: Range<usize>) -> Self {
        let beside = [&row[..steps.start], &row[steps.end..]];
        let [before, behind] = beside.map(Distance::of_row);
        let parts = [0, 1].map(|side| {
            let beyond = self.parts[side].clone();
            Some(Rc::new(BesideParts { steps: beside[side], beyond }))
        });
        let borders = self.borders;
        Self { before: self.before.plus(before), behind: self.behind.plus(behind), parts, borders }
    }
}

impl Distance {
    const MAX: Self = Self { bytes: usize::MAX, spaces: usize::MAX, lines: usize::MAX };

    fn with(self, other: Self, of: fn(usize, usize) -> usize) -> Self {
        Self {
            bytes: of(self.bytes, other.bytes),
            spaces: of(self.spaces, other.spaces),
            lines: of(self.lines, other.lines),
        }
    }

    fn plus(self, other: Self) -> Self {
        self.with(other, usize::saturating_add)
    }

    fn or(self, other: Self) -> Self {
        self.with(other, usize::max)
    }

    /// Returns the limits of a match of a part.
    fn of(part: &ExpressionTree) -> Self {
        let of = |byte: u8| part.most(&move |leaf: &ExpressionTree| leaf_count(leaf, byte));
        let bytes = part.most(&ExpressionTree::leaf_bytes);
        Self { bytes, spaces: of(b' '), lines: of(b'\n') }
    }

    fn of_row(steps: &[TreeStep]) -> Self {
        steps.iter().map(|step| Self::of(&step.part)).fold(Self::default(), Self::plus)
    }
}

/// Returns the limit on occurrences of a byte in a literal, a class or an assertion.
fn leaf_count(leaf: &ExpressionTree, byte: u8) -> usize {
    match leaf {
        ExpressionTree::Literal(bytes) => memchr::memchr_iter(byte, bytes).count(),
        ExpressionTree::Class(class) => usize::from(class.ascii >> byte & 1 == 1),
        _ => 0,
    }
}

/// Returns the rarest literals of which each match has one, or its text one of `needs`; if these
/// are common, also a second set. Empty if there are none.
pub(super) fn openers(tree: &ExpressionTree, needs: &[String], begin: Begin) -> [Vec<Opener>; 2] {
    let around = Around::of_all(tree, begin);
    let mut offers = match tree {
        ExpressionTree::Row(steps) => offers_of_row(steps, &around),
        other => rarest(other, &around).map(|found| (0..1, found)).into_iter().collect(),
    };
    let needed = priced(needs, &Around::unknown(), NEED_BYTES_MIN).filter(|_| !needs.is_empty());
    let nowhere = usize::MAX..usize::MAX;
    offers.extend(needed.map(|(cost, found)| (nowhere, (cost * ALONE_COST, found))));
    let Some((first, (cost, found))) = take_rarest(&mut offers) else { return Default::default() };
    offers.retain(|(steps, (cost, _))| {
        *cost < COMMON && (steps.end <= first.start || first.end <= steps.start)
    });
    let other = take_rarest(&mut offers).filter(|_| cost > RARE);
    let other = other.map(|(_, (_, found))| found).unwrap_or_default();
    let mut both = [found, other].map(listed);
    // The first ones determine the start of matches, unless they follow an unbounded run.
    let is_open =
        |all: &[Opener]| all.iter().any(|opener| opener.before.bytes >= u32::MAX as usize);
    if !both[1].is_empty() && is_open(&both[0]) && !is_open(&both[1]) {
        both.swap(0, 1);
    }
    both
}

/// Lists each literal once.
fn listed(found: Vec<(String, Around<'_>)>) -> Vec<Opener> {
    let mut all: Vec<Opener> = Vec::new();
    for (literal, around) in found {
        let opener = Opener::of(literal, &around);
        match all.iter_mut().find(|known| known.literal == opener.literal) {
            Some(known) => known.widen(&opener),
            None => all.push(opener),
        }
    }
    all
}

/// Literals of some consecutive parts.
type Offer<'t> = (Range<usize>, Priced<'t>);

fn take_rarest<'t>(offers: &mut Vec<Offer<'t>>) -> Option<Offer<'t>> {
    let all = offers.iter().enumerate();
    let (at, _) = all.min_by_key(|(_, (_, (cost, _)))| *cost)?;
    Some(offers.swap_remove(at))
}

impl Opener {
    fn of(mut literal: String, around: &Around<'_>) -> Self {
        let end = literal.floor_char_boundary(LITERAL_BYTES_MAX);
        let cut = literal.split_off(end);
        let [before, behind] = &around.parts;
        let [begin, over] = around.borders;
        let bytes = literal.as_bytes();
        Self {
            beside: [
                SideBytes::of(bytes, Side::Before, before, begin),
                if cut.is_empty() {
                    SideBytes::of(bytes, Side::Behind, behind, over)
                } else {
                    SideBytes::ANY
                },
            ],
            literal,
            before: around.before,
            behind: around.behind.bytes.saturating_add(cut.len()),
        }
    }

    /// Returns true if a match may contain it at this place of a text.
    pub(super) fn fits(&self, text: &[u8], at: usize) -> bool {
        let end = at + self.literal.len();
        let [on_left, on_right] = &self.beside;
        // Most places fail at the next byte.
        text.get(end).is_none_or(|next| on_right.may_begin(*next))
            && text.len() <= self.behind.saturating_add(end)
            && text.get(end..).is_some_and(|rest| on_right.fit(rest.iter()))
            && on_left.fit(text[..at].iter().rev())
    }

    /// Returns true if it may only stand at an edge of a text: in the first line, or within so many
    /// bytes of the beginning or the end.
    pub(super) fn is_at_edge(&self, begin: Begin, bytes: usize) -> bool {
        let is_first = self.before.lines == 0 || self.before.bytes < bytes;
        begin == Begin::Text && is_first || self.behind < bytes - LITERAL_BYTES_MAX
    }

    /// Merges another opener of the same literal.
    fn widen(&mut self, other: &Self) {
        self.before = self.before.or(other.before);
        self.behind = self.behind.max(other.behind);
        for (side, other) in self.beside.iter_mut().zip(&other.beside) {
            side.widen(other);
        }
    }
}

/// Literals with their surroundings, and their cost, which grows with the share of texts that have
/// one.
type Priced<'t> = (u64, Vec<(String, Around<'t>)>);

fn rarest<'t>(part: &'t ExpressionTree, around: &Around<'t>) -> Option<Priced<'t>> {
    match part {
        ExpressionTree::Row(steps) => {
            take_rarest(&mut offers_of_row(steps, around)).map(|(_, found)| found)
        }
        ExpressionTree::Either(parts, _) => {
            let mut all: Priced<'t> = (0, Vec::new());
            for step in parts {
                let (cost, found) = rarest(&step.part, around)?;
                all.0 += cost;
                all.1.extend(found);
            }
            (all.1.len() <= OPENERS_MAX).then_some(all)
        }
        ExpressionTree::Repeat(repeat) if repeat.min > 0 => {
            // More literals may follow the first one.
            let parts = [around.parts[0].clone(), None];
            rarest(&repeat.part, &Around { behind: Distance::MAX, parts, ..around.clone() })
        }
        ExpressionTree::Group(_, part) => rarest(part, around),
        _ => priced(&spelled(part)?, around, LITERAL_BYTES_MIN),
    }
}

fn offers_of_row<'t>(row: &'t [TreeStep], around: &Around<'t>) -> Vec<Offer<'t>> {
    let mut offers = Vec::new();
    let mut offer = |run: &[String], steps: Range<usize>| {
        let found = priced(run, &around.of_steps(row, steps.clone()), LITERAL_BYTES_MIN);
        offers.extend(found.map(|found| (steps, found)));
    };
    // Texts of adjacent parts together, and those of the first of them.
    let mut run = vec![String::new()];
    let mut first = 0;
    let mut within = Vec::new();
    for (index, step) in row.iter().enumerate() {
        let texts = spelled(&step.part);
        let may_be_empty = texts.as_ref().is_some_and(|texts| texts.iter().any(String::is_empty));
        if may_be_empty || texts.is_none() {
            offer(&run, first..index);
        }
        let is_new = run.iter().all(String::is_empty);
        match texts.as_ref().and_then(|texts| joined(&run, texts)) {
            // An optional start gives no information.
            Some(_) if is_new && may_be_empty => first = index + 1,
            Some(longer) => run = longer,
            None => {
                offer(&run, first..index);
                if texts.is_none() {
                    let steps = index..index + 1;
                    let found = rarest(&step.part, &around.of_steps(row, steps.clone()));
                    within.extend(found.map(|found| (steps, found)));
                }
                first = index + usize::from(texts.is_none());
                run = texts.unwrap_or_else(|| vec![String::new()]);
            }
        }
    }
    offer(&run, first..row.len());
    offers.extend(within);
    offers
}

/// Returns the literals with their cost, if all are worth a search.
fn priced<'t>(texts: &[String], around: &Around<'t>, bytes_min: usize) -> Option<Priced<'t>> {
    let is_short = |text: &String| {
        let is_of_signs = text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric());
        let bytes_min = if is_of_signs { SIGNS_MIN } else { bytes_min };
        text.len() < bytes_min || text.starts_with('^')
    };
    if texts.iter().any(is_short) {
        return None;
    }
    let cost = |text: &String| {
        let is_ordinary = ORDINARY.contains(&text.trim());
        commonness(text) + if is_ordinary { ORDINARY_COST } else { 0 }
    };
    let found = texts.iter().map(|literal| (literal.clone(), around.clone()));
    Some((texts.iter().map(cost).sum::<u64>() * around.window() / WIDE as u64, found.collect()))
}

/// Returns all texts that a part matches, in lower case, if they are few.
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

#[cfg(test)]
mod tests {
    use crate::pack::compile::TextForm;
    use crate::pack::expression::plain_of;

    use super::*;

    #[track_caller]
    fn check(pattern: &str, begin: Begin, opening: &[&str], not: &[&str]) {
        let tree = ExpressionTree::of(&plain_of(pattern, TextForm::AsIs).unwrap(), true);
        let found = openers(&tree, &[], begin);
        let opens = |text: &&&str| {
            found[0].iter().any(|opener| {
                let places = memchr::memmem::find_iter(text.as_bytes(), &opener.literal);
                { places }.any(|at| opener.fits(text.as_bytes(), at))
            })
        };
        assert_eq!(opening.iter().find(|text| !opens(text)), None, "{pattern}");
        assert_eq!(not.iter().find(opens), None, "{pattern}");
    }

    #[test]
    fn bytes_beside_a_literal_tell_most_that_no_match_has() {
        let any = Begin::Anywhere;
        check("failed(?:: |, )", any, &["it failed: x", "failed, x"], &["failed ", "failed:x"]);
        check(r"\d ?failed", any, &["2 failed", "x2failed"], &["-failed", "failed"]);
        check(r"failed\b", any, &["failed", "failed.", "failedé"], &["failedly"]);
        check("(?:a|bc)failed(?:x?y){2,5}z", any, &["bcfailedxyxyz"], &["bfailedxy", "afailedxz"]);
        check(
            "failed[ .]{0,8}$",
            any,
            &["failed", "failed .."],
            &["failed x", "failed .. ...... "],
        );
    }

    #[test]
    fn literal_that_tells_where_matches_begin_comes_first() {
        let pattern = r"please [a-z ]*\b(?:retry|try again)\b[^\n]{0,60}$";
        let tree = ExpressionTree::of(&plain_of(pattern, TextForm::AsIs).unwrap(), true);
        let both = openers(&tree, &[], Begin::Anywhere);
        let both = both.map(|all| all.into_iter().map(|it| it.literal).collect::<Vec<_>>());
        assert_eq!(both, [vec!["please "], vec!["retry", "try again"]]);
    }

    #[test]
    fn an_expression_that_begins_with_a_line_has_nothing_of_it_before_its_literal() {
        check("(?:an )?failed", Begin::Text, &["failed", "an failed"], &["x failed", "\nfailed"]);
        check("(?:an )?failed", Begin::Line, &["failed", "x\nan failed"], &["xfailed"]);
        check("[ >]{0,4}failed", Begin::Line, &["x\n>> failed"], &["xfailed"]);
    }
}
