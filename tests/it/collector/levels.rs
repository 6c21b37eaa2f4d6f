//! Levels of evaluations, and the traces that an evaluator sees.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::support::collector::{HELD, Running};
use crate::support::spans::{agent, request, scoped, searches, tool, with};

#[tokio::test]
async fn evaluations_of_calls_sit_on_the_spans_of_the_calls() {
    let running = Running::start(
        r#"
evaluators:
  tool_call_args/a17:
    level: call
    criteria: {tool_calls: [{name: refund, args: {order: A-17}}]}
"#,
    )
    .await;
    let call = |id, order| with(tool(7, id, "refund"), "input.value", order);
    let calls = [call(2, r#"{"order": "A-17"}"#), call(3, r#"{"order": "B-18"}"#), agent(7)];
    running.send(request(calls)).await;
    let events = running.events(2).await;
    let told: Vec<_> = events.iter().map(|e| (e.span(), e.score(), e.label())).collect();
    assert_eq!(told, [(2, Some(1.0), "pass"), (3, Some(0.0), "fail")]);
    assert!(events.iter().all(|event| event.text("spanscore.evaluation.level") == "call"));
    assert_ne!(events[0].id(), events[1].id());
}

#[tokio::test]
async fn calls_without_ids_on_one_span_have_evaluations_with_ids_of_their_own() {
    let config = format!(
        r#"{HELD}
evaluators:
  tool_call_args/a17:
    level: call
    criteria: {{tool_calls: [{{name: refund, args: {{order: A-17}}}}]}}
"#
    );
    let running = Running::start(&config).await;
    let mut model = with(tool(7, 2, "model"), "openinference.span.kind", "LLM");
    for (at, order) in ["A-17", "B-18", "C-19"].into_iter().enumerate() {
        let key = format!("llm.output_messages.0.message.tool_calls.{at}.tool_call.function");
        model = with(model, &format!("{key}.name"), "refund");
        let arguments = format!(r#"{{"order": "{order}"}}"#);
        model = with(model, &format!("{key}.arguments"), &arguments);
    }
    model.attributes.drain(..2);
    running.send(request([model, agent(7)])).await;
    let events = running.judged().await;
    let told: Vec<_> = events.iter().map(|e| (e.span(), e.label())).collect();
    assert_eq!(told, [(2, "pass"), (2, "fail"), (2, "fail")]);
    let mut ids: Vec<_> = events.iter().map(|event| event.id()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

fn in_session(spans: Vec<Span>, session: &str, later_s: u64) -> Vec<Span> {
    let shifted = spans.into_iter().map(|mut span| {
        span.start_time_unix_nano += later_s * 1_000_000_000;
        span.end_time_unix_nano += later_s * 1_000_000_000;
        with(span, "session.id", session)
    });
    shifted.collect()
}

#[tokio::test]
async fn sessions_are_judged_on_all_their_traces_after_their_idle_time() {
    let running = Running::start(
        r#"
sessions: {idle_timeout: 1s}
evaluators:
  tool_call_count/three: {level: session, criteria: {tool_calls_count: {search: ["=", 3]}}}
  tool_call_count/one: {criteria: {tool_calls_count: {search: ["=", 1]}}}
"#,
    )
    .await;
    // The later trace comes first: the last one is the last by its own time.
    running.send(request(in_session(searches(8, &[2]), "s-1", 60))).await;
    running.send(request(in_session(searches(7, &[2, 3]), "s-1", 0))).await;
    running.send(request(in_session(searches(9, &[2]), "s-2", 0))).await;
    let events = running.events(5).await;
    let sessions = events.iter().filter(|event| event.name() == "tool_call_count/three");
    let told: Vec<_> = sessions
        .map(|e| (e.text("session.id"), e.trace(), e.span(), e.score(), e.completion()))
        .collect();
    assert_eq!(told, [("s-1", 8, 1, Some(1.0), "idle"), ("s-2", 9, 1, Some(0.0), "idle")]);
    running.counted("spanscore_assemble_judged_sessions_total", 2).await;

    // A trace that comes while the session is remembered revises it.
    running.send(request(in_session(searches(10, &[2]), "s-2", 90))).await;
    let events = running.events(7).await;
    let revised: Vec<_> = events.iter().filter(|event| event.revision() == 1).collect();
    assert_eq!((revised.len(), revised[0].trace()), (1, 10));
    let first = events.iter().find(|event| event.trace() == 9 && event.score() == Some(0.0));
    assert_eq!(revised[0].text("spanscore.evaluation.revises"), first.unwrap().id());
}

#[tokio::test]
async fn sessions_are_judged_from_the_reload_that_asks_for_it_to_the_one_that_does_not() {
    let asks = r#"
sessions: {idle_timeout: 1s}
evaluators:
  tool_call_count/two: {level: session, criteria: {tool_calls_count: {search: ["=", 2]}}}
  tool_error:
"#;
    let does_not = "sessions: {idle_timeout: 1s}\nevaluators: {tool_error: }\n";
    let running = Running::start(does_not).await;
    running.send(request(in_session(searches(7, &[2]), "s-1", 0))).await;
    running.events(1).await;
    assert_eq!(running.reload(asks).await, Ok(()));
    running.send(request(in_session(searches(8, &[2]), "s-2", 60))).await;
    running.send(request(in_session(searches(9, &[2]), "s-2", 90))).await;
    running.events(4).await;
    assert_eq!(running.reload(does_not).await, Ok(()));
    running.send(request(in_session(searches(10, &[2]), "s-3", 120))).await;
    let events = running.judged().await;
    let sessions = events.iter().filter(|event| event.name() == "tool_call_count/two");
    let told: Vec<_> = sessions.map(|e| (e.text("session.id"), e.score())).collect();
    assert_eq!(told, [("s-2", Some(1.0))]);
    assert_eq!(events.len(), 5, "each trace once, and the session");
}

/// Sends session `1` of two services, and a trace of both that the first began; gives the last
/// trace and the score of each session.
async fn judged_sessions(settings: &str) -> Vec<(u8, Option<f64>)> {
    let config = format!(
        r#"{HELD}
{settings}
evaluators:
  tool_call_count/two: {{level: session, criteria: {{tool_calls_count: {{search: ["=", 2]}}}}}}
"#
    );
    let running = Running::on_one_shard(&config).await;
    let of = |service, spans, later_s| ExportTraceServiceRequest {
        resource_spans: vec![scoped("test", service, in_session(spans, "1", later_s))],
    };
    running.send(of("shop", searches(7, &[2]), 0)).await;
    running.send(of("bank", searches(8, &[2]), 10)).await;
    running.send(of("bank", vec![tool(9, 2, "search")], 20)).await;
    running.send(of("shop", vec![agent(9)], 20)).await;
    let events = running.judged().await;
    let mut told: Vec<_> = events.iter().map(|event| (event.trace(), event.score())).collect();
    told.sort_by_key(|(trace, _)| *trace);
    told
}

#[tokio::test]
async fn sessions_of_two_services_with_one_id_are_two_unless_the_id_is_the_key() {
    let apart = judged_sessions("").await;
    assert_eq!(apart, [(8, Some(0.0)), (9, Some(1.0))]);
    let same = judged_sessions("sessions: {key: service_and_session}").await;
    assert_eq!(same, apart);
    let together = judged_sessions("sessions: {key: session}").await;
    assert_eq!(together, [(9, Some(0.0))]);
}

#[tokio::test]
async fn another_key_of_sessions_holds_for_traces_that_are_judged_after_the_reload() {
    let with = |key: &str| {
        let count = r#"{level: session, criteria: {tool_calls_count: {search: ["=", 2]}}}"#;
        format!(
            "sessions: {{key: {key}}}\nevaluators: {{tool_call_count: {count}, tool_error: }}\n"
        )
    };
    let running = Running::on_one_shard(&with("service_and_session")).await;
    let of = |service, trace, later_s| ExportTraceServiceRequest {
        resource_spans: vec![scoped(
            "test",
            service,
            in_session(searches(trace, &[2]), "1", later_s),
        )],
    };
    running.send(of("shop", 7, 0)).await;
    running.events(1).await;
    assert_eq!(running.reload(&with("session")).await, Ok(()));
    running.send(of("bank", 8, 10)).await;
    running.send(of("shop", 9, 20)).await;
    let events = running.judged().await;
    let sessions = events.iter().filter(|event| event.name() == "tool_call_count");
    let mut told: Vec<_> = sessions.map(|event| (event.trace(), event.score())).collect();
    told.sort_by_key(|(trace, _)| *trace);
    assert_eq!(told, [(7, Some(0.0)), (9, Some(1.0))]);
}

#[tokio::test]
async fn open_sessions_are_judged_at_shutdown() {
    let running = Running::start(
        r#"
evaluators:
  tool_call_count/three: {level: session, criteria: {tool_calls_count: {search: ["=", 3]}}}
"#,
    )
    .await;
    running.send(request(in_session(searches(7, &[2, 3, 4]), "s-1", 0))).await;
    let events = running.judged().await;
    assert_eq!((events.len(), events[0].completion()), (1, "shutdown"));
    assert_eq!((events[0].score(), events[0].text("session.id")), (Some(1.0), "s-1"));
}

#[tokio::test]
async fn when_and_sample_choose_the_traces() {
    let config = format!(
        r#"{HELD}
evaluators:
  tool_error/all:
  tool_error/none: {{sample: 0}}
  tool_error/half: {{sample: 0.5}}
  tool_error/also_half: {{sample: 0.5}}
  tool_error/most: {{sample: 0.75}}
  tool_error/refunds: {{when: "'refund' in tool_names && service_name == 'shop'"}}
  tool_error/clerk: {{when: "agent_name == 'clerk' && resource['host.name'] == 'h-1'"}}
  tool_error/broken: {{when: "attributes['not.there'] == 'x'"}}
"#
    );
    let running = Running::start(&config).await;
    // The share is taken by the last bytes of the trace's id.
    for trace in [0x01, 0x7f, 0x80, 0xbf, 0xc0, 0xff] {
        let mut spans = searches(trace, &[2]);
        if trace == 0x80 {
            spans.push(tool(trace, 3, "refund"));
        }
        running.send(request(spans)).await;
    }
    let events = running.judged().await;
    let traces = |name: &str| {
        let own = events.iter().filter(|event| event.name() == format!("tool_error/{name}"));
        own.map(|event| event.trace()).collect::<Vec<_>>()
    };
    assert_eq!(traces("all"), [0x01, 0x7f, 0x80, 0xbf, 0xc0, 0xff]);
    assert!(traces("none").is_empty());
    assert_eq!(traces("half"), [0x01, 0x7f]);
    assert_eq!(traces("also_half"), traces("half"));
    assert_eq!(traces("most"), [0x01, 0x7f, 0x80, 0xbf]);
    assert_eq!(traces("refunds"), [0x80]);
    assert_eq!(traces("clerk"), traces("all"));
    assert!(traces("broken").is_empty());
}

#[tokio::test]
async fn a_score_at_the_threshold_passes_and_one_below_fails() {
    let config = format!(
        r#"{HELD}
evaluators:
  tool_call_count/at: {{threshold: 0.5, criteria: {{tool_calls_count: {{search: 1, buy: 1}}}}}}
  tool_call_count/below: {{threshold: 0.51, criteria: {{tool_calls_count: {{search: 1, buy: 1}}}}}}
"#
    )
    .replace("search: 1, buy: 1", r#"search: ["=", 1], buy: ["=", 1]"#);
    let running = Running::start(&config).await;
    running.send(request(searches(7, &[2]))).await;
    let events = running.judged().await;
    let told: Vec<_> = events.iter().map(|e| (e.name(), e.score(), e.label())).collect();
    assert_eq!(
        told,
        [("tool_call_count/at", Some(0.5), "pass"), ("tool_call_count/below", Some(0.5), "fail")]
    );
}
