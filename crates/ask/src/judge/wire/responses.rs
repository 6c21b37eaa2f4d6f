//! Wire format of OpenAI's Responses API.
//! <https://platform.openai.com/docs/api-reference/responses>

use serde_json::{Value, json};

use super::openai::OWN_HOST;
use super::{
    ANSWER_NAME, Finish, JudgeQuestion, ProviderCapabilities, Reply, Shape, schema, text, usage,
    user_text,
};
use crate::judge::settings::JudgeSettings;

pub(super) fn body(
    judge: &JudgeSettings,
    capabilities: &ProviderCapabilities,
    question: &JudgeQuestion,
) -> Value {
    let mut body = json!({
        "model": judge.model,
        "instructions": question.prompt.system,
        "input": user_text(question),
        "max_output_tokens": question.max_tokens,
    });
    if let Some(effort) = capabilities.effort(judge) {
        body["reasoning"] = json!({"effort": effort});
    }
    let is_stored = judge.aws.is_some() || judge.base_url().starts_with(OWN_HOST);
    if is_stored && capabilities.takes("store") {
        body["store"] = json!(false);
    }
    let Some(schema) = schema(question) else { return body };
    match capabilities.shape(question) {
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
    // The caller reads the cause from `error`; a background one has not ended.
    if matches!(text(body, "/status"), Some("failed" | "cancelled" | "queued" | "in_progress")) {
        return None;
    }
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
            Some("function_call") => match item.get("arguments") {
                Some(Value::String(text)) => words.push_str(text),
                Some(other) => words.push_str(&other.to_string()),
                None => {}
            },
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
    Some(Reply { text: words, finish, usage: usage(body) })
}

#[cfg(test)]
mod tests {
    use super::super::TokenUsage;
    use super::*;

    /// Returns a reasoning model's response with all fields of the reference.
    fn response(status: &str, output: &Value) -> Value {
        json!({
            "id": "resp_01", "object": "response", "created_at": 1_741_476_777, "status": status,
            "completed_at": 1_741_476_778, "background": false, "error": null,
            "incomplete_details": null, "instructions": "rules", "max_output_tokens": 4096,
            "max_tool_calls": null, "metadata": {}, "model": "large-1-2026-01-01",
            "output": output, "parallel_tool_calls": true, "previous_response_id": null,
            "prompt_cache_key": null, "reasoning": {"effort": "low", "summary": null},
            "safety_identifier": null, "service_tier": "default", "store": false,
            "temperature": 1.0,
            "text": {"format": {"type": "json_schema", "name": "verdicts", "strict": true,
                "description": null, "schema": {"type": "object"}}, "verbosity": "medium"},
            "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0,
            "truncation": "disabled", "user": null,
            "usage": {"input_tokens": 328, "input_tokens_details": {"cached_tokens": 120},
                "output_tokens": 52, "output_tokens_details": {"reasoning_tokens": 40},
                "total_tokens": 380},
        })
    }

    fn message(part: &Value) -> Value {
        json!([
            {"id": "rs_01", "type": "reasoning", "summary": [{"type": "summary_text",
                "text": "{\"items\": []}"}], "content": [{"type": "reasoning_text", "text": "{"}],
                "encrypted_content": "abc", "status": "completed"},
            {"id": "msg_01", "type": "message", "status": "completed", "role": "assistant",
                "content": [part]},
        ])
    }

    #[test]
    fn a_response_is_read_with_all_fields_of_the_reference() {
        let usage = TokenUsage { input: 328, cached: 120, output: 52 };
        let said = json!({"type": "output_text", "text": "{}", "annotations": [], "logprobs": []});
        let whole = response("completed", &message(&said));
        let text = "{}".to_owned();
        let finish = Finish::Stop;
        assert_eq!(reply(&whole), Some(Reply { text, finish, usage }), "what it thinks is no text");
        let refused = json!({"type": "refusal", "refusal": "I cannot help with that."});
        let refused = response("completed", &message(&refused));
        let text = String::new();
        let finish = Finish::Refused;
        assert_eq!(reply(&refused), Some(Reply { text, finish, usage }));
        let call = json!([{"id": "fc_01", "type": "function_call", "status": "completed",
            "call_id": "call_01", "name": "verdicts", "arguments": "{}"}]);
        let text = "{}".to_owned();
        let finish = Finish::Stop;
        assert_eq!(reply(&response("completed", &call)), Some(Reply { text, finish, usage }));
        for (reason, finish) in
            [("max_output_tokens", Finish::Length), ("content_filter", Finish::Refused)]
        {
            let mut cut = response("incomplete", &json!([]));
            cut["incomplete_details"] = json!({"reason": reason});
            assert_eq!(reply(&cut), Some(Reply { text: String::new(), finish, usage }));
        }
    }

    #[test]
    fn a_response_that_failed_is_no_answer() {
        let mut failed = response("failed", &json!([]));
        failed["error"] = json!({"code": "server_error", "message": "it broke"});
        failed["usage"] = Value::Null;
        assert_eq!(reply(&failed), None);
    }
}
