//! Faults of requests to judges, and their classification: retry, adapt, lock or reject.
//!
//! Providers agree on statuses and differ in their words: OpenAI's error codes
//! (<https://platform.openai.com/docs/guides/error-codes>), Anthropic's
//! (<https://docs.anthropic.com/en/api/errors>), and those of local servers.

use std::time::Duration;

use serde_json::Value;

use super::capabilities::{PARAMETERS, ProviderCapabilities, SHAPE_WORDS};
use super::error_words::{CLOCK, CONTENT, KEY, KEY_WORDS, MONEY, NO_ACCESS, NO_MODEL, OVERFLOW};
use super::text;
use spanscore_net::client;

/// Longest wait that a judge may demand; longer ones are cut to this.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Faults of one body that are read.
const VALIDATION_FAULTS_MAX: usize = 16;

/// HTTP answer, reduced to the parts that matter.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::judge) struct HttpAnswer {
    /// Status code.
    pub(in crate::judge) status: u16,
    /// Wait from `retry-after`, if there is one.
    pub(in crate::judge) after: Option<Duration>,
    /// Value of `x-should-retry`.
    pub(in crate::judge) should_retry: Option<bool>,
    /// Body, with echoes of our key removed.
    pub(in crate::judge) body: Vec<u8>,
}

/// Reason for a missing reply.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::judge) enum Fault {
    /// No connection: nothing was sent, nothing is to be paid.
    Unreachable(String),
    /// The connection broke or timed out after sending: the request may have to be paid.
    Broken(String),
    /// Status 429.
    TooMany {
        /// Wait that it demands.
        after: Option<Duration>,
    },
    /// Transient failure of the judge.
    Unwell {
        /// Status code.
        status: u16,
        /// Wait that it demands.
        after: Option<Duration>,
    },
    /// Success without a readable message.
    Unreadable(String),
    /// A parameter is refused.
    RefusedParameter(&'static str),
    /// The structured-output mode is refused.
    RefusedShape(String),
    /// The request exceeds the model's context.
    Overflow,
    /// The key is refused, the quota exhausted or the model unknown: `error.type` and message.
    Locked(&'static str, String),
    /// The content is refused by a filter, a guardrail or moderation, with its message.
    Refused(String),
    /// Permanent refusal of the request.
    Rejected {
        /// Status code.
        status: u16,
        /// Message.
        text: String,
    },
    /// The replayed folder holds no reply to this question.
    NotRecorded,
    /// The process ends before the answer.
    CutOff,
    /// Not sent: what is reserved for it could not be saved, for this reason.
    Unsaved(String),
}

impl Fault {
    /// Returns true if another try may succeed.
    pub(in crate::judge) fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_)
                | Self::Broken(_)
                | Self::TooMany { .. }
                | Self::Unwell { .. }
                | Self::Unreadable(_)
                | Self::Unsaved(_)
        )
    }

    /// Returns true for faults that count against the circuit breaker.
    pub(in crate::judge) fn is_sickness(&self) -> bool {
        self.is_retryable() && !matches!(self, Self::TooMany { .. } | Self::Unsaved(_))
    }

    /// Returns true if the request may have to be paid, at an unknown cost.
    pub(in crate::judge) fn may_cost(&self) -> bool {
        matches!(self, Self::Broken(_) | Self::Unreadable(_) | Self::CutOff | Self::Refused(_))
    }

    /// Returns the wait that the judge demands.
    pub(in crate::judge) fn after(&self) -> Option<Duration> {
        match self {
            Self::TooMany { after } | Self::Unwell { after, .. } => *after,
            _ => None,
        }
    }

    /// Returns `error.type` and message for the failed evaluation.
    pub(in crate::judge) fn told(&self) -> (&'static str, String) {
        match self {
            Self::Unreachable(error) => ("judge_unreachable", error.clone()),
            Self::Broken(error) => ("judge_no_answer", error.clone()),
            Self::TooMany { .. } => ("judge_rate_limited", "it answered 429".to_owned()),
            Self::Unwell { status, .. } => ("judge_error", format!("it answered {status}")),
            Self::Unreadable(error) => ("judge_reply_invalid", error.clone()),
            Self::RefusedParameter(name) => ("judge_error", format!("it refuses `{name}`")),
            Self::RefusedShape(text) => ("judge_error", text.clone()),
            Self::Overflow => ("judge_error", "the request does not fit into it".to_owned()),
            Self::Locked(error_type, text) => (error_type, text.clone()),
            Self::Refused(text) => ("judge_refused", text.clone()),
            Self::Rejected { status, text } => {
                ("judge_error", format!("it answered {status}: {text}"))
            }
            Self::NotRecorded => {
                ("judge_reply_not_recorded", "no reply to this question is recorded".to_owned())
            }
            Self::CutOff => ("judge_cut_off", "the process ended before it answered".to_owned()),
            Self::Unsaved(error) => (
                "judge_budget_unsaved",
                format!("not asked, as its budget could be exceeded after a crash: {error}"),
            ),
        }
    }
}

