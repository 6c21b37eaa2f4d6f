use super::*;
use spanscore_base::model::SpanId;
use spanscore_base::model::trajectory::KeptSpan;
use spanscore_base::otlp::AnyValue;
use spanscore_base::value::json;

fn build_from(text: &str) -> Result<Evaluator, String> {
    let node = Node::from_value(&json::parse(text).unwrap());
    build(&node).map_err(|error| error.to_string())
}

fn outcome(settings: &str, names: &[&'static str]) -> Outcome {
    let call = |name: &&'static str| ToolCall { name: (*name).into(), ..ToolCall::default() };
    let tool_calls = names.iter().map(call).collect();
    let trajectory = Trajectory { tool_calls, ..Trajectory::default() };
    build_from(settings).unwrap().as_code().unwrap().evaluate(&trajectory, Want::ALL)
}

fn check(settings: &str, names: &[&'static str], expected: f64, explanation: &str) {
    match outcome(settings, names) {
        Outcome::Scored(score) => {
            assert_eq!((score.value, score.explanation.as_str()), (expected, explanation));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_tool_that_was_never_called_counts_as_zero() {
    let at_most = r#"{"criteria": {"tool_calls_count": {"search": ["<=", 3]}}}"#;
    check(at_most, &[], 1.0, "1 of 1 count as expected");
    check(at_most, &["other"], 1.0, "1 of 1 count as expected");
    check(
        at_most,
        &["search"; 4],
        0.0,
        "0 of 1 count as expected; search was called 4 times, expected <= 3",
    );
}

#[test]
fn rules_score_in_proportion_or_all_or_nothing() {
    let rules =
        r#""criteria": {"toolCallsCount": {"a": ["==", 1], "b": [">", 1], "c": ["!=", 0]}}"#;
    let explanation = "2 of 3 counts as expected; b was called 1 time, expected > 1";
    check(&format!("{{{rules}}}"), &["a", "b", "c"], 2.0 / 3.0, explanation);
    check(&format!("{{\"strict\": true, {rules}}}"), &["a", "b", "c"], 0.0, explanation);
}

#[test]
fn a_call_counts_by_name_or_id_once() {
    let call = ToolCall { name: "a".into(), id: Some("a".into()), ..ToolCall::default() };
    let other = ToolCall { name: "b".into(), id: Some("a".into()), ..ToolCall::default() };
    let trajectory = Trajectory { tool_calls: vec![call, other], ..Trajectory::default() };
    let evaluator = build_from(r#"{"criteria": {"tool_calls_count": {"a": ["=", 2]}}}"#).unwrap();
    let Outcome::Scored(score) = evaluator.as_code().unwrap().evaluate(&trajectory, Want::ALL)
    else {
        panic!()
    };
    assert_eq!(score.value, 1.0);
    assert_eq!(
        score.details.to_string(),
        r#"{"counts":[{"name":"a","operator":"=","expected":2,"actual":2,"score":1.0}]}"#
    );
}

#[test]
fn mistakes_are_settings_errors() {
    let check = |text: &str, message: &str| {
        assert_eq!(build_from(text).err().as_deref(), Some(message), "{text}");
    };
    check(
        r#"{"criteria": {"tool_calls_count": {"a": ["~", 1]}}}"#,
        "unknown value `~` (known are =, ==, !=, >, <, >=, <=)",
    );
    check(
        r#"{"criteria": {"tool_calls_count": {"a": 3}}}"#,
        "a count needs an operator: write [\"=\", 3] for exactly as many, [\"<=\", 3] for at most",
    );
    let form = "an operator and a count, such as [\"<=\", 3]";
    check(
        r#"{"criteria": {"tool_calls_count": {"a": "three"}}}"#,
        &format!("expected {form}, found \"three\""),
    );
    check(
        r#"{"criteria": {"tool_calls_count": {"a": ["="]}}}"#,
        &format!("invalid length 1, expected {form}"),
    );
    check(
        r#"{"criteria": {"tool_calls_count": {"a": ["=", -1]}}}"#,
        "-1 is no count: write a whole number from 0 on",
    );
    check(
        r#"{"criteria": {"tool_calls_count": {"a": ["=", "2"]}}}"#,
        "\"2\" is no count: write a whole number from 0 on",
    );
    check(
        "{}",
        "`criteria` is missing (say what is expected, or give `default_evaluation_criteria`)",
    );
    check(
        r#"{"strikt": true, "criteria": {"tool_calls_count": {}}}"#,
        "unknown setting `strikt` (did you mean `strict`?)",
    );
}

#[test]
fn compat_takes_an_operator_that_does_not_exist_and_fails_where_it_is_reached() {
    let rule = r#"{"compat": "uipath", "criteria": {"tool_calls_count": {"a": ["~", -1]}}}"#;
    let evaluator = build_from(rule).unwrap();
    let none = evaluator.as_code().unwrap().evaluate(&Trajectory::default(), Want::SCORE);
    assert!(matches!(none, Outcome::Scored(score) if score.value == 0.0));
}

#[test]
fn a_pasted_definition_is_read_whole() {
    let pasted = r#"{
        "version": "1.0", "id": "X", "description": "", "evaluatorTypeId": "uipath-tool-call-count",
        "evaluatorConfig": {"name": "X", "strict": true, "defaultEvaluationCriteria":
            {"toolCallsCount": {"a": ["=", 1]}}}
    }"#;
    check(pasted, &["a"], 1.0, "1 of 1 count as expected");
    let other = pasted.replace("tool-call-count", "tool-call-args");
    let message = "`uipath-tool-call-args` is another kind of evaluator than `tool-call-count`";
    assert_eq!(build_from(&other).err().as_deref(), Some(message));
}

#[test]
fn compat_fails_early_once_no_call_can_repair_it() {
    let rules = r#"{"a": ["<=", 1], "b c": ["=", 1], "d": [">", 0]}"#;
    let settings =
        format!(r#"{{"compat": "uipath", "criteria": {{"tool_calls_count": {rules}}}}}"#);
    let evaluator = build_from(&settings).unwrap();
    let early = |names: &[&'static str]| {
        let span = |name: &&'static str| KeptSpan {
            span_id: SpanId([1; 8]),
            start_ns: 0,
            end_ns: 0,
            attributes: vec![("tool.name", AnyValue::String(name))],
        };
        let kept_spans = names.iter().map(span).collect();
        let trajectory = Trajectory { kept_spans, ..Trajectory::default() };
        evaluator.as_code().unwrap().early(&trajectory, Want::ALL).map(|early| early.best)
    };
    assert_eq!(early(&["a", "b c"]), None);
    assert_eq!(early(&["a", "a"]), Some(2.0 / 3.0));
    assert_eq!(early(&["b_c", "b_c"]), None, "a call of `b c` would count instead");
    assert_eq!(early(&["b c", "b c", "a", "a"]), Some(1.0 / 3.0));
}
