//! Faults in the form of an answer: empty, only a refusal, promise or apology, an echo, or
//! truncated.
//!
//! The input is an answer and its question, the output an obvious fault or none. Phrases cover the
//! ten most spoken languages and some more. An answer is a refusal, a promise or an apology only if
//! all of its sentences are, so that a polite and helpful one passes. Linear; only the end of
//! answers over [`FORM_BYTES_MAX`] is checked.

mod cut;
mod phrases;

use super::reading::Reading;
use super::words;

pub(super) use cut::is_open_structure;

/// Longest answer with separately checked sentences; a longer one has content.
const FORM_BYTES_MAX: usize = 600;
/// Limit on the sentences of an answer that only refuses, promises or apologises.
const SENTENCES_MAX: usize = 5;

/// Obvious fault of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerFault {
    /// No content: blanks, full stops, `N/A`, empty JSON, an empty code block.
    Empty,
    /// It refuses, or says that it does not know.
    Refusal,
    /// It promises to do the task.
    Promise,
    /// It only apologises.
    Apology,
    /// It repeats the question.
    Echo,
    /// It announces a missing list, code or text.
    LeadIn,
    /// It ends within a sentence, list, table, code block or JSON.
    Cut,
}

impl AnswerFault {
    /// Finds the fault of an answer to a question.
    pub(super) fn of(answer: &Reading<'_>, question: Option<&Reading<'_>>) -> Option<Self> {
        let text = answer.text.trim();
        if says_nothing(text) {
            return Some(Self::Empty);
        }
        if text.len() <= FORM_BYTES_MAX {
            if question.is_some_and(|question| is_echo(answer, question)) {
                return Some(Self::Echo);
            }
            if let Some(fault) = of_sentences(answer) {
                return Some(fault);
            }
        }
        if cut::is_lead_in(text) {
            return Some(Self::LeadIn);
        }
        cut::is_cut(text).then_some(Self::Cut)
    }

    /// Describes the fault for a person.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Empty => "the answer says nothing",
            Self::Refusal => "the answer only refuses",
            Self::Promise => "the answer only promises",
            Self::Apology => "the answer only apologises",
            Self::Echo => "the answer repeats the question",
            Self::LeadIn => "the answer announces what does not follow",
            Self::Cut => "the answer stops in the middle",
        }
    }

    /// Returns true if the fault misses the question, instead of answering it in part.
    pub(super) fn is_beside_the_point(self) -> bool {
        !matches!(self, Self::LeadIn | Self::Cut)
    }
}

/// Returns true if the text has no content for a person.
fn says_nothing(text: &str) -> bool {
    let body: String = text
        .trim_matches(|c: char| c == '`' || c.is_whitespace())
        .chars()
        .filter(|c| !c.is_whitespace())
        .take(16)
        .collect::<String>()
        .to_lowercase();
    words::is_invisible(text)
        || matches!(
            body.trim_end_matches('.'),
            "" | "n/a" | "na" | "null" | "undefined" | "nan" | "{}" | "[]" | "\"\"" | "tbd" | "…"
        )
        || (text.len() <= 64 && !text.chars().any(char::is_alphanumeric) && !has_symbol(text))
}

/// Returns true for a symbol that can be an answer: an operator, an emoji.
fn has_symbol(text: &str) -> bool {
    text.chars().any(|c| matches!(c, '+' | '*' | '/' | '<' | '>' | '=' | '%' | '&' | '|' | '^'))
        || text.chars().any(|c| c as u32 >= 0x1f000 || ('\u{2190}'..'\u{2c00}').contains(&c))
}

/// Returns true if the answer equals the question, or restates it with almost no new word.
fn is_echo(answer: &Reading<'_>, question: &Reading<'_>) -> bool {
    let asked = question.keys();
    let has = answer.keys();
    let plain = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    if plain(&answer.text) == plain(&question.text) {
        return true;
    }
    let shared = has.distinct.iter().filter(|&&key| asked.find(key).is_some()).count();
    let new = has.distinct.len() - shared;
    phrases::restates(&answer.text)
        && shared >= 2
        && shared * 4 >= asked.distinct.len() * 3
        && new <= 2
}

/// Finds the fault common to all sentences of an answer.
fn of_sentences(answer: &Reading<'_>) -> Option<AnswerFault> {
    let units = answer.units();
    if units.is_empty() || units.len() > SENTENCES_MAX {
        return None;
    }
    let mut found: Option<AnswerFault> = None;
    for unit in units {
        let sentence = answer.text.get(unit.start as usize..unit.end as usize)?;
        match phrases::kind(sentence) {
            phrases::SentenceKind::Other => return None,
            phrases::SentenceKind::Courtesy => {}
            phrases::SentenceKind::Fault(fault) => {
                let rank = |fault: AnswerFault| match fault {
                    AnswerFault::Refusal => 2,
                    AnswerFault::Promise => 1,
                    _ => 0,
                };
                found = found.filter(|known| rank(*known) >= rank(fault)).or(Some(fault));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(question: &str, answer: &str, fault: Option<AnswerFault>) {
        let question = Reading::new(question);
        let answer = Reading::new(answer);
        assert_eq!(AnswerFault::of(&answer, Some(&question)), fault, "{}", answer.text);
    }

    #[test]
    fn terse_answers_are_answers() {
        for answer in ["42", "Yes.", "Lima.", "27 May 1937", "ls -a", "{\"a\": 1}", "巴黎", "✅"]
        {
            check("What is it?", answer, None);
        }
    }

    #[test]
    fn faults_are_seen_at_sight() {
        check("Show it.", "...", Some(AnswerFault::Empty));
        check("Show it.", "```\n```", Some(AnswerFault::Empty));
        check("Show it.", "I'm sorry, but I can't help with that.", Some(AnswerFault::Refusal));
        check("Show it.", "Let me check that for you.", Some(AnswerFault::Promise));
        check("Show it.", "Sorry about that!", Some(AnswerFault::Apology));
        check("How do I pay?", "How do I pay?", Some(AnswerFault::Echo));
        check("List them.", "Here are the tickets:", Some(AnswerFault::LeadIn));
        check("Why?", "The disk was full because of the", Some(AnswerFault::Cut));
        check("Why?", "{\"items\": [1, 2", Some(AnswerFault::Cut));
    }

    #[test]
    fn help_beside_a_refusal_is_an_answer() {
        let answer = "I can't delete it without approval. File the request under Storage.";
        check("Delete it.", answer, None);
        check("Is it insured?", "Sorry for the wait. Your parcel is insured up to 500 EUR.", None);
    }
}
