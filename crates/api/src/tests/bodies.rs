//! Tests of request bodies: held bytes and time limits.

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::{Request, StatusCode};
use spanscore_base::model::Sender;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tower::ServiceExt;

use super::{DashboardSettings, Harness};
use crate::RequestRefusal;
use crate::body::BODY_TIME_MAX;

/// Bytes of the received part of a body.
const PART_BYTES: usize = 64 << 10;

/// Rest of a partial body, which ends when this is dropped.
type Rest = mpsc::UnboundedSender<Result<Bytes, std::io::Error>>;

/// Makes a request on a peer's connection with a partial body.
fn begun(harness: &Harness, path: &str, (peer, connection): (u32, u16)) -> (Rest, Request<Body>) {
    let (rest, parts) = mpsc::unbounded_channel();
    rest.send(Ok(vec![b' '; PART_BYTES].into())).unwrap();
    let request = Request::post(format!("/api/v1{path}"))
        .header("host", "localhost:8890")
        .header("authorization", harness.bearer())
        .header("content-type", "application/json")
        .extension(Sender { peer, connection, ..Sender::default() });
    (rest, request.body(Body::from_stream(UnboundedReceiverStream::new(parts))).unwrap())
}

#[tokio::test]
async fn peer_of_many_connections_leaves_room_for_the_body_of_another() {
    for (path, answered) in [("/inspect", 200), ("/annotations", 400), ("/datasets/x/items", 400)] {
        let harness = Harness::with(DashboardSettings::default());
        harness.bodies.resize(16 * PART_BYTES);
        let mut flood: JoinSet<Result<Response, _>> = JoinSet::new();
        let mut rests = Vec::new();
        for connection in 1..=200 {
            let (rest, request) = begun(&harness, path, (1, connection));
            rests.push(rest);
            flood.spawn(harness.router.clone().oneshot(request));
        }
        // Four times the rest for others.
        for _ in 12..200 {
            let refused = flood.join_next().await.unwrap().unwrap().unwrap();
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
            assert_eq!(refused.headers()["retry-after"], "1");
        }
        assert_eq!(harness.api.counters.get(RequestRefusal::BytesFull), 188);
        assert_eq!(harness.bodies.held(), 12 * PART_BYTES);
        let (rest, request) = begun(&harness, path, (2, 1));
        drop(rest);
        let answer = harness.send(request).await;
        assert_eq!(answer.status.as_u16(), answered, "{path}: {}", answer.text);
        drop(rests);
        while flood.join_next().await.is_some() {}
        assert_eq!(harness.bodies.held(), 0, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn body_that_does_not_end_is_given_up() {
    let harness = Harness::with(DashboardSettings::default());
    let started = Instant::now();
    let (_rest, request) = begun(&harness, "/inspect", (1, 1));
    let answer = harness.send(request).await;
    assert_eq!(answer.problem(), (408, "too_slow".to_owned()));
    assert_eq!((started.elapsed(), harness.bodies.held()), (BODY_TIME_MAX, 0));
    assert_eq!(harness.api.counters.get(RequestRefusal::TooSlow), 1);
}
