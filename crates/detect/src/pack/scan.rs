//! Scan of one text by a pack.
//!
//! A pass finds the literals with their offsets. Then each opened detector runs around its
//! literals, number detectors where digits are adjacent, and the few others over the whole text.
//! Text disguised by look-alikes, spaces or encodings is searched again in plain form. Linear: the
//! windows of one detector do not overlap.

use std::cell::OnceCell;
use std::ops::Range;

use super::super::limits::{DETECTOR_STEPS_PER_BYTE, FINDINGS_MAX, REFUSED_STEPS, STEPS_PER_BYTE};
use super::compile::{Detector, Flow, TextForm};
use super::numbers::{Numbers, around_signs, digits_together};
use super::read::ReadText;
use super::windows::{TextWindow, Windows};
use super::{Pack, RawHit, Scan};
use crate::bytes::tokens;
use crate::normalise::shadow::Shadow;
use crate::normalise::spaced::{self, ClosedUp};
use crate::normalise::{encoded, escaped, leet};
use crate::prefilter::gates::{Set, is_in, members};
use crate::prefilter::profile::Profile;
use crate::prefilter::sieve::Hits;

/// Forms of a text that detectors may need, each made at most once.
struct TextForms<'t> {
    text: &'t str,
    shadow: Option<Shadow>,
    /// The normalised form in lower case.
    small: OnceCell<Vec<u8>>,
    lower: OnceCell<String>,
    upper: OnceCell<String>,
}

/// Facts about a text, collected before detectors run.
#[derive(Default)]
struct Prescan {
    profile: Profile,
    windows: Windows,
    numbers: Numbers,
    /// Offsets of literals.
    literals: Vec<(u16, u32)>,
    /// Ranges of long tokens, if any detector needs them.
    tokens: Vec<Range<usize>>,
}

impl Prescan {
    /// Returns the windows of a detector of numbers or long tokens.
    fn parts(&self, text: &[u8], index: usize, detector: &Detector) -> Vec<TextWindow> {
        let parts = if detector.gate.digits {
            let digits = &self.profile.digits;
            let own = (index, detector);
            if let Some(windows) = self.numbers.windows(text, own, digits, &self.literals) {
                return windows;
            }
            digits
        } else {
            &self.tokens
        };
        parts.iter().cloned().map(TextWindow::whole).collect()
    }
}

impl Pack {
    /// Scans a text. A scan beyond its steps stops, without findings.
    pub(crate) fn scan(&self, text: &str, steps_max: usize) -> Scan {
        let mut scan = Scan::default();
        if !scan.take(text.len(), STEPS_PER_BYTE, steps_max) {
            return scan;
        }
        let mut profile = Profile::of(text.as_bytes());
        let mut forms = TextForms::of(text);
        let cased = self.cased && profile.non_ascii();
        if self.shadowed && (profile.non_ascii() || escaped::occurs(text)) {
            let shadow = Shadow::of(text);
            profile = Profile::of(shadow.text.as_bytes());
            forms.shadow = Some(shadow);
        }
        let mut hits = self.gates.anchors(forms.normalised(), &profile);
        if hits.places.is_empty() && !cased && self.gates.is_shut(&profile) {
            if self.obfuscated {
                self.scan_disguised(&forms, &profile, &mut scan, steps_max);
            }
            return scan;
        }
        let together = digits_together(forms.normalised());
        let fits =
            |detector: &Detector| detector.gate.fits(&profile) && detector.digits_min() <= together;
        let mut windows = self.windows(forms.normalised(), &hits, fits, &mut scan, steps_max);
        if scan.cut {
            return scan;
        }
        self.gates.add_asked(forms.normalised(), windows.parts(), &mut hits);
        if cased {
            // Changing case turns some other letters into ASCII.
            self.gates.add_anchors(forms.lower().as_bytes(), &mut hits.set);
            self.gates.add_anchors(forms.upper().as_bytes(), &mut hits.set);
        }
        let open = self.open(&hits, &profile, &mut windows);
        let numbers = Numbers::of(forms.normalised(), &profile, &self.numbers);
        let is_asked = self.in_tokens && profile.long_token;
        let tokens = if is_asked { tokens(forms.normalised()) } else { Vec::new() };
        let literals = hits.places;
        let seen = Prescan { profile, windows, numbers, literals, tokens };
        for index in members(&open) {
            if !self.run(index, &forms, &seen, &mut scan, steps_max) {
                return scan;
            }
        }
        if self.obfuscated {
            self.scan_disguised(&forms, &seen.profile, &mut scan, steps_max);
        }
        scan
    }

