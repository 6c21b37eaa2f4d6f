//! Which detectors a text may hit at all.
//!
//! In go a text and its profile, out come the anchors that occur and the detectors that these open.
//! Anchors are looked for only where they can matter: those of detectors of numbers where digits
//! stand together, and those of `also_needs` where something of a `needs` beside them was found.

use super::super::limits::DETECTORS_MAX;
use super::profile::Profile;
use super::sieve::{Anchors, NONE, Sieve};
use crate::detect::pack::compile::{Detector, meet};

/// Some detectors; bit `n` stands for detector `n`.
pub(in crate::detect) type Set = [u64; DETECTORS_MAX / 64];

/// The gates of all detectors of a pack.
pub(in crate::detect) struct Gates {
    /// Looks for the anchors of detectors that need neither digits nor a long token.
    plain: Sieve,
    /// The same for texts in ASCII.
    ascii_plain: Sieve,
    /// Looks for the anchors of detectors that need digits.
    digits: Sieve,
    /// The same for texts in ASCII.
    ascii_digits: Sieve,
    /// Looks for the anchors of detectors that need a long token.
    tokens: Sieve,
    /// Looks for the anchors of `also_needs`.
    also: Sieve,
    /// Anchors without which those of `also` do not matter.
    asking: Anchors,
    /// The detectors of each anchor.
    by_anchor: Vec<Set>,
    unanchored: Unanchored,
    /// Anchors of detectors that also look through digits put for letters and through encodings.
    obfuscated: Anchors,
}

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

/// What each sieve looks for.
struct Wanted {
    plain: Anchors,
    digits: Anchors,
    tokens: Anchors,
    also: Anchors,
}

impl Wanted {
    fn of(detectors: &[Detector]) -> Self {
        let mut wanted = Self { plain: NONE, digits: NONE, tokens: NONE, also: NONE };
        for Detector { gate, .. } in detectors {
            let main = match (gate.long_token, gate.digits) {
                (true, _) => &mut wanted.tokens,
                (false, true) => &mut wanted.digits,
                (false, false) => &mut wanted.plain,
            };
            match (gate.needs.as_deref(), gate.also_needs.as_deref()) {
                (Some(needs), Some(also)) => {
                    add(main, needs);
                    add(&mut wanted.also, also);
                }
                (needs, also) => needs.into_iter().chain(also).for_each(|mask| add(main, mask)),
            }
        }
        wanted.also.iter_mut().zip(wanted.plain).for_each(|(also, plain)| *also &= !plain);
        wanted
    }
}

impl Gates {
    /// Those of these detectors, whose gates name `anchors`.
    pub(in crate::detect) fn new(detectors: &[Detector], anchors: &[String]) -> Self {
        let wanted = Wanted::of(detectors);
        let sieve = |set: &Anchors, ascii| {
            Sieve::new(anchors, ascii, |index| set[index / 64] >> (index % 64) & 1 == 1)
        };
        let mut gates = Self {
            plain: sieve(&wanted.plain, false),
            ascii_plain: sieve(&wanted.plain, true),
            digits: sieve(&wanted.digits, false),
            ascii_digits: sieve(&wanted.digits, true),
            tokens: sieve(&wanted.tokens, false),
            also: sieve(&wanted.also, false),
            asking: NONE,
            by_anchor: vec![Set::default(); anchors.len()],
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

    /// The anchors that occur in a text and may matter.
    pub(in crate::detect) fn anchors(&self, text: &[u8], profile: &Profile) -> Anchors {
        let (plain, digits) = if profile.non_ascii() {
            (&self.plain, &self.digits)
        } else {
            (&self.ascii_plain, &self.ascii_digits)
        };
        let mut anchors = plain.find(text, profile.top);
        if !profile.digits.is_empty() {
            add(&mut anchors, &digits.find(text, profile.top));
        }
        if profile.long_token {
            add(&mut anchors, &self.tokens.find(text, profile.top));
        }
        self.add_asked(text, &mut anchors);
        anchors
    }

    /// Adds the anchors of a text in another case.
    pub(in crate::detect) fn add_anchors(&self, text: &[u8], anchors: &mut Anchors) {
        add(anchors, &self.plain.find(text, u8::MAX));
        add(anchors, &self.digits.find(text, u8::MAX));
        self.add_asked(text, anchors);
    }

    /// The anchors of a text that was in disguise, if they open a detector that looks there.
    pub(in crate::detect) fn obfuscated_anchors(&self, text: &[u8]) -> Option<Anchors> {
        let mut anchors = self.plain.find(text, u8::MAX);
        self.add_asked(text, &mut anchors);
        meet(&anchors, &self.obfuscated).then_some(anchors)
    }

    fn add_asked(&self, text: &[u8], anchors: &mut Anchors) {
        if meet(anchors, &self.asking) {
            add(anchors, &self.also.find(text, u8::MAX));
        }
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
