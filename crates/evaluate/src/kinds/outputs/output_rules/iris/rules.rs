//! Built-in rules for `compat: iris`, exact copies of the source's semantics.
//!
//! Lengths, words, white space and printed numbers are JavaScript's ([`super::js`]); detectors are
//! the pack `iris.yaml`, run over the original text. Source: `iris-eval/mcp-server` 0.4.2.

use super::js;
use crate::kinds::outputs::output_rules::reading::Reading;
use crate::kinds::outputs::output_rules::rule::{OutputRule, RuleSubject, Verdict};
use crate::kinds::outputs::output_rules::settings::{Bundle, Thresholds};
use crate::kinds::outputs::output_rules::words;
use spanscore_detect::pack::names;

/// Returns the rules of a bundle in the source's order.
pub(in crate::kinds::outputs::output_rules) fn rules(
    bundle: Bundle,
    set: &Thresholds,
) -> Vec<OutputRule> {
    match bundle {
        Bundle::Completeness => completeness(set),
        Bundle::Relevance => relevance(set),
        Bundle::Safety => safety(set),
        Bundle::Cost => cost(set),
        Bundle::Custom => Vec::new(),
        Bundle::All => [Bundle::Completeness, Bundle::Relevance, Bundle::Safety, Bundle::Cost]
            .into_iter()
            .flat_map(|bundle| rules(bundle, set))
            .collect(),
    }
}

fn completeness(set: &Thresholds) -> Vec<OutputRule> {
    // Iris never reads its alias `min_length`, since the default of `min_output_length` hides it.
    let least = set.min_output_length.unwrap_or(50.0);
    let sentences = set.min_sentences.unwrap_or(2.0);
    vec![
        OutputRule::new("min_output_length", 1.0, move |s| {
            reaches(s, "Output length", js::length(s.text()) as f64, least)
        }),
        OutputRule::new("non_empty_output", 2.0, |s| {
            let passed = !js::is_blank(s.text());
            Verdict::binary(
                passed,
                if passed { "Output is non-empty" } else { "Output is empty or whitespace-only" }
                    .into(),
            )
        }),
        OutputRule::new("sentence_count", 0.5, move |s| {
            let count = s.text().split(['.', '!', '?']).filter(|part| !js::is_blank(part)).count();
            reaches(s, "Sentence count", count as f64, sentences)
        }),
        OutputRule::new("expected_coverage", 1.5, expected_coverage),
    ]
}

fn reaches(s: &RuleSubject<'_>, what: &str, value: f64, least: f64) -> Verdict {
    let passed = value >= least;
    let score = if passed { 1.0 } else { min(value / least, 0.99) };
    Verdict::scored(
        passed,
        score,
        s.say(|| {
            let verb = if passed { "meets" } else { "below" };
            format!("{what} ({}) {verb} minimum ({})", js::number(value), js::number(least))
        }),
    )
}

/// Returns the smaller number as `Math.min` does: NaN wins.
fn min(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}

fn expected_coverage(s: &RuleSubject<'_>) -> Verdict {
    let Some(expected) = s.expected.filter(|expected| !expected.text.is_empty()) else {
        return Verdict::skipped("No expected output provided", "context.expected not provided");
    };
    let (wanted, found) = overlap(expected, s.reading);
    if wanted == 0 {
        return Verdict::binary(true, "No meaningful words in expected output".into());
    }
    let ratio = found as f64 / wanted as f64;
    let message = s.say(|| {
        format!("Covered {found}/{wanted} expected terms ({}%)", js::to_fixed(ratio * 100.0, 0))
    });
    Verdict::scored(ratio >= 0.5, ratio, message)
}

/// Counts the distinct words of over two characters in `wanted`, and those of them in `text`.
fn overlap(wanted: &Reading<'_>, text: &Reading<'_>) -> (usize, usize) {
    let seen = wanted.ascii_keys().among(text.ascii_words());
    (seen.len(), seen.iter().filter(|&&seen| seen).count())
}

