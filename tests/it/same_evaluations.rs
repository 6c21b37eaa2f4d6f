//! The same spans give the same evaluations with the same ids: in any order, in any requests, and
//! whatever else is configured. Many of them start and end in the same instant, as the JavaScript
//! SDK writes them, and some came twice with different content.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use spanscore::config::ConfigPart;
use spanscore_base::model::{Evaluation, Want};
use spanscore_evaluate::KINDS;
use spanscore_evaluate::engine::run::Evaluators;

use crate::expectations::{all_judged, call, plan, request, resolver, root, span};

/// Every kind, where its settings decide over order with several of them.
const ALL: &str = r#"
judges: {small: {api: openai, model: m}}
evaluators:
  tool_call_args: {criteria: {tool_calls: ARGS}}
  tool_call_args/compat: {compat: uipath, criteria: {tool_calls: ARGS}}
  tool_call_count: {criteria: {tool_calls_count: {a: [">", 2]}}}
  tool_call_count/compat: {compat: uipath, criteria: {tool_calls_count: {a: [">", 2]}}}
  tool_call_order: {criteria: {tool_calls_order: [a, b, a, c]}}
  tool_call_order/strict: {strict: true, criteria: {tool_calls_order: [a, b, a, c]}}
  tool_call_order/compat: {compat: uipath, criteria: {tool_calls_order: [a, b, a, c]}}
  tool_call_output: {criteria: {tool_outputs: OUTPUTS}}
  tool_call_output/compat: {compat: uipath, strict: true, criteria: {tool_outputs: OUTPUTS}}
  tool_error: {}
  tool_efficiency: {allow_retries: true}
  tool_efficiency/compat: {compat: dokimos, argument_matcher: {mode: subset}}
  tool_trajectory: {criteria: {tool_calls: CALLS}}
  tool_trajectory/strict: {match_mode: strict, criteria: {tool_calls: CALLS}}
  tool_trajectory/compat: {compat: dokimos, match_mode: strict, criteria: {tool_calls: CALLS}}
  tool_trajectory/session: {level: session, criteria: {turns: [CALLS, CALLS]}}
  tool_correctness: {match_mode: names_and_order, criteria: {tool_calls: CALLS}}
  tool_correctness/args: {match_mode: names_and_args, SUBSET, criteria: {tool_calls: CALLS}}
  tool_correctness/best: {match_mode: best_match, GRADED, criteria: {tool_calls: CALLS}}
  tool_correctness/graded: {match_mode: best_match_in_order, GRADED, criteria: {tool_calls: CALLS}}
  tool_correctness/ragas: {match_mode: call_accuracy, criteria: {tool_calls: CALLS}}
  tool_correctness/adk: {match_mode: parameter_match, criteria: {tool_calls: CALLS}}
  tool_call_validity: {tools: [{name: a, inputSchema: {type: object, required: [x]}}]}
  tool_name_reliability: {tools: [{name: a}]}
  tool_description_reliability: {tools: [{name: a}]}
  argument_correctness: {tool_name: a, expected_arguments: {x: 2}}
  argument_correctness/last: {tool_name: a, expected_arguments: {x: 2}, occurrence: last}
  argument_grounding: {min_length: 1, ignore_numbers_up_to: 0}
  tool_policy: {required_before: {a: [b], c: [a]}}
  tool_loop: {max_repeats: 1}
  tool_recovery: {fallbacks: {a: [b]}}
  tool_budget: {max_calls: 3, max_calls_per_tool: {a: 1}}
  output_rules: {bundle: safety, target: tool_results}
  exact_match: {target: tool_arguments, path: x, criteria: {expected_output: 1}}
  exact_match/calls: {target: tool_results, level: call, criteria: {expected_output: one}}
  classification: {classes: [done, open], criteria: {expected_class: done}}
  contains: {criteria: {search_text: done}}
  json_similarity: {target: tool_arguments, criteria: {expected_output: {x: 1}}}
  word_overlap: {target: tool_results, criteria: {expected_output: one}}
  task_completion: {judge: small, criteria: {tasks: [x]}}
  tool_argument_hallucination: {judge: small}
  goal_accuracy: {judge: small}
  tool_selection: {judge: small}
  tool_response_handling: {judge: small}
  plan_quality: {judge: small}
  plan_adherence: {judge: small}
  faithfulness: {judge: small}
  citations: {judge: small}
  retrieval: {judge: small}
  helpfulness: {judge: small}
  pairwise: {judge: small, criteria: {baseline: x}}
  refusal: {judge: small}
  topic_adherence: {judge: small, criteria: {topics: [x]}}
  rubric: {judge: small, criteria: {statements: [{text: x}]}}
"#;

/// Settings that stand in [`ALL`] by a short name.
const WRITTEN: [(&str, &str); 5] = [
    ("ARGS", "[{name: a, args: {x: 1}}, {name: a, args: {x: 2}}]"),
    ("SUBSET", "argument_matcher: {mode: subset}"),
    ("OUTPUTS", "[{name: a, output: one}, {name: b, output: two}]"),
    ("CALLS", "[{name: a, arguments: {x: 1}}, {name: b}, {name: a, arguments: {x: 2}}]"),
    ("GRADED", "evaluation_params: [input_parameters]"),
];

