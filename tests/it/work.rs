//! Steps that judging a trace takes: however a trace is made, they grow with its size or are cut,
//! and the answer says so.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use spanscore::config::{ConfigPart, ResolvedConfig, load};
use spanscore_base::model::{
    Completion, Content, Evaluation, Facts, Outcome, Trajectory, Want, WorkBudget,
};
use spanscore_evaluate::engine::run::{Evaluators, Evidence};
use spanscore_extract::dialect::Dialect;
use spanscore_extract::{Resolver, Table};

use crate::captures::traces;
use crate::expectations::resolver;
use crate::traps::{request, span};

/// Judges the trace of these spans with evaluators as in the config; gives their answers and the
/// steps taken.
fn judged(evaluators: &str, spans: &[Json], steps: u64) -> (Vec<Evaluation>, u64) {
    judged_for(Want::SCORE, evaluators, spans, steps)
}

fn judged_for(want: Want, evaluators: &str, spans: &[Json], steps: u64) -> (Vec<Evaluation>, u64) {
    let text = format!("evaluators: {evaluators}");
    let part = ConfigPart::Text { name: "test".into(), text };
    let config = ResolvedConfig::new(&load(&[part], &|_| None).unwrap()).unwrap();
    let evaluators = Evaluators::new(config.evaluators, want);
    let resolver = resolver(&evaluators);
    let traces = traces(&resolver, &[request("x", spans)]);
    let mut trajectory = resolver.resolve_within(&traces[0], WorkBudget::new(steps));
    let evidence = Evidence::first([1; 16], Completion::RootEnded, 1);
    let mut out = Vec::new();
    evaluators.evaluate_trace(&mut trajectory, evidence, &mut Vec::new(), &mut out);
    (out, trajectory.effort.taken())
}

fn answer(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Scored(score) => score.value.to_string(),
        Outcome::NotEvaluable { reason, .. } => reason.as_str().to_owned(),
        Outcome::Failed { error, .. } => error.clone(),
    }
}

fn answers(evaluations: &[Evaluation]) -> Vec<String> {
    evaluations.iter().map(|evaluation| answer(&evaluation.outcome)).collect()
}

/// A message.
fn said(role: &str, text: &str) -> String {
    json!([{ "role": role, "parts": [{ "type": "text", "content": text }] }]).to_string()
}

/// An agent's run with these spans below it.
fn run(spans: impl IntoIterator<Item = Json>) -> Vec<Json> {
    let agent = json!({
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a",
        "gen_ai.input.messages": said("user", "go"),
        "gen_ai.output.messages": said("assistant", "done it"),
    });
    let below =
        spans.into_iter().zip(1..).map(|(attributes, at)| span(at, Some(0), "s", attributes));
    std::iter::once(span(0, None, "invoke_agent", agent)).chain(below).collect()
}

fn tool(name: &str, arguments: &str, result: &str) -> Json {
    json!({
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": result,
    })
}

fn offers(definitions: &[Json]) -> Json {
    let definitions = Json::from(definitions).to_string();
    json!({ "gen_ai.operation.name": "chat", "gen_ai.tool.definitions": definitions })
}

/// Asserts that four times as much takes at most five times the steps.
fn is_linear(evaluators: &str, make: impl Fn(usize) -> Vec<Json>, size: usize) {
    let taken = |size: usize| {
        let (out, taken) = judged(evaluators, &make(size), u64::MAX);
        assert!(!out.is_empty(), "{evaluators}");
        taken
    };
    let (little, much) = (taken(size), taken(4 * size));
    assert!(much <= 5 * little, "{evaluators}: {little} steps, then {much}");
}