    /// Returns the detectors whose gates a text opens; removes the windows of others.
    fn open(&self, hits: &Hits, profile: &Profile, windows: &mut Windows) -> Set {
        let mut open = self.gates.candidates(&hits.set, profile);
        for index in members(&open.clone()) {
            let gate = &self.detectors[index].gate;
            if !(gate.fits(profile) && gate.has_asked(&hits.set)) {
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

    /// Runs one detector; returns false if the steps do not suffice.
    fn run(
        &self,
        index: usize,
        forms: &TextForms<'_>,
        seen: &Prescan,
        scan: &mut Scan,
        steps_max: usize,
    ) -> bool {
        let detector = &self.detectors[index];
        let whole = forms.normalised().len();
        let mut hit = RawHit::of(index);
        let mut refused = 0;
        let mut take = |found| hit.add(found);
        let normal = ReadText::of(forms.normalised(), &forms.small);
        let searched = match detector.form {
            TextForm::Normalised if self.gates.is_windowed(index) => {
                let digits_min = detector.digits_min();
                let may_hit = |window: &TextWindow| {
                    digits_min == 0
                        || digits_together(&normal.normal()[window.part()]) >= digits_min
                };
                let windows: Vec<_> = seen.windows.of(index).filter(may_hit).collect();
                let bytes = windows.iter().map(|window| window.part().len()).sum();
                scan.take(bytes, DETECTOR_STEPS_PER_BYTE, steps_max)
                    && detector.find(&normal, windows.into_iter(), &mut refused, &mut take)
            }
            TextForm::Normalised if detector.gate.digits || detector.gate.in_token => {
                let is_cut = detector.gate.digits && seen.profile.digits_cut;
                scan.take(whole, STEPS_PER_BYTE, steps_max) && {
                    let parts = seen.parts(normal.normal(), index, detector).into_iter();
                    detector.find(&normal, parts, &mut refused, &mut take) && !is_cut
                }
            }
            TextForm::Normalised if let Some(point) = &detector.point => {
                scan.take(whole, DETECTOR_STEPS_PER_BYTE, steps_max) && {
                    let parts = around_signs(normal.normal(), point).into_iter();
                    detector.find(&normal, parts, &mut refused, &mut take)
                }
            }
            form => {
                let text = forms.of_form(form);
                scan.take(forms.text.len(), DETECTOR_STEPS_PER_BYTE, steps_max) && {
                    if let Some(literal) = &detector.literal {
                        hit.count = u32::from(memchr::memmem::find(text, literal).is_some());
                    }
                    let whole = std::iter::once(TextWindow::whole(0..text.len()));
                    let small = OnceCell::new();
                    let small = if form == TextForm::Normalised { &forms.small } else { &small };
                    let mut take = |found| hit.add(found);
                    detector.find(&ReadText::of(text, small), whole, &mut refused, &mut take)
                }
            }
        };
        if scan.cut {
            return false;
        }
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

    /// Searches again the parts whose plain form differs.
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
                // A finding without a joined word was found in the plain text already.
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
        let small = OnceCell::new();
        let read = ReadText::of(text, &small);
        for index in members(&open) {
            let detector = &self.detectors[index];
            let windows: Vec<TextWindow> = if self.gates.is_windowed(index) {
                seen.windows.of(index).collect()
            } else {
                parts.iter().cloned().map(TextWindow::whole).collect()
            };
            let bytes = windows.iter().map(|window| window.part().len()).sum();
            if !scan.take(bytes, DETECTOR_STEPS_PER_BYTE, steps_max) {
                return;
            }
            let mut hit = RawHit::of(index);
            let mut take = |found| place(found).map_or(Flow::Refuse, |found| hit.add(found));
            let mut refused = 0;
            let searched = detector.find(&read, windows.into_iter(), &mut refused, &mut take);
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
    /// Charges the steps of one pass over these bytes, or of these tests; returns false if they do
    /// not suffice.
    pub(super) fn take(&mut self, bytes: usize, steps_per_byte: usize, steps_max: usize) -> bool {
        if !self.cut {
            self.steps = self.steps.saturating_add(bytes * steps_per_byte);
            self.cut = self.steps > steps_max;
        }
        !self.cut
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

impl<'t> TextForms<'t> {
    fn of(text: &'t str) -> Self {
        let [lower, upper] = [OnceCell::new(), OnceCell::new()];
        Self { text, shadow: None, small: OnceCell::new(), lower, upper }
    }

    fn of_form(&self, form: TextForm) -> &[u8] {
        match form {
            TextForm::Normalised => self.normalised(),
            TextForm::AsIs => self.text.as_bytes(),
            TextForm::Lower => self.lower().as_bytes(),
            TextForm::Upper => self.upper().as_bytes(),
        }
    }

    fn normalised(&self) -> &[u8] {
        self.shadow.as_ref().map_or(self.text.as_bytes(), |shadow| shadow.text.as_bytes())
    }

    fn place(&self, at: usize) -> usize {
        self.shadow.as_ref().map_or(at, |shadow| shadow.place(at))
    }

    fn lower(&self) -> &str {
        self.lower.get_or_init(|| self.text.to_lowercase())
    }

    fn upper(&self) -> &str {
        self.upper.get_or_init(|| self.text.to_uppercase())
    }
}
