//! Judges behind TLS.

use std::path::Path;
use std::time::Duration;

use super::{asking, refund};
use crate::security::pki::Authority;
use crate::support::collector::{Event, Running};
use crate::support::fake_judge::FakeJudge;
use crate::support::spans::{request, with};

/// Writes what a client of that authority needs, over what was there; gives the settings.
fn files(folder: &Path, authority: &Authority) -> String {
    let identity = authority.client("spiffe://test/spanscore");
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("a file");
        format!("{path:?}")
    };
    let (ca, cert) = (write("ca.pem", &authority.pem), write("own.pem", &identity.cert));
    let key = write("own.key", &identity.key);
    format!("ca_file: {ca}, cert_file: {cert}, key_file: {key}")
}

async fn secured(authority: &Authority) -> FakeJudge {
    let judge = FakeJudge::saying("yes").await;
    *judge.tls.lock().unwrap() = Some(authority.mutual());
    judge
}

async fn judged(running: &Running, trace: u8, count: usize) -> Event {
    running.send(request(refund(trace))).await;
    let events = running.events(count).await;
    events.into_iter().find(|event| event.trace() == trace).expect("it is told")
}

#[tokio::test]
async fn a_judge_of_an_own_authority_is_asked_and_shown_a_certificate_and_both_may_change() {
    let (folder, first, second) =
        (tempfile::tempdir().expect("a folder"), Authority::new(), Authority::new());
    let judge = secured(&first).await;
    let tls = format!(", tls: {{{}, reload_interval: 1s}}", files(folder.path(), &first));
    let running = Running::start(&asking(&judge, "openai", &tls)).await;
    assert_eq!(judged(&running, 7, 1).await.score(), Some(1.0));
    files(folder.path(), &second);
    *judge.tls.lock().unwrap() = Some(second.mutual());
    // The files are read again at a connection after this.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    // Another question: the answer to the first is known.
    let mut other = refund(8);
    other[0].attributes.retain(|it| it.key != "input.value");
    other[0] = with(other[0].clone(), "input.value", "Refund order 17 at once");
    running.send(request(other)).await;
    let events = running.events(2).await;
    let scores: Vec<_> = events.iter().map(Event::score).collect();
    assert_eq!((scores, judge.asked().len()), (vec![Some(1.0); 2], 2));
    running.judged().await;
}

/// A judge that must not be asked with these settings: nothing of the record is sent.
async fn check_refused(judge: &FakeJudge, tls: &str) {
    let more = format!(", tls: {{{tls}}}");
    let running = Running::start(&asking(judge, "openai", &more)).await;
    let event = judged(&running, 7, 1).await;
    let error = event.text("error.type");
    assert!(["judge_unreachable", "judge_no_answer"].contains(&error), "{error}");
    assert_eq!((event.score(), judge.asked().len()), (None, 0));
    running.judged().await;
}

#[tokio::test]
async fn a_judge_of_an_unknown_authority_is_sent_nothing_and_lets_nobody_in_without_certificate() {
    let (folder, own, other) =
        (tempfile::tempdir().expect("a folder"), Authority::new(), Authority::new());
    let judge = secured(&own).await;
    check_refused(&judge, &files(folder.path(), &other)).await;
    check_refused(&judge, "").await;
    let ca = folder.path().join("own-ca.pem");
    std::fs::write(&ca, &own.pem).expect("a file");
    check_refused(&judge, &format!("ca_file: {ca:?}")).await;
}
