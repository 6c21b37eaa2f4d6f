//! Requests to judges that survive the end of the process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use super::{asking, refund};
use crate::support::collector::Event;
use crate::support::fake_backend::FakeBackend;
use crate::support::fake_judge::{FakeJudge, Scripted};
use crate::support::patience::{eventually, once};
use crate::support::program::Program;
use crate::support::spans::{request, with};

/// Number of times that the process is killed, unless `SPANSCORE_KILLS` says otherwise.
const KILLS: u64 = 8;
/// Traces of each process.
const TRACES: u64 = 6;

pub(super) fn config(judge: &FakeJudge, backend: &FakeBackend, folder: &Path) -> String {
    let (data, address) = (folder.join("data"), backend.address);
    let asking = asking(
        judge,
        "openai",
        ", price: {input: 1, output: 1},
    limits: {requests_per_minute: 1000000, tokens_per_minute: 1000000000}",
    );
    format!(
        "{asking}data_dir: {data:?}
durability: os
traces: {{quiet_period: 50ms, idle_timeout: 1s}}
exporters:
  otlp_grpc/backend:
    endpoint: http://{address}
    forms: [event]
    sending_queue: {{batch: {{flush_timeout: 20ms}}}}
    retry_on_failure: {{initial_interval: 50ms, max_interval: 100ms}}
"
    )
}

pub(super) fn numbered(number: u64) -> Vec<opentelemetry_proto::tonic::trace::v1::Span> {
    let mut spans = refund(7);
    spans[0].attributes.retain(|it| it.key != "input.value");
    spans[0] = with(spans[0].clone(), "input.value", &format!("Refund order 17 for {number:04}"));
    for span in &mut spans {
        span.trace_id[..8].copy_from_slice(&(number + 1).to_be_bytes());
    }
    spans
}

/// Counts the requests to a judge about each trace, by its number.
fn asked(judge: &FakeJudge) -> BTreeMap<String, usize> {
    let mut asked = BTreeMap::<String, usize>::new();
    for one in judge.asked() {
        let user = one.user();
        let at = user.find("order 17 for ").expect("a number") + "order 17 for ".len();
        *asked.entry(user[at..at + 4].to_owned()).or_default() += 1;
    }
    asked
}

/// The revisions and ids of what a backend was told, by trace.
fn told(backend: &FakeBackend) -> BTreeMap<Vec<u8>, BTreeSet<(i64, String)>> {
    let mut ids = BTreeMap::<Vec<u8>, BTreeSet<(i64, String)>>::new();
    for record in backend.log_records() {
        let event = Event(record.clone());
        let entry = ids.entry(record.trace_id).or_default();
        entry.insert((event.revision(), event.id().to_owned()));
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_before_emission_nothing_is_lost_or_asked_twice_but_what_was_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let backend = FakeBackend::grpc().await;
    let judge = FakeJudge::start(|asked| {
        let delay = Duration::from_millis(20 + asked.count as u64 * 13 % 60);
        Scripted { delay, ..asked.answer(&["yes"]) }
    })
    .await;
    let config = config(&judge, &backend, folder.path());
    let kills = std::env::var("SPANSCORE_KILLS").ok().and_then(|kills| kills.parse().ok());
    let kills = kills.unwrap_or(KILLS);
    let (mut number, mut unheard) = (0, 0);
    for kill in 0..kills {
        let program = Program::start(folder.path(), &config);
        let mut client = program.client().await;
        for _ in 0..TRACES {
            client.export(request(numbered(number))).await.unwrap();
            number += 1;
        }
        // At a time when some were asked about, and some of those were told of.
        let enough = judge.asked().len() + 1 + (kill % TRACES) as usize;
        eventually(|| {
            let asked = judge.asked().len();
            once(asked >= enough, || format!("{asked} of {enough} are asked"))
        })
        .await;
        tokio::time::sleep(Duration::from_millis(kill * 37 % 120)).await;
        program.signal("-KILL");
        unheard += asked(&judge).len() - told(&backend).len();
    }
    let _last = Program::start(folder.path(), &config);
    let ids = eventually(|| {
        let ids = told(&backend);
        once(ids.len() as u64 == number, || format!("{} of {number}", ids.len())).map(|()| ids)
    })
    .await;
    let several: Vec<_> = ids.values().filter(|ids| ids.len() > 1).collect();
    assert!(several.is_empty(), "what is told twice has the same id: {several:?}");
    let asked = asked(&judge);
    assert_eq!(asked.len() as u64, number);
    // Of each process no more was under way than there are requests at once: four.
    let again: usize = asked.values().map(|count| count - 1).sum();
    assert!(again as u64 <= kills * 4, "{again} of {number} were asked again");
    println!("{kills} kills, {number} traces: {unheard} asked and not told, {again} asked again");
}

#[tokio::test]
async fn what_is_not_asked_at_the_end_is_asked_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let backend = FakeBackend::grpc().await;
    let judge = FakeJudge::saying("yes").await;
    let config = config(&judge, &backend, folder.path());
    let patient = config.replace("settle: 0s", "settle: 10m");
    let program = Program::start(folder.path(), &patient);
    program.client().await.export(request(numbered(1))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    program.signal("-TERM");
    let (code, _) = tokio::task::spawn_blocking(|| program.end()).await.unwrap();
    assert_eq!((code, judge.asked().len()), (Some(0), 0));
    let _next = Program::start(folder.path(), &config);
    backend.until(|backend| !backend.log_records().is_empty()).await;
    let event = Event(backend.log_records().remove(0));
    assert_eq!((event.score(), judge.asked().len()), (Some(1.0), 1));
}

#[tokio::test]
async fn what_was_spent_counts_for_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let backend = FakeBackend::grpc().await;
    let judge = FakeJudge::saying("yes").await;
    // One request has room, and no second.
    let budget = "{input: 1, output: 1}, max_tokens: 2000, \
                  budget: {usd_per_hour: 0.003, pace: any}";
    let config = config(&judge, &backend, folder.path()).replace("{input: 1, output: 1}", budget);
    for number in 0..2 {
        let program = Program::start(folder.path(), &config);
        program.client().await.export(request(numbered(number))).await.unwrap();
        let count = number as usize + 1;
        backend.until(|backend| backend.log_count() >= count).await;
        program.signal("-TERM");
        tokio::task::spawn_blocking(|| program.end()).await.unwrap();
    }
    let events: Vec<_> = backend.log_records().into_iter().map(Event).collect();
    let reasons: Vec<_> =
        events.iter().map(|event| event.text("spanscore.evaluation.reason")).collect();
    assert_eq!((reasons, judge.asked().len()), (vec!["", "budget_exhausted"], 1));
}

