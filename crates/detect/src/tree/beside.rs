//! Bytes beside a place: a cheap test before an expression runs there.
//!
//! A literal alone is ordinary in logs, but few occurrences of `error` precede a colon or follow a
//! digit. The parts of an expression around a literal, or from a place on, give the possible bytes
//! at each of the next offsets on both sides, and the possible ends of the text.

use std::rc::Rc;

use super::{AsciiSet, CAPITALS, ExpressionTree, TO_SMALL, TreeStep, bit, has, is_of_word};
use crate::pack::opening::ahead::OF_WORD;
use regex_syntax::hir::Look;

/// Anchor of an expression's matches.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Begin {
    Text,
    Line,
    Anywhere,
}

/// Number of tested bytes on each side.
const PLACES: usize = 4;
/// Set of the offsets on a side, one bit each.
type PlaceBits = u8;
/// Offset next to the literal.
const NEXT: PlaceBits = 1;
/// The same after a word edge at the literal's end.
const NEXT_AT_EDGE: PlaceBits = 1 << PLACES;

/// Parts of an expression beside one of its parts, nearest first; anything may follow them.
pub(crate) type PartsBeyond<'t> = Option<Rc<BesideParts<'t>>>;

/// Consecutive parts, and those beyond.
pub(crate) struct BesideParts<'t> {
    pub(crate) steps: &'t [TreeStep],
    pub(crate) beyond: PartsBeyond<'t>,
}

/// Side of a literal.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Side {
    Before,
    Behind,
}

/// Sets of possible ASCII bytes in lower case per offset on a side; other bytes are always
/// possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SideBytes {
    pub(super) sets: [AsciiSet; PLACES],
    /// Offsets at which the text may end.
    ends: PlaceBits,
}

impl SideBytes {
    /// Accepts any bytes.
    pub(crate) const ANY: Self = Self { sets: [AsciiSet::MAX; PLACES], ends: PlaceBits::MAX };

    /// Computes the sets from the parts on a side of a literal, up to the anchor of the matches.
    pub(crate) fn of(literal: &[u8], side: Side, parts: &PartsBeyond<'_>, begin: Begin) -> Self {
        let next = if side == Side::Before { literal.first() } else { literal.last() };
        let mut walk = BesideWalk::new(side, next.map(|byte| is_of_word(*byte)));
        let mut places = NEXT;
        let mut beyond = parts;
        while let Some(parts) = beyond {
            places = walk.row(parts.steps, places);
            beyond = &parts.beyond;
        }
        walk.close(places, begin);
        walk.found
    }

    /// Computes the sets from the parts that begin at a place, with any byte before it.
    pub(super) fn of_start(parts: &[ExpressionTree]) -> Self {
        let mut walk = BesideWalk::new(Side::Behind, None);
        let places = parts.iter().fold(NEXT, |places, part| walk.part(part, places));
        walk.close(places, Begin::Anywhere);
        walk.found
    }

    /// Returns true if a byte is possible at the first offset.
    #[inline]
    pub(crate) fn may_begin(&self, byte: u8) -> bool {
        !byte.is_ascii() || has(self.sets[0], byte)
    }

    /// Returns true if the text may end at the first offset.
    #[inline]
    pub(super) fn may_be_empty(&self) -> bool {
        self.ends & 1 == 1
    }

    /// Adds the sets of another.
    pub(crate) fn widen(&mut self, other: &Self) {
        self.ends |= other.ends;
        for (set, other) in self.sets.iter_mut().zip(other.sets) {
            *set |= other;
        }
    }

    /// Returns true if these bytes, starting at the literal, are possible.
    #[inline]
    pub(crate) fn fit<'b>(&self, mut bytes: impl Iterator<Item = &'b u8>) -> bool {
        for (place, set) in self.sets.iter().enumerate() {
            match bytes.next() {
                Some(byte) if !byte.is_ascii() => return true,
                Some(byte) if !has(*set, *byte) => return false,
                Some(_) => {}
                None => return self.ends >> place & 1 == 1,
            }
        }
        true
    }
}

/// Walk over the parts on one side.
struct BesideWalk {
    side: Side,
    /// True if the literal has a word character at that end; `None` if unknown.
    is_word: Option<bool>,
    found: SideBytes,
}

