//! Faults of requests to judges, and their classification: retry, adapt, lock or reject.
//!
//! Providers agree on statuses and differ in their words: OpenAI's error codes
//! (<https://platform.openai.com/docs/guides/error-codes>), Anthropic's
//! (<https://docs.anthropic.com/en/api/errors>), and those of local servers.

use std::time::Duration;

use serde_json::Value;

use super::capabilities::{PARAMETERS, ProviderCapabilities, SHAPE_WORDS};
use spanscore_net::client;

/// Longest wait that a judge may demand; longer ones are cut to this.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Codes and types for an exhausted quota.
const MONEY: [&str; 3] = ["insufficient_quota", "credit_balance_exhausted", "billing_error"];
/// Phrases for a request that exceeds the model's context.
const OVERFLOW: [&str; 7] = [
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "exceed_context_size",
    "exceeds the available context",
    "exceeds the maximum number of tokens",
    "request_too_large",
];

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
    /// The key is refused or the quota exhausted: `error.type` and message.
    Locked(&'static str, String),
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
        )
    }

    /// Returns true for faults that count against the circuit breaker.
    pub(in crate::judge) fn is_sickness(&self) -> bool {
        self.is_retryable() && !matches!(self, Self::TooMany { .. })
    }

    /// Returns true if the request may have to be paid, at an unknown cost.
    pub(in crate::judge) fn may_cost(&self) -> bool {
        matches!(self, Self::Broken(_) | Self::Unreadable(_) | Self::CutOff)
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
            Self::Rejected { status, text } => {
                ("judge_error", format!("it answered {status}: {text}"))
            }
            Self::NotRecorded => {
                ("judge_reply_not_recorded", "no reply to this question is recorded".to_owned())
            }
            Self::CutOff => ("judge_cut_off", "the process ended before it answered".to_owned()),
        }
    }
}

/// Classifies an answer with a status other than success.
///
/// Order matters: providers report an exhausted quota with 429, which would be retried in vain.
pub(super) fn of(answer: &HttpAnswer, quirks: &ProviderCapabilities) -> Fault {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let said = ProviderError::new(&body, &answer.body);
    let after = answer.after.map(|after| after.min(WAIT_MAX));
    let status = answer.status;
    if said.is_about(&MONEY) || said.text.contains("credit balance") || status == 402 {
        return Fault::Locked("judge_quota_exhausted", said.shown());
    }
    if status == 401 {
        return Fault::Locked("judge_unauthorized", said.shown());
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
        let ours = PARAMETERS.into_iter().filter(|name| quirks.takes(name));
        if let Some(name) = ours.into_iter().find(|name| said.names(name)) {
            return Fault::RefusedParameter(name);
        }
        let is_shape = SHAPE_WORDS.iter().any(|word| said.text.contains(word));
        if (is_shape && quirks.may_step_down()) || quirks.is_unproven() {
            return Fault::RefusedShape(said.shown());
        }
    }
    Fault::Rejected { status, text: said.shown() }
}

/// Error of a provider, searched by words.
struct ProviderError {
    /// Message, type and code, in lower case.
    text: String,
    /// Value of `param`: the refused parameter by name.
    parameter: String,
    message: String,
}

impl ProviderError {
    fn new(body: &Value, raw: &[u8]) -> Self {
        let error = body.get("error").unwrap_or(body);
        let part = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let message = match error {
            Value::String(text) => text.as_str(),
            _ if !part("message").is_empty() => part("message"),
            _ => part("detail"),
        };
        let raw = if message.is_empty() { String::from_utf8_lossy(raw) } else { message.into() };
        let text = format!("{raw} {} {}", part("type"), part("code")).to_lowercase();
        Self { text, parameter: part("param").to_owned(), message: raw.into_owned() }
    }

    fn is_about(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.text.contains(word))
    }

    /// Returns true if the error names a parameter, as a whole word.
    fn names(&self, parameter: &str) -> bool {
        if !self.parameter.is_empty() {
            return self.parameter.split(['.', '[']).any(|part| part == parameter);
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        self.text.match_indices(parameter).any(|(at, _)| {
            !self.text[..at].ends_with(is_word)
                && !self.text[at + parameter.len()..].starts_with(is_word)
        })
    }

    fn shown(&self) -> String {
        client::short(&self.message)
    }
}

/// Formats foreign JSON on one line, cut.
pub(super) fn short(value: &Value) -> String {
    client::short(&value.to_string())
}