fn relevance(set: &Thresholds) -> Vec<OutputRule> {
    let keywords = set.keyword_overlap.unwrap_or(0.35);
    let topic = set.topic_consistency.unwrap_or(0.10);
    let least = set.topic_consistency_min_words.unwrap_or(6.0);
    vec![
        OutputRule::new("keyword_overlap", 1.0, move |s| keyword_overlap(s, keywords)),
        OutputRule::new("no_hallucination_markers", 1.0, hallucination_markers),
        OutputRule::new("topic_consistency", 1.0, move |s| topic_consistency(s, topic, least)),
    ]
}

fn keyword_overlap(s: &RuleSubject<'_>, least: f64) -> Verdict {
    let Some(input) = s.input.filter(|input| !input.text.is_empty()) else {
        return Verdict::skipped("No input provided", "context.input not provided");
    };
    let (wanted, found) = overlap(input, s.reading);
    if wanted == 0 {
        return Verdict::binary(true, "No meaningful words in input".into());
    }
    let ratio = found as f64 / wanted as f64;
    let message = s.say(|| {
        let percent = js::to_fixed(ratio * 100.0, 0);
        format!("{found}/{wanted} input keywords found in output ({percent}%)")
    });
    Verdict::scored(ratio >= least, (ratio * 2.0).min(1.0), message)
}

fn hallucination_markers(s: &RuleSubject<'_>) -> Verdict {
    let mut markers = Vec::new();
    let mut citations = 0;
    let mut experts = 0;
    for hit in s.hits(names::REFUSAL) {
        match hit.kind {
            "citation" => citations = hit.count,
            "expert" => experts = hit.count,
            marker => markers.push(marker),
        }
    }
    let fabricated = citations >= 3 && experts >= 2;
    let issues = markers.len() + usize::from(fabricated);
    let message = s.say(|| match (markers.is_empty(), fabricated) {
        (true, false) => "No hallucination markers detected".to_owned(),
        (false, false) => format!("Found markers: {}", markers.join(", ")),
        (true, true) => "Heuristic: fabricated-citation pattern detected (3+ numbered citations + \
                         expert markers)"
            .to_owned(),
        (false, true) => {
            format!("Markers: {}; plus fabricated-citation heuristic", markers.join(", "))
        }
    });
    Verdict::scored(issues == 0, (1.0 - issues as f64 * 0.3).max(0.0), message)
}

fn topic_consistency(s: &RuleSubject<'_>, least: f64, words_min: f64) -> Verdict {
    let Some(input) = s.input.filter(|input| !input.text.is_empty()) else {
        return Verdict::skipped("No input provided", "context.input not provided");
    };
    let asked = input.ascii_keys();
    let long = |key: &&u64| words::is_over_three(**key);
    let words = || s.reading.ascii_words().iter().filter(long);
    let count = words().count();
    if !asked.distinct.iter().any(|key| long(&key)) || count == 0 {
        return Verdict::skipped(
            "Insufficient text for topic analysis",
            "input or output has no words > 3 chars",
        );
    }
    if (count as f64) < words_min {
        let min = js::number(words_min);
        let message = format!(
            "Output too brief for meaningful topic analysis ({count} words ≥ 4 chars; min {min})"
        );
        let why = format!("output has < {min} words ≥ 4 chars");
        return Verdict { passed: true, score: 1.0, ..Verdict::skipped(message, why) };
    }
    let related = words().filter(|&&key| asked.find(key).is_some()).count();
    let ratio = related as f64 / count as f64;
    let message = s.say(|| {
        let percent = js::to_fixed(ratio * 100.0, 1);
        format!("Topic consistency: {percent}% of output words relate to input")
    });
    Verdict::scored(ratio >= least, (ratio * 5.0).min(1.0), message)
}

