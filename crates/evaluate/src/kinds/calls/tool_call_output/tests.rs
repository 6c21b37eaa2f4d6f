use super::*;
use spanscore_base::model::Content;
use spanscore_base::value::json;

fn check_calls(settings: &str, tool_calls: Vec<ToolCall<'_>>, expected: Option<f64>) {
    let node = Node::from_value(&json::parse(settings).unwrap());
    let trajectory = Trajectory { tool_calls, ..Trajectory::default() };
    match build(&node).unwrap().as_code().unwrap().evaluate(&trajectory, Want::ALL) {
        Outcome::Scored(score) => assert_eq!(Some(score.value), expected, "{settings}"),
        Outcome::NotEvaluable { reason, .. } => {
            assert_eq!(reason, Reason::ResultNotRecorded);
            assert_eq!(None, expected, "{settings}");
        }
        other => panic!("{other:?}"),
    }
}

fn call<'a>(result: Value<'a>) -> ToolCall<'a> {
    ToolCall { name: "t".into(), result: Content::ready(result), ..ToolCall::default() }
}

fn check(expected: &str, actual: &str, fits: bool) {
    let settings =
        format!(r#"{{"criteria": {{"tool_outputs": [{{"name": "t", "output": {expected}}}]}}}}"#);
    let calls = vec![call(json::parse(actual).unwrap())];
    check_calls(&settings, calls, Some(if fits { 1.0 } else { 0.0 }));
}

#[test]
fn results_are_compared_as_json_values() {
    for (expected, actual, fits) in [
        (r#"{"a": 1}"#, r#"{"a": 1.0}"#, true),
        (r#"{"a": 1}"#, r#"{"a": true}"#, false),
        (r#"{"a": 1, "b": 2}"#, r#"{"b": 2, "a": 1}"#, true),
        (r#"{"a": 1}"#, r#""{\"a\": 1}""#, true),
        (r#""{\"a\": 1}""#, r#"{"a": 1}"#, true),
        (r#""{\"a\": 1}""#, r#""{ \"a\":1 }""#, true),
        (r#""{'a': True}""#, r#"{"a": true}"#, true),
        (r#"{"a": true}"#, r#""{'a': True}""#, true),
        (r#""5""#, "5", true),
        ("5", r#""5""#, true),
        (r#""sunny""#, r#""sunny""#, true),
        (r#""sunny""#, r#""Sunny""#, false),
        (r#""True""#, "true", false),
        ("null", "null", true),
        (r#""""#, r#""""#, true),
        (r#""""#, "null", false),
    ] {
        check(expected, actual, fits);
    }
}

#[test]
fn an_unrecorded_result_leaves_the_score_open_unless_the_call_failed() {
    let settings = r#"{"criteria": {"tool_outputs": [{"name": "t", "output": "x"}]}}"#;
    let unrecorded = |status| ToolCall { name: "t".into(), status, ..ToolCall::default() };
    check_calls(settings, vec![unrecorded(CallStatus::Ok)], None);
    check_calls(settings, vec![unrecorded(CallStatus::Error)], Some(0.0));
    check_calls(settings, vec![unrecorded(CallStatus::Ok), call("x".into())], Some(1.0));
    check_calls(settings, vec![], Some(0.0));
}

#[test]
fn compat_compares_texts_and_refuses_objects() {
    let settings =
        r#"{"compat": "uipath", "criteria": {"tool_outputs": [{"name": "t", "output": {}}]}}"#;
    let node = Node::from_value(&json::parse(settings).unwrap());
    let message = build(&node).err().map(|error| error.to_string());
    let expected = "not UiPath evaluation criteria: `output` must be a text";
    assert_eq!(message.as_deref(), Some(expected));
}

#[test]
fn a_text_is_read_once_for_all_the_matchers_that_look_into_it() {
    let outputs: Vec<_> = (0..20)
        .map(|n| format!(r#"{{"name": "t", "output": {{"$is": {{"near": {n}, "within": 0}}}}}}"#))
        .collect();
    let settings = format!(r#"{{"criteria": {{"tool_outputs": [{}]}}}}"#, outputs.join(","));
    let node = Node::from_value(&json::parse(&settings).unwrap());
    let text = format!("[{}1]", " ".repeat(10_000));
    let trajectory = Trajectory { tool_calls: vec![call(text.into())], ..Trajectory::default() };
    let evaluator = build(&node).unwrap();
    evaluator.as_code().unwrap().evaluate(&trajectory, Want::ALL);
    let taken = trajectory.effort.taken();
    assert!((10_000..20_000).contains(&taken), "{taken}");

    let settings = r#"{"criteria": {"tool_outputs":
        [{"name": "t", "output": {"$is": {"unordered": [1, 2]}}}]}}"#;
    for (result, score) in [("[2, 1]", 1.0), ("[2, 2]", 0.0), ("[2, 1", 0.0), ("two", 0.0)] {
        check_calls(settings, vec![call(result.into())], Some(score));
    }
}
