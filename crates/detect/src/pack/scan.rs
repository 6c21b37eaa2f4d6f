//! Scan of one text by a pack.
//!
//! A pass finds the literals with their places; then each detector that they open runs around them,
//! those of numbers where digits stand together, and the few that can do neither over the whole
//! text. Text hidden in look-alikes, spaces and encodings is searched again as it reads. Linear:
//! parts that one detector runs over do not overlap.

use std::borrow::Cow;
use std::ops::Range;

use super::super::limits::{DETECTOR_STEPS_PER_BYTE, FINDINGS_MAX, REFUSED_STEPS, STEPS_PER_BYTE};
use super::compile::{Detector, Flow, TextForm};
use super::numbers::{Numbers, around_signs};
use super::windows::{TextWindow, Windows};
use super::{Pack, RawHit, Scan};
use crate::bytes::tokens;
use crate::normalise::shadow::Shadow;
use crate::normalise::spaced::{self, ClosedUp};
use crate::normalise::{encoded, escaped, leet};
use crate::prefilter::gates::{Set, is_in, members};
use crate::prefilter::profile::Profile;
use crate::prefilter::sieve::Hits;

/// Forms of a text that detectors may ask for, each made at most once.
struct TextForms<'t> {
    text: &'t str,
    shadow: Option<Shadow>,
    lower: Option<String>,
    upper: Option<String>,
}

/// Facts of a text that are collected before detectors run.
#[derive(Default)]
struct Prescan {
    profile: Profile,
    windows: Windows,
    numbers: Numbers,
    /// Places of long tokens, if any detector asks.
    tokens: Vec<Range<usize>>,
}

impl Prescan {
    /// Returns the parts that a detector of numbers or of long tokens runs over.
    fn parts(&self, text: &[u8], index: usize, detector: &Detector) -> Cow<'_, [Range<usize>]> {
        if !detector.gate.digits {
            return Cow::Borrowed(&self.tokens);
        }
        let digits = &self.profile.digits;
        let parts = self.numbers.windows(text, index, detector, digits);
        parts.map_or(Cow::Borrowed(digits), Cow::Owned)
    }
}

impl Pack {
    /// Scans a text. A scan that would take more steps than it may stops: its findings are void.
    pub(crate) fn scan(&self, text: &str, steps_max: usize) -> Scan {
        let mut scan = Scan::default();
        if !scan.take(text.len(), STEPS_PER_BYTE, steps_max) {
            return scan;
        }
        let mut profile = Profile::of(text.as_bytes());
        let mut forms = TextForms { text, shadow: None, lower: None, upper: None };
        let cased = self.cased && profile.non_ascii();
        if self.shadowed && (profile.non_ascii() || escaped::occurs(text)) {
            let shadow = Shadow::of(text);
            profile = Profile::of(shadow.text.as_bytes());
            forms.shadow = Some(shadow);
        }
        let mut hits = self.gates.anchors(forms.normalised(), &profile);
        let fits = |detector: &Detector| detector.gate.fits(&profile);
        let mut windows = self.windows(forms.normalised(), &hits, fits, &mut scan, steps_max);
        if scan.cut {
            return scan;
        }
        self.gates.add_asked(forms.normalised(), windows.parts(), &mut hits);
        if cased {
            // Changing case makes ASCII of some other letters.
            self.gates.add_anchors(forms.lower().as_bytes(), &mut hits.set);
            self.gates.add_anchors(forms.upper().as_bytes(), &mut hits.set);
        }
        let open = self.open(&hits, &profile, &mut windows);
        let numbers = Numbers::of(forms.normalised(), &profile, &self.numbers);
        let is_asked = self.in_tokens && profile.long_token;
        let tokens = if is_asked { tokens(forms.normalised()) } else { Vec::new() };
        let mut seen = Prescan { profile, windows, numbers, tokens };
        for index in members(&open) {
            if !self.run(index, &mut forms, &mut seen, &mut scan, steps_max) {
                return scan;
            }
        }
        self.scan_disguised(&forms, &seen.profile, &mut scan, steps_max);
        scan
    }

