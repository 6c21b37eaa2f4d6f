use super::*;
use spanscore_evaluate::kind;

/// Returns the rows of a dataset as `names: criteria @ line`, then its errors.
fn check(name: &str, kind_name: &str, change: &[(&str, &str)], text: &str, expected: &[&str]) {
    let mut settings = ExpectSettings::default();
    for (key, value) in change {
        match *key {
            "id_field" => settings.id_field = (*value).to_owned(),
            "criteria_field" => settings.criteria_field = (*value).to_owned(),
            _ => settings.evaluator = Some((*value).to_owned()),
        }
    }
    let mut mistakes = Vec::new();
    let kind = kind(kind_name).unwrap();
    let rows = read(Path::new(name), text, &settings, kind, &mut mistakes);
    let shown = |row: &Row| row.criteria.as_ref().map(Value::to_string).unwrap_or_default();
    let at = |line: Option<usize>| line.map_or("?".to_owned(), |line| line.to_string());
    let rows = rows
        .iter()
        .map(|row| format!("{}: {} @ {}", row.names.join("|"), shown(row), at(row.line)));
    let mistakes = mistakes.iter().map(|mistake| {
        let help = mistake.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}: {}{help}", at(mistake.line), mistake.what)
    });
    let said: Vec<_> = rows.chain(mistakes).collect();
    assert_eq!(said, expected, "{text}");
}

