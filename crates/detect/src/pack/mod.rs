//! Rule packs: detectors as data over one engine.
//!
//! In: a text. Out: the detectors that hit, with byte ranges. A pack is compiled once.
//! [`scan`](Pack::scan) passes over the text to find which detectors can hit at all (`profile`,
//! `gates`) and runs only their expressions. The source's behaviour and ours are both packs; a
//! config adds its own ([`config`]). Everything is linear in the text: expressions are automata,
//! none of which may match more than [`MATCH_BYTES_MAX`](super::limits::MATCH_BYTES_MAX) bytes.

mod cache;
pub(crate) mod compile;
pub mod config;
mod engine;
pub(crate) mod expression;
pub(crate) mod match_bounds;
mod named;
mod needs;
mod numbers;
pub(crate) mod opening;
mod read;
mod scan;
mod windows;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use super::prefilter::gates::Gates;
use compile::{Detector, TextForm};
use numbers::NumberTails;

use super::Severity;
use spanscore_base::settings::SettingsError;

/// Names of the rules of built-in packs.
pub mod names {
    /// Personal data and credentials.
    pub const PII: &str = "no_pii";
    /// Words that must not occur.
    pub const BLOCKLIST: &str = "no_blocklist_words";
    /// Prompt injection.
    pub const INJECTION: &str = "no_injection_patterns";
    /// Unfinished output.
    pub const STUB: &str = "no_stub_output";
    /// Orders to a judge of a run: only in the pack for judges.
    pub(crate) const JUDGE: &str = "addresses_judge";
    /// Refusals and hedges.
    pub const REFUSAL: &str = "no_hallucination_markers";
}

/// Built-in pack, compiled at its first use.
type BuiltIn = LazyLock<Result<Arc<Pack>, SettingsError>>;

const SAFETY: [&str; 15] = [
    include_str!("../packs/denials.yaml"),
    include_str!("../packs/personal.yaml"),
    include_str!("../packs/credentials.yaml"),
    include_str!("../packs/injection.yaml"),
    include_str!("../packs/output.yaml"),
    include_str!("../packs/vendors.yaml"),
    include_str!("../packs/reach.yaml"),
    include_str!("../packs/poison.yaml"),
    include_str!("../packs/orders.yaml"),
    include_str!("../packs/named.yaml"),
    include_str!("../packs/promises.yaml"),
    include_str!("../packs/unfinished.yaml"),
    include_str!("../packs/frames.yaml"),
    include_str!("../packs/addressed.yaml"),
    include_str!("../packs/assigned.yaml"),
];
const REFUSAL: &str = include_str!("../packs/refusal.yaml");

static SAFETY_PACK: BuiltIn = LazyLock::new(|| config::built_in_texts(None, &SAFETY));

/// Compiles the detectors of a text after those of safety, which all packs share.
fn behind_safety(text: &str) -> Result<Arc<Pack>, SettingsError> {
    let safety = LazyLock::force(&SAFETY_PACK).as_ref().map_err(Clone::clone)?;
    config::built_in_texts(Some(safety), &[text])
}

/// Returns a built-in pack for another evaluator.
fn given_out(pack: &BuiltIn) -> Result<Arc<Pack>, SettingsError> {
    let pack = LazyLock::force(pack).clone()?;
    pack.users.fetch_add(1, Ordering::Relaxed);
    Ok(pack)
}

/// Returns the source's detectors: those of `compat: iris`.
pub fn iris() -> Result<Arc<Pack>, SettingsError> {
    static PACK: BuiltIn =
        LazyLock::new(|| config::built_in_texts(None, &[include_str!("../packs/iris.yaml")]));
    given_out(&PACK)
}

/// Returns our detectors of refusals, which are no part of [`safety`].
pub fn refusal() -> Result<Arc<Pack>, SettingsError> {
    static PACK: BuiltIn = LazyLock::new(|| config::built_in_texts(None, &[REFUSAL]));
    given_out(&PACK)
}

/// Returns our detectors except those of refusals.
pub fn safety() -> Result<Arc<Pack>, SettingsError> {
    given_out(&SAFETY_PACK)
}

/// Returns the detectors of safety for personal data and credentials: a third of them.
pub(crate) fn personal() -> Result<Arc<Pack>, SettingsError> {
    static PACK: BuiltIn = LazyLock::new(|| Ok(Arc::new(safety()?.of_rule(names::PII))));
    given_out(&PACK)
}

/// Returns the detectors of safety and those of orders to a judge, for the evidence shown to
/// judges.
pub(crate) fn evidence() -> Result<Arc<Pack>, SettingsError> {
    const JUDGES: &str = include_str!("../packs/judges.yaml");
    static PACK: BuiltIn = LazyLock::new(|| behind_safety(JUDGES));
    given_out(&PACK)
}

/// Returns all of our detectors, which run in one pass.
pub fn all() -> Result<Arc<Pack>, SettingsError> {
    static PACK: BuiltIn = LazyLock::new(|| behind_safety(REFUSAL));
    given_out(&PACK)
}

