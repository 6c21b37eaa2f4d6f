//! Tests of requests and answers of the three protocols, by their providers' published examples.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::judge::settings::StructuredOutput;

fn judge(yaml_json: Value) -> JudgeSettings {
    serde_json::from_value(yaml_json).expect("settings of a judge")
}

fn openai() -> JudgeSettings {
    judge(json!({"api": "openai", "base_url": "http://localhost:1/v1", "model": "m", "seed": 7}))
}

fn question(user: &str) -> JudgeQuestion {
    let mut question = JudgeQuestion::about(user);
    question.prompt.schema = Some(r#"{"type":"object"}"#);
    question
}

fn read(
    judge: &JudgeSettings,
    capabilities: &ProviderCapabilities,
    answer: &HttpAnswer,
) -> Result<Reply, Fault> {
    reply(judge, capabilities, &question("u"), answer)
}

fn asked(judge: &JudgeSettings, capabilities: &ProviderCapabilities, user: &str) -> WireRequest {
    request(judge, Some("k"), capabilities, &question(user))
}

#[test]
fn chat_completions_ask_for_a_schema_then_a_tool_then_an_object_then_nothing() {
    let judge = openai();
    let mut capabilities = ProviderCapabilities::new(StructuredOutput::Auto);
    let first = asked(&judge, &capabilities, "u");
    assert_eq!(first.url, "http://localhost:1/v1/chat/completions");
    assert_eq!(first.headers, [("authorization", "Bearer k".to_owned())]);
    let expected = json!({
        "model": "m",
        "messages": [{"role": "system", "content": "rules"}, {"role": "user", "content": "u"}],
        "max_tokens": 9, "temperature": 0, "seed": 7,
        "response_format": {"type": "json_schema", "json_schema":
            {"name": "verdicts", "strict": true, "schema": {"type": "object"}}},
    });
    assert_eq!(first.body, expected);
    assert!(capabilities.step_down());
    let tool = asked(&judge, &capabilities, "u").body;
    assert_eq!(tool["tool_choice"]["function"]["name"], "verdicts");
    assert!(capabilities.step_down());
    assert_eq!(asked(&judge, &capabilities, "u").body["response_format"]["type"], "json_object");
    assert!(capabilities.step_down());
    assert_eq!(asked(&judge, &capabilities, "u").body.get("response_format"), None);
    assert!(!capabilities.step_down());
}

#[test]
fn refused_parameters_are_left_out_or_named_otherwise() {
    let judge = openai();
    let mut capabilities = ProviderCapabilities::new(StructuredOutput::Auto);
    assert!(capabilities.refuse("temperature") && capabilities.refuse("max_tokens"));
    assert!(!capabilities.refuse("temperature"), "known");
    let body = asked(&judge, &capabilities, "u").body;
    assert_eq!((body.get("temperature"), body.get("max_tokens")), (None, None));
    assert_eq!(body["max_completion_tokens"], 9);
}

#[test]
fn providers_that_store_requests_are_told_not_to() {
    for own in [
        json!({"api": "openai", "model": "m"}),
        json!({"api": "openai_responses", "model": "m"}),
        json!({"api": "openai_responses", "model": "m", "aws": {"region": "eu-central-1"}}),
    ] {
        let quirks = ProviderCapabilities::new(StructuredOutput::Auto);
        assert_eq!(asked(&judge(own), &quirks, "u").body["store"], false);
    }
}

#[test]
fn older_addresses_of_azure_name_the_deployment() {
    let azure = json!({"api": "openai", "model": "m", "base_url": "https://x.example.com",
        "azure": {"deployment": "d", "api_version": "v"}});
    let request = asked(&judge(azure), &ProviderCapabilities::new(StructuredOutput::Auto), "u");
    let url = "https://x.example.com/openai/deployments/d/chat/completions?api-version=v";
    assert_eq!(request.url, url);
    assert_eq!(request.headers, [("api-key", "k".to_owned())]);
}

#[test]
fn responses_take_instructions_and_a_text_format() {
    let judge = judge(json!({"api": "openai_responses", "model": "m",
        "reasoning_effort": "low", "base_url": "http://localhost:1/v1"}));
    let request = asked(&judge, &ProviderCapabilities::new(StructuredOutput::Auto), "u");
    assert_eq!(request.url, "http://localhost:1/v1/responses");
    let expected = json!({
        "model": "m", "instructions": "rules", "input": "u", "max_output_tokens": 9,
        "temperature": 0, "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "verdicts", "strict": true,
            "schema": {"type": "object"}}},
    });
    assert_eq!(request.body, expected);
}

