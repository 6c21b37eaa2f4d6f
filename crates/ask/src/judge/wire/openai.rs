//! Wire format of OpenAI's Chat Completions API, which most servers support.
//! <https://platform.openai.com/docs/api-reference/chat>

use serde_json::{Value, json};

use super::{
    ANSWER_NAME, Finish, JudgeQuestion, ProviderCapabilities, Reply, Shape, schema, text, usage,
    user_text,
};
use crate::judge::settings::JudgeSettings;

/// Address of the provider, which stores requests unless told not to.
pub(super) const OWN_HOST: &str = "https://api.openai.com/";

/// Finish reasons of filters, in lower case: OpenAI's, Gemini's and Z.AI's.
const FILTERED: [&str; 12] = [
    "content_filter", "safety", "prohibited_content", "blocklist", "spii", "recitation",
    "sensitive", "refusal", "toxic", "guardrail", "blacklist", "language",
];
/// Finish reasons of answers aborted by the server.
const BROKEN_OFF: [&str; 4] = ["error", "abort", "cancel", "insufficient_system_resource"];
/// Finish reasons at the answer's limit, and at that of the model's context.
const AT_LIMIT: [&str; 6] = [
    "length", "max_tokens", "max_output_tokens", "max_new_tokens", "max_completion_tokens",
    "token_limit",
];
const AT_CONTEXT: [&str; 3] =
    ["model_length", "model_context_window_exceeded", "context_length_exceeded"];

pub(super) fn body(
    judge: &JudgeSettings,
    capabilities: &ProviderCapabilities,
    question: &JudgeQuestion,
) -> Value {
    let mut body = json!({
        "model": judge.model,
        "messages": [
            {"role": "system", "content": question.prompt.system},
            {"role": "user", "content": user_text(question)},
        ],
    });
    let limit =
        if capabilities.takes("max_tokens") { "max_tokens" } else { "max_completion_tokens" };
    body[limit] = json!(question.max_tokens);
    if let Some(seed) = judge.seed.filter(|_| capabilities.takes("seed")) {
        body["seed"] = json!(seed);
    }
    if let Some(effort) = capabilities.effort(judge) {
        body["reasoning_effort"] = json!(effort);
    }
    if judge.base_url().starts_with(OWN_HOST) && capabilities.takes("store") {
        body["store"] = json!(false);
    }
    let Some(schema) = schema(question) else { return body };
    match capabilities.shape(question) {
        Shape::Schema => {
            let form = json!({"name": ANSWER_NAME, "strict": true, "schema": schema});
            body["response_format"] = json!({"type": "json_schema", "json_schema": form});
        }
        Shape::Tool => {
            let function = json!({"name": ANSWER_NAME, "parameters": schema});
            body["tools"] = json!([{"type": "function", "function": function}]);
            body["tool_choice"] = json!({"type": "function", "function": {"name": ANSWER_NAME}});
        }
        Shape::JsonObject => body["response_format"] = json!({"type": "json_object"}),
        Shape::Free => {}
    }
    body
}

pub(super) fn reply(body: &Value) -> Option<Reply> {
    let choices = body.get("choices")?.as_array()?;
    // Relays of other protocols return a remark and the call, or nothing and the answer, as two
    // choices.
    let is_said = |choice: &&Value| !said(choice).is_empty();
    let called = choices.iter().find(|choice| called(choice).is_some());
    let choice = called.or_else(|| choices.iter().find(is_said)).or(choices.first())?;
    choice.get("message").or(choice.get("delta")).or(choice.get("text"))?;
    Some(Reply { text: said(choice), finish: finish(choice)?, usage: usage(body) })
}

/// Returns the finish reason; `None` if the server aborted the answer.
fn finish(choice: &Value) -> Option<Finish> {
    let ending =
        text(choice, "/finish_reason").unwrap_or_default().to_lowercase().replace('-', "_");
    let is_among = |words: &[&str]| words.iter().any(|word| ending.contains(word));
    let message = message(choice);
    let refusal =
        text(message, "/refusal").map_or_else(|| parts(message, "refusal"), str::to_owned);
    Some(match &*ending {
        _ if !refusal.is_empty() || is_among(&FILTERED) => Finish::Refused,
        _ if is_among(&BROKEN_OFF) => return None,
        ending if AT_CONTEXT.contains(&ending) => Finish::Overflow,
        ending if AT_LIMIT.contains(&ending) => Finish::Length,
        _ => Finish::Stop,
    })
}

/// Returns the message of a choice, or its equivalent in a single event.
fn message(choice: &Value) -> &Value {
    choice.get("message").or(choice.get("delta")).unwrap_or(&Value::Null)
}

/// Returns the arguments of the call, unless empty.
fn called(choice: &Value) -> Option<&Value> {
    let places = ["/tool_calls/0/function/arguments", "/function_call/arguments"];
    let is_told = |it: &&Value| match it {
        Value::String(text) => !matches!(text.trim(), "" | "{}"),
        other => !other.is_null(),
    };
    places.into_iter().find_map(|place| message(choice).pointer(place).filter(is_told))
}

/// Returns the answer of a choice: a call's arguments, else the text.
fn said(choice: &Value) -> String {
    let told = called(choice).or_else(|| message(choice).get("content"));
    match told.or_else(|| choice.get("text")) {
        Some(Value::String(text)) => text.clone(),
        Some(object @ Value::Object(_)) => object.to_string(),
        _ => parts(message(choice), "text"),
    }
}

/// Joins the parts of a content of one type, `text` or `refusal`; `output_text` and parts without a
/// type count as text.
fn parts(message: &Value, key: &str) -> String {
    let parts = message.get("content").and_then(Value::as_array).into_iter().flatten();
    let own = parts.filter(|part| {
        let own = text(part, "/type").unwrap_or("text");
        own.strip_prefix("output_").unwrap_or(own) == key
    });
    own.filter_map(|part| text(part, &format!("/{key}")).map(str::to_owned)).collect()
}
