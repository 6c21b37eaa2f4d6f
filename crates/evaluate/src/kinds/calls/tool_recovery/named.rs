//! Failures named by an answer, or by a model's message before its next calls.
//!
//! A sentence names a failed call if it states a failure and has a word of the tool's name, the
//! arguments or the error, or refers to the whole request. "I am sorry" names nothing.

use hashbrown::HashSet;

use crate::shared::{roles, sentences};
use spanscore_base::model::{ToolCall, Trajectory, WorkBudget};
use spanscore_base::value::{Map, Value};

/// Limit on the bytes read of one answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Limit on the answers read of a session, and on its other messages.
const ANSWERS_MAX: usize = 200;
/// Limit on the words that identify a call, and on those from its name and error; the rest is for
/// its arguments.
const CALL_WORDS_MAX: usize = 64;
const ERROR_WORDS_MAX: usize = 32;
/// Limit on the bytes read of an error.
const ERROR_BYTES_MAX: usize = 1024;
/// Steps per byte of an answer, and to compare two words.
const STEPS_PER_BYTE: usize = 4;
const STEPS_PER_PAIR: usize = 2;

/// Words that state a failure, by language.
const FAILURES: [&str; 117] = [
    "could not", "couldn't", "cannot", "can not", "can't", "unable", "not able", "was not",
    "wasn't", "were not", "weren't", "did not", "didn't", "does not", "doesn't", "has not",
    "hasn't", "have not", "haven't", "failed", "fails", "failure", "error", "errors",
    "difficulty accessing", "difficulty connecting", "difficulty retrieving", "difficulty with",
    "difficulties accessing", "difficulties with", "technical difficulty",
    "technical difficulties", "some difficulty", "some difficulties", "having difficulty",
    "having difficulties", "having trouble", "had trouble", "some trouble", "trouble accessing",
    "trouble connecting", "trouble retrieving", "trouble with", "unavailable", "not available",
    "inaccessible", "not found", "no record", "no records", "no result", "no results", "no data",
    "problem with", "a problem", "problems", "issue with", "an issue", "issues with",
    "technical issue", "technical issues", "declined", "denied", "rejected", "refused",
    "timed out", "timeout", "invalid", "not valid", "incorrect", "missing", "unsuccessful",
    "not successful", "not possible", "impossible", "exceeds", "exceeded", "insufficient",
    "not enough", "not permitted", "not allowed", "unauthorized", "not authorized", "not exist",
    "doesn't exist", "no such", "offline", "is down", "was down", "without success", "nicht",
    "fehler", "fehlgeschlagen", "keine", "no se pudo", "no pude", "no fue posible",
    "no está disponible", "falló", "n'a pas", "n'ai pas", "n'est pas", "impossible de", "erreur",
    "indisponible", "não foi possível", "não consegui", "falhou", "erro", "non è stato possibile",
    "non sono riuscito", "errore", "无法", "失败", "未能", "找不到", "できません", "失敗",
];
/// Words for the whole request.
const WHOLE: [&str; 10] = [
    "request", "requests", "task", "operation", "action", "lookup", "tool", "tools", "technical",
    "attempts",
];
/// Stop words, which identify no call.
const COMMON: [&str; 52] = [
    "get", "set", "run", "add", "all", "for", "the", "and", "new", "api", "mcp", "find", "search",
    "list", "look", "check", "data", "info", "information", "user", "users", "tool", "tools",
    "details", "result", "results", "with", "from", "this", "that", "have", "been", "your",
    "please", "which", "what", "there", "their", "could", "cannot", "error", "errors", "failed",
    "failure", "invalid", "found", "available", "value", "request", "status", "message", "should",
];

/// Sentence that states a failure.
struct FailureSentence {
    words: Vec<String>,
    /// True if it refers to the whole request, or its script has no spaces.
    names_all: bool,
    /// Only calls that started before are meant, Unix nanoseconds.
    before_ns: u64,
}

/// Kind of a text. A message with the word tool or task usually means the next one, so it names a
/// call only by the call's words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speech {
    Answer,
    Remark,
}