/// Classifies an answer with a status other than success.
///
/// Order matters: providers report an exhausted quota with 429, which would be retried in vain, and
/// refused content with the 400 of a request in the wrong form, which would be changed in vain.
pub(super) fn of(answer: &HttpAnswer, capabilities: &ProviderCapabilities) -> Fault {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let said = ProviderError::new(&body, &answer.body);
    let after = answer.after.map(|after| after.min(WAIT_MAX));
    let status = answer.status;
    if said.is_about(&MONEY) || status == 402 {
        return Fault::Locked("judge_quota_exhausted", said.shown());
    }
    if said.is_of_content(status) {
        return Fault::Refused(said.shown());
    }
    if said.is_of_key(status) {
        let clock = if said.is_about(&CLOCK) { "; set the clock of this machine" } else { "" };
        return Fault::Locked("judge_unauthorized", said.shown() + clock);
    }
    if said.is_of_model(status) {
        return Fault::Locked("judge_model_not_found", said.shown());
    }
    if said.is_about(&OVERFLOW) || status == 413 {
        return Fault::Overflow;
    }
    let may_help = matches!(status, 408 | 409 | 429 | 500..=599);
    if answer.should_retry.unwrap_or(may_help) {
        return if status == 429 {
            Fault::TooMany { after }
        } else {
            Fault::Unwell { status, after }
        };
    }
    if matches!(status, 400 | 422) {
        let ours = PARAMETERS.into_iter().filter(|name| capabilities.takes(name));
        if let Some(name) = ours.into_iter().find(|name| said.names(name)) {
            return Fault::RefusedParameter(name);
        }
        let is_shape = SHAPE_WORDS.iter().any(|word| said.text.contains(word));
        if (is_shape && capabilities.may_step_down()) || capabilities.is_unproven() {
            return Fault::RefusedShape(said.shown());
        }
    }
    Fault::Rejected { status, text: said.shown() }
}

/// Error of a provider, searched by words.
struct ProviderError {
    /// Message, type, code, status and reason, in lower case. Nothing of a body that tells none:
    /// pages of proxies speak of keys, and validators quote the request.
    text: String,
    /// Value of `param`: the refused parameter by name.
    parameter: String,
    message: String,
    /// True if the error lists reasons of moderation.
    has_reasons: bool,
}

impl ProviderError {
    fn new(body: &Value, raw: &[u8]) -> Self {
        // Gemini's compatible address wraps its errors in a list.
        let body = body.get(0).unwrap_or(body);
        let error = body.get("error").unwrap_or(body);
        // xAI tells its error as a text, with the code beside it.
        let named = if error.is_string() { body } else { error };
        let part = |key: &str| named.get(key).and_then(Value::as_str).unwrap_or_default();
        let message = match error {
            Value::String(text) => text.as_str(),
            // AWS' own gate writes it with a capital.
            _ => ["message", "Message", "detail"]
                .map(part)
                .into_iter()
                .find(|it| !it.is_empty())
                .unwrap_or_default(),
        };
        let message = match error.get("detail").and_then(Value::as_array) {
            Some(faults) if message.is_empty() => of_validation(faults),
            _ => message.to_owned(),
        };
        let inner = text(error, "/innererror/code").unwrap_or_default();
        let reason = text(error, "/details/0/reason").unwrap_or_default();
        let [kind, code, status] = ["type", "code", "status"].map(part);
        let text = format!("{message} {kind} {code} {status} {inner} {reason}").to_lowercase();
        // Moderation of OpenRouter names its reasons beside what it refused.
        let reasons = error.pointer("/metadata/reasons").and_then(Value::as_array);
        let has_reasons = reasons.is_some_and(|reasons| !reasons.is_empty());
        let parameter = part("param").to_owned();
        let message =
            if message.is_empty() { String::from_utf8_lossy(raw).into_owned() } else { message };
        Self { text, parameter, message, has_reasons }
    }

    /// Returns true if the content of the request is refused, not its form.
    fn is_of_content(&self, status: u16) -> bool {
        matches!(status, 400 | 403 | 422 | 451) && (self.has_reasons || self.is_about(&CONTENT))
    }

    /// Returns true if the key is refused, or may not do what is asked.
    fn is_of_key(&self, status: u16) -> bool {
        match status {
            401 => true,
            403 if self.is_of_model(status) => false,
            403 => self.is_about(&NO_ACCESS) || KEY_WORDS.iter().any(|word| self.has_word(word)),
            400 => self.is_about(&KEY),
            _ => false,
        }
    }

    /// Returns true if there is no such model at this address.
    fn is_of_model(&self, status: u16) -> bool {
        let is_told = matches!(status, 400 | 403 | 404) && self.is_about(&NO_MODEL);
        is_told || (status == 404 && ["model", "models"].iter().any(|word| self.has_word(word)))
    }

    fn is_about(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.text.contains(word))
    }

    /// Returns true if the error names a parameter, as a whole word.
    fn names(&self, parameter: &str) -> bool {
        if !self.parameter.is_empty() {
            return self.parameter.split(['.', '[']).any(|part| part == parameter);
        }
        self.has_word(parameter)
    }

    fn has_word(&self, word: &str) -> bool {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        self.text.match_indices(word).any(|(at, _)| {
            !self.text[..at].ends_with(is_word)
                && !self.text[at + word.len()..].starts_with(is_word)
        })
    }

    fn shown(&self) -> String {
        client::short(&self.message)
    }
}

/// Returns places and messages of the faults that FastAPI finds, without the inputs it quotes.
fn of_validation(faults: &[Value]) -> String {
    let told = faults.iter().take(VALIDATION_FAULTS_MAX).flat_map(|fault| {
        let place = fault.get("loc").and_then(Value::as_array).into_iter().flatten();
        place.chain(fault.get("msg")).filter_map(Value::as_str)
    });
    told.collect::<Vec<_>>().join(" ")
}

/// Formats foreign JSON on one line, cut.
pub(super) fn short(value: &Value) -> String {
    client::short(&value.to_string())
}
