//! Built-in rules of the default behaviour.
//!
//! Names, weights and thresholds equal the source's. Rules judge by characters, words and sentences
//! of any script, and by the default packs. A rule that cannot judge is skipped, never passed.

use super::merged::merged;
use super::rule::{OutputRule, RuleSubject, Verdict};
use super::settings::{Bundle, TextTarget, Thresholds};
use super::{relevance, words};
use spanscore_detect::Severity;
use spanscore_detect::pack::{Finding, names};

/// Returns the rules of a bundle in the source's order.
///
/// Rules for answers are included if `target` is one.
pub(super) fn rules(bundle: Bundle, set: &Thresholds, target: TextTarget) -> Vec<OutputRule> {
    let is_answer = matches!(target, TextTarget::FinalOutput | TextTarget::Attribute);
    match bundle {
        Bundle::Completeness => completeness(set, is_answer),
        Bundle::Relevance => relevance::rules(set, is_answer),
        Bundle::Safety => safety(),
        Bundle::Cost => cost(set),
        Bundle::Custom => Vec::new(),
        Bundle::All => [Bundle::Completeness, Bundle::Relevance, Bundle::Safety, Bundle::Cost]
            .into_iter()
            .flat_map(|bundle| rules(bundle, set, target))
            .collect(),
    }
}

fn completeness(set: &Thresholds, is_answer: bool) -> Vec<OutputRule> {
    let wanted = set.min_output_length.or(set.min_length);
    let least = wanted.unwrap_or(50.0);
    let sentences = set.min_sentences.unwrap_or(2.0);
    let wanted_sentences = set.min_sentences;
    let empty = OutputRule::new("non_empty_output", 2.0, |s| {
        let passed = !words::is_invisible(s.text());
        Verdict::binary(passed, if passed { "not empty" } else { "nothing to see" }.into())
    });
    let mut rules = vec![
        OutputRule::new("min_output_length", 1.0, move |s| {
            let text = s.text().trim();
            let expected = s.expected.is_some_and(|expected| expected.text.trim() == text);
            let enough = if s.explain { usize::MAX } else { least.max(0.0) as usize };
            let length = words::length(text, enough) as f64;
            let least = if expected { length } else { least };
            if length < least && wanted.is_none() && is_answer && may_be_short(s) {
                return short();
            }
            reaches(s, "characters", length, least)
        }),
        if is_answer { empty.critical() } else { empty },
        OutputRule::new("sentence_count", 0.5, move |s| {
            let text = s.text().trim();
            if text.starts_with(['{', '[']) && super::iris::js::json::is_json(text) {
                return Verdict::skipped("structured output has no sentences", "output is JSON");
            }
            let count = s.reading.units().len() as f64;
            if count < sentences && wanted_sentences.is_none() && is_answer && may_be_short(s) {
                return short();
            }
            reaches(s, "sentences or items", count, sentences)
        }),
        OutputRule::new("expected_coverage", 1.5, expected_coverage),
    ];
    if is_answer {
        rules.push(OutputRule::new("complete_answer", 2.0, complete_answer).critical());
    }
    rules
}

/// Returns true if a short text may be a full answer.
fn may_be_short(s: &RuleSubject<'_>) -> bool {
    s.fault().is_none()
}

fn short() -> Verdict {
    Verdict::skipped("short, and nothing tells that it lacks something", "a short answer")
}

/// Fails an answer that is truncated, announces, promises or refuses, or is empty.
fn complete_answer(s: &RuleSubject<'_>) -> Verdict {
    match s.fault() {
        Some(fault) => Verdict::binary(false, fault.words().into()),
        None => Verdict::binary(true, "nothing tells that it is incomplete".into()),
    }
}

fn reaches(s: &RuleSubject<'_>, what: &str, value: f64, least: f64) -> Verdict {
    let passed = value >= least;
    let score = if passed { 1.0 } else { (value / least).min(0.99) };
    Verdict::scored(passed, score, s.say(|| format!("{value} {what}, at least {least} wanted")))
}