/// Sentences in a run's answers that state failures.
pub(super) struct NamedFailures<'t> {
    sentences: Vec<FailureSentence>,
    effort: &'t WorkBudget,
}

impl<'t> NamedFailures<'t> {
    pub(super) fn of(trajectory: &'t Trajectory<'_>) -> Self {
        let mut named = Self { sentences: Vec::new(), effort: &trajectory.effort };
        let turns = trajectory.turn_starts.iter().skip(1);
        for (exchange, next_ns) in trajectory.exchanges.iter().zip(turns).take(ANSWERS_MAX) {
            named.read(exchange.answer.value(), *next_ns, Speech::Answer);
        }
        named.read(trajectory.final_output.value(), u64::MAX, Speech::Answer);
        let ends = trajectory
            .tool_calls
            .iter()
            .filter(|call| trajectory.effort.spend(call.name.len()) && roles::is_end(&call.name));
        for call in ends.take(ANSWERS_MAX) {
            let said = call.arguments.value().and_then(Value::as_map).into_iter();
            said.flat_map(Map::iter)
                .for_each(|(_, text)| named.read(Some(text), call.start_ns, Speech::Remark));
        }
        let remarks = trajectory.remarks.iter().flat_map(|of| of.get(&trajectory.effort));
        for (end_ns, remark) in remarks.take(ANSWERS_MAX) {
            named.read(Some(remark), *end_ns, Speech::Remark);
        }
        named
    }

    fn read(&mut self, answer: Option<&Value<'_>>, before_ns: u64, speech: Speech) {
        let Some(answer) = answer else { return };
        let text = answer.to_text();
        let text = text[..text.floor_char_boundary(ANSWER_BYTES_MAX)].to_lowercase();
        let text = text.replace('\u{2019}', "'");
        if !self.effort.spend(text.len() * STEPS_PER_BYTE) {
            return;
        }
        for unit in sentences::units(&text) {
            let sentence = &text[unit.start as usize..unit.end as usize];
            if says_failure(sentence) {
                let words = roles::words(sentence);
                let is_whole = words.iter().any(|word| WHOLE.contains(&word.as_str()));
                let names_all =
                    speech == Speech::Answer && (is_whole || !sentence.trim().contains(' '));
                self.sentences.push(FailureSentence { words, names_all, before_ns });
            }
        }
    }

    /// Returns true if an answer after a failed call names its failure.
    pub(super) fn name(&self, call: &ToolCall<'_>) -> bool {
        if self.effort.is_spent() {
            return false;
        }
        let mut later = self.sentences.iter().filter(|it| call.start_ns < it.before_ns).peekable();
        if later.peek().is_none() {
            return false;
        }
        let words = call_words(call);
        later.any(|sentence| {
            let pairs = sentence.words.len() * words.len();
            if !self.effort.spend(pairs * STEPS_PER_PAIR) {
                return false;
            }
            let is_meant = |word: &String| words.iter().any(|own| is_same_word(own, word));
            sentence.names_all || sentence.words.iter().any(is_meant)
        })
    }
}

/// Returns true if a lower-case sentence contains a failure word as a whole word.
fn says_failure(sentence: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    FAILURES.iter().any(|phrase| {
        let is_spaced = phrase.chars().all(|c| c < '\u{2000}');
        sentence.match_indices(phrase).any(|(at, _)| {
            let before = sentence[..at].chars().next_back();
            let after = sentence[at + phrase.len()..].chars().next();
            !is_spaced || (!is_letter(before) && !is_letter(after))
        })
    })
}

/// Collects the words that identify a call: from its tool, error and arguments.
fn call_words(call: &ToolCall<'_>) -> HashSet<String> {
    let mut found: HashSet<String> = HashSet::new();
    let error = call.error.as_deref().or_else(|| call.result.value().and_then(Value::as_str));
    add_words(&mut found, &call.name, 3, ERROR_WORDS_MAX);
    match (error, call.result.value()) {
        (Some(error), _) => add_words(&mut found, error, 5, ERROR_WORDS_MAX),
        (None, Some(value)) => add_words(&mut found, &value.to_string(), 5, ERROR_WORDS_MAX),
        (None, None) => {}
    }
    let arguments = call.arguments.value().and_then(Value::as_map);
    for (_, value) in arguments.into_iter().flat_map(|it| it.iter()) {
        if found.len() >= CALL_WORDS_MAX {
            break;
        }
        match value {
            Value::String(text) => add_words(&mut found, text, 4, CALL_WORDS_MAX),
            Value::Number(number) => add_words(&mut found, &number.to_string(), 4, CALL_WORDS_MAX),
            _ => {}
        }
    }
    found
}

