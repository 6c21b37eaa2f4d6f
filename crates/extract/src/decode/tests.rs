use proptest::prelude::*;

use super::super::dialect::Dialect;
use super::*;

fn check(decode: &str, text: &str, expected: &str) {
    let decode = Decode::parse(decode).unwrap();
    let found = match decode.apply(Value::from(text)) {
        Some(Decoded::Value(value)) => value.to_string(),
        Some(Decoded::Unreadable(text)) => format!("unreadable {text}"),
        None => "nothing".to_owned(),
    };
    assert_eq!(found, expected, "{decode:?} of {text}");
}

proptest! {
    /// Decoders of all dialects.
    #[test]
    fn words_are_decoded_without_looking_as_by_looking(text in "[a-zA-Z ][ -~]{0,12}") {
        let dialects = Dialect::with_builtin(Vec::new());
        let sources = dialects.iter().flat_map(Dialect::sources);
        for decode in sources.map(|(_, source)| &source.decode) {
            let found = match decode.of_words(&text) {
                Shortcut::Decoded(found) => Some(found),
                Shortcut::Nothing => None,
                Shortcut::Unknown => continue,
            };
            prop_assert_eq!(found, decode.apply(Value::from(&*text)), "{:?}", decode);
        }
    }
}

#[test]
fn texts_are_read_as_json_and_what_is_not_json_is_told_from_it() {
    check("value", "{\"a\":1}", r#""{\"a\":1}""#);
    check("json", r#"{"a":1}"#, r#"{"a":1}"#);
    check("json", r#""{\"a\":1}""#, r#"{"a":1}"#);
    check("json", r#""sunny""#, r#""sunny""#);
    check("json", r#"{"a":"#, r#"unreadable {"a":"#);
    check("json", "", "nothing");
    check("json_or_text", r#""sunny""#, r#""sunny""#);
    check("json_or_text", "sunny", r#""sunny""#);
    check("json_or_text", "", r#""""#);
}

#[test]
fn envelopes_are_taken_off() {
    check("json→unwrap", r#"{"args":[],"kwargs":{"a":1}}"#, r#"{"a":1}"#);
    check("json→unwrap", r#"{"args":[2],"kwargs":{}}"#, r#"{"args":[2],"kwargs":{}}"#);
    check("json→unwrap", r#"{"kwargs":{"a":1},"city":2}"#, r#"{"kwargs":{"a":1},"city":2}"#);
    check("json_or_text→unwrap_result", r#"{"result":[1]}"#, "[1]");
    check("json:$.inputs | json:$.input_str→json", r#"{"input_str":"{\"a\":1}"}"#, r#"{"a":1}"#);
    check("json:$.a.b[1]", r#"{"a":{"b":[1,2]}}"#, "2");
    check("json:$.a", r#"{"a":null}"#, "nothing");
    check("content_text", r#"[{"text":"{\"a\""},{"text":":1}"}]"#, r#"{"a":1}"#);
    check("content_text", r#"[{"image":1}]"#, r#"[{"image":1}]"#);
    check("content_text", r#"["Bern","Basel"]"#, r#"["Bern","Basel"]"#);
    check("content_text", r#"["Bern",{"type":"text","text":"!"}]"#, r#""Bern!""#);
    check(
        "messages:tool_call.arguments",
        r#"[{"parts":[{"type":"text","content":"x"},{"type":"tool_call","arguments":{"a":1}}]}]"#,
        r#"{"a":1}"#,
    );
    check("only_message", r#"[{"role":"tool","content":"{\"a\":1}"}]"#, r#"{"a":1}"#);
    check("only_message", r#"[{"parts":[{"type":"text","content":"sun"}]}]"#, r#""sun""#);
    let parts = r#"[{"parts":[{"type":"tool_call_response","response":[1]}]}]"#;
    check("only_message", parts, "[1]");
    check("only_message", r#"[{"content":"a"},{"content":"b"}]"#, "nothing");
    check("only_message", r#"{"content":"a"}"#, "nothing");
    let chosen = r#"{"choices":[{"message":{"role":"tool","content":"[1]","tool_id":"c"}}]}"#;
    check("tool_message", chosen, "[1]");
    check("tool_message.tool_call_id", chosen, r#""c""#);
}

#[test]
fn tool_messages_are_read_in_every_shape() {
    for text in [
        r#"{"content":"{\"a\":1}","tool_call_id":"c","type":"tool","status":"error"}"#,
        r#"{"type":"tool","data":{"content":"{\"a\":1}","tool_call_id":"c","status":"error"}}"#,
        r#"{"lc":1,"type":"constructor","id":["x","ToolMessage"],
            "kwargs":{"content":"{\"a\":1}","tool_call_id":"c","status":"error"}}"#,
    ] {
        check("tool_message", text, r#"{"a":1}"#);
        check("tool_message.tool_call_id", text, r#""c""#);
        check("tool_message.error", text, r#"{"a":1}"#);
    }
    let strands = r#"{"toolUseId":"c","status":"error","content":[{"text":"{\"a\":1}"}]}"#;
    check("tool_message", strands, r#"{"a":1}"#);
    check("tool_message.tool_call_id", strands, r#""c""#);
    check("tool_message.error", strands, r#"{"a":1}"#);
    check("tool_message", &format!(r#"{{"type":"json","value":{strands}}}"#), r#"{"a":1}"#);
    check("tool_message", "plain", r#""plain""#);
    check("tool_message.tool_call_id", "plain", "nothing");
    check("tool_message.error", r#"{"content":"x","tool_call_id":"c"}"#, "nothing");
}

#[test]
fn mistyped_decoders_name_the_nearest_word() {
    let error = |text| Decode::parse(text).unwrap_err();
    assert_eq!(error("jsn"), "unknown decoder `jsn` (did you mean `json`?)");
    assert_eq!(error("json:x"), "`x` is not a path such as `$.output.items[0]`");
}

#[test]
fn calls_and_results_are_found_in_every_message_shape() {
    for text in [
        r#"[{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"f",
            "arguments":{"a":1}}]},
            {"role":"tool","parts":[{"type":"tool_call_response","id":"c","response":"r"}]}]"#,
        r#"{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c",
            "type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
            {"role":"tool","tool_call_id":"c","content":"r"}]}"#,
        r#"[{"type":"function_call","id":"fc","call_id":"c","name":"f","arguments":"{\"a\":1}"},
            {"type":"function_call_output","call_id":"c","output":"r"}]"#,
        r#"[{"role":"assistant","content":[
            {"type":"tool_use","id":"c","name":"f","input":{"a":1}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}]"#,
        r#"[{"toolUse":{"toolUseId":"c","name":"f","input":{"a":1}}},
            {"toolResult":{"toolUseId":"c","status":"success","content":[{"text":"r"}]}}]"#,
        r#"{"contents":[{"role":"model","parts":[{"function_call":{"id":"c","name":"f",
            "args":{"a":1}}}]},{"role":"user","parts":[{"function_response":{"id":"c","name":"f",
            "response":{"result":"r"}}}]}]}"#,
        r#"[{"content":[{"toolRequest":{"ref":"c","name":"f","input":{"a":1}}}]},
            {"content":[{"toolResponse":{"ref":"c","name":"f","output":"r"}}]}]"#,
        r#"[{"role":"assistant","content":[{"type":"tool-call","toolCallId":"c","toolName":"f",
            "input":"{\"a\":1}"}]},{"role":"tool","content":[{"type":"tool-result",
            "toolCallId":"c","toolName":"f","output":{"type":"text","value":"r"}}]}]"#,
        r#"{"messages":[[{"type":"ai","data":{"content":"","tool_calls":[{"name":"f",
            "args":{"a":1},"id":"c","type":"tool_call"}]}},
            {"type":"tool","data":{"content":"r","tool_call_id":"c"}}]]}"#,
        r#"[{"role":"assistant","parts":[{"type":"server_tool_call","id":"c","name":"f",
            "server_tool_call":{"type":"f","a":1}},{"type":"server_tool_call_response","id":"c",
            "server_tool_call_response":"r"}]}]"#,
        r#"[{"role":"model","tool_calls":[{"id":"c","function":{"name":"f","arguments":{"a":1}}}]},
            {"role":"user","tool_call_id":"c","content":"r"}]"#,
        r#"[{"role":"model","tool_calls":[{"id":"c","function":{"name":"f","arguments":{"a":1}}}]},
            {"role":"user","content":
            "{\"parts\":[{\"function_response\":{\"id\":\"c\",\"response\":\"r\"}}]}"}]"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"So."}],"role":"model"}}],
            "automatic_function_calling_history":[{"parts":[{"function_call":{"id":"b","name":"f",
            "args":{}}}],"role":"model"},{"parts":[{"text":"Do."}]},
            {"parts":[{"function_call":{"id":"c","name":"f","args":{"a":1}}}],"role":"model"},
            {"parts":[{"function_response":{"name":"f","response":{"result":"r"}}}],
            "role":"user"}]}"#,
        r#"[{"message":{"role":"assistant","tool_calls":[{"tool_call":{"id":"c",
            "function":{"name":"f","arguments":"{\"a\":1}"}}}]}},
            {"message":{"role":"tool","tool_call_id":"c","content":"r"}}]"#,
    ] {
        let found = Messages::read(Value::from(text));
        let [call] = &found.calls[..] else { panic!("{text}: {found:?}") };
        let arguments = Value::Map([("a", Value::from(1))].into_iter().collect());
        assert_eq!((call.id.as_deref(), &*call.name), (Some("c"), "f"), "{text}");
        assert_eq!(call.arguments, Decoded::Value(arguments), "{text}");
        let [result] = &found.results[..] else { panic!("{text}: {found:?}") };
        assert_eq!((&*result.id, &result.value), ("c", &Value::from("r")), "{text}");
    }
}

