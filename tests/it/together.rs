//! Calls that start in the same instant: one group, in which nobody asks for an order.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use spanscore_base::model::session::join_session;
use spanscore_base::model::{CallStatus, Content, Outcome, ToolCall, TraceSpans, Trajectory, Want};
use spanscore_base::settings::Node;
use spanscore_base::value::{self, Value};
use spanscore_evaluate::kind;
use spanscore_evaluate::shared::within_group::by_message;
use spanscore_extract::Resolver;

use crate::captures::{Request, resolver, traces};
use crate::traps::{request, span};

/// A tool's span: `at` gives its id, the times are milliseconds.
fn tool(at: usize, parent: Option<usize>, name: &str, times_ms: (u64, u64)) -> Json {
    let attributes = json!({ "openinference.span.kind": "TOOL", "tool.name": name });
    let mut span = span(at, parent, name, attributes);
    span["startTimeUnixNano"] = (times_ms.0 * 1_000_000).to_string().into();
    span["endTimeUnixNano"] = (times_ms.1 * 1_000_000).to_string().into();
    span
}

/// All orders of some things.
fn orders<T: Clone>(things: &[T]) -> Vec<Vec<T>> {
    let Some((first, rest)) = things.split_first() else { return vec![Vec::new()] };
    let first = std::slice::from_ref(first);
    let put = |order: &[T], at: usize| [&order[..at], first, &order[at..]].concat();
    let with = |order: Vec<T>| (0..=order.len()).map(|at| put(&order, at)).collect::<Vec<_>>();
    orders(rest).into_iter().flat_map(with).collect()
}

/// Each call of a trajectory as `name group`.
fn shown(trajectory: &Trajectory<'_>) -> Vec<String> {
    let call = |call: &ToolCall<'_>| format!("{} {}", call.name, call.group);
    trajectory.tool_calls.iter().map(call).collect()
}

fn check(spans: &[Json], expected: &[&str]) {
    let resolver = resolver(Vec::new());
    for order in orders(spans) {
        let requests: Vec<Request> =
            order.iter().map(|span| request("x", std::slice::from_ref(span))).collect();
        let traces = traces(&resolver, &requests);
        assert_eq!(shown(&resolver.resolve(&traces[0])), expected, "{order:#?}");
    }
}

#[test]
fn calls_of_one_instant_are_one_group_in_whatever_order_they_came() {
    let spans = [
        tool(1, None, "slow", (5, 7)),
        tool(2, None, "c", (5, 6)),
        tool(3, None, "a", (5, 6)),
        tool(4, None, "last", (8, 8)),
        tool(0, None, "first", (4, 5)),
    ];
    check(&spans, &["first 1", "a 2", "c 2", "slow 2", "last 3"]);
}

#[test]
fn without_messages_and_model_calls_overlap_in_time_is_one_group() {
    let spans = [
        tool(0, None, "a", (1, 4)),
        tool(1, None, "b", (3, 6)),
        tool(2, None, "c", (5, 7)),
        tool(3, None, "d", (7, 9)),
    ];
    check(&spans, &["a 1", "b 1", "c 1", "d 2"]);
}

#[test]
fn a_call_within_a_call_follows_it_and_overlaps_only_what_is_beside_it() {
    let spans = [
        tool(0, None, "outer", (1, 9)),
        tool(1, Some(0), "inner", (2, 4)),
        tool(2, Some(0), "next", (5, 6)),
        tool(3, None, "beside", (3, 7)),
    ];
    check(&spans, &["outer 1", "beside 1", "inner 2", "next 3"]);
}

/// A model's span without content; the times are milliseconds.
fn model(at: usize, parent: Option<usize>, times_ms: (u64, u64)) -> Json {
    let mut span = span(at, parent, "model", json!({ "openinference.span.kind": "LLM" }));
    span["startTimeUnixNano"] = (times_ms.0 * 1_000_000).to_string().into();
    span["endTimeUnixNano"] = (times_ms.1 * 1_000_000).to_string().into();
    span
}

#[test]
fn without_messages_calls_between_two_model_calls_are_one_group() {
    let spans = [
        model(0, None, (1, 2)),
        tool(1, None, "a", (3, 4)),
        tool(2, None, "b", (5, 6)),
        model(3, None, (7, 8)),
        tool(4, None, "c", (9, 10)),
    ];
    check(&spans, &["a 1", "b 1", "c 2"]);
}

