//! Gates: the detectors that a text can hit at all.
//!
//! In: a text and its profile. Out: the anchors that occur and the detectors that they open. One
//! pass finds all anchors of `needs` with their offsets; those of `also_needs` are searched only
//! around related `needs`. A detector whose matches are near its anchors runs only in windows
//! around them.

use std::ops::Range;
use std::sync::Arc;

use super::super::limits::DETECTORS_MAX;
use super::profile::Profile;
use super::sieve::{Anchors, Hits, NONE, PLACES_USUAL, Sieve};
use crate::pack::compile::{Detector, meet};
use crate::pack::match_bounds::MatchBounds;
use crate::pack::opening::ahead::Ahead;

/// Set of detectors; bit `n` is detector `n`.
pub(crate) type Set = [u64; DETECTORS_MAX / 64];

/// Gates of all detectors of a pack.
pub(crate) struct Gates {
    /// Sieve of ASCII anchors of `needs`.
    ascii: Sieve,
    /// Sieve of the others, which ASCII texts cannot have.
    wide: Sieve,
    /// Sieve of the anchors of `also_needs`.
    also: Sieve,
    /// Anchors without which those of `also` do not matter.
    asking: Anchors,
    /// Detectors with `also_needs` beside `needs`.
    asks: Set,
    /// Detectors of each anchor.
    by_anchor: Vec<Set>,
    /// Match bounds of detectors around each anchor.
    reaches: Vec<Vec<Literal>>,
    /// Bytes of each anchor.
    lengths: Vec<u16>,
    /// Detectors whose match bounds are known.
    windowed: Set,
    unanchored: Unanchored,
    /// Anchors of detectors that also read leetspeak and encodings.
    obfuscated: Anchors,
}

/// Anchor as a literal of a detector.
#[derive(Clone)]
struct Literal {
    detector: u16,
    bytes: u16,
    /// Match bounds around it.
    reach: MatchBounds,
    /// Possible bytes after it in a match.
    ahead: Arc<Ahead>,
}

impl Literal {
    /// Returns true if a match may continue with the bytes after the literal.
    fn may_go_on(&self, text: &[u8], at: u32) -> bool {
        self.ahead.fits(text, at as usize + usize::from(self.bytes))
    }
}

/// Occurrence of a windowed detector's literal in a text.
pub(crate) struct LiteralPlace {
    pub(crate) detector: u16,
    /// Offset of its first byte.
    pub(crate) at: u32,
    /// Match bounds around it.
    pub(crate) reach: MatchBounds,
}

/// Detectors without anchors, by their other conditions.
#[derive(Default)]
struct Unanchored {
    digits: Set,
    at_sign: Set,
    long_token: Set,
    /// Detectors opened by a byte beyond ASCII, whatever their other conditions.
    non_ascii: Set,
    nothing: Set,
}

impl Gates {
    /// Compiles the gates of these detectors, which reference `anchors` by number.
    pub(crate) fn new(detectors: &[Arc<Detector>], anchors: &[String]) -> Self {
        let mut main = NONE;
        let mut also = NONE;
        for gate in detectors.iter().map(|detector| &detector.gate) {
            match (gate.needs.as_deref(), gate.also_needs.as_deref()) {
                (Some(needs), Some(asked)) => {
                    add(&mut main, needs);
                    add(&mut also, asked);
                }
                (needs, asked) => {
                    needs.into_iter().chain(asked).for_each(|mask| add(&mut main, mask));
                }
            }
        }
        let is_in = |set: &Anchors, index: usize| set[index / 64] >> (index % 64) & 1 == 1;
        let mut gates = Self {
            ascii: Sieve::new(anchors, true, |index| is_in(&main, index)),
            wide: Sieve::new(anchors, false, |index| {
                is_in(&main, index) && !anchors[index].is_ascii()
            }),
            also: Sieve::new(anchors, false, |index| is_in(&also, index)),
            asking: NONE,
            asks: Set::default(),
            by_anchor: vec![Set::default(); anchors.len()],
            reaches: vec![Vec::new(); anchors.len()],
            lengths: anchors
                .iter()
                .map(|anchor| anchor.trim_start_matches('^').len() as u16)
                .collect(),
            windowed: Set::default(),
            unanchored: Unanchored::default(),
            obfuscated: NONE,
        };
        for (index, detector) in detectors.iter().enumerate() {
            gates.enter(index, detector);
        }
        gates
    }

