//! Checks of a text for keywords, in any case.

use super::rule::{RuleCheck, Verdict};

/// Keyword, as written and in lower case.
pub(super) struct Keyword {
    written: String,
    lower: String,
}

impl From<String> for Keyword {
    fn from(written: String) -> Self {
        Self { lower: written.to_lowercase(), written }
    }
}

/// Returns a check that scores the share of the keywords found, of which `told` tells.
pub(super) fn contains(
    words: Vec<Keyword>,
    least: f64,
    told: fn(usize, usize) -> String,
) -> RuleCheck {
    Box::new(move |s| {
        let text = s.text().to_lowercase();
        let found = words.iter().filter(|word| text.contains(&word.lower)).count();
        let score = found as f64 / words.len() as f64;
        Verdict::scored(score >= least, score, s.say(|| told(found, words.len())))
    })
}

/// Returns a check that passes if no keyword is found.
pub(super) fn excludes(words: Vec<Keyword>, none: &'static str, some: &'static str) -> RuleCheck {
    Box::new(move |s| {
        let text = s.text().to_lowercase();
        let found = words.iter().filter(|word| text.contains(&word.lower));
        s.named(&found.map(|word| word.written.as_str()).collect::<Vec<_>>(), none, some)
    })
}
