//! What is said to judges and what they say, in the three protocols that there are: pure functions
//! from a question to a request, and from an answer to a reply or a fault.

mod anthropic;
mod fault;
mod openai;
mod quirks;
mod responses;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

pub(in crate::judge) use fault::{Fault, HttpAnswer};
pub(in crate::judge) use quirks::{Quirks, Shape};

use super::settings::{JudgeApi, JudgeSettings};
use crate::evaluate::inquiry::JudgePrompt;

/// The name of the schema, and of the tool that a judge is made to call.
const ANSWER_NAME: &str = "verdicts";
/// What says who we are.
pub(super) const USER_AGENT: &str = concat!("spanscore/", env!("CARGO_PKG_VERSION"));

/// One question to one judge.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::judge) struct JudgeQuestion {
    /// System and user message, with the schema of the answer.
    pub(in crate::judge) prompt: JudgePrompt,
    /// Appended to the user message where an answer has to be repaired.
    pub(in crate::judge) remark: Option<String>,
    /// Randomness; `None` where the model refuses it.
    pub(in crate::judge) temperature: f64,
    /// Tokens of the answer at most.
    pub(in crate::judge) max_tokens: u32,
}

/// A request on its way.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::judge) struct WireRequest {
    /// The whole address.
    pub(in crate::judge) url: String,
    /// Headers beside content type and length; the key is among them.
    pub(in crate::judge) headers: Vec<(&'static str, String)>,
    /// The body.
    pub(in crate::judge) body: Value,
}

/// Why a judge ended its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::judge) enum Finish {
    /// It was done.
    Stop,
    /// It had no more tokens.
    Length,
    /// It, or a filter, refused.
    Refused,
    /// What it was asked did not fit into it.
    Overflow,
}

/// Tokens as the provider counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::judge) struct TokenUsage {
    /// Of the request, cached ones among them.
    pub(in crate::judge) input: u64,
    /// Of those, what the provider still had.
    pub(in crate::judge) cached: u64,
    /// Of the answer.
    pub(in crate::judge) output: u64,
}

impl TokenUsage {
    /// All together.
    pub(in crate::judge) fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// What a judge answered.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::judge) struct Reply {
    /// Its words, or what it called the tool with.
    pub(in crate::judge) text: String,
    /// Why it ended.
    pub(in crate::judge) finish: Finish,
    /// What it took.
    pub(in crate::judge) usage: TokenUsage,
}

/// The request for a question.
pub(in crate::judge) fn request(
    judge: &JudgeSettings,
    key: Option<&str>,
    quirks: &Quirks,
    question: &JudgeQuestion,
) -> WireRequest {
    let (body, url) = match judge.api {
        JudgeApi::OpenAi => (openai::body(judge, quirks, question), openai::url(judge)),
        JudgeApi::OpenAiResponses => {
            let url = format!("{}/responses", judge.base_url());
            (responses::body(judge, quirks, question), url)
        }
        JudgeApi::Anthropic => (anthropic::body(judge, quirks, question), anthropic::url(judge)),
    };
    WireRequest { url, headers: headers(judge, key), body }
}

fn headers(judge: &JudgeSettings, key: Option<&str>) -> Vec<(&'static str, String)> {
    let mut headers = Vec::new();
    if judge.api == JudgeApi::Anthropic {
        headers.push(("anthropic-version", "2023-06-01".to_owned()));
    }
    let Some(key) = key else { return headers };
    if judge.api == JudgeApi::Anthropic {
        headers.push(("x-api-key", key.to_owned()));
    } else if judge.azure.is_some() {
        headers.push(("api-key", key.to_owned()));
    } else {
        headers.push(("authorization", format!("Bearer {key}")));
    }
    headers
}

/// What an answer means.
///
/// # Errors
/// Why it is none.
pub(in crate::judge) fn reply(
    judge: &JudgeSettings,
    quirks: &Quirks,
    answer: &HttpAnswer,
) -> Result<Reply, Fault> {
    if !(200..300).contains(&answer.status) {
        return Err(fault::of(answer, quirks));
    }
    let body: Value = serde_json::from_slice(&answer.body)
        .map_err(|error| Fault::Unreadable(format!("its answer is not JSON: {error}")))?;
    let reply = match judge.api {
        JudgeApi::OpenAi => openai::reply(&body),
        JudgeApi::OpenAiResponses => responses::reply(&body),
        JudgeApi::Anthropic => anthropic::reply(&body),
    };
    reply.ok_or_else(|| {
        let error = body.get("error").map_or_else(String::new, fault::short);
        Fault::Unreadable(format!("its answer holds no message {error}"))
    })
}

/// The user message with what is said of the last answer.
fn user_text(question: &JudgeQuestion) -> String {
    match &question.remark {
        Some(remark) => format!("{}\n\n{remark}", question.prompt.user),
        None => question.prompt.user.clone(),
    }
}

/// The schema of the answer, where one is asked for.
fn schema(question: &JudgeQuestion) -> Option<Value> {
    question.prompt.schema.and_then(|schema| serde_json::from_str(schema).ok())
}

fn count(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// A number as JSON writes it; whole ones without a fraction.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 { json!(value as i64) } else { json!(value) }
}