    fn enter(&mut self, index: usize, detector: &Detector) {
        let gate = &detector.gate;
        if gate.or_non_ascii {
            self.unanchored.non_ascii[index / 64] |= 1 << (index % 64);
        }
        let Some(needs) = gate.needs.as_deref() else {
            let set = match (gate.digits, gate.at_sign, gate.long_token) {
                (true, _, _) => &mut self.unanchored.digits,
                (_, true, _) => &mut self.unanchored.at_sign,
                (_, _, true) => &mut self.unanchored.long_token,
                _ => &mut self.unanchored.nothing,
            };
            set[index / 64] |= 1 << (index % 64);
            return;
        };
        if !detector.reaches.is_empty() {
            self.windowed[index / 64] |= 1 << (index % 64);
        }
        for (anchor, reach, ahead) in &detector.reaches {
            let anchor = usize::from(*anchor);
            let bytes = self.lengths[anchor];
            let ahead = Arc::clone(ahead);
            let literal = Literal { detector: index as u16, bytes, reach: *reach, ahead };
            self.reaches[anchor].push(literal);
        }
        for anchor in members(needs) {
            self.by_anchor[anchor][index / 64] |= 1 << (index % 64);
        }
        if gate.also_needs.is_some() {
            add(&mut self.asking, needs);
            self.asks[index / 64] |= 1 << (index % 64);
        }
        if detector.obfuscated {
            add(&mut self.obfuscated, needs);
        }
    }

    /// Returns the anchors that occur in a text.
    pub(crate) fn anchors(&self, text: &[u8], profile: &Profile) -> Hits {
        let mut hits = Hits::default();
        self.find(text, 0..text.len(), profile.top, &mut hits);
        hits
    }

    /// Adds the anchors of `needs` in a part of a text without bytes above `top`.
    fn find(&self, text: &[u8], part: Range<usize>, top: u8, hits: &mut Hits) {
        self.ascii.find(text, part.clone(), top, hits);
        if top > 0x7f {
            self.wide.find(text, part, top, hits);
        }
    }

    /// Adds the anchors of a text in another case.
    pub(crate) fn add_anchors(&self, text: &[u8], anchors: &mut Anchors) {
        let mut hits = Hits::default();
        self.find(text, 0..text.len(), u8::MAX, &mut hits);
        self.also.find(text, 0..text.len(), u8::MAX, &mut hits);
        add(anchors, &hits.set);
    }

    /// Returns the anchors of decoded parts of a text, if they open a detector that reads these.
    pub(crate) fn obfuscated_anchors(&self, text: &[u8], parts: &[Range<usize>]) -> Option<Hits> {
        let mut hits = Hits::default();
        for part in parts {
            self.find(text, part.clone(), u8::MAX, &mut hits);
        }
        meet(&hits.set, &self.obfuscated).then_some(hits)
    }