impl BesideWalk {
    fn new(side: Side, is_word: Option<bool>) -> Self {
        Self { side, is_word, found: SideBytes { sets: [0; PLACES], ends: 0 } }
    }

    /// Walks over consecutive parts from these offsets; returns the offsets after them.
    fn row(&mut self, steps: &[TreeStep], places: PlaceBits) -> PlaceBits {
        let side = self.side;
        let go = |places, step: &TreeStep| self.part(&step.part, places);
        match side {
            Side::Before => steps.iter().rev().fold(places, go),
            Side::Behind => steps.iter().fold(places, go),
        }
    }

    fn part(&mut self, part: &ExpressionTree, places: PlaceBits) -> PlaceBits {
        if places == 0 {
            return 0;
        }
        match part {
            ExpressionTree::Literal(bytes) => {
                let side = self.side;
                let next = |places, byte: &u8| self.byte(bit(*byte), places);
                match side {
                    Side::Before => bytes.iter().rev().fold(places, next),
                    Side::Behind => bytes.iter().fold(places, next),
                }
            }
            ExpressionTree::Class(class) => self.byte(class.ascii, places),
            ExpressionTree::Look(look) => self.look(*look, places),
            ExpressionTree::Group(_, part) => self.part(part, places),
            ExpressionTree::Row(steps) => self.row(steps, places),
            ExpressionTree::Either(parts, _) => {
                parts.iter().fold(0, |all, step| all | self.part(&step.part, places))
            }
            ExpressionTree::Repeat(repeat) => {
                let mut all = if repeat.min == 0 { places } else { 0 };
                let mut last = places;
                for count in 1..=repeat.max {
                    let next = self.part(&repeat.part, last);
                    // The rest may be empty if repeating it reaches no further offset. Offsets
                    // that stay end the walk, which doubles with each repetition within another.
                    let is_all = next == 0 || next == last || count > PLACES as u32;
                    last = next;
                    all |= if count >= repeat.min || is_all { last } else { 0 };
                    if is_all {
                        break;
                    }
                }
                all
            }
        }
    }

    /// Allows a byte set at these offsets; returns the offsets after it.
    fn byte(&mut self, set: AsciiSet, places: PlaceBits) -> PlaceBits {
        let set = set | (set & CAPITALS) << TO_SMALL;
        for (place, known) in self.found.sets.iter_mut().enumerate() {
            *known |= if places >> place & 1 == 1 { set } else { 0 };
        }
        if places & NEXT_AT_EDGE != 0 {
            self.found.sets[0] |= self.at_edge(set);
        }
        let edge = if places & NEXT_AT_EDGE == 0 { 0 } else { NEXT };
        (places & !NEXT_AT_EDGE | edge) << 1 & (NEXT_AT_EDGE - 1)
    }

    /// Returns those bytes of a set that form a word edge with the literal's end.
    fn at_edge(&self, set: AsciiSet) -> AsciiSet {
        match self.is_word {
            Some(true) => set & !OF_WORD,
            Some(false) => set & OF_WORD,
            None => set,
        }
    }

    fn look(&mut self, look: Look, places: PlaceBits) -> PlaceBits {
        match (look, self.side) {
            (Look::WordAscii, _) if places & NEXT != 0 => places & !NEXT | NEXT_AT_EDGE,
            (Look::Start, Side::Before) => self.over(places),
            (Look::End, Side::Behind) => self.over(places),
            _ => places,
        }
    }

    /// Allows the end of the text at these offsets.
    fn over(&mut self, places: PlaceBits) -> PlaceBits {
        let is_next = places & NEXT_AT_EDGE != 0 && self.is_word != Some(false);
        self.found.ends |= places & !NEXT_AT_EDGE | if is_next { NEXT } else { 0 };
        0
    }

    /// Ends the expression at these offsets.
    fn close(&mut self, places: PlaceBits, begin: Begin) {
        if begin == Begin::Text {
            self.over(places);
            return;
        }
        let set = if begin == Begin::Line { bit(b'\n') } else { AsciiSet::MAX };
        let beyond = self.byte(set, places);
        self.over(places);
        // Beyond the known parts anything is possible.
        let first = beyond.trailing_zeros().min(PLACES as u32);
        self.found.sets[first as usize..].fill(AsciiSet::MAX);
        self.found.ends |= PlaceBits::MAX << first;
    }
}
