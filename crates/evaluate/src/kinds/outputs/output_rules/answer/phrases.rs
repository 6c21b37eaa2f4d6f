//! Classification of sentences as refusal, promise, apology or courtesy in the most spoken
//! languages.
//!
//! Only a short sentence can be one of them: a long explanation has content.

use std::sync::LazyLock;

use regex::Regex;

use super::AnswerFault;

/// Longest sentence that only refuses, promises or apologises, characters.
const SENTENCE_CHARS_MAX: usize = 160;

/// Class of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentenceKind {
    /// Greeting, agreement or thanks.
    Courtesy,
    /// Refusal, promise or apology.
    Fault(AnswerFault),
    /// Any other sentence: it has content.
    Other,
}

const REFUSAL: &str = include_str!("phrases/refusal.regex");

const PROMISE: &str = include_str!("phrases/promise.regex");

const APOLOGY: &str = include_str!("phrases/apology.regex");

const COURTESY: &str = include_str!("phrases/courtesy.regex");

const RESTATES: &str = include_str!("phrases/restates.regex");

/// Compiles a case-insensitive pattern; `None` never happens, as the patterns are tested.
fn compiled(pattern: &str) -> Option<Regex> {
    Regex::new(&format!("(?i){pattern}")).ok()
}

static PATTERNS: LazyLock<[Option<Regex>; 5]> =
    LazyLock::new(|| [REFUSAL, PROMISE, APOLOGY, COURTESY, RESTATES].map(compiled));

fn has(index: usize, text: &str) -> bool {
    PATTERNS[index].as_ref().is_some_and(|pattern| pattern.is_match(text))
}

/// Classifies a sentence.
pub(super) fn kind(sentence: &str) -> SentenceKind {
    let sentence = sentence.replace('’', "'");
    if has(3, &sentence) {
        return SentenceKind::Courtesy;
    }
    if sentence.chars().nth(SENTENCE_CHARS_MAX).is_some() {
        return SentenceKind::Other;
    }
    let faults = [AnswerFault::Refusal, AnswerFault::Promise, AnswerFault::Apology];
    let found = faults.into_iter().enumerate().find(|(index, _)| has(*index, &sentence));
    match found {
        // A sentence that continues with "because", "so" or "but you can" has content.
        Some(_) if tells_more(&sentence) => SentenceKind::Other,
        Some((_, fault)) => SentenceKind::Fault(fault),
        None => SentenceKind::Other,
    }
}

fn tells_more(sentence: &str) -> bool {
    static MORE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        compiled(
            "(?x) \\b(?:because|but\\ you\\ can|however|instead|,\\ so\\ (?:it|you)|pero\\ puede \
             |mais\\ vous\\ pouvez|aber\\ sie\\ können|mas\\ você\\ pode)\\b \
             |но\\ вы\\ можете|但(?:您|你)可以",
        )
    });
    MORE.as_ref().is_some_and(|more| more.is_match(sentence))
}

/// Returns true if an answer restates its question ("you asked ...").
pub(super) fn restates(text: &str) -> bool {
    has(4, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_compile() {
        assert!(PATTERNS.iter().all(Option::is_some));
        assert!(!tells_more("no"));
    }

    #[test]
    fn sentences_are_told_apart() {
        let fault = SentenceKind::Fault;
        let check = |text: &str, wanted| assert_eq!(kind(text), wanted, "{text}");
        check("Of course!", SentenceKind::Courtesy);
        check("I’m unable to assist with this request.", fault(AnswerFault::Refusal));
        check("Je vérifie cela tout de suite.", fault(AnswerFault::Promise));
        check("ご迷惑をおかけして申し訳ございません。", fault(AnswerFault::Apology));
        check("The bridge opened in 1937.", SentenceKind::Other);
        check("I can't, because the policy asks for two people.", SentenceKind::Other);
    }
}
