mod collected;
mod definitions;
mod edits;
mod files;
mod model;
mod runs;
mod throughput;

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use spanscore_base::model::{
    CallStatus, ClientGroup, Completion, Content, Evaluation, EvaluationId, EvaluatorInfo,
    Explanation, Label, Level, Outcome, Reason, Resource, Score, SpanId, Target, ToolCall, TraceId,
    Trajectory,
};
use spanscore_base::value::{Value, json};

use crate::query::{EvaluationRow, StoreFilter, StoreOrder, StoreReader};
use crate::queue::StoreQueueLimits;
use crate::writer::RedactValues;
use crate::{Judgement, Store, StoreCount, StoreSettings, TrajectoryRecord};

/// Replaces the word `secret`, as a detector would.
fn redact() -> RedactValues {
    let shown = |value: &&Value<'_>| {
        let text = value.to_string().replace("secret", "[SECRET_1]");
        json::parse(&text).unwrap().into_owned()
    };
    Arc::new(move |_, values| Some(values.iter().map(shown).collect()))
}

fn start(folder: &Path) -> Store {
    Store::start(StoreSettings::default(), Some(folder), redact()).unwrap()
}

fn start_small(folder: &Path, rows: usize) -> Store {
    let limits = StoreQueueLimits { rows, bytes: usize::MAX, sums: 1_000 };
    Store::start_within(StoreSettings::default(), Some(folder), redact(), limits).unwrap()
}

fn reader(folder: &Path) -> StoreReader {
    StoreReader::open(&folder.join("scores.db")).unwrap()
}

fn all(folder: &Path) -> Vec<EvaluationRow> {
    let mut filter = StoreFilter::default();
    filter.with_superseded = true;
    reader(folder).evaluations(&filter, StoreOrder::Newest, 10_000).unwrap()
}

fn resource() -> Arc<Resource> {
    Arc::new(Resource { encoded: Vec::new(), service_name: "shop".to_owned() })
}

