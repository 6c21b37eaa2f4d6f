use crate::evaluate::{Want, kind};
use crate::model::{Content, Outcome, Reason, Trajectory};
use crate::settings::Node;
use crate::value::json;

fn outcome(name: &str, settings: &str, output: Option<&'static str>) -> Outcome {
    let node = Node::from_value(&json::parse(settings).unwrap());
    let evaluator = (kind(name).unwrap().build)(&node).unwrap();
    let final_output =
        output.map_or(Content::NotRecorded, |text| Content::ready(json::parse(text).unwrap()));
    evaluator.evaluate(&Trajectory { final_output, ..Trajectory::default() }, Want::ALL)
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
    let does_not = "the final output does not equal the expected one";
    check("exact_match", case, r#""done""#, 0.0, does_not);
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
    let explanation = "the final output is 56% similar to the expected one";
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
        r#"{"criteria": {"expected_output": 5}}"#,
        "`expected_output` must be an object or a text",
    );
    check(
        r#"{"target_output_key": ".", "criteria": {"expected_output": "x"}}"#,
        "`.` names no part of an output",
    );
    check(
        r#"{"line_by_line_evaluator": true, "line_delimiter": "", "criteria":
            {"expected_output": "x"}}"#,
        "`line_delimiter` is empty",
    );
}
