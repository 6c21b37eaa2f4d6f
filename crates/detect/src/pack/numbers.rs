//! Scan ranges of detectors of numbers and addresses.
//!
//! In: the regions with adjacent digits. Out: for each detector the parts of them where a match may
//! be, near a literal if it needs one. The bytes of a number select its possible detectors all at
//! once; most numbers have none.

use std::ops::Range;
use std::sync::Arc;

use super::super::limits::{BYTES_A_LOOK, LOOKS_MIN};
use super::compile::{AFTER, BEFORE, Detector};
use super::opening::ahead::AHEAD;
use super::opening::number::Point;
use super::windows::TextWindow;
use crate::bytes::{digits, places, runs};
use crate::prefilter::profile::Profile;
use crate::prefilter::sieve::Anchors;

/// Limit on signs between the digits of a number.
const SIGNS_MAX: usize = 3;
/// Colons of an unabbreviated address.
const COLONS: usize = 7;
/// Bytes of a group of an address with its colon.
const GROUP: usize = 5;
/// Bytes of an address with its neighbours.
const ADDRESS_BYTES: usize = 48;
/// Limit on number detectors of a pack with separate bits; beyond it each tests all numbers.
const DETECTORS_MAX: usize = u128::BITS as usize;

/// First bytes of numbers for the detectors of a pack without literals.
pub(super) struct NumberTails {
    /// Detectors, by bit.
    detectors: Vec<u16>,
    /// Detectors by position in a number and byte there.
    may_have: Vec<[u128; 0x80]>,
}

impl NumberTails {
    /// Collects the first bytes of the detectors that have any.
    pub(super) fn of(detectors: &[Arc<Detector>]) -> Self {
        let mut indices = Vec::new();
        let mut may_have = vec![[0; 0x80]; AHEAD];
        for (index, detector) in (0..).zip(detectors) {
            let gate = &detector.gate;
            if let Some(point) = detector.point.as_ref()
                && gate.digits
                && gate.needs.is_none()
            {
                let bit = 1u128.checked_shl(indices.len() as u32).unwrap_or_default();
                indices.push(index);
                for (bytes, set) in may_have.iter_mut().zip(point.ahead.0) {
                    for (byte, detectors) in bytes.iter_mut().enumerate() {
                        *detectors |= if set >> byte & 1 == 1 { bit } else { 0 };
                    }
                }
            }
        }
        Self { detectors: indices, may_have }
    }

    /// Returns the detectors whose match may start with each of these numbers; `None` if unknown.
    fn places(&self, text: &[u8], numbers: &[u32]) -> Option<Vec<(u16, u32)>> {
        if self.detectors.len() > DETECTORS_MAX {
            return None;
        }
        let mut places = Vec::new();
        for &at in numbers {
            let mut left = u128::MAX >> (DETECTORS_MAX - self.detectors.len()).min(127);
            for (may_have, &byte) in self.may_have.iter().zip(&text[at as usize..]) {
                // A byte beyond ASCII is always possible.
                let Some(detectors) = may_have.get(usize::from(byte)) else { break };
                left &= detectors;
                if left == 0 {
                    break;
                }
            }
            while left != 0 {
                places.push((self.detectors[left.trailing_zeros() as usize], at));
                left &= left - 1;
            }
        }
        places.sort_unstable();
        Some(places)
    }
}

/// Offsets where numbers start.
#[derive(Default)]
pub(super) struct Numbers {
    all: Vec<u32>,
    /// Detectors without literals whose match may start there, by detector and offset; `None` if
    /// unknown.
    places: Option<Vec<(u16, u32)>>,
}

impl Numbers {
    /// Collects the numbers in the regions of a profile.
    pub(super) fn of(text: &[u8], profile: &Profile, tails: &NumberTails) -> Self {
        let mut all = Vec::new();
        for region in &profile.digits {
            runs(&text[region.clone()], digits, |run| all.push((region.start + run.start) as u32));
        }
        // A region that begins inside a number does not start one.
        all.retain(|&at| at == 0 || !text[at as usize - 1].is_ascii_digit());
        let is_few = all.len() <= looks(text);
        let places = is_few.then(|| tails.places(text, &all)).flatten();
        Self { all, places }
    }

    /// Returns the scan ranges of a number detector; `None` if unknown.
    pub(super) fn windows(
        &self,
        text: &[u8],
        (index, detector): (usize, &Detector),
        regions: &[Range<usize>],
        literals: &[(u16, u32)],
    ) -> Option<Vec<TextWindow>> {
        if detector.gate.colons {
            return Some(around_colons(text, regions));
        }
        let point = detector.point.as_ref()?;
        let places = self.places.as_ref()?;
        if let Some(needs) = detector.gate.needs.as_deref() {
            // Few texts have its literals, so it tests the numbers itself.
            let stands = |at: &u32| point.ahead.fits(text, *at as usize);
            let places = self.all.iter().copied().filter(stands);
            if !detector.gate.built_in {
                return Some(around(point, places, regions));
            }
            let own = literals.iter().filter(|(literal, _)| has(needs, *literal));
            let mut beside: Vec<usize> = own.map(|(_, at)| *at as usize).collect();
            beside.sort_unstable();
            let is_beside = |at: &u32| {
                let first = (*at as usize).saturating_sub(point.reach.before + BEFORE);
                let next = beside.get(beside.partition_point(|literal| *literal < first));
                next.is_some_and(|next| *next <= *at as usize + point.reach.after + AFTER)
            };
            return Some(around(point, places.filter(is_beside), regions));
        }
        let start = places.partition_point(|(detector, _)| usize::from(*detector) < index);
        let own = places[start..].iter().take_while(|place| usize::from(place.0) == index);
        Some(around(point, own.map(|place| place.1), regions))
    }
}