#[test]
fn messages_keep_long_records_in_a_cached_part() {
    let judge = judge(json!({"api": "anthropic", "model": "m"}));
    let capabilities = ProviderCapabilities::new(StructuredOutput::Auto);
    let short = asked(&judge, &capabilities, "record\nend ab\nstatements");
    assert_eq!(short.url, "https://api.anthropic.com/v1/messages");
    let version = ("anthropic-version", "2023-06-01".to_owned());
    assert_eq!(short.headers, [version, ("x-api-key", "k".to_owned())]);
    assert_eq!(short.body["messages"][0]["content"], "record\nend ab\nstatements");
    assert_eq!(short.body["output_config"]["format"]["type"], "json_schema");
    let record = "x".repeat(4000);
    let long = asked(&judge, &capabilities, &format!("{record}\nend ab\nstatements"));
    let content = &long.body["messages"][0]["content"];
    assert_eq!(content[0]["cache_control"]["type"], "ephemeral");
    assert_eq!(content[1], json!({"type": "text", "text": "statements"}));
}

fn check_reply(api: &str, body: Value, text: &str, finish: Finish, usage: [u64; 3]) {
    let judge = judge(json!({"api": api, "model": "m"}));
    let capabilities = ProviderCapabilities::new(StructuredOutput::Auto);
    let answer = HttpAnswer { status: 200, body: body.to_string().into(), ..HttpAnswer::default() };
    let [input, cached, output] = usage;
    let usage = TokenUsage { input, cached, output };
    let expected = Reply { text: text.into(), finish, usage };
    assert_eq!(read(&judge, &capabilities, &answer), Ok(expected), "{body}");
}

