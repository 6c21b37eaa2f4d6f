//! Wire format of Anthropic's Messages API. <https://docs.anthropic.com/en/api/messages>

use serde_json::{Value, json};

use super::{
    ANSWER_NAME, Finish, JudgeQuestion, ProviderCapabilities, Reply, Shape, TokenUsage, count,
    schema, text, user_text,
};
use crate::judge::settings::JudgeSettings;

/// Shortest text cached by the provider, 1,024 tokens, at 3.5 bytes each.
const CACHED_BYTES_MIN: usize = 3_584;

pub(super) fn body(
    judge: &JudgeSettings,
    capabilities: &ProviderCapabilities,
    question: &JudgeQuestion,
) -> Value {
    let mut body = json!({
        "model": judge.model,
        "max_tokens": question.max_tokens,
        "system": question.prompt.system,
        "messages": [{"role": "user", "content": content(capabilities, question)}],
    });
    if let Some(effort) = capabilities.effort(judge) {
        body["output_config"] = json!({"effort": effort});
    }
    let Some(schema) = schema(question) else { return body };
    match capabilities.shape(question) {
        Shape::Schema => {
            body["output_config"]["format"] = json!({"type": "json_schema", "schema": schema});
        }
        Shape::Tool => {
            body["tools"] = json!([{"name": ANSWER_NAME, "input_schema": schema}]);
            body["tool_choice"] = json!({"type": "tool", "name": ANSWER_NAME});
        }
        Shape::JsonObject | Shape::Free => {}
    }
    body
}

/// Builds the user content. The record is a separate part with a cache mark, shared by other
/// questions about the same run.
fn content(capabilities: &ProviderCapabilities, question: &JudgeQuestion) -> Value {
    let text = user_text(question);
    let end = record_end(&text).filter(|end| *end >= CACHED_BYTES_MIN);
    match end.filter(|_| capabilities.takes("cache_control")) {
        Some(end) => json!([
            {"type": "text", "text": &text[..end], "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": &text[end..]},
        ]),
        None => json!(text),
    }
}

/// Returns the end of the record, after its closing line.
fn record_end(text: &str) -> Option<usize> {
    let at = text.find("\nend ")? + 1;
    text[at..].find('\n').map(|line| at + line + 1)
}

pub(super) fn reply(body: &Value) -> Option<Reply> {
    let parts = body.get("content")?.as_array()?;
    let mut finish = match text(body, "/stop_reason") {
        Some("max_tokens") => Finish::Length,
        Some("refusal") => Finish::Refused,
        Some("model_context_window_exceeded") => Finish::Overflow,
        _ => Finish::Stop,
    };
    let mut words = String::new();
    for part in parts {
        match text(part, "/type") {
            Some("text") => words.push_str(text(part, "/text").unwrap_or_default()),
            Some("tool_use") => {
                words = part.get("input").map(Value::to_string).unwrap_or_default();
                break;
            }
            _ => {}
        }
    }
    // A Bedrock guardrail replaces the answer or masks parts of it.
    let intervened = text(body, "/amazon-bedrock-guardrailAction") == Some("INTERVENED");
    if intervened && !words.contains('{') {
        finish = Finish::Refused;
    }
    // `input_tokens` excludes tokens read from and written to the cache.
    let cached = count(body, "/usage/cache_read_input_tokens");
    let written = count(body, "/usage/cache_creation_input_tokens");
    let usage = TokenUsage {
        input: count(body, "/usage/input_tokens").saturating_add(cached).saturating_add(written),
        cached,
        output: count(body, "/usage/output_tokens"),
    };
    Some(Reply { text: words, finish, usage })
}
