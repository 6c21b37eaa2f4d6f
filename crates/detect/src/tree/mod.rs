//! Expression trees: backtracking matchers for a few bytes of a text.
//!
//! Building an automaton for a long expression takes longer than it saves on a text that is read
//! once, and a lazy one starts anew for each text. A tree is built in microseconds and runs at
//! occurrences of its literals. The possible first bytes of each part avoid most steps. A search
//! reports when its steps are used up, which bounds the cost of a hostile text.

pub(crate) mod beside;
mod run;
mod search;

use std::ops::RangeInclusive;

use regex_syntax::hir::{Class, Hir, HirKind, Look};

use self::beside::SideBytes;
pub(crate) use self::run::TreeMatch;
use self::run::TreeRun;
pub(crate) use self::search::{SearchTree, places_of};
use crate::pack::opening::ahead::{AHEAD, Ahead};

/// Base steps of a search; further steps are added per byte of its text.
const STEPS_MIN: usize = 1 << 14;
const STEPS_PER_BYTE: usize = 64;
/// Number of alternatives from which they are looked up by first byte.
const FEW_ALTERNATIVES: usize = 6;
/// Set of ASCII capital letters.
pub(crate) const CAPITALS: u128 = ((1 << 26) - 1) << b'A';
/// Distance from a capital letter to its lower case.
pub(crate) const TO_SMALL: u32 = 32;

/// Set of ASCII bytes, one bit each.
pub(crate) type AsciiSet = u128;

/// Part of an expression.
pub(crate) enum ExpressionTree {
    Literal(Vec<u8>),
    Class(CharClass),
    Look(Look),
    Repeat(Box<Repeat>),
    /// Group with its number.
    Group(u32, Box<ExpressionTree>),
    /// Alternatives; the first that leads to a match counts.
    Either(Vec<TreeStep>, Option<Box<ByFirst>>),
    /// Consecutive parts; none for the empty expression.
    Row(Vec<TreeStep>),
}

/// Part of a sequence, with the possible starts of the rest.
pub(crate) struct TreeStep {
    pub(crate) part: ExpressionTree,
    start: MatchStart,
}

/// Conditions on the place where a match begins.
#[derive(Clone, Copy)]
pub(crate) struct MatchStart {
    /// Possible first bytes. The second halves the parts that are tried in real results.
    bytes: SideBytes,
    /// True at the beginning or the end of a word.
    at_edge: bool,
    /// Greatest distance to the end of the text; unbounded for a match that may end before it.
    to_end: u32,
}

impl MatchStart {
    /// Returns those of a match of consecutive parts.
    fn of(parts: &[ExpressionTree], to_end: u32) -> Self {
        let at_edge = parts.first().is_some_and(|part| part.is_at(Look::WordAscii));
        Self { bytes: SideBytes::of_start(parts), at_edge, to_end }
    }

    /// Returns true if a match may begin at an offset of a text.
    #[inline]
    pub(crate) fn fits(&self, text: &[u8], at: usize) -> bool {
        let next = text.get(at);
        next.map_or(self.bytes.may_be_empty(), |byte| self.bytes.may_begin(*byte))
            && self.fits_further(text, at)
    }

    /// Most places fail at the first byte, which is tested in line.
    #[inline(never)]
    fn fits_further(&self, text: &[u8], at: usize) -> bool {
        let is_edge = |next: &u8| at == 0 || is_of_word(*next) != is_of_word(text[at - 1]);
        text.get(at..).is_some_and(|rest| {
            rest.len() <= self.to_end as usize
                && (!self.at_edge || rest.first().is_none_or(is_edge))
                && self.bytes.fit(rest.iter())
        })
    }
}

/// Alternatives by their possible first ASCII byte, in order.
pub(crate) struct ByFirst {
    ends: [u16; 0x81],
    alternatives: Vec<u16>,
}

impl ByFirst {
    fn of(steps: &[TreeStep]) -> Option<Box<Self>> {
        if !(FEW_ALTERNATIVES..usize::from(u16::MAX) / 0x80).contains(&steps.len()) {
            return None;
        }
        let mut by_first = Self { ends: [0; 0x81], alternatives: Vec::new() };
        for byte in 0..0x80 {
            let begin = |(index, step): (u16, &TreeStep)| {
                step.start.bytes.may_begin(byte as u8).then_some(index)
            };
            by_first.alternatives.extend((0..).zip(steps).filter_map(begin));
            by_first.ends[byte + 1] = by_first.alternatives.len() as u16;
        }
        Some(Box::new(by_first))
    }

