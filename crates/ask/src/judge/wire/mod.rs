//! Wire formats of three provider protocols: pure functions from a question to a request, and from
//! an answer to a reply or a fault.

mod anthropic;
mod capabilities;
mod error_words;
mod events;
mod fault;
mod openai;
mod provider_error;
mod responses;
#[cfg(test)]
mod tests;
pub(in crate::judge) mod wait;

use serde_json::{Value, json};

pub(in crate::judge) use capabilities::{ProviderCapabilities, Shape};
pub(in crate::judge) use fault::{Fault, HttpAnswer};

use super::settings::{JudgeApi, JudgeSettings};
use spanscore_evaluate::inquiry::JudgePrompt;

/// Name of the schema, and of the forced tool call.
const ANSWER_NAME: &str = "verdicts";

/// One question to one judge.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::judge) struct JudgeQuestion {
    /// System and user message, with the schema of the answer.
    pub(in crate::judge) prompt: JudgePrompt,
    /// Request for a repair, appended to the user message.
    pub(in crate::judge) remark: Option<String>,
    /// Sampling temperature; omitted for a model that refuses it.
    pub(in crate::judge) temperature: f64,
    /// Limit of the answer, tokens.
    pub(in crate::judge) max_tokens: u32,
}

#[cfg(test)]
impl JudgeQuestion {
    /// Question about one statement, without a schema.
    pub(in crate::judge) fn about(user: &str) -> Self {
        let prompt = JudgePrompt {
            windows: 1,
            system: "rules".into(),
            user: user.into(),
            schema: None,
            answer_tokens: 0,
            statements: 1,
            digest: [0; 16],
            cut_bytes: 0,
            injection_found: false,
            gaps: spanscore_evaluate::inquiry::RedactionGaps::default(),
        };
        Self { prompt, remark: None, temperature: 0.0, max_tokens: 9 }
    }
}

/// HTTP request.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::judge) struct WireRequest {
    /// Full URL.
    pub(in crate::judge) url: String,
    /// Headers except content type and length, including the key.
    pub(in crate::judge) headers: Vec<(&'static str, String)>,
    /// JSON body.
    pub(in crate::judge) body: Value,
}

/// Reason that a judge ended its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::judge) enum Finish {
    /// Complete.
    Stop,
    /// Cut by the token limit.
    Length,
    /// Refused by the model or a filter.
    Refused,
    /// The request exceeds the model's context.
    Overflow,
}

/// Token counts reported by the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::judge) struct TokenUsage {
    /// Tokens of the request, including cached ones.
    pub(in crate::judge) input: u64,
    /// Tokens of the request from the provider's prompt cache.
    pub(in crate::judge) cached: u64,
    /// Tokens of the answer.
    pub(in crate::judge) output: u64,
}

impl TokenUsage {
    /// Sums request and answer.
    pub(in crate::judge) fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// Answer of a judge.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::judge) struct Reply {
    /// Text, or the arguments of the tool call.
    pub(in crate::judge) text: String,
    /// Finish reason.
    pub(in crate::judge) finish: Finish,
    /// Token counts; zero if not reported.
    pub(in crate::judge) usage: TokenUsage,
}

/// Builds the request for a question.
pub(in crate::judge) fn request(
    judge: &JudgeSettings,
    key: Option<&str>,
    capabilities: &ProviderCapabilities,
    question: &JudgeQuestion,
) -> WireRequest {
    let mut body = match judge.api {
        JudgeApi::OpenAi => openai::body(judge, capabilities, question),
        JudgeApi::OpenAiResponses => responses::body(judge, capabilities, question),
        JudgeApi::Anthropic => anthropic::body(judge, capabilities, question),
    };
    if capabilities.takes("temperature") {
        body["temperature"] = number(question.temperature);
    }
    WireRequest { url: url(judge), headers: headers(judge, key), body }
}

fn url(judge: &JudgeSettings) -> String {
    let base = judge.base_url();
    let path = judge.api.path();
    match judge.azure.as_ref().filter(|_| judge.api == JudgeApi::OpenAi) {
        Some(azure) => format!(
            "{base}/openai/deployments/{}{path}?api-version={}",
            azure.deployment, azure.api_version
        ),
        // A base URL may hold the version that the path begins with.
        None if base.ends_with("/v1") => format!("{base}{}", path.trim_start_matches("/v1")),
        None => format!("{base}{path}"),
    }
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

/// Reads the answer to a question.
///
/// # Errors
/// The fault, for an error status and for a body without a message.
pub(in crate::judge) fn reply(
    judge: &JudgeSettings,
    capabilities: &ProviderCapabilities,
    question: &JudgeQuestion,
    answer: &HttpAnswer,
) -> Result<Reply, Fault> {
    let asked = || [question.prompt.system.as_str(), &user_text(question)].join("\n");
    if !(200..300).contains(&answer.status) {
        return Err(fault::of(answer, capabilities, &asked()));
    }
    let (body, broke_off) = events::whole(judge.api, &answer.body)?;
    let reply = match judge.api {
        JudgeApi::OpenAi => openai::reply(&body),
        JudgeApi::OpenAiResponses => responses::reply(&body),
        JudgeApi::Anthropic => anthropic::reply(&body),
    };
    reply.ok_or_else(|| {
        let fault = fault::of_success(answer, &body, capabilities, &asked());
        if broke_off { fault.of_begun(answer.status) } else { fault }
    })
}

/// Returns the user message, followed by any request for a repair.
pub(in crate::judge) fn user_text(question: &JudgeQuestion) -> String {
    match &question.remark {
        Some(remark) => format!("{}\n\n{remark}", question.prompt.user),
        None => question.prompt.user.clone(),
    }
}

/// Returns the schema of the answer, if the prompt has one.
fn schema(question: &JudgeQuestion) -> Option<Value> {
    question.prompt.schema.and_then(|schema| serde_json::from_str(schema).ok())
}

/// Reads token counts in the terms of either OpenAI protocol; those of the request include cached
/// ones.
fn usage(body: &Value) -> TokenUsage {
    let first = |places: &[&str]| {
        let counts = places.iter().map(|place| count(body, &format!("/usage/{place}")));
        counts.into_iter().find(|count| *count > 0).unwrap_or_default()
    };
    let input = first(&["prompt_tokens", "input_tokens"]);
    let output = first(&["completion_tokens", "output_tokens"]);
    // Gemini and xAI count thoughts only in the total, and charge them as output.
    let rest = count(body, "/usage/total_tokens").saturating_sub(input);
    let is_counted = input > 0 && output > 0;
    TokenUsage {
        input,
        cached: first(&[
            "prompt_tokens_details/cached_tokens",
            "input_tokens_details/cached_tokens",
            "prompt_cache_hit_tokens",
            "cached_tokens",
        ]),
        output: if is_counted { output.max(rest) } else { output },
    }
}

/// Reads a count, including text and fractions from gateways.
fn count(value: &Value, pointer: &str) -> u64 {
    match value.pointer(pointer) {
        Some(Value::String(text)) => text.trim().parse().unwrap_or(0),
        Some(number) => number.as_f64().map_or(0, |number| number as u64),
        None => 0,
    }
}

fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// Converts a number to JSON; whole numbers lose their fraction.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 { json!(value as i64) } else { json!(value) }
}