fn at(mut span: Json, times_ms: (u64, u64)) -> Json {
    let ns = |ms: u64| Json::from((1_735_689_600_000 + ms) * 1_000_000).to_string();
    span["startTimeUnixNano"] = ns(times_ms.0).into();
    span["endTimeUnixNano"] = ns(times_ms.1).into();
    span
}

fn with(mut span: Json, key: &str, value: &str) -> Json {
    let attribute = json!({"key": key, "value": {"stringValue": value}});
    span["attributes"].as_array_mut().unwrap().push(attribute);
    span
}

/// Two traces of one session, both of which begin in the same instant.
fn spans() -> Vec<Json> {
    let tool = |trace, number, name, arguments: &str, result: &str, times_ms| {
        at(with(call(trace, number, name, arguments), "output.value", result), times_ms)
    };
    let mut spans = Vec::new();
    for trace in [1, 2] {
        let answer = [("session.id", "s"), ("input.value", "x 1"), ("output.value", "done")];
        spans.extend([
            at(root(trace, &answer), (0, 50)),
            at(with(root(trace, &[("agent.name", "one")]), "output.value", "x"), (0, 50)),
            at(span(trace, 9, &[("openinference.span.kind", "AGENT")]), (0, 40)),
            tool(trace, 2, "c", "{}", "one", (10, 10)),
            tool(trace, 3, "a", r#"{"x": 2}"#, "one", (10, 10)),
            tool(trace, 4, "a", r#"{"x": 1}"#, "two", (10, 10)),
            tool(trace, 5, "b", "{}", r#"{"error": "x"}"#, (10, 12)),
            tool(trace, 6, "a", r#"{"x": 1, "y": 2}"#, "one", (20, 20)),
            tool(trace, 7, "a", r#"{"x": 1}"#, r#"{"error": "x"}"#, (20, 20)),
            tool(trace, 8, "b", "{}", "two", (20, 20)),
            // The same spans with other content: another tool, and another result of one length.
            tool(trace, 2, "d", "{}", "one", (10, 10)),
            tool(trace, 8, "b", "{}", "one", (20, 20)),
        ]);
    }
    // Of one of the traces a span never ended.
    spans.push(tool(1, 10, "c", "{}", "", (20, 0)));
    spans
}

/// Name, id, span and answer of each evaluation.
fn judged(config: &str, requests: &[Vec<Json>]) -> Vec<String> {
    let written = WRITTEN.into_iter();
    let text = written.fold(config.to_owned(), |text, (word, long)| text.replace(word, long));
    let judge =
        Evaluators::new(plan(ConfigPart::Text { name: "test".into(), text }).evaluators, Want::ALL);
    let resolver = resolver(&judge);
    let requests: Vec<_> = requests.iter().map(|spans| request(spans)).collect();
    let say = |evaluation: &Evaluation| {
        let Evaluation { evaluator, target, id, span_id, outcome, .. } = evaluation;
        format!("{} {} {span_id} {id} {outcome:?}", evaluator.name, target.trace_id)
    };
    let mut said: Vec<String> = all_judged(&resolver, &judge, &requests).iter().map(say).collect();
    said.sort();
    said
}

/// The evaluators of [`ALL`], each in a config of its own.
fn alone() -> Vec<String> {
    let (head, lines) = ALL.trim_start().split_once("evaluators:\n").unwrap();
    lines.lines().map(|line| format!("{head}evaluators:\n{line}\n")).collect()
}

#[test]
fn every_kind_is_among_those_that_are_judged() {
    // Evaluators outside of this process have tests of their own.
    let outside = ["agentevals", "grpc", "http"];
    for kind in KINDS.iter().filter(|kind| !outside.contains(&kind.name)) {
        assert!(ALL.contains(&format!("\n  {}: ", kind.name)), "{}", kind.name);
    }
}

#[test]
fn spans_in_any_order_and_any_requests_give_the_same_evaluations() {
    let spans = spans();
    let expected = judged(ALL, std::slice::from_ref(&spans));
    assert!(expected.len() > 60, "{}", expected.len());
    let cases = (Just(spans).prop_shuffle(), prop::collection::vec(1_usize..30, 1..5));
    proptest!(ProptestConfig::with_cases(60), |((spans, sizes) in cases)| {
        let mut rest = &spans[..];
        let mut requests = Vec::new();
        for size in sizes.iter().cycle() {
            let (head, tail) = rest.split_at((*size).min(rest.len()));
            requests.push(head.to_vec());
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
        let found = judged(ALL, &requests);
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert_eq!(found, expected);
        }
        prop_assert_eq!(found.len(), expected.len());
    });
}

#[test]
fn what_else_is_configured_changes_no_evaluation() {
    let spans = spans();
    let together = judged(ALL, std::slice::from_ref(&spans));
    let judged_alone = |config: &String| judged(config, std::slice::from_ref(&spans));
    let mut each: Vec<String> = alone().iter().flat_map(judged_alone).collect();
    each.sort();
    for (alone, together) in each.iter().zip(&together) {
        assert_eq!(alone, together);
    }
    assert_eq!(each.len(), together.len());
}