/// Adds distinctive words of a text with at least `least` characters, up to `most` in all.
fn add_words(found: &mut HashSet<String>, text: &str, least: usize, most: usize) {
    let text = &text[..text.floor_char_boundary(ERROR_BYTES_MAX)];
    for word in roles::words(text) {
        if found.len() >= most {
            break;
        }
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        let is_long = word.chars().count() >= if is_number { least.min(3) } else { least };
        if is_long && !COMMON.contains(&word.as_str()) {
            found.insert(word);
        }
    }
}

/// Returns true if two words differ at most in their endings: `book` and `booking`.
fn is_same_word(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    if one.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let shared = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let shorter = one.chars().count().min(other.chars().count());
    shared >= 4.max(shorter.saturating_sub(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::model::Remarks;

    fn check(answer: &str, is_named: bool) {
        let call = ToolCall {
            name: "get_weather".into(),
            arguments: spanscore_base::model::Content::ready(Value::Map(
                [("city", Value::from("Lisbon"))].into_iter().collect(),
            )),
            error: Some("upstream gateway overloaded".into()),
            ..ToolCall::default()
        };
        let trajectory = Trajectory {
            final_output: spanscore_base::model::Content::ready(Value::from(answer.to_owned())),
            ..Trajectory::default()
        };
        assert_eq!(NamedFailures::of(&trajectory).name(&call), is_named, "{answer}");
    }

    #[test]
    fn a_failure_is_named_by_what_failed() {
        check("The weather service was not reachable, so bring a coat.", true);
        check("I couldn\u{2019}t look that up for Lisbon.", true);
        check("The gateway is overloaded and did not answer.", true);
        check("I was unable to complete your request.", true);
        check("Das Wetter konnte ich nicht abrufen: get_weather.", true);
        check("天气查询失败。", true);
        check("I am sorry for the inconvenience.", false);
        check("I could not find a cheaper hotel.", false);
        check("I am having trouble connecting to the weather service.", true);
        check("The trail to Lisbon has a moderate difficulty.", false);
        check("It is sunny in Lisbon. No terrors await.", false);
        check("All done.", false);
    }

    #[test]
    fn remark_names_failures_before_it() {
        let check = |end_ns, remark: &str, is_named| {
            let trajectory = Trajectory {
                remarks: vec![Remarks::ready(vec![(end_ns, Value::from(remark.to_owned()))])],
                ..Trajectory::default()
            };
            let call = ToolCall { name: "get_weather".into(), start_ns: 5, ..ToolCall::default() };
            assert_eq!(NamedFailures::of(&trajectory).name(&call), is_named, "{end_ns} {remark}");
        };
        check(9, "The weather service is down.", true);
        check(4, "The weather service is down.", false);
        check(9, "The customer's payment failed, let me use the billing tool.", false);
        check(9, "This does not need another tool.", false);
    }

    #[test]
    fn words_of_a_call_are_limited_and_of_its_error_and_arguments() {
        let text = |kind: &str| (0..100).map(|at| format!("{kind}{at} ")).collect::<String>();
        let arguments = (0..100).map(|at| (format!("key{at}"), Value::from(text("given"))));
        let call = ToolCall {
            name: "get_weather".into(),
            arguments: spanscore_base::model::Content::ready(Value::Map(arguments.collect())),
            error: Some(text("wrong").into()),
            ..ToolCall::default()
        };
        let words = call_words(&call);
        assert_eq!(words.len(), CALL_WORDS_MAX);
        for word in ["weather", "wrong0", "given0"] {
            assert!(words.contains(word), "{word}");
        }
    }
}
