//! Scan ranges of detectors of numbers and of addresses.
//!
//! In go the regions where digits stand together, out come for each detector the parts of them
//! around those numbers that the rest of a match may follow. One automaton for all detectors tells
//! of a number whose it may be: most are nobody's, and each detector would have to look at all.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use regex_syntax::hir::Hir;

use super::super::limits::{BYTES_A_LOOK, LOOKS_MIN, REST_BYTES_MAX};
use super::compile::Detector;
use super::number::Point;
use crate::automata::Automaton;
use crate::bytes::{digits, runs};
use crate::prefilter::profile::Profile;

/// Digit suffixes of those detectors of numbers of a pack that have no literals.
pub(super) struct NumberTails {
    /// The detectors, by their pattern numbers in the automaton.
    detectors: Vec<u16>,
    tails: Vec<Hir>,
    /// Compiled when first needed; `None` where it cannot be.
    compiled: OnceLock<Option<Automaton>>,
}

impl NumberTails {
    /// Collects the suffixes of the detectors that have some.
    pub(super) fn of(detectors: &[Arc<Detector>]) -> Self {
        let mut indices = Vec::new();
        let mut tails = Vec::new();
        for (index, detector) in (0..).zip(detectors) {
            let gate = &detector.gate;
            if let Some(point) = detector.point.as_ref()
                && gate.digits
                && gate.needs.is_none()
            {
                indices.push(index);
                tails.push(point.tail.tail().clone());
            }
        }
        Self { detectors: indices, tails, compiled: OnceLock::new() }
    }

    /// Returns the detectors of which a match may start with each of these numbers; `None` where
    /// that cannot be told.
    fn places(&self, text: &[u8], numbers: &[u32]) -> Option<Vec<(u16, u32)>> {
        let mut places = Vec::new();
        if self.detectors.is_empty() || numbers.is_empty() {
            return Some(places);
        }
        let compile = || Automaton::placed_all(&self.tails.iter().collect::<Vec<_>>());
        let automaton = self.compiled.get_or_init(compile).as_ref()?;
        let mut look = automaton.look();
        let mut found = automaton.none_of_all();
        for &at in numbers {
            let start = at as usize;
            let end = (start + REST_BYTES_MAX + 1).min(text.len());
            // Two passes: a few bytes tell that most numbers are nobody's, and only for the others
            // all bytes are read to tell whose they are.
            if !look.accepts(text, start..end) {
                continue;
            }
            look.which(text, start..end, &mut found);
            places.extend(found.iter().map(|tail| (self.detectors[tail.as_usize()], at)));
        }
        places.sort_unstable();
        Some(places)
    }
}

/// Places where numbers start.
#[derive(Default)]
pub(super) struct Numbers {
    all: Vec<u32>,
    /// Detectors without literals of which a match may start there, by detector and place; `None`
    /// where that is not known.
    places: Option<Vec<(u16, u32)>>,
}

impl Numbers {
    /// Collects the numbers in the regions of a profile.
    pub(super) fn of(text: &[u8], profile: &Profile, tails: &NumberTails) -> Self {
        let mut all = Vec::new();
        for region in &profile.digits {
            runs(&text[region.clone()], digits, |run| all.push((region.start + run.start) as u32));
        }
        // A region that starts within a number does not start one.
        all.retain(|&at| at == 0 || !text[at as usize - 1].is_ascii_digit());
        let is_few = all.len() <= looks(text);
        let places = is_few.then(|| tails.places(text, &all)).flatten();
        Self { all, places }
    }

    /// Returns the scan ranges of a detector of numbers; `None` where they are not known.
    pub(super) fn windows(
        &self,
        text: &[u8],
        index: usize,
        detector: &Detector,
        regions: &[Range<usize>],
    ) -> Option<Vec<Range<usize>>> {
        let point = detector.point.as_ref()?;
        let places = self.places.as_ref()?;
        if detector.gate.needs.is_some() {
            // Few texts have its literals, so it looks at the numbers itself.
            return Some(around(point, standing(text, point, self.all.clone()), regions));
        }
        let start = places.partition_point(|(detector, _)| usize::from(*detector) < index);
        let own = places[start..].iter().take_while(|place| usize::from(place.0) == index);
        Some(around(point, own.map(|place| place.1).collect(), regions))
    }
}

/// Returns the parts of these regions around places at which a match may stand.
fn around(point: &Point, places: Vec<u32>, regions: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut regions = regions.iter().peekable();
    for at in places.into_iter().map(|at| at as usize) {
        while regions.next_if(|region| region.end <= at).is_some() {}
        let Some(region) = regions.peek() else { break };
        let start = at.saturating_sub(point.reach.before).max(region.start);
        let end = (at + point.reach.after).min(region.end);
        match parts.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => parts.push(start..end),
        }
    }
    parts
}

/// Returns the parts of a text around each `@` at which a match may stand; all of it if there are
/// too many to test.
pub(super) fn around_signs(text: &[u8], point: &Point) -> Vec<Range<usize>> {
    let whole = 0..text.len();
    let places: Vec<u32> = memchr::memchr_iter(b'@', text).map(|at| at as u32).collect();
    if places.len() > looks(text) {
        return std::iter::once(whole).collect();
    }
    around(point, standing(text, point, places), std::slice::from_ref(&whole))
}

/// Retains those of the places at which the rest of a match may stand.
fn standing(text: &[u8], point: &Point, mut places: Vec<u32>) -> Vec<u32> {
    if let Some(mut look) = point.tail.look() {
        places.retain(|&at| look.may_stand_at(text, at as usize));
    }
    places
}

/// Returns how many numbers or signs of a text are tested before expressions run.
fn looks(text: &[u8]) -> usize {
    LOOKS_MIN + text.len() / BYTES_A_LOOK
}

#[cfg(test)]
mod tests {
    use super::super::config::{DetectorConfig, PackConfig, compile};
    use super::*;

    #[test]
    fn a_number_is_looked_at_by_those_whose_it_may_be() {
        let detector = |pattern: &str, needs: &[&str]| DetectorConfig {
            rule: "no_pii".to_owned(),
            kind: "x".to_owned(),
            pattern: Some(pattern.to_owned()),
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
            digits: true,
            ..DetectorConfig::default()
        };
        let detectors = vec![
            detector(r"\b\d{3}-\d{2}-\d{4}\b", &[]),
            detector(r"\bid \d{4} \d{4}\b", &[]),
            detector(r"\b\d{4} \d{2}\b", &["see"]),
        ];
        let pack = compile(&[PackConfig { detectors, ..PackConfig::default() }]).unwrap();
        let text = "see 123-45-6789, then 1234 5678 and 2024 12, or id 8765 4321".as_bytes();
        let profile = Profile::of(text);
        let numbers = Numbers::of(text, &profile, &pack.numbers);
        let found = [0, 1, 2].map(|index| {
            let detector = &pack.detectors[index];
            let parts = numbers.windows(text, index, detector, &profile.digits).unwrap();
            parts.into_iter().map(|part| str::from_utf8(&text[part]).unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(found[0], ["123-45-6789"]);
        assert_eq!(found[1], ["en 1234 5678 an", "id 8765 4321"], "to the longest match");
        assert_eq!(found[2], ["2024 12"]);
    }
}
