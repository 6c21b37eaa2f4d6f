//! Generated texts for each alternative of an expression, for the test that each of them fires
//! alone.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use regex_syntax::hir::{Class, Hir, HirKind};

use super::compile::{AFTER, BEFORE, Detector, TextForm};
use super::expression::{self, Expression};
use super::read::ReadText;
use super::*;

/// Limit on texts of one expression.
const TEXTS_MAX: usize = 400;
/// Variants of a text's characters to try until its check accepts one.
const WAYS: u64 = 64;

/// Variant with spaces between words.
const APART: u64 = 1;
/// Escaped white space, before which no word starts: such alternatives need a literal that does not
/// begin a word.
const WRITTEN_OUT: [&str; 4] = [r"\n", r"\u00", "%20", "&nbsp;"];

/// Selector of characters and repetitions; the first variant takes the plainest and fewest.
struct Choice(u64);

impl Choice {
    fn next(&mut self, most: usize) -> usize {
        if self.0 <= APART || most == 0 {
            return 0;
        }
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }

    /// Returns short texts that an expression matches, at least one per alternative up to
    /// [`TEXTS_MAX`].
    fn texts(&mut self, hir: &Hir) -> Vec<String> {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => vec![String::new()],
            HirKind::Literal(literal) => vec![String::from_utf8_lossy(&literal.0).into_owned()],
            HirKind::Class(class) => vec![self.of_class(class).to_string()],
            HirKind::Capture(capture) => self.texts(&capture.sub),
            HirKind::Repetition(repetition) => {
                let most = repetition.max.unwrap_or(repetition.min + 8).min(repetition.min + 8);
                let times =
                    repetition.min as usize + self.next((most - repetition.min) as usize + 1);
                let is_gap =
                    matches!(repetition.sub.kind(), HirKind::Class(class) if has(class, ' '));
                let times = times.max(usize::from(self.0 == APART && is_gap && most > 0));
                let first = self.texts(&repetition.sub);
                let rest: String =
                    (1..times).map(|_| self.texts(&repetition.sub).swap_remove(0)).collect();
                match times {
                    0 => vec![String::new()],
                    _ => first.into_iter().map(|text| text + &rest).collect(),
                }
            }
            HirKind::Alternation(parts) => {
                parts.iter().flat_map(|part| self.texts(part)).take(TEXTS_MAX).collect()
            }
            HirKind::Concat(parts) => {
                let all: Vec<Vec<String>> = parts.iter().map(|part| self.texts(part)).collect();
                // Each alternative of one part, with the first of the others.
                let base = |skip: usize, text: &str| -> String {
                    let part = |(index, texts): (usize, &Vec<String>)| {
                        if index == skip { text.to_owned() } else { texts[0].clone() }
                    };
                    all.iter().enumerate().map(part).collect()
                };
                let mut found: Vec<String> = Vec::new();
                for (index, texts) in all.iter().enumerate() {
                    found.extend(texts.iter().map(|text| base(index, text)));
                }
                found.dedup();
                found.truncate(TEXTS_MAX);
                found
            }
        }
    }

    /// Picks a letter or digit of a class if it has one; in the second variant a space, to separate
    /// words.
    fn of_class(&mut self, class: &Class) -> char {
        let ranges: Vec<(char, char)> = match class {
            Class::Unicode(class) => class.iter().map(|r| (r.start(), r.end())).collect(),
            Class::Bytes(class) => {
                class.iter().map(|r| (char::from(r.start()), char::from(r.end()))).collect()
            }
        };
        let has = |c: &char| ranges.iter().any(|(start, end)| (start..=end).contains(&c));
        let plain = match self.0 {
            APART => [' ', 'a', '7', 'Q', '-', ':', '\n'],
            _ => ['a', '7', ' ', 'Q', '-', ':', '\n'],
        };
        let first = plain.into_iter().find(has).or(ranges.first().map(|range| range.0));
        let other: Vec<char> = ('0'..='9').chain('a'..='z').chain('A'..='Z').filter(has).collect();
        match self.next(other.len()) {
            0 => first.unwrap_or('a'),
            at => other[at],
        }
    }
}

fn has(class: &Class, sign: char) -> bool {
    match class {
        Class::Unicode(class) => class.iter().any(|r| (r.start()..=r.end()).contains(&sign)),
        Class::Bytes(class) => {
            class.iter().any(|r| (char::from(r.start())..=char::from(r.end())).contains(&sign))
        }
    }
}

/// Returns short texts that an expression matches, one per alternative, in a variant.
pub(crate) fn matching_texts(hir: &Hir, way: u64) -> Vec<String> {
    Choice(way).texts(hir)
}