#[test]
fn json_lines_hold_a_case_each() {
    let text = "\u{feff}{\"id\":\"a\",\"criteria\":{\"x\":1}}\n\n\
                {\"id\":7,\"criteria\":\"{\\\"x\\\":2}\"}\n\
                {\"id\":\"none\",\"criteria\":null}\n";
    check(
        "c.jsonl",
        "contains",
        &[],
        text,
        &[r#"a: {"x":1} @ 1"#, r#"7: {"x":2} @ 3"#, "none:  @ 4"],
    );
    let text = r#"{"meta":{"case.id":"a"},"want":{"calls":{"x":1}}}"#;
    let fields = [("id_field", "meta.case.id"), ("criteria_field", "want.calls")];
    check("c.jsonl", "contains", &fields, text, &[r#"a: {"x":1} @ 1"#]);
}

#[test]
fn json_lines_hold_the_turns_of_a_conversation() {
    let check_turns = |kind_name: &str, second: &str, expected: &[&str]| {
        let first = r#"{"user_input":"Hi","criteria":{"tool_calls":[]}}"#;
        let text = format!("{{\"id\":\"talk\",\"turns\":[{first},{second}]}}");
        check("c.jsonl", kind_name, &[], &text, expected);
    };
    let find = r#"{"user_input":"Find","criteria":{"tool_calls":["find"]}}"#;
    let joined = r#"talk: {"turns":[[],["find"]]} @ 1"#;
    check_turns("tool_trajectory", find, &[joined]);
    check_turns("tool_call_args", find, &["talk:  @ 1"]);
    check_turns("tool_trajectory", r#"{"user_input":"Thanks"}"#, &["talk:  @ 1"]);
    check_turns("tool_trajectory", r#"{"criteria":{}}"#, &["1: turn 2 has no `user_input`"]);
    let wrong = r#"{"user_input":"Find","criteria":[]}"#;
    check_turns("tool_trajectory", wrong, &["1: turn 2: criteria must be an object"]);
    let renamed = r#"{"id":"a","turns":7,"criteria":{"x":1}}"#;
    check("c.jsonl", "contains", &[], renamed, &[r#"a: {"x":1} @ 1"#]);
    let messages = r#"{"id":"a","turns":[{"role":"user"}],"criteria":{"x":1}}"#;
    check("c.jsonl", "contains", &[], messages, &[r#"a: {"x":1} @ 1"#]);
}

#[test]
fn mistakes_in_json_lines_name_their_line() {
    let text = "{\n{\"criteria\":{}}\n{\"id\":\"a\"}\n{\"id\":[],\"criteria\":{}}\n\
                {\"id\":\"a\",\"criteria\":[1]}\n{\"id\":\"a\",\"criteria\":\"{\"}\n{}\n\
                {\"id\":\"a\",\"note\":\"n\",\"expected_tool_calls\":[]}\n\
                {\"id\":\"a\",\"turns\":{}}\n";
    let text = format!("{text}{{\"{}\":1}}\n", "k".repeat(50));
    let long = "k".repeat(40);
    let long = format!("10: the case has no `id`, but {long}: name another field with `id_field`");
    let expected = [
        "1: not valid JSON at byte 1",
        "2: the case has no `id`, but criteria: name another field with `id_field`",
        "3: the case has no `criteria`",
        "4: `id` is neither a text nor a number",
        "5: criteria must be an object",
        "6: criteria: not valid JSON at byte 1",
        "7: the case has no `id`",
        "8: the case has no `criteria`: write what it expects there, \
         `\"criteria\": {\"expected_tool_calls\": ...}`",
        "9: `turns` must be a list",
        &long,
    ];
    check("c.jsonl", "contains", &[], &text, &expected);
}

#[test]
fn csv_holds_criteria_as_json() {
    let text =
        "id,note,criteria\r\na,\"x, y\",\"{\"\"x\"\": 1}\"\r\nb,,\n\"c\nd\",,{}\ne,,1\n,,{}\n";
    let expected = [
        r#"a: {"x":1} @ 2"#,
        "b:  @ 3",
        "c\nd: {} @ 4",
        "6: criteria must be an object",
        "7: the case has no `id`",
    ];
    check("cases.CSV", "contains", &[], text, &expected);
    check(
        "c.csv",
        "contains",
        &[],
        "a,b\n1\n",
        &[
            "1: the header has no column `id` (name another column with `id_field`)",
            "1: the header has no column `criteria` (name another column with `criteria_field`)",
        ],
    );
    let commas = "(its columns are separated by ';': write commas)";
    check(
        "c.csv",
        "contains",
        &[("criteria_field", "id")],
        "id;x\n1\n",
        &[&format!("1: the header has no column `id` {commas}"); 2].map(String::as_str),
    );
    let uneven = "id,criteria\na,{}\nb\n";
    let expected = [
        "a: {} @ 2",
        "3: CSV error: record 2 (line: 3, byte: 17): found record with 1 \
                     fields, but the previous record has 2 fields",
    ];
    check("c.csv", "contains", &[], uneven, &expected);
}

const ADK: &str = r#"{
  "eval_set_id": "home",
  "eval_cases": [
    {"eval_id": "lamp", "conversation": [
      {"user_content": {"parts": [{"text": "lamp on"}]},
       "final_response": {"parts": [{"text": "It is "}, {"text": "on."}]},
       "intermediate_data": {
         "tool_uses": [{"name": "find", "args": {"q": "lamp"}}, {"name": "set", "args": null}],
         "tool_responses": [{"name": "find", "response": {"id": 1}}]}},
      {"intermediate_data": {"invocation_events": [
         {"author": "agent", "content": {"parts": [{"function_call": {"name": "find"}}]}}]}}
    ]},
    {"evalId": "talk", "conversation": [{"intermediateData": {"toolUses": []}}]}
  ]
}"#;

#[test]
fn adk_eval_set_expects_the_calls_of_all_turns() {
    let check =
        |kind: &str, expected: &[&str]| check("home.evalset.json", kind, &[], ADK, expected);
    check(
        "tool_call_args",
        &[
            concat!(
                r#"lamp: {"tool_calls":[{"name":"find","args":{"q":"lamp"}},"#,
                r#"{"name":"set","args":{}},{"name":"find","args":{}}]} @ 4"#
            ),
            r#"talk: {"tool_calls":[]} @ 13"#,
        ],
    );
    check(
        "tool_trajectory",
        &[
            concat!(
                r#"lamp: {"turns":[[{"name":"find","arguments":{"q":"lamp"}},"#,
                r#"{"name":"set","arguments":{}}],[{"name":"find","arguments":{}}]]} @ 4"#
            ),
            r#"talk: {"tool_calls":[]} @ 13"#,
        ],
    );
    let talk = "talk:  @ 13";
    check("tool_call_order", &[r#"lamp: {"tool_calls_order":["find","set","find"]} @ 4"#, talk]);
    check(
        "tool_call_count",
        &[
            r#"lamp: {"tool_calls_count":{"find":["=",2],"set":["=",1]}} @ 4"#,
            r#"talk: {"tool_calls_count":{}} @ 13"#,
        ],
    );
    check(
        "tool_call_output",
        &[r#"lamp: {"tool_outputs":[{"name":"find","output":{"id":1}}]} @ 4"#, talk],
    );
    check("contains", &[r#"lamp: {"search_text":"It is on."} @ 4"#, talk]);
    for kind in ["exact_match", "word_overlap"] {
        check(kind, &[r#"lamp: {"expected_output":"It is on."} @ 4"#, talk]);
    }
}

#[test]
fn turns_of_a_conversation_are_numbered_and_may_expect_nothing() {
    let turn = |words: &str, calls: &str| {
        format!(
            r#"{{"user_content": {{"parts": [{{"text": "{words}"}}]}},
                "intermediate_data": {{"tool_uses": [{calls}]}}}}"#
        )
    };
    let turns = [turn("Hi", ""), turn("Find A-17", r#"{"name": "find"}"#)].join(",");
    let set = format!(r#"{{"eval_cases": [{{"eval_id": "talk", "conversation": [{turns}]}}]}}"#);
    let check = |kind_name: &str, expected: [&str; 2]| {
        let settings = ExpectSettings::default();
        let kind = kind(kind_name).unwrap();
        let rows = read(Path::new("e.json"), &set, &settings, kind, &mut Vec::new());
        let shown = |turn: &CaseTurn| {
            let criteria = turn.criteria.as_ref().map(Value::to_string);
            format!("{} {}: {}", turn.number, turn.user_input, criteria.unwrap_or_default())
        };
        assert_eq!(rows[0].turns.iter().map(shown).collect::<Vec<_>>(), expected);
    };
    check("tool_call_order", ["1 Hi: ", r#"2 Find A-17: {"tool_calls_order":["find"]}"#]);
    check(
        "tool_trajectory",
        [
            r#"1 Hi: {"tool_calls":[]}"#,
            r#"2 Find A-17: {"tool_calls":[{"name":"find","arguments":{}}]}"#,
        ],
    );
}

#[test]
fn adk_eval_set_of_before_is_a_list_of_named_cases() {
    let text = r#"[{"name": "lamp", "initial_session": {}, "data": [
        {"query": "lamp on", "expected_tool_use": [
            {"tool_name": "find", "tool_input": {"q": "lamp"}, "mock_tool_output": {"id": 1}},
            {"tool_name": "set"}], "reference": "wait"},
        {"query": "and?", "expected_tool_use": [], "reference": "It is on."}]},
      {"data": []}]"#;
    let check = |kind: &str, expected: &str| {
        let unnamed =
            "?: a case of the list has neither `id` and `criteria`, nor `name` and `data`";
        check("home.test.json", kind, &[], text, &[expected, unnamed]);
    };
    check("tool_call_order", r#"lamp: {"tool_calls_order":["find","set"]} @ 1"#);
    check("tool_call_output", r#"lamp: {"tool_outputs":[{"name":"find","output":{"id":1}}]} @ 1"#);
    check("contains", r#"lamp: {"search_text":"It is on."} @ 1"#);
}

#[test]
fn adk_case_without_a_name_is_a_mistake() {
    let text = r#"{"eval_cases": [{"conversation": []}]}"#;
    check("e.json", "tool_call_args", &[], text, &["?: a case has no `eval_id`"]);
}

#[test]
fn uipath_eval_set_holds_criteria_by_evaluator() {
    let text = r#"{"version": "1.0", "evaluations": [
        {"id": "1", "name": "refund", "evaluationCriterias": {"Args": {"toolCalls": []}, "B": {}}},
        {"id": "2", "evaluationCriterias": {"Args": null}},
        {"id": "3", "name": "3", "evaluationCriterias": {"B": {"x": 1}}}
    ]}"#;
    let args = [r#"1|refund: {"toolCalls":[]} @ 2"#, "2: null @ 3", "3:  @ 4"];
    check("e.json", "tool_call_args", &[("evaluator", "Args")], text, &args);
    let b = ["1|refund: {} @ 2", "2:  @ 3", r#"3: {"x":1} @ 4"#];
    check("e.json", "tool_call_args", &[("evaluator", "B")], text, &b);
    let unsaid = "?: which evaluator's criteria are meant is not said (`evaluator` may be Args, B)";
    check("e.json", "tool_call_args", &[], text, &[unsaid]);
    let unknown = "?: no evaluation has criteria of `C` (`evaluator` may be Args, B)";
    check("e.json", "tool_call_args", &[("evaluator", "C")], text, &[unknown]);
    let only = r#"{"evaluations": [{"name": "a", "evaluationCriterias": {"X": {}}}]}"#;
    check("e.json", "tool_call_args", &[], only, &["a: {} @ 1"]);
}

#[test]
fn rows_hold_the_user_s_words() {
    let check = |name: &str, text: &str, expected: &str| {
        let settings = ExpectSettings::default();
        let kind = kind("tool_call_args").unwrap();
        let rows = read(Path::new(name), text, &settings, kind, &mut Vec::new());
        let said = rows.iter().map(|row| row.user_input.as_deref().unwrap_or("-"));
        assert_eq!(said.collect::<Vec<_>>().join("|"), expected);
    };
    let lines = "{\"id\":1,\"user_input\":\"hi\",\"criteria\":{}}\n{\"id\":2,\"criteria\":{}}\n";
    check("c.jsonl", lines, "hi|-");
    check("c.csv", "id,user_input,criteria\n1,hi,{}\n", "hi");
    check("home.evalset.json", ADK, "lamp on|-");
    check("old.json", r#"[{"name": "a", "data": [{"query": "lamp on"}]}]"#, "lamp on");
}

#[test]
fn dataset_has_no_more_cases_than_its_limit() {
    let case = "{\"id\":1,\"criteria\":{}}\n";
    let read = |count: usize| {
        let mut mistakes = Vec::new();
        let settings = ExpectSettings::default();
        let text = case.repeat(count);
        let kind = kind("contains").unwrap();
        let rows = read(Path::new("c.jsonl"), &text, &settings, kind, &mut mistakes);
        (rows.len(), mistakes.len())
    };
    assert_eq!(read(ROWS_MAX), (ROWS_MAX, 0));
    assert_eq!(read(ROWS_MAX + 1), (0, 1));
}

#[test]
fn rows_may_stand_in_a_list() {
    let list = r#"[{"id": "a", "criteria": {"x": 1}}, {"id": "b", "criteria": {}}, {"id": "c"}]"#;
    let expected = [r#"a: {"x":1} @ ?"#, "b: {} @ ?", "?: the case has no `criteria`"];
    check("c.json", "contains", &[], list, &expected);
    check(
        "c.yaml",
        "contains",
        &[],
        "- id: a\n",
        &["?: a dataset is JSON Lines, CSV or an eval set in JSON, not YAML"],
    );
}

#[test]
fn dataset_without_a_case_is_a_mistake() {
    let told = "?: the dataset holds no case (write one, or make it of a recorded run: `spanscore \
                learn`)";
    for (name, text) in [
        ("c.json", "[]"),
        ("c.json", " \n"),
        ("c.json", r#"{"eval_cases": []}"#),
        ("c.json", r#"{"evaluations": []}"#),
        ("c.jsonl", ""),
        ("c.jsonl", "\u{feff}\n\n"),
        ("c.csv", ""),
        ("c.csv", "id,criteria\n"),
    ] {
        check(name, "tool_trajectory", &[], text, &[told]);
    }
}
