//! Each limit, at it and one past.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::{Harness, request};
use crate::readers::{READERS_MAX, WAITING_MAX};
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

#[tokio::test(flavor = "multi_thread")]
async fn four_ask_at_once_and_who_comes_after_thirty_two_waiting_is_told() {
    let harness = Harness::filled();
    let mut ends = Vec::new();
    let mut asking = Vec::new();
    let (begun, begins) = mpsc::channel();
    for _ in 0..READERS_MAX + WAITING_MAX {
        let (end, ended) = mpsc::channel::<()>();
        let readers = Arc::clone(&harness.api.readers);
        let begun = begun.clone();
        ends.push(end);
        let mut question = Box::pin(async move {
            readers
                .ask(move |_| {
                    begun.send(()).unwrap();
                    let _ = ended.recv();
                    Ok(())
                })
                .await
        });
        // Polled once: it takes its place, in order.
        assert!(
            std::future::poll_fn(|cx| {
                let is_pending = question.as_mut().poll(cx).is_pending();
                std::task::Poll::Ready(is_pending)
            })
            .await
        );
        asking.push(question);
    }
    (0..READERS_MAX).for_each(|_| begins.recv().unwrap());
    assert!(begins.try_recv().is_err());
    let answer = harness.ask("/traces").await;
    assert_eq!(answer.problem(), (429, "too_busy".to_owned()));
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!(harness.api.counters.get(RequestRefusal::Busy), 1);
    drop(ends);
    for question in asking {
        question.await.unwrap();
    }
    assert_eq!(harness.ask("/traces").await.status, 200);
}

#[tokio::test]
async fn the_sixty_fifth_stream_is_refused() {
    let harness = Harness::with(DashboardSettings::default());
    harness.api.streams.store(STREAMS_MAX, Ordering::Relaxed);
    let answer = harness.ask("/stream").await;
    assert_eq!(answer.problem(), (429, "too_busy".to_owned()));
    assert_eq!(harness.api.streams.load(Ordering::Relaxed), STREAMS_MAX);
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