fn trace_id(number: u64) -> TraceId {
    let mut id = [7; 16];
    id[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    TraceId(id)
}

fn now_ns() -> u64 {
    crate::writer::now_ms() as u64 * 1_000_000
}

/// Builds the record of a run with one call.
fn run(number: u64, revision: u32, is_passing: bool) -> TrajectoryRecord {
    let value = |text: &'static str| Content::ready(json::parse(text).unwrap());
    let now_ns = now_ns();
    let call = ToolCall {
        name: "refund".into(),
        arguments: value(r#"{"order": 17, "token": "secret"}"#),
        result: value(r#"{"done": true}"#),
        status: CallStatus::Error,
        span_id: SpanId([3; 8]),
        start_ns: now_ns - 2_000_000_000,
        end_ns: now_ns - 1_000_000_000,
        ..ToolCall::default()
    };
    let trajectory = Trajectory {
        trace_id: trace_id(number),
        span_id: SpanId([1; 8]),
        resource: resource(),
        session_id: Some("s-1".into()),
        agent_name: Some("refunds".into()),
        start_ns: now_ns - 3_000_000_000,
        end_ns: now_ns,
        tool_calls: vec![call],
        user_input: value(r#""give it back, secret""#),
        ..Trajectory::default()
    };
    let judgement = Judgement {
        completion: Completion::RootEnded,
        is_partial: false,
        revision,
        spans: 2 + revision as usize,
        now_ns,
        is_passing,
    };
    TrajectoryRecord::new(&trajectory, judgement, true)
}

fn info(name: &str) -> Arc<EvaluatorInfo> {
    Arc::new(EvaluatorInfo {
        kind: "tool_call_args",
        name: format!("tool_call_args/{name}"),
        threshold: 0.8,
        level: Level::Trace,
        digest: [name.len() as u8; 16],
        case: Some("refund".into()),
        own_version: None,
    })
}

fn target(number: u64) -> Arc<Target> {
    Arc::new(Target {
        trace_id: trace_id(number),
        sender: Default::default(),
        session_id: Some("s-1".into()),
        resource: resource(),
        agent_name: Some("refunds".into()),
        response: None,
        completion: Completion::RootEnded,
        is_partial: false,
        time_ns: now_ns(),
        started_ns: now_ns(),
        ended_ns: now_ns(),
    })
}

fn scored(score: f64) -> Outcome {
    Outcome::Scored(Score {
        value: score,
        explanation: Explanation::plain("as a secret says"),
        details: json::parse(r#"{"why": "secret"}"#).unwrap().into_owned(),
        label: None::<Label>,
    })
}

fn not_evaluable() -> Outcome {
    let explanation = "nothing to see".to_owned();
    Outcome::NotEvaluable { reason: Reason::NothingToJudge, explanation }
}

fn evaluation(number: u64, id: u8, outcome: Outcome, revises: Option<u8>) -> Evaluation {
    Evaluation {
        id: EvaluationId([id; 16]),
        evaluator: info("refund"),
        target: target(number),
        span_id: SpanId([1; 8]),
        outcome,
        revision: u32::from(revises.is_some()),
        revises: revises.map(|id| EvaluationId([id; 16])),
        supersedes: None,
        judge: None,
    }
}

#[test]
fn a_run_is_shown_as_it_was_without_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    store.trajectory(run(1, 0, false));
    store.evaluations([evaluation(1, 1, scored(0.5), None)].into());
    store.close();
    let id = trace_id(1).to_string();
    let stored = reader(folder.path()).trajectory(&id[..6]).unwrap();
    assert_eq!(stored.trace_id, id);
    assert_eq!(stored.title.as_deref(), Some("give it back, [SECRET_1]"));
    assert_eq!((stored.service.as_str(), stored.agent.as_str()), ("shop", "refunds"));
    assert_eq!((stored.revision, stored.spans, stored.left_out), (Some(0), 2, None));
    assert_eq!(stored.cases, ["refund"]);
    let [call] = &stored.calls[..] else { panic!("one call") };
    assert_eq!((call.tool.as_str(), call.status.as_str()), ("refund", "error"));
    assert_eq!(call.duration_s, Some(1.0));
    let text = serde_json::to_string(&stored).unwrap();
    assert!(text.contains(r#""value":{"order":17,"token":"[SECRET_1]"}"#), "{text}");
    assert!(!text.contains("secret"), "{text}");
    let [shown] = &stored.evaluations[..] else { panic!("one evaluation") };
    assert_eq!((shown.label, shown.score, shown.outcome), (Some("fail"), Some(0.5), "scored"));
    assert_eq!(shown.explanation.as_deref(), Some("as a [SECRET_1] says"));
    assert_eq!(shown.session_id.as_deref(), Some("s-1"));
}

#[test]
fn runs_without_evaluations_are_stored_and_early_verdicts_find_their_run_later() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    store.trajectory(run(1, 0, true));
    store.evaluations([evaluation(2, 2, scored(0.0), None)].into());
    store.trajectory(run(2, 0, false));
    store.evaluations([evaluation(2, 3, scored(0.1), Some(2))].into());
    store.close();
    let reader = reader(folder.path());
    let alone = reader.trajectory(&trace_id(1).to_string()).unwrap();
    assert_eq!((alone.evaluations.len(), alone.calls.len()), (0, 1));
    let late = reader.trajectory(&trace_id(2).to_string()).unwrap();
    let current: Vec<_> = late.evaluations.iter().map(|it| (it.score, it.current)).collect();
    assert_eq!(current, [(Some(0.0), false), (Some(0.1), true)]);
    assert_eq!(late.revision, Some(0));
}

#[test]
fn clients_of_two_groups_that_send_one_id_are_apart() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    for group in ["a", "b"] {
        let mut run = run(1, 0, true);
        run.trace.1 = ClientGroup::named(group);
        store.trajectory(run);
    }
    store.close();
    let file = Connection::open(folder.path().join("scores.db")).unwrap();
    let count = |table: &str| -> i64 {
        file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!((count("trajectories"), count("sessions")), (2, 2));
    assert!(reader(folder.path()).trajectory(&trace_id(1).to_string()).is_ok());
}

#[test]
fn short_ids_that_fit_several_traces_or_none_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    (0..400).for_each(|number| store.trajectory(run(number, 0, true)));
    store.close();
    let reader = reader(folder.path());
    let check = |id: &str, words: &str| {
        let error = reader.trajectory(id).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    check("12", "at least 4");
    check("xyzw", "is no trace id");
    check("ffffffff", "no trace that begins with `ffffffff`");
    let id = trace_id(5).to_string();
    assert_eq!(reader.trajectory(&id[..12]).unwrap().trace_id, id);
}

#[test]
fn lists_are_newest_first_or_the_worst_of_each_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    for (number, score) in [(1, 0.9), (2, 0.2), (3, 0.4)] {
        let id = number as u8 * 10;
        let second = Evaluation {
            evaluator: info("other"),
            ..evaluation(number, id + 1, scored(1.0), None)
        };
        store.evaluations([evaluation(number, id, scored(score), None), second].into());
    }
    store.evaluations([evaluation(4, 99, not_evaluable(), None)].into());
    store.close();
    let reader = reader(folder.path());
    let list = |order, limit| {
        let rows = reader.evaluations(&StoreFilter::default(), order, limit).unwrap();
        rows.into_iter().map(|row| row.score).collect::<Vec<_>>()
    };
    assert_eq!(list(StoreOrder::Newest, 3), [None, Some(1.0), Some(0.4)]);
    assert_eq!(list(StoreOrder::Worst, 10), [Some(0.2), Some(0.4), Some(0.9)]);
}

#[test]
fn content_none_stores_no_word_of_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        StoreSettings { content: crate::StoredContent::None, ..StoreSettings::default() };
    let store = Store::start(settings, Some(folder.path()), redact()).unwrap();
    assert!(!store.has_content() && !store.facts().arguments);
    let mut outcome = scored(0.5);
    if let Outcome::Scored(score) = &mut outcome {
        score.explanation = Explanation::content("order 17");
        score.details = Value::from("order 17");
    }
    store.evaluations([evaluation(1, 1, outcome, None)].into());
    store.close();
    let [row] = &all(folder.path())[..] else { panic!("one evaluation") };
    assert_eq!((&row.explanation, &row.details), (&None, &None));
}

#[test]
fn secrets_that_a_key_tells_are_hidden_also_where_details_are_dropped() {
    // Detects the value of `token`, as the detectors do.
    let redact: RedactValues = Arc::new(|_, values| {
        let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
        let mut parts = texts.iter().flat_map(|text| text.split(r#""token":""#).nth(1));
        let token = parts.find_map(|it| it.split('"').next())?;
        let shown = texts.iter().map(|text| text.replace(token, "[SECRET_1]"));
        Some(shown.map(|text| json::parse(&text).unwrap().into_owned()).collect())
    });
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start(StoreSettings::default(), Some(folder.path()), redact).unwrap();
    let perfect = Outcome::Scored(Score {
        value: 1.0,
        explanation: Explanation::content("it sent hunter2"),
        details: json::parse(r#"{"token": "hunter2"}"#).unwrap().into_owned(),
        label: None::<Label>,
    });
    store.evaluations([evaluation(1, 1, perfect, None)].into());
    store.close();
    let [row] = &all(folder.path())[..] else { panic!("one evaluation") };
    assert_eq!((row.explanation.as_deref(), &row.details), (Some("it sent [SECRET_1]"), &None));
}

#[test]
fn of_two_parts_of_a_run_the_one_with_more_spans_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    let part = |number: u64, revision: u32, spans: usize| {
        let mut record = run(number, revision, true);
        record.judgement.spans = spans;
        store.trajectory(record);
    };
    // Late spans of a forgotten trace arrive as its first revision, and as later ones.
    [(0, 9), (0, 2), (1, 3)].into_iter().for_each(|(revision, spans)| part(1, revision, spans));
    [(0, 2), (0, 9), (1, 10)].into_iter().for_each(|(revision, spans)| part(2, revision, spans));
    store.close();
    let reader = reader(folder.path());
    let check = |number: u64, expected: (Option<i64>, i64)| {
        let stored = reader.trajectory(&trace_id(number).to_string()).unwrap();
        assert_eq!((stored.revision, stored.spans), expected, "{number}");
    };
    check(1, (Some(0), 9));
    check(2, (Some(1), 10));
    assert_eq!(store.view().counters().get(crate::StoreCount::Fragments), 3);
}

#[test]
fn revision_without_content_takes_that_of_the_one_before_away() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    store.trajectory(run(1, 0, true));
    let mut shed = run(1, 1, true);
    shed.content = None;
    store.trajectory(shed);
    store.close();
    let reader = reader(folder.path());
    let stored = reader.trajectory(&trace_id(1).to_string()).unwrap();
    assert_eq!((stored.revision, stored.left_out), (Some(1), Some("content")));
    assert_eq!((&stored.input, &stored.calls[0].arguments), (&None, &None));
    let page = reader.restored_runs(&StoreFilter::default(), None, 10).unwrap();
    let [restored] = &page.items[..] else { panic!("one run") };
    assert!(restored.trajectory(1_000).is_err_and(|reason| reason.contains("not stored")));
}

#[test]
fn source_and_session_of_a_run_replace_those_that_early_verdicts_knew() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    let early = |number: u64, session_id: Option<&str>| {
        let session_id = session_id.map(Box::from);
        let target = Target { agent_name: None, session_id, ..(*target(number)).clone() };
        let early = evaluation(number, number as u8, scored(0.0), None);
        store.evaluations([Evaluation { target: Arc::new(target), ..early }].into());
        store.trajectory(run(number, 0, false));
    };
    early(1, None);
    early(2, Some("s-1"));
    store.close();
    for number in [1, 2] {
        let stored = reader(folder.path()).trajectory(&trace_id(number).to_string()).unwrap();
        let found = (stored.agent.as_str(), stored.session_id.as_deref());
        assert_eq!(found, ("refunds", Some("s-1")), "{number}");
    }
    let file = Connection::open(folder.path().join("scores.db")).unwrap();
    let turns = "SELECT group_concat(turns) FROM sessions";
    let turns: String = file.query_row(turns, [], |row| row.get(0)).unwrap();
    assert_eq!(turns, "2");
}

#[test]
fn names_of_agents_are_redacted_and_long_ids_of_sessions_cut() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    let mut record = run(1, 0, false);
    record.agent_name = Some("agent of secret".into());
    record.session_id = Some("s".repeat(1_000).into());
    store.trajectory(record);
    store.close();
    let stored = reader(folder.path()).trajectory(&trace_id(1).to_string()).unwrap();
    assert_eq!(stored.agent, "agent of [SECRET_1]");
    assert_eq!(stored.session_id.map(|id| id.len()), Some(200));
}

#[test]
fn argument_errors_are_counted_by_tool_and_fault() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    let validity = Arc::new(EvaluatorInfo {
        kind: "tool_call_validity",
        ..(*info("tool_call_validity/all")).clone()
    });
    for number in 0..3 {
        store.trajectory(run(number, 0, false));
        let details = r#"{"results": [{"name": "pay", "errors": ["`to` is missing"]},
            {"name": "find", "errors": []},
            {"name": "pay", "errors": ["`to` is missing", "`n`", "`n`"]}]}"#;
        let details = json::parse(details).unwrap().into_owned();
        // The last one passes.
        let value = if number == 2 { 0.9 } else { 0.2 };
        let Outcome::Scored(score) = scored(value) else { panic!("a score") };
        let outcome = Outcome::Scored(Score { details, ..score });
        let evaluator = Arc::clone(&validity);
        store
            .evaluations([Evaluation { evaluator, ..evaluation(number, 1, outcome, None) }].into());
    }
    store.close();
    let check = |tool: Option<&str>, expected: &[(&str, &str, u64)]| {
        let mut filter = StoreFilter::default();
        tool.into_iter().for_each(|tool| filter.add(crate::query::StoreField::Tool, tool));
        let found = reader(folder.path()).argument_errors(&filter).unwrap();
        let told: Vec<_> = found.iter().map(|it| (&*it.tool, &*it.error, it.count)).collect();
        assert_eq!(told, expected, "{tool:?}");
        assert!(found.iter().all(|it| it.trace_id == trace_id(2).to_string()), "{found:?}");
    };
    let all = [("pay", "`to` is missing", 6), ("pay", "`n`", 3)];
    check(None, &all);
    check(Some("pay"), &all);
    check(Some("!pay"), &[]);
    check(Some("find"), &[]);
}
