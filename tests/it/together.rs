//! Calls that start in the same instant: one group, in which nobody asks for an order.

use serde_json::{Value as Json, json};
use spanscore::extract::resolve::Resolver;
use spanscore::model::session::join_session;
use spanscore::model::{TraceSpans, Trajectory};

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

/// All orders of some spans.
fn orders(spans: &[Json]) -> Vec<Vec<Json>> {
    let Some((first, rest)) = spans.split_first() else { return vec![Vec::new()] };
    let put = |order: &[Json], at: usize| [&order[..at], &[first.clone()], &order[at..]].concat();
    let with = |order: Vec<Json>| (0..=order.len()).map(|at| put(&order, at)).collect::<Vec<_>>();
    orders(rest).into_iter().flat_map(with).collect()
}

/// Each call of a trajectory as `name group`.
fn shown(trajectory: &Trajectory<'_>) -> Vec<String> {
    let call = |call: &spanscore::model::ToolCall<'_>| format!("{} {}", call.name, call.group);
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
        tool(1, None, "slow", (5, 9)),
        tool(2, None, "c", (5, 6)),
        tool(3, None, "a", (5, 6)),
        tool(4, None, "last", (8, 8)),
        tool(0, None, "first", (4, 20)),
    ];
    check(&spans, &["first 1", "a 2", "c 2", "slow 2", "last 3"]);
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

#[test]
fn calls_of_one_message_are_listed_in_its_order() {
    let names = ["pay", "ask", "see"];
    let call = |name: &&str| json!({ "type": "tool_call", "id": format!("call_{name}"), "name": name, "arguments": {} });
    let parts: Vec<Json> = names.iter().map(call).collect();
    let message = json!([{ "role": "assistant", "parts": parts }]).to_string();
    let asks = json!({ "gen_ai.operation.name": "chat", "gen_ai.output.messages": message });
    let mut spans = vec![span(0, None, "chat", asks)];
    for (at, name) in (1..).zip(names) {
        let attributes = json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
                                 "gen_ai.tool.call.id": format!("call_{name}") });
        let mut tool = span(at, None, name, attributes);
        tool["startTimeUnixNano"] = json!("3000000");
        tool["endTimeUnixNano"] = json!("4000000");
        spans.push(tool);
    }
    check(&spans, &["pay 1", "ask 1", "see 1"]);
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
