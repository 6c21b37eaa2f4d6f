//! Expression trees: expressions that run on a few bytes of a text by backtracking.
//!
//! An automaton of a long expression takes longer to make than it saves on texts that are read
//! once, and a lazy one is made anew for each of them. A tree is made in microseconds and runs
//! where a literal of it stands. The bytes that each of its parts may begin with spare most steps;
//! [`steps_for`] bounds what a hostile text may cost.

use std::ops::Range;

use regex_automata::util::look::{self, LookMatcher};
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// Steps that a search may take, and more of them for each byte of its text.
const STEPS_MIN: usize = 1 << 14;
const STEPS_PER_BYTE: usize = 64;
/// Characters of a class that are read in one step.
const BYTES_PER_STEP: usize = 8;
/// Most parts of an expression within each other, repetitions counted.
const DEPTH_MAX: usize = 400;
/// Capital letters of ASCII, a bit each.
const CAPITALS: u128 = ((1 << 26) - 1) << b'A';
/// From a capital letter to its small one.
const TO_SMALL: u32 = 32;

/// Bytes of ASCII, a bit each.
type AsciiSet = u128;

/// A part of an expression.
pub(super) enum ExpressionTree {
    Literal(Vec<u8>),
    Class(CharClass),
    Look(Look),
    Repeat(Box<Repeat>),
    /// The first that leads to a match counts.
    Either(Vec<TreeStep>),
    /// Parts in a row; none for the empty expression.
    Row(Vec<TreeStep>),
}

/// A part of others, and what a match from it on begins with.
pub(super) struct TreeStep {
    pub(super) part: ExpressionTree,
    start: MatchStart,
}

/// Place where a match may begin.
#[derive(Clone, Copy)]
pub(super) struct MatchStart {
    /// Bytes of ASCII behind it; all where the match may be empty. Those beyond ASCII always may
    /// stand there.
    first: AsciiSet,
    /// True for the beginning or the end of a word.
    at_edge: bool,
}

impl MatchStart {
    /// Returns true if a match may begin at a place of a text.
    #[inline]
    pub(super) fn fits(self, text: &str, at: usize) -> bool {
        let text = text.as_bytes();
        let Some(&next) = text.get(at) else { return self.first == AsciiSet::MAX };
        let is_in = !next.is_ascii() || self.first >> next & 1 == 1;
        is_in && (!self.at_edge || at == 0 || is_of_word(next) != is_of_word(text[at - 1]))
    }
}

pub(super) struct Repeat {
    pub(super) part: ExpressionTree,
    pub(super) min: u32,
    pub(super) max: u32,
    greedy: bool,
}

/// A class of characters, or of bytes.
pub(super) struct CharClass {
    pub(super) ascii: AsciiSet,
    /// Ranges beyond ASCII.
    pub(super) beyond: Vec<(u32, u32)>,
    is_of_bytes: bool,
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

    /// Returns the bytes of the character at a place of a text, if it is one of these.
    fn bytes_at(&self, text: &str, at: usize) -> Option<usize> {
        let byte = *text.as_bytes().get(at)?;
        if byte.is_ascii() {
            return (self.ascii >> byte & 1 == 1).then_some(1);
        }
        let char = if self.is_of_bytes { None } else { Some(text.get(at..)?.chars().next()?) };
        let code = char.map_or(u32::from(byte), u32::from);
        let above = self.beyond.partition_point(|(_, to)| *to < code);
        let is_in = self.beyond.get(above).is_some_and(|(from, _)| *from <= code);
        is_in.then(|| char.map_or(1, char::len_utf8))
    }
}