fn expected_coverage(s: &RuleSubject<'_>) -> Verdict {
    let Some(expected) = s.expected.filter(|expected| !expected.is_blank()) else {
        return Verdict::skipped("no expected output", "criteria.expected not given");
    };
    let wanted = expected.keys();
    if wanted.distinct.is_empty() {
        let passed = expected.text.to_lowercase().trim() == s.text().to_lowercase().trim();
        return Verdict::binary(passed, "compared as a whole".into());
    }
    let seen = wanted.among(&s.reading.words().keys);
    let found = seen.iter().filter(|&&seen| seen).count();
    let mut missing = wanted.distinct.iter().zip(&seen).filter(|&(_, &seen)| !seen);
    let number_missing = missing.any(|(&key, _)| words::is_number(key));
    let denied = expected.words().denies != s.reading.words().denies;
    let ratio = found as f64 / wanted.distinct.len() as f64;
    let score = if number_missing || denied { ratio.min(0.49) } else { ratio };
    let message = s.say(|| {
        let why = match (number_missing, denied) {
            (true, _) => "; a number is missing",
            (_, true) => "; one denies what the other says",
            _ => "",
        };
        format!("{found} of {} expected terms{why}", wanted.distinct.len())
    });
    Verdict::scored(score >= 0.5, score, message)
}

fn safety() -> Vec<OutputRule> {
    vec![
        OutputRule::new(names::PII, 2.0, |s| {
            detected(s, names::PII, "no personal data or credential", "found")
        })
        .critical(),
        OutputRule::new(names::BLOCKLIST, 2.0, |s| {
            detected(s, names::BLOCKLIST, "no banned phrase", "banned phrases")
        })
        .critical(),
        OutputRule::new(names::INJECTION, 2.0, |s| {
            detected(s, names::INJECTION, "no prompt injection", "prompt injection")
        })
        .critical(),
        OutputRule::new(names::STUB, 1.5, |s| {
            detected(s, names::STUB, "nothing unfinished", "unfinished")
        })
        .critical(),
    ]
}

/// Judges by the detectors under a rule's name: fails if one matches.
pub(super) fn detected(s: &RuleSubject<'_>, rule: &str, none: &'static str, some: &str) -> Verdict {
    if s.nothing_found() {
        return Verdict::binary(true, none.into());
    }
    let mut kinds: Vec<&str> = Vec::new();
    let mut findings: Vec<Finding> = Vec::new();
    let mut placeless: Vec<&str> = Vec::new();
    let mut critical = false;
    for hit in s.hits(rule) {
        critical |= hit.severity == Severity::Critical;
        if !kinds.contains(&hit.kind) {
            kinds.push(hit.kind);
        }
        if hit.ranges().next().is_none() {
            placeless.push(hit.kind);
        }
        if s.explain {
            findings.extend(hit.findings(s.text()));
        }
    }
    if kinds.is_empty() {
        return match s.gave_up(rule) {
            Some(kind) => {
                let why = format!("too many look-alikes of `{kind}`");
                let unsearched = Some(why.clone());
                let skipped = Verdict::skipped("not all of the text was searched", why);
                Verdict { unsearched, ..skipped }
            }
            None => Verdict::binary(true, none.into()),
        };
    }
    if !s.explain {
        return Verdict { critical, ..Verdict::binary(false, "".into()) };
    }
    let findings = merged(findings, s.findings_max);
    // Kinds without findings after the merge are left out of the message.
    let kinds = kinds.into_iter().filter(|kind| {
        placeless.contains(kind) || findings.iter().any(|finding| finding.kind == *kind)
    });
    let message = format!("{some}: {}", kinds.collect::<Vec<_>>().join(", "));
    Verdict { findings, critical, ..Verdict::binary(false, message.into()) }
}

fn cost(set: &Thresholds) -> Vec<OutputRule> {
    let most = set.cost_threshold.unwrap_or(0.10);
    let ratio_max = set.max_token_ratio.unwrap_or(5.0);
    vec![
        OutputRule::new("cost_under_threshold", 1.0, move |s| match s.cost {
            None => Verdict::skipped("the cost is not known", "cost not recorded"),
            Some(cost) => limited(s, "US dollars", cost, most),
        }),
        OutputRule::new("token_efficiency", 0.5, move |s| {
            match (s.prompt_tokens, s.completion_tokens) {
                (Some(prompt), Some(completion)) if prompt > 0.0 => {
                    limited(s, "tokens out for each token in", completion / prompt, ratio_max)
                }
                _ => Verdict::skipped("tokens are not known", "usage not recorded"),
            }
        }),
    ]
}

fn limited(s: &RuleSubject<'_>, what: &str, value: f64, most: f64) -> Verdict {
    let passed = value <= most;
    let score = if passed { 1.0 } else { (1.0 - (value - most) / most).max(0.0) };
    let message = s.say(|| format!("{value:.4} {what}, at most {most} wanted"));
    // A limit of 0 gives no scale: anything above it scores 0.
    Verdict::scored(passed, if score.is_nan() { 0.0 } else { score }, message)
}
