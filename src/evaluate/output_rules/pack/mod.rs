//! Rule packs: detectors as data over one engine.
//!
//! In goes a text, out come the detectors that hit, with byte ranges. A pack is compiled once;
//! [`scan`](Pack::scan) passes over the text to learn which detectors can hit at all ([`profile`],
//! [`sieve`]) and runs only their expressions. Both behaviours, the source's and ours, are packs;
//! a config adds its own ([`config`]). Everything is linear in the text: expressions are automata,
//! none may match more than [`MATCH_BYTES_MAX`](super::limits::MATCH_BYTES_MAX) bytes.

mod cache;
mod compile;
pub(super) mod config;
mod encoded;
mod profile;
mod shadow;
mod sieve;
mod validate;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use compile::{Detector, Form, Gate};
use profile::Profile;
use shadow::Shadow;
use sieve::{Anchors, Sieve};

use super::limits::FINDINGS_MAX;
use super::rule::Severity;
use crate::settings::SettingsError;

/// Names of the rules that detectors of the built-in packs belong to.
pub(super) mod names {
    /// Personal data and credentials.
    pub(in super::super) const PII: &str = "no_pii";
    /// Words that must not occur.
    pub(in super::super) const BLOCKLIST: &str = "no_blocklist_words";
    /// Prompt injection.
    pub(in super::super) const INJECTION: &str = "no_injection_patterns";
    /// Unfinished output.
    pub(in super::super) const STUB: &str = "no_stub_output";
    /// Refusals and hedges.
    pub(in super::super) const REFUSAL: &str = "no_hallucination_markers";
}

/// A built-in pack, compiled when first asked for.
type BuiltIn = LazyLock<Result<Arc<Pack>, SettingsError>>;

/// The source's detectors.
static IRIS: BuiltIn = LazyLock::new(|| config::built_in(&[include_str!("../packs/iris.yaml")]));
/// Ours.
static DEFAULT: BuiltIn = LazyLock::new(|| {
    config::built_in(&[
        include_str!("../packs/personal.yaml"),
        include_str!("../packs/credentials.yaml"),
        include_str!("../packs/injection.yaml"),
        include_str!("../packs/output.yaml"),
    ])
});

/// Ours of refusals: apart, so that texts judged for safety alone are not searched for them.
static REFUSAL: BuiltIn =
    LazyLock::new(|| config::built_in(&[include_str!("../packs/refusal.yaml")]));

/// The detectors of `compat: iris`.
pub(super) fn iris() -> Result<Arc<Pack>, SettingsError> {
    IRIS.clone()
}

/// The detectors of refusals.
pub(super) fn refusal() -> Result<Arc<Pack>, SettingsError> {
    REFUSAL.clone()
}

/// The detectors of the default behaviour.
pub(super) fn default() -> Result<Arc<Pack>, SettingsError> {
    DEFAULT.clone()
}

/// Compiled detectors.
pub(super) struct Pack {
    detectors: Vec<Detector>,
    sieve: Sieve,
    /// Anchors of detectors that also look through digits put for letters and through encodings.
    obfuscated: Anchors,
    /// Whether any detector reads the shadow.
    shadowed: bool,
}

/// What a pack found in one text.
#[derive(Debug, Default)]
pub(super) struct Scan {
    hits: Vec<RawHit>,
}

#[derive(Debug)]
struct RawHit {
    detector: u16,
    count: u32,
    /// Byte ranges in the text, at most [`FINDINGS_MAX`].
    places: Vec<(u32, u32)>,
}

/// One detector that hit.
pub(super) struct Hit<'s> {
    /// What it detects.
    pub(super) kind: &'s str,
    /// How often, counted up to [`FINDINGS_MAX`].
    pub(super) count: u32,
    /// Whether the detector is critical.
    pub(super) severity: Severity,
    category: &'s str,
    rule: &'s str,
    places: &'s [(u32, u32)],
}