impl ExpressionTree {
    /// Makes a tree; `in_small` for one that matches texts in small letters, whatever its case.
    pub(super) fn of(hir: &Hir, in_small: bool) -> Self {
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
            HirKind::Capture(capture) => Self::of(&capture.sub, in_small),
            HirKind::Alternation(parts) => {
                let step = |part: Self| TreeStep { start: part.start(), part };
                Self::Either(of_all(parts).into_iter().map(step).collect())
            }
            HirKind::Concat(parts) => Self::row(of_all(parts)),
        }
    }

    fn row(parts: Vec<Self>) -> Self {
        let mut steps = Vec::with_capacity(parts.len());
        let mut behind = (0, true);
        for part in parts.into_iter().rev() {
            let (first, may_be_empty) = part.first();
            behind = if may_be_empty { (first | behind.0, behind.1) } else { (first, false) };
            let first = if behind.1 { AsciiSet::MAX } else { behind.0 };
            let start = MatchStart { first, at_edge: part.is_at(Look::WordAscii) };
            steps.push(TreeStep { part, start });
        }
        steps.reverse();
        Self::Row(steps)
    }

    /// Returns the bytes that it begins with, and true if it may be empty.
    fn first(&self) -> (AsciiSet, bool) {
        match self {
            // Those beyond ASCII may always stand there.
            Self::Literal(bytes) => (bytes.first().map_or(0, |&byte| bit(byte)), bytes.is_empty()),
            Self::Class(class) => (class.ascii, false),
            Self::Look(_) => (0, true),
            Self::Repeat(repeat) => {
                let (first, may_be_empty) = repeat.part.first();
                (first, may_be_empty || repeat.min == 0)
            }
            Self::Either(parts) => {
                let each = parts.iter().map(|step| step.part.first());
                each.fold((0, false), |all, one| (all.0 | one.0, all.1 | one.1))
            }
            Self::Row(steps) => {
                let mut all = 0;
                for step in steps {
                    let (first, may_be_empty) = step.part.first();
                    all |= first;
                    if !may_be_empty {
                        return (all, false);
                    }
                }
                (all, true)
            }
        }
    }

    pub(super) fn start(&self) -> MatchStart {
        let (first, may_be_empty) = self.first();
        let first = if may_be_empty { AsciiSet::MAX } else { first };
        MatchStart { first, at_edge: self.is_at(Look::WordAscii) }
    }

    /// Splits it at its alternatives.
    pub(super) fn split(self) -> Vec<Self> {
        match self {
            Self::Either(parts) => parts.into_iter().flat_map(|step| step.part.split()).collect(),
            whole => vec![whole],
        }
    }

    /// Returns the end of the match that begins at a place of a text.
    pub(super) fn match_at(&self, text: &str, at: usize, steps_left: &mut usize) -> Option<usize> {
        let mut run = TreeRun { text, steps_left: *steps_left, depth: 0 };
        let mut found = None;
        run.part(self, at, &mut |_, end| {
            found = Some(end);
            true
        });
        *steps_left = run.steps_left;
        found
    }

    /// Returns the first match in a text.
    pub(super) fn find(&self, text: &str) -> Option<Range<usize>> {
        let start = self.start();
        let last = if self.is_at(Look::Start) { 0 } else { text.len() };
        let mut steps_left = steps_for(text);
        let mut places = (0..=last).filter(|at| start.fits(text, *at));
        places.find_map(|at| Some(at..self.match_at(text, at, &mut steps_left)?))
    }

    /// Returns true if a match begins where a text does.
    pub(super) fn begins(&self, text: &str) -> bool {
        self.match_at(text, 0, &mut steps_for(text)).is_some()
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.find(text).is_some()
    }

    /// Returns true if all matches begin with this.
    fn is_at(&self, look: Look) -> bool {
        match self {
            Self::Look(own) => *own == look,
            Self::Row(steps) => steps.first().is_some_and(|step| step.part.is_at(look)),
            Self::Either(parts) => parts.iter().all(|step| step.part.is_at(look)),
            _ => false,
        }
    }
}

/// Returns the steps that a search in a text may take.
pub(super) fn steps_for(text: &str) -> usize {
    STEPS_MIN + text.len() * STEPS_PER_BYTE
}

fn bit(byte: u8) -> AsciiSet {
    if byte.is_ascii() { 1 << byte } else { 0 }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// One search.
struct TreeRun<'t> {
    text: &'t str,
    steps_left: usize,
    depth: usize,
}