    /// Returns the detectors whose gates a text opens; removes the windows of others.
    fn open(&self, hits: &Hits, profile: &Profile, windows: &mut Windows) -> Set {
        let mut open = self.gates.candidates(&hits.set, profile);
        for index in members(&open.clone()) {
            if !self.detectors[index].gate.is_open(&hits.set, profile) {
                open[index / 64] &= !(1 << (index % 64));
            }
        }
        windows.retain(|index| {
            let is_open = is_in(&open, index) || self.detectors[index].gate.has_asked(&hits.set);
            open[index / 64] |= u64::from(is_open) << (index % 64);
            is_open
        });
        open
    }

    /// Runs one detector; `false` if the steps for it are not left.
    fn run(
        &self,
        index: usize,
        forms: &mut TextForms<'_>,
        seen: &mut Prescan,
        scan: &mut Scan,
        steps_max: usize,
    ) -> bool {
        let detector = &self.detectors[index];
        let profile = &seen.profile;
        let raw = 0..forms.text.len();
        let whole = 0..forms.normalised().len();
        let mut hit = RawHit::of(index);
        let mut refused = 0;
        let searched = match detector.form {
            TextForm::Normalised if self.gates.is_windowed(index) => {
                let windows = seen.windows.of(index);
                let bytes = windows.iter().map(TextWindow::bytes).sum();
                if !scan.take(bytes, DETECTOR_STEPS_PER_BYTE, steps_max) {
                    return false;
                }
                let mut take = |found| hit.add(found);
                detector.find_in(forms.normalised(), windows, &mut refused, &mut take)
            }
            TextForm::Normalised if detector.gate.digits || detector.gate.in_token => {
                if !scan.take(whole.end, STEPS_PER_BYTE, steps_max) {
                    return false;
                }
                let text = forms.normalised();
                let parts = seen.parts(text, index, detector);
                let is_cut = detector.gate.digits && profile.digits_cut;
                detector.find_all(text, parts.iter(), &mut refused, &mut hit) && !is_cut
            }
            TextForm::Normalised if let Some(point) = &detector.point => {
                if !scan.take(whole.end, DETECTOR_STEPS_PER_BYTE, steps_max) {
                    return false;
                }
                let text = forms.normalised();
                detector.find_all(text, around_signs(text, point).iter(), &mut refused, &mut hit)
            }
            form => {
                if !scan.take(raw.end, DETECTOR_STEPS_PER_BYTE, steps_max) {
                    return false;
                }
                let (text, part): (&[u8], _) = match form {
                    TextForm::Normalised => (forms.normalised(), Some(&whole)),
                    TextForm::AsIs => (forms.text.as_bytes(), Some(&raw)),
                    TextForm::Lower => (forms.lower().as_bytes(), None),
                    TextForm::Upper => (forms.upper().as_bytes(), None),
                };
                if let Some(literal) = &detector.literal {
                    hit.count = u32::from(memchr::memmem::find(text, literal).is_some());
                }
                detector.find_all(text, part.into_iter(), &mut refused, &mut hit)
            }
        };
        if !searched {
            scan.gave_up.push(index as u16);
        }
        if hit.count >= detector.count_min {
            if let (TextForm::Normalised, Some(shadow)) = (detector.form, &forms.shadow) {
                hit.move_to(shadow);
            }
            scan.hits.push(hit);
        }
        scan.take(refused as usize, REFUSED_STEPS, steps_max)
    }

    /// Searches again what reads otherwise than it is written.
    fn scan_disguised(
        &self,
        forms: &TextForms<'_>,
        profile: &Profile,
        scan: &mut Scan,
        steps_max: usize,
    ) {
        let plain = forms.normalised();
        if profile.leet
            && let Some((text, parts)) = leet::read_as_letters(plain)
        {
            self.run_obfuscated((&text, &parts, steps_max), scan, |found| {
                // A finding without a replaced byte was found in the plain text already.
                (plain[found.clone()] != text[found.clone()])
                    .then(|| forms.place(found.start)..forms.place(found.end))
            });
        }
        let closed = profile.spaced.then(|| spaced::closed_up(plain)).flatten();
        for ClosedUp { text, places, parts } in
            closed.into_iter().chain(spaced::without_hyphens(plain))
        {
            let place = |at: usize| forms.place(places.get(at).map_or(0, |&place| place as usize));
            self.run_obfuscated((&text, &parts, steps_max), scan, |found| {
                let first = place(found.start);
                let last = place(found.end - 1) + 1;
                // A finding without a closed-up word was found in the plain text already.
                (last - first > found.len()).then_some(first..last)
            });
        }
        if profile.long_token {
            for (range, decoded) in encoded::runs(plain) {
                let place = forms.place(range.start)..forms.place(range.end);
                let whole = 0..decoded.len();
                let parts = std::slice::from_ref(&whole);
                self.run_obfuscated((&decoded, parts, steps_max), scan, |_| Some(place.clone()));
            }
        }
    }

