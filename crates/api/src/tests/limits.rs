//! Tests of each limit, at it and one past.

use std::future::poll_fn;
use std::io::Read;
use std::sync::{Arc, mpsc};
use std::task::Poll;

use axum::body::Body;
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use spanscore_base::model::Sender;
use tokio::task::JoinHandle;
use tower::ServiceExt;

use super::{Harness, request};
use crate::problem::ApiProblem;
use crate::readers::{OF_PEER_MAX, READERS_MAX, WAITING_MAX};
use crate::stream::STREAMS_MAX;
use crate::{DashboardSettings, RequestRefusal};

#[tokio::test]
async fn parameters_have_limits() {
    let harness = Harness::filled();
    let check = async |path: &str, kind: Option<&str>| {
        let answer = harness.ask(path).await;
        let found = (!answer.status.is_success()).then(|| answer.problem());
        assert_eq!(found, kind.map(|kind| (400, kind.to_owned())), "{path}");
    };
    check("/traces?limit=1", None).await;
    check("/traces?limit=500", None).await;
    for limit in ["0", "501", "-1", "x", ""] {
        check(&format!("/traces?limit={limit}"), Some("bad_value")).await;
    }
    check(&format!("/traces?text={}", "x".repeat(200)), None).await;
    check(&format!("/traces?text={}", "x".repeat(201)), Some("bad_value")).await;
    check(&format!("/traces?{}", "tool=x&".repeat(100)), None).await;
    check(&format!("/traces?{}", "tool=x&".repeat(101)), Some("bad_value")).await;
    check("/summary?group_by=evaluator,kind,level", None).await;
    check("/summary?group_by=evaluator,kind,level,day", Some("bad_value")).await;
    check("/series?group_by=evaluator", None).await;
    check("/series?group_by=evaluator,kind", Some("bad_value")).await;
}

#[tokio::test]
async fn a_cursor_is_bound_to_its_filter_and_order() {
    let harness = Harness::filled();
    let page = harness.json("/traces?version=1.4.0&limit=3").await;
    let next = page["next"].as_str().unwrap();
    let check = async |path: &str, is_taken: bool| {
        let answer = harness.ask(&format!("{path}&cursor={next}")).await;
        assert_eq!(answer.status.is_success(), is_taken, "{path}: {}", answer.text);
        if !is_taken {
            assert_eq!(answer.problem(), (400, "bad_cursor".to_owned()));
        }
    };
    check("/traces?version=1.4.0", true).await;
    check("/traces?limit=9&version=1.4.0", true).await;
    check("/traces?version=1.5.0", false).await;
    check("/traces?version=1.4.0&sort=slowest", false).await;
    for cursor in ["x", "!", "", "AAAA"] {
        let answer = harness.ask(&format!("/traces?cursor={cursor}")).await;
        assert_eq!(answer.problem(), (400, "bad_cursor".to_owned()));
    }
}

/// Queries that run until they are told to end.
struct Asking {
    harness: Harness,
    begun: mpsc::Sender<u32>,
    begins: mpsc::Receiver<u32>,
    ends: Vec<mpsc::Sender<()>>,
    asking: Vec<JoinHandle<Result<(), ApiProblem>>>,
}

impl Asking {
    fn new() -> Self {
        let (begun, begins) = mpsc::channel();
        Self { harness: Harness::filled(), begun, begins, ends: Vec::new(), asking: Vec::new() }
    }

    /// Queries for a peer's connection; returns true if it gets a place.
    async fn ask(&mut self, peer: u32, connection: u16) -> bool {
        let (end, ended) = mpsc::channel::<()>();
        let readers = Arc::clone(&self.harness.api.readers);
        let begun = self.begun.clone();
        let sender = Sender { peer, connection, ..Sender::default() };
        let mut question = Box::pin(async move {
            let answer = move |_: &_| {
                begun.send(peer).unwrap();
                let _ = ended.recv();
                Ok(())
            };
            readers.ask(sender, answer).await
        });
        // Polled once: it takes its place, in order.
        let is_waiting = poll_fn(|cx| Poll::Ready(question.as_mut().poll(cx).is_pending())).await;
        if is_waiting {
            self.ends.push(end);
            self.asking.push(tokio::spawn(question));
        }
        is_waiting
    }