#[test]
fn a_model_span_that_lasts_as_long_as_the_run_parts_nothing_and_joins_nothing() {
    for (of_model, of_tools) in [(None, Some(9)), (Some(0), Some(0))] {
        let spans = [
            tool(1, of_tools, "a", (2, 4)),
            tool(2, of_tools, "b", (3, 5)),
            tool(3, of_tools, "c", (6, 7)),
            model(9, of_model, (1, 9)),
        ];
        check(&spans, &["a 1", "b 1", "c 2"]);
    }
}

#[test]
fn model_calls_within_a_call_part_only_what_is_within_it() {
    let spans = [
        model(0, None, (1, 2)),
        tool(1, None, "ask_other", (3, 20)),
        model(2, Some(1), (4, 5)),
        tool(3, Some(1), "inner", (6, 7)),
        tool(4, None, "late", (8, 9)),
    ];
    check(&spans, &["ask_other 1", "late 1", "inner 2"]);
}

#[test]
fn a_call_within_a_call_of_the_same_instant_follows_it() {
    let spans = [
        tool(1, None, "outer", (5, 9)),
        span(2, Some(1), "work", json!({})),
        tool(3, Some(2), "inner", (5, 6)),
        tool(4, Some(3), "innermost", (5, 5)),
        tool(5, None, "beside", (5, 7)),
    ];
    check(&spans, &["beside 1", "outer 1", "inner 2", "innermost 3"]);
}

/// A model's span whose message lists some calls, and their spans, which begin in the order of
/// `starts_ms`.
fn asked_together(names: [&str; 3], starts_ms: [u64; 3]) -> Vec<Json> {
    let call = |name: &&str| {
        let id = format!("call_{name}");
        json!({ "type": "tool_call", "id": id, "name": name, "arguments": {} })
    };
    let parts: Vec<Json> = names.iter().map(call).collect();
    let message = json!([{ "role": "assistant", "parts": parts }]).to_string();
    let asks = json!({ "gen_ai.operation.name": "chat", "gen_ai.output.messages": message });
    let mut spans = vec![span(0, None, "chat", asks)];
    for ((at, name), start_ms) in (1..).zip(names).zip(starts_ms) {
        let attributes = json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
                                 "gen_ai.tool.call.id": format!("call_{name}") });
        let mut tool = span(at, None, name, attributes);
        tool["startTimeUnixNano"] = (start_ms * 1_000_000).to_string().into();
        tool["endTimeUnixNano"] = json!("9000000");
        spans.push(tool);
    }
    spans
}

#[test]
fn calls_of_one_message_are_listed_in_its_order() {
    let spans = asked_together(["pay", "ask", "see"], [3, 3, 3]);
    check(&spans, &["pay 1", "ask 1", "see 1"]);
}

#[test]
fn a_message_with_what_is_left_of_an_earlier_one_tells_of_no_group() {
    // One span holds all replies of a run: the last one overwrote only the first call of another.
    let call = |name: &str| {
        let id = format!("call_{name}");
        json!({ "type": "tool_call", "id": id, "name": name, "arguments": {} })
    };
    let message = json!([{ "role": "assistant", "parts": [call("pay"), call("see")] }]);
    let asks = json!({ "gen_ai.operation.name": "chat",
                       "gen_ai.output.messages": message.to_string() });
    let mut run = span(0, None, "chat", asks);
    run["startTimeUnixNano"] = json!("1000000");
    run["endTimeUnixNano"] = json!("20000000");
    let mut spans = vec![run];
    for (at, name) in (1_u64..).zip(["ask", "see", "try", "pay"]) {
        let attributes = json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
                                 "gen_ai.tool.call.id": format!("call_{name}") });
        let mut tool = span(at as usize, Some(0), name, attributes);
        tool["startTimeUnixNano"] = (at * 2_000_000).to_string().into();
        tool["endTimeUnixNano"] = (at * 2_000_000 + 1_000_000).to_string().into();
        spans.push(tool);
    }
    check(&spans, &["ask 1", "see 2", "try 3", "pay 4"]);
}

#[test]
fn messages_of_a_whole_run_are_rounds_one_after_another() {
    let message = |name: &str| {
        let call = json!({ "type": "tool_call", "id": name, "name": name, "arguments": {} });
        json!({ "role": "assistant", "parts": [call] })
    };
    let said = json!([message("ask"), message("see"), message("pay")]).to_string();
    let keys = json!({ "gen_ai.operation.name": "invoke_agent", "gen_ai.output.messages": said });
    let mut run = span(0, None, "invoke_agent", keys);
    run["startTimeUnixNano"] = json!("1000000");
    run["endTimeUnixNano"] = json!("20000000");
    let mut spans = vec![run];
    for (at, name, times_ms) in [(1, "ask", (2, 5)), (2, "see", (4, 6)), (3, "pay", (7, 9))] {
        let mut call = tool(at, Some(0), name, times_ms);
        let id = json!({ "key": "tool_call.id", "value": { "stringValue": name } });
        call["attributes"].as_array_mut().unwrap().push(id);
        spans.push(call);
    }
    check(&spans, &["ask 1", "see 1", "pay 2"]);
}