    /// Returns those that may begin at an offset of a text; `None` for all.
    fn at(&self, text: &[u8], at: usize) -> Option<&[u16]> {
        let byte = usize::from(*text.get(at)?);
        let end = *self.ends.get(byte + 1)?;
        self.alternatives.get(usize::from(self.ends[byte])..usize::from(end))
    }
}

pub(crate) struct Repeat {
    pub(crate) part: ExpressionTree,
    pub(crate) min: u32,
    pub(crate) max: u32,
    greedy: bool,
}

impl Repeat {
    /// Returns the class of a greedy repetition of one.
    fn class(&self) -> Option<&CharClass> {
        match &self.part {
            ExpressionTree::Class(class) if self.greedy => Some(class),
            _ => None,
        }
    }
}

/// Class of characters, or of bytes.
pub(crate) struct CharClass {
    pub(crate) ascii: AsciiSet,
    /// Ranges beyond ASCII.
    pub(crate) beyond: Vec<(u32, u32)>,
    pub(crate) is_of_bytes: bool,
}

impl CharClass {
    fn of(class: &Class, in_small: bool) -> Self {
        let (ranges, most, is_of_bytes): (Vec<(u32, u32)>, _, _) = match class {
            Class::Unicode(class) => {
                let ranges = class.iter().map(|it| (it.start().into(), it.end().into()));
                (ranges.collect(), u32::from(char::MAX), false)
            }
            Class::Bytes(class) => {
                let ranges = class.iter().map(|it| (it.start().into(), it.end().into()));
                (ranges.collect(), u32::from(u8::MAX), true)
            }
        };
        let mut ascii = 0;
        for byte in ranges.iter().flat_map(|&(from, to)| from..=to.min(0x7f)) {
            ascii |= 1 << byte;
        }
        if in_small {
            // A class of all but some letters has neither form of each.
            let is_negated = ranges.last().is_some_and(|(_, to)| *to == most);
            let small = (ascii & CAPITALS) << TO_SMALL;
            let letters = CAPITALS << TO_SMALL;
            ascii = if is_negated { ascii & (small | !letters) } else { ascii | small };
        }
        let beyond = ranges.into_iter().filter(|(_, to)| *to > 0x7f).collect();
        Self { ascii, beyond, is_of_bytes }
    }

    /// Returns the length of the character at an offset, if it is in the class.
    #[inline]
    fn bytes_at(&self, text: &[u8], at: usize) -> Option<usize> {
        let byte = *text.get(at)?;
        if byte.is_ascii() {
            return has(self.ascii, byte).then_some(1);
        }
        let char = if self.is_of_bytes { None } else { Some(char_at(text, at)?) };
        let code = char.map_or(u32::from(byte), u32::from);
        let above = self.beyond.partition_point(|(_, to)| *to < code);
        let is_in = self.beyond.get(above).is_some_and(|(from, _)| *from <= code);
        is_in.then(|| char.map_or(1, char::len_utf8))
    }
}

impl ExpressionTree {
    /// Builds a tree; `in_small` for matching lower-case texts case-insensitively.
    pub(crate) fn of(hir: &Hir, in_small: bool) -> Self {
        let of_all = |parts: &[Hir]| -> Vec<Self> {
            parts.iter().map(|part| Self::of(part, in_small)).collect()
        };
        match hir.kind() {
            HirKind::Empty => Self::Row(Vec::new()),
            HirKind::Literal(literal) => Self::Literal(match std::str::from_utf8(&literal.0) {
                Ok(text) if in_small => text.to_lowercase().into_bytes(),
                _ => literal.0.to_vec(),
            }),
            HirKind::Class(class) => Self::Class(CharClass::of(class, in_small)),
            HirKind::Look(look) => Self::Look(*look),
            HirKind::Repetition(repetition) => Self::Repeat(Box::new(Repeat {
                part: Self::of(&repetition.sub, in_small),
                min: repetition.min,
                max: repetition.max.unwrap_or(u32::MAX),
                greedy: repetition.greedy,
            })),
            HirKind::Capture(capture) => {
                Self::Group(capture.index, Box::new(Self::of(&capture.sub, in_small)))
            }
            HirKind::Alternation(parts) => {
                let step = |part: Self| TreeStep { start: part.start(), part };
                let steps: Vec<TreeStep> = of_all(parts).into_iter().map(step).collect();
                let by_first = ByFirst::of(&steps);
                Self::Either(steps, by_first)
            }
            HirKind::Concat(parts) => Self::row(of_all(parts)),
        }
    }