    /// Adds the anchors of `also_needs`, which matter only near an occurrence of related `needs`:
    /// in these parts of a text, or anywhere for a detector without `needs`.
    pub(crate) fn add_asked(
        &self,
        text: &[u8],
        parts: impl Iterator<Item = (u16, Range<usize>)>,
        hits: &mut Hits,
    ) {
        if hits.places.is_empty() {
            return;
        }
        let everywhere = meet(&hits.set, &self.asking)
            && members(&hits.set).any(|anchor| {
                self.asking[anchor / 64] >> (anchor % 64) & 1 == 1
                    && members(&self.by_anchor[anchor])
                        .any(|index| is_in(&self.asks, index) && !self.is_windowed(index))
            });
        if everywhere {
            return self.also.find(text, 0..text.len(), u8::MAX, hits);
        }
        let asked = parts.filter(|(index, _)| is_in(&self.asks, usize::from(*index)));
        let mut parts: Vec<Range<usize>> = asked.map(|(_, part)| part).collect();
        parts.sort_unstable_by_key(|part| part.start);
        for part in merged(parts.into_iter()) {
            self.also.find(text, part, u8::MAX, hits);
        }
    }

    /// Returns true if a detector runs only in its windows.
    pub(crate) fn is_windowed(&self, index: usize) -> bool {
        is_in(&self.windowed, index)
    }

    /// Returns the occurrences of literals of windowed detectors that `is_asked` accepts, by
    /// detector and offset; at most `most` and one more.
    pub(crate) fn places(
        &self,
        text: &[u8],
        hits: &Hits,
        most: usize,
        is_asked: impl Fn(usize) -> bool,
    ) -> Vec<LiteralPlace> {
        let mut all = Vec::with_capacity(PLACES_USUAL.min(hits.places.len() * 2));
        'text: for &(anchor, at) in &hits.places {
            for literal in &self.reaches[usize::from(anchor)] {
                let detector = literal.detector;
                if all.len() > most {
                    break 'text;
                }
                if literal.may_go_on(text, at) && is_asked(usize::from(detector)) {
                    all.push(LiteralPlace { detector, at, reach: literal.reach });
                }
            }
        }
        all.sort_unstable_by_key(|place| (place.detector, place.at));
        all
    }

    /// Returns true if a text without anchors opens no detector.
    pub(crate) fn is_shut(&self, profile: &Profile) -> bool {
        self.unanchored(profile) == Set::default()
    }

    /// Returns the detectors that a text opens without anchors.
    fn unanchored(&self, profile: &Profile) -> Set {
        let mut open = self.unanchored.nothing;
        for (needed, more) in [
            (!profile.digits.is_empty(), &self.unanchored.digits),
            (profile.at_sign, &self.unanchored.at_sign),
            (profile.long_token, &self.unanchored.long_token),
            (profile.non_ascii(), &self.unanchored.non_ascii),
        ] {
            if needed {
                unite(&mut open, more);
            }
        }
        open
    }

    /// Returns the detectors without windows that these anchors, or none, may open.
    pub(crate) fn candidates(&self, anchors: &Anchors, profile: &Profile) -> Set {
        let mut candidates = self.unanchored(profile);
        members(anchors).for_each(|anchor| unite(&mut candidates, &self.by_anchor[anchor]));
        candidates.iter_mut().zip(&self.windowed).for_each(|(a, b)| *a &= !b);
        candidates
    }
}

fn unite(all: &mut Set, more: &Set) {
    all.iter_mut().zip(more).for_each(|(all, more)| *all |= more);
}

/// Returns true if a set has a detector.
pub(crate) fn is_in(set: &Set, index: usize) -> bool {
    set[index / 64] >> (index % 64) & 1 == 1
}

/// Merges sorted ranges that touch or overlap.
fn merged(ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

fn add(all: &mut Anchors, found: &Anchors) {
    all.iter_mut().zip(found).for_each(|(all, found)| *all |= found);
}

/// Returns the indices of set bits, in order.
pub(crate) fn members(set: &[u64]) -> impl Iterator<Item = usize> {
    let words = set.iter().enumerate().filter(|(_, word)| **word != 0);
    words.flat_map(|(index, &word)| {
        let rest = std::iter::successors(Some(word), |&word| {
            let rest = word & (word - 1);
            (rest != 0).then_some(rest)
        });
        rest.map(move |word| index * 64 + word.trailing_zeros() as usize)
    })
}
