//! OpenAI's responses. <https://platform.openai.com/docs/api-reference/responses>

use serde_json::{Value, json};

use super::openai::OWN_HOST;
use super::{
    ANSWER_NAME, Finish, JudgeQuestion, Quirks, Reply, Shape, TokenUsage, count, number, schema,
    text, user_text,
};
use crate::judge::settings::JudgeSettings;

pub(super) fn body(judge: &JudgeSettings, quirks: &Quirks, question: &JudgeQuestion) -> Value {
    let mut body = json!({
        "model": judge.model,
        "instructions": question.prompt.system,
        "input": user_text(question),
        "max_output_tokens": question.max_tokens,
    });
    if quirks.takes("temperature") {
        body["temperature"] = number(question.temperature);
    }
    if let Some(effort) =
        judge.reasoning_effort.as_ref().filter(|_| quirks.takes("reasoning_effort"))
    {
        body["reasoning"] = json!({"effort": effort});
    }
    if judge.base_url().starts_with(OWN_HOST) && quirks.takes("store") {
        body["store"] = json!(false);
    }
    let Some(schema) = schema(question) else { return body };
    match quirks.shape(question) {
        Shape::Schema => {
            let format = json!({
                "type": "json_schema", "name": ANSWER_NAME, "strict": true, "schema": schema,
            });
            body["text"] = json!({"format": format});
        }
        Shape::Tool => {
            let tool = json!({"type": "function", "name": ANSWER_NAME, "parameters": schema});
            body["tools"] = json!([tool]);
            body["tool_choice"] = json!({"type": "function", "name": ANSWER_NAME});
        }
        Shape::JsonObject => body["text"] = json!({"format": {"type": "json_object"}}),
        Shape::Free => {}
    }
    body
}

pub(super) fn reply(body: &Value) -> Option<Reply> {
    let items = body.get("output")?.as_array()?;
    let is_incomplete = text(body, "/status") == Some("incomplete");
    let mut finish = match text(body, "/incomplete_details/reason") {
        Some("content_filter") => Finish::Refused,
        Some("max_output_tokens") => Finish::Length,
        _ if is_incomplete => Finish::Length,
        _ => Finish::Stop,
    };
    let mut words = String::new();
    for item in items {
        match text(item, "/type") {
            Some("function_call") => words.push_str(text(item, "/arguments").unwrap_or_default()),
            Some("message") => {
                let parts = item.get("content").and_then(Value::as_array);
                for part in parts.into_iter().flatten() {
                    if text(part, "/type") == Some("refusal") {
                        finish = Finish::Refused;
                    }
                    words.push_str(text(part, "/text").unwrap_or_default());
                }
            }
            _ => {}
        }
    }
    let usage = TokenUsage {
        input: count(body, "/usage/input_tokens"),
        cached: count(body, "/usage/input_tokens_details/cached_tokens"),
        output: count(body, "/usage/output_tokens"),
    };
    Some(Reply { text: words, finish, usage })
}