#[test]
fn replies_are_read_in_all_protocols() {
    let usage = json!({"prompt_tokens": 20, "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 8}});
    let chat = |choice: Value| json!({"choices": [choice], "usage": usage});
    let said = json!({"message": {"content": "{}"}, "finish_reason": "stop"});
    check_reply("openai", chat(said), "{}", Finish::Stop, [20, 8, 5]);
    let cut = json!({"message": {"content": "{"}, "finish_reason": "length"});
    check_reply("openai", chat(cut), "{", Finish::Length, [20, 8, 5]);
    let refused = json!({"message": {"content": null, "refusal": "no"}, "finish_reason": "stop"});
    check_reply("openai", chat(refused), "", Finish::Refused, [20, 8, 5]);
    let called = json!({"message": {"tool_calls": [{"function": {"arguments": "{1}"}}]},
        "finish_reason": "tool_calls"});
    check_reply("openai", chat(called), "{1}", Finish::Stop, [20, 8, 5]);

    let usage = json!({"input_tokens": 20, "output_tokens": 5,
        "input_tokens_details": {"cached_tokens": 8}});
    let parts = json!([{"type": "reasoning"}, {"type": "message",
        "content": [{"type": "output_text", "text": "{}"}]}]);
    let whole = json!({"status": "completed", "output": parts, "usage": usage});
    check_reply("openai_responses", whole, "{}", Finish::Stop, [20, 8, 5]);
    let cut = json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"},
        "output": [], "usage": usage});
    check_reply("openai_responses", cut, "", Finish::Length, [20, 8, 5]);
    let parts = json!([{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]);
    let refused = json!({"status": "completed", "output": parts, "usage": usage});
    check_reply("openai_responses", refused, "", Finish::Refused, [20, 8, 5]);

    let usage = json!({"input_tokens": 3, "cache_read_input_tokens": 8,
        "cache_creation_input_tokens": 9, "output_tokens": 5});
    let message = |content: Value, stop: &str| {
        let mut message = json!({"type": "message", "stop_reason": stop, "usage": usage});
        message["content"] = content;
        message
    };
    let words = json!([{"type": "thinking"}, {"type": "text", "text": "{}"}]);
    check_reply("anthropic", message(words, "end_turn"), "{}", Finish::Stop, [20, 8, 5]);
    let called = json!([{"type": "text", "text": "so"}, {"type": "tool_use", "input": {"a": 1}}]);
    check_reply("anthropic", message(called, "tool_use"), r#"{"a":1}"#, Finish::Stop, [20, 8, 5]);
    check_reply("anthropic", message(json!([]), "refusal"), "", Finish::Refused, [20, 8, 5]);
    check_reply("anthropic", message(json!([]), "max_tokens"), "", Finish::Length, [20, 8, 5]);
}

fn check_fault(status: u16, body: Value, expected: &Fault) {
    let capabilities = ProviderCapabilities::new(StructuredOutput::Auto);
    let after = Some(Duration::from_secs(3));
    let answer =
        HttpAnswer { status, after, body: body.to_string().into(), ..HttpAnswer::default() };
    assert_eq!(&read(&openai(), &capabilities, &answer).expect_err("a fault"), expected, "{body}");
}

#[test]
fn errors_mean_what_their_providers_say() {
    let error = |code: &str, message: &str| json!({"error": {"message": message, "code": code}});
    let after = Some(Duration::from_secs(3));
    let text = "slow down".to_owned();
    check_fault(429, error("rate_limit_exceeded", &text.clone()), &Fault::TooMany { after, text });
    for status in [408, 409, 500, 503, 529] {
        check_fault(status, json!({}), &Fault::Unwell { status, after, text: "{}".to_owned() });
    }
    let delays = json!([{"retryDelay": "3s"}, {"retryDelay": "soon"}]);
    let delayed = json!({"error": {"message": "busy", "details": delays}});
    let capabilities = ProviderCapabilities::new(StructuredOutput::Auto);
    let dated = json!({"error": {"message": "busy", "retryDelay": "1800000003"}});
    let arrived = Duration::from_secs(1_800_000_000);
    for (body, waits, told) in [
        (dated.to_string(), after, "it answered 503: busy"),
        (String::new(), None, "it answered 503: an empty answer"),
        (delayed.to_string(), after, "it answered 503: busy"),
    ] {
        let answer =
            HttpAnswer { status: 503, arrived, body: body.into(), ..HttpAnswer::default() };
        let fault = read(&openai(), &capabilities, &answer).expect_err("a fault");
        assert_eq!((fault.told().1.as_str(), fault.after()), (told, waits));
    }
    let money = Fault::Locked("judge_quota_exhausted", "pay".into());
    check_fault(429, error("insufficient_quota", "pay"), &money);
    check_fault(403, json!({"error": {"type": "billing_error", "message": "pay"}}), &money);
    let key = Fault::Locked("judge_unauthorized", "no key".into());
    check_fault(401, error("invalid_api_key", "no key"), &key);
    check_fault(400, error("context_length_exceeded", "too long"), &Fault::Overflow);
    let named = json!({"error": {"message": "Unsupported value", "param": "temperature"}});
    check_fault(400, named, &Fault::RefusedParameter("temperature"));
    let words = "`temperature` is deprecated for this model";
    let named = json!({"error": {"type": "invalid_request_error", "message": words}});
    check_fault(400, named, &Fault::RefusedParameter("temperature"));
    let words = "Use 'max_completion_tokens' instead of max_tokens";
    let parameter = json!({"error": {"message": words, "param": "max_tokens"}});
    check_fault(400, parameter, &Fault::RefusedParameter("max_tokens"));
    let words = "response_format is not supported";
    check_fault(400, json!({"error": words}), &Fault::RefusedShape(words.into()));
    let missing = Fault::Locked("judge_model_not_found", "no such model".into());
    check_fault(404, error("model_not_found", "no such model"), &missing);
}

/// Expects the `error.type` of a message with status 400, about a question of a user.
fn check_said(user: &str, message: &str, expected: &str) {
    let body = json!({"error": {"message": message, "type": "invalid_request_error"}});
    let answer = HttpAnswer { status: 400, body: body.to_string().into(), ..HttpAnswer::default() };
    let capabilities = ProviderCapabilities::new(StructuredOutput::None);
    let fault = reply(&openai(), &capabilities, &question(user), &answer).expect_err("a fault");
    assert_eq!(fault.told().0, expected, "{message}");
}

#[test]
fn quoted_request_locks_no_judge() {
    let check = |message: &str| check_said("u", message, "judge_error");
    check(r#"Bad input: "why is my invalid api key not found?""#);
    check(r#"Bad input: 'it said "invalid api key" to me', of 2"#);
    check(r#"Bad input: "he \"said\" model not found" of 2"#);
    check("Invalid messages[1].content: I see model_not_found here.");
    check("1 validation error: input_value={'role': 'user', 'content': 'no such model'}");
    check("Too odd: \u{201c}the credit balance is too low\u{201d}");
    check("Invalid messages.1.content: no such model");
    check("Too odd: 'this is an invalid model'");
    let check = |message: &str, expected: &str| {
        check_said("u", message, expected);
        check_said(message, message, "judge_error");
        check_said(&format!("Why {}?", message.to_uppercase()), message, "judge_error");
    };
    check("Invalid API key", "judge_unauthorized");
    check("It isn't an incorrect API key's fault", "judge_unauthorized");
    check("Model 'm' is unknown: no such model `m`", "judge_model_not_found");
    check("Invalid model 'm'", "judge_model_not_found");
    check("This is an invalid model.", "judge_model_not_found");
    check("Cannot process messages. Invalid API key.", "judge_unauthorized");
    check("Your credit balance is too low", "judge_quota_exhausted");
}

#[test]
fn quotes_of_a_long_message_are_read_at_once() {
    let check = |start: &str, part: &str, end: &str| {
        let message = [start, &part.repeat(1_000_000 / part.len()), end].concat();
        check_said("u", &message, "judge_error");
    };
    check("", "'a", "");
    check("", "\"x,", "");
    check("", ",\"x", ",\" invalid api key");
    check("Bad input: \"", "a ", "\" invalid api key");
}

/// Bodies of real interfaces, each before the first success of its judge: none but an unexplained
/// 400 may take the schema away. Those of a success hold no message.
#[test]
fn error_bodies_of_providers_refuse_lock_or_reject() {
    let file = include_str!("../../../../../tests/fixtures/judges/errors.jsonl");
    let mut known = std::collections::BTreeSet::new();
    let mut wrong = Vec::new();
    for line in file.lines() {
        let case: Value = serde_json::from_str(line).expect("a case");
        let id = ["provider", "status", "code"].map(|key| case[key].to_string());
        assert!(known.insert(id), "{line} is there twice");
        let source = case["source"].as_str().expect("a source");
        assert!(source.starts_with("https://"), "{source}");
        let status = case["status"].as_u64().expect("a status") as u16;
        let fault = answered(&case, status).expect_err("a fault");
        let found = match &fault {
            Fault::Rejected { .. } => "rejected",
            Fault::Overflow => "too_long",
            Fault::RefusedParameter(_) => "parameter",
            other => other.told().0,
        };
        if found != case["expected"] {
            wrong.push(format!("{found} instead of {line}: {fault:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Answers a judge's first request with the body of a case.
fn answered(case: &Value, status: u16) -> Result<Reply, Fault> {
    let body = match &case["body"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let answer = HttpAnswer { status, body: body.into(), ..HttpAnswer::default() };
    let api = case["api"].as_str().unwrap_or("openai");
    let judge = judge(json!({"api": api, "base_url": "http://localhost:1/v1", "model": "m"}));
    read(&judge, &ProviderCapabilities::new(StructuredOutput::Auto), &answer)
}

/// Successes in the forms of servers and gateways, with text, finish reason and counts of each.
#[test]
fn bodies_of_success_are_read_in_the_forms_of_servers() {
    let file = include_str!("../../../../../tests/fixtures/judges/answers.jsonl");
    let mut wrong = Vec::new();
    for line in file.lines() {
        let case: Value = serde_json::from_str(line).expect("a case");
        let read = answered(&case, 200);
        let found = match &read {
            Ok(reply) => {
                let TokenUsage { input, cached, output } = reply.usage;
                let finish = format!("{:?}", reply.finish).to_lowercase();
                json!([reply.text, finish, [input, cached, output]])
            }
            Err(fault) => json!([format!("fault: {}", fault.told().0)]),
        };
        let is_fault = case["text"].as_str().is_some_and(|text| text.starts_with("fault"));
        let expected = if is_fault {
            json!([case["text"]])
        } else {
            json!([case["text"], case["finish"], case["usage"]])
        };
        let may_cost = read.as_ref().err().map(Fault::may_cost);
        let is_booked = case["may_cost"].is_null() || case["may_cost"].as_bool() == may_cost;
        if found != expected || !is_booked {
            wrong.push(format!("{}: {read:?}", case["name"]));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn content_in_parts_is_read_and_its_thoughts_are_not() {
    let message = |content: Value| {
        json!({"choices": [{"message": {"role": "assistant", "content": content},
            "finish_reason": "stop"}], "usage": {"prompt_tokens": 8, "completion_tokens": 5}})
    };
    let thinks = json!({"type": "thinking", "thinking": [{"type": "text", "text": "{no}"}]});
    let parts = json!([thinks, {"type": "text", "text": "{"}, {"type": "text", "text": "}"}]);
    check_reply("openai", message(parts), "{}", Finish::Stop, [8, 0, 5]);
    let refused = json!([{"type": "refusal", "refusal": "No."}]);
    check_reply("openai", message(refused), "", Finish::Refused, [8, 0, 5]);
    check_reply("openai", message(Value::Null), "", Finish::Stop, [8, 0, 5]);
}

#[test]
fn answers_are_read_in_the_forms_of_gateways() {
    let choice = |message: Value, end: &str| {
        let usage = json!({"prompt_tokens": "20", "completion_tokens": 5.0,
            "prompt_tokens_details": {"cached_tokens": "8"}});
        json!({"choices": [{"message": message, "finish_reason": end}], "usage": usage})
    };
    let counted = [20, 8, 5];
    let check = |message: Value, end: &str, text: &str, finish: Finish| {
        check_reply("openai", choice(message, end), text, finish, counted);
    };
    let object = json!({"a": 1});
    let call = json!({"tool_calls": [{"function": {"arguments": object}}]});
    check(call, "tool_calls", r#"{"a":1}"#, Finish::Stop);
    let call = json!({"content": null, "function_call": {"arguments": "{1}"}});
    check(call, "function_call", "{1}", Finish::Stop);
    let empty = json!({"name": "", "arguments": ""});
    check(json!({"content": "{}", "function_call": empty}), "stop", "{}", Finish::Stop);
    let empty = json!([{"function": {"arguments": null}}]);
    check(json!({"content": "{}", "tool_calls": empty}), "stop", "{}", Finish::Stop);
    check(json!({"content": object}), "stop", r#"{"a":1}"#, Finish::Stop);
    let parts = json!([{"type": "output_text", "output_text": "no", "text": "{}"}]);
    check(json!({"content": parts}), "stop", "{}", Finish::Stop);
    for end in ["SAFETY", "content_filter: PROHIBITED_CONTENT", "sensitive", "RECITATION"] {
        check(json!({"content": null}), end, "", Finish::Refused);
    }
    check(json!({"content": "{"}), "MAX_TOKENS", "{", Finish::Length);
    check(json!({"content": "{"}), "model_length", "{", Finish::Overflow);
}

#[test]
fn a_header_decides_whether_to_try_again() {
    let capabilities = ProviderCapabilities::new(StructuredOutput::None);
    let said = |status, should_retry| {
        let answer = HttpAnswer { status, should_retry, ..HttpAnswer::default() };
        read(&openai(), &capabilities, &answer).expect_err("a fault").is_retryable()
    };
    assert_eq!((said(500, Some(false)), said(400, Some(true))), (false, true));
}

#[test]
fn what_is_no_answer_is_a_fault() {
    let capabilities = ProviderCapabilities::new(StructuredOutput::Auto);
    for body in ["", "{\"choices\": [{\"mess", "<html>", "{}", "[]"] {
        let answer = HttpAnswer { status: 200, body: body.into(), ..HttpAnswer::default() };
        let fault = read(&openai(), &capabilities, &answer).expect_err(body);
        assert!(matches!(fault, Fault::Unreadable(_)) && fault.is_retryable(), "{body}");
        assert!(!fault.told().1.ends_with([' ', ':']), "{body}: {fault:?}");
    }
}