#[test]
fn calls_before_the_first_model_call_are_told_apart_by_time() {
    let spans = [
        tool(0, None, "a", (1, 3)),
        tool(1, None, "b", (2, 4)),
        tool(2, None, "c", (5, 6)),
        model(3, None, (7, 9)),
    ];
    check(&spans, &["a 1", "b 1", "c 2"]);
}

#[test]
fn message_order_is_that_of_the_message_whichever_span_began_first() {
    let resolver = resolver(Vec::new());
    let spans = asked_together(["pay", "ask", "see"], [5, 4, 3]);
    let traces = traces(&resolver, &[request("x", &spans)]);
    let mut trajectory = resolver.resolve(&traces[0]);
    let mut score = |within_group: &str, order: [&str; 3]| {
        let criteria = json!({ "tool_calls_order": order });
        let settings = json!({ "within_group": within_group, "criteria": criteria }).to_string();
        let settings = Node::from_value(&value::json::parse(&settings).unwrap());
        let evaluator = (kind("tool_call_order").unwrap().build)(&settings).unwrap();
        let judge =
            |seen: &mut Trajectory<'_>| evaluator.as_code().unwrap().evaluate(seen, Want::SCORE);
        let outcome = match evaluator.asks_message_order() {
            true => by_message(&mut trajectory, judge),
            false => judge(&mut trajectory),
        };
        match outcome {
            Outcome::Scored(score) => score.value,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(score("message_order", ["pay", "ask", "see"]), 1.0);
    assert!(score("message_order", ["see", "ask", "pay"]) < 0.5);
    assert_eq!(score("any_order", ["see", "ask", "pay"]), 1.0);
}

fn resolved<'a>(resolver: &'a Resolver, traces: &'a [TraceSpans]) -> Trajectory<'a> {
    let mut trajectories: Vec<_> = traces.iter().map(|trace| resolver.resolve(trace)).collect();
    trajectories.sort_by_key(|trajectory| (trajectory.start_ns, trajectory.trace_id));
    join_session(trajectories).expect("a session")
}

#[test]
fn traces_of_a_session_keep_their_groups_apart() {
    let other = |at: usize, name: &str, times_ms| {
        let mut span = tool(at, None, name, times_ms);
        span["traceId"] = json!("1af7651916cd43dd8448eb211c80319c");
        span
    };
    let spans = [
        tool(0, None, "a", (1, 2)),
        tool(1, None, "b", (5, 6)),
        tool(2, None, "c", (5, 6)),
        other(3, "d", (2, 3)),
        other(4, "e", (5, 6)),
        other(5, "f", (9, 9)),
        other(6, "g", (9, 9)),
    ];
    let resolver = resolver(Vec::new());
    let traces = traces(&resolver, &[request("x", &spans)]);
    let session = resolved(&resolver, &traces);
    assert_eq!(shown(&session), ["a 1", "d 2", "b 3", "c 3", "e 4", "f 5", "g 5"]);
    let turns: Vec<usize> = session.calls_by_turn().map(<[_]>::len).collect();
    assert_eq!(turns, [1, 6]);
}

/// A call in a generated trajectory.
#[derive(Clone, Debug)]
struct Call {
    name: &'static str,
    arguments: &'static str,
    failed: bool,
    lasts: bool,
    group: u32,
}

/// Up to three groups of up to three calls.
fn calls() -> impl Strategy<Value = Vec<Vec<Call>>> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    let arguments = vec!["{}", r#"{"x": 1}"#, r#"{"x": 2}"#, r#"{"x": 1, "y": 1}"#];
    let call = (name, prop::sample::select(arguments), any::<bool>(), any::<bool>());
    let groups = prop::collection::vec(prop::collection::vec(call, 1..4), 1..4);
    groups.prop_map(|groups| {
        let with_group = |(group, calls): (u32, Vec<_>)| {
            let call =
                |(name, arguments, failed, lasts)| Call { name, arguments, failed, lasts, group };
            calls.into_iter().map(call).collect()
        };
        (1..).zip(groups).map(with_group).collect()
    })
}

fn trajectory(calls: &[Call]) -> Trajectory<'static> {
    let value = |text| Content::ready(value::json::parse(text).unwrap());
    let call = |call: &Call| ToolCall {
        name: call.name.into(),
        arguments: value(call.arguments),
        result: value(r#""4711""#),
        status: if call.failed { CallStatus::Error } else { CallStatus::Ok },
        start_ns: u64::from(call.group) * 10,
        end_ns: u64::from(call.group) * 10 + if call.lasts { 15 } else { 0 },
        group: call.group,
        ..ToolCall::default()
    };
    let tool_calls = calls.iter().map(call).collect();
    let user_input = Content::ready(Value::from("x is 1"));
    Trajectory { tool_calls, user_input, ..Trajectory::default() }
}

/// The score, or the reason why there is none.
fn judged(name: &str, settings: &str, calls: &[Call]) -> Result<f64, &'static str> {
    score(name, settings, &trajectory(calls))
}

fn score(name: &str, settings: &str, trajectory: &Trajectory<'_>) -> Result<f64, &'static str> {
    let node = Node::from_value(&value::json::parse(settings).unwrap());
    let evaluator = (kind(name).unwrap().build)(&node).unwrap();
    let answers = [Want::SCORE, Want::ALL].map(|want| {
        match evaluator.as_code().unwrap().evaluate(trajectory, want) {
            Outcome::Scored(score) => Ok(score.value),
            Outcome::NotEvaluable { reason, .. } => Err(reason.as_str()),
            Outcome::Failed { error, .. } => panic!("{error}"),
        }
    });
    assert_eq!(answers[0], answers[1], "{name} {settings}");
    answers[0]
}

/// The calls in every order that their groups allow.
fn listings(groups: &[Vec<Call>]) -> Vec<Vec<Call>> {
    groups.iter().fold(vec![Vec::new()], |heads: Vec<Vec<Call>>, group| {
        let tails = orders(group);
        let with = |head: Vec<Call>| tails.iter().map(move |tail| [&head[..], tail].concat());
        heads.into_iter().flat_map(with).collect()
    })
}

const ORDER: &str = r#""criteria": {"tool_calls_order": ["a", "b", "a", "c"]}"#;
const EXPECTED: &str = r#""criteria": {"tool_calls": [{"name": "a", "arguments": {"x": 1}},
    {"name": "b"}, {"name": "a", "arguments": {"x": 2}}, {"name": "c", "arguments": {"x": 1}}]}"#;