fn many_definitions(count: usize) -> Vec<Json> {
    let definition = |at| json!({ "name": format!("t{at}"), "parameters": {"type": "object"} });
    let definitions: Vec<_> = (0..count).map(definition).collect();
    let calls = (0..count / 8).map(|at| tool(&format!("t{at}"), r#"{"a": 1}"#, "r"));
    run(std::iter::once(offers(&definitions)).chain(calls))
}

fn many_calls(count: usize) -> Vec<Json> {
    let call = |at| tool(&format!("t{}", at % 9), &format!(r#"{{"a": "x{at}"}}"#), "it is done");
    run((0..count).map(call))
}

/// Models that ask for calls which repeat those of all others, on spans without ids.
fn many_repetitions(count: usize) -> Vec<Json> {
    let asks = |at: usize| {
        let id = format!("c{at}");
        let call = json!([{ "role": "assistant", "parts": [
            { "type": "tool_call", "id": id, "name": "t", "arguments": {"q": at} }] }]);
        json!({ "gen_ai.operation.name": "chat", "gen_ai.input.messages": call.to_string() })
    };
    let call = |_| json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "u" });
    run((0..count).map(call).chain((0..count).map(asks)))
}

#[test]
fn steps_grow_with_the_trace() {
    is_linear("{tool_call_validity: {}}", many_definitions, 400);
    is_linear("{tool_call_validity: {schema: full}}", many_definitions, 400);
    is_linear("{tool_call_validity: {level: call}}", many_definitions, 400);
    is_linear("{tool_call_validity: {level: call, schema: full}}", many_definitions, 400);
    is_linear("{argument_grounding: {level: call}}", many_calls, 200);
    is_linear("{tool_error: {level: call}}", many_calls, 200);
    is_linear("{output_rules: {bundle: safety, target: tool_results}}", many_calls, 200);
    is_linear("{output_rules: {target: tool_results, level: call}}", many_calls, 200);
    let when = r#"{tool_error: {when: 'tool_names.exists(t, t.matches("^remove_"))'}}"#;
    let (out, _) = judged(when, &many_calls(20), u64::MAX);
    assert!(out.is_empty(), "no tool removes anything");
    let when = r#"{tool_error: {when: '!tool_names.exists(t, t.matches("^remove_"))'}}"#;
    is_linear(when, many_calls, 200);
}

#[test]
fn arguments_that_are_looked_up_take_steps_for_each_byte_and_value() {
    let words = |count: usize| json!({ "q": "parcel ".repeat(count) }).to_string();
    let numbers = |count: usize| json!({ "q": (100..100 + count).collect::<Vec<_>>() }).to_string();
    let steps = |arguments: String, given: u64| {
        let spans = run([tool("t", &arguments, "ok")]);
        judged("{argument_grounding: }", &spans, given)
    };
    for (few, many, least) in [
        (words(10_000), words(20_000), 10_000 * "parcel ".len() as u64 * 4),
        (numbers(10_000), numbers(20_000), 10_000 * 32),
    ] {
        let (taken, more) = (steps(few, u64::MAX).1, steps(many.clone(), u64::MAX).1);
        assert!(more - taken >= least, "{taken} and {more}");
        // Enough to read the trace, and not to look up what it holds.
        assert_eq!(answers(&steps(many, more - least).0), ["trace_too_expensive"]);
    }
}

/// A message of a model that asks for a call of `t`.
fn asks(at: usize) -> String {
    let part = json!({
        "type": "tool_call", "id": format!("c{at}"), "name": "t", "arguments": {"q": at} });
    json!([{ "role": "assistant", "parts": [part] }]).to_string()
}

/// Models whose requests overlap, each with a call in what it was given.
fn overlapping_models(count: usize) -> Vec<Json> {
    let model =
        |at: usize| json!({ "gen_ai.operation.name": "chat", "gen_ai.input.messages": asks(at) });
    run((0..count).map(model))
}

/// Calls of which the spans name the class of the tool, and models that asked for them.
fn classes_of_tools(count: usize) -> Vec<Json> {
    let model =
        |at: usize| json!({ "gen_ai.operation.name": "chat", "gen_ai.output.messages": asks(at) });
    let call = |at: usize| tool("DynamicTool", &format!(r#"{{"q": {at}}}"#), "r");
    run((0..count).map(model).chain((0..count).map(call)))
}

#[test]
fn searches_that_multiply_are_paid_for() {
    for make in [overlapping_models as fn(usize) -> Vec<Json>, classes_of_tools] {
        let taken = |count| judged("{tool_error: {}}", &make(count), u64::MAX).1;
        let (half, whole) = (taken(450), taken(900));
        assert!(whole > 2 * half + 150_000, "{half} steps, then {whole}");
    }
}

#[test]
fn explanations_are_paid_for() {
    let expected = vec!["{name: t, arguments: {a: 1}}"; 60].join(",");
    let evaluators =
        format!("{{tool_trajectory: {{level: call, criteria: {{tool_calls: [{expected}]}}}}}}");
    let want = Want { explanation: true, ..Want::SCORE };
    let spans = many_calls(100);
    let (_, bare) = judged(&evaluators, &spans, u64::MAX);
    let (_, explained) = judged_for(want, &evaluators, &spans, u64::MAX);
    assert!(explained > bare + 100 * 60 * 32, "{bare} steps, then {explained}");
}

#[test]
fn what_multiplies_is_cut_and_says_so() {
    let too_large = ["trajectory_too_large"];
    let twice = "{tool_error: {when: 'tool_names.all(a, tool_names.exists(b, b == a + \"x\"))'}}";
    let (out, taken) = judged(twice, &many_calls(2_000), u64::MAX);
    assert!(answers(&out).is_empty() && taken < 20_000_000, "{taken}: {:?}", answers(&out));
    let twice =
        "{tool_error: {when: 'tool_names.all(a, !tool_names.all(b, b != a + \"x\") || true)'}}";
    let (out, taken) = judged(twice, &many_calls(2_000), u64::MAX);
    assert_eq!(answers(&out), too_large);
    assert!(taken < 20_000_000, "{taken}");
    let (_, taken) = judged("{tool_error: {}}", &many_repetitions(400), 10_000_000);
    assert!(taken <= 10_000_000);
}

/// Results of so many bytes that no detector of failures can tell at a glance.
fn long_results(bytes: usize) -> Vec<Json> {
    let text = "Warning: error while failed to time out, exit status 1; ".repeat(1 + bytes / 56);
    run((0..40).map(|at| tool("t", &format!(r#"{{"a": {at}}}"#), &text[..bytes])))
}

#[test]
fn every_evaluator_that_looks_for_failures_pays_for_it() {
    let evaluators = [
        "{tool_error: {}}",
        "{tool_recovery: {}}",
        "{tool_efficiency: {allow_retries: true, argument_matcher: {mode: ignore}}}",
        "{tool_budget: {max_calls: 1, exclude_failed: true}}",
        "{tool_policy: {required_before: {t: [t]}}}",
        "{tool_correctness: {exclude_failed: true, criteria: {tool_calls: [{name: t}]}}}",
        "{tool_trajectory: {exclude_failed: true, criteria: {tool_calls: [{name: t}]}}}",
    ];
    for evaluators in evaluators {
        let taken = |bytes| judged(evaluators, &long_results(bytes), u64::MAX).1;
        let (short, long) = (taken(8), taken(4_000));
        assert!(long > short + 40 * 4_000, "{evaluators}: {short} steps, then {long}");
        let (out, _) = judged(evaluators, &long_results(4_000), short + 40 * 2_000);
        assert_eq!(answers(&out), ["trace_too_expensive"], "{evaluators}");
    }
}

#[test]
fn fields_of_results_are_paid_for_each_time_they_are_asked() {
    let fields: Vec<_> = (0..200).map(|at| format!(r#""error": null, "k{at}": "ok""#)).collect();
    let result = format!("{{{}}}", fields.join(","));
    let make = |count: usize| run((0..count).map(|_| tool("t", "{}", &result)));
    is_linear("{tool_error: {}}", make, 50);
}

#[test]
fn details_that_nobody_could_read_are_paid_for() {
    let call = |at| format!("{{name: t, args: {{a: x{at}}}}}");
    let expected: Vec<_> = (0..200).map(call).collect();
    let evaluators = format!(
        "{{tool_call_args: {{level: call, criteria: {{tool_calls: [{}]}}}}}}",
        expected.join(",")
    );
    let (out, taken) = judged_for(Want::ALL, &evaluators, &many_calls(100), 10_000_000);
    assert!(out.len() < 100 && taken <= 10_000_000, "{} answers, {taken} steps", out.len());
    assert_eq!(answers(&out).last().map(String::as_str), Some("trace_too_expensive"));
    let (out, _) = judged_for(Want::SCORE, &evaluators, &many_calls(100), 10_000_000);
    assert_eq!(out.len(), 100);
}

#[test]
fn trace_past_its_steps_is_not_evaluable_whatever_is_asked() {
    let evaluators = "{tool_error: {}, tool_efficiency: {level: call}, tool_call_validity: {}}";
    let spans = many_calls(50);
    let (out, taken) = judged(evaluators, &spans, u64::MAX);
    assert_eq!(out.len(), 52);
    let (all, exact) = judged(evaluators, &spans, taken);
    assert_eq!((answers(&all), exact), (answers(&out), taken));
    // One answer stands for the calls that are left.
    let (cut, exact) = judged(evaluators, &spans, taken / 2);
    assert_eq!(exact, taken / 2);
    let expensive = "trace_too_expensive";
    let said = answers(&cut);
    assert!(said.len() < 52 && said.iter().filter(|it| *it == expensive).count() <= 3, "{said:?}");
    assert_eq!(said.last().map(String::as_str), Some(expensive));
    let (none, exact) = judged(evaluators, &spans, 10);
    assert_eq!((answers(&none), exact), (vec![expensive.to_owned(); 2], 10));
}

#[test]
fn schemas_take_their_steps_whether_they_are_known_or_not() {
    let property = |at| (format!("p{at}"), json!({ "pattern": format!(r"^{at}(\w{{1,6}})$") }));
    let schema = |tool: usize| {
        let properties: serde_json::Map<_, _> =
            (0..20).map(|at| property(tool * 20 + at)).collect();
        json!({ "name": format!("t{tool}"), "parameters": { "properties": properties } })
    };
    let spans = |tools: usize| {
        let definitions: Vec<_> = (0..tools).map(schema).collect();
        let calls = (0..tools).map(|at| tool(&format!("t{at}"), "{}", "r"));
        run(std::iter::once(offers(&definitions)).chain(calls))
    };
    let one = "tool_call_validity/a: {schema: full}";
    let (_, once) = judged(&format!("{{{one}}}"), &spans(2), u64::MAX);
    let (_, reading) =
        judged("{tool_call_count: {criteria: {tool_calls_count: {}}}}", &spans(2), u64::MAX);
    let (out, twice) =
        judged(&format!("{{{one}, {}}}", one.replace("/a", "/b")), &spans(2), u64::MAX);
    assert_eq!(answers(&out), ["1", "1"]);
    assert!(twice - once > (once - reading) / 2, "{reading} {once} {twice}");
    // Two thousand patterns are not compiled for one trace.
    let (out, taken) = judged(&format!("{{{one}}}"), &spans(100), 100_000_000);
    assert!(taken <= 100_000_000);
    assert_eq!(answers(&out), ["trajectory_too_large"]);
}

#[test]
fn kinds_that_do_not_read_the_call_refuse_to_judge_call_by_call() {
    let problem = |evaluators: &str| {
        let text = format!("evaluators: {evaluators}");
        let part = ConfigPart::Text { name: "test".into(), text };
        let config = ResolvedConfig::new(&load(&[part], &|_| None).unwrap());
        config.map(|_| ()).map_err(|error| error.to_string())
    };
    for refused in [
        "{output_rules: {level: call, bundle: safety}}",
        "{exact_match: {level: call, criteria: {expected_output: x}}}",
        "{tool_name_reliability: {level: call}}",
        "{tool_call_order: {level: call, compat: uipath, criteria: {tool_calls_order: [a]}}}",
    ] {
        let error = problem(refused).unwrap_err();
        assert!(error.contains("does not judge calls with these settings"), "{error}");
    }
    for taken in [
        "{output_rules: {level: call, bundle: safety, target: tool_results}}",
        "{exact_match: {level: call, target: tool_results, criteria: {expected_output: x}}}",
        "{tool_call_validity: {level: call}}",
    ] {
        assert_eq!(problem(taken), Ok(()));
    }
    let when = r#"{tool_error: {when: "tool_names.exists(t, t.matches(attributes.pattern))"}}"#;
    let error = problem(when).unwrap_err();
    assert!(error.contains("takes a pattern written as a text"), "{error}");
    let error = problem(r#"{tool_error: {when: "span_name.matches('(a')"}}"#).unwrap_err();
    assert!(error.contains("takes a pattern: "), "{error}");
}

#[test]
fn words_in_the_keys_of_a_stranger_take_steps_of_the_trace() {
    let keys = |own: &str| {
        let keys = (0..400).map(|at| (format!("{own}{at}"), json!(1)));
        let kind = [("acme.span.kind".to_owned(), json!("tool"))];
        run([Json::Object(kind.into_iter().chain(keys).collect())])
    };
    let evaluators = "{tool_error: {}}";
    let of = |own: &str| judged(evaluators, &keys(own), u64::MAX).1;
    let (worded, others) = (of("acme.input.k"), of("acme.colour.k"));
    // Only the words of sources that one of the keys is for are looked for: three words a key.
    assert!(worded > others + 400 * 3 * 8, "{worded} steps, and {others} without words");
    let (out, _) = judged(evaluators, &keys("acme.input.k"), worded / 2);
    assert_eq!(answers(&out), ["trace_too_expensive"]);
}

/// A span of a model with these messages.
fn model(attribute: &str, messages: &Json) -> Json {
    json!({ "gen_ai.operation.name": "chat", attribute: messages.to_string() })
}

#[test]
fn fields_that_python_prints_are_paid_for() {
    let printed = |count: usize| {
        let fields: String = (0..count).map(|at| format!(" k{at}=1")).collect();
        run([tool("t", "{}", &format!("content=1 tool_call_id=2{fields}"))])
    };
    is_linear("{tool_error: {}}", printed, 2_000);
    let taken = |count| judged("{tool_error: {}}", &printed(count), u64::MAX).1;
    let (few, many) = (taken(1_000), taken(2_000));
    assert!(many - few >= 1_000 * 128, "{few} steps, then {many}");
}

/// The trajectory of these spans, by `see`.
fn resolved<T>(spans: &[Json], see: impl Fn(&Trajectory<'_>) -> T) -> T {
    let resolver = Resolver::new(every_fact());
    let traces = traces(&resolver, &[request("x", spans)]);
    see(&resolver.resolve_within(&traces[0], WorkBudget::new(10_000_000)))
}

fn every_fact() -> Arc<Table> {
    let dialects = Dialect::with_builtin(Vec::new());
    Arc::new(Table::compile(dialects, &Facts::all()).unwrap())
}

/// Spans that have one id and many names, and a model that asked for a call of that id.
fn many_names(count: usize, attributes: &Json) -> Vec<Json> {
    let arguments = json!({ "a": vec![1; 1_000] });
    let call = json!([{ "role": "assistant", "parts": [
        { "type": "tool_call", "id": "x", "name": "asked", "arguments": arguments }] }]);
    let own = |at: usize| {
        let mut own = attributes.clone();
        own["gen_ai.operation.name"] = json!("execute_tool");
        own["gen_ai.tool.call.id"] = json!("x");
        own["gen_ai.tool.name"] = json!(format!("t{at}"));
        own
    };
    run(std::iter::once(model("gen_ai.output.messages", &call)).chain((0..count).map(own)))
}

#[test]
fn spans_of_one_id_share_the_arguments_that_they_take() {
    resolved(&many_names(50, &json!({})), |trajectory| {
        assert_eq!(trajectory.tool_calls.len(), 50);
        let mut given = trajectory.tool_calls.iter().map(|call| call.arguments.value().unwrap());
        let first = given.next().unwrap();
        assert_eq!(first.node_count(), 1_002);
        assert!(given.all(|value| std::ptr::eq(value, first)), "each has its own");
    });
}

#[test]
fn texts_that_many_calls_take_are_paid_for() {
    // A text with an escape cannot be borrowed from the trace.
    let call = json!([{ "role": "assistant", "parts": [{ "type": "tool_call", "id": "x",
        "name": "asked", "arguments": "{\"cut\": \"".repeat(2_000) }] }]);
    let spans = |count: usize| {
        let mut spans = many_names(count, &json!({}));
        let attributes = model("gen_ai.output.messages", &call);
        spans[1] = span(1, Some(0), "s", attributes);
        spans
    };
    let held = |count: usize| {
        resolved(&spans(count), |trajectory| {
            let texts = trajectory.tool_calls.iter().map(|call| match &call.arguments {
                Content::Unreadable(text) => text.len(),
                _ => 0,
            });
            (texts.sum::<usize>(), trajectory.effort.is_trace_spent())
        })
    };
    assert_eq!(held(2), (2 * 18_000, false));
    let (bytes, is_spent) = held(1_000);
    assert!(is_spent && bytes <= 10_000_000 / 4, "{bytes} bytes of copies");
}

/// Calls without ids, alike but for the end, and a request that repeats them in reverse, each with
/// its result.
fn unnamed_calls(count: usize) -> Vec<Json> {
    let call = |at: usize| {
        let arguments = json!({ "q": format!("{}{at}", "x".repeat(40)) });
        json!({ "type": "tool_call", "name": "t", "arguments": arguments })
    };
    let result = |at: usize| json!({ "type": "tool_call_response", "response": at });
    let asked = json!([{ "role": "assistant", "parts": (0..count).map(call).collect::<Vec<_>>() }]);
    let calls: Vec<_> = (0..count).rev().map(call).collect();
    let results: Vec<_> = (0..count).rev().map(result).collect();
    let told = json!([
        { "role": "assistant", "parts": calls }, { "role": "tool", "parts": results }]);
    run([model("gen_ai.output.messages", &asked), model("gen_ai.input.messages", &told)])
}

#[test]
fn results_of_calls_without_ids_are_found_without_a_search() {
    is_linear("{tool_error: {}}", unnamed_calls, 400);
    resolved(&unnamed_calls(100), |trajectory| {
        assert_eq!(trajectory.tool_calls.len(), 100);
        for call in &trajectory.tool_calls {
            let (asked, got) = (call.arguments.value().unwrap(), call.result.value().unwrap());
            let asked = asked.get("q").and_then(|text| text.as_str()).unwrap();
            assert_eq!(asked.trim_start_matches('x'), got.to_string());
        }
    });
}

#[test]
fn calls_that_two_sources_tell_of_are_compared_for_steps() {
    let spans = |names: fn(usize) -> String| {
        let arguments = |at: usize| json!({ "q": format!("{}{at:02}", "x".repeat(1_600)) });
        let call = |at: usize| {
            let arguments = arguments(at);
            json!({ "type": "tool_call", "name": names(at), "arguments": arguments })
        };
        let calls: Vec<_> = (0..40).map(call).collect();
        let messages = json!([{ "role": "assistant", "parts": calls }]);
        let mut attributes = model("gen_ai.output.messages", &messages);
        attributes["openinference.span.kind"] = json!("LLM");
        for at in 0..40 {
            let key = format!("llm.output_messages.0.message.tool_calls.{at}.tool_call.function");
            attributes[format!("{key}.name")] = json!(names(39 - at));
            attributes[format!("{key}.arguments")] = json!(arguments(39 - at).to_string());
        }
        run([attributes])
    };
    let taken = |names| judged("{tool_error: {}}", &spans(names), u64::MAX).1;
    let (alike, different) = (taken(|_| "t00".to_owned()), taken(|at| format!("t{at:02}")));
    assert!(alike > different + 40 * 15 * 100, "{different} steps, then {alike}");
}