    fn row(parts: Vec<Self>) -> Self {
        let mut to_end = u32::MAX;
        let mut starts = Vec::with_capacity(parts.len());
        for (at, part) in parts.iter().enumerate().rev() {
            if to_end < u32::MAX || part.is_to_end() {
                let beyond = if part.is_to_end() { 0 } else { to_end };
                to_end = beyond.saturating_add(part.bytes_max());
            }
            starts.push(MatchStart::of(&parts[at..], to_end));
        }
        let starts = starts.into_iter().rev();
        Self::Row(
            parts.into_iter().zip(starts).map(|(part, start)| TreeStep { part, start }).collect(),
        )
    }

    pub(crate) fn start(&self) -> MatchStart {
        let to_end = if self.is_to_end() { self.bytes_max() } else { u32::MAX };
        MatchStart::of(std::slice::from_ref(self), to_end)
    }

    /// Returns the greatest length of a match, bytes.
    fn bytes_max(&self) -> u32 {
        u32::try_from(self.most(&Self::leaf_bytes)).unwrap_or(u32::MAX)
    }

    /// Returns the greatest length of a literal, a class or an assertion, bytes.
    pub(crate) fn leaf_bytes(&self) -> usize {
        match self {
            Self::Literal(bytes) => bytes.len(),
            Self::Class(class) if class.is_of_bytes || class.beyond.is_empty() => 1,
            Self::Class(_) => char::MAX_LEN_UTF8,
            _ => 0,
        }
    }

    /// Returns the greatest amount of something in a match; `leaf` gives it for literals, classes
    /// and assertions.
    pub(crate) fn most(&self, leaf: &impl Fn(&Self) -> usize) -> usize {
        match self {
            Self::Literal(_) | Self::Class(_) | Self::Look(_) => leaf(self),
            Self::Repeat(repeat) => repeat.part.most(leaf).saturating_mul(repeat.max as usize),
            Self::Either(parts, _) => {
                parts.iter().map(|step| step.part.most(leaf)).max().unwrap_or_default()
            }
            Self::Row(steps) => {
                steps.iter().fold(0, |sum, step| step.part.most(leaf).saturating_add(sum))
            }
            Self::Group(_, part) => part.most(leaf),
        }
    }

    /// Returns the end of the match that begins at an offset of a text.
    pub(crate) fn match_at(&self, text: &[u8], at: usize, steps_left: &mut usize) -> Option<usize> {
        let mut run = TreeRun::of(text, text.len(), *steps_left);
        let found = run.match_at(self, at);
        *steps_left = run.steps_left;
        found.map(|found| found.whole.end)
    }

    /// Returns the literal prefix of matches.
    fn lead(&self) -> Option<&[u8]> {
        match self {
            Self::Literal(bytes) => Some(bytes),
            Self::Row(steps) => {
                let mut parts = steps.iter().map(|step| &step.part);
                parts.find(|part| !matches!(part, Self::Look(Look::WordAscii)))?.lead()
            }
            Self::Group(_, part) => part.lead(),
            _ => None,
        }
    }

    /// Returns true if all matches end with the text.
    pub(crate) fn is_to_end(&self) -> bool {
        match self {
            Self::Look(look) => *look == Look::End,
            Self::Row(steps) => steps.last().is_some_and(|step| step.part.is_to_end()),
            Self::Group(_, part) => part.is_to_end(),
            Self::Either(parts, _) => parts.iter().all(|step| step.part.is_to_end()),
            _ => false,
        }
    }

    /// Returns true if all matches begin with this assertion.
    pub(crate) fn is_at(&self, look: Look) -> bool {
        match self {
            Self::Look(own) => *own == look,
            Self::Row(steps) => steps.first().is_some_and(|step| step.part.is_at(look)),
            Self::Group(_, part) => part.is_at(look),
            Self::Either(parts, _) => parts.iter().all(|step| step.part.is_at(look)),
            _ => false,
        }
    }
}

/// Splits an expression at its alternatives, also between class repetitions: more is known of each
/// one than of all together.
pub(crate) fn alternatives(hir: &Hir) -> Vec<Hir> {
    match hir.kind() {
        HirKind::Alternation(parts) => parts.iter().flat_map(alternatives).collect(),
        HirKind::Capture(capture) => alternatives(&capture.sub),
        HirKind::Concat(row) => {
            let mut others = row.iter().enumerate().filter(|(_, part)| !is_run(part));
            let (Some((at, part)), None) = (others.next(), others.next()) else {
                return vec![hir.clone()];
            };
            let with = |part: &Hir| {
                Hir::concat([&row[..at], std::slice::from_ref(part), &row[at + 1..]].concat())
            };
            alternatives(part).iter().map(with).collect()
        }
        _ => vec![hir.clone()],
    }
}