/// Kinds in which the order of the calls counts, with settings.
fn ordered() -> Vec<(&'static str, String)> {
    let order = |more: &str| ("tool_call_order", format!("{{{more} {ORDER}}}"));
    let trajectory = |mode: &str, matcher: &str| {
        let matcher = format!(r#""argument_matcher": {{"mode": "{matcher}"}}"#);
        ("tool_trajectory", format!(r#"{{"match_mode": "{mode}", {matcher}, {EXPECTED}}}"#))
    };
    let correctness = |mode: &str, more: &str| {
        ("tool_correctness", format!(r#"{{"match_mode": "{mode}", {more} {EXPECTED}}}"#))
    };
    let argument = |occurrence: &str| {
        let tool = r#""tool_name": "a", "expected_arguments": {"x": 1}"#;
        ("argument_correctness", format!(r#"{{{tool}, "occurrence": {occurrence}}}"#))
    };
    let efficiency = |more: &str| ("tool_efficiency", format!("{{{more}}}"));
    let mut all = vec![order(""), order(r#""strict": true,"#)];
    for mode in ["strict", "in_order", "in_order_match", "in_order_f1"] {
        all.extend(["exact", "subset", "ignore"].map(|matcher| trajectory(mode, matcher)));
    }
    let graded = r#""evaluation_params": ["input_parameters"],"#;
    all.extend([
        correctness("names_and_order", ""),
        correctness("best_match_in_order", ""),
        correctness("best_match_in_order", graded),
        correctness("call_accuracy", ""),
    ]);
    all.extend([r#""first""#, r#""last""#, "0", "1", "2"].map(argument));
    all.extend([
        efficiency(""),
        efficiency(r#""allow_retries": true"#),
        efficiency(r#""argument_matcher": {"mode": "subset"}"#),
        efficiency(r#""argument_matcher": {"mode": "superset"}"#),
    ]);
    all
}

/// Kinds for which calls of one group are no steps one after the other.
fn others() -> Vec<(&'static str, String)> {
    let matcher = r#""argument_matcher": {"mode": "subset"}"#;
    let correctness = |mode: &str, more: &str| {
        ("tool_correctness", format!(r#"{{"match_mode": "{mode}", {more} {EXPECTED}}}"#))
    };
    let plain = |name, settings: &str| (name, settings.to_owned());
    vec![
        correctness("names_and_args", &format!("{matcher},")),
        correctness("best_match", r#""evaluation_params": ["input_parameters"],"#),
        correctness("parameter_match", ""),
        correctness("call_accuracy", r#""strict_order": false,"#),
        correctness("call_f1", ""),
        plain("tool_loop", r#"{"max_repeats": 1}"#),
        plain("tool_loop", r#"{"max_repeats": 1, "argument_matcher": {"mode": "subset"}}"#),
        plain("tool_policy", r#"{"required_before": {"a": ["b"], "c": ["a", "b"]}}"#),
        plain("argument_grounding", r#"{"min_length": 1, "ignore_numbers_up_to": 0}"#),
        plain("tool_recovery", r#"{"max_blind_retries": 1, "fallbacks": {"a": ["b"]}}"#),
        plain("tool_recovery", "{}"),
    ]
}

/// A model's message that asks for `a`, `b`, `a` and `c`, and the spans of those calls, each with
/// its start and its duration in milliseconds.
fn asked_for(times: &[(u64, u64)]) -> Vec<Json> {
    let names = ["a", "b", "a", "c"];
    let call = |(at, name): (usize, &&str)| {
        json!({ "type": "tool_call", "id": format!("call_{at}"), "name": name,
                "arguments": { "x": at % 2 + 1 } })
    };
    let parts: Vec<Json> = names.iter().enumerate().map(call).collect();
    let message = json!([{ "role": "assistant", "parts": parts }]).to_string();
    let asks = json!({ "gen_ai.operation.name": "chat", "gen_ai.output.messages": message });
    let mut spans = vec![span(0, None, "chat", asks)];
    for (at, (name, (start, lasts))) in names.iter().zip(times).enumerate() {
        let attributes = json!({
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": format!("call_{at}"),
            "gen_ai.tool.call.arguments": json!({ "x": at % 2 + 1 }).to_string(),
            "gen_ai.tool.call.result": "4711",
        });
        let mut tool = span(at + 1, None, name, attributes);
        tool["startTimeUnixNano"] = ((start + 3) * 1_000_000).to_string().into();
        tool["endTimeUnixNano"] = ((start + lasts + 3) * 1_000_000).to_string().into();
        spans.push(tool);
    }
    spans
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_interleaving_of_the_calls_of_one_message_scores_alike(
        times in prop::collection::vec((0_u64..9, 0_u64..9), 4),
        order in Just(vec![0, 1, 2, 3, 4]).prop_shuffle(),
    ) {
        let resolver = resolver(Vec::new());
        let scores = |spans: &[Json]| {
            let traces = traces(&resolver, &[request("x", spans)]);
            let trajectory = resolver.resolve(&traces[0]);
            let kinds = ordered().into_iter().chain(others());
            let scores: Vec<_> =
                kinds.map(|(name, settings)| score(name, &settings, &trajectory)).collect();
            (shown(&trajectory), scores)
        };
        let spans = asked_for(&times);
        let spans: Vec<Json> = order.into_iter().map(|at: usize| spans[at].clone()).collect();
        let (found, same) = (scores(&spans), scores(&asked_for(&[(0, 1), (2, 1), (4, 1), (6, 1)])));
        prop_assert_eq!(&found.0, &["a 1", "b 1", "a 1", "c 1"].map(str::to_owned));
        prop_assert_eq!(found, same);
    }

    #[test]
    fn ordered_kinds_score_the_best_order_inside_the_groups(groups in calls()) {
        for (name, settings) in ordered() {
            let scores = listings(&groups).into_iter().map(|mut calls| {
                calls.iter_mut().for_each(|call| call.group = 0);
                judged(name, &settings, &calls)
            });
            let best = scores.max_by(|a, b| a.partial_cmp(b).unwrap()).unwrap();
            let found = judged(name, &settings, &groups.concat());
            match (found, best) {
                (Ok(found), Ok(best)) => prop_assert!(
                    (found - best).abs() < 1e-9,
                    "{} {}: {} and not {}", name, settings, found, best
                ),
                _ => prop_assert_eq!(found, best, "{} {}", name, settings),
            }
        }
    }

    #[test]
    fn no_kind_reads_the_listing_of_a_group(groups in calls()) {
        for (name, settings) in ordered().into_iter().chain(others()) {
            let score = judged(name, &settings, &groups.concat());
            for calls in listings(&groups) {
                prop_assert_eq!(judged(name, &settings, &calls), score, "{} {}", name, settings);
            }
        }
    }
}
