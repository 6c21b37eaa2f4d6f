//! Evaluators that are gRPC servers, well and unwell.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use prost::Message;
use spanscore_base::otlp::status::{RetryInfo, RpcStatus};
use spanscore_evaluate::external::proto::{
    EvaluateResponse, EvaluationMessage, FailureMessage, OutcomeMessage, ScoreMessage, ServedKind,
    TaskLevel,
};
use tonic::{Code, Status};

use super::server::{FakeEvaluator, Script, Scripted, all, described, kind, scored};
use crate::judges::refund;
use crate::support::collector::{Event, Running};
use crate::support::patience::PATIENCE;
use crate::support::spans::{request, tool, with};

/// A config with one evaluator that asks that server.
fn asking(server: &FakeEvaluator, more: &str) -> String {
    let address = server.address;
    format!("evaluators:\n  grpc/quality: {{endpoint: \"http://{address}\"{more}}}\n")
}

fn told(event: &Event) -> String {
    match (event.score(), event.text("spanscore.evaluation.reason"), event.text("error.type")) {
        (Some(score), ..) => format!("{score} {}", event.label()),
        (None, "", error) => error.to_owned(),
        (None, reason, _) => reason.to_owned(),
    }
}

/// Checks the evaluation of one trace, with a server that answers so.
async fn check(
    expected: &str,
    answer: impl Fn(&str) -> Vec<EvaluationMessage> + Send + Sync + 'static,
) {
    let server = FakeEvaluator::start(Script::answering(move |asked, _| {
        let evaluations = asked.tasks.iter().flat_map(|task| answer(&task.id)).collect();
        Scripted::now(&EvaluateResponse { evaluations })
    }))
    .await;
    let running = Running::start(&asking(&server, "")).await;
    running.send(request(refund(7))).await;
    let event = running.events(1).await.remove(0);
    assert_eq!(told(&event), expected);
    assert_eq!(running.judged().await.len(), 1);
}

fn of(task_id: &str, outcome: OutcomeMessage) -> EvaluationMessage {
    let task_id = task_id.to_owned();
    EvaluationMessage { task_id, outcome: Some(outcome), ..EvaluationMessage::default() }
}

