//! Trajectories that are built to be slow: 10,000 calls against 1,000 expected ones, and worse.
//!
//! Each kind must answer within the steps that it allows itself: a score, or `trajectory_too_large`
//! or `text_too_large`. Nothing here may take memory or time that grows with the product of both
//! sides, which these tests would show by never ending.

use spanscore_base::model::{
    CallStatus, Content, Outcome, ToolCall, ToolDefinition, Trajectory, WorkBudget,
};
use spanscore_base::settings::Node;
use spanscore_base::value::{Map, Value, json};
use spanscore_evaluate::{Want, kind};

const CALLS: usize = 10_000;
const EXPECTED: usize = 1_000;

fn object(entries: impl IntoIterator<Item = (String, Value<'static>)>) -> Value<'static> {
    Value::Map(entries.into_iter().collect::<Map<'_>>())
}

/// Arguments that differ only in the last of their entries.
fn arguments(number: usize) -> Value<'static> {
    let entry = |at: usize| (format!("a{at}"), Value::from(at));
    object((0..4).map(entry).chain([("last".to_owned(), Value::from(number))]))
}

fn call(number: usize) -> ToolCall<'static> {
    ToolCall {
        name: "search".into(),
        arguments: Content::ready(arguments(number)),
        result: Content::ready(Value::from(arguments(number).to_string())),
        status: if number.is_multiple_of(2) { CallStatus::Ok } else { CallStatus::Error },
        start_ns: number as u64 * 10,
        end_ns: number as u64 * 10 + 5,
        ..ToolCall::default()
    }
}

/// Calls of one tool, none with the arguments of an expected one.
fn trajectory(calls: usize) -> Trajectory<'static> {
    Trajectory {
        tool_calls: (0..calls).map(|number| call(number + EXPECTED)).collect(),
        user_input: Content::ready("find it".into()),
        final_output: Content::ready("found".into()),
        tool_definitions: vec![ToolDefinition {
            name: "search".into(),
            description: "Searches.".into(),
            input_schema: json::parse(r#"{"type":"object","required":["last"]}"#).unwrap(),
            agent: None,
        }],
        // Each evaluation has steps of its own here.
        effort: WorkBudget::new(u64::MAX),
        ..Trajectory::default()
    }
}

/// A list of what is written for each expected call.
fn list(write: impl Fn(usize) -> String) -> String {
    format!("[{}]", (0..EXPECTED).map(write).collect::<Vec<_>>().join(","))
}

fn answer(name: &str, settings: &str, trajectory: &Trajectory<'_>) -> String {
    let node = Node::from_value(&json::parse(settings).unwrap());
    let evaluator = (kind(name).unwrap().build)(&node).unwrap();
    assert!(trajectory.effort.begin(0));
    match evaluator.as_code().unwrap().evaluate(trajectory, Want::ALL) {
        // Sums of a thousand shares differ from the mean in the last digits.
        Outcome::Scored(score) => ((score.value * 1e9).round() / 1e9).to_string(),
        Outcome::NotEvaluable { reason, .. } => reason.as_str().to_owned(),
        Outcome::Failed { error, .. } => error,
    }
}

fn check(name: &str, settings: &str, trajectory: &Trajectory<'_>, expected: &str) {
    assert_eq!(answer(name, settings, trajectory), expected, "{name} {settings:.80}");
}

#[test]
fn ten_thousand_calls_are_judged_against_a_thousand() {
    let trajectory = trajectory(CALLS);
    let args = list(|n| format!(r#"{{"name":"search","args":{}}}"#, arguments(n)));
    let outputs = list(|n| format!(r#"{{"name":"search","output":{}}}"#, arguments(n)));
    let names = list(|_| r#""search""#.to_owned());
    let check = |name: &str, settings: &str, expected: &str| {
        check(name, settings, &trajectory, expected);
    };
    let calls = format!(r#""criteria":{{"tool_calls":{args}}}"#);
    check("tool_call_args", &format!("{{{calls}}}"), "0");
    check("tool_call_output", &format!(r#"{{"criteria":{{"tool_outputs":{outputs}}}}}"#), "0");
    check("tool_call_order", &format!(r#"{{"criteria":{{"tool_calls_order":{names}}}}}"#), "1");
    for mode in ["strict", "in_order", "in_order_match", "in_order_f1", "any_order", "superset"] {
        check("tool_trajectory", &format!(r#"{{"match_mode":"{mode}",{calls}}}"#), "0");
    }
    for mode in ["precision", "recall"] {
        let settings = format!(r#"{{"match_mode":"{mode}","reuse_matches":true,{calls}}}"#);
        check("tool_trajectory", &settings, "0");
    }
    for mode in ["names_and_args", "call_accuracy", "call_f1"] {
        check("tool_correctness", &format!(r#"{{"match_mode":"{mode}",{calls}}}"#), "0");
    }
    check("tool_correctness", &format!(r#"{{"match_mode":"parameter_match",{calls}}}"#), "0.8");
    check("tool_correctness", &format!(r#"{{"match_mode":"best_match",{calls}}}"#), "1");
    check("tool_efficiency", "{}", "1");
    check("tool_loop", r#"{"max_pattern":16}"#, "1");
    check("tool_recovery", "{}", "trajectory_too_large");
    check("tool_error", "{}", "0.5");
    check("tool_policy", r#"{"required_before":{"search":["search"]}}"#, "0");
    check("tool_budget", r#"{"max_calls":10000,"max_latency":"1s"}"#, "1");
    check("tool_call_validity", "{}", "1");
    check("tool_call_validity", r#"{"schema":"full"}"#, "1");
    check(
        "argument_correctness",
        r#"{"tool_name":"search","expected_arguments":{"last":0},"occurrence":"last"}"#,
        "0",
    );
}

#[test]
fn comparisons_that_take_too_long_are_not_evaluable() {
    let (few, many) = (trajectory(250), trajectory(40_000));
    let calls = list(|n| format!(r#"{{"name":"search","args":{}}}"#, arguments(n)));
    let subset = |mode: &str| {
        format!(
            r#"{{"match_mode":"{mode}","argument_matcher":{{"mode":"subset"}},
                "criteria":{{"tool_calls":{calls}}}}}"#
        )
    };
    let too_large = "trajectory_too_large";
    check("tool_trajectory", &subset("any_order"), &few, "0");
    check("tool_trajectory", &subset("in_order"), &few, "0");
    check("tool_trajectory", &subset("in_order"), &many, too_large);
    let graded = format!(
        r#"{{"match_mode":"best_match","evaluation_params":["input_parameters"],
            "criteria":{{"tool_calls":{calls}}}}}"#
    );
    check("tool_correctness", &graded, &few, "0.2");
    check("tool_correctness", &graded, &many, too_large);
    check("tool_efficiency", r#"{"argument_matcher":{"mode":"subset"}}"#, &many, too_large);
    let subset = format!(r#"{{"subset":true,"criteria":{{"tool_calls":{calls}}}}}"#);
    check("tool_call_args", &subset, &few, "0");
    check("tool_call_args", &subset, &many, too_large);
}

#[test]
fn large_and_deep_arguments_cost_no_more_than_their_size() {
    let wide = object((0..200_000).map(|at| (format!("k{at}"), Value::from(at))));
    let mut deep = Value::from("end");
    for _ in 0..500 {
        deep = object([("k".repeat(100), deep)]);
    }
    let call = |value: &Value<'static>| ToolCall {
        name: "search".into(),
        arguments: Content::ready(value.clone()),
        result: Content::ready(value.clone()),
        status: CallStatus::Ok,
        ..ToolCall::default()
    };
    let properties = object((0..50_000).map(|at| (format!("k{at}"), Value::Map(Map::new()))));
    let trajectory = Trajectory {
        tool_calls: vec![call(&wide), call(&deep), call(&wide), call(&deep)],
        user_input: Content::ready("find it".into()),
        tool_definitions: vec![ToolDefinition {
            name: "search".into(),
            description: "Searches.".into(),
            input_schema: object([("properties".to_owned(), properties)]),
            agent: None,
        }],
        effort: WorkBudget::new(u64::MAX),
        ..Trajectory::default()
    };
    let check = |name: &str, settings: &str, expected: &str| {
        check(name, settings, &trajectory, expected);
    };
    check("argument_grounding", "{}", "text_too_large");
    check("tool_efficiency", "{}", "0.5");
    check("tool_loop", r#"{"max_repeats":1}"#, "0.5");
    check("tool_call_validity", "{}", "trajectory_too_large");
    check("tool_description_reliability", "{}", "0");
    let expected = r#"{"target":"tool_results","path":"k7","criteria":{"expected_output":7}}"#;
    check("exact_match", expected, "0.5");
    let expected = r#"{"target":"tool_results","criteria":{"expected_output":{"k199999":0}}}"#;
    check("json_similarity", expected, "0");
    let expected = r#"{"criteria":{"tool_calls":[{"name":"search","args":{"k1":1}}]}}"#;
    check("tool_call_args", expected, "0");
}
