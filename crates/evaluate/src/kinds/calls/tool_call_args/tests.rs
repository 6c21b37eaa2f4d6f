use super::*;
use spanscore_base::value::json;

fn call(
    name: &'static str,
    id: Option<&'static str>,
    arguments: &'static str,
) -> ToolCall<'static> {
    let arguments = match arguments {
        "?" => Content::NotRecorded,
        text => Content::ready(json::parse(text).unwrap()),
    };
    ToolCall { name: name.into(), id: id.map(Into::into), arguments, ..ToolCall::default() }
}

fn outcome(settings: &str, calls: Vec<ToolCall<'static>>) -> Outcome {
    let node = Node::from_value(&json::parse(settings).unwrap());
    let trajectory = Trajectory { tool_calls: calls, ..Trajectory::default() };
    build(&node).unwrap().as_code().unwrap().evaluate(&trajectory, Want::ALL)
}

fn check(settings: &str, calls: Vec<ToolCall<'static>>, expected: Option<f64>) {
    match outcome(settings, calls) {
        Outcome::Scored(score) => assert_eq!(Some(score.value), expected, "{settings}"),
        Outcome::NotEvaluable { .. } => assert_eq!(None, expected, "{settings}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn more_arguments_than_expected_are_a_mismatch_without_subset() {
    let criteria = r#""criteria": {"tool_calls": [{"name": "t", "args": {"a": 1}}]}"#;
    let exact = format!("{{{criteria}}}");
    let subset = format!("{{\"subset\": true, {criteria}}}");
    for (arguments, exactly, at_least) in [
        (r#"{"a": 1}"#, 1.0, 1.0),
        (r#"{"a": 1.0}"#, 1.0, 1.0),
        (r#"{"a": 1, "b": 2}"#, 0.0, 1.0),
        (r#"{"a": true}"#, 0.0, 0.0),
        (r#"{"b": 1}"#, 0.0, 0.0),
        ("{}", 0.0, 0.0),
        ("[1]", 0.0, 0.0),
    ] {
        check(&exact, vec![call("t", None, arguments)], Some(exactly));
        check(&subset, vec![call("t", None, arguments)], Some(at_least));
    }
    check(&exact, vec![], Some(0.0));
}

#[test]
fn nested_values_are_compared_whole_also_with_subset() {
    let settings =
        r#"{"subset": true, "criteria": {"tool_calls": [{"name": "t", "args": {"a": {"b": 1}}}]}}"#;
    check(settings, vec![call("t", None, r#"{"a": {"b": 1}, "c": 2}"#)], Some(1.0));
    check(settings, vec![call("t", None, r#"{"a": {"b": 1, "c": 2}}"#)], Some(0.0));
}

#[test]
fn calls_are_given_out_so_that_the_most_are_served() {
    let settings = r#"{"subset": true, "criteria": {"tool_calls": [
        {"name": "t", "args": {"a": 1}}, {"name": "t", "args": {"a": 1, "b": 2}}]}}"#;
    let calls = vec![call("t", None, r#"{"a": 1, "b": 2}"#), call("t", None, r#"{"a": 1}"#)];
    check(settings, calls, Some(1.0));
    check(settings, vec![call("t", None, r#"{"a": 1, "b": 2}"#)], Some(0.5));
}

#[test]
fn a_call_is_found_by_id_where_the_criteria_give_one() {
    let settings = r#"{"criteria": {"tool_calls": [{"name": "t", "args": {}, "id": "c1"}]}}"#;
    check(settings, vec![call("renamed", Some("c1"), "{}")], Some(1.0));
    check(settings, vec![call("t", Some("c2"), "{}")], Some(0.0));
    let by_name = r#"{"criteria": {"tool_calls": [{"name": "t", "args": {}}]}}"#;
    check(by_name, vec![call("t", Some("c2"), "{}")], Some(1.0));
}

#[test]
fn unrecorded_arguments_leave_the_score_open_only_where_it_depends_on_them() {
    let criteria = r#""criteria": {"tool_calls": [
        {"name": "t", "args": {"a": 1}}, {"name": "u", "args": {}}]}"#;
    let share = format!("{{{criteria}}}");
    let strict = format!("{{\"strict\": true, {criteria}}}");
    check(&share, vec![call("t", None, "?")], None);
    check(&strict, vec![call("t", None, "?")], Some(0.0));
    check(&share, vec![call("t", None, "?"), call("t", None, r#"{"a": 1}"#)], Some(0.5));
    check(&share, vec![call("other", None, "?")], Some(0.0));
    let empty = r#"{"subset": true, "criteria": {"tool_calls": [{"name": "t", "args": {}}]}}"#;
    check(empty, vec![call("t", None, "?")], Some(1.0));
    match outcome(&share, vec![call("t", None, "?")]) {
        Outcome::NotEvaluable { reason, explanation } => {
            assert_eq!(reason, Reason::ArgumentsNotRecorded);
            assert_eq!(explanation, "the score depends on arguments that are not recorded: t");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn details_show_each_expected_call_beside_the_actual_one() {
    let settings = r#"{"criteria": {"tool_calls": [
        {"name": "t", "args": {"a": 18446744073709551617}}, {"name": "t", "args": {"a": 2}},
        {"name": "u", "args": {}}]}}"#;
    let calls =
        vec![call("t", None, r#"{"a": 3}"#), call("t", None, r#"{"a": 18446744073709551617}"#)];
    let Outcome::Scored(score) = outcome(settings, calls) else { panic!() };
    assert_eq!(
        &*score.explanation,
        "1 of 3 expected calls made with the expected arguments; t (call 1): `a` is not as \
         expected; u was not called"
    );
    assert_eq!(
        score.details.to_string(),
        concat!(
            r#"{"calls":[{"name":"t","expected":{"a":18446744073709551617},"#,
            r#""actual":{"a":18446744073709551617},"score":1.0},"#,
            r#"{"name":"t","expected":{"a":2},"actual":{"a":3},"score":0.0},"#,
            r#"{"name":"u","expected":{},"actual":null,"score":0.0}]}"#
        )
    );
}

#[test]
fn mistakes_are_settings_errors() {
    let check = |text: &str, message: &str| {
        let node = Node::from_value(&json::parse(text).unwrap());
        let found = build(&node).err().map(|error| error.to_string());
        assert_eq!(found.as_deref(), Some(message), "{text}");
    };
    check(
        r#"{"criteria": {"tool_calls": [{"name": "t", "args": []}]}}"#,
        "`args` must be an object",
    );
    check(r#"{"criteria": {"tool_calls": [{"name": "t"}]}}"#, "`args` is missing");
    check(
        r#"{"criteria": {"tool_cals": []}}"#,
        "unknown setting `tool_cals` (did you mean `tool_calls`?)",
    );
    check(
        r#"{"compat": "uipath", "criteria": {"tool_calls": [{"name": "t"}]}}"#,
        "not UiPath evaluation criteria: `args` is missing",
    );
    check(
        r#"{"compat": "uipath", "strict": "maybe"}"#,
        "not a UiPath configuration: `strict` is neither true nor false",
    );
}