/// Continuation behind a part: true if the rest matches too.
type Then<'f, 't> = &'f mut dyn FnMut(&mut TreeRun<'t>, usize) -> bool;

impl<'t> TreeRun<'t> {
    fn spend(&mut self) -> bool {
        self.steps_left = self.steps_left.saturating_sub(1);
        self.steps_left > 0
    }

    fn part(&mut self, part: &ExpressionTree, at: usize, then: Then<'_, 't>) -> bool {
        if !self.spend() || self.depth > DEPTH_MAX {
            return false;
        }
        self.depth += 1;
        let matches = match part {
            ExpressionTree::Row(steps) => self.row(steps, at, then),
            ExpressionTree::Either(parts) => parts
                .iter()
                .any(|step| step.start.fits(self.text, at) && self.part(&step.part, at, then)),
            ExpressionTree::Repeat(repeat) => match &repeat.part {
                ExpressionTree::Class(class) if repeat.greedy => {
                    self.run_of(class, repeat, at, then)
                }
                _ => self.repeat(repeat, 0, at, then),
            },
            simple => self.simple(simple, at).is_some_and(|end| then(self, end)),
        };
        self.depth -= 1;
        matches
    }

    fn row(&mut self, mut steps: &[TreeStep], mut at: usize, then: Then<'_, 't>) -> bool {
        while let [step, rest @ ..] = steps {
            if !step.start.fits(self.text, at) {
                return false;
            }
            if matches!(
                step.part,
                ExpressionTree::Row(_) | ExpressionTree::Either(_) | ExpressionTree::Repeat(_)
            ) {
                return self.part(&step.part, at, &mut |run, end| run.row(rest, end, then));
            }
            let Some(end) = self.simple(&step.part, at) else { return false };
            at = end;
            steps = rest;
        }
        then(self, at)
    }

    /// Returns the end of a part that can match in one way only.
    fn simple(&self, part: &ExpressionTree, at: usize) -> Option<usize> {
        match part {
            ExpressionTree::Literal(bytes) => {
                let there = self.text.as_bytes().get(at..)?;
                there.starts_with(bytes).then_some(at + bytes.len())
            }
            ExpressionTree::Class(class) => class.bytes_at(self.text, at).map(|bytes| at + bytes),
            ExpressionTree::Look(look) => {
                let look = look::Look::from_repr(look.as_repr())?;
                let bytes = self.text.as_bytes();
                LookMatcher::new().matches(look, bytes, at).then_some(at)
            }
            ExpressionTree::Row(_) | ExpressionTree::Either(_) | ExpressionTree::Repeat(_) => None,
        }
    }

    /// Matches as many characters of a class as there are, and fewer where the rest asks for them.
    fn run_of(
        &mut self,
        class: &CharClass,
        repeat: &Repeat,
        at: usize,
        then: Then<'_, 't>,
    ) -> bool {
        let mut end = at;
        let mut count = 0;
        while count < repeat.max
            && let Some(bytes) = class.bytes_at(self.text, end)
        {
            end += bytes;
            count += 1;
        }
        self.steps_left = self.steps_left.saturating_sub((end - at) / BYTES_PER_STEP);
        while count >= repeat.min && self.spend() {
            if then(self, end) {
                return true;
            }
            if count == 0 {
                return false;
            }
            count -= 1;
            end -= 1;
            while !class.is_of_bytes && !self.text.is_char_boundary(end) {
                end -= 1;
            }
        }
        false
    }

    fn repeat(&mut self, repeat: &Repeat, count: u32, at: usize, then: Then<'_, 't>) -> bool {
        let is_enough = count >= repeat.min;
        if is_enough && !repeat.greedy && then(self, at) {
            return true;
        }
        let again = count < repeat.max
            && self.part(&repeat.part, at, &mut |run, end| {
                (end > at || !is_enough) && run.repeat(repeat, count + 1, end, then)
            });
        again || is_enough && repeat.greedy && then(self, at)
    }
}