/// Returns the parts of these regions around offsets where a match may be.
fn around(
    point: &Point,
    places: impl Iterator<Item = u32>,
    regions: &[Range<usize>],
) -> Vec<TextWindow> {
    let mut parts: Vec<TextWindow> = Vec::new();
    let mut regions = regions.iter().peekable();
    for at in places.map(|at| at as usize) {
        while regions.next_if(|region| region.end <= at).is_some() {}
        let Some(region) = regions.peek() else { break };
        let start = at.saturating_sub(point.reach.before).max(region.start);
        let end = (at + point.reach.after).min(region.end);
        TextWindow { begins: start..=at, end }.join(&mut parts);
    }
    parts
}

/// Returns the greatest number of adjacent digits in a text, with a few signs between them.
pub(super) fn digits_together(text: &[u8]) -> usize {
    let is_sign = |byte: &u8| !byte.is_ascii_alphanumeric() && !b"\n:,".contains(byte);
    let mut last = usize::MAX;
    let mut together = 0;
    let mut most = 0;
    places(text, digits, |at| {
        let signs = text.get(last.saturating_add(1)..at);
        let goes_on = signs.is_some_and(|it| it.len() <= SIGNS_MAX && it.iter().all(is_sign));
        together = if goes_on { together + 1 } else { 1 };
        most = most.max(together);
        last = at;
    });
    most
}

fn has(anchors: &Anchors, index: u16) -> bool {
    anchors[usize::from(index) / 64] >> (index % 64) & 1 == 1
}

/// Returns the parts of these regions that may contain an address with colons: two adjacent colons
/// between short hexadecimal words, or seven colons within a few bytes.
fn around_colons(text: &[u8], regions: &[Range<usize>]) -> Vec<TextWindow> {
    let mut parts = Vec::new();
    for region in regions {
        let mut last = [None; COLONS - 1];
        for at in memchr::memchr_iter(b':', &text[region.clone()]).map(|at| region.start + at) {
            let is_double = last[COLONS - 2].is_some_and(|last| last + 1 == at);
            let is_row = last[0].is_some_and(|first| at - first <= (COLONS - 1) * GROUP);
            if is_row || is_double && may_stand_beside(text, at) {
                let start = at.saturating_sub(ADDRESS_BYTES).max(region.start);
                let end = (at + ADDRESS_BYTES).min(region.end);
                TextWindow { begins: start..=at, end }.join(&mut parts);
            }
            last.rotate_left(1);
            last[COLONS - 2] = Some(at);
        }
    }
    parts
}

/// Returns true if the words around two colons, the second at this offset, may belong to an
/// address.
fn may_stand_beside(text: &[u8], at: usize) -> bool {
    is_group(text[..at - 1].iter().rev()) && is_group(text[at + 1..].iter())
}

/// Returns true if the first word of these bytes is short and hexadecimal, or empty.
fn is_group<'t>(bytes: impl Iterator<Item = &'t u8>) -> bool {
    let mut word = bytes.take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_');
    word.by_ref().take(GROUP - 1).all(u8::is_ascii_hexdigit) && word.next().is_none()
}

/// Returns the parts of a text around each `@` where a match may be; all of it if there are too
/// many to test.
pub(super) fn around_signs(text: &[u8], point: &Point) -> Vec<TextWindow> {
    let whole = 0..text.len();
    let places: Vec<u32> = memchr::memchr_iter(b'@', text).map(|at| at as u32).collect();
    if places.len() > looks(text) {
        return vec![TextWindow::whole(whole)];
    }
    let places = places.into_iter().filter(|at| point.ahead.fits(text, *at as usize + 1));
    around(point, places, std::slice::from_ref(&whole))
}

/// Returns the number of numbers or signs that are tested before expressions run.
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
        let text = "see 123-45-6789, then 1234 5678 and 2024 12, or id 8765 4321 ok".as_bytes();
        let profile = Profile::of(text);
        let numbers = Numbers::of(text, &profile, &pack.numbers);
        let found = [0, 1, 2].map(|index| {
            let detector = &pack.detectors[index];
            let parts = numbers.windows(text, (index, detector), &profile.digits, &[]).unwrap();
            let text = |part: &TextWindow| str::from_utf8(&text[*part.begins.start()..part.end]);
            parts.iter().map(|part| text(part).unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(found[0], ["123-45-6789"]);
        assert_eq!(found[1], ["en 1234 5678 an", "id 8765 4321 ok"], "to the longest match");
        assert_eq!(found[2], ["2024 12"]);
    }
    #[test]
    fn an_address_is_looked_for_at_colons_that_it_may_have() {
        let check = |text: &str, stands: bool| {
            let whole = 0..text.len();
            let parts = around_colons(text.as_bytes(), std::slice::from_ref(&whole));
            assert_eq!(!parts.is_empty(), stands, "{text}");
        };
        for text in ["at fe80::1.", "2a00:1450:4001:82b:0:0:0:200e", "::", "a::b", ": 2a00::"] {
            check(text, true);
        }
        for text in ["std::fmt", "10:15:22 INFO worker:", "face1::a", "::g", "a:b:c:d:e:f:0"] {
            check(text, false);
        }
    }

    #[test]
    fn digits_stand_together_with_few_signs_between_them() {
        let check = |text: &str, most| assert_eq!(digits_together(text.as_bytes()), most, "{text}");
        check("call (0) 30 / 12-34, or 5", 7);
        check("12 pages of 345 and 10:15:22", 3);
        check("1    2\n3", 1);
        check("none", 0);
    }
}
