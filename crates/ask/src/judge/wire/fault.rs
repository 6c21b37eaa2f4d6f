//! Faults of requests to judges, and their classification: retry, adapt, lock or reject.
//!
//! Providers agree on statuses and differ in texts: OpenAI's error codes
//! (<https://platform.openai.com/docs/guides/error-codes>), Anthropic's
//! (<https://docs.anthropic.com/en/api/errors>), and those of local servers.

use std::time::Duration;

use serde_json::Value;

use super::capabilities::{PARAMETERS, ProviderCapabilities, SHAPE_WORDS};
use super::error_words::{
    BROKEN_JSON, CLOCK, MONEY, MONEY_PROSE, OVERFLOW, OVERFLOW_OF_RATE, PASSING, TOO_MANY, UNWELL,
};
use super::provider_error::ProviderError;

/// Longest wait accepted from a judge; longer ones are shortened to it, and one for its rate counts
/// as a daily quota.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// HTTP answer, reduced to the relevant parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::judge) struct HttpAnswer {
    /// Status code.
    pub(in crate::judge) status: u16,
    /// Time of its arrival, since the Unix epoch.
    pub(in crate::judge) arrived: Duration,
    /// Wait requested by its headers.
    pub(in crate::judge) after: Option<Duration>,
    /// Value of `x-should-retry`.
    pub(in crate::judge) should_retry: Option<bool>,
    /// Body, with our key redacted.
    pub(in crate::judge) body: Vec<u8>,
}

/// Reason for a missing reply.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::judge) enum Fault {
    /// No connection: nothing was sent or must be paid.
    Unreachable(String),
    /// The connection failed after sending: the request may have to be paid.
    Broken(String),
    /// Status 429.
    TooMany {
        /// Requested wait.
        after: Option<Duration>,
        /// Message.
        text: String,
    },
    /// Transient failure of the judge.
    Unwell {
        /// Status code.
        status: u16,
        /// Requested wait.
        after: Option<Duration>,
        /// Message.
        text: String,
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
    /// The replayed folder has no reply to this question.
    NotRecorded,
    /// The process ends before the answer.
    CutOff,
    /// Not sent because its reservation could not be saved, with the reason.
    Unsaved(String),
}

