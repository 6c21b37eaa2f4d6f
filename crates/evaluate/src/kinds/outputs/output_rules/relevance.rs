//! Rules of the bundle `relevance`: an answer compared with its question.
//!
//! Verdicts derive from common words. Words can show that an answer refuses, promises, echoes or
//! has another topic, and usually that it is relevant. A rule is skipped if they cannot, as for a
//! translation, code or another language.

use super::builtin::detected;
use super::reading::Reading;
use super::rule::{OutputRule, RuleSubject, Verdict};
use super::settings::Thresholds;
use spanscore_detect::pack::names;

/// Returns the rules in order; those for answers only if `is_answer`.
pub(super) fn rules(set: &Thresholds, is_answer: bool) -> Vec<OutputRule> {
    let keywords = set.keyword_overlap;
    let topic = set.topic_consistency;
    let least = set.topic_consistency_min_words.unwrap_or(6.0);
    let mut rules = vec![
        OutputRule::new("keyword_overlap", 1.0, move |s| keyword_overlap(s, keywords)),
        OutputRule::new(names::REFUSAL, 1.0, |s| {
            let verdict = detected(s, names::REFUSAL, "no refusal or hedge", "refusal or hedge");
            let score = (1.0 - 0.3 * s.hits(names::REFUSAL).count() as f64).max(0.0);
            Verdict { score, ..verdict }
        }),
        OutputRule::new("topic_consistency", 1.0, move |s| topic_consistency(s, topic, least)),
    ];
    if is_answer {
        rules.push(OutputRule::new("answers_question", 2.0, answers_question).critical());
    }
    rules
}

/// Default share of the input's words below which words are inconclusive.
const OVERLAP: f64 = 0.35;
/// Default share of the sentences below which words are inconclusive.
const TOPIC: f64 = 0.10;
/// Fewest content words of an off-topic text without any word of the input, then fewest words of
/// that input.
const BESIDE_WORDS: usize = 8;
const ASKED_WORDS: usize = 5;
/// Most content words of a short answer that may be complete.
const TERSE_WORDS: usize = 3;

/// Fails an answer that misses the question: a refusal, a promise, an echo, another topic. Passes a
/// short one, and one with words of the question; others are skipped.
fn answers_question(s: &RuleSubject<'_>) -> Verdict {
    if let Some(fault) = s.fault().filter(|fault| fault.is_beside_the_point()) {
        return Verdict::binary(false, fault.words().into());
    }
    let Some(input) = s.input.filter(|input| !input.is_blank()) else {
        return Verdict::skipped(NO_INPUT.0, NO_INPUT.1);
    };
    let has = &s.reading.words().keys;
    let shared = has.iter().filter(|&&key| input.keys().find(key).is_some()).count();
    if shared > 0 || has.len() <= TERSE_WORDS || s.text().len() <= TERSE_BYTES {
        return Verdict::binary(true, "it can answer the question".into());
    }
    if is_beside(s, input) {
        return Verdict::binary(false, "it shares no word with the question".into());
    }
    Verdict::skipped("words cannot tell", CANNOT_TELL)
}

/// Most bytes of a short answer that may be complete.
const TERSE_BYTES: usize = 24;
const CANNOT_TELL: &str = "too few words in common to tell: a translation, a paraphrase, code";

/// Returns true if a text without words of the input is off topic: it is prose of the same script,
/// both are long enough, and the input requests no text with other words.
fn is_beside(s: &RuleSubject<'_>, input: &Reading<'_>) -> bool {
    const MADE: [&str; 24] = [
        "translat", "summar", "write", "rewrite", "paraphras", "refactor", "answer in", "poem",
        "haiku", "joke", "story", "code", "function", "sql", "json", "regex", "convert", "extract",
        "compare", "explain", "traduc", "tradui", "ubersetz", "übersetz",
    ];
    let asked = input.text.to_lowercase();
    let is_prose = |text: &str| !text.contains("```") && !text.starts_with(['{', '[', '<', '|']);
    let same_script = input.text.is_ascii() == s.text().is_ascii()
        || share_of_ascii(&input.text) > 0.8 && share_of_ascii(s.text()) > 0.8;
    is_prose(s.text().trim())
        && same_script
        && s.reading.words().keys.len() >= BESIDE_WORDS
        && input.keys().distinct.len() >= ASKED_WORDS
        && !MADE.iter().any(|made| asked.contains(made))
}

fn share_of_ascii(text: &str) -> f64 {
    text.bytes().filter(u8::is_ascii).count() as f64 / text.len().max(1) as f64
}

const NO_INPUT: (&str, &str) = ("no user input", "user input not recorded");

fn keyword_overlap(s: &RuleSubject<'_>, wanted: Option<f64>) -> Verdict {
    let Some(input) = s.input.filter(|input| !input.is_blank()) else {
        return Verdict::skipped(NO_INPUT.0, NO_INPUT.1);
    };
    let asked = input.keys();
    let has = &s.reading.words().keys;
    if asked.distinct.is_empty() {
        return Verdict::skipped("no words in the input", "input has no content words");
    }
    if has.iter().all(|&key| Some(&key) == has.first()) {
        return Verdict::skipped("too short to compare", "output has one content word or none");
    }
    if has.iter().all(|&key| asked.find(key).is_some()) {
        return Verdict::scored(false, 0.0, "the output only repeats the input".into());
    }
    let found = asked.among(has).into_iter().filter(|&seen| seen).count();
    let count = asked.distinct.len();
    let ratio = found as f64 / count as f64;
    if ratio < OVERLAP && wanted.is_none() {
        return Verdict::skipped("words cannot tell", CANNOT_TELL);
    }
    let least = wanted.unwrap_or(OVERLAP);
    let message = s.say(|| format!("{found} of {count} words of the input"));
    Verdict::scored(ratio >= least, (ratio * 2.0).min(1.0), message)
}

fn topic_consistency(s: &RuleSubject<'_>, wanted: Option<f64>, words_min: f64) -> Verdict {
    let Some(input) = s.input.filter(|input| !input.is_blank()) else {
        return Verdict::skipped(NO_INPUT.0, NO_INPUT.1);
    };
    let asked = input.keys();
    let words = s.reading.words();
    if asked.distinct.is_empty() || (words.keys.len() as f64) < words_min {
        return Verdict::skipped("too short to judge its topic", "too few content words");
    }
    let units = s.reading.units();
    let mut connected = 0;
    let mut next = 0;
    for (&key, &place) in words.keys.iter().zip(&words.places) {
        // Only the first word of each unit that occurs in the input counts.
        if units.get(next).is_none_or(|unit| place < unit.start) || asked.find(key).is_none() {
            continue;
        }
        next += units[next..].iter().take_while(|unit| unit.end <= place).count();
        if units.get(next).is_some_and(|unit| unit.contains(&place)) {
            connected += 1;
            next += 1;
        }
    }
    let ratio = connected as f64 / units.len().max(1) as f64;
    if ratio < TOPIC && wanted.is_none() {
        return Verdict::skipped("words cannot tell", CANNOT_TELL);
    }
    let least = wanted.unwrap_or(TOPIC);
    let message = s.say(|| format!("{connected} of {} sentences speak of the input", units.len()));
    Verdict::scored(ratio >= least, (ratio * 5.0).min(1.0), message)
}