    fn run_obfuscated(
        &self,
        (text, parts, steps_max): (&[u8], &[Range<usize>], usize),
        scan: &mut Scan,
        place: impl Fn(Range<usize>) -> Option<Range<usize>>,
    ) {
        if !scan.take(parts.iter().map(Range::len).sum(), STEPS_PER_BYTE, steps_max) {
            return;
        }
        let Some(mut hits) = self.gates.obfuscated_anchors(text, parts) else { return };
        let profile = Profile::default();
        let is_asked = |detector: &Detector| detector.obfuscated && detector.gate.fits(&profile);
        let mut windows = self.windows(text, &hits, is_asked, scan, steps_max);
        self.gates.add_asked(text, windows.parts(), &mut hits);
        let mut open = self.open(&hits, &profile, &mut windows);
        for index in members(&open.clone()) {
            if !self.detectors[index].obfuscated {
                open[index / 64] &= !(1 << (index % 64));
            }
        }
        let seen = Prescan { profile, windows, ..Prescan::default() };
        for index in members(&open) {
            let detector = &self.detectors[index];
            let windows = self.gates.is_windowed(index).then(|| seen.windows.of(index));
            let bytes = match windows {
                Some(windows) => windows.iter().map(TextWindow::bytes).sum(),
                None => parts.iter().map(Range::len).sum(),
            };
            if !scan.take(bytes, DETECTOR_STEPS_PER_BYTE, steps_max) {
                return;
            }
            let mut hit = RawHit::of(index);
            let mut take = |found| place(found).map_or(Flow::Refuse, |found| hit.add(found));
            let mut refused = 0;
            let searched = match windows {
                Some(windows) => detector.find_in(text, windows, &mut refused, &mut take),
                None => detector.find(text, parts.iter().cloned(), &mut refused, &mut take),
            };
            if !searched {
                scan.gave_up.push(index as u16);
            }
            if hit.count >= detector.count_min {
                scan.hits.push(hit);
            }
            if !scan.take(refused as usize, REFUSED_STEPS, steps_max) {
                return;
            }
        }
    }
}

impl Scan {
    /// Charges the steps of one pass over so many bytes, or of so many tests; `false` if they are
    /// not left.
    pub(super) fn take(&mut self, bytes: usize, steps_per_byte: usize, steps_max: usize) -> bool {
        if !self.cut {
            self.steps = self.steps.saturating_add(bytes * steps_per_byte);
            self.cut = self.steps > steps_max;
        }
        !self.cut
    }
}

impl Detector {
    /// Searches parts of a text, in order; `false` when it gave up.
    fn find_all<'r>(
        &self,
        text: &[u8],
        parts: impl Iterator<Item = &'r Range<usize>>,
        refused: &mut u32,
        hit: &mut RawHit,
    ) -> bool {
        self.find(text, parts.cloned(), refused, &mut |found| hit.add(found))
    }
}

impl RawHit {
    fn of(index: usize) -> Self {
        Self { detector: index as u16, count: 0, places: Vec::new() }
    }

    fn add(&mut self, found: Range<usize>) -> Flow {
        self.count += 1;
        self.places.push((found.start as u32, found.end as u32));
        if self.places.len() < FINDINGS_MAX { Flow::Continue } else { Flow::Break }
    }

    fn move_to(&mut self, shadow: &Shadow) {
        for (start, end) in &mut self.places {
            *start = shadow.place(*start as usize) as u32;
            *end = shadow.place(*end as usize) as u32;
        }
    }
}

impl TextForms<'_> {
    fn normalised(&self) -> &[u8] {
        self.shadow.as_ref().map_or(self.text.as_bytes(), |shadow| shadow.text.as_bytes())
    }

    fn place(&self, at: usize) -> usize {
        self.shadow.as_ref().map_or(at, |shadow| shadow.place(at))
    }

    fn lower(&mut self) -> &str {
        self.lower.get_or_insert_with(|| self.text.to_lowercase())
    }

    fn upper(&mut self) -> &str {
        self.upper.get_or_insert_with(|| self.text.to_uppercase())
    }
}
