use super::langfuse::LangfuseScores;
use super::opik::{OpikScores, opik_id};
use super::phoenix::Annotations;
use super::*;
use crate::content::ContentRedactor;
use crate::sample;
use crate::settings;
use spanscore_base::model::{EvaluatorInfo, Explanation, JudgeUse, Level};
use spanscore_base::value::json as own_json;

fn body(backend: &impl NativeBackend, evaluations: &[Evaluation], content: bool) -> Json {
    let scores: Vec<_> = evaluations.iter().map(|it| NativeScore::new(it, content)).collect();
    let requests = backend.requests(&scores);
    assert_eq!(requests.len(), 1);
    serde_json::from_slice(&requests[0].body).unwrap()
}

#[test]
fn phoenix_gets_annotations_on_the_judged_span() {
    let mut judged = sample::scored(0.5);
    judged.judge = Some(Arc::new(JudgeUse::default()));
    let all = [sample::scored(0.5), sample::not_evaluable(), judged];
    let body = body(&Annotations, &all, true);
    let first = &body["data"][0];
    assert_eq!(first["span_id"], "b7ad6b7169203331");
    assert_eq!(first["name"], "tool_call_args/refund");
    assert_eq!(first["result"]["score"], 0.5);
    assert_eq!(first["result"]["label"], "fail");
    assert_eq!(first["identifier"], "spanscore");
    assert_eq!(
        (&first["annotator_kind"], &body["data"][2]["annotator_kind"]),
        (&"CODE".into(), &"LLM".into())
    );
    let second = &body["data"][1]["result"];
    assert!(second["score"].is_null());
    assert_eq!(second["label"], "not_evaluable");
}