/// Requests that the budget of [`killed_again_and_again_no_budget_is_exceeded`] has room for.
const ROOM: usize = 12;

/// Reads what a killed process had booked: requests that ended, and those under way.
fn booked(folder: &Path) -> usize {
    let Ok(text) = std::fs::read_to_string(folder.join("data/judges.json")) else { return 0 };
    let lines = serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>();
    let mut ended = BTreeMap::new();
    let mut open = 0;
    for line in lines.map_while(Result::ok).filter(|line| line["small"].is_object()) {
        let minutes = line["small"]["nano_usd"].as_array().unwrap().iter();
        ended.extend(minutes.map(|it| (it[0].as_u64(), it[1].as_u64().unwrap())));
        open = line["small"]["open"][0].as_u64().unwrap();
    }
    let nano: u64 = ended.into_values().sum::<u64>() + open;
    (nano / 1_000_000_000) as usize
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_no_budget_is_exceeded() {
    let kills = std::env::var("SPANSCORE_KILLS").ok().and_then(|kills| kills.parse().ok());
    let kills: u64 = kills.unwrap_or(3);
    let (mut spent, mut least, mut lost) = (0, ROOM, 0);
    for kill in 0..kills {
        let folder = tempfile::tempdir().unwrap();
        let backend = FakeBackend::grpc().await;
        let judge = FakeJudge::start(move |asked| {
            let delay = Duration::from_millis(5 + (asked.count as u64 * 13 + kill * 7) % 40);
            let body = asked.answer(&["yes"]).body.replace(":50", ":1000");
            Scripted { delay, body, ..Scripted::default() }
        })
        .await;
        // Each request reserves a dollar and costs one.
        let budget = format!(
            "price: {{input: 0, output: 1000}}, max_tokens: 1000, \
             budget: {{usd_per_hour: {ROOM}.06, pace: any}}"
        );
        let config = config(&judge, &backend, folder.path());
        let config = config.replace("price: {input: 1, output: 1}", &budget);
        let program = Program::start(folder.path(), &config);
        let mut client = program.client().await;
        let spans: Vec<_> = (0..40).flat_map(numbered).collect();
        client.export(request(spans)).await.unwrap();
        let enough = 1 + kill as usize % (ROOM - 1);
        eventually(|| {
            let asked = judge.asked().len();
            once(asked >= enough, || format!("{asked} of {enough} are asked"))
        })
        .await;
        program.signal("-KILL");
        let _ = tokio::task::spawn_blocking(|| program.end()).await.unwrap();
        // Booked before the kill, and never sent: nobody can know that.
        let unsent = booked(folder.path()).saturating_sub(judge.asked().len());
        let _next = Program::start(folder.path(), &config);
        eventually(|| {
            let told = told(&backend).len();
            once(told == 40, || format!("{told} of 40 are told of"))
        })
        .await;
        let asked = judge.asked().len();
        assert!(asked <= ROOM, "{asked} requests of {ROOM} at kill {kill}");
        assert!(asked + unsent >= ROOM, "{asked} of {ROOM} at kill {kill}, {unsent} not sent");
        spent += asked;
        lost += unsent;
        least = least.min(asked);
    }
    println!("{kills} kills: {spent} of {} spent, {lost} unsent, {least} least", kills * 12);
}