/// Results of trying alternatives.
#[derive(Default)]
pub(super) struct Tried {
    /// Number of alternatives that fired.
    pub(super) fired: usize,
    /// Alternatives whose texts match but do not fire, with the reason.
    pub(super) silent: Vec<String>,
    /// Detectors with skipped alternatives, by reason.
    pub(super) skipped: BTreeMap<&'static str, BTreeMap<String, usize>>,
}

/// Scans a text for each alternative of each pattern of a pack.
pub(super) fn tried(pack: &Pack) -> Tried {
    let mut tried = Tried::default();
    for (index, detector) in pack.detectors.iter().enumerate() {
        let Some(pattern) = &detector.pattern else { continue };
        let Ok(hir) = expression::parsed(pattern.folded(), detector.form) else { continue };
        let beside = detector.near.as_deref().map(beside).unwrap_or_default();
        let count = Choice(0).texts(&hir).len();
        for at in 0..count {
            match fires(pack, index, &hir, at, &beside) {
                Ok(()) => tried.fired += 1,
                Err((Some(why), _)) => {
                    let skipped = tried.skipped.entry(why).or_default();
                    *skipped.entry(detector.kind.clone()).or_default() += 1;
                }
                Err((None, text)) => {
                    tried.silent.push(format!("{index} {}: {text:?}", detector.kind));
                }
            }
        }
    }
    tried
}

/// Returns texts of the context that a finding requires.
fn beside(near: &Expression) -> Vec<String> {
    let Ok(hir) = expression::parsed(near.folded(), TextForm::Normalised) else {
        return Vec::new();
    };
    Choice(0).texts(&hir).into_iter().filter(|text| text.len() < BEFORE - 4).take(3).collect()
}

/// Succeeds if an alternative of a detector fires in some text; else returns the text, with a
/// reason to skip it, if any.
fn fires(
    pack: &Pack,
    index: usize,
    hir: &Hir,
    at: usize,
    beside: &[String],
) -> Result<(), (Option<&'static str>, String)> {
    let detector = &pack.detectors[index];
    let ways = if detector.validate.is_some() { WAYS } else { 3 };
    let mut best = (Some("no text of it was made"), String::new());
    for way in 0..ways {
        let Some(text) = Choice(way).texts(hir).into_iter().nth(at) else { continue };
        let around = beside.iter().map(|near| format!(" {near} {text} "));
        for text in
            [format!(" {text} "), text.clone(), format!("\n{text}\n")].into_iter().chain(around)
        {
            match fires_in(pack, index, &text) {
                None => return Ok(()),
                Some(why) if rank(why) > rank(best.0.unwrap_or(SILENT)) => {
                    best = ((why != SILENT).then_some(why), text);
                }
                Some(_) => {}
            }
        }
    }
    if best.0.is_none() && WRITTEN_OUT.iter().any(|part| best.1.contains(part)) {
        best.0 = Some("white space is written out before a word");
    }
    Err(best)
}

const SILENT: &str = "it matches and is accepted";

fn rank(why: &str) -> usize {
    const REASONS: [&str; 5] = [
        "no text of it was made",
        "its check accepts no made text",
        "it asks for words beside it that were not made",
        "its words are among those that refuse it",
        SILENT,
    ];
    REASONS.iter().position(|known| *known == why).unwrap_or_default()
}

/// Returns the reason why a detector does not fire in a text; `None` if it does.
fn fires_in(pack: &Pack, index: usize, text: &str) -> Option<&'static str> {
    let scan = pack.scan(text, usize::MAX);
    if scan.hits.iter().any(|hit| usize::from(hit.detector) == index) {
        return None;
    }
    let detector = &pack.detectors[index];
    let normal = crate::normalise::shadow::Shadow::of(text).text;
    let small = OnceCell::new();
    let read = ReadText::of(normal.as_bytes(), &small);
    let found = detector.pattern.as_ref()?.look().find(&read, 0..=normal.len(), normal.len());
    let Some(found) = found else { return Some("no text of it was made") };
    let part = found.group.unwrap_or(found.whole);
    refused(detector, &normal, part)
}

fn refused(detector: &Detector, text: &str, part: Range<usize>) -> Option<&'static str> {
    let around =
        &text.as_bytes()[part.start.saturating_sub(BEFORE)..(part.end + AFTER).min(text.len())];
    let has = |context: &Option<Arc<Expression>>| {
        let small = OnceCell::new();
        context.as_deref().is_some_and(|it| it.is_match(&ReadText::of(around, &small)))
    };
    if detector.validate.is_some_and(|check| text.get(part).is_none_or(|part| !check.accepts(part)))
    {
        return Some("its check accepts no made text");
    }
    if detector.near.is_some() && !has(&detector.near) {
        return Some("it asks for words beside it that were not made");
    }
    if has(&detector.not_near) || has(&detector.denied) {
        return Some("its words are among those that refuse it");
    }
    (detector.count_min == 1).then_some(SILENT)
}