/// One place in a text where a detector hit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    /// The rule.
    pub(super) rule: String,
    /// What was found.
    pub(super) kind: String,
    /// The family of the kind.
    pub(super) category: String,
    /// Byte range in the text.
    pub(super) range: Range<usize>,
    /// The form of what was found, never its characters: `999-99-9999`.
    pub(super) preview: String,
}

impl Hit<'_> {
    /// Its findings in `text`.
    pub(super) fn findings(&self, text: &str) -> impl Iterator<Item = Finding> {
        self.places.iter().map(move |&(start, end)| Finding {
            rule: self.rule.to_owned(),
            kind: self.kind.to_owned(),
            category: self.category.to_owned(),
            range: start as usize..end as usize,
            preview: redact(text.get(start as usize..end as usize).unwrap_or_default()),
        })
    }
}

/// Shows the form of a text and none of its letters and digits; at most 24 characters.
fn redact(text: &str) -> String {
    let mut form: String = text
        .chars()
        .take(24)
        .map(|c| match c {
            _ if c.is_uppercase() => 'A',
            _ if c.is_alphabetic() => 'a',
            _ if c.is_numeric() => '9',
            _ if c.is_ascii_punctuation() || c == ' ' => c,
            _ => '?',
        })
        .collect();
    if text.chars().nth(24).is_some() {
        form.push('…');
    }
    form
}

/// The forms of a text that detectors may ask for, each made at most once.
struct Forms<'t> {
    text: &'t str,
    shadow: Option<Shadow>,
    lower: Option<String>,
    upper: Option<String>,
}

