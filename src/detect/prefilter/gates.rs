//! Which detectors a text may hit at all.
//!
//! In go a text and its profile, out come the anchors that occur and the detectors that these open.
//! One pass finds all anchors of `needs`, with their places; those of `also_needs` are looked for
//! only around the `needs` beside them. A detector whose matches cannot stand far from its anchors
//! runs only in windows around them.

use std::ops::Range;

use super::super::limits::DETECTORS_MAX;
use super::profile::Profile;
use super::sieve::{Anchors, Hits, NONE, Sieve};
use crate::detect::pack::compile::{Detector, meet};
use crate::detect::pack::reach::Reach;

/// Some detectors; bit `n` stands for detector `n`.
pub(in crate::detect) type Set = [u64; DETECTORS_MAX / 64];

/// The gates of all detectors of a pack.
pub(in crate::detect) struct Gates {
    /// Looks for the anchors of `needs`.
    main: Sieve,
    /// The same for texts in ASCII.
    ascii_main: Sieve,
    /// Looks for the anchors of `also_needs`.
    also: Sieve,
    /// Anchors without which those of `also` do not matter.
    asking: Anchors,
    /// The detectors of each anchor.
    by_anchor: Vec<Set>,
    /// Where matches of detectors stand around each anchor.
    reaches: Vec<Vec<(u16, Reach)>>,
    /// The detectors whose reaches are known.
    windowed: Set,
    unanchored: Unanchored,
    /// Anchors of detectors that also look through digits put for letters and through encodings.
    obfuscated: Anchors,
}

/// Where detectors need to run: by detector and place, apart from each other.
pub(in crate::detect) type Windows = Vec<(u16, Range<usize>)>;

/// Detectors without anchors, by what else they need.
#[derive(Default)]
struct Unanchored {
    digits: Set,
    at_sign: Set,
    long_token: Set,
    /// Those that a byte beyond ASCII opens, whatever else they need.
    non_ascii: Set,
    nothing: Set,
}