#[test]
fn only_users_and_operators_are_heard() {
    for (role, expected) in [
        ("user", Some(true)),
        ("system", Some(false)),
        ("Developer", Some(false)),
        ("agent", None),
        ("chatbot", None),
        ("assistant", None),
        ("tool", None),
    ] {
        let text = format!(r#"[{{"role":"{role}","content":"Order ORD-999"}}]"#);
        let heard = Messages::read(Value::from(text)).heard;
        let found: Vec<bool> = heard.iter().map(|(is_users, _)| *is_users).collect();
        assert_eq!(found, Vec::from_iter(expected), "{role}");
    }
}

#[test]
fn the_last_texts_of_user_and_model_are_found() {
    check(
        "user_text",
        r#"[{"role":"user","content":"a"},
            {"role":"user","parts":[{"type":"text","content":"b"}]}]"#,
        r#""b""#,
    );
    check(
        "user_text",
        r#"[{"role":"user","parts":[{"type":"blob","modality":"image","content":"aGk="},
            {"type":"text","content":"b"},{"type":"uri","uri":"u","content":"u"}]}]"#,
        r#""b""#,
    );
    check(
        "assistant_text",
        r#"[{"role":"assistant","parts":[{"type":"text","content":"b"},
            {"type":"reasoning","content":"so it is"}]}]"#,
        r#""b""#,
    );
    check("user_text", r#"[{"role":"user","content":"{}"}]"#, "nothing");
    check("user_text", "{}", "nothing");
    let run = r#"{"text":"{\"a\":1}","object":{"a":1},"files":[]}"#;
    check("assistant_text", run, r#"{"a":1}"#);
    check("user_text", "plain", r#""plain""#);
    check("user_text", r#"{"task":"do it","stream":false}"#, r#""do it""#);
    check(
        "assistant_text",
        r#"{"choices":[{"message":{"role":"assistant","content":"b"}}]}"#,
        r#""b""#,
    );
    check(
        "assistant_text",
        r#"[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f"}}]}]"#,
        "nothing",
    );
}

#[test]
fn answers_and_questions_are_the_values_that_they_are() {
    for (text, expected) in [
        (r#"{"city":"Brno","temp":-2.5}"#, r#"{"city":"Brno","temp":-2.5}"#),
        (r#"{"content":"x","n":1}"#, r#"{"content":"x","n":1}"#),
        ("{'rain': True, 'mm': None}", r#"{"rain":true,"mm":null}"#),
        ("[1,2]", "[1,2]"),
        (r#"["a","b"]"#, r#"["a","b"]"#),
        ("42", "42"),
        ("true", "true"),
        ("null", "null"),
        ("", r#""""#),
        ("{}", "{}"),
        (r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#, r#""ab""#),
        (r#"{"output":{"n":1}}"#, r#"{"n":1}"#),
        (r#"{"outputs":42,"kwargs":{"tags":[]}}"#, "42"),
        (r#"{"messages":[{"type":"ai","data":{"content":""}}]}"#, r#""""#),
        (
            r#"{"messages":[{"role":"assistant","content":"x"}],"structured_response":{"n":1}}"#,
            r#"{"n":1}"#,
        ),
        (
            r#"{"messages":[{"role":"assistant","content":"x"}],"structured_response":null}"#,
            r#""x""#,
        ),
        (r#"{"message":{"role":"assistant"}}"#, "nothing"),
    ] {
        check("assistant_text", text, expected);
    }
    for (text, expected) in [
        (r#"{"city":"Brno","days":2}"#, r#"{"city":"Brno","days":2}"#),
        (r#"{"args":["q"],"kwargs":{}}"#, r#""q""#),
        (r#"{"args":[],"kwargs":{"text":"q"}}"#, r#""q""#),
        (r#"{"inputs":{"q":"hello"},"tags":[],"metadata":{}}"#, r#"{"q":"hello"}"#),
        ("7", "7"),
    ] {
        check("user_text", text, expected);
    }
}

#[test]
fn results_in_blocks_beside_a_flag_of_failure_are_read() {
    let blocks = r#""content":[{"type":"text","text":"{\"n\": 1}"}]"#;
    for (flag, error) in [("isError", true), ("is_error", false)] {
        let text = format!(r#"{{{blocks},"{flag}":{error},"kind":"x"}}"#);
        assert_eq!(
            shapes::tool_message(Value::from(text.clone())),
            json::parse(r#"{"n":1}"#).unwrap()
        );
        assert_eq!(shapes::tool_message_error(Value::from(text)).is_some(), error, "{flag}");
    }
}

#[test]
fn function_response_is_an_object_beside_id_and_name() {
    let given = r#"{"id":"c1","name":"find","response":{"result":"found"}}"#;
    check("tool_message", given, r#""found""#);
    let person = r#"{"id":"7","name":"Ann","response":"accepted"}"#;
    check("tool_message", person, person);
}

#[test]
fn blocks_of_text_are_their_text_and_no_other_list_is() {
    check("tool_message", r#"[{"type":"text","text":"19.5"}]"#, "19.5");
    check("tool_message", "[{'type': 'text', 'text': '{\"n\": 1}'}]", r#"{"n":1}"#);
    for list in [r#"[{"type":"image","text":"x"}]"#, r#"[{"text":"x"}]"#, "[]"] {
        check("tool_message", list, list);
    }
}

#[test]
fn members_written_as_json_are_read_and_plain_text_stays() {
    let members = r#"{"city":"\"Brno\"","n":"7","why":"no \"reason\""}"#;
    let read = r#"{"city":"Brno","n":7,"why":"no \"reason\""}"#;
    check("json→json_members", members, read);
}