#[tokio::test]
async fn answers_become_what_they_say_and_wrong_ones_never_a_score() {
    check("0.5 pass", |id| vec![scored(id, 0.5)]).await;
    check("score_out_of_range", |id| vec![scored(id, f64::NAN)]).await;
    check("score_out_of_range", |id| vec![scored(id, 1.25)]).await;
    check("score_out_of_range", |id| vec![scored(id, f64::NEG_INFINITY)]).await;
    check("external_no_answer", |_| Vec::new()).await;
    check("external_no_answer", |_| vec![scored("somebody else", 1.0)]).await;
    check("0.25 fail", |id| vec![scored(id, 0.25), scored(id, 1.0)]).await;
    check("external_output_invalid", |id| {
        vec![EvaluationMessage { task_id: id.to_owned(), ..EvaluationMessage::default() }]
    })
    .await;
    check("external_not_evaluable", |id| {
        vec![of(id, OutcomeMessage::NotEvaluable("too short".to_owned()))]
    })
    .await;
    check("external_failed", |id| {
        let (r#type, message) = ("model_gone".to_owned(), "it is gone".to_owned());
        vec![of(id, OutcomeMessage::Failed(FailureMessage { r#type, message, retryable: false }))]
    })
    .await;
    check("0.9 fail", |id| {
        let label = Some("fail".to_owned());
        vec![of(id, OutcomeMessage::Scored(ScoreMessage { value: 0.9, label }))]
    })
    .await;
}

#[tokio::test]
async fn only_what_is_needed_is_sent_under_the_id_of_the_evaluation() {
    let server =
        FakeEvaluator::start(Script::answering(|asked, _| Scripted::now(&all(asked, 1.0)))).await;
    let more = ", settings: {language: en}, criteria: {tone: kind}, headers: {x-key: secret}";
    let running = Running::start(&asking(&server, more)).await;
    running.send(request(refund(7))).await;
    let event = running.events(1).await.remove(0);
    let (asked, metadata) = server.requests().remove(0);
    assert_eq!(
        (asked.kind.as_str(), asked.settings_json.as_str()),
        ("quality", r#"{"language":"en"}"#)
    );
    assert_eq!(metadata.get("x-key").map(|it| it.as_bytes()), Some(&b"secret"[..]));
    let task = &asked.tasks[0];
    assert_eq!(task.id, event.id());
    assert_eq!((task.level, task.criteria_json.as_str()), (2, r#"{"tone":"kind"}"#));
    let trajectory = &task.trajectories[0];
    let input = trajectory.user_input.as_ref().expect("it is needed");
    assert_eq!(input.value, "Refund order 17 please");
    let call = &trajectory.tool_calls[0];
    assert_eq!((call.name.as_str(), call.span_id.as_str()), ("issue_refund", "0202020202020202"));
    assert_eq!(call.arguments.as_ref().map(|it| it.value.as_str()), Some(r#"{"order":17}"#));
    assert_eq!((&call.result, &trajectory.final_output), (&None, &None), "nobody asked for it");
    assert_eq!(trajectory.completion, "root_ended");
    running.judged().await;
}

#[tokio::test]
async fn the_version_of_the_evaluator_is_a_part_of_the_identity() {
    let id_with = |version: &'static str| async move {
        let mut script = Script::answering(|asked, _| Scripted::now(&all(asked, 1.0)));
        script.describe = Box::new(move || {
            Ok(described(vec![ServedKind { version: version.to_owned(), ..kind() }]))
        });
        let server = FakeEvaluator::start(script).await;
        let running = Running::start(&asking(&server, "")).await;
        running.send(request(refund(7))).await;
        let event = running.events(1).await.remove(0);
        running.judged().await;
        assert_eq!(event.text("spanscore.evaluator.own_version"), version);
        [event.id(), event.text("spanscore.evaluator.version")].map(str::to_owned)
    };
    let (one, again, two) = (id_with("1").await, id_with("1").await, id_with("2").await);
    assert_eq!(one, again);
    assert!(one[0] != two[0] && one[1] != two[1], "{one:?} {two:?}");
}

#[tokio::test]
async fn secrets_are_replaced_before_a_task_leaves() {
    let mut script = Script::answering(|asked, _| Scripted::now(&all(asked, 1.0)));
    let needs = (1..=9).collect();
    script.describe = Box::new(move || {
        let needs = Vec::clone(&needs);
        Ok(described(vec![ServedKind { needs, ..kind() }]))
    });
    let server = FakeEvaluator::start(script).await;
    let told = |redact: &str| format!(", criteria: {{tone: hunter22-x}}{redact}");
    for (redact, secret, mail) in [
        ("", "[SECRET_1]", "jo@lampenhaus.de"),
        (", redact: secrets_and_pii", "[SECRET_1]", "[EMAIL_1]"),
        (", redact: none", "hunter22-x", "jo@lampenhaus.de"),
    ] {
        let running = Running::start(&asking(&server, &told(redact))).await;
        let mut spans = refund(7);
        let login = r#"{"password": "hunter22-x", "mail": "jo@lampenhaus.de"}"#;
        let call = with(tool(7, 3, "log_in"), "input.value", login);
        spans.push(with(call, "output.value", "hunter22-x is right"));
        running.send(request(spans)).await;
        running.events(1).await;
        let (asked, _) = server.requests().pop().expect("a request");
        let task = &asked.tasks[0];
        assert_eq!(task.criteria_json, r#"{"tone":"hunter22-x"}"#, "as the config has it");
        let call = task.trajectories[0].tool_calls.last().expect("a call");
        let arguments = format!(r#"{{"password":"{secret}","mail":"{mail}"}}"#);
        assert_eq!(call.arguments.as_ref().map(|it| &it.value), Some(&arguments));
        let result = format!("{secret} is right");
        assert_eq!(call.result.as_ref().map(|it| &it.value), Some(&result));
        running.judged().await;
    }
}

#[tokio::test]
async fn a_restarted_evaluator_gets_what_waited_meanwhile() {
    let script = || Script::answering(|asked, _| Scripted::now(&all(asked, 1.0)));
    let server = FakeEvaluator::start(script()).await;
    let running = Running::start(&asking(&server, "")).await;
    running.send(request(refund(1))).await;
    running.events(1).await;
    let address = server.address;
    drop(server);
    for trace in 2..6 {
        running.send(request(refund(trace))).await;
    }
    tokio::time::sleep(Duration::from_millis(700)).await;
    let _again = FakeEvaluator::at(address, script(), None).await;
    let events = running.events(5).await;
    let told: Vec<_> = events.iter().map(|event| (event.trace(), told(event))).collect();
    assert_eq!(told, (1..6).map(|trace| (trace, "1 pass".to_owned())).collect::<Vec<_>>());
    running.judged().await;
}

#[tokio::test]
async fn a_slow_evaluator_is_asked_three_times_and_holds_up_nobody() {
    let server = FakeEvaluator::start(Script::answering(|asked, _| Scripted {
        delay: PATIENCE,
        ..Scripted::now(&all(asked, 1.0))
    }))
    .await;
    let config = asking(&server, ", timeout: 200ms") + "  tool_error: {}\n";
    let running = Running::start(&config).await;
    running.send(request(refund(7))).await;
    let first = running.events(1).await.remove(0);
    assert_eq!(first.name(), "tool_error", "the others do not wait");
    let events = running.events(2).await;
    let slow = events.iter().find(|event| event.name() == "grpc/quality").expect("it");
    assert_eq!(told(slow), "external_timeout");
    assert_eq!(server.requests().len(), 3);
    let ids: BTreeSet<_> =
        server.requests().iter().map(|(asked, _)| asked.tasks[0].id.clone()).collect();
    assert_eq!(ids.len(), 1, "the same task has the same id");
    running.judged().await;
}

#[tokio::test]
async fn an_overloaded_evaluator_is_left_alone_as_long_as_it_says() {
    let times = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&times);
    let server = FakeEvaluator::start(Script::answering(move |asked, count| {
        kept.lock().expect("times").push(Instant::now());
        if count > 1 {
            return Scripted::now(&all(asked, 1.0));
        }
        let details = vec![RetryInfo::new(Duration::from_millis(1500)).to_any()];
        let status = RpcStatus { code: 8, message: "later".to_owned(), details };
        let code = Code::ResourceExhausted;
        Scripted::refused(Status::with_details(code, "later", status.encode_to_vec().into()))
    }))
    .await;
    let running = Running::start(&asking(&server, "")).await;
    running.send(request(refund(7))).await;
    assert_eq!(told(&running.events(1).await[0]), "1 pass");
    let times = times.lock().expect("times").clone();
    assert!(times[1] - times[0] >= Duration::from_millis(1500), "{:?}", times[1] - times[0]);
    running.counted("spanscore_external_retries_total{evaluator=\"grpc/quality\"}", 1).await;
    running.judged().await;
}

#[tokio::test]
async fn only_codes_that_may_pass_are_tried_again() {
    for (code, tries, expected) in [
        (Code::Aborted, 3, "external_rejected"),
        (Code::DeadlineExceeded, 3, "external_timeout"),
        (Code::InvalidArgument, 1, "external_rejected"),
        (Code::Internal, 1, "external_rejected"),
        (Code::PermissionDenied, 1, "external_rejected"),
    ] {
        let script = Script::answering(move |_, _| Scripted::refused(Status::new(code, "no")));
        let server = FakeEvaluator::start(script).await;
        let running = Running::start(&asking(&server, "")).await;
        running.send(request(refund(7))).await;
        assert_eq!(told(&running.events(1).await[0]), expected, "{code:?}");
        assert_eq!(server.requests().len(), tries, "{code:?}");
        running.judged().await;
    }
}

/// Field 90 with some bytes: of a later minor version.
const UNKNOWN_FIELD: &[u8] = &[0xd2, 0x05, 3, 1, 2, 3];

#[tokio::test]
async fn what_a_newer_evaluator_says_beside_is_passed_over() {
    let mut script = Script::answering(|asked, _| {
        let Scripted { delay, answer } = Scripted::now(&all(asked, 0.5));
        Scripted { delay, answer: answer.map(|bytes| [&bytes, UNKNOWN_FIELD].concat()) }
    });
    script.describe = Box::new(|| {
        let mut later = kind();
        later.needs.push(77);
        later.levels = vec![TaskLevel::Trace as i32, 77];
        let later = [described(vec![later]), UNKNOWN_FIELD.to_vec()].concat();
        // A minor version that is not ours.
        Ok([&[8, 9][..], &later].concat())
    });
    let server = FakeEvaluator::start(script).await;
    let running = Running::start(&asking(&server, "")).await;
    running.send(request(refund(7))).await;
    assert_eq!(told(&running.events(1).await[0]), "0.5 pass");
    running.judged().await;
}

#[tokio::test]
async fn answers_that_fit_no_task_are_counted() {
    let server = FakeEvaluator::start(Script::answering(|asked, _| {
        let id = &asked.tasks[0].id;
        let evaluations = vec![scored("x", 1.0), scored(id, 1.0), scored(id, 0.0)];
        Scripted::now(&EvaluateResponse { evaluations })
    }))
    .await;
    let running = Running::start(&asking(&server, "")).await;
    running.send(request(refund(7))).await;
    assert_eq!(told(&running.events(1).await[0]), "1 pass");
    let series = |reason: &str| {
        format!(
            "spanscore_external_ignored_total{{evaluator=\"grpc/quality\",reason=\"{reason}\"}}"
        )
    };
    running.counted(&series("unknown_task"), 1).await;
    running.counted(&series("repeated"), 1).await;
    running.judged().await;
}

#[tokio::test]
async fn a_failure_that_may_pass_is_tried_again() {
    let server = FakeEvaluator::start(Script::answering(|asked, count| {
        if count > 1 {
            return Scripted::now(&all(asked, 1.0));
        }
        let failure = FailureMessage { retryable: true, ..FailureMessage::default() };
        let evaluations = vec![of(&asked.tasks[0].id, OutcomeMessage::Failed(failure))];
        Scripted::now(&EvaluateResponse { evaluations })
    }))
    .await;
    let running = Running::start(&asking(&server, "")).await;
    running.send(request(refund(7))).await;
    assert_eq!(told(&running.events(1).await[0]), "1 pass");
    running.judged().await;
}

async fn check_description(kinds: Vec<ServedKind>, more: &str, expected: &str, words: &str) {
    let mut script = Script::answering(|asked, _| Scripted::now(&all(asked, 1.0)));
    script.describe = Box::new(move || Ok(described(kinds.clone())));
    let server = FakeEvaluator::start(script).await;
    let running = Running::start(&asking(&server, more)).await;
    running.send(request(refund(7))).await;
    let event = running.events(1).await.remove(0);
    assert_eq!(told(&event), expected);
    assert!(format!("{:?}", event.0).contains(words), "{words} in {:?}", event.0);
    running.judged().await;
}

#[tokio::test]
async fn an_evaluator_that_cannot_do_what_the_config_wants_says_why() {
    let schema = r#"{"type": "object", "required": ["language"], "additionalProperties": false,
        "properties": {"language": {"enum": ["en", "de"]}}}"#;
    let strict = ServedKind { settings_schema: schema.to_owned(), ..kind() };
    let wrong = ", settings: {language: xx}";
    let settings = "external_settings_invalid";
    check_description(vec![strict.clone()], wrong, settings, "settings.language").await;
    check_description(vec![strict.clone()], "", settings, "language").await;
    check_description(vec![strict], ", settings: {language: de}", "1 pass", "").await;
    let other = ServedKind { name: "other".to_owned(), ..kind() };
    let unknown = "external_kind_unknown";
    check_description(vec![other.clone()], ", kind: third", unknown, "other").await;
    check_description(vec![other.clone(), kind()], "", "1 pass", "").await;
    check_description(vec![other], "", "1 pass", "").await;
    let sessions = ServedKind { levels: vec![TaskLevel::Session as i32], ..kind() };
    check_description(vec![sessions], "", "external_level_unsupported", "level: trace").await;
}

#[tokio::test]
async fn an_evaluator_that_is_not_well_is_waited_for() {
    let health = Arc::new(AtomicI32::new(2));
    let mut script = Script::answering(|asked, _| Scripted::now(&all(asked, 1.0)));
    let told_health = Arc::clone(&health);
    script.health = Box::new(move || Ok(told_health.load(Ordering::SeqCst)));
    let server = FakeEvaluator::start(script).await;
    let running = Running::start(&asking(&server, "")).await;
    running.send(request(refund(7))).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert!(server.requests().is_empty());
    health.store(1, Ordering::SeqCst);
    assert_eq!(told(&running.events(1).await[0]), "1 pass");
    running.judged().await;
}

#[tokio::test]
async fn batches_and_requests_at_once_are_limited() {
    // The first two keep the others waiting until all have come.
    let mut script = Script::answering(|asked, count| Scripted {
        delay: Duration::from_millis(if count <= 2 { 2_000 } else { 30 }),
        ..Scripted::now(&all(asked, 1.0))
    });
    script.describe = Box::new(|| Ok(described(vec![ServedKind { batch_max: 3, ..kind() }])));
    let server = FakeEvaluator::start(script).await;
    let running = Running::start(&asking(&server, ", concurrency: 2")).await;
    for trace in 1..=40 {
        running.send(request(refund(trace))).await;
    }
    running.events(40).await;
    let sizes: Vec<_> = server.requests().iter().map(|(asked, _)| asked.tasks.len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 40);
    assert!(sizes.iter().all(|size| *size <= 3) && sizes.contains(&3), "{sizes:?}");
    assert!(server.most_under_way() <= 2, "{}", server.most_under_way());
    running.judged().await;
}

#[tokio::test]
async fn calls_may_be_judged_one_by_one_or_within_their_trace() {
    let two_calls = || {
        let mut spans = refund(7);
        spans.push(tool(7, 3, "send_mail"));
        request(spans)
    };
    let server = FakeEvaluator::start(Script::answering(|asked, _| {
        let by_call = asked.tasks.iter().flat_map(|task| {
            let calls = task.trajectories[0].tool_calls.iter();
            let values = calls.map(|call| (call, if call.name == "send_mail" { 0.0 } else { 1.0 }));
            values.map(|(call, value)| EvaluationMessage {
                span_id: call.span_id.clone(),
                ..scored(&task.id, value)
            })
        });
        Scripted::now(&EvaluateResponse { evaluations: by_call.collect() })
    }))
    .await;
    let running = Running::start(&asking(&server, "")).await;
    running.send(two_calls()).await;
    let told = |events: &[Event]| -> Vec<_> {
        events.iter().map(|event| (event.span(), event.score())).collect()
    };
    let events = running.events(3).await;
    let expected = [(1, Some(0.5)), (2, Some(1.0)), (3, Some(0.0))];
    assert_eq!(told(&events), expected, "the trace gets the mean");
    running.judged().await;
    let running = Running::start(&asking(&server, ", level: call")).await;
    running.send(two_calls()).await;
    let events = running.events(2).await;
    assert_eq!(told(&events), expected[1..]);
    let levels: BTreeSet<_> = server
        .requests()
        .last()
        .expect("a request")
        .0
        .tasks
        .iter()
        .map(|task| (task.level, task.trajectories[0].tool_calls.len()))
        .collect();
    assert_eq!(levels, BTreeSet::from([(TaskLevel::Call as i32, 1)]));
    running.judged().await;
}

#[tokio::test]
async fn an_evaluator_may_be_reached_under_tls() {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let identity = tonic::transport::Identity::from_pem(cert.pem(), signing_key.serialize_pem());
    let script = Script::answering(|asked, _| Scripted::now(&all(asked, 1.0)));
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = FakeEvaluator::at(address, script, Some(identity)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, cert.pem()).expect("a file");
    let port = server.address.port();
    let config = format!(
        "evaluators:\n  grpc/quality: {{endpoint: \"https://localhost:{port}\", \
         tls: {{ca_file: {file:?}}}}}\n"
    );
    let running = Running::start(&config).await;
    running.send(request(refund(7))).await;
    assert_eq!(told(&running.events(1).await[0]), "1 pass");
    running.judged().await;
}

#[tokio::test]
async fn another_config_asks_another_evaluator() {
    let script = |value| Script::answering(move |asked, _| Scripted::now(&all(asked, value)));
    let (one, two) =
        (FakeEvaluator::start(script(1.0)).await, FakeEvaluator::start(script(0.0)).await);
    let running = Running::start(&asking(&one, "")).await;
    running.send(request(refund(1))).await;
    running.events(1).await;
    running.reload(&asking(&two, "")).await.expect("it is taken");
    running.send(request(refund(2))).await;
    let events = running.events(2).await;
    assert_eq!(events.iter().map(Event::score).collect::<Vec<_>>(), [Some(1.0), Some(0.0)]);
    running.judged().await;
}

#[tokio::test]
async fn criteria_that_come_with_the_trace_go_with_its_task() {
    let server =
        FakeEvaluator::start(Script::answering(|asked, _| Scripted::now(&all(asked, 1.0)))).await;
    let config = asking(&server, ", expect: {attribute: eval.criteria}");
    let running = Running::start(&config).await;
    for (trace, criteria) in [(1, Some(r#"{"tone":"friendly"}"#)), (2, None)] {
        let mut spans = refund(trace);
        if let Some(criteria) = criteria {
            spans[0] = with(spans[0].clone(), "eval.criteria", criteria);
        }
        running.send(request(spans)).await;
    }
    let events = running.events(2).await;
    assert_eq!(events.iter().map(told).collect::<Vec<_>>(), ["1 pass", "no_expectation"]);
    let tasks = server.requests().into_iter().flat_map(|(asked, _)| asked.tasks);
    let criteria: Vec<String> = tasks.map(|task| task.criteria_json).collect();
    assert_eq!(criteria, [r#"{"tone":"friendly"}"#]);
    running.judged().await;
}
