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

/// Ends of an answer that a filter wrote, in lower case: OpenAI's, Gemini's and Z.AI's.
const FILTERED: [&str; 8] = [
    "content_filter",
    "safety",
    "prohibited_content",
    "blocklist",
    "spii",
    "recitation",
    "sensitive",
    "refusal",
];
/// Ends of an answer that its server broke off.
const BROKEN_OFF: [&str; 2] = ["error", "abort"];

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
    let ending = text(choice, "/finish_reason").unwrap_or_default().to_lowercase();
    let is_among = |words: &[&str]| words.iter().any(|word| ending.contains(word));
    if is_among(&BROKEN_OFF) {
        return None;
    }
    let refusal =
        text(message, "/refusal").map_or_else(|| parts(message, "refusal"), str::to_owned);
    let finish = if !refusal.is_empty() || is_among(&FILTERED) {
        Finish::Refused
    } else if ending == "model_length" {
        Finish::Overflow
    } else if matches!(&*ending, "length" | "max_tokens") {
        Finish::Length
    } else {
        Finish::Stop
    };
    let called = ["/tool_calls/0/function/arguments", "/function_call/arguments"];
    let is_told = |it: &&Value| !it.is_null() && it.as_str() != Some("");
    let called = called.into_iter().find_map(|place| message.pointer(place).filter(is_told));
    let text = match called.or_else(|| message.get("content")) {
        Some(Value::String(text)) => text.clone(),
        Some(object @ Value::Object(_)) => object.to_string(),
        _ => parts(message, "text"),
    };
    Some(Reply { text, finish, usage: usage(body) })
}

/// Joins the parts of a content of one type, `text` or `refusal`; `output_text` is a text, too.
fn parts(message: &Value, key: &str) -> String {
    let parts = message.get("content").and_then(Value::as_array).into_iter().flatten();
    let own = parts.filter(|part| {
        text(part, "/type").is_some_and(|own| own.strip_prefix("output_").unwrap_or(own) == key)
    });
    own.filter_map(|part| text(part, &format!("/{key}")).map(str::to_owned)).collect()
}

/// Reads token counts; those of the request include cached ones.
fn usage(body: &Value) -> TokenUsage {
    TokenUsage {
        input: count(body, "/usage/prompt_tokens"),
        cached: count(body, "/usage/prompt_tokens_details/cached_tokens"),
        output: count(body, "/usage/completion_tokens"),
    }
}