impl Fault {
    /// Returns true if a retry may succeed.
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
        matches!(
            self,
            Self::Broken(_)
                | Self::Unreadable(_)
                | Self::CutOff
                | Self::Refused(_)
                | Self::Unwell { status: 200..=299, .. }
        )
    }

    /// Returns the fault of a begun answer, which may have to be paid, with that status.
    pub(super) fn of_begun(self, status: u16) -> Self {
        if self.may_cost() {
            return self;
        }
        let text = format!("its answer broke off: {}", self.told().1);
        Self::Unwell { status, after: self.after(), text }
    }

    /// Returns the wait requested by the judge.
    pub(in crate::judge) fn after(&self) -> Option<Duration> {
        match self {
            Self::TooMany { after, .. } | Self::Unwell { after, .. } => *after,
            _ => None,
        }
    }

    /// Returns `error.type` and message of the failed evaluation.
    pub(in crate::judge) fn told(&self) -> (&'static str, String) {
        match self {
            Self::Unreachable(error) => ("judge_unreachable", error.clone()),
            Self::Broken(error) => ("judge_no_answer", error.clone()),
            Self::TooMany { text, .. } => {
                ("judge_rate_limited", format!("it answered 429: {text}"))
            }
            Self::Unwell { status, text, .. } => {
                ("judge_error", format!("it answered {status}: {text}"))
            }
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

/// Classifies an answer with a status other than success; `asked` is the request.
pub(super) fn of(answer: &HttpAnswer, capabilities: &ProviderCapabilities, asked: &str) -> Fault {
    let raw = String::from_utf8_lossy(&answer.body);
    // Words without a page around them are the error's own where they can only name a route or a
    // wait: elsewhere they may quote the request, and would lock the judge.
    let plain = raw.trim();
    let is_told = matches!(answer.status, 404 | 429 | 503) && !plain.starts_with('<');
    let words = || if is_told && !plain.is_empty() { plain.into() } else { Value::Null };
    let body = serde_json::from_str(&raw).unwrap_or_else(|_| words());
    let said = ProviderError::new(&body, &answer.body, asked, answer.arrived);
    classify(answer, answer.status, &said, capabilities)
}

/// Classifies a success without a message, by which gateways, and servers that began to answer,
/// report errors.
pub(super) fn of_success(
    answer: &HttpAnswer,
    body: &Value,
    capabilities: &ProviderCapabilities,
    asked: &str,
) -> Fault {
    let filters = body.get("prompt_filter_results").map(Value::to_string);
    if filters.is_some_and(|filters| filters.contains("\"filtered\":true")) {
        return Fault::Refused("a filter of the provider refused the prompt".to_owned());
    }
    let choice = body.pointer("/choices/0");
    let said = choice.and_then(|it| it.get("error")).unwrap_or(body);
    let said = ProviderError::new(said, b"", asked, answer.arrived);
    let finish = choice.and_then(|choice| choice.get("finish_reason")).and_then(Value::as_str);
    let status = match said.status() {
        Some(status) => status,
        None if said.is_about(&TOO_MANY) => 429,
        None if said.is_about(&UNWELL) || (finish.is_some() && !said.is_told()) => 503,
        None => 400,
    };
    let is_guessed = said.status().is_none();
    match classify(answer, status, &said, capabilities) {
        Fault::Unwell { after, .. } if !said.is_told() => {
            let text = format!("its answer ended with {}", finish.unwrap_or("nothing"));
            Fault::Unwell { status: answer.status, after, text }
        }
        Fault::Rejected { .. } | Fault::RefusedShape(_) | Fault::RefusedParameter(_)
            if is_guessed =>
        {
            let told = if said.is_told() { format!(": {}", said.shown()) } else { String::new() };
            Fault::Unreadable(format!("its answer holds no message{told}"))
        }
        fault => fault,
    }
}

/// Classifies an error by status and text.
///
/// Order matters. Providers report an exhausted quota with 429, where a retry is useless, and
/// refused content with the 400 of a malformed request, where a change is useless.
fn classify(
    answer: &HttpAnswer,
    status: u16,
    said: &ProviderError<'_>,
    capabilities: &ProviderCapabilities,
) -> Fault {
    let demanded = answer.after.or(said.after);
    let is_by_day = status == 429 && demanded.is_some_and(|demanded| demanded > WAIT_MAX);
    if said.is_of_content(status) {
        return Fault::Refused(said.shown());
    }
    // Elsewhere such words belong to a quoted request.
    let may_be_prose = answer.status == 200 || matches!(status, 402 | 403 | 412 | 429);
    let is_of_money = said.says(status, &MONEY) || (may_be_prose && said.is_about(&MONEY_PROSE));
    if is_of_money || status == 402 || is_by_day {
        return Fault::Locked("judge_quota_exhausted", said.shown());
    }
    let is_overflow = said.is_about(&OVERFLOW_OF_RATE)
        || (!matches!(status, 401 | 429)
            && (status == 413 || said.is_of_length(status) || said.is_about(&OVERFLOW)));
    if is_overflow && status == 403 {
        return Fault::Overflow;
    }
    if said.is_of_key(status) {
        let clock = if said.is_about(&CLOCK) { "; set the clock of this machine" } else { "" };
        return Fault::Locked("judge_unauthorized", said.shown() + clock);
    }
    if said.is_of_model(status) {
        return Fault::Locked("judge_model_not_found", said.shown());
    }
    if is_overflow {
        return Fault::Overflow;
    }
    if said.is_about(&BROKEN_JSON) {
        return Fault::Unreadable(said.shown());
    }
    let may_help = matches!(status, 408 | 409 | 424 | 429 | 498 | 500..=599);
    if answer.should_retry.unwrap_or(may_help || said.says(status, &PASSING)) {
        let after = demanded.map(|demanded| demanded.min(WAIT_MAX));
        let text = said.shown();
        return if status == 429 {
            Fault::TooMany { after, text }
        } else {
            Fault::Unwell { status, after, text }
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