    /// Returns the peers of the next `count` started queries.
    fn begun(&self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.begins.recv().unwrap()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_that_asks_without_end_leaves_a_reader_and_places_to_others() {
    let mut asking = Asking::new();
    let mut of_flood = 0;
    while asking.ask(1, of_flood + 1).await {
        of_flood += 1;
    }
    let places = READERS_MAX + WAITING_MAX;
    // Four times the rest for others.
    assert_eq!(usize::from(of_flood), places / 5 * 4);
    assert_eq!(asking.begun(OF_PEER_MAX), [1; OF_PEER_MAX]);
    assert!(asking.ask(2, 1).await && asking.ask(2, 2).await);
    assert_eq!(asking.begun(1), [2], "the last reader is another's");
    // The other peer gets one of the next two turns.
    asking.ends.drain(..2);
    let mut next = asking.begun(2);
    next.sort_unstable();
    assert_eq!(next, [1, 2]);
    asking.ends.clear();
    for question in asking.asking {
        question.await.unwrap().unwrap();
    }
    assert_eq!(asking.harness.ask("/traces").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn four_ask_at_once_and_who_comes_after_thirty_two_waiting_is_told() {
    let mut asking = Asking::new();
    for peer in 1..=(READERS_MAX + WAITING_MAX) as u32 {
        assert!(asking.ask(peer, 1).await);
    }
    asking.begun(READERS_MAX);
    assert!(asking.begins.try_recv().is_err());
    let answer = asking.harness.ask("/traces").await;
    assert_eq!(answer.problem(), (429, "too_busy".to_owned()));
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!(asking.harness.api.counters.get(RequestRefusal::Busy), 1);
    // A client that leaves frees its place.
    let gone = asking.asking.pop().unwrap();
    gone.abort();
    assert!(gone.await.is_err());
    assert!(asking.ask(99, 1).await);
    asking.ends.clear();
    for question in asking.asking {
        question.await.unwrap().unwrap();
    }
    assert_eq!(asking.harness.ask("/traces").await.status, 200);
}

#[tokio::test]
async fn answers_that_nobody_reads_leave_room_for_those_of_another() {
    let harness = Harness::filled();
    harness.bodies.resize(4 << 20);
    let ask = async |peer: u32, connection: u16| {
        let mut request = request(
            "GET",
            "/api/v1/evaluations?limit=100",
            &[("authorization", &harness.bearer())],
        );
        request.extensions_mut().insert(Sender { peer, connection, ..Sender::default() });
        harness.router.clone().oneshot(request).await.unwrap()
    };
    let mut unread = Vec::new();
    let refused = loop {
        let answer = ask(1, unread.len() as u16 + 1).await;
        if answer.status() != 200 {
            break answer;
        }
        unread.push(answer);
        assert!(unread.len() < 100, "they are not counted");
    };
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(harness.api.counters.get(RequestRefusal::BytesFull), 1);
    assert!((512 << 10..=1 << 20).contains(&harness.bodies.held()), "a quarter of the quota");
    assert_eq!(ask(2, 1).await.status(), 200);
    // Room for the answer is reserved before the change.
    for (peer, is_refused) in [(1, true), (2, false)] {
        let bearer = harness.bearer();
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let mut request = request("POST", "/api/v1/annotations", &headers);
        *request.body_mut() = Body::from(r#"{"trace_id":"x","label":"fail"}"#);
        request.extensions_mut().insert(Sender { peer, ..Sender::default() });
        let (_, kind) = harness.send(request).await.problem();
        assert_eq!(kind == "bytes_full", is_refused, "{peer}: {kind}");
    }
    drop(unread);
    assert_eq!(harness.bodies.held(), 0);
    harness.bodies.resize(4096);
    let answer = harness.ask("/evaluations?limit=100").await;
    assert_eq!(answer.problem(), (422, "too_large".to_owned()), "it would never fit");
}

#[tokio::test]
async fn the_sixty_fifth_stream_is_refused_and_one_peer_has_not_all() {
    let harness = Harness::with(DashboardSettings::default());
    let sender = |peer| Sender { peer, connection: 1, ..Sender::default() };
    let held: Vec<_> = (1..=STREAMS_MAX as u32)
        .map(|peer| harness.api.streams.take(sender(peer), 1).unwrap())
        .collect();
    let answer = harness.ask("/stream").await;
    assert_eq!(answer.problem(), (429, "too_busy".to_owned()));
    drop(held);
    let of = |connection| Sender { connection, ..sender(1) };
    let held: Vec<_> =
        (1..).map_while(|connection| harness.api.streams.take(of(connection), 1)).collect();
    assert_eq!(held.len(), STREAMS_MAX / 5 * 4 + 3);
    assert!(harness.api.streams.take(sender(2), 1).is_some());
}

#[tokio::test]
async fn files_are_compressed_for_those_that_take_gzip() {
    let harness = Harness::with(DashboardSettings::default());
    for (accepted, is_compressed) in [
        ("gzip, deflate, br", true),
        ("gzip", true),
        ("br", false),
        ("gzip;q=0", false),
        ("", false),
    ] {
        let request = request("GET", "/", &[("accept-encoding", accepted)]);
        let response = harness.router.clone().oneshot(request).await.unwrap();
        let encoding = response.headers().get("content-encoding").cloned();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let mut page = String::new();
        match encoding.as_ref().map(|it| it.as_bytes()) {
            Some(b"gzip") => GzDecoder::new(&body[..]).read_to_string(&mut page).unwrap(),
            _ => (&body[..]).read_to_string(&mut page).unwrap(),
        };
        assert_eq!((encoding.is_some(), page.as_str()), (is_compressed, "<p>page"), "{accepted}");
    }
}