impl Gates {
    /// Those of these detectors, whose gates name `anchors`.
    pub(in crate::detect) fn new(detectors: &[Detector], anchors: &[String]) -> Self {
        let (mut main, mut also) = (NONE, NONE);
        for Detector { gate, .. } in detectors {
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
        let sieve = |set: &Anchors, ascii| {
            Sieve::new(anchors, ascii, |index| set[index / 64] >> (index % 64) & 1 == 1)
        };
        let mut gates = Self {
            main: sieve(&main, false),
            ascii_main: sieve(&main, true),
            also: sieve(&also, false),
            asking: NONE,
            by_anchor: vec![Set::default(); anchors.len()],
            reaches: vec![Vec::new(); anchors.len()],
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
        for &(anchor, reach) in &detector.reaches {
            self.reaches[usize::from(anchor)].push((index as u16, reach));
        }
        for anchor in members(needs) {
            self.by_anchor[anchor][index / 64] |= 1 << (index % 64);
        }
        if gate.also_needs.is_some() {
            add(&mut self.asking, needs);
        }
        if detector.obfuscated {
            add(&mut self.obfuscated, needs);
        }
    }

    /// The anchors that occur in a text.
    pub(in crate::detect) fn anchors(&self, text: &[u8], profile: &Profile) -> Hits {
        let main = if profile.non_ascii() { &self.main } else { &self.ascii_main };
        let mut hits = Hits::default();
        main.find(text, 0..text.len(), profile.top, &mut hits);
        hits
    }

    /// Adds the anchors of a text in another case.
    pub(in crate::detect) fn add_anchors(&self, text: &[u8], anchors: &mut Anchors) {
        let mut hits = Hits::default();
        self.main.find(text, 0..text.len(), u8::MAX, &mut hits);
        self.also.find(text, 0..text.len(), u8::MAX, &mut hits);
        add(anchors, &hits.set);
    }

    /// The anchors of parts of a text that was in disguise, if they open a detector that looks
    /// there.
    pub(in crate::detect) fn obfuscated_anchors(
        &self,
        text: &[u8],
        parts: &[Range<usize>],
    ) -> Option<Hits> {
        let mut hits = Hits::default();
        for part in parts {
            self.main.find(text, part.clone(), u8::MAX, &mut hits);
        }
        meet(&hits.set, &self.obfuscated).then_some(hits)
    }

    /// Adds the anchors of `also_needs`, which matter only where something of a `needs` beside them
    /// was found: in its windows, or anywhere where a detector of theirs has none.
    pub(in crate::detect) fn add_asked(&self, text: &[u8], hits: &mut Hits) {
        if !meet(&hits.set, &self.asking) {
            return;
        }
        let mut parts: Vec<Range<usize>> = Vec::new();
        for &(anchor, at) in &hits.places {
            let anchor = usize::from(anchor);
            if self.asking[anchor / 64] >> (anchor % 64) & 1 == 0 {
                continue;
            }
            parts.extend(self.reaches[anchor].iter().map(|(_, reach)| window(text, at, *reach)));
        }
        let everywhere = members(&hits.set).any(|anchor| {
            self.asking[anchor / 64] >> (anchor % 64) & 1 == 1
                && members(&self.by_anchor[anchor])
                    .any(|index| self.windowed[index / 64] >> (index % 64) & 1 == 0)
        });
        if everywhere {
            return self.also.find(text, 0..text.len(), u8::MAX, hits);
        }
        parts.sort_unstable_by_key(|part| part.start);
        for part in merged(parts.into_iter()) {
            self.also.find(text, part, u8::MAX, hits);
        }
    }

    /// Whether a detector runs only in its windows.
    pub(in crate::detect) fn is_windowed(&self, index: usize) -> bool {
        self.windowed[index / 64] >> (index % 64) & 1 == 1
    }

    /// Where the open ones of the windowed detectors need to run.
    pub(in crate::detect) fn windows(
        &self,
        text: &[u8],
        hits: &Hits,
        is_open: impl Fn(usize) -> bool,
    ) -> Windows {
        let mut all: Windows = Vec::new();
        for &(anchor, at) in &hits.places {
            for &(index, reach) in &self.reaches[usize::from(anchor)] {
                if is_open(usize::from(index)) {
                    all.push((index, window(text, at, reach)));
                }
            }
        }
        all.sort_unstable_by_key(|(index, part)| (*index, part.start));
        let mut windows: Windows = Vec::with_capacity(all.len());
        for (index, part) in all {
            match windows.last_mut() {
                Some((before, last)) if *before == index && part.start <= last.end => {
                    last.end = last.end.max(part.end);
                }
                _ => windows.push((index, part)),
            }
        }
        windows
    }

    /// The detectors that these anchors, or none, may open.
    pub(in crate::detect) fn candidates(&self, anchors: &Anchors, profile: &Profile) -> Set {
        let mut candidates = self.unanchored.nothing;
        let mut take = |more: &Set| candidates.iter_mut().zip(more).for_each(|(a, b)| *a |= b);
        for (needed, more) in [
            (!profile.digits.is_empty(), &self.unanchored.digits),
            (profile.at_sign, &self.unanchored.at_sign),
            (profile.long_token, &self.unanchored.long_token),
            (profile.non_ascii(), &self.unanchored.non_ascii),
        ] {
            if needed {
                take(more);
            }
        }
        for anchor in members(anchors) {
            take(&self.by_anchor[anchor]);
        }
        candidates
    }
}

fn window(text: &[u8], at: u32, reach: Reach) -> Range<usize> {
    let at = at as usize;
    at.saturating_sub(reach.before)..at.saturating_add(reach.after).min(text.len())
}

/// Ranges in order, those that meet put together.
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

/// The numbers of the bits that are set, in order.
pub(in crate::detect) fn members(set: &[u64]) -> impl Iterator<Item = usize> {
    let words = set.iter().enumerate().filter(|(_, word)| **word != 0);
    words.flat_map(|(index, &word)| {
        let rest = std::iter::successors(Some(word), |&word| {
            let rest = word & (word - 1);
            (rest != 0).then_some(rest)
        });
        rest.map(move |word| index * 64 + word.trailing_zeros() as usize)
    })
}
