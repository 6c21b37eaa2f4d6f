//! Wire format of chat completions, OpenAI's first protocol, which most servers speak.
//! <https://platform.openai.com/docs/api-reference/chat>

use serde_json::{Value, json};

use super::{
    ANSWER_NAME, Finish, JudgeQuestion, ProviderCapabilities, Reply, Shape, TokenUsage, count,
    schema, text, user_text,
};
use crate::judge::settings::JudgeSettings;

/// Address of the provider itself, which stores requests unless told not to.
pub(super) const OWN_HOST: &str = "https://api.openai.com/";

pub(super) fn url(judge: &JudgeSettings) -> String {
    let base = judge.base_url();
    match &judge.azure {
        Some(azure) => format!(
            "{base}/openai/deployments/{}/chat/completions?api-version={}",
            azure.deployment, azure.api_version
        ),
        None => format!("{base}/chat/completions"),
    }
}

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
    let choice = body.pointer("/choices/0")?;
    let message = choice.get("message")?;
    let called = text(message, "/tool_calls/0/function/arguments");
    let parts = message.get("content").and_then(Value::as_array);
    let part = |key: &str| -> String {
        let parts = parts.into_iter().flatten().filter(|part| text(part, "/type") == Some(key));
        parts.filter_map(|part| part.get(key).and_then(Value::as_str)).collect()
    };
    let refusal = text(message, "/refusal").map_or_else(|| part("refusal"), str::to_owned);
    let finish = match text(choice, "/finish_reason") {
        _ if !refusal.is_empty() => Finish::Refused,
        Some("content_filter") => Finish::Refused,
        Some("length") => Finish::Length,
        _ => Finish::Stop,
    };
    let words = called.or_else(|| text(message, "/content"));
    let text = words.map_or_else(|| part("text"), str::to_owned);
    Some(Reply { text, finish, usage: usage(body) })
}

/// Reads token counts; those of the request include cached ones.
fn usage(body: &Value) -> TokenUsage {
    TokenUsage {
        input: count(body, "/usage/prompt_tokens"),
        cached: count(body, "/usage/prompt_tokens_details/cached_tokens"),
        output: count(body, "/usage/completion_tokens"),
    }
}