impl Pack {
    /// The hits of one rule in a scan by this pack.
    pub(super) fn hits<'s>(
        &'s self,
        scan: &'s Scan,
        rule: &'s str,
    ) -> impl Iterator<Item = Hit<'s>> {
        scan.hits.iter().filter_map(move |hit| {
            let detector = &self.detectors[usize::from(hit.detector)];
            (detector.rule == rule).then_some(Hit {
                kind: &detector.kind,
                count: hit.count,
                severity: detector.severity,
                category: &detector.category,
                rule: &detector.rule,
                places: &hit.places,
            })
        })
    }

    /// The names of the rules that its detectors belong to, each once, in order.
    pub(super) fn rules(&self) -> Vec<&str> {
        let mut rules: Vec<&str> = Vec::new();
        for detector in &self.detectors {
            if !rules.contains(&&*detector.rule) {
                rules.push(&detector.rule);
            }
        }
        rules
    }

    /// Scans a text, or gives the scan that an evaluator has just made of the same text.
    pub(super) fn scan_cached(self: &Arc<Self>, text: &str) -> Arc<Scan> {
        cache::get(self, text, || self.scan(text))
    }

    /// Scans a text.
    pub(super) fn scan(&self, text: &str) -> Scan {
        let mut scan = Scan::default();
        let mut profile = Profile::of(text.as_bytes());
        let mut forms = Forms { text, shadow: None, lower: None, upper: None };
        if self.shadowed && profile.non_ascii {
            let shadow = Shadow::of(text);
            profile = Profile::of(shadow.text.as_bytes());
            forms.shadow = Some(shadow);
        }
        let anchors = self.sieve.find(forms.normalised());
        for (index, detector) in self.detectors.iter().enumerate() {
            if detector.gate.is_open(&anchors, &profile) {
                self.run(index, &mut forms, &profile, &mut scan);
            }
        }
        if profile.leet {
            self.scan_leet(&forms, &mut scan);
        }
        if profile.long_token {
            self.scan_encoded(&forms, &mut scan);
        }
        scan
    }

    fn run(&self, index: usize, forms: &mut Forms<'_>, profile: &Profile, scan: &mut Scan) {
        let detector = &self.detectors[index];
        let raw = 0..forms.text.len();
        let whole = 0..forms.normalised().len();
        let (text, regions): (&[u8], &[Range<usize>]) = match detector.form {
            Form::Normalised if matches!(detector.gate, Gate::Digits) => {
                (forms.normalised(), &profile.digits)
            }
            Form::Normalised => (forms.normalised(), std::slice::from_ref(&whole)),
            Form::AsIs => (forms.text.as_bytes(), std::slice::from_ref(&raw)),
            Form::Lower => (forms.lower().as_bytes(), &[]),
            Form::Upper => (forms.upper().as_bytes(), &[]),
        };
        let mut hit = RawHit { detector: index as u16, count: 0, places: Vec::new() };
        if let Some(literal) = &detector.literal {
            hit.count = u32::from(memchr::memmem::find(text, literal).is_some());
        }
        for region in regions {
            detector.find(text, region.clone(), &mut |found| hit.add(found));
        }
        if hit.count >= detector.count_min {
            if let (Form::Normalised, Some(shadow)) = (detector.form, &forms.shadow) {
                hit.move_to(shadow);
            }
            scan.hits.push(hit);
        }
    }

    /// Looks again with digits read as the letters they resemble.
    fn scan_leet(&self, forms: &Forms<'_>, scan: &mut Scan) {
        let plain = forms.normalised();
        let text: Vec<u8> = plain.iter().map(|&byte| unleet(byte)).collect();
        let anchors = self.sieve.find(&text);
        self.run_obfuscated(&text, &anchors, scan, |found| {
            // Where nothing was replaced the plain pass has the finding already.
            (plain[found.clone()] != text[found.clone()])
                .then(|| forms.place(found.start)..forms.place(found.end))
        });
    }

    /// Looks into runs that decode to text.
    fn scan_encoded(&self, forms: &Forms<'_>, scan: &mut Scan) {
        for (range, decoded) in encoded::runs(forms.normalised()) {
            let anchors = self.sieve.find(&decoded);
            let place = forms.place(range.start)..forms.place(range.end);
            self.run_obfuscated(&decoded, &anchors, scan, |_| Some(place.clone()));
        }
    }

    fn run_obfuscated(
        &self,
        text: &[u8],
        anchors: &Anchors,
        scan: &mut Scan,
        place: impl Fn(Range<usize>) -> Option<Range<usize>>,
    ) {
        if !anchors.iter().zip(&self.obfuscated).any(|(found, wanted)| found & wanted != 0) {
            return;
        }
        let profile = Profile::default();
        for (index, detector) in self.detectors.iter().enumerate() {
            if !detector.obfuscated || !detector.gate.is_open(anchors, &profile) {
                continue;
            }
            let mut hit = RawHit { detector: index as u16, count: 0, places: Vec::new() };
            detector.find(text, 0..text.len(), &mut |found| match place(found) {
                Some(found) => hit.add(found),
                None => true,
            });
            if hit.count >= detector.count_min {
                scan.hits.push(hit);
            }
        }
    }
}

fn unleet(byte: u8) -> u8 {
    match byte {
        b'0' => b'o',
        b'1' | b'!' => b'i',
        b'3' => b'e',
        b'4' | b'@' => b'a',
        b'5' | b'$' => b's',
        b'7' => b't',
        _ => byte,
    }
}

impl RawHit {
    /// Takes a finding; `false` when there are enough.
    fn add(&mut self, found: Range<usize>) -> bool {
        self.count += 1;
        self.places.push((found.start as u32, found.end as u32));
        self.places.len() < FINDINGS_MAX
    }

    fn move_to(&mut self, shadow: &Shadow) {
        for (start, end) in &mut self.places {
            *start = shadow.place(*start as usize) as u32;
            *end = shadow.place(*end as usize) as u32;
        }
    }
}

impl Forms<'_> {
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

/// The literal's folded form, for a detector of that form.
fn fold_literal(literal: &str, form: Form) -> Cow<'_, str> {
    match form {
        Form::Lower => literal.to_lowercase().into(),
        Form::Upper => literal.to_uppercase().into(),
        Form::AsIs | Form::Normalised => literal.into(),
    }
}

#[cfg(test)]
mod tests;