/// Compiled detectors.
pub struct Pack {
    detectors: Vec<Arc<Detector>>,
    /// Literals that their gates reference.
    anchors: Vec<String>,
    gates: Gates,
    /// Digit suffixes of the number detectors.
    numbers: NumberTails,
    /// True if any detector reads disguised text.
    obfuscated: bool,
    /// True if any detector searches only long tokens.
    in_tokens: bool,
    /// True if any detector reads the shadow.
    shadowed: bool,
    /// True if any detector reads the text in lower or upper case.
    cased: bool,
    /// Evaluators that use it, for built-in packs; 0 for a pack of a single evaluator.
    users: AtomicUsize,
}

/// Findings of a pack in one text.
#[derive(Debug, Default)]
pub struct Scan {
    hits: Vec<RawHit>,
    /// Detectors that gave up after too many refused matches.
    gave_up: Vec<u16>,
    /// Steps taken.
    steps: usize,
    /// True if it ran out of steps before the end.
    cut: bool,
}

impl Scan {
    /// Returns true if no detector hit or gave up.
    pub fn is_empty(&self) -> bool {
        self.hits.is_empty() && self.gave_up.is_empty()
    }

    /// Returns the steps taken: more than allowed if it was cut.
    pub fn steps(&self) -> usize {
        self.steps
    }
}

#[derive(Debug)]
struct RawHit {
    detector: u16,
    count: u32,
    /// Byte ranges in the text, at most [`FINDINGS_MAX`](super::limits::FINDINGS_MAX).
    places: Vec<(u32, u32)>,
}

/// Detector that hit.
pub struct Hit<'s> {
    /// Name of what it detects.
    pub kind: &'s str,
    /// Number of findings, counted up to [`FINDINGS_MAX`](super::limits::FINDINGS_MAX).
    pub count: u32,
    /// Severity of the detector.
    pub severity: Severity,
    category: &'s str,
    rule: &'s str,
    places: &'s [(u32, u32)],
}

/// Place in a text where a detector hit.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Rule of the detector.
    pub rule: String,
    /// Name of what was found.
    pub kind: String,
    /// Category of the kind.
    pub category: String,
    /// Byte range in the text.
    pub range: Range<usize>,
    /// Shape of the finding, without its characters: `999-99-9999`.
    pub preview: String,
}

impl Hit<'_> {
    /// Returns the category of its findings.
    pub(crate) fn category(&self) -> &str {
        self.category
    }

    /// Returns the byte ranges of its first findings in the text.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.places.iter().map(|&(start, end)| start as usize..end as usize)
    }

    /// Returns its findings in `text`.
    pub fn findings(&self, text: &str) -> impl Iterator<Item = Finding> {
        self.places.iter().map(move |&(start, end)| {
            let found = text.get(start as usize..end as usize).unwrap_or_default();
            // Invisible characters after the match were dropped before the search.
            let shown = found.trim_end_matches(|c: char| c.is_whitespace() || is_invisible(c));
            Finding {
                rule: self.rule.to_owned(),
                kind: self.kind.to_owned(),
                category: self.category.to_owned(),
                range: start as usize..start as usize + shown.len(),
                preview: redact(shown),
            }
        })
    }
}

/// Returns true for invisible characters, which may be inside or after a word.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Returns the shape of a text without its letters and digits; at most 24 characters.
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

impl Pack {
    /// Builds a pack of detectors; `anchors` are those that their gates reference.
    fn new(detectors: Vec<Arc<Detector>>, anchors: Vec<String>) -> Self {
        Self {
            gates: Gates::new(&detectors, &anchors),
            numbers: NumberTails::of(&detectors),
            obfuscated: detectors.iter().any(|detector| detector.obfuscated),
            in_tokens: detectors.iter().any(|detector| detector.gate.in_token),
            shadowed: detectors.iter().any(|detector| detector.form == TextForm::Normalised),
            cased: detectors.iter().any(|d| matches!(d.form, TextForm::Lower | TextForm::Upper)),
            detectors,
            anchors,
            users: AtomicUsize::new(0),
        }
    }

    /// Returns a pack of the detectors of one rule.
    fn of_rule(&self, rule: &str) -> Self {
        let own = self.detectors.iter().filter(|detector| detector.rule == rule);
        Self::new(own.cloned().collect(), self.anchors.clone())
    }

    /// Returns the hits of one rule in a scan by this pack.
    pub fn hits<'s>(&'s self, scan: &'s Scan, rule: &'s str) -> impl Iterator<Item = Hit<'s>> {
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

    /// Returns the kind of the first detector of a rule that gave up on a text.
    pub fn gave_up<'s>(&'s self, scan: &Scan, rule: &str) -> Option<&'s str> {
        let detectors = scan.gave_up.iter().map(|&index| &self.detectors[usize::from(index)]);
        detectors.filter(|detector| detector.rule == rule).map(|detector| &*detector.kind).next()
    }

    /// Returns the names of its detectors' rules, each once, in order.
    pub fn rules(&self) -> Vec<&str> {
        let mut rules: Vec<&str> = Vec::new();
        for detector in &self.detectors {
            if !rules.contains(&&*detector.rule) {
                rules.push(&detector.rule);
            }
        }
        rules
    }

    /// Scans a text, or returns the cached scan of another evaluator.
    pub fn scan_cached(self: &Arc<Self>, text: &str, steps_max: usize) -> Arc<Scan> {
        // A sole evaluator shares no scans, and would hash each text for nothing.
        if self.users.load(Ordering::Relaxed) < 2 {
            return Arc::new(self.scan(text, steps_max));
        }
        cache::get(self, text, || self.scan(text, steps_max))
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