#[test]
fn langfuse_gets_scores_that_a_revision_replaces() {
    let mut revised = sample::scored(1.0);
    revised.revision = 7;
    let body = body(&LangfuseScores, &[sample::scored(0.5), revised, sample::failed()], true);
    let first = &body["batch"][0];
    let revised = &body["batch"][1];
    let failed = &body["batch"][2];
    assert_eq!(first["type"], "score-create");
    assert_eq!(first["body"]["id"], revised["body"]["id"]);
    assert_ne!(first["id"], revised["id"]);
    assert_eq!(first["body"]["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(
        (&first["body"]["value"], &first["body"]["dataType"]),
        (&0.5.into(), &"NUMERIC".into())
    );
    assert_eq!(failed["body"]["value"], "failed");
    assert!(failed["body"]["name"].as_str().is_some_and(|name| name.ends_with(".outcome")));
    let answer = br#"{"successes": [], "errors": [{"id": "x", "status": 400}]}"#;
    assert_eq!((LangfuseScores.refused(answer), LangfuseScores.refused(b"no json")), (1, 0));
}

#[test]
fn opik_gets_scores_under_the_ids_that_it_gives_traces_and_spans() {
    // The expected ids were made with a UUID library and SHA-256 in another language.
    assert_eq!(opik_id(b"0123456789abcdef", 0), "00000000-0000-7f9f-9111-f7b27a781f1f");
    let mut call = sample::scored(0.5);
    let evaluator = EvaluatorInfo { level: Level::Call, ..EvaluatorInfo::default() };
    call.evaluator = Arc::new(evaluator);
    let all = [sample::scored(1.0), call, sample::failed()];
    let scores: Vec<_> = all.iter().map(|it| NativeScore::new(it, true)).collect();
    let backend = OpikScores { project_name: Some("shop".to_owned()) };
    let requests = backend.requests(&scores);
    let read = |at: usize| serde_json::from_slice::<Json>(&requests[at].body).unwrap();
    assert!(requests.iter().all(|request| request.method == Method::PUT));
    assert_eq!((requests[0].count, requests[1].count), (2, 1));
    assert_eq!(requests[0].path, "/v1/private/traces/feedback-scores");
    assert_eq!(requests[1].path, "/v1/private/spans/feedback-scores");
    let traces = read(0);
    let spans = read(1);
    let first = &traces["scores"][0];
    assert_eq!((&first["value"], &first["source"]), (&1.0.into(), &"sdk".into()));
    assert_eq!(first["project_name"], "shop");
    let time = 1_735_689_599_000_u64;
    let trace =
        spanscore_base::model::TraceId::from_hex("0af7651916cd43dd8448eb211c80319c").unwrap();
    assert_eq!(first["id"], opik_id(&trace.0, time));
    assert_eq!(spans["scores"][0]["id"], opik_id(&all[1].span_id.0, time));
    let failed = &traces["scores"][1];
    assert_eq!(failed["category_name"], "failed");
    assert!(failed["name"].as_str().is_some_and(|name| name.ends_with(".outcome")));
}

/// Returns evaluations of every kind, on traces and on calls, and one by a judge.
fn of_every_kind() -> Vec<Evaluation> {
    let mut call = sample::scored(0.5);
    let evaluator = EvaluatorInfo { level: Level::Call, ..(*call.evaluator).clone() };
    call.evaluator = Arc::new(evaluator);
    let mut judged = sample::scored(1.0);
    judged.judge = Some(Arc::new(JudgeUse::default()));
    vec![sample::scored(0.25), sample::not_evaluable(), sample::failed(), call, judged]
}

/// Checks the requests against an excerpt of the server's API description.
fn check_described(backend: &impl NativeBackend, name: &str, items: &str) {
    let path = format!("{}/../../tests/fixtures/native/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let description = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let described = jsonschema::validator_for(&description).unwrap();
    let all = of_every_kind();
    for content in [true, false] {
        let scores: Vec<_> = all.iter().map(|it| NativeScore::new(it, content)).collect();
        let requests = backend.requests(&scores);
        assert!(!requests.is_empty());
        for request in requests {
            let mut body: Json = serde_json::from_slice(&request.body).unwrap();
            let errors: Vec<_> = described.iter_errors(&body).map(|it| it.to_string()).collect();
            assert!(errors.is_empty(), "{name}: {errors:?}: {body}");
            // The description would reject a key that the server does not know.
            body[items][0]["nmae"] = "x".into();
            assert!(!described.is_valid(&body), "{name}");
        }
    }
}

#[test]
fn what_is_sent_is_what_the_servers_describe() {
    check_described(&Annotations, "phoenix", "data");
    check_described(&LangfuseScores, "langfuse", "batch");
    check_described(&OpikScores::default(), "opik", "scores");
    let project_name = Some("shop".to_owned());
    check_described(&OpikScores { project_name }, "opik", "scores");
}

#[test]
fn what_is_kept_on_disk_is_the_request() {
    let evaluation = sample::scored(1.0);
    let request = OpikScores::default().requests(&[NativeScore::new(&evaluation, true)]).remove(0);
    type OpikSender = NativeSender<OpikScores>;
    let parcel = OpikSender::into_parcel(request.clone());
    assert_eq!(OpikSender::from_parcel(&parcel), Some(request));
    let damaged = Parcel { count: 1, payload: Bytes::from_static(b"no request") };
    assert_eq!(OpikSender::from_parcel(&damaged), None);
}

#[test]
fn content_stays_inside_unless_asked_for() {
    for evaluation in [sample::scored(0.5), sample::not_evaluable(), sample::failed()] {
        let all = [evaluation];
        let text =
            format!("{}{}", body(&Annotations, &all, false), body(&LangfuseScores, &all, false));
        assert!(!text.contains("A-17"), "{text}");
    }
}

#[test]
fn redacted_content_shows_no_address() {
    let mut evaluation = sample::scored(0.5);
    if let Outcome::Scored(score) = &mut evaluation.outcome {
        score.explanation = Explanation::content("refund mailed to jane@acme-post.net");
    }
    let filter = ContentFilter::redacting(&Arc::new(ContentRedactor::new()));
    let made = requests(&Annotations, &filter, true, [&evaluation].into_iter());
    assert_eq!(made.len(), 1);
    let text = String::from_utf8(made[0].body.to_vec()).unwrap();
    assert!(text.contains("refund mailed to [EMAIL_1]") && !text.contains("jane@"));
}

#[test]
fn settings_name_what_is_missing() {
    let check = |text: &str, expected: &str| {
        let node = Node::from_value(&own_json::parse(text).unwrap());
        let said = settings::read(&node).map_or_else(|error| error.to_string(), |_| "right".into());
        assert!(said.starts_with(expected), "{text}: {said}");
    };
    check(r#"{"phoenix": {"endpoint": "http://localhost:6006"}}"#, "right");
    check(r#"{"phoenix": {"endpoint": "http://localhost:6006", "content": "redacted"}}"#, "right");
    check(r#"{"phoenix": {}}"#, "`endpoint` is missing");
    check(r#"{"opik": null}"#, "right");
    check(r#"{"opik": {"api_key": "k", "workspace": "w", "project_name": "p"}}"#, "right");
    check(r#"{"opik": {"sending_queue": {"overflow_mib": 1}}}"#, "`overflow_mib` must be 0 or");
    check(r#"{"langfuse": {"public_key": "pk"}}"#, "`public_key` and `secret_key`");
    check(r#"{"langfuse": {"public_key": "pk", "secret_key": "sk"}}"#, "right");
    check(
        r#"{"langfuse": {"public_key": "sk-lf", "secret_key": "pk-lf"}}"#,
        "`public_key` and `secret_key` are swapped",
    );
}
