use crate::kinds::kind;
use spanscore_base::model::Want;
use spanscore_base::model::{CallStatus, Content, Outcome, Reason, ToolCall, Trajectory};
use spanscore_base::settings::Node;
use spanscore_base::value::json;

fn outcome(name: &str, settings: &str, output: Option<&'static str>) -> Outcome {
    let node = Node::from_value(&json::parse(settings).unwrap());
    let evaluator = (kind(name).unwrap().build)(&node).unwrap();
    let final_output =
        output.map_or(Content::NotRecorded, |text| Content::ready(json::parse(text).unwrap()));
    evaluator
        .as_code()
        .unwrap()
        .evaluate(&Trajectory { final_output, ..Trajectory::default() }, Want::ALL)
}

fn check(name: &str, settings: &str, output: &'static str, expected: f64, explanation: &str) {
    match outcome(name, settings, Some(output)) {
        Outcome::Scored(score) => {
            assert_eq!((score.value, &*score.explanation), (expected, explanation), "{settings}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn outputs_are_equal_by_value_and_texts_but_for_case() {
    let settings = r#"{"target_output_key": "a.b[1]", "criteria":
        {"expected_output": {"a": {"b": [0, {"n": 1}]}}}}"#;
    let does = "the final output does equal the expected one";
    check("exact_match", settings, r#"{"a": {"b": [7, {"n": 1.0}]}}"#, 1.0, does);
    let text = r#"{"criteria": {"expected_output": "Done"}}"#;
    check("exact_match", text, r#""done""#, 1.0, does);
    let case = r#"{"case_sensitive": true, "criteria": {"expected_output": "Done"}}"#;
    let does_not = "the final output does not equal the expected one; it differs from character 1 \
                    on (4 characters, expected 4)";
    check("exact_match", case, r#""done""#, 0.0, does_not);
}

#[test]
fn numbers_are_equal_by_value_at_any_size() {
    let say = |kind, settings: &str, expected: &str, output: &'static str| {
        let settings = format!(r#"{{{settings} "criteria": {{"expected_output": {expected}}}}}"#);
        match outcome(kind, &settings, Some(output)) {
            Outcome::Scored(score) => score.value,
            other => panic!("{settings}: {other:?}"),
        }
    };
    let exact = |expected, output| say("exact_match", "", expected, output);
    for (expected, output, score) in [
        ("9007199254740992", "9007199254740993", 0.0),
        ("9007199254740993", "9007199254740993", 1.0),
        ("9007199254740993", "9007199254740992.0", 0.0),
        ("9007199254740992", "9007199254740992.0", 1.0),
        ("18446744073709551616", "1.8446744073709552e19", 1.0),
        ("18446744073709551617", "1.8446744073709552e19", 0.0),
        ("5", "5.0", 1.0),
    ] {
        assert_eq!(exact(expected, output), score, "{expected} and {output}");
        let similar = say("json_similarity", "", expected, output);
        assert_eq!(similar == 1.0, score == 1.0, "{expected} and {output}: {similar}");
        assert!(similar > 0.999, "{expected} and {output}: {similar}");
        let [expected, output] =
            [expected, output].map(|number| format!(r#"{{"n": {number}}}"#).leak());
        let compat = say("exact_match", r#""compat": "uipath","#, expected, output);
        assert_eq!(compat, 1.0, "the package's numbers are doubles: {expected} and {output}");
    }
    let large = format!("1{}", "0".repeat(400)).leak();
    assert_eq!(exact(large, large), 1.0);
    assert_eq!(exact(large, "5"), 0.0);
}

#[test]
fn integers_that_no_double_holds_are_shown_whole() {
    let settings = r#"{"criteria": {"expected_output": [1, 9007199254740993]}}"#;
    let Outcome::Scored(score) = outcome("exact_match", settings, Some("[1, 2]")) else { panic!() };
    assert_eq!(score.details.get("expected"), Some(&"[1.0, 9007199254740993]".into()));
    let settings = r#"{"criteria": {"search_text": "9007199254740993"}}"#;
    let holds = "the final output does hold the text";
    check("contains", settings, r#"{"n": 9007199254740993}"#, 1.0, holds);
}

#[test]
fn a_text_is_found_in_what_python_prints() {
    let settings = r#"{"criteria": {"search_text": "'n': 5.0"}}"#;
    check("contains", settings, r#"{"n": 5}"#, 1.0, "the final output does hold the text");
    let negated = r#"{"negated": true, "criteria": {"search_text": "sorry"}}"#;
    check("contains", negated, r#""fine""#, 1.0, "the final output does not hold the text");
}

#[test]
fn similarity_counts_leaves_of_what_is_expected() {
    let settings = r#"{"criteria": {"expected_output": {"a": "abcd", "b": 10, "c": [1, 2]}}}"#;
    let output = r#"{"a": "abcx", "b": 5, "c": [1], "d": 0}"#;
    let explanation = "the final output is 56% similar to the expected one; `a` differs from \
                       character 4 on (4 characters, expected 4); `b` is not as expected; `c` has \
                       1 item, expected 2";
    check("json_similarity", settings, output, 0.5625, explanation);
}

#[test]
fn lines_are_judged_one_by_one() {
    let settings = r#"{"line_by_line_evaluator": true, "criteria": {"expected_output": "a\nb"}}"#;
    check("exact_match", settings, r#""a\n\nx""#, 0.5, "50% of the lines are as expected");
}

#[test]
fn what_is_not_there_is_no_low_score() {
    let settings = r#"{"target_output_key": "x", "criteria": {"expected_output": {"x": 1}}}"#;
    let failed = outcome("exact_match", settings, Some("{}"));
    assert!(matches!(failed, Outcome::Failed { error_type: "evaluator_error", .. }));
    let unknown = outcome("exact_match", settings, None);
    let expected = Reason::FinalOutputNotRecorded;
    assert!(matches!(unknown, Outcome::NotEvaluable { reason, .. } if reason == expected));
}

#[test]
fn mistakes_are_settings_errors() {
    let check = |settings: &str, message: &str| {
        let node = Node::from_value(&json::parse(settings).unwrap());
        let found = (kind("exact_match").unwrap().build)(&node).err();
        assert_eq!(found.map(|error| error.to_string()).as_deref(), Some(message));
    };
    check(
        r#"{"tools": ["search"], "criteria": {"expected_output": 5}}"#,
        "`tools` goes only with `target: tool_arguments` or `tool_results`",
    );
    check(
        r#"{"target": "tool_results", "target_output_key": "a", "criteria":
            {"expected_output": 5}}"#,
        "`target_output_key` goes only with the final output, without `path` (write `path`)",
    );
    check(
        r#"{"path": "..", "criteria": {"expected_output": 5}}"#,
        "`..` is no path; write keys and indices, such as `order.items[0].id`",
    );
    check(
        r#"{"target_output_key": ".", "criteria": {"expected_output": "x"}}"#,
        "`.` is no path; write keys and indices, such as `order.items[0].id`",
    );
    check(
        r#"{"line_by_line_evaluator": true, "line_delimiter": "", "criteria":
            {"expected_output": "x"}}"#,
        "`line_delimiter` is empty",
    );
}

/// Evaluates calls of `refund`, then `search`, with these arguments, results and errors.
fn evaluate_calls(name: &str, settings: &str, calls: &[[Option<&'static str>; 3]]) -> Outcome {
    let node = Node::from_value(&json::parse(settings).unwrap());
    let evaluator = (kind(name).unwrap().build)(&node).unwrap();
    let content = |text: Option<&'static str>| {
        text.map_or(Content::NotRecorded, |text| Content::ready(json::parse(text).unwrap()))
    };
    let call = |(at, [arguments, result, error]): (usize, &[Option<&'static str>; 3])| ToolCall {
        name: if at == 0 { "refund" } else { "search" }.into(),
        arguments: content(*arguments),
        result: content(*result),
        error: error.filter(|text| !text.is_empty()).map(Into::into),
        status: if error.is_some() { CallStatus::Error } else { CallStatus::Ok },
        ..ToolCall::default()
    };
    let tool_calls = calls.iter().enumerate().map(call).collect();
    evaluator
        .as_code()
        .unwrap()
        .evaluate(&Trajectory { tool_calls, ..Trajectory::default() }, Want::ALL)
}

fn check_calls(name: &str, settings: &str, calls: &[[Option<&'static str>; 3]], expected: &str) {
    let said = match evaluate_calls(name, settings, calls) {
        Outcome::Scored(score) => format!("{}: {}", score.value, score.explanation),
        Outcome::NotEvaluable { reason, explanation } => {
            format!("{}: {explanation}", reason.as_str())
        }
        Outcome::Failed { error, .. } => error,
    };
    assert_eq!(said, expected, "{settings}");
}

#[test]
fn words_of_a_number_are_its_digits_and_classes_their_names() {
    let words = r#"{"path": "answer", "criteria": {"expected_output": "about 17"}}"#;
    let said = "`answer` of the final output and the expected one have 67% of their words in \
                common";
    check("word_overlap", words, r#"{"answer": 17}"#, 2.0 / 3.0, said);
    let class = r#"{"positive_class": "spam", "criteria": {"expected_class": "ham"}}"#;
    let said = "the final output is not `spam`, expected is `ham`";
    check("classification", class, r#""not_spam""#, 0.0, said);
    check("classification", class, r#""Ham""#, 1.0, said);
}

#[test]
fn each_call_is_compared_by_itself() {
    let of_order = r#"{"target": "tool_arguments", "path": "order.id", "criteria":
        {"expected_output": "a-17"}}"#;
    let right = [Some(r#"{"order": {"id": "A-17"}}"#), None, None];
    let other = [Some(r#"{"order": {"id": "A-18"}}"#), None, None];
    let without = [Some("{}"), None, None];
    let unknown = [None, None, None];
    check_calls(
        "exact_match",
        of_order,
        &[right],
        "1: `order.id` of the arguments of 1 of 1 call as expected",
    );
    check_calls(
        "exact_match",
        of_order,
        &[right, other, without, right],
        "0.5: `order.id` of the arguments of 2 of 4 calls as expected; not so: search, search",
    );
    check_calls(
        "exact_match",
        of_order,
        &[right, unknown],
        "arguments_not_recorded: the arguments of `search` are not recorded",
    );
    let of_refund = of_order.replace("\"path\"", "\"tools\": [\"refund\"], \"path\"");
    check_calls(
        "exact_match",
        &of_refund,
        &[right, unknown],
        "1: `order.id` of the arguments of 1 of 1 call as expected",
    );
    check_calls(
        "exact_match",
        &of_refund.replace("refund", "cancel"),
        &[right],
        "no_tool_calls: no call of cancel",
    );
    check_calls("exact_match", of_order, &[], "no_tool_calls: no tool was called");
}

#[test]
fn results_are_read_where_something_else_than_a_text_is_expected() {
    let result = |text| [None, Some(text), None];
    let say =
        |settings: &str, call, expected| check_calls("exact_match", settings, &[call], expected);
    let left = r#"{"target": "tool_results", "path": "items[0].left", "criteria":
        {"expected_output": 3}}"#;
    let yes = "1: `items[0].left` of the result of 1 of 1 call as expected";
    say(left, result(r#"{"items": [{"left": 3.0}]}"#), yes);
    say(left, result(r#""{\"items\": [{\"left\": 3}]}""#), yes);
    say(left, result(r#""{'items': [{'left': 3}]}""#), yes);
    say(left, result(r#"{"items": [{"left": "3"}]}"#), yes);
    let no = "0: `items[0].left` of the result of 0 of 1 call as expected; not so: refund";
    say(left, result(r#"{"items": []}"#), no);
    say(left, result(r#""out of stock""#), no);
    let text = r#"{"target": "tool_results", "criteria": {"expected_output": "{}"}}"#;
    say(text, result(r#""{}""#), "1: the result of 1 of 1 call as expected");
}

#[test]
fn a_failed_call_returns_its_error() {
    let settings = r#"{"target": "tool_results", "criteria": {"search_text": "timeout"}}"#;
    let say = |call, expected| check_calls("contains", settings, &[call], expected);
    say([None, None, Some("Timeout after 5 s")], "1: the result of 1 of 1 call as expected");
    say([None, None, Some("")], "0: the result of 0 of 1 call as expected; not so: refund");
    say([None, None, None], "result_not_recorded: the result of `refund` is not recorded");
    let negated = settings.replace("\"criteria\"", "\"negated\": true, \"criteria\"");
    let failed = [None, None, Some("")];
    check_calls("contains", &negated, &[failed], "1: the result of 1 of 1 call as expected");
}

#[test]
fn similarity_of_calls_is_their_mean() {
    let settings = r#"{"target": "tool_arguments", "path": "to", "criteria":
        {"expected_output": {"city": "abcd", "zip": 10}}}"#;
    let to = |text| [Some(text), None, None];
    let near = to(r#"{"to": {"city": "abcd", "zip": 5}}"#);
    let calls = [near, to(r#"{"to": {"city": "abcd", "zip": 10}}"#), to(r#"{"from": 1}"#)];
    let expected = "0.5833333333333334: `to` of the arguments of 3 calls: 58% as expected";
    check_calls("json_similarity", settings, &calls, expected);
}

#[test]
fn a_path_leads_into_the_final_output_too() {
    let settings = r#"{"path": "total", "criteria": {"expected_output": 42}}"#;
    let does = "`total` of the final output does equal the expected one";
    check("exact_match", settings, r#"{"total": 42}"#, 1.0, does);
    check("exact_match", settings, r#""{\"total\": 42}""#, 1.0, does);
    let does_not = "`total` of the final output does not equal the expected one; it is not there";
    check("exact_match", settings, "{}", 0.0, does_not);
}

#[test]
fn json_text_is_compared_as_json_where_no_text_is_expected() {
    let score =
        |kind, settings: &str, output: &'static str| match outcome(kind, settings, Some(output)) {
            Outcome::Scored(score) => score.value,
            other => panic!("{settings}: {other:?}"),
        };
    let object = r#"{"criteria": {"expected_output": {"city": "Rome", "rain": true}}}"#;
    let text = r#"{"criteria": {"expected_output": "{\"rain\": true, \"city\": \"Rome\"}"}}"#;
    let key = r#"{"target_output_key": "city",
                  "criteria": {"expected_output": {"city": "Rome"}}}"#;
    for output in [
        r#"{"rain": true, "city": "Rome"}"#,
        r#""{\"rain\": true, \"city\": \"Rome\"}""#,
        r#""{'rain': True, 'city': 'Rome'}""#,
    ] {
        assert_eq!(score("exact_match", object, output), 1.0, "{output}");
        assert_eq!(score("json_similarity", object, output), 1.0, "{output}");
        assert_eq!(score("exact_match", key, output), 1.0, "{output}");
    }
    assert_eq!(score("exact_match", text, r#"{"rain": true, "city": "Rome"}"#), 1.0);
    let number = r#"{"criteria": {"expected_output": 42}}"#;
    assert_eq!(score("exact_match", number, r#""42""#), 1.0);
    let words = r#"{"criteria": {"expected_output": "42"}}"#;
    assert_eq!(score("exact_match", words, r#""42""#), 1.0);
    assert_eq!(score("exact_match", words, "42"), 1.0);
}

#[test]
fn a_matcher_for_the_whole_output_holds_for_what_its_text_says() {
    let settings = r#"{"criteria": {"expected_output": {"$is": {"unordered": [1, 2]}}}}"#;
    for (output, score) in [(r#""[2, 1]""#, 1.0), ("[2, 1]", 1.0), (r#""[2, 2]""#, 0.0)] {
        for kind in ["json_similarity", "exact_match"] {
            match outcome(kind, settings, Some(output)) {
                Outcome::Scored(found) => assert_eq!(found.value, score, "{kind} {output}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