fn safety(set: &Thresholds) -> Vec<OutputRule> {
    let words = set.blocklist.as_ref().map(|list| lower_all(list));
    let stubs = set.stub_markers.clone();
    let folded: Option<Vec<String>> =
        stubs.as_ref().map(|list| list.iter().map(|marker| marker.to_uppercase()).collect());
    vec![
        OutputRule::new("no_pii", 2.0, |s| {
            let kinds: Vec<&str> = s.hits(names::PII).map(|hit| hit.kind).collect();
            s.named(&kinds, "No PII detected", "Potential PII detected")
        }),
        OutputRule::new("no_blocklist_words", 2.0, move |s| {
            let count = match &words {
                None => s.hits(names::BLOCKLIST).count(),
                Some(words) => {
                    let text = s.text().to_lowercase();
                    words.iter().filter(|word| text.contains(*word)).count()
                }
            };
            counted(s, count, "No blocklisted content found", "Blocklisted content found")
        }),
        OutputRule::new("no_injection_patterns", 2.0, |s| {
            let count = s.hits(names::INJECTION).count();
            let found = "Potential injection patterns detected";
            counted(s, count, "No injection patterns detected", found)
        }),
        OutputRule::new("no_stub_output", 1.5, move |s| {
            let found: Vec<&str> = match (&stubs, &folded) {
                (Some(stubs), Some(folded)) => {
                    let text = s.text().to_uppercase();
                    let hits =
                        stubs.iter().zip(folded).filter(|(_, marker)| text.contains(*marker));
                    hits.map(|(name, _)| name.as_str()).collect()
                }
                _ => s.hits(names::STUB).map(|hit| hit.kind).collect(),
            };
            let none = "No stub/placeholder markers detected";
            s.named(&found, none, "Stub/placeholder markers detected")
        }),
    ]
}

/// Converts texts to lower case.
pub(in crate::kinds::outputs::output_rules) fn lower_all(list: &[String]) -> Vec<String> {
    list.iter().map(|word| word.to_lowercase()).collect()
}

fn counted(s: &RuleSubject<'_>, count: usize, none: &'static str, some: &str) -> Verdict {
    let message =
        if count == 0 { none.into() } else { s.say(|| format!("{some}: {count} match(es)")) };
    Verdict::binary(count == 0, message)
}

fn cost(set: &Thresholds) -> Vec<OutputRule> {
    let most = set.cost_threshold.unwrap_or(0.10);
    let ratio_max = set.max_token_ratio.unwrap_or(5.0);
    vec![
        OutputRule::new("cost_under_threshold", 1.0, move |s| {
            let Some(cost) = s.cost else {
                return Verdict::skipped("Cost data not provided", "context.costUsd not provided");
            };
            let passed = cost <= most;
            let message = s.say(|| {
                let verb = if passed { "is under" } else { "exceeds" };
                let cost = js::to_fixed(cost, 4);
                let most = js::to_fixed(most, 4);
                format!("Cost (${cost}) {verb} threshold (${most})")
            });
            Verdict::scored(passed, under(cost, most), message)
        }),
        OutputRule::new("token_efficiency", 0.5, move |s| {
            let (Some(prompt), Some(completion)) =
                (s.prompt_tokens.filter(|&tokens| tokens != 0.0), s.completion_tokens)
            else {
                let why = "context.tokenUsage not provided";
                return Verdict::skipped("Token usage not provided", why);
            };
            let ratio = completion / prompt;
            let passed = ratio <= ratio_max;
            let message = s.say(|| {
                let ratio = js::to_fixed(ratio, 2);
                let most = js::number(ratio_max);
                if passed {
                    format!("Token ratio ({ratio}) is within limits (max {most})")
                } else {
                    format!("Token ratio ({ratio}) exceeds max ({most})")
                }
            });
            Verdict::scored(passed, under(ratio, ratio_max), message)
        }),
    ]
}

/// Returns 1 up to the limit, falling to 0 at twice the limit.
fn under(value: f64, most: f64) -> f64 {
    if value <= most { 1.0 } else { max0(1.0 - (value - most) / most) }
}

fn max0(value: f64) -> f64 {
    if value.is_nan() || value > 0.0 { value } else { 0.0 }
}