/// Returns true for a repeated class, or an assertion.
fn is_run(part: &Hir) -> bool {
    match part.kind() {
        HirKind::Repetition(repetition) => matches!(repetition.sub.kind(), HirKind::Class(_)),
        HirKind::Look(_) => true,
        _ => false,
    }
}

/// Returns the step limit of a search in a text.
pub(crate) fn steps_for(text: &[u8]) -> usize {
    STEPS_MIN + text.len() * STEPS_PER_BYTE
}

/// Returns true if a set has an ASCII byte: by halves, since shifts of 128 bits are slow.
#[inline]
pub(crate) fn has(set: AsciiSet, byte: u8) -> bool {
    let half = if byte < 64 { set as u64 } else { (set >> 64) as u64 };
    half >> (byte % 64) & 1 == 1
}

pub(crate) fn bit(byte: u8) -> AsciiSet {
    if byte.is_ascii() { 1 << byte } else { 0 }
}

pub(crate) fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the character at an offset of a text.
fn char_at(text: &[u8], at: usize) -> Option<char> {
    let rest = text.get(at..)?;
    let bytes = rest.first()?.leading_ones().max(1) as usize;
    std::str::from_utf8(rest.get(..bytes)?).ok()?.chars().next()
}

/// Tree with the possible first bytes of its matches.
pub(crate) struct PlacedTree {
    tree: ExpressionTree,
    /// For each byte, a bit per initial offset of a match where it is possible.
    stands: Box<[u8; 0x100]>,
    /// True if a match may be empty at the end of a text.
    may_be_empty: bool,
    at_edge: bool,
    /// Least length of a match, bytes.
    least: usize,
}

impl PlacedTree {
    /// Builds a tree; `in_small` for matching lower-case texts case-insensitively. Matches begin
    /// with `ahead`, except at the beginning of the text.
    pub(crate) fn of(hir: &Hir, in_small: bool, ahead: &Ahead) -> Self {
        let tree = ExpressionTree::of(hir, in_small);
        let MatchStart { bytes, at_edge, .. } = tree.start();
        let mut sets = ahead.0;
        sets.iter_mut().zip(bytes.sets).for_each(|(set, own)| *set &= own);
        let stands = |byte: usize| {
            let bit = |place: usize| byte > 0x7f || sets[place] >> byte & 1 == 1;
            (0..AHEAD).fold(0, |bits, place| bits | u8::from(bit(place)) << place)
        };
        Self {
            stands: Box::new(std::array::from_fn(stands)),
            may_be_empty: bytes.may_be_empty(),
            at_edge,
            least: hir.properties().minimum_len().unwrap_or_default(),
            tree,
        }
    }

    #[inline]
    fn may_begin(&self, text: &[u8], at: usize) -> bool {
        let Some(&byte) = text.get(at) else { return self.may_be_empty || at == 0 };
        at == 0 || self.stands[usize::from(byte)] & 1 == 1 && self.may_go_on(text, at)
    }

    /// Returns true if a match may begin at this offset by its first bytes.
    fn may_go_on(&self, text: &[u8], at: usize) -> bool {
        if self.at_edge && is_of_word(text[at]) == is_of_word(text[at - 1]) {
            return false;
        }
        let bytes = text[at..].iter().take(AHEAD).take_while(|byte| byte.is_ascii());
        bytes.zip(0..).all(|(byte, place)| self.stands[usize::from(*byte)] >> place & 1 == 1)
    }

    /// Returns the first match that begins at one of these offsets and ends by `end`; an error if
    /// out of steps.
    pub(crate) fn find(
        &self,
        text: &[u8],
        begins: RangeInclusive<usize>,
        end: usize,
        steps: usize,
    ) -> Result<Option<TreeMatch>, OutOfSteps> {
        let mut run = TreeRun::of(text, end, steps);
        let Some(last) = end.checked_sub(self.least) else { return Ok(None) };
        for at in *begins.start()..=last.min(*begins.end()) {
            if self.may_begin(text, at) {
                let found = run.match_at(&self.tree, at);
                if run.gave_up {
                    return Err(OutOfSteps);
                }
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }
}

/// Error of a search that ran out of steps.
#[derive(Debug)]
pub(crate) struct OutOfSteps;
